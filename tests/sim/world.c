/* world.c - the loop that runs fibers and moves the clock.
 *
 * Everything that happens is a step: one fiber from one wait to the next, or one timer.  Which of
 * several fibers that may run is next is drawn from the seed, so seeds also try orders of threads.
 * Stacks of dead processes are left as they are, because a server may still be at work on what such
 * a process had asked for; a run is short and ends with its operating-system process.
 */
#include "tests/sim/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "schemas/room.h"
#include "tests/support/random.h"

#define STACK_SIZE (512 * 1024)
#define STEPS_A_MOMENT 100000 /* without the clock moving: more means that somebody spins */

struct sim_fiber {
    ucontext_t context;
    struct sim_process *process;
    void *(*run)(void *);
    void *arg, *result;
    const void *object; /* it waits for this to be woken, */
    int64_t deadline;   /* at most until then */
    int64_t since;
    bool woken, over, patient;
    struct sim_fiber *next;
};

struct timer {
    int64_t when;
    uint64_t order; /* of two at one time the earlier made comes first */
    void (*run)(void *arg);
    void *arg;
};

static struct {
    int64_t now;
    uint64_t seed, steps, timers_made, steps_now;
    struct test_random random;
    bool trace;
    void (*check)(void);
    struct sim_fiber *fibers, *running;
    struct sim_process *processes;
    int last_pid;
    struct timer *timers; /* a heap */
    size_t timer_count, timer_room;
    ucontext_t loop;
} world;

void sim_world_init(uint64_t seed, bool trace, void (*check)(void))
{
    memset(&world, 0, sizeof world);
    world.seed = world.random.state = seed;
    world.trace = trace;
    world.check = check;
    world.last_pid = 100;
}

int64_t sim_now(void)
{
    return world.now;
}

uint64_t sim_steps(void)
{
    return world.steps;
}

bool sim_tracing(void)
{
    return world.trace;
}

struct sim_process *sim_self(void)
{
    return world.running ? world.running->process : NULL;
}

struct sim_process *sim_processes(void)
{
    return world.processes;
}

/* --- chance ---------------------------------------------------------------------------------- */
uint32_t sim_below(uint32_t bound)
{
    return bound ? test_random_below(&world.random, bound) : 0;
}

int64_t sim_between(int64_t low, int64_t high)
{
    return low + (int64_t)(test_random_u64(&world.random) % (uint64_t)(high - low + 1));
}

bool sim_chance(uint32_t thousandths)
{
    return thousandths > 0 && sim_below(1000) < thousandths;
}

/* --- the log --------------------------------------------------------------------------------- */
static void say(const char *fmt, va_list args)
{
    const struct sim_process *self = sim_self();
    printf("%12.6f %-10s ", (double)world.now / 1e6, self ? self->name : "-");
    vprintf(fmt, args);
    putchar('\n');
}

void sim_log(const char *fmt, ...)
{
    va_list args;
    if (!world.trace)
        return;
    va_start(args, fmt);
    say(fmt, args);
    va_end(args);
}

void sim_broken(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    printf("seed %llu: BROKEN\n", (unsigned long long)world.seed);
    say(fmt, args);
    va_end(args);
    fflush(stdout);
    _Exit(1);
}

/* --- timers: a binary heap ------------------------------------------------------------------- */
static bool sooner(const struct timer *a, const struct timer *b)
{
    return a->when != b->when ? a->when < b->when : a->order < b->order;
}

static void swap_timers(size_t a, size_t b)
{
    struct timer kept = world.timers[a];
    world.timers[a] = world.timers[b];
    world.timers[b] = kept;
}

void sim_at(int64_t when, void (*run)(void *arg), void *arg)
{
    world.timers =
        kiln_room(world.timers, world.timer_count, &world.timer_room, sizeof *world.timers);
    if (!world.timers)
        abort();
    size_t at = world.timer_count++;
    world.timers[at] =
        (struct timer){when < world.now ? world.now : when, world.timers_made++, run, arg};
    for (; at > 0 && sooner(&world.timers[at], &world.timers[(at - 1) / 2]); at = (at - 1) / 2)
        swap_timers(at, (at - 1) / 2);
}

static struct timer take_timer(void)
{
    struct timer first = world.timers[0];
    world.timers[0] = world.timers[--world.timer_count];
    for (size_t at = 0, least;; at = least) {
        least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2; child++)
            if (child < world.timer_count && sooner(&world.timers[child], &world.timers[least]))
                least = child;
        if (least == at)
            return first;
        swap_timers(at, least);
    }
}

/* --- processes and fibers -------------------------------------------------------------------- */
static void enter(void)
{
    struct sim_fiber *self = world.running;
    self->result = self->run(self->arg);
    self->over = true;
    sim_wake(self, true);
    swapcontext(&self->context, &world.loop);
}

static struct sim_fiber *make_fiber(struct sim_process *process, void *(*run)(void *), void *arg)
{
    struct sim_fiber *fiber = calloc(1, sizeof *fiber);
    void *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (!fiber || stack == MAP_FAILED)
        abort();
    fiber->process = process;
    fiber->run = run;
    fiber->arg = arg;
    fiber->since = fiber->deadline = world.now;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = stack;
    fiber->context.uc_stack.ss_size = STACK_SIZE;
    makecontext(&fiber->context, enter, 0);
    fiber->next = world.fibers;
    world.fibers = fiber;
    return fiber;
}

struct sim_fiber *sim_fiber_start(void *(*run)(void *), void *arg)
{
    return make_fiber(sim_self(), run, arg);
}

struct program {
    int (*run)(void *arg);
    void *arg;
};

