// exp and erf as short formulas without branches or calls, so that the compiler makes vector instructions of the loops they stand in.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

namespace small {

// 2^n for |n| < 127: the exponent's bits of a float.
inline float power_of_2(std::int32_t n) {
    const std::int32_t bits = (n + 127) << 23;
    float power;
    std::memcpy(&power, &bits, sizeof power);
    return power;
}

// e^x = 2^n · e^r with |r| ≤ ln(2)/2; the polynomial is that of Cephes' expf. NaN stays NaN; what is below the normal floats is 0.
inline float exponential(float x) {
    const float clamped = x > 88.7228f ? 88.7228f : (x < -87.3365f ? -87.3365f : x);
    const float n = std::floor(clamped * 1.44269504f + 0.5f);
    const float r = clamped - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    // 2^n in two factors, because n can be 128. A NaN has no integer: it takes 0 here, and is in p.
    const std::int32_t half = std::int32_t(n == n ? n * 0.5f : 0.0f), rest = std::int32_t(n == n ? n : 0.0f) - half;
    const float result = p * power_of_2(half) * power_of_2(rest);
    return x < -87.3365f ? 0.0f : (x > 88.7228f ? INFINITY : result);
}

// The share of a normal distribution below x: (1 + erf(x/√2)) / 2. Abramowitz and Stegun 7.1.26, good to 1e-7.
inline float normal_share(float x) {
    const float z = std::fabs(x) * 0.70710678f;
    const float t = 1.0f / (1.0f + 0.3275911f * z);
    const float p = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
    const float tail = 0.5f * p * exponential(-z * z);
    return x < 0 ? tail : 1.0f - tail;
}

inline float hyperbolic_tangent(float x) {
    const float e = exponential(-2.0f * std::fabs(x));
    const float t = (1.0f - e) / (1.0f + e);
    return x < 0 ? -t : t;
}

}  // namespace small
