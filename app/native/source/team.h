/* Threads that work on one job together, spin between its stages, and sleep between jobs. A job says how many it wants; jobs from
   several callers wait for each other. */
#ifndef FADER_TEAM_H
#define FADER_TEAM_H

typedef struct team team;
typedef void (*job)(void *data, int thread, team *all);

enum { TEAM_MOST = 64 };

team *team_new(void);
void team_free(team *all);

/* Run a job on so many threads, the caller's being number 0; returns when every one of them is done. `more`: another job follows soon, so
   that the threads had better stay awake; otherwise they leave their cores to others (torch's threads, say) at once. */
void team_run(team *all, int threads, int more, job what, void *data);

/* Inside a job: how many work on it. */
int team_threads(const team *all);

/* Inside a job: wait until all of them have come here. What they wrote before is visible afterwards. */
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
