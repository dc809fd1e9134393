// A decoding step of a Llama-like decoder in one call, for AVX-512 BF16 and VNNI: tokens in, logits out. Up to
// MAX_ROWS rows, each the next token of its own KV buffer, or adjacent ones of the same buffer. Activations are fp32, KV is
// bf16. Weights are bf16, or int8 with a scale per output; then the inputs of linear layers are rounded to 16 bits with a
// scale per row, and sums are exact integers, with AMX too. The time goes into reading weights and KV once, so a thread
// computes small shared values (norms, the merge of attention) for itself instead of waiting for another.
// Attention splits the keys between the threads (Flash-Decoding, pytorch.org/blog/flash-decoding).

#include <immintrin.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "decode_attention.h"
#include "simd.h"
#include "tiles.h"

namespace {

constexpr int MAX_ROWS = 8;
constexpr int PREFETCH_BYTES = 8192;
constexpr int OUTPUTS = 16;  // of a linear layer, computed together

struct Linear {
    const void *weight;   // [outputs][inputs]; int8: [outputs / 16][inputs / 4][16][4], padded to 16 outputs
    const float *scale;   // [outputs, padded]; null: the weights are bf16
    const int32_t *sums;  // [outputs, padded], of the int8 weights
    const float *bias;    // [outputs] or null
};

struct Layer {
    Linear query, key, value, output, gate, up, down;
    const float *attention_norm, *mlp_norm;
    const float *query_norm, *key_norm;  // of each head, [head dimension]; or null
};

struct Shape {
    int64_t num_layers, hidden, heads, key_heads, head_dim, intermediate, vocabulary;
};

struct Row {
    bf16 *keys, *values;  // [layers][key heads][slots][head dimension]
    int64_t layer, head;  // strides in elements
    int64_t slot;
    const bf16 *embedding;  // of the token, [hidden]
    const float *rotation;  // of its position, [2][head dimension]: cosines, sines
};

// Waits for all threads; yields the core if another one is late, so that a busy machine does not stall.
struct Barrier {
    std::atomic<int> waiting{0}, generation{0};
    void wait(int threads) {
        const int current = generation.load(std::memory_order_relaxed);
        if (waiting.fetch_add(1, std::memory_order_acq_rel) + 1 == threads) {
            waiting.store(0, std::memory_order_relaxed);
            generation.store(current + 1, std::memory_order_release);
            return;
        }
        for (int spins = 0; generation.load(std::memory_order_acquire) == current; spins++)
            if (spins < 4000) _mm_pause();
            else sched_yield();
    }
};

Range part(int64_t total, int64_t unit, int index, int count) {
    const int64_t units = (total + unit - 1) / unit;
    return {std::min(total, units * index / count * unit), std::min(total, units * (index + 1) / count * unit)};
}

// A linear layer's inputs for a few rows as its weights need them.
struct Inputs {
    const void *data;  // bf16 weights: fp32 [rows][inputs]; int8: uint8 [rows][2][inputs], high and low bytes
    float scales[MAX_ROWS];
};

constexpr int32_t OFFSET = 1 << 15;  // makes rounded inputs unsigned

// Round to OFFSET + x / scale, in 16 bits; returns the scale.
float quantize(const float *input, int64_t size, uint8_t *bytes) {
    __m512 largest = _mm512_setzero_ps();
    for (int64_t i = 0; i < size; i += 16) largest = _mm512_max_ps(largest, _mm512_abs_ps(_mm512_loadu_ps(input + i)));
    const float maximum = _mm512_reduce_max_ps(largest), scale = maximum > 0 ? maximum / (OFFSET - 1) : 1;
    const __m512 inverse = _mm512_set1_ps(1 / scale);
    for (int64_t i = 0; i < size; i += 16) {
        const __m512i x = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(input + i), inverse));
        const __m512i shifted = _mm512_add_epi32(x, _mm512_set1_epi32(OFFSET));
        _mm_storeu_si128((__m128i *)(bytes + i), _mm512_cvtepi32_epi8(_mm512_srli_epi32(shifted, 8)));
        _mm_storeu_si128((__m128i *)(bytes + size + i), _mm512_cvtepi32_epi8(shifted));
    }
    return scale;
}

