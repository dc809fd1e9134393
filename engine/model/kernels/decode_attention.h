// Attention of single rows: each key and value is read once for all query heads of its key head.

#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "simd.h"

constexpr int MAX_GROUPS = 16;  // query heads per key head
constexpr int KEY_BLOCK = 64;   // keys per step of the online softmax

struct Range {
    int64_t start, end;
};

// Sums of 16 vectors, in order.
inline __m512 reduce16(__m512 t[16]) {
    for (int i = 0; i < 8; i++)
        t[i] = _mm512_add_ps(_mm512_shuffle_f32x4(t[i], t[i + 8], 0x44), _mm512_shuffle_f32x4(t[i], t[i + 8], 0xee));
    for (int i = 0; i < 4; i++)
        t[i] = _mm512_add_ps(_mm512_shuffle_f32x4(t[i], t[i + 4], 0x88), _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd));
    for (int i = 0; i < 2; i++) t[i] = _mm512_add_ps(_mm512_unpacklo_ps(t[i], t[i + 2]), _mm512_unpackhi_ps(t[i], t[i + 2]));
    const __m512 sums = _mm512_add_ps(_mm512_unpacklo_ps(t[0], t[1]), _mm512_unpackhi_ps(t[0], t[1]));
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15), sums);
}

// Attention of the query heads of one key head to keys start..end: maximum logit (times log2 e), sum of the weights, and
// weighted sum of the values, by head.
template <int D>
void attend(const bf16 *query, const bf16 *keys, const bf16 *values, Range range, int groups, float scale, float *maxima,
            float *sums, float *outputs) {
    constexpr int HEADS = std::max(1, 256 / D);  // whose outputs, 16 vectors, are in registers together
    constexpr int LINES = KEY_BLOCK * D / 32;    // of the processor's cache, of a block's keys or values
    alignas(64) float weights[MAX_GROUPS + HEADS][KEY_BLOCK] = {};
    std::fill(maxima, maxima + groups, -INFINITY);
    std::fill(sums, sums + groups, 0.0f);
    std::fill(outputs, outputs + groups * D, 0.0f);
    for (int64_t first = range.start; first < range.end; first += KEY_BLOCK) {
        const int count = static_cast<int>(std::min<int64_t>(KEY_BLOCK, range.end - first));
        const bf16 *key = keys + first * D, *value = values + first * D;
        const bool has_next = first + KEY_BLOCK < range.end;
        for (int g = 0; g < groups; g++) {
            __m512 largest = _mm512_set1_ps(-INFINITY);
            for (int k = 0; k < count; k += 16) {
                // The next block's lines, a few at a time: only the first head would wait for them.
                const int step = g * KEY_BLOCK + k, steps = groups * KEY_BLOCK;
                for (int i = LINES * step / steps; has_next && i < LINES * (step + 16) / steps; i++) {
                    _mm_prefetch(key + KEY_BLOCK * D + 32 * i, _MM_HINT_T0);
                    _mm_prefetch(value + KEY_BLOCK * D + 32 * i, _MM_HINT_T0);
                }
                __m512 t[16];
                for (__m512 &each : t) each = _mm512_setzero_ps();
                for (int d = 0; d < D; d += 32) {
                    const __m512bh q = (__m512bh)_mm512_loadu_si512(query + g * D + d);
#pragma GCC unroll 16
                    for (int i = 0; i < 16; i++)
                        t[i] = _mm512_dpbf16_ps(t[i], (__m512bh)_mm512_loadu_si512(key + std::min(k + i, count - 1) * D + d), q);
                }
                const __mmask16 is_key = count - k >= 16 ? 0xffff : (1 << (count - k)) - 1;
                const __m512 logits = _mm512_mask_mul_ps(_mm512_set1_ps(-INFINITY), is_key, reduce16(t), _mm512_set1_ps(scale));
                _mm512_store_ps(weights[g] + k, logits);
                largest = _mm512_max_ps(largest, logits);
            }
            const float maximum = std::max(maxima[g], _mm512_reduce_max_ps(largest)), rescale = std::exp2(maxima[g] - maximum);
            maxima[g] = maximum;
            __m512 total = _mm512_setzero_ps();
            for (int k = 0; k < count; k += 16) {
                const __m512 weight = exp2_fast(_mm512_sub_ps(_mm512_load_ps(weights[g] + k), _mm512_set1_ps(maximum)));
                _mm512_store_ps(weights[g] + k, weight);
                total = _mm512_add_ps(total, weight);
            }
            sums[g] = sums[g] * rescale + _mm512_reduce_add_ps(total);
            for (int d = 0; d < D; d += 16)
                _mm512_storeu_ps(outputs + g * D + d, _mm512_mul_ps(_mm512_loadu_ps(outputs + g * D + d), _mm512_set1_ps(rescale)));
        }
        for (int g = 0; g < groups; g += HEADS) {
            __m512 o[HEADS][D / 16];
            for (int h = 0; h < HEADS; h++)
                for (int d = 0; d < D / 16; d++)
                    o[h][d] = g + h < groups ? _mm512_loadu_ps(outputs + (g + h) * D + 16 * d) : _mm512_setzero_ps();
            for (int k = 0; k < count; k++)
                for (int d = 0; d < D / 16; d++) {
                    const __m512 v = load16(value + k * D + 16 * d);
                    for (int h = 0; h < HEADS; h++) o[h][d] = _mm512_fmadd_ps(_mm512_set1_ps(weights[g + h][k]), v, o[h][d]);
                }
            for (int h = 0; h < HEADS && g + h < groups; h++)
                for (int d = 0; d < D / 16; d++) _mm512_storeu_ps(outputs + (g + h) * D + 16 * d, o[h][d]);
        }
    }
}