static void *run_program(void *arg)
{
    struct program program = *(struct program *)arg;
    free(arg);
    sim_exit(program.run(program.arg));
}

struct sim_process *sim_process_start(const char *name, const char *host, int (*program)(void *arg),
                                      void *arg)
{
    struct sim_process *process = calloc(1, sizeof *process);
    struct program *start = malloc(sizeof *start);
    if (!process || !start)
        abort();
    *start = (struct program){program, arg};
    snprintf(process->name, sizeof process->name, "%s", name);
    snprintf(process->host, sizeof process->host, "%s", host);
    process->pid = ++world.last_pid;
    process->alive = true;
    process->next = world.processes;
    world.processes = process;
    make_fiber(process, run_program, start);
    return process;
}

void sim_process_kill(struct sim_process *process, int status)
{
    if (!process->alive)
        return;
    process->alive = process->paused = false;
    process->status = status;
    for (struct sim_fiber **at = &world.fibers; *at;) {
        if ((*at)->process == process)
            *at = (*at)->next; /* its memory stays: a server may still look at it */
        else
            at = &(*at)->next;
    }
}

void sim_process_pause(struct sim_process *process, bool paused)
{
    process->paused = paused;
}

void sim_process_signal(struct sim_process *process, int number)
{
    if (process->alive && process->signal_count < 8)
        process->signals[process->signal_count++] = number;
    sim_wake(process->signals, true);
}

void sim_exit(int status)
{
    struct sim_fiber *self = world.running;
    sim_process_kill(self->process, status);
    swapcontext(&self->context, &world.loop);
    abort();
}

/* --- waiting --------------------------------------------------------------------------------- */
static bool switch_away(const void *object, int64_t deadline, bool patient)
{
    struct sim_fiber *self = world.running;
    self->object = object;
    self->deadline = deadline;
    self->since = world.now;
    self->woken = false;
    self->patient = patient;
    swapcontext(&self->context, &world.loop);
    return self->woken;
}

bool sim_wait(const void *object, int64_t deadline)
{
    return switch_away(object, deadline,
                       deadline != SIM_NEVER && deadline - world.now > 0 &&
                           deadline - world.now <= SIM_WAIT_MAX);
}

void sim_wait_ever(const void *object)
{
    switch_away(object, SIM_NEVER, true);
}

void sim_wake(const void *object, bool all)
{
    struct sim_fiber *waiting[256];
    uint32_t count = 0;
    for (struct sim_fiber *at = world.fibers; at && count < 256; at = at->next)
        if (at->object == object && object && !at->woken)
            waiting[count++] = at;
    if (count == 0)
        return;
    if (!all)
        waiting[sim_below(count)]->woken = true;
    for (uint32_t i = 0; all && i < count; i++)
        waiting[i]->woken = true;
}

void sim_sleep(int64_t us)
{
    switch_away(NULL, world.now + us, us <= SIM_WAIT_MAX);
}

void sim_maybe_yield(void)
{
    if (sim_chance(40))
        sim_sleep(0);
}

void *sim_fiber_join(struct sim_fiber *fiber)
{
    while (!fiber->over)
        sim_wait_ever(fiber);
    return fiber->result;
}

/* --- the loop -------------------------------------------------------------------------------- */
static bool may_run(const struct sim_fiber *fiber)
{
    return !fiber->over && !fiber->process->paused &&
           (fiber->woken || fiber->deadline <= world.now);
}

static struct sim_fiber *choose(void)
{
    struct sim_fiber *chosen = NULL;
    uint32_t count = 0;
    for (struct sim_fiber *at = world.fibers; at; at = at->next)
        if (may_run(at) && sim_below(++count) == 0)
            chosen = at;
    return chosen;
}

/* Whatever was to befall the process at this very step: true if it cannot go on now. */
static bool befall(struct sim_process *process)
{
    if (process->doom_steps == 0 || --process->doom_steps > 0)
        return false;
    process->doom(process);
    return true;
}

static void run_fiber(struct sim_fiber *fiber)
{
    if (befall(fiber->process))
        return;
    world.running = fiber;
    fiber->object = NULL;
    swapcontext(&world.loop, &fiber->context);
    world.running = NULL;
    if (fiber->over)
        for (struct sim_fiber **at = &world.fibers; *at; at = &(*at)->next)
            if (*at == fiber) {
                *at = fiber->next;
                break;
            }
}

/* The next moment at which something is due; nobody waits for longer than is allowed. */
static int64_t next_moment(void)
{
    int64_t next = world.timer_count ? world.timers[0].when : SIM_NEVER;
    for (struct sim_fiber *at = world.fibers; at; at = at->next) {
        if (at->over || at->process->paused)
            continue;
        if (!at->patient && !at->woken && at->deadline - at->since > SIM_WAIT_MAX)
            sim_broken("%s waits for longer than %d s", at->process->name, SIM_WAIT_MAX / SIM_S);
        if (at->deadline < next)
            next = at->deadline;
    }
    return next;
}

void sim_world_run(int64_t until)
{
    for (;;) {
        struct sim_fiber *fiber = NULL;
        if (world.timer_count && world.timers[0].when <= world.now) {
            struct timer due = take_timer();
            due.run(due.arg);
        } else if ((fiber = choose())) {
            run_fiber(fiber);
        } else {
            int64_t next = next_moment();
            if (next > until || next == SIM_NEVER) {
                world.now = until > world.now ? until : world.now;
                return;
            }
            world.now = next > world.now ? next : world.now;
            world.steps_now = 0;
            continue;
        }
        world.steps++;
        if (++world.steps_now > STEPS_A_MOMENT)
            sim_broken("something spins: %d steps and the clock stands still", STEPS_A_MOMENT);
        if (world.check)
            world.check();
    }
}
