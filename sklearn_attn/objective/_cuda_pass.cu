// One pass over the tokens on a GPU: the deviance and its gradient, as _cpu.py computes them.
//
// A block of threads walks over a share of the tokens, a tile at a time: as many rows as fit into shared memory.
// A tile is read from memory once: its scores and token values first, a warp per row, then, from shared memory,
// its part of X^T g. Sequences that lie in a tile as a whole are finished there. Of longer ones the sums of
// _cpu.py run along (maximum, Z, F, O = sum d z, S_kz, S_v, S_k); one that several blocks hold in part is finished by
// merge_cut_sequences. All but the tokens is double.
//
// REAL is the type of the tokens. The file is also compiled as C++, where tests give it threads of the host.

#ifndef REAL
#define REAL double
#endif
#ifndef SHARED_MEMORY
#define SHARED_MEMORY extern __shared__ double shared_memory[];
#endif

typedef long long Index;

#define LOWEST -1.7976931348623157e308  // below every potential; its exponential less any of them is 0

enum { SOFTMAX = 0, LINEAR = 1, ERF = 2, SOFTPLUS = 3 };
enum { SQUARED = 0 };
enum { MAXIMUM = 0, Z = 1, F = 2, O = 3 };  // what is known of a sequence in part

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

// Read the rows of a tile into shared memory, and their products with the key and the value: a warp per row.
__device__ static void load_tile(
    const REAL* X, int D, Index first, int n, const double* key, const double* value, REAL* rows, double* scores,
    double* token_values) {
    const int lane = threadIdx.x % 32, n_warps = blockDim.x / 32;
    for (int i = threadIdx.x / 32; i < n; i += n_warps) {
        const REAL* row = X + (first + i) * D;
        double score = 0.0, token_value = 0.0;
        for (int j = lane; j < D; j += 32) {
            const REAL x = row[j];
            rows[i * D + j] = x;
            score += x * key[j];
            token_value += x * value[j];
        }
        score = sum_of_warp(score);
        token_value = sum_of_warp(token_value);
        if (lane == 0) {
            scores[i] = score;
            token_values[i] = token_value;
        }
    }
    __syncthreads();
}

// Turn scores and token values of a whole sequence into coefficients of the gradient: a thread per sequence.
__device__ static void finish_sequence(
    const Model& model, double y, double weight, int start, int stop, double* scores, double* token_values, double* p,
    double* d, double* scalars) {
    double top = model.normalised ? LOWEST : 0.0;
    for (int i = start; i < stop; i++) {
        potential(model, scores[i], p + i, d + i);
        if (model.normalised) top = fmax(top, p[i]);
    }
    double total = 0.0, sum = 0.0, slope = 0.0;
    for (int i = start; i < stop; i++) {
        if (model.normalised) {
            p[i] = exp(p[i] - top);
            d[i] *= p[i];
        }
        total += p[i];
        sum += p[i] * token_values[i];
        slope += d[i] * token_values[i];
    }
    const double divisor = model.normalised ? total : 1.0, f = sum / divisor;
    double residual;
    scalars[0] += weight * unit_deviance(model, y, model.intercept + f, &residual);
    scalars[1] -= 2.0 * weight * residual;
    const double factor = -2.0 * weight * residual / divisor, shift = model.normalised ? f : 0.0;
    scalars[2] += factor * slope;
    for (int i = start; i < stop; i++) {
        scores[i] = factor * d[i] * (token_values[i] - shift);
        token_values[i] = factor * p[i];
    }
}

// Add a tile of one long sequence to its running sums; stats are in shared memory, sums (4, D) in global memory.
__device__ static void absorb_tile(
    const Model& model, int D, int n, const REAL* rows, const double* scores, const double* token_values, double* p,
    double* d, double* stats, double* factors, double* sums) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) potential(model, scores[i], p + i, d + i);
    __syncthreads();
    if (threadIdx.x == 0) {
        double top = 0.0, total = 0.0, sum = 0.0, slope = 0.0;
        if (model.normalised) {
            top = stats[MAXIMUM];
            for (int i = 0; i < n; i++) top = fmax(top, p[i]);
        }
        for (int i = 0; i < n; i++) {
            if (model.normalised) {
                p[i] = exp(p[i] - top);
                d[i] *= p[i];
            }
            total += p[i];
            sum += p[i] * token_values[i];
            slope += d[i] * token_values[i];
        }
        factors[0] = model.normalised ? exp(stats[MAXIMUM] - top) : 1.0;
        stats[Z] = model.normalised ? factors[0] * stats[Z] + total : 1.0;
        stats[F] = factors[0] * stats[F] + sum;
        stats[O] = factors[0] * stats[O] + slope;
        stats[MAXIMUM] = top;
    }
    __syncthreads();
    for (int j = threadIdx.x; j < D; j += blockDim.x) {
        double sum_kz = 0.0, sum_v = 0.0, sum_k = 0.0;
        for (int i = 0; i < n; i++) {
            const double x = rows[i * D + j];
            sum_kz += d[i] * token_values[i] * x;
            sum_v += p[i] * x;
            sum_k += d[i] * x;
        }
        sums[j] = factors[0] * sums[j] + sum_kz;
        sums[D + j] = factors[0] * sums[D + j] + sum_v;
        sums[2 * D + j] = factors[0] * sums[2 * D + j] + sum_k;
    }
    __syncthreads();
}

