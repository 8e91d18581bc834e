// One pass over the tokens on a GPU: the deviance and its gradient, as _cpu.py computes them.
//
// A block of threads walks over a share of the tokens, a tile at a time: as many rows as fit into shared memory.
// A tile is read from memory once: its scores and token values first, some rows per warp, then, from shared memory,
// its part of X^T g. Sequences that lie in a tile as a whole are finished there. Of longer ones the sums of
// _cpu.py run along (maximum, Z, F, O = sum d z, S_kz, S_v, S_k); one that several blocks hold in part is finished by
// merge_cut_sequences. All but the tokens is double.
//
// What keeps memory busy: loads of 16 bytes, several rows at a time, so that an entry of the key and the value serves
// them all; a thread that adds up several features, so that a coefficient does; and two blocks on a multiprocessor,
// one of which reads while the other computes.
//
// REAL is the type of the tokens. The file is also compiled as C++, where tests give it threads of the host.

#ifndef REAL
#define REAL double
#endif
#ifndef SHARED_MEMORY
#define SHARED_MEMORY extern __shared__ __align__(16) double shared_memory[];
#endif

typedef long long Index;

#define LOWEST -1.7976931348623157e308  // below every potential; its exponential less any of them is 0

enum { SOFTMAX = 0, LINEAR = 1, ERF = 2, SOFTPLUS = 3 };
enum { SQUARED = 0 };
enum { MAXIMUM = 0, Z = 1, F = 2, O = 3 };  // what is known of a sequence in part

enum { ROWS_AT_ONCE = 2, STEPS_AT_ONCE = 4 };  // of what a warp reads before it computes

// W numbers that one instruction reads.
template <int W>
struct alignas(W * sizeof(REAL)) Numbers {
    REAL x[W];
};

// Read from memory what is not needed again there.
template <int W>
__device__ static Numbers<W> read_once(const REAL* place) {
    Numbers<W> read;
    if (W == 1) {
        read.x[0] = __ldcs(place);
    } else {
        const uint4 bytes = __ldcs((const uint4*)place);
        memcpy(&read, &bytes, sizeof(read));
    }
    return read;
}

struct Model {
    int loss, kind, normalised;
    double offset, intercept;
};

__device__ static double clip_below(double x, double bound) { return x > bound ? x : bound; }

__device__ static double sigmoid_from(double x, double decay) { return (x >= 0.0 ? 1.0 : decay) / (1.0 + decay); }

// The potential u of a score and its slope u', as _compiled.potential.
__device__ static void potential(const Model& model, double score, double* u, double* slope) {
    *u = score;
    *slope = 1.0;
    if (model.kind == LINEAR) {
        *u = 1.0 + score;
    } else if (model.kind == ERF) {
        const double shifted = model.offset + score;
        *u = 1.0 + erf(shifted);
        *slope = 1.1283791670955126 * exp(-shifted * shifted);
    } else if (model.kind == SOFTPLUS && score >= -38.0) {
        const double decay = exp(-fabs(score));
        const double softplus = clip_below(score, 0.0) + log1p(decay);
        *u = log(softplus);
        *slope = sigmoid_from(score, decay) / softplus;
    }
}

// The deviance of a sequence and the residual, as _sequences.unit_deviance.
__device__ static double unit_deviance(const Model& model, double y, double prediction, double* residual) {
    if (model.loss == SQUARED) {
        *residual = y - prediction;
        return *residual * *residual;
    }
    const double decay = exp(-fabs(prediction));
    *residual = y - sigmoid_from(prediction, decay);
    return 2.0 * (clip_below(prediction, 0.0) - y * prediction + log1p(decay));
}

__device__ static double sum_of_warp(double x) {
    for (int lane = 16; lane > 0; lane /= 2) x += __shfl_xor_sync(0xffffffffu, x, lane);
    return x;
}

__device__ static double maximum_of_warp(double x) {
    for (int lane = 16; lane > 0; lane /= 2) x = fmax(x, __shfl_xor_sync(0xffffffffu, x, lane));
    return x;
}

// Room in shared memory. Rows of a tile are dealt out to groups of threads; each has sums of its own.
struct Room {
    double* gradient;  // (groups, 2, D)
    double* sums;      // (groups, 3, D): S_kz, S_v, S_k of a long sequence
    double *scores, *token_values, *p, *d;  // (tile,)
    double *factors, *shifts;               // (tile,): of a sequence, where its first token is
    double* stats;                          // (4,), and the factor of what came before
    double* threads;                        // (blockDim, 3)
    int* firsts;                            // (tile,): the first token of the sequence of every token
    REAL* rows;                             // (tile, D)
};

