/* One token through a llama-like decoder, attention over all tokens before it, dense layers or a mixture of experts.

   All threads go through the layers together; what is small (norms, the layout of a product's input, the choice of experts) each of
   them works out for itself, which is quicker than waiting for one that does it for all. Rows of a product and heads are shared out. */
#include <stdlib.h>

#include "numbers.h"
#include "weights.h"

#define API __attribute__((visibility("default")))

/* One layer; pointers that a model has no use for are 0. Norms: float32 [hidden], of queries and keys [head size].
   Experts: router float32 [experts, hidden], correction float32 [experts] (it sways the choice, not the weights), one gate-and-up
   [2 x inner, hidden] and one down [hidden, inner] per expert. A dense MLP, or experts that every token passes, is gate, up, down. */
typedef struct {
    weight q, k, v, o, gate, up, down;
    const float *before, *between, *query_norm, *key_norm, *router, *correction;
    const weight *gate_up_experts, *down_experts;
    int64_t experts, chosen, normalized;
    double floor;
} layer;

typedef struct {
    int64_t hidden, heads, kv_heads, head, neighbours, layers;
    double eps, scaling;
    weight embedding, output;
    const float *final;
    const layer *each;
} decoder;

/* A reply's keys and values, float16 [layers, 2, key-value heads, room, head size], and the turns of its positions, float32
   [room, head size]: cosines, and sines whose sign is that of the first of a pair negated. */
typedef struct {
    int64_t room, length;
    uint16_t *past;
    const float *cosines, *sines;
} reply;

typedef struct {
    const decoder *model;
    reply *now;
    long token;
    float *logits, *hidden, *qkv, *mixed, *inner, *routed;
    float **own;
} walk;

static long widest(const decoder *m) {
    long most = m->hidden;
    if (m->heads * m->head > most) most = m->heads * m->head;
    for (long l = 0; l < m->layers; l++) {
        const layer *y = m->each + l;
        if (y->down.columns > most) most = y->down.columns;
        if (y->experts && y->down_experts[0].columns > most) most = y->down_experts[0].columns;
    }
    return most;
}

static long inner_width(const decoder *m) {
    long most = 0;
    for (long l = 0; l < m->layers; l++) {
        const layer *y = m->each + l;
        long width = y->down.columns + (y->experts ? y->chosen * y->down_experts[0].columns : 0);
        if (width > most) most = width;
    }
    return most;
}

static long most_experts(const decoder *m) {
    long most = 0;
    for (long l = 0; l < m->layers; l++)
        if (m->each[l].experts > most) most = m->each[l].experts;
    return most;
}

static long whole_lines(long floats) { return (floats + 15) / 16 * 16; }
static long room_shared(const decoder *m) {
    long heads = (m->heads + 2 * m->kv_heads) * m->head;
    return whole_lines(m->hidden) + whole_lines(heads) + whole_lines(m->heads * m->head) + whole_lines(inner_width(m)) +
           whole_lines(most_experts(m));
}
static long room_vector(long columns) { return whole_lines(room_values(columns) + room_sums(columns)); }
static long room_own(const decoder *m, long positions) {
    return 2 * whole_lines(widest(m)) + room_vector(widest(m)) + whole_lines(most_experts(m)) + whole_lines(m->head) +
           whole_lines(positions + 8);
}

/* Floats of working space that `fader_step` needs. */
API int64_t fader_step_room(const decoder *m, int64_t threads, int64_t positions) {
    return room_shared(m) + threads * room_own(m, positions);
}

static void normalize(const float *x, const float *weights, long size, double eps, float *out) {
    v8 squares = v_all(0.0f);
    for (long i = 0; i < size; i += 8) squares = v_fma(v_load(x + i), v_load(x + i), squares);
    v8 factor = v_all(1.0f / sqrtf(v_sum(squares) / (float)size + (float)eps));
    for (long i = 0; i < size; i += 8) v_store(out + i, v_mul(v_mul(v_load(x + i), factor), v_load(weights + i)));
}

static arranged vector_at(float *room, long columns) { return (arranged){room, room + room_values(columns)}; }

