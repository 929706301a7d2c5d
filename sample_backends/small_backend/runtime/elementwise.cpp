// Kernels that compute each element by itself. All loops but the last are outer ones; the last is cut into chunks, so that there is
// work for every thread however the loops are shaped.
#include <algorithm>

#include "functions.h"
#include "kernels.h"

namespace small {
namespace {

constexpr std::int64_t CHUNK = 8192;

// Strides of inputs within a chunk are 1 or 0 nearly always: `Is…Same` tells the compiler which, and the loop becomes vectors.
template <bool IsASame, bool IsBSame, class F>
void dense(float* out, const float* a, const float* b, std::int64_t n, F function) {
#pragma omp simd
    for (std::int64_t k = 0; k < n; k++) out[k] = function(a[IsASame ? 0 : k], b[IsBSame ? 0 : k]);
}

template <class F>
void chunk(float* out, const float* a, const float* b, std::int64_t n, std::int64_t so, std::int64_t sa, std::int64_t sb, F function) {
    if (so == 1 && sa == 1 && sb == 1) return dense<false, false>(out, a, b, n, function);
    if (so == 1 && sa == 1 && sb == 0) return dense<false, true>(out, a, b, n, function);
    if (so == 1 && sa == 0 && sb == 1) return dense<true, false>(out, a, b, n, function);
    for (std::int64_t k = 0; k < n; k++) out[k * so] = function(a[k * sa], b[k * sb]);
}

// Computes function(a, b) of every element. A kernel with one input passes it as `b`, too.
template <class F>
void binary(const Call& call, int second, F function) {
    const int last = call.instruction.rank - 1;
    const std::int64_t n = last < 0 ? 1 : call.size(last);
    const auto step = [&](int operand) { return last < 0 ? 0 : call.stride(operand, last); };
    std::int64_t rows = 1;
    for (int loop = 0; loop < last; loop++) rows *= call.size(loop);
    const auto row = [&](int operand, std::int64_t index) {
        float* place = call.operands[operand];
        for (int loop = last - 1; loop >= 0; loop--) {
            place += index % call.size(loop) * call.stride(operand, loop);
            index /= call.size(loop);
        }
        return place;
    };
    const std::int64_t chunks = (n + CHUNK - 1) / CHUNK;
    const std::int64_t so = step(0), sa = step(1), sb = step(second);
#pragma omp parallel for num_threads(call.threads) if (rows * n > 2 * CHUNK)
    for (std::int64_t task = 0; task < rows * chunks; task++) {
        const std::int64_t begin = task % chunks * CHUNK, count = std::min(CHUNK, n - begin), index = task / chunks;
        chunk(row(0, index) + begin * so, row(1, index) + begin * sa, row(second, index) + begin * sb, count, so, sa, sb, function);
    }
}

// The second operand is a tensor, or the number that the instruction has.
template <class F>
void with_tensor_or_number(const Call& call, F function) {
    const float number = float(call.instruction.scalars[1]);
    if (call.operands[2] != nullptr) return binary(call, 2, function);
    binary(call, 1, [=](float a, float) { return function(a, number); });
}

template <class F>
void unary(const Call& call, F function) {
    binary(call, 1, [=](float a, float) { return function(a); });
}

constexpr float ROOT_2_OF_PI = 0.79788456f, CUBIC = 0.044715f, DENSITY_AT_0 = 0.39894228f;

}  // namespace

void copy(const Call& call) {
    unary(call, [](float x) { return x; });
}

void add(const Call& call) {
    const float alpha = float(call.instruction.scalars[0]);
    with_tensor_or_number(call, [=](float a, float b) { return a + alpha * b; });
}

void multiply(const Call& call) {
    with_tensor_or_number(call, [](float a, float b) { return a * b; });
}

void divide(const Call& call) {
    with_tensor_or_number(call, [](float a, float b) { return a / b; });
}

void relu(const Call& call) {
    unary(call, [](float x) { return x < 0 ? 0.0f : x; });  // NaN stays NaN
}

void gelu(const Call& call) {
    unary(call, [](float x) { return x * normal_share(x); });
}

void gelu_tanh(const Call& call) {
    unary(call, [](float x) { return 0.5f * x * (1.0f + hyperbolic_tangent(ROOT_2_OF_PI * (x + CUBIC * x * x * x))); });
}

void gelu_backward(const Call& call) {
    binary(call, 2, [](float gradient, float x) {
        return gradient * (normal_share(x) + x * DENSITY_AT_0 * exponential(-0.5f * x * x));
    });
}

void gelu_tanh_backward(const Call& call) {
    binary(call, 2, [](float gradient, float x) {
        const float t = hyperbolic_tangent(ROOT_2_OF_PI * (x + CUBIC * x * x * x));
        const float slope = ROOT_2_OF_PI * (1.0f + 3.0f * CUBIC * x * x);
        return gradient * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * slope);
    });
}

void threshold_backward(const Call& call) {
    const float threshold = float(call.instruction.scalars[0]);
    binary(call, 2, [=](float gradient, float x) { return x <= threshold ? 0.0f : gradient; });
}

}  // namespace small