// Read the rows of a tile into shared memory, and their products with the key and the value: some rows per warp.
template <int W>
__device__ static void load_tile(
    const REAL* __restrict__ X, int D, Index first, int n, const double* __restrict__ key,
    const double* __restrict__ value, const Room& room) {
    const int lane = threadIdx.x % 32, stride = blockDim.x / 32 * ROWS_AT_ONCE;
    for (int i = threadIdx.x / 32 * ROWS_AT_ONCE; i < n; i += stride) {
        const REAL* __restrict__ row = X + (first + i) * D;
        REAL* __restrict__ place = room.rows + i * D;
        const int held = n - i < ROWS_AT_ONCE ? n - i : ROWS_AT_ONCE;
        double score[ROWS_AT_ONCE] = {}, token_value[ROWS_AT_ONCE] = {};
        for (int start = W * lane; start < D; start += STEPS_AT_ONCE * 32 * W) {
            Numbers<W> read[STEPS_AT_ONCE][ROWS_AT_ONCE] = {};
#pragma unroll
            for (int step = 0; step < STEPS_AT_ONCE; step++)
#pragma unroll
                for (int r = 0; r < ROWS_AT_ONCE; r++) {
                    const int j = start + step * 32 * W;
                    if (r < held && j < D) read[step][r] = read_once<W>(row + (Index)r * D + j);
                }
#pragma unroll
            for (int step = 0; step < STEPS_AT_ONCE; step++) {
                const int j = start + step * 32 * W;
                if (j >= D) break;
#pragma unroll
                for (int r = 0; r < ROWS_AT_ONCE; r++)
                    if (r < held) *(Numbers<W>*)(place + r * D + j) = read[step][r];
#pragma unroll
                for (int w = 0; w < W; w++) {
                    const double k = key[j + w], v = value[j + w];
#pragma unroll
                    for (int r = 0; r < ROWS_AT_ONCE; r++) {
                        const double x = read[step][r].x[w];
                        score[r] += x * k;
                        token_value[r] += x * v;
                    }
                }
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS_AT_ONCE; r++) {
            const double score_of_row = sum_of_warp(score[r]), value_of_row = sum_of_warp(token_value[r]);
            if (lane == 0 && r < held) {
                room.scores[i + r] = score_of_row;
                room.token_values[i + r] = value_of_row;
            }
        }
    }
    __syncthreads();
}

__device__ static void potentials(const Model& model, int n, const Room& room) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) potential(model, room.scores[i], room.p + i, room.d + i);
    __syncthreads();
}

// A sequence that lies in a tile as a whole.
struct Sequence {
    int start, stop;  // rows of the tile
    double y, weight;
};

// Turn scores and token values of whole sequences, one of which every thread may have, into coefficients of the
// gradient: a thread per token or, for sums and maxima, per sequence.
__device__ static void finish_sequences(
    const Model& model, const Sequence& sequence, int n, const Room& room, double* scalars) {
    const int start = sequence.start, stop = sequence.stop;
    potentials(model, n, room);
    double *p = room.p, *d = room.d, *token_values = room.token_values;
    if (start < stop) {
        double top = LOWEST;
        for (int i = start; i < stop; i++) {
            room.firsts[i] = start;
            top = fmax(top, p[i]);
        }
        room.factors[start] = top;
    }
    __syncthreads();
    if (model.normalised) {
        for (int i = threadIdx.x; i < n; i += blockDim.x) {
            p[i] = exp(p[i] - room.factors[room.firsts[i]]);
            d[i] *= p[i];
        }
        __syncthreads();
    }
    if (start < stop) {
        double total = 0.0, sum = 0.0, slope = 0.0;
        for (int i = start; i < stop; i++) {
            total += p[i];
            sum += p[i] * token_values[i];
            slope += d[i] * token_values[i];
        }
        const double divisor = model.normalised ? total : 1.0, f = sum / divisor, weight = sequence.weight;
        double residual;
        scalars[0] += weight * unit_deviance(model, sequence.y, model.intercept + f, &residual);
        scalars[1] -= 2.0 * weight * residual;
        room.factors[start] = -2.0 * weight * residual / divisor;
        room.shifts[start] = model.normalised ? f : 0.0;
        scalars[2] += room.factors[start] * slope;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const double factor = room.factors[room.firsts[i]], shift = room.shifts[room.firsts[i]];
        room.scores[i] = factor * d[i] * (token_values[i] - shift);
        token_values[i] = factor * p[i];
    }
    __syncthreads();
}