// sums[r][o] = weight[first + o] . input[r] for `count` outputs and ROWS rows.
template <int ROWS>
void multiply_bf16(const Linear &linear, int64_t inputs, int64_t first, int count, const Inputs &rows, float (*sums)[OUTPUTS]) {
    constexpr int TOGETHER = ROWS <= 4 ? 4 : 2;  // outputs whose sums are in registers
    const float *input = static_cast<const float *>(rows.data);
    for (int o = 0; o < count; o += TOGETHER) {
        const bf16 *weight = static_cast<const bf16 *>(linear.weight) + (first + o) * inputs;
        int64_t offsets[TOGETHER];
        for (int t = 0; t < TOGETHER; t++) offsets[t] = std::min(t, count - o - 1) * inputs;
        __m512 totals[TOGETHER][ROWS];
        for (auto &each : totals)
            for (__m512 &total : each) total = _mm512_setzero_ps();
        for (int64_t i = 0; i < inputs; i += 16) {
            __m512 x[ROWS];
            for (int r = 0; r < ROWS; r++) x[r] = _mm512_loadu_ps(input + r * inputs + i);
#pragma GCC unroll 4
            for (int t = 0; t < TOGETHER; t++) {
                _mm_prefetch(weight + (TOGETHER + t) * inputs + i, _MM_HINT_T0);
                const __m512 w = load16(weight + offsets[t] + i);
                for (int r = 0; r < ROWS; r++) totals[t][r] = _mm512_fmadd_ps(w, x[r], totals[t][r]);
            }
        }
        for (int t = 0; t < TOGETHER; t++)
            for (int r = 0; r < ROWS; r++) sums[r][o + t] = _mm512_reduce_add_ps(totals[t][r]);
    }
}

// 16 outputs of one row, from the exact sums of products with the high and with the low bytes of its inputs.
void scale_sums(const Linear &linear, int64_t first, __m512i high, __m512i low, float scale, float *outputs) {
    const __m512i offset = _mm512_slli_epi32(_mm512_loadu_si512(linear.sums + first), 7);  // OFFSET / 256 times
    const __m512 total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(high, offset)), _mm512_set1_ps(256), _mm512_cvtepi32_ps(low));
    _mm512_storeu_ps(outputs, _mm512_mul_ps(_mm512_mul_ps(total, _mm512_set1_ps(scale)), _mm512_loadu_ps(linear.scale + first)));
}

// Each lane sums for an output of its own.
template <int ROWS>
void multiply_int8(const Linear &linear, int64_t inputs, int64_t first, int, const Inputs &rows, float (*sums)[OUTPUTS]) {
    const int8_t *weight = static_cast<const int8_t *>(linear.weight) + first * inputs;
    const int32_t *input = static_cast<const int32_t *>(rows.data);  // four bytes of a row
    const int64_t quads = inputs / 4;
    __m512i high[ROWS], low[ROWS];
    for (int r = 0; r < ROWS; r++) high[r] = low[r] = _mm512_setzero_si512();
    for (int64_t i = 0; i < quads; i++) {
        _mm_prefetch(weight + i * 64 + PREFETCH_BYTES, _MM_HINT_T0);
        const __m512i w = _mm512_loadu_si512(weight + i * 64);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            high[r] = _mm512_dpbusd_epi32(high[r], _mm512_set1_epi32(input[r * 2 * quads + i]), w);
            low[r] = _mm512_dpbusd_epi32(low[r], _mm512_set1_epi32(input[(r * 2 + 1) * quads + i]), w);
        }
    }
    for (int r = 0; r < ROWS; r++) scale_sums(linear, first, high[r], low[r], rows.scales[r], sums[r]);
}

