// Slot-causal attention with grouped query heads, for AVX-512 BF16 and AMX: out = softmax(q k^T scale) v, where the row at
// slot s attends to slots 0..s. bf16 in and out; logits, softmax and sums in fp32 (FlashAttention's online softmax,
// arXiv:2205.14135).
//
// A lane is one row of one query head. 48 lanes of a key head's group run together, in three vectors of 16 (with AMX 32,
// in two), so every key and value is read once for all of them: the logits of a block of keys are held transposed,
// [keys][lanes], and so are the outputs, [head dimension][lanes]. Several such sets of lanes take a block of keys in turn, so
// that it is read from memory once. A lane's result does not depend on the other lanes.

#include <immintrin.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "simd.h"
#include "tiles.h"

namespace {

constexpr int vectors(bool amx) { return amx ? 2 : 3; }
constexpr int KEY_BLOCK = 128;  // keys per step of the online softmax
constexpr int MAX_SETS = 8;     // of lanes, which attend to a block of keys one after another while it is in the cache
constexpr int MIN_TASKS = 8;    // per thread, so that all finish at about the same time
constexpr int PAD = 32;         // keys are processed in multiples of it
constexpr int TILE = 8;         // keys, or dimensions, whose sums are in registers together: 8 x 3 of 32
constexpr int TAIL = 16;        // the last num_keys % TAIL keys are copied, so that whole tiles can be read

struct Tensor3 {  // [heads][rows][head dimension], strides in elements; the head dimension is contiguous
    bf16 *data;
    int64_t head, row;
    bf16 *at(int64_t h, int64_t r) const { return data + h * head + r * row; }
};

struct Problem {
    Tensor3 query, key, value, out;
    const int64_t *slots;  // [num_rows], ascending
    int64_t num_rows, num_keys;
    int groups;       // query heads per key head
    float scale;      // of the logits, times log2(e)
    float *log_sums;  // [query heads][rows], each row's log-sum-exp of the scaled logits; or null