// Add the products of K rows of coefficients with the tokens to K rows of sums of every group, times `factor` before.
template <int W, int K>
__device__ static void add_products(
    int D, int groups, int n, const REAL* rows, const double* const (&coefficients)[K], double factor, double* sums) {
    const int columns = D / W;
    for (int u = threadIdx.x; u < groups * columns; u += blockDim.x) {
        const int group = u / columns, j = u % columns * W;
        double own[K][W] = {};
#pragma unroll 2
        for (int i = group; i < n; i += groups) {
            const Numbers<W> read = *(const Numbers<W>*)(rows + i * D + j);
#pragma unroll
            for (int k = 0; k < K; k++) {
                const double coefficient = coefficients[k][i];
#pragma unroll
                for (int w = 0; w < W; w++) own[k][w] += coefficient * read.x[w];
            }
        }
#pragma unroll
        for (int k = 0; k < K; k++) {
            double* sum = sums + (group * K + k) * D + j;
#pragma unroll
            for (int w = 0; w < W; w++) sum[w] = factor * sum[w] + own[k][w];
        }
    }
    __syncthreads();
}

// Add a tile of one long sequence to its running sums.
template <int W>
__device__ static void absorb_tile(const Model& model, int D, int groups, int n, const Room& room) {
    potentials(model, n, room);
    double *p = room.p, *d = room.d, *stats = room.stats;
    if (threadIdx.x < 32) {
        double top = stats[MAXIMUM], total = 0.0, sum = 0.0, slope = 0.0;
        if (model.normalised) {
            for (int i = threadIdx.x; i < n; i += 32) top = fmax(top, p[i]);
            top = maximum_of_warp(top);
        }
        for (int i = threadIdx.x; i < n; i += 32) {
            if (model.normalised) {
                p[i] = exp(p[i] - top);
                d[i] *= p[i];
            }
            total += p[i];
            sum += p[i] * room.token_values[i];
            slope += d[i] * room.token_values[i];
            room.scores[i] = d[i] * room.token_values[i];
        }
        total = sum_of_warp(total);
        sum = sum_of_warp(sum);
        slope = sum_of_warp(slope);
        if (threadIdx.x == 0) {
            const double factor = model.normalised ? exp(stats[MAXIMUM] - top) : 1.0;
            stats[Z] = model.normalised ? factor * stats[Z] + total : 1.0;
            stats[F] = factor * stats[F] + sum;
            stats[O] = factor * stats[O] + slope;
            stats[MAXIMUM] = top;
            stats[4] = factor;
        }
    }
    __syncthreads();
    const double* const coefficients[3] = {room.scores, p, d};
    add_products<W, 3>(D, groups, n, room.rows, coefficients, stats[4], room.sums);
}

__device__ static double sum_of_groups(int groups, int stride, const double* sums) {
    double total = 0.0;
    for (int group = 0; group < groups; group++) total += sums[group * stride];
    return total;
}

// Add a finished long sequence to the gradient of the first group.
__device__ static void close_sequence(
    const Model& model, int D, int groups, double y, double weight, const Room& room, double* scalars) {
    const double* stats = room.stats;
    const double f = stats[F] / stats[Z], shift = model.normalised ? f : 0.0;
    double residual;
    const double deviance = unit_deviance(model, y, model.intercept + f, &residual);
    const double factor = -2.0 * weight * residual / stats[Z];
    for (int j = threadIdx.x; j < D; j += blockDim.x) {
        double sums[3];
        for (int k = 0; k < 3; k++) sums[k] = sum_of_groups(groups, 3 * D, room.sums + k * D + j);
        room.gradient[j] += factor * (sums[0] - shift * sums[2]);
        room.gradient[D + j] += factor * sums[1];
    }
    if (threadIdx.x == 0) {
        scalars[0] += weight * deviance;
        scalars[1] -= 2.0 * weight * residual;
        scalars[2] += factor * stats[O];
    }
}