// Add a finished long sequence to the gradient; every thread has features of its own.
__device__ static void close_sequence(
    const Model& model, int D, double y, double weight, const double* stats, const double* sums, double* gradient,
    double* scalars) {
    const double f = stats[F] / stats[Z], shift = model.normalised ? f : 0.0;
    double residual;
    const double deviance = unit_deviance(model, y, model.intercept + f, &residual);
    const double factor = -2.0 * weight * residual / stats[Z];
    for (int j = threadIdx.x; j < D; j += blockDim.x) {
        gradient[j] += factor * (sums[j] - shift * sums[2 * D + j]);
        gradient[D + j] += factor * sums[D + j];
    }
    if (threadIdx.x == 0) {
        scalars[0] += weight * deviance;
        scalars[1] -= 2.0 * weight * residual;
        scalars[2] += factor * stats[O];
    }
}

// Evaluate the share of every block: the tokens first_tokens[b] to first_tokens[b + 1], of which the first belongs to
// first_sequences[b]. `gradients` (blocks, 2, D) and `scalars` (blocks, 3: deviance, d/db, d/dc) are of the sequences
// that lie in the share as a whole; of one that the first bound cuts, or both, slot 0 of part_stats (blocks, 3, 4) and
// part_sums (blocks, 3, 3, D) holds the rest, of one that only the last bound cuts slot 1. Slot 2 is for long sequences
// that are whole. Shared memory: 2 D + 4 tile + 8 + 3 blockDim doubles, then tile rows.
extern "C" __global__ void attention_pass(
    const REAL* X, const Index* offsets, const double* y, const double* sample_weight, int loss, int kind,
    int normalised, double offset, const double* key, const double* value, double intercept, int D, int tile,
    const Index* first_tokens, const Index* first_sequences, double* gradients, double* scalars, double* part_stats,
    double* part_sums) {
    SHARED_MEMORY
    double* gradient = shared_memory;  // (2, D)
    double* scores = gradient + 2 * D;
    double* token_values = scores + tile;
    double* p = token_values + tile;
    double* d = p + tile;
    double* stats = d + tile;     // (4,)
    double* factors = stats + 4;  // (4,)
    double* threads = factors + 4;  // (blockDim, 3)
    REAL* rows = (REAL*)(threads + 3 * blockDim.x);
    const Model model = {loss, kind, normalised, offset, intercept};
    double* own = threads + 3 * threadIdx.x;
    own[0] = own[1] = own[2] = 0.0;
    for (int j = threadIdx.x; j < 2 * D; j += blockDim.x) gradient[j] = 0.0;
    __syncthreads();

    const Index end = first_tokens[blockIdx.x + 1];
    Index token = first_tokens[blockIdx.x], sequence = first_sequences[blockIdx.x];
    while (token < end) {
        if (offsets[sequence + 1] - offsets[sequence] <= tile) {
            Index last = sequence + 1;  // sequences that fit into one tile
            while (offsets[last] < end && offsets[last + 1] - token <= tile) last++;
            const int n = (int)(offsets[last] - token);
            load_tile(X, D, token, n, key, value, rows, scores, token_values);
            for (Index s = sequence + threadIdx.x; s < last; s += blockDim.x)
                finish_sequence(
                    model, y[s], sample_weight[s], (int)(offsets[s] - token), (int)(offsets[s + 1] - token), scores,
                    token_values, p, d, own);
            __syncthreads();
            for (int j = threadIdx.x; j < D; j += blockDim.x) {
                double key_sum = 0.0, value_sum = 0.0;
                for (int i = 0; i < n; i++) {
                    const double x = rows[i * D + j];
                    key_sum += scores[i] * x;
                    value_sum += token_values[i] * x;
                }
                gradient[j] += key_sum;
                gradient[D + j] += value_sum;
            }
            __syncthreads();
            sequence = last;
            token = offsets[last];
            continue;
        }
        const Index stop = offsets[sequence + 1] < end ? offsets[sequence + 1] : end;
        const int slot = token != offsets[sequence] ? 0 : (stop != offsets[sequence + 1] ? 1 : 2);
        double* sums = part_sums + ((Index)blockIdx.x * 3 + slot) * 3 * D;
        for (int j = threadIdx.x; j < 3 * D; j += blockDim.x) sums[j] = 0.0;
        if (threadIdx.x < 4) stats[threadIdx.x] = threadIdx.x == MAXIMUM ? LOWEST : 0.0;
        __syncthreads();
        for (Index first = token; first < stop; first += tile) {
            const int n = (int)(stop - first < tile ? stop - first : tile);
            load_tile(X, D, first, n, key, value, rows, scores, token_values);
            absorb_tile(model, D, n, rows, scores, token_values, p, d, stats, factors, sums);
        }
        if (slot == 2)
            close_sequence(model, D, y[sequence], sample_weight[sequence], stats, sums, gradient, own);
        else if (threadIdx.x < 4)
            part_stats[((Index)blockIdx.x * 3 + slot) * 4 + threadIdx.x] = stats[threadIdx.x];
        __syncthreads();
        token = stop;
        sequence++;
    }

    for (int j = threadIdx.x; j < 2 * D; j += blockDim.x) gradients[(Index)blockIdx.x * 2 * D + j] = gradient[j];
    if (threadIdx.x < 3) {
        double total = 0.0;
        for (int i = 0; i < blockDim.x; i++) total += threads[3 * i + threadIdx.x];
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
