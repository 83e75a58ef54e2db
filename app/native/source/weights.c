#include "weights.h"

#include <stdlib.h>

#include "numbers.h"

enum { TILE = 4 };

/* Column of place `p` in an arranged block of 64: vectors of eight whose lower four belong to the first 32 columns and whose
   upper four to the second; four vectors of even columns, then four of odd ones. It is the order in which AVX2 unpacks bytes. */
static inline long column_at(long p) {
    long odd = p / 32, vector = p % 32 / 8, upper = p % 8 / 4;
    return 2 * (upper * 16 + vector * 4 + p % 4) + odd;
}

void arrange(int64_t kind, long columns, const float *from, arranged to) {
    if (kind != LEVELS && kind != GRID) {
        memcpy(to.values, from, (size_t)columns * sizeof(float));
        return;
    }
    for (long block = 0; block < columns; block += 64)
        for (long p = 0; p < 64; p++) {
            long column = block + column_at(p);
            to.values[block + p] = column < columns ? from[column] : 0.0f;
        }
    for (long group = 0; group < room_sums(columns); group++) {
        float sum = 0.0f;
        for (long i = group * 32; i < group * 32 + 32 && i < columns; i++) sum += from[i];
        to.sums[group] = sum;
    }
}

/* The scale of each lane of an arranged block of 64. */
static inline v8 scale_of(const weight *w, const uint16_t *scales, long block, long blocks_left) {
#ifdef FADER_AVX2
    if (w->kind == LEVELS) return _mm256_castsi256_ps(_mm256_set1_epi32((int)((uint32_t)scales[block] << 16)));
    uint32_t two = scales[2 * block];
    if (blocks_left) two |= (uint32_t)scales[2 * block + 1] << 16;
    __m256 both = _mm256_castps128_ps256(_mm_cvtph_ps(_mm_cvtsi32_si128((int)two)));
    return _mm256_permutevar8x32_ps(both, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
#else
    if (w->kind == LEVELS) return v_all(from_bf16(scales[block]));
    v8 r;
    float first = from_f16(scales[2 * block]), second = blocks_left ? from_f16(scales[2 * block + 1]) : 0.0f;
    for (int i = 0; i < 8; i++) r.at[i] = i < 4 ? first : second;
    return r;
#endif
}

/* The 64 numbers of an arranged block, not yet scaled. */
#ifdef FADER_AVX2
typedef struct { __m256i low, high; } table;

static inline table table_of(const weight *w) {
    uint8_t low[16], high[16];
    for (int i = 0; i < 16; i++) {
        low[i] = (uint8_t)w->levels[i];
        high[i] = (uint8_t)(w->levels[i] >> 8);
    }
    table t;
    t.low = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)low));
    t.high = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)high));
    return t;
}

static inline void spread(table t, __m256i index, v8 *out) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i low = _mm256_shuffle_epi8(t.low, index), high = _mm256_shuffle_epi8(t.high, index);
    __m256i first = _mm256_unpacklo_epi8(low, high), second = _mm256_unpackhi_epi8(low, high);
    out[0] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, first));
    out[1] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, first));
    out[2] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, second));
    out[3] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, second));
}

static inline void look_up(table t, const uint8_t *codes, long bytes, v8 *out) {
    const __m256i mask = _mm256_set1_epi8(15);
    __m256i both = bytes == 32 ? _mm256_loadu_si256((const __m256i *)codes)
                               : _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)codes));
    spread(t, _mm256_and_si256(_mm256_srli_epi16(both, 4), mask), out);
    spread(t, _mm256_and_si256(both, mask), out + 4);
}
#else
typedef struct { float at[16]; } table;

static inline table table_of(const weight *w) {
    table t;
    for (int i = 0; i < 16; i++) t.at[i] = from_bf16(w->levels[i]);
    return t;
}

static inline void look_up(table t, const uint8_t *codes, long bytes, v8 *out) {
    for (long p = 0; p < 64; p++) {
        long column = column_at(p), byte = column / 2;
        uint8_t both = byte < bytes ? codes[byte] : 0;
        out[p / 8].at[p % 8] = t.at[column % 2 ? both & 15 : both >> 4];
    }
}
#endif

/* One row of 4-bit codes times up to TILE vectors. A row that ends in the middle of a block of 64 (32 columns more) has a scale
   of zero, or stored garbage times a zero of the vector, for what is missing. */