    int64_t lanes() const { return num_rows * groups; }  // of a key head
    int64_t row_of(int64_t lane) const { return lane / groups; }
    int64_t head_of(int64_t key_head, int64_t lane) const { return key_head * groups + lane % groups; }
};

char *aligned(size_t bytes) { return static_cast<char *>(std::aligned_alloc(64, (bytes + 4095) / 4096 * 4096)); }

// Memory of one thread that is kept between calls.
struct Scratch {
    char *data = nullptr;
    size_t size = 0;
    char *get(size_t bytes) {
        if (size < bytes) {
            std::free(data);
            data = aligned(bytes);
            size = data ? bytes : 0;
        }
        return data;
    }
    ~Scratch() { std::free(data); }
};

// Order that interleaves the words of two vectors, or of the halves of one, from word `first` on.
struct Interleave {
    alignas(64) uint16_t words[32];
    constexpr Interleave(int first, int second) : words() {
        for (int i = 0; i < 16; i++) {
            words[2 * i] = first + i;
            words[2 * i + 1] = second + i;
        }
    }
};
constexpr Interleave LOW_WORDS(0, 32), HIGH_WORDS(16, 48), HALVES(0, 16);

// Values of the PAD keys from `first` on -> pairs [PAD / 2][D], or [D][PAD / 2] for AMX, each dword two neighbouring keys;
// 0 past the last key.
template <int D, bool AMX> void pack_values(const Problem &p, int64_t head, int64_t first, uint32_t *pairs) {
    for (int d = 0; d < D; d += 32) {
        __m512i low[PAD / 2], high[PAD / 2];  // dimensions d..d + 15 and d + 16..d + 31 of each pair
        for (int i = 0; i < PAD / 2; i++) {
            const int64_t k = first + 2 * i;
            const __m512i zero = _mm512_setzero_si512();
            const __m512i a = k < p.num_keys ? _mm512_loadu_si512(p.value.at(head, k) + d) : zero;
            const __m512i b = k + 1 < p.num_keys ? _mm512_loadu_si512(p.value.at(head, k + 1) + d) : zero;
            low[i] = _mm512_permutex2var_epi16(a, _mm512_load_si512(LOW_WORDS.words), b);
            high[i] = _mm512_permutex2var_epi16(a, _mm512_load_si512(HIGH_WORDS.words), b);
        }
        if (AMX) {
            transpose(low);
            transpose(high);
        }
        uint32_t *target = pairs + d * (AMX ? PAD / 2 : 1);
        for (int i = 0; i < PAD / 2; i++) {
            _mm512_store_si512(target + i * (AMX ? PAD / 2 : D), low[i]);
            _mm512_store_si512(target + (AMX ? (16 + i) * (PAD / 2) : i * D + 16), high[i]);
        }
    }
}

// Softmax numerators of `count` keys, [count][lanes] logits -> bf16 pairs [count / 2][lanes]. Updates each lane's maximum
// and sum, and returns in `rescale` the factor for what was summed before.
template <bool MASKED, int VECTORS>
void softmax_block(const float *logits, uint32_t *weights, int count, int first, const __m512i *slots, float scale,
                   __m512 *maxima, __m512 *sums, __m512 *rescale) {
    constexpr int LANES = 16 * VECTORS;
    const __m512 factor = _mm512_set1_ps(scale);
    const __m512i order = _mm512_load_si512(HALVES.words);
    for (int v = 0; v < VECTORS; v++) {
        const float *x = logits + 16 * v;
        auto is_visible = [&](int k) { return _mm512_cmple_epi32_mask(_mm512_set1_epi32(first + k), slots[v]); };
        __m512 largest[4];
        for (__m512 &each : largest) each = _mm512_set1_ps(-INFINITY);
        for (int k = 0; k < count; k += 4)
            for (int i = 0; i < 4; i++) {
                const __m512 logit = _mm512_load_ps(x + (k + i) * LANES);
                largest[i] = MASKED ? _mm512_mask_max_ps(largest[i], is_visible(k + i), largest[i], logit)
                                    : _mm512_max_ps(largest[i], logit);
            }
        const __m512 block_maximum =
            _mm512_max_ps(_mm512_max_ps(largest[0], largest[1]), _mm512_max_ps(largest[2], largest[3]));
        const __m512 maximum = _mm512_max_ps(maxima[v], _mm512_mul_ps(block_maximum, factor));
        rescale[v] = exp2_fast(_mm512_sub_ps(maxima[v], maximum));
        maxima[v] = maximum;
        __m512 even = _mm512_setzero_ps(), odd = even;
#pragma GCC unroll 4
        for (int k = 0; k < count; k += 2) {
            __m512 a = exp2_fast(_mm512_fmsub_ps(_mm512_load_ps(x + k * LANES), factor, maximum));
            __m512 b = exp2_fast(_mm512_fmsub_ps(_mm512_load_ps(x + (k + 1) * LANES), factor, maximum));
            if (MASKED) {
                a = _mm512_maskz_mov_ps(is_visible(k), a);
                b = _mm512_maskz_mov_ps(is_visible(k + 1), b);
            }
            even = _mm512_add_ps(even, a);
            odd = _mm512_add_ps(odd, b);
            const __m512i pair = _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(b, a));
            _mm512_store_si512(weights + (k / 2) * LANES + 16 * v, pair);
        }
        sums[v] = _mm512_fmadd_ps(sums[v], rescale[v], _mm512_add_ps(even, odd));
    }
}

// sums[i][lane] += sum over j of left[i * left_step + j * left_stride] . right[j][lane], in pairs of bf16, for TILE rows i.
template <int VECTORS>
inline void multiply(__m512 sums[TILE][VECTORS], const uint32_t *left, int64_t left_step, int64_t left_stride,
                     const uint32_t *right, int count) {
    for (int j = 0; j < count; j++, left += left_stride, right += 16 * VECTORS) {
        __m512bh lanes[VECTORS];
        for (int v = 0; v < VECTORS; v++) lanes[v] = (__m512bh)_mm512_load_si512(right + 16 * v);
#pragma GCC unroll 8
        for (int i = 0; i < TILE; i++) {
            const __m512bh pair = (__m512bh)_mm512_set1_epi32(left[i * left_step]);
            for (int v = 0; v < VECTORS; v++) sums[i][v] = _mm512_dpbf16_ps(sums[i][v], pair, lanes[v]);
        }
    }
}

// LANES lanes of a key head, and their online softmax so far.
template <int D, int LANES> struct Lanes {
    int64_t first;               // lane
    int count, lowest, highest;  // lanes in use, and their slots
    __m512i slots[LANES / 16];
    __m512 maxima[LANES / 16], sums[LANES / 16];
    alignas(64) uint32_t queries[D / 2 * LANES];  // pairs of dimensions
    alignas(64) float outputs[D * LANES];
};

