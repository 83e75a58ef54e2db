/* Weights as they lie in memory, and products with them. All sums are in float32. */
#ifndef FADER_WEIGHTS_H
#define FADER_WEIGHTS_H

#include <stdint.h>

#include "team.h"

#ifdef _WIN32
#define API __declspec(dllexport)
#else
#define API __attribute__((visibility("default")))
#endif

enum kind {
    LEVELS = 0, /* 4 bits: one of 16 levels times a bfloat16 scale for every 64 columns (NF4, FP4) */
    GRID = 1,   /* 4 bits: 0 to 15 times a float16 scale plus a float16 offset for every 32 columns */
    GRID8 = 2,  /* 8 bits: -128 to 127 times a float16 scale for every 32 columns */
    HALF = 3,   /* bfloat16 */
    WHOLE = 4   /* float32 */
};

/* [rows, columns], row by row. 4-bit codes: the first of two neighbours in the high half of a byte. Columns are a multiple of 64
   for LEVELS, of 32 for the grids, of 8 for the others. `bias` may be 0. */
typedef struct {
    int64_t kind, rows, columns;
    const uint8_t *codes;
    const uint16_t *scales, *offsets;
    const float *bias;
    uint16_t levels[16]; /* bfloat16 */
} weight;

/* A vector laid out for `dot_row`: see `arrange`. */
typedef struct { float *values, *sums; } arranged;

/* Floats needed for `arranged.values` and `arranged.sums` of one vector. */
static inline long room_values(long columns) { return (columns + 63) / 64 * 64; }
static inline long room_sums(long columns) { return (columns / 32 + 15) / 8 * 8; }

/* Lay a vector out in the order in which a row of this kind unpacks, with the sum of every 32. */
void arrange(int64_t kind, long columns, const float *from, arranged to);

/* Rows [from, to) times `many` arranged vectors: out[v * stride + row - shift], bias included. */
void multiply_rows(const weight *w, long from, long to, const arranged *vectors, long many, float *out, long stride, long shift);

/* Rows [from, to) as numbers, float32 or (brain) bfloat16; `out` is row `from`. */
void unpack_rows(const weight *w, long from, long to, void *out, int brain);

#endif
