/* One token of one or several replies through a llama-like decoder, attention over all tokens before it, dense layers or a mixture of
   experts. Several replies share the reading of the weights; each gets the very numbers that it would get alone.

   All threads go through the layers together; what is small (norms, the layout of a product's input, the choice of experts) each of
   them works out for itself, which is quicker than waiting for one that does it for all. Rows of a product and heads are shared out. */
#include <stdlib.h>

#include "numbers.h"
#include "weights.h"

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

enum { CHOICES = 64, TOGETHER = 16 };

/* `many` replies, each with one more token. What is shared by the threads has a row for each reply. */
typedef struct {
    const decoder *model;
    reply *each;
    long many;
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
static long hidden_row(const decoder *m) { return whole_lines(m->hidden); }
static long qkv_row(const decoder *m) { return whole_lines((m->heads + 2 * m->kv_heads) * m->head); }
static long mixed_row(const decoder *m) { return whole_lines(m->heads * m->head); }
static long inner_row(const decoder *m) { return whole_lines(inner_width(m)); }
static long routed_row(const decoder *m) { return whole_lines(most_experts(m)); }
static long wide_row(const decoder *m) { return whole_lines(widest(m)); }
static long room_vector(long columns) { return whole_lines(room_values(columns) + room_sums(columns)); }
static long room_shared(const decoder *m) { return hidden_row(m) + qkv_row(m) + mixed_row(m) + inner_row(m) + routed_row(m); }
static long room_own(const decoder *m, long positions, long many) {
    return many * (2 * wide_row(m) + room_vector(widest(m))) + routed_row(m) + whole_lines(m->head) + whole_lines(positions + 8);
}

/* Floats of working space that `fader_step` needs for `many` replies of at most so many positions. */
API int64_t fader_step_room(const decoder *m, int64_t threads, int64_t positions, int64_t many) {
    return many * room_shared(m) + threads * room_own(m, positions, many);
}

static void normalize(const float *x, const float *weights, long size, double eps, float *out) {
    v8 squares = v_all(0.0f);
    for (long i = 0; i < size; i += 8) squares = v_fma(v_load(x + i), v_load(x + i), squares);
    v8 factor = v_all(1.0f / sqrtf(v_sum(squares) / (float)size + (float)eps));
    for (long i = 0; i < size; i += 8) v_store(out + i, v_mul(v_mul(v_load(x + i), factor), v_load(weights + i)));
}

static arranged vector_at(float *room, long columns) { return (arranged){room, room + room_values(columns)}; }

/* Lay one vector of each reply out for a weight of this kind: `from` has rows of `stride`. */
static void lay_out(int64_t kind, long columns, const float *from, long stride, long many, float *room, arranged *to) {
    for (long r = 0; r < many; r++) {
        to[r] = vector_at(room + r * room_vector(columns), columns);
        arrange(kind, columns, from + r * stride, to[r]);
    }
}

/* A thread's rows of one product with a vector of each reply. */
static void product(const weight *w, const arranged *x, long many, float *out, long stride, int thread, int threads) {
    long from, to;
    team_share(w->rows, 8, thread, threads, &from, &to);
    multiply_rows(w, from, to, x, many, out, stride, 0);
}

/* The same, added to what is there: `spare` has room for each reply's rows. */
static void add_product(const weight *w, const arranged *x, long many, float *out, long stride, float *spare, long wide, int thread,
                        int threads) {
    long from, to;
    team_share(w->rows, 8, thread, threads, &from, &to);
    multiply_rows(w, from, to, x, many, spare, wide, from);
    for (long r = 0; r < many; r++)
        for (long i = from; i < to; i++) out[r * stride + i] += spare[r * wide + i - from];
}

static void turn(const decoder *m, const reply *now, float *head) {
    const long size = m->head, half = size / 2, at = now->length * size;
    const float *c = now->cosines + at, *n = now->sines + at;
    const long step = m->neighbours ? 1 : half, stride = m->neighbours ? 2 : 1;
    for (long i = 0; i < half; i++) {
        long a = i * stride, b = a + step;
        float first = head[a], second = head[b];
        head[a] = first * c[a] + second * n[a];
        head[b] = second * c[b] + first * n[b];
    }
}

static uint16_t *past_of(const decoder *m, const reply *now, long l, long which, long head) {
    return now->past + (((l * 2 + which) * m->kv_heads + head) * now->room) * m->head;
}

static uint16_t short_of(float value) { return to_f16(value > 65504.0f ? 65504.0f : value < -65504.0f ? -65504.0f : value); }

static void remember(const walk *s, long l, int thread, int threads) {
    const decoder *m = s->model;
    for (long n = thread; n < m->kv_heads * s->many; n += threads) {
        const long r = n / m->kv_heads, h = n % m->kv_heads;
        const reply *now = s->each + r;
        float *keys = s->qkv + r * qkv_row(m) + m->heads * m->head, *values = keys + m->kv_heads * m->head;
        float *key = keys + h * m->head, *value = values + h * m->head;
        if (m->each[l].key_norm) normalize(key, m->each[l].key_norm, m->head, m->eps, key);
        turn(m, now, key);
        uint16_t *k = past_of(m, now, l, 0, h) + now->length * m->head, *v = past_of(m, now, l, 1, h) + now->length * m->head;
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

static void look_back(const walk *s, long l, long r, long h, float *query, float *scores) {
    const decoder *m = s->model;
    const reply *now = s->each + r;
    const long size = m->head, count = now->length + 1, shared = h / (m->heads / m->kv_heads);
    const uint16_t *keys = past_of(m, now, l, 0, shared), *values = past_of(m, now, l, 1, shared);
    memcpy(query, s->qkv + r * qkv_row(m) + h * size, (size_t)size * sizeof(float));
    if (m->each[l].query_norm) normalize(query, m->each[l].query_norm, size, m->eps, query);
    turn(m, now, query);
    for (long t = 0; t < count; t++) scores[t] = dot_f16(keys + t * size, query, size) * (float)m->scaling;
    float scale = softmax(scores, count), *out = s->mixed + r * mixed_row(m) + h * size;
    long i = 0;
    for (; i + 32 <= size; i += 32) mix(values + i, size, count, scores, scale, 4, out + i);
    for (; i < size; i += 8) mix(values + i, size, count, scores, scale, 1, out + i);
}

/* gate := silu(gate) * up for each reply, over a thread's part of the rows. */
static void gated(const weight *gate, long gate_from, const weight *up, long up_from, long rows, const arranged *x, long many, float *out,
                  long stride, float *spare, long wide, int thread, int threads) {
    long from, to;
    team_share(rows, 8, thread, threads, &from, &to);
    if (from == to) return;
    multiply_rows(gate, gate_from + from, gate_from + to, x, many, out, stride, gate_from);
    multiply_rows(up, up_from + from, up_from + to, x, many, spare, wide, up_from + from);
    for (long r = 0; r < many; r++)
        for (long i = from; i < to; i += 8) {
            long left = to - i;
            float g[8] = {0}, u[8] = {0}, *at = out + r * stride + i;
            memcpy(g, at, (size_t)(left < 8 ? left : 8) * sizeof(float));
            memcpy(u, spare + r * wide + i - from, (size_t)(left < 8 ? left : 8) * sizeof(float));
            float e[8];
            v_store(e, v_exp(v_mul(v_load(g), v_all(-1.0f))));
            for (long j = 0; j < 8 && j < left; j++) at[j] = g[j] / (1.0f + e[j]) * u[j];
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

/* The mixture of one reply; others go to other experts, so there is little to share. `chosen` and `weights` come from its router. */
static void expert_gates(const walk *s, const layer *y, long r, arranged x, const long *chosen, float *spare, int thread, int threads) {
    const long inner = y->down_experts[0].columns;
    for (long c = 0; c < y->chosen; c++) {
        const weight *both = y->gate_up_experts + chosen[c];
        float *out = s->inner + r * inner_row(s->model) + c * inner;
        gated(both, 0, both, inner, inner, &x, 1, out, 0, spare, 0, thread, threads);
    }
}

static void add_experts(const walk *s, const layer *y, long r, const long *chosen, const float *weights, float *vectors, float *spare,
                        long from, long to) {
    const long inner = y->down_experts[0].columns;
    float *hidden = s->hidden + r * hidden_row(s->model);
    for (long c = 0; c < y->chosen; c++) {
        const weight *down = y->down_experts + chosen[c];
        arranged into = vector_at(vectors, inner);
        arrange(down->kind, inner, s->inner + r * inner_row(s->model) + c * inner, into);
        multiply_rows(down, from, to, &into, 1, spare, 0, from);
        for (long i = from; i < to; i++) hidden[i] += weights[c] * spare[i - from];
    }
}

/* The router's logits of every reply, and from them its experts. `normed`: rows of `wide_row`. */
static void route(const walk *s, const layer *y, float *normed, float *scores, long experts[][CHOICES], float weights[][CHOICES], int thread,
                  team *all) {
    const decoder *m = s->model;
    const weight router = {.kind = WHOLE, .rows = y->experts, .columns = m->hidden, .codes = (const uint8_t *)y->router};
    arranged plain[TOGETHER];
    long from, to;
    for (long r = 0; r < s->many; r++) plain[r] = (arranged){normed + r * wide_row(m), 0};
    team_share(y->experts, 1, thread, team_threads(all), &from, &to);
    multiply_rows(&router, from, to, plain, s->many, s->routed, routed_row(m), 0);
    team_meet(all);
    for (long r = 0; r < s->many; r++) {
        memcpy(scores, s->routed + r * routed_row(m), (size_t)y->experts * sizeof(float));
        choose(y, scores, experts[r], weights[r]);
    }
}

static void feed_forward(const walk *s, const layer *y, const arranged *x, float *normed, float *vectors, float *spare, float *scores,
                         int thread, team *all) {
    const decoder *m = s->model;
    const int threads = team_threads(all);
    const long taken = y->experts ? y->chosen * y->down_experts[0].columns : 0;
    long experts[TOGETHER][CHOICES], from, to;
    float weights[TOGETHER][CHOICES];
    if (y->experts) {
        route(s, y, normed, scores, experts, weights, thread, all);
        for (long r = 0; r < s->many; r++) expert_gates(s, y, r, x[r], experts[r], spare, thread, threads);
    }
    if (y->down.rows)
        gated(&y->gate, 0, &y->up, 0, y->down.columns, x, s->many, s->inner + taken, inner_row(m), spare, wide_row(m), thread, threads);
    team_meet(all);
    team_share(m->hidden, 8, thread, threads, &from, &to);
    for (long r = 0; y->experts && r < s->many; r++) add_experts(s, y, r, experts[r], weights[r], vectors, spare, from, to);
    if (y->down.rows) {
        arranged into[TOGETHER];
        lay_out(y->down.kind, y->down.columns, s->inner + taken, inner_row(m), s->many, vectors, into);
        add_product(&y->down, into, s->many, s->hidden, hidden_row(m), spare, wide_row(m), thread, threads);
    }
    team_meet(all);
}

static void walk_through(void *data, int thread, team *all) {
    const walk *s = data;
    const decoder *m = s->model;
    const int threads = team_threads(all);
    const long many = s->many, wide = wide_row(m), hidden = hidden_row(m), kept = m->heads * m->head;
    float *spare = s->own[thread], *normed = spare + many * wide, *vectors = normed + many * wide;
    float *scores = vectors + many * room_vector(widest(m)), *query = scores + routed_row(m);
    float *weighed = query + whole_lines(m->head);
    arranged x[TOGETHER];
    long from, to;
    for (long l = 0; l < m->layers; l++) {
        const layer *y = m->each + l;
        float *keys = s->qkv + kept;
        for (long r = 0; r < many; r++) normalize(s->hidden + r * hidden, y->before, m->hidden, m->eps, normed + r * wide);
        lay_out(y->q.kind, m->hidden, normed, wide, many, vectors, x);
        product(&y->q, x, many, s->qkv, qkv_row(m), thread, threads);
        product(&y->k, x, many, keys, qkv_row(m), thread, threads);
        product(&y->v, x, many, keys + m->kv_heads * m->head, qkv_row(m), thread, threads);
        team_meet(all);
        remember(s, l, thread, threads);
        team_meet(all);
        team_share(m->heads * many, 1, thread, threads, &from, &to);
        for (long n = from; n < to; n++) look_back(s, l, n / m->heads, n % m->heads, query, weighed);
        team_meet(all);
        lay_out(y->o.kind, kept, s->mixed, mixed_row(m), many, vectors, x);
        add_product(&y->o, x, many, s->hidden, hidden, spare, wide, thread, threads);
        team_meet(all);
        for (long r = 0; r < many; r++) normalize(s->hidden + r * hidden, y->between, m->hidden, m->eps, normed + r * wide);
        const weight *first = y->down.rows ? &y->gate : y->gate_up_experts;
        lay_out(first->kind, m->hidden, normed, wide, many, vectors, x);
        feed_forward(s, y, x, normed, vectors, spare, scores, thread, all);
    }
    for (long r = 0; r < many; r++) normalize(s->hidden + r * hidden, m->final, m->hidden, m->eps, normed + r * wide);
    lay_out(m->output.kind, m->hidden, normed, wide, many, vectors, x);
    team_share(m->output.rows, 64, thread, threads, &from, &to);
    multiply_rows(&m->output, from, to, x, many, s->logits, m->output.rows, 0);
}

/* The logits [many, vocabulary] after one more token of each reply, whose length grows by one. At most TOGETHER replies. `working`:
   fader_step_room floats for the largest of their rooms. */
API void fader_step(team *all, int64_t threads, const decoder *m, reply *each, int64_t many, const int64_t *tokens, float *working, float *logits) {
    float *own[TEAM_MOST], *part = working;
    long room = 0;
    walk s = {.model = m, .each = each, .many = many, .logits = logits, .own = own};
    s.hidden = part;
    s.qkv = part += many * hidden_row(m);
    s.mixed = part += many * qkv_row(m);
    s.inner = part += many * mixed_row(m);
    s.routed = part += many * inner_row(m);
    part += many * routed_row(m);
    for (long r = 0; r < many; r++) room = each[r].room > room ? each[r].room : room;
    for (int64_t t = 0; t < threads && t < TEAM_MOST; t++, part += room_own(m, room, many)) own[t] = part;
    for (long r = 0; r < many; r++) unpack_rows(&m->embedding, tokens[r], tokens[r] + 1, s.hidden + r * hidden_row(m), 0);
    team_run(all, (int)threads, 1, walk_through, &s);
    for (long r = 0; r < many; r++) each[r].length++;
}