template <int D, int LANES> struct Workspace {
    alignas(64) float logits[KEY_BLOCK * LANES];
    alignas(64) uint32_t weights[KEY_BLOCK / 2 * LANES];
    Lanes<D, LANES> lanes[MAX_SETS];
};

// Start with lanes first..first + LANES of a key head.
template <int D, bool AMX>
void begin_lanes(const Problem &p, int64_t head, int64_t first, Lanes<D, 16 * vectors(AMX)> &lanes) {
    constexpr int VECTORS = vectors(AMX), LANES = 16 * VECTORS;
    lanes.first = first;
    lanes.count = static_cast<int>(std::min<int64_t>(LANES, p.lanes() - first));
    alignas(64) int32_t lane_slots[LANES];
    for (int i = 0; i < LANES; i++)
        lane_slots[i] = static_cast<int32_t>(p.slots[p.row_of(first + std::min(i, lanes.count - 1))]);
    for (int v = 0; v < VECTORS; v++) {
        lanes.slots[v] = _mm512_load_si512(lane_slots + 16 * v);
        lanes.maxima[v] = _mm512_set1_ps(-INFINITY);
        lanes.sums[v] = _mm512_setzero_ps();
        for (int d = 0; d < D / 2; d += 16) {
            __m512i r[16];
            for (int i = 0; i < 16; i++) {
                const int64_t lane = first + 16 * v + i;
                r[i] = 16 * v + i < lanes.count ? _mm512_loadu_si512(p.query.at(p.head_of(head, lane), p.row_of(lane)) + 2 * d)
                                                : _mm512_setzero_si512();
            }
            transpose(r);
            for (int i = 0; i < 16; i++) _mm512_store_si512(lanes.queries + (d + i) * LANES + 16 * v, r[i]);
        }
    }
    std::memset(lanes.outputs, 0, sizeof lanes.outputs);
    lanes.lowest = lane_slots[0];
    lanes.highest = lane_slots[LANES - 1];
}

// Let lanes attend to the block of keys from `start` on; see `attend_lanes`.
template <int D, bool AMX>
void attend_block(const Problem &p, int64_t head, int start, const uint32_t *pairs, const bf16 *tail, int64_t tail_start,
                  Workspace<D, 16 * vectors(AMX)> &w, Lanes<D, 16 * vectors(AMX)> &lanes) {
    constexpr int VECTORS = vectors(AMX), LANES = 16 * VECTORS;
    const int keys = std::min(KEY_BLOCK, (lanes.highest + 1 - start + PAD - 1) / PAD * PAD);
    __m512 rescale[VECTORS];
    auto keys_at = [&](int k) {
        const bool in_tail = start + k >= tail_start;
        return Rows{in_tail ? tail + (start + k - tail_start) * D : p.key.at(head, start + k), in_tail ? D : p.key.row};
    };
    if constexpr (AMX) {
        for (int k = 0; k < keys; k += 32)
            multiply_tiles<false>(keys_at(k), keys_at(k + 16), 32, lanes.queries, D / 32, w.logits + k * LANES);
    } else {
        for (int k = 0; k < keys; k += TILE) {
            const Rows rows = keys_at(k);
            __m512 tile[TILE][VECTORS];
            for (auto &each : tile)
                for (__m512 &sum : each) sum = _mm512_setzero_ps();
            multiply(tile, reinterpret_cast<const uint32_t *>(rows.data), rows.stride / 2, 1, lanes.queries, D / 2);
            for (int i = 0; i < TILE; i++)
                for (int v = 0; v < VECTORS; v++) _mm512_store_ps(w.logits + (k + i) * LANES + 16 * v, tile[i][v]);
        }
    }
    const bool is_masked = start + keys - 1 > lanes.lowest;
    (is_masked ? softmax_block<true, VECTORS> : softmax_block<false, VECTORS>)(w.logits, w.weights, keys, start, lanes.slots,
                                                                               p.scale, lanes.maxima, lanes.sums, rescale);
    const uint32_t *block = pairs + start / 2 * D;
    if constexpr (AMX) {
        for (int v = 0; v < VECTORS; v++)
            if (_mm512_cmpneq_ps_mask(rescale[v], _mm512_set1_ps(1.0f)))
                for (float *x = lanes.outputs + 16 * v; x < lanes.outputs + D * LANES; x += LANES)
                    _mm512_store_ps(x, _mm512_mul_ps(_mm512_load_ps(x), rescale[v]));
        for (int d = 0; d < D; d += 32) {
            const bf16 *first = reinterpret_cast<const bf16 *>(block + d * (PAD / 2));
            multiply_tiles<true>({first, PAD}, {first + 16 * PAD, PAD}, D * PAD, w.weights, keys / PAD, lanes.outputs + d * LANES);
        }
    } else {
        for (int d = 0; d < D; d += TILE) {
            __m512 tile[TILE][VECTORS];
            for (int i = 0; i < TILE; i++)
                for (int v = 0; v < VECTORS; v++)
                    tile[i][v] = _mm512_mul_ps(_mm512_load_ps(lanes.outputs + (d + i) * LANES + 16 * v), rescale[v]);
            multiply(tile, block + d, 1, D, w.weights, keys / 2);
            for (int i = 0; i < TILE; i++)
                for (int v = 0; v < VECTORS; v++) _mm512_store_ps(lanes.outputs + (d + i) * LANES + 16 * v, tile[i][v]);
        }
    }
}