#ifdef USE_AMX  // older assemblers do not know its instructions
// The same sums with AMX: the high and the low bytes of an input are two rows of a tile. Inputs are a multiple of 64.
template <int ROWS>
void multiply_int8_tiles(const Linear &linear, int64_t inputs, int64_t first, int, const Inputs &rows, float (*sums)[OUTPUTS]) {
    const int8_t *weight = static_cast<const int8_t *>(linear.weight) + first * inputs;
    const uint8_t *input = static_cast<const uint8_t *>(rows.data);
    constexpr int64_t STRIDE = 64;
    alignas(64) int32_t parts[4][2 * ROWS][OUTPUTS];  // of every fourth 64 inputs: their sums do not wait for one another
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    for (int64_t i = 0; i < inputs; i += 64) {
        const int8_t *right = weight + i * OUTPUTS;
        for (int line = 0; line < 16; line++) _mm_prefetch(right + line * 64 + PREFETCH_BYTES, _MM_HINT_T0);
        TILE_LOAD(4, input + i, inputs);
        TILE_LOAD(6, right, STRIDE);
        switch (i / 64 % 4) {
            case 0: TILE_MULTIPLY_BYTES(0, 4, 6); break;
            case 1: TILE_MULTIPLY_BYTES(1, 4, 6); break;
            case 2: TILE_MULTIPLY_BYTES(2, 4, 6); break;
            case 3: TILE_MULTIPLY_BYTES(3, 4, 6); break;
        }
    }
    TILE_STORE(0, parts[0], STRIDE);
    TILE_STORE(1, parts[1], STRIDE);
    TILE_STORE(2, parts[2], STRIDE);
    TILE_STORE(3, parts[3], STRIDE);
    for (int r = 0; r < ROWS; r++) {
        auto total = [&](int row) {
            const __m512i even = _mm512_add_epi32(_mm512_load_si512(parts[0][row]), _mm512_load_si512(parts[2][row]));
            return _mm512_add_epi32(even, _mm512_add_epi32(_mm512_load_si512(parts[1][row]), _mm512_load_si512(parts[3][row])));
        };
        scale_sums(linear, first, total(2 * r), total(2 * r + 1), rows.scales[r], sums[r]);
    }
}
#endif

using Multiply = void (*)(const Linear &, int64_t, int64_t, int, const Inputs &, float (*)[OUTPUTS]);

template <int... N> Multiply select(bool is_int8, bool has_tiles, int rows, std::integer_sequence<int, N...>) {
    static constexpr Multiply bf16_by_rows[] = {multiply_bf16<N + 1>...}, int8_by_rows[] = {multiply_int8<N + 1>...};
#ifdef USE_AMX
    static constexpr Multiply tiles_by_rows[] = {multiply_int8_tiles<N + 1>...};
    if (has_tiles) return tiles_by_rows[rows - 1];
#endif
    return (is_int8 ? int8_by_rows : bf16_by_rows)[rows - 1];
}

void rms_norm(const float *input, const float *weight, int64_t size, float epsilon, float *output) {
    __m512 squares = _mm512_setzero_ps();
    for (int64_t i = 0; i < size; i += 16) {
        const __m512 x = _mm512_loadu_ps(input + i);
        squares = _mm512_fmadd_ps(x, x, squares);
    }
    const __m512 factor = _mm512_set1_ps(1 / std::sqrt(_mm512_reduce_add_ps(squares) / size + epsilon));
    for (int64_t i = 0; i < size; i += 16)
        _mm512_storeu_ps(output + i, _mm512_mul_ps(_mm512_mul_ps(_mm512_loadu_ps(input + i), factor), _mm512_loadu_ps(weight + i)));
}

struct Step {
    const Shape &shape;
    const Layer *layers;
    const float *final_norm;
    Linear head;
    const Row *rows;
    float *logits;         // [rows][vocabulary]
    float epsilon, scale;  // scale of attention's logits, times log2(e)
    int num_rows;
    bool has_tiles;  // which `multiply` needs
    Multiply multiply;

    template <int D> void run(int threads, int parts);