/* A thread's rows of one product with one vector. */
static void product(const weight *w, arranged x, float *out, int thread, int threads) {
    long from, to;
    team_share(w->rows, 8, thread, threads, &from, &to);
    multiply_rows(w, from, to, &x, 1, out, 0, 0);
}

static void turn(const walk *s, float *head) {
    const long size = s->model->head, half = size / 2, at = s->now->length * size;
    const float *c = s->now->cosines + at, *n = s->now->sines + at;
    const long step = s->model->neighbours ? 1 : half, stride = s->model->neighbours ? 2 : 1;
    for (long i = 0; i < half; i++) {
        long a = i * stride, b = a + step;
        float first = head[a], second = head[b];
        head[a] = first * c[a] + second * n[a];
        head[b] = second * c[b] + first * n[b];
    }
}

static uint16_t *past_of(const walk *s, long l, long which, long head) {
    const decoder *m = s->model;
    return s->now->past + (((l * 2 + which) * m->kv_heads + head) * s->now->room) * m->head;
}

static uint16_t short_of(float value) { return to_f16(value > 65504.0f ? 65504.0f : value < -65504.0f ? -65504.0f : value); }

static void remember(const walk *s, long l, int thread, int threads) {
    const decoder *m = s->model;
    float *keys = s->qkv + m->heads * m->head, *values = keys + m->kv_heads * m->head;
    for (long h = thread; h < m->kv_heads; h += threads) {
        float *key = keys + h * m->head, *value = values + h * m->head;
        if (m->each[l].key_norm) normalize(key, m->each[l].key_norm, m->head, m->eps, key);
        turn(s, key);
        uint16_t *k = past_of(s, l, 0, h) + s->now->length * m->head, *v = past_of(s, l, 1, h) + s->now->length * m->head;
        for (long i = 0; i < m->head; i++) {
            k[i] = short_of(key[i]);
            v[i] = short_of(value[i]);
        }
    }
}

/* scores := e to their power, and 1 / their sum. Up to seven places behind the last are written over. */
static float softmax(float *scores, long count) {
    v8 most = v_all(scores[0]), sum = v_all(0.0f);
    for (long t = count; t % 8; t++) scores[t] = -INFINITY;
    for (long t = 0; t < count; t += 8) most = v_max(most, v_load(scores + t));
    most = v_all(-v_most(most));
    for (long t = 0; t < count; t += 8) {
        v8 e = v_exp(v_add(v_load(scores + t), most));
        v_store(scores + t, e);
        sum = v_add(sum, e);
    }
    return 1.0f / v_sum(sum);
}

static inline float dot_f16(const uint16_t *key, const float *query, long size) {
    v8 even = v_all(0.0f), odd = v_all(0.0f);
    long i = 0;
    for (; i + 16 <= size; i += 16) {
        even = v_fma(v_from_f16(key + i), v_load(query + i), even);
        odd = v_fma(v_from_f16(key + i + 8), v_load(query + i + 8), odd);
    }
    if (i < size) even = v_fma(v_from_f16(key + i), v_load(query + i), even);
    return v_sum(v_add(even, odd));
}

/* The next 32 (or 8) places of a head's output: values weighed by the scores of their tokens. */
static inline __attribute__((always_inline)) void mix(const uint16_t *values, long size, long count, const float *scores, float scale,
                                                      int eights, float *out) {
    v8 sum[4];
    for (int i = 0; i < eights; i++) sum[i] = v_all(0.0f);
    for (long t = 0; t < count; t++) {
        v8 score = v_all(scores[t]);
        for (int i = 0; i < eights; i++) sum[i] = v_fma(v_from_f16(values + t * size + 8 * i), score, sum[i]);
    }
    for (int i = 0; i < eights; i++) v_store(out + 8 * i, v_mul(sum[i], v_all(scale)));
}

