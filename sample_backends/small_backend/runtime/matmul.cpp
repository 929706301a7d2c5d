// The matrix product, as BLIS does it: blocks of both matrices are copied into panels that lie in memory as they are read, and a small
// kernel keeps a tile of the result in vector registers. Any strides are fine, since the copies get rid of them.
//
//     out[m, n] = alpha · Σ a[m, k] b[k, n]  +  beta · bias[m, n]
#include <algorithm>
#include <vector>

#include "kernels.h"

namespace small {
namespace {

// A tile of ROWS × COLUMNS accumulators leaves registers for the two vectors of b and one number of a.
#if defined(__AVX512F__)
constexpr int WIDTH = 16, ROWS = 12;
#elif defined(__AVX__)
constexpr int WIDTH = 8, ROWS = 6;
#else
constexpr int WIDTH = 4, ROWS = 4;
#endif
constexpr int COLUMNS = 2 * WIDTH;
typedef float Vector __attribute__((vector_size(WIDTH * sizeof(float))));

// A panel of b has BLOCK_K × COLUMNS floats (32 KB: the first cache), a block of a or b at most 2 MB.
constexpr std::int64_t BLOCK_K = 256, BLOCK_M = ROWS * 160, BLOCK_N = COLUMNS * 64;

struct Matrix {
    float* begin;
    std::int64_t rows, columns, row_stride, column_stride;
    float* at(std::int64_t row, std::int64_t column) const { return begin + row * row_stride + column * column_stride; }
};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Copies `count` lines of `depth` floats into a panel where the k-th floats of all lines lie together; missing lines become zeros.
template <int LINES>
void pack(float* panel, const float* from, std::int64_t count, std::int64_t line_stride, std::int64_t depth, std::int64_t depth_stride) {
    if (count == LINES && line_stride == 1) {
        for (std::int64_t k = 0; k < depth; k++) std::copy_n(from + k * depth_stride, LINES, panel + k * LINES);
        return;
    }
    for (std::int64_t line = 0; line < LINES; line++)
        for (std::int64_t k = 0; k < depth; k++)
            panel[k * LINES + line] = line < count ? from[line * line_stride + k * depth_stride] : 0.0f;
}

// tile = a panel × b panel.
void multiply_panels(float* tile, const float* a, const float* b, std::int64_t depth) {
    Vector sums[ROWS][2] = {};
    for (std::int64_t k = 0; k < depth; k++) {
        Vector left, right;
        __builtin_memcpy(&left, b + k * COLUMNS, sizeof left);
        __builtin_memcpy(&right, b + k * COLUMNS + WIDTH, sizeof right);
#pragma GCC unroll 16
        for (int row = 0; row < ROWS; row++) {
            const float factor = a[k * ROWS + row];
            sums[row][0] += factor * left;
            sums[row][1] += factor * right;
        }
    }
    __builtin_memcpy(tile, sums, sizeof sums);
}

struct Product {
    Matrix out, a, b, bias;  // bias.begin is null where there is none
    float alpha, beta;
};

// Adds a tile to the result; the first block of k brings the bias along.
void store(const Product& p, const float* tile, std::int64_t m, std::int64_t n, bool is_first) {
    const std::int64_t rows = std::min<std::int64_t>(ROWS, p.out.rows - m), columns = std::min<std::int64_t>(COLUMNS, p.out.columns - n);
    for (std::int64_t i = 0; i < rows; i++) {
        float* out = p.out.at(m + i, n);
        const float* sums = tile + i * COLUMNS;
        const std::int64_t step = p.out.column_stride, bias_step = p.bias.column_stride;
        if (!is_first) {
            for (std::int64_t j = 0; j < columns; j++) out[j * step] += p.alpha * sums[j];
        } else if (p.bias.begin) {
            const float* bias = p.bias.at(m + i, n);
            for (std::int64_t j = 0; j < columns; j++) out[j * step] = p.alpha * sums[j] + p.beta * bias[j * bias_step];
        } else {
            for (std::int64_t j = 0; j < columns; j++) out[j * step] = p.alpha * sums[j];
        }
    }
}

float* scratch(std::vector<float>& memory, std::int64_t floats) {
    if (std::int64_t(memory.size()) < floats) memory.resize(std::size_t(floats));
    return memory.data();
}

void product_of_block(const Product& p, std::int64_t m0, std::int64_t n0, std::int64_t k0, int threads) {
    thread_local std::vector<float> memory_a, memory_b;
    const std::int64_t rows = std::min(BLOCK_M, p.out.rows - m0), columns = std::min(BLOCK_N, p.out.columns - n0);
    const std::int64_t depth = std::min(BLOCK_K, p.a.columns - k0);
    const std::int64_t panels_a = ceil_div(rows, ROWS), panels_b = ceil_div(columns, COLUMNS);
    float* const a = scratch(memory_a, panels_a * ROWS * depth);
    float* const b = scratch(memory_b, panels_b * COLUMNS * depth);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
#pragma omp for nowait
        for (std::int64_t i = 0; i < panels_a; i++)
            pack<ROWS>(a + i * ROWS * depth, p.a.at(m0 + i * ROWS, k0), std::min<std::int64_t>(ROWS, rows - i * ROWS), p.a.row_stride, depth, p.a.column_stride);
#pragma omp for
        for (std::int64_t j = 0; j < panels_b; j++)
            pack<COLUMNS>(b + j * COLUMNS * depth, p.b.at(k0, n0 + j * COLUMNS), std::min<std::int64_t>(COLUMNS, columns - j * COLUMNS), p.b.column_stride, depth, p.b.row_stride);
#pragma omp for
        for (std::int64_t task = 0; task < panels_a * panels_b; task++) {
            alignas(64) float tile[ROWS * COLUMNS];
            const std::int64_t i = task % panels_a, j = task / panels_a;
            multiply_panels(tile, a + i * ROWS * depth, b + j * COLUMNS * depth, depth);
            store(p, tile, m0 + i * ROWS, n0 + j * COLUMNS, k0 == 0);
        }
    }
}

void product(const Product& p, int threads) {
    for (std::int64_t n = 0; n < p.out.columns; n += BLOCK_N)
        for (std::int64_t m = 0; m < p.out.rows; m += BLOCK_M)
            for (std::int64_t k = 0; k < p.a.columns; k += BLOCK_K) product_of_block(p, m, n, k, threads);
}

}  // namespace

void matmul(const Call& call) {
    const int m = call.outer(), n = m + 1, k = m + 2;
    const auto matrix = [&](int operand, std::int64_t round, int row, int column) {
        return Matrix{call.at(operand, round), call.size(row), call.size(column), call.stride(operand, row), call.stride(operand, column)};
    };
    const std::int64_t rounds = call.rounds(), work = call.size(m) * call.size(n) * call.size(k);
    const auto one = [&](std::int64_t round, int threads) {
        product({matrix(0, round, m, n), matrix(1, round, m, k), matrix(2, round, k, n), matrix(3, round, m, n),
                 float(call.instruction.scalars[0]), float(call.instruction.scalars[1])}, threads);
    };
    const bool in_turns = rounds == 1 || work > (1 << 22);  // few large products share the threads, many small ones are shared out
    if (in_turns) {
        for (std::int64_t round = 0; round < rounds; round++) one(round, work > (1 << 16) ? call.threads : 1);
        return;
    }
#pragma omp parallel for num_threads(call.threads) if (rounds * work > (1 << 16))
    for (std::int64_t round = 0; round < rounds; round++) one(round, 1);
}

}  // namespace small