    // Return inputs [rows][size] as the weights need them; `bytes` is memory for a copy.
    Inputs prepare(const float *input, int64_t size, uint8_t *bytes) const {
        Inputs inputs{input, {}};
        if (!head.scale) return inputs;
        inputs.data = bytes;
        for (int r = 0; r < num_rows; r++) inputs.scales[r] = quantize(input + r * size, size, bytes + r * 2 * size);
        return inputs;
    }

    // Calls finish(output, row, values, mask) for each 16 outputs in `range`; the mask tells which of them there are.
    template <typename Finish>
    void apply(const Linear &linear, int64_t size, Range range, const Inputs &inputs, const Finish &finish) const {
        float sums[MAX_ROWS][OUTPUTS];
        for (int64_t first = range.start; first < range.end; first += OUTPUTS) {
            const int count = static_cast<int>(std::min<int64_t>(OUTPUTS, range.end - first));
            const __mmask16 mask = 0xffff >> (OUTPUTS - count);
            multiply(linear, size, first, count, inputs, sums);
            for (int r = 0; r < num_rows; r++) {
                __m512 values = _mm512_loadu_ps(sums[r]);
                if (linear.bias) values = _mm512_add_ps(values, _mm512_maskz_loadu_ps(mask, linear.bias + first));
                finish(first, r, values, mask);
            }
        }
    }
};

