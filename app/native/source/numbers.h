/* Vectors of eight floats, and the 16-bit number formats: with AVX2 where there is AVX2, as plain loops elsewhere. */
#ifndef FADER_NUMBERS_H
#define FADER_NUMBERS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float from_bf16(uint16_t bits) {
    uint32_t whole = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &whole, 4);
    return value;
}

static inline uint16_t to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define FADER_AVX2 1
#include <immintrin.h>

typedef __m256 v8;

static inline v8 v_load(const float *from) { return _mm256_loadu_ps(from); }
static inline void v_store(float *to, v8 value) { _mm256_storeu_ps(to, value); }
static inline v8 v_all(float value) { return _mm256_set1_ps(value); }
static inline v8 v_mul(v8 a, v8 b) { return _mm256_mul_ps(a, b); }
static inline v8 v_add(v8 a, v8 b) { return _mm256_add_ps(a, b); }
static inline v8 v_max(v8 a, v8 b) { return _mm256_max_ps(a, b); }
static inline v8 v_fma(v8 a, v8 b, v8 c) { return _mm256_fmadd_ps(a, b, c); }
static inline v8 v_from_f16(const uint16_t *from) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from)); }
static inline v8 v_from_bf16(const uint16_t *from) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from)), 16));
}
static inline v8 v_from_i8(const int8_t *from) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from)));
}
static inline float v_sum(v8 value) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
static inline float v_most(v8 value) {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}
static inline float from_f16(uint16_t bits) { return _cvtsh_ss(bits); }
static inline uint16_t to_f16(float value) { return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT); }

/* e to the power of each: the Cephes library's expf (S. L. Moshier), relative error below 2^-22 within +-87. */
static inline v8 v_exp(v8 x) {
    x = _mm256_min_ps(_mm256_max_ps(x, _mm256_set1_ps(-87.3f)), _mm256_set1_ps(88.3f));
    v8 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    v8 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
    v8 p = _mm256_set1_ps(1.9875691500e-4f);
    p = v_fma(p, r, _mm256_set1_ps(1.3981999507e-3f));
    p = v_fma(p, r, _mm256_set1_ps(8.3334519073e-3f));
    p = v_fma(p, r, _mm256_set1_ps(4.1665795894e-2f));
    p = v_fma(p, r, _mm256_set1_ps(1.6666665459e-1f));
    p = v_fma(p, r, _mm256_set1_ps(5.0000001201e-1f));
    p = v_add(v_fma(_mm256_mul_ps(p, r), r, r), _mm256_set1_ps(1.0f));
    __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return v_mul(p, _mm256_castsi256_ps(power));
}

#else
typedef struct { float at[8]; } v8;
#define V_EACH for (int i = 0; i < 8; i++)

static inline v8 v_load(const float *from) { v8 r; memcpy(r.at, from, sizeof r.at); return r; }
static inline void v_store(float *to, v8 value) { memcpy(to, value.at, sizeof value.at); }
static inline v8 v_all(float value) { v8 r; V_EACH r.at[i] = value; return r; }
static inline v8 v_mul(v8 a, v8 b) { V_EACH a.at[i] *= b.at[i]; return a; }
static inline v8 v_add(v8 a, v8 b) { V_EACH a.at[i] += b.at[i]; return a; }
static inline v8 v_max(v8 a, v8 b) { V_EACH a.at[i] = a.at[i] > b.at[i] ? a.at[i] : b.at[i]; return a; }
static inline v8 v_fma(v8 a, v8 b, v8 c) { V_EACH c.at[i] += a.at[i] * b.at[i]; return c; }
static inline v8 v_exp(v8 a) { V_EACH a.at[i] = expf(a.at[i]); return a; }
static inline float v_sum(v8 v) { float s = 0; V_EACH s += v.at[i]; return s; }
static inline float v_most(v8 v) { float m = v.at[0]; V_EACH m = v.at[i] > m ? v.at[i] : m; return m; }
static inline float from_f16(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, part = bits & 0x3ffu, whole;
    float value;
    if (exponent == 0) {
        value = ldexpf((float)part, -24);
        return sign ? -value : value;
    }
    whole = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | (part << 13);
    memcpy(&value, &whole, 4);
    return value;
}
static inline uint16_t to_f16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint16_t sign = (uint16_t)((bits >> 16) & 0x8000u);
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) return sign | 0x7e00u;
    if (bits >= 0x477ff000u) return sign | 0x7c00u;
    if (bits < 0x38800000u) {
        float small;
        memcpy(&small, &bits, 4);
        return sign | (uint16_t)lrintf(ldexpf(small, 24));
    }
    return sign | (uint16_t)((bits - 0x38000000u + 0xfffu + ((bits >> 13) & 1u)) >> 13);
}
static inline v8 v_from_f16(const uint16_t *from) { v8 r; V_EACH r.at[i] = from_f16(from[i]); return r; }
static inline v8 v_from_bf16(const uint16_t *from) { v8 r; V_EACH r.at[i] = from_bf16(from[i]); return r; }
static inline v8 v_from_i8(const int8_t *from) { v8 r; V_EACH r.at[i] = (float)from[i]; return r; }
#endif

#endif