static void look_back(const walk *s, long l, long h, float *query, float *scores) {
    const decoder *m = s->model;
    const long size = m->head, count = s->now->length + 1, shared = h / (m->heads / m->kv_heads);
    const uint16_t *keys = past_of(s, l, 0, shared), *values = past_of(s, l, 1, shared);
    memcpy(query, s->qkv + h * size, (size_t)size * sizeof(float));
    if (m->each[l].query_norm) normalize(query, m->each[l].query_norm, size, m->eps, query);
    turn(s, query);
    for (long t = 0; t < count; t++) scores[t] = dot_f16(keys + t * size, query, size) * (float)m->scaling;
    float scale = softmax(scores, count), *out = s->mixed + h * size;
    long i = 0;
    for (; i + 32 <= size; i += 32) mix(values + i, size, count, scores, scale, 4, out + i);
    for (; i < size; i += 8) mix(values + i, size, count, scores, scale, 1, out + i);
}

/* gate := silu(gate) * up, over a thread's part of the rows. */
static void gated(const weight *gate, long gate_from, const weight *up, long up_from, long rows, arranged x, float *out, int thread,
                  int threads, float *spare) {
    long from, to;
    team_share(rows, 8, thread, threads, &from, &to);
    if (from == to) return;
    multiply_rows(gate, gate_from + from, gate_from + to, &x, 1, out, 0, gate_from);
    multiply_rows(up, up_from + from, up_from + to, &x, 1, spare, 0, up_from + from);
    for (long i = from; i < to; i += 8) {
        long left = to - i;
        float g[8] = {0}, u[8] = {0};
        memcpy(g, out + i, (size_t)(left < 8 ? left : 8) * sizeof(float));
        memcpy(u, spare + i - from, (size_t)(left < 8 ? left : 8) * sizeof(float));
        float e[8];
        v_store(e, v_exp(v_mul(v_load(g), v_all(-1.0f))));
        for (long j = 0; j < 8 && j < left; j++) out[i + j] = g[j] / (1.0f + e[j]) * u[j];
    }
}

/* The experts of a token and their weights, from the router's logits. Ties go to the lower number. */
static void choose(const layer *y, float *logits, long *experts, float *weights) {
    float most = logits[0], sum = 0.0f, kept = 0.0f;
    for (long e = 1; e < y->experts; e++) most = logits[e] > most ? logits[e] : most;
    for (long e = 0; e < y->experts; e++) sum += logits[e] = expf(logits[e] - most);
    for (long e = 0; e < y->experts; e++) logits[e] /= sum;
    for (long c = 0; c < y->chosen; c++) {
        long best = -1;
        float value = 0.0f;
        for (long e = 0; e < y->experts; e++) {
            float now = logits[e] + (y->correction ? y->correction[e] : 0.0f);
            int taken = 0;
            for (long b = 0; b < c; b++) taken |= experts[b] == e;
            if (!taken && (best < 0 || now > value)) {
                best = e;
                value = now;
            }
        }
        experts[c] = best;
        weights[c] = logits[best];
        kept += weights[c];
    }
    if (kept < (float)y->floor) kept = (float)y->floor;
    if (y->normalized)
        for (long c = 0; c < y->chosen; c++) weights[c] /= kept;
}

enum { CHOICES = 64 };

static void feed_forward(const walk *s, const layer *y, arranged x, float *normed, float *vectors, float *spare, float *scores, int thread,
                         team *all) {
    const decoder *m = s->model;
    const int threads = team_threads(all);
    const long inner = y->experts ? y->down_experts[0].columns : 0;
    long experts[CHOICES], from, to;
    float weights[CHOICES];
    if (y->experts) {
        team_share(y->experts, 1, thread, threads, &from, &to);
        weight router = {.kind = WHOLE, .rows = y->experts, .columns = m->hidden, .codes = (const uint8_t *)y->router};
        arranged plain = {normed, 0};
        multiply_rows(&router, from, to, &plain, 1, s->routed, 0, 0);
        team_meet(all);
        memcpy(scores, s->routed, (size_t)y->experts * sizeof(float));
        choose(y, scores, experts, weights);
        for (long c = 0; c < y->chosen; c++) {
            const weight *both = y->gate_up_experts + experts[c];
            gated(both, 0, both, inner, inner, x, s->inner + c * inner, thread, threads, spare);
        }
    }
    float *shared = s->inner + (y->experts ? y->chosen * inner : 0);
    if (y->down.rows) gated(&y->gate, 0, &y->up, 0, y->down.columns, x, shared, thread, threads, spare);
    team_meet(all);
    team_share(m->hidden, 8, thread, threads, &from, &to);
    for (long c = 0; c < (y->experts ? y->chosen : 0); c++) {
        const weight *down = y->down_experts + experts[c];
        arranged into = vector_at(vectors, inner);
        arrange(down->kind, inner, s->inner + c * inner, into);
        multiply_rows(down, from, to, &into, 1, spare, 0, from);
        for (long i = from; i < to; i++) s->hidden[i] += weights[c] * spare[i - from];
    }
    if (y->down.rows) {
        arranged into = vector_at(vectors, y->down.columns);
        arrange(y->down.kind, y->down.columns, shared, into);
        multiply_rows(&y->down, from, to, &into, 1, spare, 0, from);
        for (long i = from; i < to; i++) s->hidden[i] += spare[i - from];
    }
    team_meet(all);
}