// Evaluate the share of a block; see attention_pass.
template <int W>
__device__ static void evaluate_share(
    const REAL* X, const Index* offsets, const double* y, const double* sample_weight, const Model& model,
    const double* key, const double* value, int D, int tile, int groups, Index token, Index end, Index sequence,
    Index n_sequences, double* part_stats, double* part_sums, const Room& room, double* scalars) {
    while (token < end) {
        if (offsets[sequence + 1] - offsets[sequence] <= tile) {
            // Sequences that fit into one tile: every thread looks at one.
            const Index s = sequence + threadIdx.x;
            Sequence own = {0, 0, 0.0, 0.0};
            if (threadIdx.x < tile && s < n_sequences) {
                const Index stop = offsets[s + 1];
                if (stop <= end && stop - token <= tile)
                    own = {(int)(offsets[s] - token), (int)(stop - token), y[s], sample_weight[s]};
            }
            const Index last = sequence + __syncthreads_count(own.start < own.stop);
            const int n = (int)(offsets[last] - token);
            load_tile<W>(X, D, token, n, key, value, room);
            finish_sequences(model, own, n, room, scalars);
            const double* const coefficients[2] = {room.scores, room.token_values};
            add_products<W, 2>(D, groups, n, room.rows, coefficients, 1.0, room.gradient);
            sequence = last;
            token = offsets[last];
            continue;
        }
        const Index stop = offsets[sequence + 1] < end ? offsets[sequence + 1] : end;
        const bool whole = token == offsets[sequence] && stop == offsets[sequence + 1];
        for (int j = threadIdx.x; j < groups * 3 * D; j += blockDim.x) room.sums[j] = 0.0;
        if (threadIdx.x < 4) room.stats[threadIdx.x] = threadIdx.x == MAXIMUM ? LOWEST : 0.0;
        __syncthreads();
        for (Index first = token; first < stop; first += tile) {
            const int n = (int)(stop - first < tile ? stop - first : tile);
            load_tile<W>(X, D, first, n, key, value, room);
            absorb_tile<W>(model, D, groups, n, room);
        }
        if (whole) {
            close_sequence(model, D, groups, y[sequence], sample_weight[sequence], room, scalars);
        } else {
            const Index piece = 3 * (Index)blockIdx.x + (token == offsets[sequence]);
            for (int j = threadIdx.x; j < 3 * D; j += blockDim.x)
                part_sums[piece * 3 * D + j] = sum_of_groups(groups, 3 * D, room.sums + j);
            if (threadIdx.x < 4) part_stats[piece * 4 + threadIdx.x] = room.stats[threadIdx.x];
        }
        __syncthreads();
        token = stop;
        sequence++;
    }
}

