// Matrix products with AMX: eight tile registers of up to 16 rows x 64 bytes each.
//
// Inline assembly, because gcc 12 does not know that its AMX intrinsics read memory, and removes stores before them.

#pragma once

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "simd.h"

struct Rows {  // of 32 bf16 or more
    const bf16 *data;
    int64_t stride;  // elements
};

#define TILE_LOAD(tile, data, stride) asm volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(data), "r"(stride) : "memory")
#define TILE_STORE(tile, data, stride) asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(data), "r"(stride) : "memory")
#define TILE_ZERO(tile) asm volatile("tilezero %%tmm" #tile ::)
#define TILE_MULTIPLY(sum, left, right) asm volatile("tdpbf16ps %%tmm" #right ", %%tmm" #left ", %%tmm" #sum ::)
#define TILE_MULTIPLY_BYTES(sum, left, right) asm volatile("tdpbusd %%tmm" #right ", %%tmm" #left ", %%tmm" #sum ::)

// Ask the kernel for the tile registers, which every process has to; false where there are none.
inline bool request_tiles() {
    constexpr unsigned NEEDED = 1u << 22 | 1u << 24 | 1u << 25;   // CPUID 7.0, EDX: AMX_BF16, AMX_TILE, AMX_INT8
    constexpr int REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;    // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || ~d & NEEDED) return false;
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

// Of the calling thread: tiles 0 to 3 for sums, 4 and 5 for left operands, of `rows` x 64 bytes each; 6 and 7 for right
// operands, of 16 x 64 bytes. oneDNN, which torch uses, configures tiles again if it finds others.
inline void configure_tiles(uint8_t rows = 16) {
    struct alignas(64) Configuration {
        uint8_t palette, start_row, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    };
    const Configuration configuration{1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {rows, rows, rows, rows, rows, rows, 16, 16}};
    asm volatile("ldtilecfg %0" ::"m"(configuration));
}

inline void release_tiles() { asm volatile("tilerelease" ::); }

// sums [32][32] (+)= left [32][32 x chunks] . right [32 x chunks][32]. `left` is two blocks of 16 rows, whose next chunk of
// 32 columns begins `step` elements later; `right` has pairs of rows in a dword, [16 x chunks][32].
template <bool ADD>
inline void multiply_tiles(Rows first, Rows second, int64_t step, const uint32_t *right, int chunks, float *sums) {
    constexpr int64_t STRIDE = 32 * sizeof(float);
    float *below = sums + 16 * 32;
    if (ADD) {
        TILE_LOAD(0, sums, STRIDE);
        TILE_LOAD(1, sums + 16, STRIDE);
        TILE_LOAD(2, below, STRIDE);
        TILE_LOAD(3, below + 16, STRIDE);
    } else {
        TILE_ZERO(0);
        TILE_ZERO(1);
        TILE_ZERO(2);
        TILE_ZERO(3);
    }
    for (int i = 0; i < chunks; i++, right += 16 * 32) {
        TILE_LOAD(4, first.data + i * step, 2 * first.stride);
        TILE_LOAD(6, right, STRIDE);
        TILE_MULTIPLY(0, 4, 6);
        TILE_LOAD(7, right + 16, STRIDE);
        TILE_MULTIPLY(1, 4, 7);
        TILE_LOAD(5, second.data + i * step, 2 * second.stride);
        TILE_MULTIPLY(2, 5, 6);
        TILE_MULTIPLY(3, 5, 7);
    }
    TILE_STORE(0, sums, STRIDE);
    TILE_STORE(1, sums + 16, STRIDE);
    TILE_STORE(2, below, STRIDE);
    TILE_STORE(3, below + 16, STRIDE);
}
