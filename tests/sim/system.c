/* system.c - clocks, threads, locks, signals and the log of simulated processes.
 *
 * A mutex is its owner, written into its own memory; a condition variable has no memory at all:
 * its address is what fibers wait for.  Both begin as zeroes, as pthread_*_init leave them here.
 * Locking lets others run now and then, since between two system calls anything may happen.
 */
#include "tests/sim/system.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "schemas/telemetry/log.h"

int64_t sim_monotonic_us(const struct sim_process *process, int64_t now)
{
    return process->monotonic_base + now + now / 1000000 * process->clock_ppm;
}

int64_t sim_wall_us(const struct sim_process *process, int64_t now)
{
    return (int64_t)SIM_EPOCH_S * SIM_S + now + process->wall_ahead;
}

/* --- time ------------------------------------------------------------------------------------ */
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
    static const struct sim_process nobody;
    const struct sim_process *self = sim_self() ? sim_self() : &nobody;
    int64_t us =
        id == CLOCK_REALTIME ? sim_wall_us(self, sim_now()) : sim_monotonic_us(self, sim_now());
    ret->tv_sec = us / SIM_S;
    ret->tv_nsec = us % SIM_S * 1000;
    return 0;
}

int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left);
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left)
{
    (void)left;
    sim_sleep((int64_t)wanted->tv_sec * SIM_S + (wanted->tv_nsec + 999) / 1000);
    return 0;
}

int __wrap_getentropy(void *buffer, size_t size);
int __wrap_getentropy(void *buffer, size_t size)
{
    uint8_t *bytes = buffer;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)sim_below(256);
    return 0;
}

/* --- threads --------------------------------------------------------------------------------- */
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg)
{
    (void)attr;
    *ret = (pthread_t)sim_fiber_start(run, arg);
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **ret);
int __wrap_pthread_join(pthread_t thread, void **ret)
{
    void *result = sim_fiber_join((struct sim_fiber *)thread);
    if (ret)
        *ret = result;
    return 0;
}

int __wrap_pthread_detach(pthread_t thread);
int __wrap_pthread_detach(pthread_t thread)
{
    (void)thread;
    return 0;
}

/* --- locks ----------------------------------------------------------------------------------- */
struct lock {
    uint64_t held; /* 1 while some fiber has it */
};

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
    (void)attr;
    memset(mutex, 0, sizeof *mutex);
    return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    struct lock *lock = (struct lock *)mutex;
    sim_maybe_yield();
    while (lock->held)
        sim_wait_ever(mutex);
    lock->held = 1;
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    ((struct lock *)mutex)->held = 0;
    sim_wake(mutex, false);
    return 0;
}

int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr);
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
    (void)attr;
    memset(cond, 0, sizeof *cond);
    return 0;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *cond);
int __wrap_pthread_cond_destroy(pthread_cond_t *cond)
{
    (void)cond;
    return 0;
}

/* The programs' conditions all wait by the monotonic clock. */
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    int64_t wanted = (int64_t)until->tv_sec * SIM_S + until->tv_nsec / 1000;
    int64_t left = wanted - sim_monotonic_us(sim_self(), sim_now());
    if (left <= 0)
        return ETIMEDOUT;
    __wrap_pthread_mutex_unlock(mutex);
    bool woken = sim_wait(cond, sim_now() + left + 1);
    __wrap_pthread_mutex_lock(mutex);
    return woken ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    sim_wake(cond, false);
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    sim_wake(cond, true);
    return 0;
}

/* --- processes ------------------------------------------------------------------------------- */
pid_t __wrap_getpid(void);
pid_t __wrap_getpid(void)
{
    return sim_self()->pid;
}

int __wrap_gethostname(char *name, size_t size);
int __wrap_gethostname(char *name, size_t size)
{
    snprintf(name, size, "%s", sim_self()->host);
    return 0;
}

/* Only ever asked with signal 0: does this process of the caller's own host live? */
int __wrap_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number)
{
    (void)number;
    for (const struct sim_process *at = sim_processes(); at; at = at->next)
        if (at->pid == pid && at->alive && strcmp(at->host, sim_self()->host) == 0)
            return 0;
    errno = ESRCH;
    return -1;
}

_Noreturn void __wrap__exit(int status);
_Noreturn void __wrap__exit(int status)
{
    sim_exit(status);
}

int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    (void)how;
    (void)set;
    (void)old;
    return 0;
}

typedef void handler(int number);
handler *__wrap_signal(int number, handler *action);
handler *__wrap_signal(int number, handler *action)
{
    (void)number;
    return action;
}

int __wrap_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *limit);
int __wrap_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *limit)
{
    struct sim_process *self = sim_self();
    (void)set;
    (void)info;
    if (self->signal_count == 0)
        (void)sim_wait(self->signals,
                       sim_now() + (int64_t)limit->tv_sec * SIM_S + limit->tv_nsec / 1000);
    if (self->signal_count == 0) {
        errno = EAGAIN;
        return -1;
    }
    int number = self->signals[0];
    memmove(self->signals, self->signals + 1, sizeof self->signals - sizeof self->signals[0]);
    self->signal_count--;
    return number;
}

/* --- the programs' log becomes part of the event log ----------------------------------------- */
void __wrap_kiln_log_fields(enum kiln_level level, const char *event,
                            const struct kiln_field *fields, size_t count);
void __wrap_kiln_log_fields(enum kiln_level level, const char *event,
                            const struct kiln_field *fields, size_t count)
{
    static const char *const marks[] = {"error", "warning", "info", "debug"};
    char line[4096];
    if (!sim_tracing())
        return;
    size_t len = (size_t)snprintf(line, sizeof line, "%s %s", marks[level], event);
    for (size_t i = 0; i < count && len < sizeof line; i++)
        len += (size_t)snprintf(line + len, sizeof line - len, " %s=%s", fields[i].key,
                                fields[i].value);
    sim_log("%s", line);
}
