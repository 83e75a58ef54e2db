#include "team.h"

#include <stdatomic.h>
#include <stdlib.h>

#ifdef _WIN32
#include <windows.h>
typedef SRWLOCK lock_t;
typedef CONDITION_VARIABLE signal_t;
typedef HANDLE thread_t;
#define lock_init(l) InitializeSRWLock(l)
#define lock_take(l) AcquireSRWLockExclusive(l)
#define lock_give(l) ReleaseSRWLockExclusive(l)
#define signal_init(s) InitializeConditionVariable(s)
#define signal_wait(s, l) SleepConditionVariableSRW(s, l, INFINITE, 0)
#define signal_all(s) WakeAllConditionVariable(s)
#define give_way() SwitchToThread()
#else
#include <pthread.h>
#include <sched.h>
typedef pthread_mutex_t lock_t;
typedef pthread_cond_t signal_t;
typedef pthread_t thread_t;
#define lock_init(l) pthread_mutex_init(l, 0)
#define lock_take(l) pthread_mutex_lock(l)
#define lock_give(l) pthread_mutex_unlock(l)
#define signal_init(s) pthread_cond_init(s, 0)
#define signal_wait(s, l) pthread_cond_wait(s, l)
#define signal_all(s) pthread_cond_broadcast(s)
#define give_way() sched_yield()
#endif

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#define breathe() _mm_pause()
#elif defined(__aarch64__)
#define breathe() __asm__ __volatile__("yield")
#else
#define breathe() ((void)0)
#endif

enum {
    PATIENCE = 4000,  /* spins before a waiting thread lets others have the core: they may be who it waits for */
    ALERT = 20000     /* spins after a job before a thread goes to sleep, if more is to come: about the time between two tokens' steps */
};

/* Each has a call of its own, so that those a job doesn't need sleep on. */
typedef struct {
    team *all;
    int number;
    atomic_uint jobs;
    atomic_bool asleep;
    lock_t sleeping;
    signal_t awake;
    thread_t handle;
} member;

struct team {
    int there, working; /* threads that have been started, and that take part in the job at hand: the caller is one of them */
    lock_t running;
    atomic_uint round;
    atomic_int missing, arrived;
    atomic_bool over, more;
    job what;
    void *data;
    member members[TEAM_MOST];
};

static void wait_until_changed(atomic_uint *value, unsigned old) {
    for (int spins = 0; atomic_load_explicit(value, memory_order_acquire) == old; spins++) {
        if (spins < PATIENCE) breathe();
        else give_way();
    }
}

void team_meet(team *all) {
    if (all->working == 1) return;
    unsigned round = atomic_load_explicit(&all->round, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&all->arrived, 1, memory_order_acq_rel) == all->working - 1) {
        atomic_store_explicit(&all->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&all->round, round + 1, memory_order_release);
    } else {
        wait_until_changed(&all->round, round);
    }
}

static void await_job(member *self, unsigned seen) {
    for (int spins = 0; spins < ALERT && atomic_load_explicit(&self->all->more, memory_order_relaxed); spins++) {
        if (atomic_load_explicit(&self->jobs, memory_order_acquire) != seen) return;
        breathe();
    }
    lock_take(&self->sleeping);
    atomic_store(&self->asleep, 1);
    while (atomic_load(&self->jobs) == seen) signal_wait(&self->awake, &self->sleeping);
    atomic_store(&self->asleep, 0);
    lock_give(&self->sleeping);
}

static void work(member *self) {
    team *all = self->all;
    for (unsigned seen = 0;; seen++) {
        await_job(self, seen);
        if (atomic_load(&all->over)) return;
        all->what(all->data, self->number, all);
        atomic_fetch_sub_explicit(&all->missing, 1, memory_order_release);
    }
}

static void call(member *one) {
    atomic_fetch_add(&one->jobs, 1);
    if (atomic_load(&one->asleep)) {
        lock_take(&one->sleeping);
        signal_all(&one->awake);
        lock_give(&one->sleeping);
    }
}

#ifdef _WIN32
static DWORD WINAPI enter(LPVOID self) { work(self); return 0; }
static int begin(thread_t *handle, member *self) { return (*handle = CreateThread(0, 0, enter, self, 0, 0)) != 0; }
static void join(thread_t handle) { WaitForSingleObject(handle, INFINITE); CloseHandle(handle); }
#else
static void *enter(void *self) { work(self); return 0; }
static int begin(thread_t *handle, member *self) { return pthread_create(handle, 0, enter, self) == 0; }
static void join(thread_t handle) { pthread_join(handle, 0); }
#endif

/* Bring the team to so many threads, or to as many as the machine gives. */
static void grow(team *all, int threads) {
    for (; all->there < threads && all->there < TEAM_MOST; all->there++) {
        member *one = &all->members[all->there];
        one->all = all;
        one->number = all->there;
        lock_init(&one->sleeping);
        signal_init(&one->awake);
        if (!begin(&one->handle, one)) return;
    }
}

team *team_new(void) {
    team *all = calloc(1, sizeof(team));
    if (!all) return 0;
    lock_init(&all->running);
    all->there = 1;
    return all;
}

void team_run(team *all, int threads, int more, job what, void *data) {
    lock_take(&all->running);
    grow(all, threads);
    all->working = threads < all->there ? threads : all->there;
    all->what = what;
    all->data = data;
    atomic_store_explicit(&all->more, more, memory_order_relaxed);
    atomic_store(&all->missing, all->working - 1);
    for (int number = 1; number < all->working; number++) call(&all->members[number]);
    what(data, 0, all);
    for (int spins = 0; atomic_load_explicit(&all->missing, memory_order_acquire); spins++) {
        if (spins < PATIENCE) breathe();
        else give_way();
    }
    lock_give(&all->running);
}

void team_free(team *all) {
    lock_take(&all->running);
    atomic_store(&all->over, 1);
    for (int number = 1; number < all->there; number++) {
        call(&all->members[number]);
        join(all->members[number].handle);
    }
    lock_give(&all->running);
    free(all);
}

int team_threads(const team *all) { return all->working; }
