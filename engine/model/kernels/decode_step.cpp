// A decoding step of a Llama-like decoder in one call, for AVX-512 BF16 and VNNI: token embeddings in, logits out. Up to
// MAX_ROWS rows, each the next token of its own KV buffer, or adjacent ones of the same buffer. Activations are fp32, KV is
// bf16. Weights are bf16, or int8 with a scale per output; then the inputs of linear layers are rounded to 16 bits with a
// scale per row, and sums are exact integers. The time goes into reading weights and KV once, so a thread computes small
// shared values (norms, the merge of attention) for itself instead of waiting for another.
// Attention splits the keys between the threads (Flash-Decoding, pytorch.org/blog/flash-decoding).

#include <immintrin.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "decode_attention.h"
#include "simd.h"

namespace {

constexpr int MAX_ROWS = 8;
constexpr int BLOCK = 64;  // int8 weights in a vector

struct Linear {
    const void *weight;   // [outputs][inputs]; int8: with zeros up to a multiple of BLOCK inputs
    const float *scale;   // [outputs]; null: the weights are bf16
    const int32_t *sums;  // [outputs], of the int8 weights
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
    const void *data;  // bf16 weights: fp32 [rows][inputs]; int8: uint8 [rows][blocks][2][BLOCK], high and low bytes
    float scales[MAX_ROWS];
};

constexpr int32_t OFFSET = 1 << 15;  // makes rounded inputs unsigned

// Round to OFFSET + x / scale, in 16 bits; returns the scale. Padding may have any value: the weights there are 0.
float quantize(const float *input, int64_t size, uint8_t *bytes) {
    __m512 largest = _mm512_setzero_ps();
    for (int64_t i = 0; i < size; i += 16) largest = _mm512_max_ps(largest, _mm512_abs_ps(_mm512_loadu_ps(input + i)));
    const float maximum = _mm512_reduce_max_ps(largest), scale = maximum > 0 ? maximum / (OFFSET - 1) : 1;
    const __m512 inverse = _mm512_set1_ps(1 / scale);
    for (int64_t i = 0; i < size; i += 16) {
        const __m512i x = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(input + i), inverse));
        const __m512i shifted = _mm512_add_epi32(x, _mm512_set1_epi32(OFFSET));
        uint8_t *high = bytes + i / BLOCK * 2 * BLOCK + i % BLOCK;
        _mm_storeu_si128((__m128i *)high, _mm512_cvtepi32_epi8(_mm512_srli_epi32(shifted, 8)));
        _mm_storeu_si128((__m128i *)(high + BLOCK), _mm512_cvtepi32_epi8(shifted));
    }
    return scale;
}

// sums[o][r] = weight[o] . input[r] for OUTPUTS outputs from `first` on and ROWS rows.
template <int OUTPUTS, int ROWS>
void multiply_bf16(const Linear &linear, int64_t inputs, int64_t first, const Inputs &rows, float *sums) {
    const bf16 *weight = static_cast<const bf16 *>(linear.weight) + first * inputs;
    const float *input = static_cast<const float *>(rows.data);
    __m512 totals[OUTPUTS][ROWS];
    for (auto &each : totals)
        for (__m512 &total : each) total = _mm512_setzero_ps();
    for (int64_t i = 0; i < inputs; i += 16) {
        __m512 x[ROWS];
        for (int r = 0; r < ROWS; r++) x[r] = _mm512_loadu_ps(input + r * inputs + i);
#pragma GCC unroll 4
        for (int o = 0; o < OUTPUTS; o++) {
            _mm_prefetch(weight + (OUTPUTS + o) * inputs + i, _MM_HINT_T0);
            const __m512 w = load16(weight + o * inputs + i);
            for (int r = 0; r < ROWS; r++) totals[o][r] = _mm512_fmadd_ps(w, x[r], totals[o][r]);
        }
    }
    for (int o = 0; o < OUTPUTS; o++)
        for (int r = 0; r < ROWS; r++) sums[o * ROWS + r] = _mm512_reduce_add_ps(totals[o][r]);
}

