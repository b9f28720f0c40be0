/* world.h - virtual time, simulated processes and their threads.
 *
 * The programs' threads run as fibers of one operating-system thread.  A fiber runs until it waits:
 * for time, for a lock, for a server's answer.  Then the world picks the next one that may run, by
 * the seed; if there is none it moves the clock to the next moment at which something is due.  So a
 * whole fleet runs in one process, years in seconds, and the same seed runs in the same order to
 * the last step.
 *
 * A process may be killed between any two steps: its fibers simply never run again, as they were,
 * in the middle of whatever they did.  A paused process keeps its fibers while time goes on.
 *
 * Time is in microseconds since the world began.  Processes see clocks of their own (clocks.c).
 */
#ifndef KILN_SIM_WORLD_H
#define KILN_SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_NEVER INT64_MAX
#define SIM_MS 1000
#define SIM_S 1000000
#define SIM_WAIT_MAX (180 * SIM_S) /* no wait of a program may be longer */

struct sim_process {
    char name[32], host[16];
    int pid, status;
    bool alive, paused;
    int64_t monotonic_base, wall_ahead; /* its clocks against the world's, in us */
    int clock_ppm;                      /* how much faster they run, in millionths */
    int signals[8];                     /* not taken yet */
    int signal_count;
    uint32_t doom_steps; /* its own steps until doom(process) is called; 0 = none is due */
    void (*doom)(struct sim_process *process);
    struct sim_process *next;
};

/* --- the world ------------------------------------------------------------------------------- */
/* check, if given, is called after every step. */
void sim_world_init(uint64_t seed, bool trace, void (*check)(void));
int64_t sim_now(void);
/* Runs until the time is `until` or nothing can happen any more. */
void sim_world_run(int64_t until);
uint64_t sim_steps(void);
bool sim_tracing(void);

/* From the seed.  Chances are in thousandths. */
uint32_t sim_below(uint32_t bound);
int64_t sim_between(int64_t low, int64_t high);
bool sim_chance(uint32_t thousandths);

/* Calls run(arg) at that time, outside of any process. */
void sim_at(int64_t when, void (*run)(void *arg), void *arg);

/* A line of the event log, with time and process; kept only when tracing. */
void sim_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A guarantee was broken: prints why and how to replay it, and ends the run. */
_Noreturn void sim_broken(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* --- processes ------------------------------------------------------------------------------- */
struct sim_process *sim_process_start(const char *name, const char *host, int (*program)(void *arg),
                                      void *arg);
void sim_process_kill(struct sim_process *process, int status);
void sim_process_pause(struct sim_process *process, bool paused);
void sim_process_signal(struct sim_process *process, int number);
struct sim_process *sim_processes(void);
/* Whose fiber runs now; NULL outside of any. */
struct sim_process *sim_self(void);

/* --- for what stands in for the system's calls; only from fibers ------------------------------ */
struct sim_fiber;
struct sim_fiber *sim_fiber_start(void *(*run)(void *), void *arg);
void *sim_fiber_join(struct sim_fiber *fiber);
/* Waits until somebody wakes the object, at most until the deadline.  False: the deadline came. */
bool sim_wait(const void *object, int64_t deadline);
/* The same, for as long as it takes. */
void sim_wait_ever(const void *object);
void sim_wake(const void *object, bool all);
void sim_sleep(int64_t us);
/* Lets others run first, now and then. */
void sim_maybe_yield(void);
/* The calling process ends. */
_Noreturn void sim_exit(int status);

#endif
