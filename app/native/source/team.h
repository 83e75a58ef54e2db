/* A few threads that work on one job together, spin between its stages, and sleep between jobs. */
#ifndef FADER_TEAM_H
#define FADER_TEAM_H

typedef struct team team;
typedef void (*job)(void *data, int thread, team *all);

team *team_new(int threads);
void team_free(team *all);
int team_threads(const team *all);

/* Run a job on all threads, the caller's being number 0; returns when every one of them is done. */
void team_run(team *all, job what, void *data);

/* Inside a job: wait until all threads have come here. What they wrote before is visible afterwards. */
void team_meet(team *all);

/* The part [*from, *to) of `count` that is a thread's, in whole multiples of `grain`. */
static inline void team_share(long count, long grain, int thread, int threads, long *from, long *to) {
    long grains = (count + grain - 1) / grain;
    *from = grains * thread / threads * grain;
    *to = grains * (thread + 1) / threads * grain;
    if (*to > count) *to = count;
    if (*from > count) *from = count;
}

#endif