template <int OUTPUTS, int ROWS>
void multiply_int8(const Linear &linear, int64_t inputs, int64_t first, const Inputs &rows, float *sums) {
    const int64_t blocks = (inputs + BLOCK - 1) / BLOCK, width = blocks * BLOCK;
    const int8_t *weight = static_cast<const int8_t *>(linear.weight) + first * width;
    const uint8_t *input = static_cast<const uint8_t *>(rows.data);
    __m512i high[OUTPUTS][ROWS], low[OUTPUTS][ROWS];
    for (int o = 0; o < OUTPUTS; o++)
        for (int r = 0; r < ROWS; r++) high[o][r] = low[o][r] = _mm512_setzero_si512();
    for (int64_t b = 0; b < blocks; b++) {
        __m512i w[OUTPUTS];
        for (int o = 0; o < OUTPUTS; o++) {
            _mm_prefetch(weight + (OUTPUTS + o) * width + b * BLOCK, _MM_HINT_T0);
            w[o] = _mm512_loadu_si512(weight + o * width + b * BLOCK);
        }
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            const uint8_t *x = input + (r * blocks + b) * 2 * BLOCK;
            const __m512i x_high = _mm512_loadu_si512(x), x_low = _mm512_loadu_si512(x + BLOCK);
            for (int o = 0; o < OUTPUTS; o++) {
                high[o][r] = _mm512_dpbusd_epi32(high[o][r], x_high, w[o]);
                low[o][r] = _mm512_dpbusd_epi32(low[o][r], x_low, w[o]);
            }
        }
    }
    for (int o = 0; o < OUTPUTS; o++)
        for (int r = 0; r < ROWS; r++) {
            const int64_t total = 256 * int64_t(_mm512_reduce_add_epi32(high[o][r])) + _mm512_reduce_add_epi32(low[o][r]);
            const int64_t sum = total - int64_t(OFFSET) * linear.sums[first + o];
            sums[o * ROWS + r] = static_cast<float>(sum) * rows.scales[r] * linear.scale[first + o];
        }
}

using Multiply = void (*)(const Linear &, int64_t, int64_t, const Inputs &, float *);

struct Multiplier {
    Multiply block, single;  // of several outputs, of one
    int outputs;             // of a block
};

// Outputs whose sums are in registers together with those of `rows` rows: at most 16, or 8 pairs.
constexpr int bf16_outputs(int rows) { return rows <= 4 ? 4 : 2; }
constexpr int int8_outputs(int rows) { return rows <= 2 ? 4 : rows <= 4 ? 2 : 1; }

template <int... N> Multiplier select(bool is_int8, int rows, std::integer_sequence<int, N...>) {
    static constexpr Multiplier bf16_by_rows[] = {
        {multiply_bf16<bf16_outputs(N + 1), N + 1>, multiply_bf16<1, N + 1>, bf16_outputs(N + 1)}...};
    static constexpr Multiplier int8_by_rows[] = {
        {multiply_int8<int8_outputs(N + 1), N + 1>, multiply_int8<1, N + 1>, int8_outputs(N + 1)}...};
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
    const float *rotation;  // [rows][2][head dimension]: cosines, sines
    float *logits;          // [rows][vocabulary]
    float epsilon, scale;   // scale of attention's logits, times log2(e)
    float *hidden;          // [rows][hidden], the residual stream
    int num_rows;
    Multiplier multiplier;

    template <int D> void run(int threads);

    // Return inputs [rows][size] as the weights need them; `bytes` is memory for a copy.
    Inputs prepare(const float *input, int64_t size, uint8_t *bytes) const {
        Inputs inputs{input, {}};
        if (!head.scale) return inputs;
        inputs.data = bytes;
        const int64_t row_bytes = (size + BLOCK - 1) / BLOCK * BLOCK * 2;
        for (int r = 0; r < num_rows; r++) inputs.scales[r] = quantize(input + r * size, size, bytes + r * row_bytes);
        return inputs;
    }

    // Calls finish(output, row, value) for the outputs in `range`.
    template <typename Finish>
    void apply(const Linear &linear, int64_t size, Range range, const Inputs &inputs, const Finish &finish) const {
        float sums[4 * MAX_ROWS];
        for (int64_t first = range.start; first < range.end;) {
            const int count = range.end - first >= multiplier.outputs ? multiplier.outputs : 1;
            (count > 1 ? multiplier.block : multiplier.single)(linear, size, first, inputs, sums);
            for (int o = 0; o < count; o++, first++)
                for (int r = 0; r < num_rows; r++) {
                    const float value = sums[o * num_rows + r];
                    finish(first, r, linear.bias ? value + linear.bias[first] : value);
                }
        }
    }
};

