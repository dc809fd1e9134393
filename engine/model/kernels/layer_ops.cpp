// What a decoder layer computes between its matrix products and its attention, and the rotation of cached keys, for
// AVX-512 BF16: each in one pass over memory, in fp32, rounded to bf16 once.

#include <immintrin.h>

#include <cmath>
#include <cstdint>

#include "simd.h"

namespace {

float inverse_rms(const bf16 *x, int64_t size, float epsilon) {
    __m512 squares = _mm512_setzero_ps();
    for (int64_t i = 0; i < size; i += 16) {
        const __m512 value = load16(x + i);
        squares = _mm512_fmadd_ps(value, value, squares);
    }
    return 1 / std::sqrt(_mm512_reduce_add_ps(squares) / size + epsilon);
}

// x scaled by `factor`, and by a weight for each dimension unless that is null.
__m512 scaled16(const bf16 *x, float factor, const float *weight) {
    const __m512 value = _mm512_mul_ps(load16(x), _mm512_set1_ps(factor));
    return weight ? _mm512_mul_ps(value, _mm512_loadu_ps(weight)) : value;
}

// Rotate channels a and b, of the two halves of a head, by angles with cosines c and sines s.
void rotate16(__m512 a, __m512 b, __m512 c, __m512 s, bf16 *first, bf16 *second) {
    store16(first, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
    store16(second, _mm512_fmadd_ps(b, c, _mm512_mul_ps(a, s)));
}

}  // namespace

// out [rows][size] = x / rms(x) * weight [size]; sizes are multiples of 16.
extern "C" void rms_norm(const bf16 *x, const float *weight, float epsilon, int64_t rows, int64_t size, bf16 *out, int threads) {
#pragma omp parallel for num_threads(threads)
    for (int64_t r = 0; r < rows; r++) {
        const float factor = inverse_rms(x + r * size, size, epsilon);
        for (int64_t i = 0; i < size; i += 16) store16(out + r * size + i, scaled16(x + r * size + i, factor, weight + i));
    }
}

// Rotate the heads of x [rows][heads][head_dim] in place, by cosines and sines [rows][head_dim]; with `norm` [head_dim],
// normalize each head before. head_dim is a multiple of 32.
extern "C" void rotate(bf16 *x, const bf16 *cosines, const bf16 *sines, const float *norm, float epsilon, int64_t rows,
                       int64_t heads, int64_t head_dim, int threads) {
    const int64_t half = head_dim / 2;
#pragma omp parallel for num_threads(threads)
    for (int64_t r = 0; r < rows; r++)
        for (int64_t h = 0; h < heads; h++) {
            bf16 *head = x + (r * heads + h) * head_dim;
            const float factor = norm ? inverse_rms(head, head_dim, epsilon) : 1;
            for (int64_t d = 0; d < half; d += 16) {
                const __m512 a = scaled16(head + d, factor, norm ? norm + d : nullptr);
                const __m512 b = scaled16(head + half + d, factor, norm ? norm + half + d : nullptr);
                const __m512 c = load16(cosines + r * head_dim + d), s = load16(sines + r * head_dim + d);
                rotate16(a, b, c, s, head + d, head + half + d);
            }
        }
}

// gate [size] = silu(gate) * up; the size is a multiple of 16.
extern "C" void silu_multiply(bf16 *gate, const bf16 *up, int64_t size, int threads) {
#pragma omp parallel for num_threads(threads)
    for (int64_t i = 0; i < size; i += 16) store16(gate + i, _mm512_mul_ps(silu(load16(gate + i)), load16(up + i)));
}

// out [layers][heads][tokens][head_dim] = keys, each rotated by the same angles, whose cosines and sines are [head_dim / 2].
// Strides in elements, of layers and heads; head_dim is a multiple of 32.
extern "C" void rerotate(const bf16 *keys, int64_t keys_layer, int64_t keys_head, const float *cosines, const float *sines,
                         int64_t layers, int64_t heads, int64_t tokens, int64_t head_dim, bf16 *out, int64_t out_layer,
                         int64_t out_head, int threads) {
    const int64_t half = head_dim / 2;
#pragma omp parallel for num_threads(threads)
    for (int64_t i = 0; i < layers * heads; i++) {
        const bf16 *from = keys + i / heads * keys_layer + i % heads * keys_head;
        bf16 *to = out + i / heads * out_layer + i % heads * out_head;
        for (int64_t t = 0; t < tokens; t++, from += head_dim, to += head_dim)
            for (int64_t d = 0; d < half; d += 16)
                rotate16(load16(from + d), load16(from + half + d), _mm512_loadu_ps(cosines + d), _mm512_loadu_ps(sines + d),
                         to + d, to + half + d);
    }
}