static inline __attribute__((always_inline)) void row_4bit(
    const weight *w, table t, long row, const arranged *vectors, int many, float *sums) {
    const long columns = w->columns, groups = columns / 32, blocks = (columns + 63) / 64;
    const int grid = w->kind == GRID;
    const uint8_t *codes = w->codes + row * (columns / 2);
    const uint16_t *scales = w->scales + row * (grid ? groups : columns / 64);
    v8 total[TILE];
    for (int v = 0; v < many; v++) total[v] = v_all(0.0f);
    for (long block = 0; block < blocks; block++) {
        v8 number[8];
        long left = columns - block * 64;
        look_up(t, codes + block * 32, left >= 64 ? 32 : 16, number);
        v8 scale = scale_of(w, scales, block, left >= 64);
        for (int v = 0; v < many; v++) {
            const float *x = vectors[v].values + block * 64;
            v8 even = v_mul(number[0], v_load(x)), odd = v_mul(number[4], v_load(x + 32));
            for (int i = 1; i < 4; i++) {
                even = v_fma(number[i], v_load(x + 8 * i), even);
                odd = v_fma(number[4 + i], v_load(x + 32 + 8 * i), odd);
            }
            total[v] = v_fma(v_add(even, odd), scale, total[v]);
        }
    }
    if (grid) {
        const uint16_t *offsets = w->offsets + row * groups;
        long group = 0;
        for (; group + 8 <= groups; group += 8) {
            v8 offset = v_from_f16(offsets + group);
            for (int v = 0; v < many; v++) total[v] = v_fma(offset, v_load(vectors[v].sums + group), total[v]);
        }
        for (int v = 0; v < many; v++) {
            float rest = 0.0f;
            for (long g = group; g < groups; g++) rest += from_f16(offsets[g]) * vectors[v].sums[g];
            sums[v] = v_sum(total[v]) + rest;
        }
        return;
    }
    for (int v = 0; v < many; v++) sums[v] = v_sum(total[v]);
}

static inline v8 plain_at(const weight *w, const uint8_t *row, long column) {
    if (w->kind == GRID8) return v_from_i8((const int8_t *)row + column);
    return w->kind == HALF ? v_from_bf16((const uint16_t *)row + column) : v_load((const float *)row + column);
}

static inline long row_bytes(const weight *w) {
    static const long bytes_of_eight[] = {4, 4, 8, 16, 32};
    return w->columns / 8 * bytes_of_eight[w->kind];
}

/* One row of whole numbers (GRID8, HALF, WHOLE) times up to TILE vectors. */
static inline __attribute__((always_inline)) void row_plain(
    const weight *w, int64_t kind, long row, const arranged *vectors, int many, float *sums) {
    weight as = *w;
    as.kind = kind;
    const uint8_t *from = w->codes + row * row_bytes(&as);
    v8 total[TILE][2];
    for (int v = 0; v < many; v++) total[v][0] = total[v][1] = v_all(0.0f);
    long column = 0;
    if (kind == GRID8) {
        const uint16_t *scales = w->scales + row * (w->columns / 32);
        for (; column + 32 <= w->columns; column += 32) {
            v8 scale = v_all(from_f16(scales[column / 32]));
            v8 a = plain_at(&as, from, column), b = plain_at(&as, from, column + 8);
            v8 c = plain_at(&as, from, column + 16), d = plain_at(&as, from, column + 24);
            for (int v = 0; v < many; v++) {
                const float *x = vectors[v].values + column;
                v8 even = v_fma(c, v_load(x + 16), v_mul(a, v_load(x)));
                v8 odd = v_fma(d, v_load(x + 24), v_mul(b, v_load(x + 8)));
                total[v][0] = v_fma(v_add(even, odd), scale, total[v][0]);
            }
        }
    } else {
        for (; column + 16 <= w->columns; column += 16) {
            v8 a = plain_at(&as, from, column), b = plain_at(&as, from, column + 8);
            for (int v = 0; v < many; v++) {
                total[v][0] = v_fma(a, v_load(vectors[v].values + column), total[v][0]);
                total[v][1] = v_fma(b, v_load(vectors[v].values + column + 8), total[v][1]);
            }
        }
        for (; column + 8 <= w->columns; column += 8)
            for (int v = 0; v < many; v++)
                total[v][0] = v_fma(plain_at(&as, from, column), v_load(vectors[v].values + column), total[v][0]);
    }
    for (int v = 0; v < many; v++) sums[v] = v_sum(v_add(total[v][0], total[v][1]));
}

static inline __attribute__((always_inline)) void tile(
    const weight *w, int64_t kind, table t, long from, long to, const arranged *vectors, int many, float *out, long stride, long shift) {
    weight as = *w;
    as.kind = kind;
    for (long row = from; row < to; row++) {
        float sums[TILE];
        if (kind == LEVELS || kind == GRID) row_4bit(&as, t, row, vectors, many, sums);
        else row_plain(&as, kind, row, vectors, many, sums);
        float bias = w->bias ? w->bias[row] : 0.0f;
        for (int v = 0; v < many; v++) out[v * stride + row - shift] = sums[v] + bias;
    }
}