template <int D> void Step::run(int threads) {
    const int64_t heads = shape.heads, key_heads = shape.key_heads, all_heads = heads + 2 * key_heads;
    const int groups = static_cast<int>(heads / key_heads);
    const int64_t width = std::max({shape.hidden, heads * D, shape.intermediate});
    const auto qkv = std::make_unique<float[]>(num_rows * all_heads * D);
    const auto query = std::make_unique<bf16[]>(num_rows * heads * D);
    const auto partial = std::make_unique<float[]>(threads * num_rows * heads * (D + 2));
    const auto activations = std::make_unique<float[]>(num_rows * shape.intermediate);
    // For each thread: the inputs of the next linear layer, and memory to round them.
    const auto inputs = std::make_unique<float[]>(threads * num_rows * width);
    const int64_t num_bytes = num_rows * 2 * (width + BLOCK);
    const auto bytes = std::make_unique<uint8_t[]>(threads * num_bytes);
    Barrier barrier;
#pragma omp parallel num_threads(threads)
    {
        const int count = omp_get_num_threads(), self = omp_get_thread_num();
        float *input = inputs.get() + self * num_rows * width;
        auto prepared = [&](const float *values, int64_t size) { return prepare(values, size, bytes.get() + self * num_bytes); };
        auto wait = [&] { barrier.wait(count); };
        auto own = [&](int64_t outputs) { return part(outputs, 4, self, count); };
        auto normalized = [&](const float *weight) {
            for (int r = 0; r < num_rows; r++)
                rms_norm(hidden + r * shape.hidden, weight, shape.hidden, epsilon, input + r * shape.hidden);
            return prepared(input, shape.hidden);
        };
        auto add_to_hidden = [&](int64_t o, int r, float value) { hidden[r * shape.hidden + o] += value; };
        auto maxima = [&](int thread) { return partial.get() + thread * num_rows * heads * (D + 2); };
        auto sums = [&](int thread) { return maxima(thread) + num_rows * heads; };
        auto outputs = [&](int thread) { return sums(thread) + num_rows * heads; };

        for (int64_t l = 0; l < shape.num_layers; l++) {
            const Layer &layer = layers[l];
            const Inputs attention_inputs = normalized(layer.attention_norm);
            const Linear *projections[] = {&layer.query, &layer.key, &layer.value};
            int64_t first = 0;
            for (const Linear *projection : projections) {
                const int64_t size = (projection == &layer.query ? heads : key_heads) * D;
                apply(*projection, shape.hidden, own(size), attention_inputs,
                               [&](int64_t o, int r, float value) { qkv[r * all_heads * D + first + o] = value; });
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
                    const float *cosine = rotation + 2 * r * D, *sine = cosine + D;
                    for (int d = 0; d < D / 2; d += 16) {
                        const __m512 a = _mm512_loadu_ps(x + d), b = _mm512_loadu_ps(x + D / 2 + d);
                        const __m512 c = _mm512_loadu_ps(cosine + d), s = _mm512_loadu_ps(sine + d);
                        _mm512_storeu_ps(x + d, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
                        _mm512_storeu_ps(x + D / 2 + d, _mm512_fmadd_ps(b, c, _mm512_mul_ps(a, s)));
                    }
                }
                for (int d = 0; d < D; d += 16)
                    _mm256_storeu_si256((__m256i *)(target + d), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + d)));
            }
            wait();
            for (int r = 0; r < num_rows; r++)
                for (int64_t h = 0; h < key_heads; h++) {
                    const int64_t offset = l * rows[r].layer + h * rows[r].head, q = r * heads + h * groups;
                    attend<D>(query.get() + q * D, rows[r].keys + offset, rows[r].values + offset,
                              part(rows[r].slot + 1, 16, self, count), groups, scale, maxima(self) + q, sums(self) + q,
                              outputs(self) + q * D);
                }
            wait();
            for (int64_t q = 0; q < num_rows * heads; q++) {
                float maximum = -INFINITY, sum = 0;
                for (int t = 0; t < count; t++) maximum = std::max(maximum, maxima(t)[q]);
                __m512 merged[D / 16];
                for (__m512 &each : merged) each = _mm512_setzero_ps();
                for (int t = 0; t < count; t++) {
                    const float weight = std::exp2(maxima(t)[q] - maximum);
                    sum += weight * sums(t)[q];
                    for (int d = 0; d < D / 16; d++)
                        merged[d] = _mm512_fmadd_ps(_mm512_set1_ps(weight), _mm512_loadu_ps(outputs(t) + q * D + 16 * d), merged[d]);
                }
                for (int d = 0; d < D / 16; d++)
                    _mm512_storeu_ps(input + q * D + 16 * d, _mm512_mul_ps(merged[d], _mm512_set1_ps(1 / sum)));
            }
            apply(layer.output, heads * D, own(shape.hidden), prepared(input, heads * D), add_to_hidden);
            wait();
            const Inputs mlp_inputs = normalized(layer.mlp_norm);
            const Range neurons = own(shape.intermediate);
            auto activation = [&](int64_t o, int r) -> float & { return activations[r * shape.intermediate + o]; };
            apply(layer.gate, shape.hidden, neurons, mlp_inputs,
                           [&](int64_t o, int r, float value) { activation(o, r) = value / (1 + std::exp(-value)); });
            apply(layer.up, shape.hidden, neurons, mlp_inputs,
                           [&](int64_t o, int r, float value) { activation(o, r) *= value; });
            wait();
            const Inputs neuron_outputs = prepared(activations.get(), shape.intermediate);
            apply(layer.down, shape.intermediate, own(shape.hidden), neuron_outputs, add_to_hidden);
            wait();
        }
        apply(head, shape.hidden, own(shape.vocabulary), normalized(final_norm),
                       [&](int64_t o, int r, float value) { logits[r * shape.vocabulary + o] = value; });
    }
}

}  // namespace

// Sizes are multiples of 16, except the vocabulary's. `hidden` holds the token embeddings and is overwritten. Returns 0, 1
// for an unsupported shape, or 2 if memory is short.
extern "C" int decode_step(const Shape *shape, const Layer *layers, const float *final_norm, const Linear *head, const Row *rows,
                           const float *rotation, float *hidden, float *logits, float epsilon, float scale, int num_rows,
                           int threads) {
    if (shape->heads / shape->key_heads > MAX_GROUPS || num_rows > MAX_ROWS) return 1;
    const Multiplier multiplier = select(head->scale, num_rows, std::make_integer_sequence<int, MAX_ROWS>());
    Step step{*shape, layers, final_norm, *head, rows, rotation, logits, epsilon, scale * LOG2E, hidden, num_rows, multiplier};
    try {
        switch (shape->head_dim) {
            case 64: step.run<64>(threads); return 0;
            case 128: step.run<128>(threads); return 0;
        }
    } catch (const std::bad_alloc &) {
        return 2;
    }
    return 1;
}
