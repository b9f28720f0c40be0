/* gelu_ref.c - see gelu.h. */
#include "kernels/rows/gelu.h"

/* 1 - erf(x) for x >= 0 within 1.5e-7 (Abramowitz and Stegun, 7.1.26). */
KILN_INLINE float erf_tail(float x)
{
    const float t = 1.0f / (1.0f + 0.3275911f * x);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    return p * t * kiln_exp(-x * x);
}

KILN_CLONES static void exact(float *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float value = x[i], size = value < 0 ? -value : value;
        const float tail = 0.5f * erf_tail(size * 0.70710678f);
        x[i] = value * (value < 0 ? tail : 1.0f - tail);
    }
}

/* (1 + tanh(u)) / 2 is the logistic function of 2u. */
KILN_CLONES static void by_tanh(float *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float value = x[i];
        const float u = 1.59576912f * (value + 0.044715f * value * value * value);
        x[i] = value / (1.0f + kiln_exp(-u));
    }
}

void kiln_gelu_ref(float *x, int64_t n, bool with_tanh)
{
    (with_tanh ? by_tanh : exact)(x, n);
}