template <int D> void Step::run(int threads, int parts) {
    const int64_t heads = shape.heads, key_heads = shape.key_heads, all_heads = heads + 2 * key_heads;
    const int groups = static_cast<int>(heads / key_heads);
    const int64_t width = std::max({shape.hidden, heads * D, shape.intermediate});
    const auto hidden = std::make_unique<float[]>(num_rows * shape.hidden);  // the residual stream
    for (int r = 0; r < num_rows; r++)
        for (int64_t i = 0; i < shape.hidden; i += 16) _mm512_storeu_ps(&hidden[r * shape.hidden + i], load16(rows[r].embedding + i));
    const auto qkv = std::make_unique<float[]>(num_rows * all_heads * D);
    const auto query = std::make_unique<bf16[]>(num_rows * heads * D);
    const auto partial = std::make_unique<float[]>(parts * num_rows * heads * (D + 2));
    const auto activations = std::make_unique<float[]>(num_rows * shape.intermediate);
    // For each thread: the inputs of the next linear layer, and memory to round them.
    const auto inputs = std::make_unique<float[]>(threads * num_rows * width);
    const int64_t num_bytes = num_rows * 2 * width;
    const auto bytes = std::make_unique<uint8_t[]>(threads * num_bytes);
    Barrier barrier;
#pragma omp parallel num_threads(threads)
    {
        const int count = omp_get_num_threads(), self = omp_get_thread_num();
#ifdef USE_AMX
        if (has_tiles) configure_tiles(2 * num_rows);
#endif
        float *input = inputs.get() + self * num_rows * width;
        auto prepared = [&](const float *values, int64_t size) { return prepare(values, size, bytes.get() + self * num_bytes); };
        auto wait = [&] { barrier.wait(count); };
        auto own = [&](int64_t outputs) { return part(outputs, OUTPUTS, self, count); };
        auto normalized = [&](const float *weight) {
            for (int r = 0; r < num_rows; r++)
                rms_norm(&hidden[r * shape.hidden], weight, shape.hidden, epsilon, input + r * shape.hidden);
            return prepared(input, shape.hidden);
        };
        auto add_to_hidden = [&](int64_t o, int r, __m512 values, __mmask16) {
            float *target = &hidden[r * shape.hidden + o];
            _mm512_storeu_ps(target, _mm512_add_ps(_mm512_loadu_ps(target), values));
        };
        auto maxima = [&](int p) { return partial.get() + p * num_rows * heads * (D + 2); };
        auto sums = [&](int p) { return maxima(p) + num_rows * heads; };
        auto outputs = [&](int p) { return sums(p) + num_rows * heads; };

        for (int64_t l = 0; l < shape.num_layers; l++) {
            const Layer &layer = layers[l];
            const Inputs attention_inputs = normalized(layer.attention_norm);
            const Linear *projections[] = {&layer.query, &layer.key, &layer.value};
            int64_t first = 0;
            for (const Linear *projection : projections) {
                const int64_t size = (projection == &layer.query ? heads : key_heads) * D;
                apply(*projection, shape.hidden, own(size), attention_inputs,
                      [&](int64_t o, int r, __m512 values, __mmask16) { _mm512_storeu_ps(&qkv[r * all_heads * D + first + o], values); });
                first += size;
            }
            wait();
            const Range mine = part(num_rows * all_heads, 1, self, count);
            for (int64_t at = mine.start; at < mine.end; at++) {
                const int64_t r = at / all_heads, h = at % all_heads;
                float *x = qkv.get() + at * D;
                const Row &row = rows[r];
                const bool is_query = h < heads, is_key = !is_query && h < heads + key_heads;
                const float *norm = is_query ? layer.query_norm : is_key ? layer.key_norm : nullptr;
                if (norm) rms_norm(x, norm, D, epsilon, x);
                bf16 *target = query.get() + (r * heads + h) * D;
                if (is_key) target = row.keys + l * row.layer + (h - heads) * row.head + row.slot * D;
                if (!is_query && !is_key) target = row.values + l * row.layer + (h - heads - key_heads) * row.head + row.slot * D;
                if (is_query || is_key) {
                    const float *cosine = row.rotation, *sine = cosine + D;
                    for (int d = 0; d < D / 2; d += 16) {
                        const __m512 a = _mm512_loadu_ps(x + d), b = _mm512_loadu_ps(x + D / 2 + d);
                        const __m512 c = _mm512_loadu_ps(cosine + d), s = _mm512_loadu_ps(sine + d);
                        _mm512_storeu_ps(x + d, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
                        _mm512_storeu_ps(x + D / 2 + d, _mm512_fmadd_ps(b, c, _mm512_mul_ps(a, s)));
                    }
                }
                for (int d = 0; d < D; d += 16)
                    store16(target + d, _mm512_loadu_ps(x + d));
            }
            wait();
            for (int r = 0; r < num_rows; r++)
                for (int64_t h = 0; h < key_heads; h++) {
                    const int64_t offset = l * rows[r].layer + h * rows[r].head, q = r * heads + h * groups;
                    for (int p = self; p < parts; p += count)
                        attend<D>(query.get() + q * D, rows[r].keys + offset, rows[r].values + offset,
                                  part(rows[r].slot + 1, 16, p, parts), groups, scale, maxima(p) + q, sums(p) + q,
                                  outputs(p) + q * D);
                }
            wait();
            for (int64_t q = 0; q < num_rows * heads; q++) {
                float maximum = -INFINITY, sum = 0;
                for (int p = 0; p < parts; p++) maximum = std::max(maximum, maxima(p)[q]);
                __m512 merged[D / 16];
                for (__m512 &each : merged) each = _mm512_setzero_ps();
                for (int p = 0; p < parts; p++) {
                    const float weight = std::exp2(maxima(p)[q] - maximum);
                    sum += weight * sums(p)[q];
                    for (int d = 0; d < D / 16; d++)
                        merged[d] = _mm512_fmadd_ps(_mm512_set1_ps(weight), _mm512_loadu_ps(outputs(p) + q * D + 16 * d), merged[d]);
                }
                for (int d = 0; d < D / 16; d++)
                    _mm512_storeu_ps(input + q * D + 16 * d, _mm512_mul_ps(merged[d], _mm512_set1_ps(1 / sum)));
            }
            apply(layer.output, heads * D, own(shape.hidden), prepared(input, heads * D), add_to_hidden);
            wait();
            const Inputs mlp_inputs = normalized(layer.mlp_norm);
            const Range neurons = own(shape.intermediate);
            auto activation = [&](int64_t o, int r) { return &activations[r * shape.intermediate + o]; };
            apply(layer.gate, shape.hidden, neurons, mlp_inputs,
                  [&](int64_t o, int r, __m512 values, __mmask16) { _mm512_storeu_ps(activation(o, r), silu(values)); });
            apply(layer.up, shape.hidden, neurons, mlp_inputs, [&](int64_t o, int r, __m512 values, __mmask16) {
                _mm512_storeu_ps(activation(o, r), _mm512_mul_ps(_mm512_loadu_ps(activation(o, r)), values));
            });
            wait();
            const Inputs neuron_outputs = prepared(activations.get(), shape.intermediate);
            apply(layer.down, shape.intermediate, own(shape.hidden), neuron_outputs, add_to_hidden);
            wait();
        }
        apply(head, shape.hidden, own(shape.vocabulary), normalized(final_norm),
              [&](int64_t o, int r, __m512 values, __mmask16 mask) { _mm512_mask_storeu_ps(logits + r * shape.vocabulary + o, mask, values); });
#ifdef USE_AMX
        if (has_tiles) release_tiles();
#endif
    }
}

}  // namespace