// Store the outputs.
template <int D, bool AMX> void end_lanes(const Problem &p, int64_t head, Lanes<D, 16 * vectors(AMX)> &lanes) {
    constexpr int VECTORS = vectors(AMX), LANES = 16 * VECTORS;
    if (p.log_sums) {
        alignas(64) float lane_maxima[LANES], lane_sums[LANES];
        for (int v = 0; v < VECTORS; v++) {
            _mm512_store_ps(lane_maxima + 16 * v, lanes.maxima[v]);
            _mm512_store_ps(lane_sums + 16 * v, lanes.sums[v]);
        }
        for (int i = 0; i < lanes.count; i++) {
            const int64_t lane = lanes.first + i;
            p.log_sums[p.head_of(head, lane) * p.num_rows + p.row_of(lane)] = (lane_maxima[i] + std::log2(lane_sums[i])) / LOG2E;
        }
    }
    for (int v = 0; v < VECTORS; v++) {
        const __m512 inverse = _mm512_div_ps(_mm512_set1_ps(1.0f), lanes.sums[v]);
        for (int d = 0; d < D; d += 16) {
            __m512i r[16];
            for (int i = 0; i < 16; i++)
                r[i] = _mm512_castps_si512(_mm512_mul_ps(_mm512_load_ps(lanes.outputs + (d + i) * LANES + 16 * v), inverse));
            transpose(r);
            for (int i = 0; i < 16 && 16 * v + i < lanes.count; i++) {
                const int64_t lane = lanes.first + 16 * v + i;
                store16(p.out.at(p.head_of(head, lane), p.row_of(lane)) + d, _mm512_castsi512_ps(r[i]));
            }
        }
    }
}

// Lanes first..last of a key head, up to MAX_SETS sets; `pairs` are its packed values, `tail` its last keys, from
// `tail_start` on and followed by zeros.
template <int D, bool AMX>
void attend_lanes(const Problem &p, int64_t head, int64_t first, int64_t last, const uint32_t *pairs, const bf16 *tail,
                  int64_t tail_start, Workspace<D, 16 * vectors(AMX)> &w) {
    constexpr int LANES = 16 * vectors(AMX);
    int sets = 0;
    for (; first < last; first += LANES) begin_lanes<D, AMX>(p, head, first, w.lanes[sets++]);
    for (int start = 0; start <= w.lanes[sets - 1].highest; start += KEY_BLOCK)
        for (int i = 0; i < sets; i++)
            if (start <= w.lanes[i].highest) attend_block<D, AMX>(p, head, start, pairs, tail, tail_start, w, w.lanes[i]);
    for (int i = 0; i < sets; i++) end_lanes<D, AMX>(p, head, w.lanes[i]);
}