/* A copy of the loop for each kind and tile: what is constant in it is worked out by the compiler. */
#define ONE_TILE(kind, many) \
    case many: tile(w, kind, t, from, to, vectors + v, many, part, stride, shift); break;
#define TILES(kind)                                                                             \
    case kind:                                                                                  \
        switch (now) { ONE_TILE(kind, 1) ONE_TILE(kind, 2) ONE_TILE(kind, 3) ONE_TILE(kind, 4) } \
        break;

void multiply_rows(const weight *w, long from, long to, const arranged *vectors, long many, float *out, long stride, long shift) {
    table t = table_of(w);
    for (long v = 0; v < many; v += TILE) {
        int now = many - v < TILE ? (int)(many - v) : TILE;
        float *part = out + v * stride;
        switch (w->kind) {
            TILES(LEVELS)
            TILES(GRID)
            TILES(GRID8)
            TILES(HALF)
            TILES(WHOLE)
        }
    }
}

static inline void put(void *out, long at, float value, int brain) {
    if (brain) ((uint16_t *)out)[at] = to_bf16(value);
    else ((float *)out)[at] = value;
}

#ifdef FADER_AVX2
static inline void put8(void *out, long at, v8 value, int brain) {
    if (!brain) {
        v_store((float *)out + at, value);
        return;
    }
    __m256i bits = _mm256_castps_si256(value), one = _mm256_set1_epi32(1);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
    bits = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(_mm256_set1_epi32(0x7fff), odd)), 16);
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(bits, bits), 0xd8);
    _mm_storeu_si128((__m128i *)((uint16_t *)out + at), _mm256_castsi256_si128(packed));
}

/* Sixteen codes of eight bytes, in the order of their columns. */
static inline void eight_bytes(table t, const uint8_t *codes, v8 *out) {
    __m128i both = _mm_loadl_epi64((const __m128i *)codes), mask = _mm_set1_epi8(15);
    __m128i index = _mm_unpacklo_epi8(_mm_and_si128(_mm_srli_epi16(both, 4), mask), _mm_and_si128(both, mask));
    __m128i low = _mm_shuffle_epi8(_mm256_castsi256_si128(t.low), index);
    __m128i high = _mm_shuffle_epi8(_mm256_castsi256_si128(t.high), index);
    for (int half = 0; half < 2; half++) {
        __m128i words = half ? _mm_unpackhi_epi8(low, high) : _mm_unpacklo_epi8(low, high);
        out[half] = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
    }
}
#else
static inline void put8(void *out, long at, v8 value, int brain) {
    for (int i = 0; i < 8; i++) put(out, at + i, value.at[i], brain);
}

static inline void eight_bytes(table t, const uint8_t *codes, v8 *out) {
    for (int i = 0; i < 16; i++) out[i / 8].at[i % 8] = t.at[i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4];
}
#endif

static inline __attribute__((always_inline)) void unpack_4bit(
    const weight *w, int64_t kind, table t, long row, void *out, long start, int brain) {
    const long columns = w->columns, group = kind == GRID ? 32 : 64;
    const uint8_t *codes = w->codes + row * (columns / 2);
    const uint16_t *scales = w->scales + row * (columns / group), *offsets = w->offsets;
    for (long column = 0; column < columns; column += 16) {
        long g = column / group;
        v8 number[2];
        eight_bytes(t, codes + column / 2, number);
        v8 scale = v_all(kind == GRID ? from_f16(scales[g]) : from_bf16(scales[g])), offset = v_all(0.0f);
        if (kind == GRID) offset = v_all(from_f16(offsets[row * (columns / 32) + g]));
        for (int half = 0; half < 2; half++) {
            v8 value = kind == GRID ? v_fma(number[half], scale, offset) : v_mul(number[half], scale);
            put8(out, start + column + 8 * half, value, brain);
        }
    }
}

void unpack_rows(const weight *w, long from, long to, void *out, int brain) {
    table t = table_of(w);
    for (long row = from; row < to; row++) {
        long start = (row - from) * w->columns;
        if (w->kind == LEVELS) unpack_4bit(w, LEVELS, t, row, out, start, brain);
        else if (w->kind == GRID) unpack_4bit(w, GRID, t, row, out, start, brain);
        else {
            const uint8_t *bytes = w->codes + row * row_bytes(w);
            const uint16_t *scales = w->kind == GRID8 ? w->scales + row * (w->columns / 32) : 0;
            for (long column = 0; column < w->columns; column += 8) {
                v8 scale = v_all(scales ? from_f16(scales[column / 32]) : 1.0f);
                put8(out, start + column, v_mul(plain_at(w, bytes, column), scale), brain);
            }
        }
    }
}
