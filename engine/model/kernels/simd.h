// What the kernels share.

#pragma once

#include <immintrin.h>

#include <cstdint>

using bf16 = uint16_t;

constexpr float LOG2E = 1.44269504088896f;

// 2^x; relative error below 2e-4, a fraction of bf16's.
inline __m512 exp2_fast(__m512 x) {
    const __m512 fraction = _mm512_reduce_ps(x, 0x09);  // x - floor(x)
    __m512 p = _mm512_set1_ps(0.07711909f);
    p = _mm512_fmadd_ps(p, fraction, _mm512_set1_ps(0.22756439f));
    p = _mm512_fmadd_ps(p, fraction, _mm512_set1_ps(0.69514614f));
    p = _mm512_fmadd_ps(p, fraction, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, x);
}

inline __m512 load16(const bf16 *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}

inline void store16(bf16 *p, __m512 x) { _mm256_storeu_si256((__m256i *)p, (__m256i)_mm512_cvtneps_pbh(x)); }

inline __m512 silu(__m512 x) {
    const __m512 one = _mm512_set1_ps(1);
    return _mm512_div_ps(x, _mm512_add_ps(one, exp2_fast(_mm512_mul_ps(x, _mm512_set1_ps(-LOG2E)))));
}

// Transpose 16 x 16 dwords in place.
inline void transpose(__m512i r[16]) {
    __m512i t[16];
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 4; i++) {
        r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
    }
}