// Evaluate the share of every block: the tokens first_tokens[b] to first_tokens[b + 1], of which the first belongs to
// first_sequences[b]; the number of sequences comes last there. `gradients` (blocks, 2, D) and `scalars` (blocks, 3:
// deviance, d/db, d/dc) are of the sequences that lie in the share as a whole; of one that the first bound cuts, or
// both, slot 0 of part_stats (blocks, 3, 4) and part_sums (blocks, 3, 3, D) holds the rest, of one that only the last
// bound cuts slot 1. A thread reads `width` features at once, 1 or those of 16 bytes; there are `groups` of D / width
// threads, or one. A tile has at most blockDim rows. Shared memory: 8 + 3 blockDim + 7 tile + 5 groups D doubles, then
// tile rows from a multiple of 16 bytes on. With `sums_apart`, for which there is one group, 3 D of these doubles are
// slot 2 of part_sums instead.
extern "C" __global__ void __launch_bounds__(256, 2) attention_pass(
    const REAL* X, const Index* offsets, const double* y, const double* sample_weight, int loss, int kind,
    int normalised, double offset, const double* key, const double* value, double intercept, int D, int tile, int width,
    int groups, int sums_apart, const Index* first_tokens, const Index* first_sequences, double* gradients, double* scalars,
    double* part_stats, double* part_sums) {
    SHARED_MEMORY
    Room room;
    room.stats = shared_memory;
    room.threads = room.stats + 8;
    room.scores = room.threads + 3 * blockDim.x;
    room.token_values = room.scores + tile;
    room.p = room.token_values + tile;
    room.d = room.p + tile;
    room.factors = room.d + tile;
    room.shifts = room.factors + tile;
    room.firsts = (int*)(room.shifts + tile);
    room.gradient = room.shifts + 2 * tile;
    room.sums = room.gradient + groups * 2 * D;
    double* rest = room.sums + (sums_apart ? 0 : groups * 3 * D);
    if (sums_apart) room.sums = part_sums + ((Index)blockIdx.x * 3 + 2) * 3 * D;
    room.rows = (REAL*)(rest + (rest - shared_memory) % 2);
    const Model model = {loss, kind, normalised, offset, intercept};
    double* own = room.threads + 3 * threadIdx.x;
    own[0] = own[1] = own[2] = 0.0;
    for (int j = threadIdx.x; j < groups * 2 * D; j += blockDim.x) room.gradient[j] = 0.0;
    __syncthreads();

    const Index first = first_tokens[blockIdx.x], end = first_tokens[blockIdx.x + 1];
    const Index sequence = first_sequences[blockIdx.x], n_sequences = first_sequences[gridDim.x];
    if (width > 1)
        evaluate_share<16 / sizeof(REAL)>(
            X, offsets, y, sample_weight, model, key, value, D, tile, groups, first, end, sequence, n_sequences,
            part_stats, part_sums, room, own);
    else
        evaluate_share<1>(
            X, offsets, y, sample_weight, model, key, value, D, tile, groups, first, end, sequence, n_sequences,
            part_stats, part_sums, room, own);

    for (int j = threadIdx.x; j < 2 * D; j += blockDim.x)
        gradients[(Index)blockIdx.x * 2 * D + j] = sum_of_groups(groups, 2 * D, room.gradient + j);
    if (threadIdx.x < 3) {
        double total = 0.0;
        for (int i = 0; i < blockDim.x; i++) total += room.threads[3 * i + threadIdx.x];
        scalars[blockIdx.x * 3 + threadIdx.x] = total;
    }
}

// Finish the sequences that several blocks hold: block c that of sequences[c], whose pieces are the rows first_pieces[c]
// to first_pieces[c + 1] of pieces, each a place 3 b + slot. `gradients` (n, 2, D) and `scalars` (n, 3) are written.
extern "C" __global__ void merge_cut_sequences(
    const Index* sequences, const Index* first_pieces, const Index* pieces, const double* y,
    const double* sample_weight, int loss, int normalised, double intercept, int D, const double* part_stats,
    const double* part_sums, double* gradients, double* scalars) {
    const Model model = {loss, 0, normalised, 0.0, intercept};
    const Index first = first_pieces[blockIdx.x], last = first_pieces[blockIdx.x + 1];
    double top = 0.0, stats[4] = {0.0, 0.0, 0.0, 0.0};
    if (normalised) {
        top = LOWEST;
        for (Index i = first; i < last; i++) top = fmax(top, part_stats[pieces[i] * 4 + MAXIMUM]);
    }
    for (Index i = first; i < last; i++) {
        const double* piece = part_stats + pieces[i] * 4;
        const double factor = normalised ? exp(piece[MAXIMUM] - top) : 1.0;
        for (int k = Z; k <= O; k++) stats[k] += factor * piece[k];
    }
    if (!normalised) stats[Z] = 1.0;
    const Index sequence = sequences[blockIdx.x];
    const double f = stats[F] / stats[Z], shift = normalised ? f : 0.0;
    double residual;
    const double deviance = unit_deviance(model, y[sequence], intercept + f, &residual);
    const double weight = sample_weight[sequence], scale = -2.0 * weight * residual / stats[Z];
    for (int j = threadIdx.x; j < D; j += blockDim.x) {
        double sums[3] = {0.0, 0.0, 0.0};
        for (Index i = first; i < last; i++) {
            const double factor = normalised ? exp(part_stats[pieces[i] * 4 + MAXIMUM] - top) : 1.0;
            for (int k = 0; k < 3; k++) sums[k] += factor * part_sums[(pieces[i] * 3 + k) * D + j];
        }
        gradients[(Index)blockIdx.x * 2 * D + j] = scale * (sums[0] - shift * sums[2]);
        gradients[((Index)blockIdx.x * 2 + 1) * D + j] = scale * sums[1];
    }
    if (threadIdx.x == 0) {
        scalars[blockIdx.x * 3] = weight * deviance;
        scalars[blockIdx.x * 3 + 1] = -2.0 * weight * residual;
        scalars[blockIdx.x * 3 + 2] = scale * stats[O];
    }
}
