// Kernels that need a whole row at once: softmax, layer norm, and what their backwards need. The one inner loop is the row; sums are
// taken in double, which costs little here and is at least as good as PyTorch's.
#include <algorithm>
#include <vector>

#include "functions.h"
#include "kernels.h"

namespace small {
namespace {

// Does `work(row)` for every round of the outer loops, on several threads where there is enough to do.
template <class F>
void for_each_row(const Call& call, F work) {
    const std::int64_t rows = call.rounds();
#pragma omp parallel for num_threads(call.threads) if (rows * call.size(call.outer()) > 16384)
    for (std::int64_t row = 0; row < rows; row++) work(row);
}

// An operand's row. With a stride of 1 the loop over it becomes vectors.
struct Row {
    float* begin;
    std::int64_t stride;
    float& operator[](std::int64_t k) const { return begin[k * stride]; }
};

struct DenseRow {
    float* begin;
    float& operator[](std::int64_t k) const { return begin[k]; }
};

Row row_of(const Call& call, int operand, std::int64_t row) { return {call.at(operand, row), call.stride(operand, call.outer())}; }

template <class OutRow, class InRow>
void softmax_of(OutRow out, InRow in, std::int64_t n) {
    float largest = in[0];
    for (std::int64_t k = 1; k < n; k++) largest = in[k] > largest || in[k] != in[k] ? in[k] : largest;
    double total = 0;
#pragma omp simd reduction(+ : total)
    for (std::int64_t k = 0; k < n; k++) {
        const float e = exponential(in[k] - largest);
        out[k] = e;
        total += e;
    }
    const float factor = float(1 / total);
#pragma omp simd
    for (std::int64_t k = 0; k < n; k++) out[k] *= factor;
}

}  // namespace

void softmax(const Call& call) {
    const std::int64_t n = call.size(call.outer());
    for_each_row(call, [&](std::int64_t row) {
        const Row out = row_of(call, 0, row), in = row_of(call, 1, row);
        if (out.stride == 1 && in.stride == 1) return softmax_of(DenseRow{out.begin}, DenseRow{in.begin}, n);
        softmax_of(out, in, n);
    });
}

void softmax_backward(const Call& call) {
    const std::int64_t n = call.size(call.outer());
    for_each_row(call, [&](std::int64_t row) {
        const Row out = row_of(call, 0, row), gradient = row_of(call, 1, row), result = row_of(call, 2, row);
        double total = 0;
#pragma omp simd reduction(+ : total)
        for (std::int64_t k = 0; k < n; k++) total += double(gradient[k]) * result[k];
        const float mean = float(total);
#pragma omp simd
        for (std::int64_t k = 0; k < n; k++) out[k] = result[k] * (gradient[k] - mean);
    });
}

void layer_norm(const Call& call) {
    const std::int64_t n = call.size(call.outer());
    const double epsilon = call.instruction.scalars[0];
    for_each_row(call, [&](std::int64_t row) {
        const Row out = row_of(call, 0, row), in = row_of(call, 3, row), weight = row_of(call, 4, row), bias = row_of(call, 5, row);
        double total = 0, squares = 0;
#pragma omp simd reduction(+ : total)
        for (std::int64_t k = 0; k < n; k++) total += in[k];
        const double mean = total / double(n);
#pragma omp simd reduction(+ : squares)
        for (std::int64_t k = 0; k < n; k++) squares += (in[k] - mean) * (in[k] - mean);
        const float center = float(mean), scale = float(1 / std::sqrt(squares / double(n) + epsilon));
        for (std::int64_t k = 0; k < n; k++) {
            const float normal = (in[k] - center) * scale;
            out[k] = normal * (weight.begin ? weight[k] : 1.0f) + (bias.begin ? bias[k] : 0.0f);
        }
        *call.at(1, row) = center;
        *call.at(2, row) = scale;
    });
}

namespace {

enum { OF_INPUT, OF_WEIGHT, OF_BIAS, GRADIENT, INPUT, MEAN, SCALE, WEIGHT };  // operands of layer_norm_backward

void gradient_of_input(const Call& call, std::int64_t row) {
    const std::int64_t n = call.size(call.outer());
    const Row out = row_of(call, OF_INPUT, row), gradient = row_of(call, GRADIENT, row), in = row_of(call, INPUT, row);
    const Row weight = row_of(call, WEIGHT, row);
    const float center = *call.at(MEAN, row), scale = *call.at(SCALE, row);
    double sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
    for (std::int64_t k = 0; k < n; k++) {
        const float weighted = gradient[k] * (weight.begin ? weight[k] : 1.0f);
        sum += weighted;
        product += double(weighted) * ((in[k] - center) * scale);
    }
    const float mean = float(sum / double(n)), slope = float(product / double(n));
    for (std::int64_t k = 0; k < n; k++) {
        const float weighted = gradient[k] * (weight.begin ? weight[k] : 1.0f);
        out[k] = scale * (weighted - mean - (in[k] - center) * scale * slope);
    }
}

// The gradients of weight and bias are sums over all rows: each thread takes some columns.
void gradients_of_parameters(const Call& call) {
    const std::int64_t n = call.size(call.outer()), rows = call.rounds(), width = 64;
#pragma omp parallel for num_threads(call.threads) if (rows * n > 16384)
    for (std::int64_t begin = 0; begin < n; begin += width) {
        const std::int64_t count = std::min(width, n - begin);
        double of_weight[width] = {}, of_bias[width] = {};
        for (std::int64_t row = 0; row < rows; row++) {
            const Row gradient = row_of(call, GRADIENT, row), in = row_of(call, INPUT, row);
            const float center = *call.at(MEAN, row), scale = *call.at(SCALE, row);
            for (std::int64_t k = 0; k < count; k++) {
                of_weight[k] += double(gradient[begin + k]) * ((in[begin + k] - center) * scale);
                of_bias[k] += gradient[begin + k];
            }
        }
        const Row weight = row_of(call, OF_WEIGHT, 0), bias = row_of(call, OF_BIAS, 0);
        for (std::int64_t k = 0; k < count; k++) {
            if (weight.begin) weight[begin + k] = float(of_weight[k]);
            if (bias.begin) bias[begin + k] = float(of_bias[k]);
        }
    }
}

}  // namespace

void layer_norm_backward(const Call& call) {
    if (call.operands[OF_INPUT]) for_each_row(call, [&](std::int64_t row) { gradient_of_input(call, row); });
    if (call.operands[OF_WEIGHT] || call.operands[OF_BIAS]) gradients_of_parameters(call);
}

// The inner loops are those that are summed over. Where the last outer loop is dense, a block of its elements is summed at once.
void sum(const Call& call) {
    const int outer = call.outer(), last = outer - 1;
    std::int64_t inner = 1;
    for (int loop = outer; loop < call.instruction.rank; loop++) inner *= call.size(loop);
    const auto term = [&](std::int64_t index) {  // the offset of the index-th thing to add
        std::int64_t offset = 0;
        for (int loop = call.instruction.rank - 1; loop >= outer; loop--) {
            offset += index % call.size(loop) * call.stride(1, loop);
            index /= call.size(loop);
        }
        return offset;
    };
    constexpr std::int64_t width = 64;
    const bool in_blocks = outer > 0 && call.stride(1, last) == 1;
    const std::int64_t n = outer > 0 ? call.size(last) : 1, step = in_blocks ? width : 1, blocks = (n + step - 1) / step;
    const std::int64_t tasks = outer > 0 ? call.rounds() / n * blocks : 1;
#pragma omp parallel for num_threads(call.threads) if (tasks > 1 && tasks * step * inner > 16384)
    for (std::int64_t task = 0; task < tasks; task++) {
        const std::int64_t first = task / blocks * n + task % blocks * step, count = std::min(step, n - task % blocks * step);
        const float* in = call.at(1, first);
        double totals[width] = {};
        for (std::int64_t index = 0; index < inner; index++) {
            const float* terms = in + term(index);
            for (std::int64_t k = 0; k < count; k++) totals[k] += terms[k];
        }
        float* out = call.at(0, first);
        const std::int64_t out_step = outer > 0 ? call.stride(0, last) : 0;
        for (std::int64_t k = 0; k < count; k++) out[k * out_step] = float(totals[k]);
    }
}

}  // namespace small
