// Runs _cuda_pass.cu on the host: the threads of a block are fibers, which take turns at barriers and shuffles.

#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

using std::erf;
using std::exp;
using std::fabs;
using std::fmax;
using std::log;
using std::log1p;

struct Dim {
    int x;
};
static Dim threadIdx, blockIdx, blockDim, gridDim;

struct uint4 {
    unsigned x, y, z, w;
};
template <class T>
static T __ldcs(const T* place) {
    return *place;
}
static double* shared_of_block;

namespace host {
struct Fiber {
    ucontext_t context;  // it begins with this, and goes on by jumps, which ask nothing of the kernel
    jmp_buf place;
    std::unique_ptr<char[]> stack;
    bool begun = false, ended = false;
};
struct Barrier {
    int arrived = 0;
    long generation = 0;
};

static jmp_buf scheduler;
static std::vector<Fiber> fibers;
static std::vector<Barrier> warps;
static Barrier block;
static std::vector<double> exchanged;
static std::vector<char> votes;
static std::function<void()> body;

static void yield() {
    if (!_setjmp(fibers[threadIdx.x].place)) _longjmp(scheduler, 1);
}

static void resume(Fiber& fiber) {
    if (_setjmp(scheduler)) return;
    if (fiber.begun) _longjmp(fiber.place, 1);
    fiber.begun = true;
    setcontext(&fiber.context);
}

static void wait(Barrier& barrier, int size) {
    const long generation = barrier.generation;
    if (++barrier.arrived == size) {
        barrier.arrived = 0;
        barrier.generation++;
    }
    while (barrier.generation == generation) yield();
}

static void enter() {
    body();
    fibers[threadIdx.x].ended = true;
    _longjmp(scheduler, 1);
}

static void launch(int n_blocks, int n_threads, size_t n_shared, std::function<void()> kernel) {
    std::vector<double> memory(n_shared / sizeof(double) + 1);
    body = kernel;
    blockDim.x = n_threads;
    gridDim.x = n_blocks;
    for (blockIdx.x = 0; blockIdx.x < n_blocks; blockIdx.x++) {
        std::fill(memory.begin(), memory.end(), NAN);  // what is read was written
        shared_of_block = memory.data();
        fibers.clear();
        fibers.resize(n_threads);
        warps.assign(n_threads / 32, Barrier());
        block = Barrier();
        exchanged.assign(n_threads, NAN);
        votes.assign(n_threads, 0);
        for (auto& fiber : fibers) {
            getcontext(&fiber.context);
            fiber.stack.reset(new char[1 << 16]);
            fiber.context.uc_stack.ss_sp = fiber.stack.get();
            fiber.context.uc_stack.ss_size = 1 << 16;
            makecontext(&fiber.context, enter, 0);
        }
        for (bool running = true; running;) {
            running = false;
            for (int i = 0; i < n_threads; i++) {
                if (fibers[i].ended) continue;
                threadIdx.x = i;
                resume(fibers[i]);
                running = true;
            }
        }
    }
}
}  // namespace host

static void __syncthreads() { host::wait(host::block, blockDim.x); }

static int __syncthreads_count(bool vote) {
    host::votes[threadIdx.x] = vote;
    host::wait(host::block, blockDim.x);
    const int count = std::accumulate(host::votes.begin(), host::votes.end(), 0);
    host::wait(host::block, blockDim.x);
    return count;
}

static double __shfl_xor_sync(unsigned, double value, int lane) {
    const int own = threadIdx.x, warp = own / 32;
    host::exchanged[own] = value;
    host::wait(host::warps[warp], 32);
    const double other = host::exchanged[own ^ lane];
    host::wait(host::warps[warp], 32);
    return other;
}

#define __device__
#define __global__
#define __launch_bounds__(...)
#define SHARED_MEMORY double* shared_memory = shared_of_block;
#include CUDA_SOURCE

extern "C" void run_pass(
    int n_blocks, int n_threads, long n_shared, const REAL* X, const Index* offsets, const double* y,
    const double* sample_weight, int loss, int kind, int normalised, double offset, const double* key,
    const double* value, double intercept, int D, int tile, int width, int groups, int sums_apart,
    const Index* first_tokens, const Index* first_sequences, double* gradients, double* scalars, double* part_stats, double* part_sums) {
    host::launch(n_blocks, n_threads, n_shared, [=] {
        attention_pass(
            X, offsets, y, sample_weight, loss, kind, normalised, offset, key, value, intercept, D, tile, width,
            groups, sums_apart, first_tokens, first_sequences, gradients, scalars, part_stats, part_sums);
    });
}

extern "C" void run_merge(
    int n_blocks, int n_threads, const Index* sequences, const Index* first_pieces, const Index* pieces,
    const double* y, const double* sample_weight, int loss, int normalised, double intercept, int D,
    const double* part_stats, const double* part_sums, double* gradients, double* scalars) {
    host::launch(n_blocks, n_threads, 0, [=] {
        merge_cut_sequences(
            sequences, first_pieces, pieces, y, sample_weight, loss, normalised, intercept, D, part_stats, part_sums,
            gradients, scalars);
    });
}
