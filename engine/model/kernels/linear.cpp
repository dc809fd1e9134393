// Linear layers for few rows with AMX. Such a pass takes as long as reading the weights: each is read once, in place, as the
// left operand (oneDNN, which torch uses, repacks it for every product), so outputs are computed as [outputs][rows].

#include <algorithm>

#include "simd.h"
#include "tiles.h"

namespace {

constexpr int LANES = 32;    // rows that are computed together
constexpr int OUTPUTS = 32;  // of a linear layer, computed together

// packed [size / 2][LANES] = pairs of columns of `count` rows of x, followed by zeros; size is a multiple of 32.
void pack_rows(const bf16 *x, int64_t size, int64_t count, int64_t first, int64_t last, uint32_t *packed) {
    for (int64_t i = first; i < last; i += 16)
        for (int64_t lane = 0; lane < LANES; lane += 16) {
            __m512i r[16];
            for (int64_t j = 0; j < 16; j++)
                r[j] = lane + j < count ? _mm512_loadu_si512(x + (lane + j) * size + 2 * i) : _mm512_setzero_si512();
            transpose(r);
            for (int64_t j = 0; j < 16; j++) _mm512_store_si512(packed + (i + j) * LANES + lane, r[j]);
        }
}

// out [count][OUTPUTS] = transposed sums [OUTPUTS][LANES] + bias [OUTPUTS], which may be null.
void store_outputs(const float *sums, const bf16 *bias, int64_t count, bf16 *out, int64_t stride) {
    for (int64_t lane = 0; lane < count; lane += 16)
        for (int64_t n = 0; n < OUTPUTS; n += 16) {
            __m512i r[16];
            for (int64_t j = 0; j < 16; j++) r[j] = _mm512_load_si512(sums + (n + j) * LANES + lane);
            transpose(r);
            const __m512 added = bias ? load16(bias + n) : _mm512_setzero_ps();
            for (int64_t j = 0; j < std::min<int64_t>(16, count - lane); j++)
                store16(out + (lane + j) * stride + n, _mm512_add_ps(_mm512_castsi512_ps(r[j]), added));
        }
}

}  // namespace

// Linear layers of the same inputs; sizes are multiples of 32.
struct Linear {
    const bf16 *weight, *bias;  // [outputs][inputs], [outputs] or null
    bf16 *out;                  // [rows][outputs]
    int64_t outputs;
};

// Compute `count` layers of x [rows][inputs]; `packed` has room for [rows, rounded up to 32][inputs], aligned to 64 bytes.
extern "C" void linear(const bf16 *x, int64_t rows, int64_t inputs, const Linear *layers, int count, uint32_t *packed,
                       int threads) {
#ifdef USE_AMX  // older assemblers do not know its instructions
    const int64_t pairs = inputs / 2;
#pragma omp parallel num_threads(threads)
    {
        configure_tiles();
        alignas(64) float sums[OUTPUTS * LANES];
#pragma omp for schedule(static)
        for (int64_t i = 0; i < pairs; i += 16)
            for (int64_t row = 0; row < rows; row += LANES)
                pack_rows(x + row * inputs, inputs, rows - row, i, i + 16, packed + row * pairs);
        for (const Linear *each = layers; each < layers + count; each++) {
#pragma omp for schedule(static) nowait
            for (int64_t n = 0; n < each->outputs; n += OUTPUTS) {
                const bf16 *weight = each->weight + n * inputs;
                for (int64_t row = 0; row < rows; row += LANES) {
                    multiply_tiles<false>({weight, inputs}, {weight + 16 * inputs, inputs}, 32, packed + row * pairs,
                                          static_cast<int>(inputs / 32), sums);
                    store_outputs(sums, each->bias ? each->bias + n : nullptr, std::min<int64_t>(LANES, rows - row),
                                  each->out + row * each->outputs + n, each->outputs);
                }
            }
        }
        release_tiles();
    }
#endif
}