template <int D, bool AMX> int attend(const Problem &p, int num_key_heads, int threads) {
    constexpr int LANES = 16 * vectors(AMX);
    static thread_local Scratch packed;
    const int64_t blocks = (p.num_keys + PAD - 1) / PAD, tail_start = p.num_keys / TAIL * TAIL;
    const size_t pairs_size = static_cast<size_t>(blocks) * PAD / 2 * D;  // dwords per head
    const size_t tail_size = static_cast<size_t>(2 * PAD) * D;            // elements per head
    char *memory = packed.get(num_key_heads * (pairs_size * sizeof(uint32_t) + tail_size * sizeof(bf16)));
    if (!memory) return 2;
    auto *pairs = reinterpret_cast<uint32_t *>(memory);
    auto *tails = reinterpret_cast<bf16 *>(pairs + num_key_heads * pairs_size);
    const int64_t sets = (p.lanes() + LANES - 1) / LANES;  // of a key head
    const int64_t sets_per_task = std::clamp<int64_t>(sets * num_key_heads / (MIN_TASKS * threads), 1, MAX_SETS);
    const int64_t tasks = (sets + sets_per_task - 1) / sets_per_task, lanes_per_task = sets_per_task * LANES;
    bool is_out_of_memory = false;
#pragma omp parallel num_threads(threads)
    {
        static thread_local Scratch scratch;
        auto *workspace = reinterpret_cast<Workspace<D, LANES> *>(scratch.get(sizeof(Workspace<D, LANES>)));
        if (!workspace) {
#pragma omp atomic write
            is_out_of_memory = true;
        }
        if constexpr (AMX) configure_tiles();
#pragma omp for schedule(static) nowait
        for (int head = 0; head < num_key_heads; head++) {
            bf16 *tail = tails + head * tail_size;
            std::memset(tail, 0, tail_size * sizeof(bf16));
            for (int64_t k = tail_start; k < p.num_keys; k++)
                std::memcpy(tail + (k - tail_start) * D, p.key.at(head, k), D * sizeof(bf16));
        }
#pragma omp for schedule(static)
        for (int64_t i = 0; i < num_key_heads * blocks; i++)
            pack_values<D, AMX>(p, i / blocks, i % blocks * PAD, pairs + i * PAD / 2 * D);
#pragma omp for schedule(dynamic, 1)
        for (int64_t task = 0; task < tasks * num_key_heads; task++) {  // rows that see the most keys first
            const int64_t first = (tasks - 1 - task / num_key_heads) * lanes_per_task, head = task % num_key_heads;
            if (workspace)
                attend_lanes<D, AMX>(p, head, first, std::min(first + lanes_per_task, p.lanes()), pairs + head * pairs_size,
                                     tails + head * tail_size, tail_start, *workspace);
        }
        if constexpr (AMX) release_tiles();
    }
    return is_out_of_memory ? 2 : 0;
}

template <int D> int attend(const Problem &p, int num_key_heads, int threads, bool use_amx) {
#ifdef USE_AMX  // older assemblers do not know its instructions
    if (use_amx) return attend<D, true>(p, num_key_heads, threads);
#endif
    return attend<D, false>(p, num_key_heads, threads);
}

}  // namespace

// Whether this process may use AMX; asks the operating system for it.
extern "C" int has_amx() {
#ifdef USE_AMX
    return request_tiles();
#endif
    return 0;
}

// query, out [query heads, rows, head_dim]; key, value [key heads, keys, head_dim] with keys > slots[rows - 1]; strides in
// elements, even for key; use_amx only after has_amx; log_sums [query heads, rows] may be null. Returns 0, 1 for an
// unsupported head dimension, or 2 if memory is short.
extern "C" int slot_attention(const bf16 *query, int64_t query_head, int64_t query_row, const bf16 *key, int64_t key_head,
                              int64_t key_row, const bf16 *value, int64_t value_head, int64_t value_row, bf16 *out,
                              int64_t out_head, int64_t out_row, float *log_sums, const int64_t *slots,
                              int64_t num_rows, int num_query_heads, int num_key_heads, int head_dim, float scale,
                              int threads, int use_amx) {
    const Problem p{{const_cast<bf16 *>(query), query_head, query_row},
                    {const_cast<bf16 *>(key), key_head, key_row},
                    {const_cast<bf16 *>(value), value_head, value_row},
                    {out, out_head, out_row},
                    slots,
                    num_rows,
                    slots[num_rows - 1] + 1,
                    num_query_heads / num_key_heads,
                    scale * LOG2E,
                    log_sums};
    switch (head_dim) {
        case 32: return attend<32>(p, num_key_heads, threads, use_amx);
        case 64: return attend<64>(p, num_key_heads, threads, use_amx);
        case 96: return attend<96>(p, num_key_heads, threads, use_amx);
        case 128: return attend<128>(p, num_key_heads, threads, use_amx);
        case 256: return attend<256>(p, num_key_heads, threads, use_amx);
    }
    return 1;
}