// Round weight [outputs][inputs] to int8, with the largest of each output at 127, into memory of zeros: see `Linear`.
extern "C" void pack_int8(const bf16 *weight, int64_t outputs, int64_t inputs, int8_t *packed, float *scales, int32_t *sums,
                          int threads) {
#pragma omp parallel for num_threads(threads)
    for (int64_t o = 0; o < outputs; o++) {
        const bf16 *row = weight + o * inputs;
        __m512 largest = _mm512_setzero_ps();
        for (int64_t i = 0; i < inputs; i += 16) largest = _mm512_max_ps(largest, _mm512_abs_ps(load16(row + i)));
        scales[o] = std::max(_mm512_reduce_max_ps(largest), 1e-12f) / 127;
        __m512i sum = _mm512_setzero_si512();
        for (int64_t i = 0; i < inputs; i += 16) {
            const __m512i rounded = _mm512_cvtps_epi32(_mm512_div_ps(load16(row + i), _mm512_set1_ps(scales[o])));
            sum = _mm512_add_epi32(sum, rounded);
            int8_t bytes[16];
            _mm_storeu_si128((__m128i *)bytes, _mm512_cvtepi32_epi8(rounded));
            int8_t *quads = packed + o / OUTPUTS * OUTPUTS * inputs + i * OUTPUTS + o % OUTPUTS * 4;
            for (int q = 0; q < 4; q++) std::memcpy(quads + q * OUTPUTS * 4, bytes + q * 4, 4);
        }
        sums[o] = _mm512_reduce_add_epi32(sum);
    }
}

// Sizes are multiples of 16, except the vocabulary's. Returns 0, 1 for an unsupported shape, or 2 if memory is short.
// Attention is split into `parts`, on which the rounding of the result depends, not on the number of threads. use_amx only
// after has_amx; results are the same bits.
extern "C" int decode_step(const Shape *shape, const Layer *layers, const float *final_norm, const Linear *head, const Row *rows,
                           float *logits, float epsilon, float scale, int num_rows, int threads, int parts, int use_amx) {
    if (shape->heads / shape->key_heads > MAX_GROUPS || num_rows > MAX_ROWS) return 1;
    const bool fits_tiles = shape->hidden % 64 == 0 && shape->intermediate % 64 == 0;  // head dimensions do
    const bool is_int8 = head->scale, has_tiles = use_amx && is_int8 && fits_tiles;
    const Multiply multiply = select(is_int8, has_tiles, num_rows, std::make_integer_sequence<int, MAX_ROWS>());
    Step step{*shape, layers, final_norm, *head, rows, logits, epsilon, scale * LOG2E, num_rows, has_tiles, multiply};
    try {
        switch (shape->head_dim) {
            case 64: step.run<64>(threads, parts); return 0;
            case 128: step.run<128>(threads, parts); return 0;
        }
    } catch (const std::bad_alloc &) {
        return 2;
    }
    return 1;
}
