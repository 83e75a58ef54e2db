/* What Python calls for one weight: a product with a few vectors, or all of it unpacked for a product with many. */
#include <stdlib.h>

#include "weights.h"

typedef struct {
    const weight *w;
    const float *x;
    long many;
    float *out, *room;
    arranged *vectors;
    int brain;
} task;

static void prepare_and_multiply(void *data, int thread, team *all) {
    task *t = data;
    long from, to;
    team_share(t->many, 1, thread, team_threads(all), &from, &to);
    for (long v = from; v < to; v++) arrange(t->w->kind, t->w->columns, t->x + v * t->w->columns, t->vectors[v]);
    team_meet(all);
    team_share(t->w->rows, 4, thread, team_threads(all), &from, &to);
    multiply_rows(t->w, from, to, t->vectors, t->many, t->out, t->w->rows, 0);
}

/* out [many, rows] = x [many, columns] times the weight, transposed. Returns 0, or 1 when there is no memory. */
API int fader_multiply(team *all, int64_t threads, const weight *w, const float *x, int64_t many, float *out) {
    long values = room_values(w->columns), sums = room_sums(w->columns);
    float *room = malloc((size_t)(many * (values + sums)) * sizeof(float));
    arranged *vectors = malloc((size_t)many * sizeof(arranged));
    int failed = !room || !vectors;
    if (!failed) {
        for (long v = 0; v < many; v++) vectors[v] = (arranged){room + v * (values + sums), room + v * (values + sums) + values};
        task t = {w, x, many, out, room, vectors, 0};
        team_run(all, (int)threads, 1, prepare_and_multiply, &t);
    }
    free(room);
    free(vectors);
    return failed;
}

static void unpack_share(void *data, int thread, team *all) {
    task *t = data;
    long from, to;
    team_share(t->w->rows, 1, thread, team_threads(all), &from, &to);
    char *out = (char *)t->out + from * t->w->columns * (t->brain ? 2 : 4);
    unpack_rows(t->w, from, to, out, t->brain);
}

/* out [rows, columns], float32 or bfloat16 (brain). */
API void fader_unpack(team *all, int64_t threads, const weight *w, void *out, int64_t brain) {
    task t = {.w = w, .out = out, .brain = (int)brain};
    team_run(all, (int)threads, 0, unpack_share, &t);
}

API team *fader_team(void) { return team_new(); }
API void fader_disband(team *all) { team_free(all); }
API int64_t fader_avx2(void) {
#ifdef __AVX2__
    return 1;
#else
    return 0;
#endif
}