static void walk_through(void *data, int thread, team *all) {
    const walk *s = data;
    const decoder *m = s->model;
    const int threads = team_threads(all);
    float *spare = s->own[thread], *normed = spare + whole_lines(widest(m)), *vectors = normed + whole_lines(widest(m));
    float *scores = vectors + room_vector(widest(m)), *query = scores + whole_lines(most_experts(m));
    float *weighed = query + whole_lines(m->head);
    long from, to;
    for (long l = 0; l < m->layers; l++) {
        const layer *y = m->each + l;
        float *keys = s->qkv + m->heads * m->head;
        normalize(s->hidden, y->before, m->hidden, m->eps, spare);
        arranged x = vector_at(vectors, m->hidden);
        arrange(y->q.kind, m->hidden, spare, x);
        product(&y->q, x, s->qkv, thread, threads);
        product(&y->k, x, keys, thread, threads);
        product(&y->v, x, keys + m->kv_heads * m->head, thread, threads);
        team_meet(all);
        remember(s, l, thread, threads);
        team_meet(all);
        team_share(m->heads, 1, thread, threads, &from, &to);
        for (long h = from; h < to; h++) look_back(s, l, h, query, weighed);
        team_meet(all);
        arranged mixed = vector_at(vectors, m->heads * m->head);
        arrange(y->o.kind, m->heads * m->head, s->mixed, mixed);
        team_share(m->hidden, 8, thread, threads, &from, &to);
        multiply_rows(&y->o, from, to, &mixed, 1, spare, 0, from);
        for (long i = from; i < to; i++) s->hidden[i] += spare[i - from];
        team_meet(all);
        normalize(s->hidden, y->between, m->hidden, m->eps, normed);
        const weight *first = y->down.rows ? &y->gate : y->gate_up_experts;
        arranged between = vector_at(vectors, m->hidden);
        arrange(first->kind, m->hidden, normed, between);
        feed_forward(s, y, between, normed, vectors, spare, scores, thread, all);
    }
    normalize(s->hidden, m->final, m->hidden, m->eps, spare);
    arranged last = vector_at(vectors, m->hidden);
    arrange(m->output.kind, m->hidden, spare, last);
    team_share(m->output.rows, 64, thread, threads, &from, &to);
    multiply_rows(&m->output, from, to, &last, 1, s->logits, 0, 0);
}

/* The logits [vocabulary] after one more token of a reply, whose length grows by one. `working`: fader_step_room floats. */
API void fader_step(team *all, const decoder *m, reply *now, int64_t token, float *working, float *logits) {
    float *own[64], *part = working;
    walk s = {.model = m, .now = now, .token = token, .logits = logits, .own = own};
    s.hidden = part;
    s.qkv = part += whole_lines(m->hidden);
    s.mixed = part += whole_lines((m->heads + 2 * m->kv_heads) * m->head);
    s.inner = part += whole_lines(m->heads * m->head);
    s.routed = part += whole_lines(inner_width(m));
    part += whole_lines(most_experts(m));
    for (int t = 0; t < team_threads(all); t++, part += room_own(m, now->room)) own[t] = part;
    unpack_rows(&m->embedding, token, token + 1, s.hidden, 0);
    team_run(all, walk_through, &s);
    now->length++;
}
