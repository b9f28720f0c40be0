/* crew_guard.c - the guard: one loop, twice a second, and at once when a child ends.
 *
 * It owns nothing that a file does not say, so another guard can follow it at any time.  A worker
 * that it has not started itself (its predecessor did) is watched by its pid; how such a one ended
 * cannot be seen, so its log is asked: without the line that a worker says last, it was a crash.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "scheduler/cli/core/programs.h"
#include "scheduler/cli/core/replace.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/stack/crew.h"
#include "schemas/clock.h"

#define GUARD "crew"
#define LOOK_NS 500000000L
#define TURN_EVERY 10 /* looks */
#define DRAIN_SLACK_S 15

struct hand {
    struct kiln_hand_row row;
    struct kiln_hand_life life;
    pid_t pid;
    bool child;    /* ours to wait for */
    double kill_s; /* when a worker that was told to end is killed; 0: it was not told */
    int64_t since_ms;
};

struct guard {
    struct kiln_cli *cli;
    struct kiln_stack *stack;
    struct kiln_crew_plan plan;
    struct hand hands[KILN_CREW_MAX];
    int count;
    bool ending, changed;
};

pid_t kiln_crew_find_guard(const struct kiln_stack *stack)
{
    return kiln_process_find(stack, GUARD,
                             (const char *const[]){"worker\nguard\n", stack->dir, NULL});
}

pid_t kiln_crew_find_hand(const struct kiln_stack *stack, const char *name)
{
    char id[KILN_PROCESS_NAME_MAX + 8];
    snprintf(id, sizeof id, "--id\n%s\n", name);
    return kiln_process_find(stack, name, (const char *const[]){"kiln-worker\n", id, NULL});
}

/* --- what it says ----------------------------------------------------------------------------- */

static void tell(struct guard *guard, const struct hand *hand, const char *what)
{
    char at[32];
    kiln_time_text(kiln_wall_ms(), at, sizeof at);
    fprintf(stderr, "%s %s pid=%ld %s%s%s\n", at, hand->row.name, (long)hand->pid, what,
            hand->life.reason[0] ? ": " : "", hand->life.reason);
    guard->changed = true;
}

/* For `kiln worker ls` and for whoever waits for a start: one that ends has no pid any more. */
static void write_state(struct guard *guard)
{
    char path[PATH_MAX], run[PATH_MAX];
    struct kiln_error err;
    json_t *hands = json_array();
    for (int i = 0; i < guard->count; i++) {
        const struct hand *hand = &guard->hands[i];
        json_array_append_new(hands, json_pack("{s:s, s:s, s:s, s:i, s:I, s:i, s:i, s:s}", "worker",
                                               hand->row.name, "device", hand->row.device, "state",
                                               kiln_hand_state_name(hand->life.state), "pid",
                                               hand->kill_s > 0 ? 0 : (int)hand->pid, "since_ms",
                                               (json_int_t)hand->since_ms, "restarts",
                                               (int)hand->life.restarts, "turn",
                                               (int)hand->row.turn, "reason", hand->life.reason));
    }
    kiln_join(path, kiln_join(run, guard->stack->dir, "run"), "crew.json");
    if (kiln_replace_json(path, hands, &err))
        fprintf(stderr, "%s\n", err.text);
    json_decref(hands);
    guard->changed = false;
}

/* --- starting and ending ---------------------------------------------------------------------- */

static void settle(struct guard *guard, struct hand *hand, enum kiln_hand_state state)
{
    hand->life.state = state;
    hand->since_ms = kiln_wall_ms();
    guard->changed = true;
}

static void start_hand(struct guard *guard, struct hand *hand)
{
    char program[PATH_MAX];
    struct kiln_error err;
    const char *argv[] = {kiln_join(program, guard->stack->bin, "kiln-worker"),
                          "--config",
                          guard->plan.config,
                          "--id",
                          hand->row.name,
                          "--device",
                          hand->row.device,
                          NULL};
    struct kiln_spawn spawn = {.name = hand->row.name, .argv = argv, .cwd = guard->stack->dir};
    hand->life.started_s = kiln_now_s();
    if (kiln_process_start(guard->stack, &spawn, &hand->pid, &err)) {
        hand->pid = 0;
        kiln_hand_ended(&hand->life, &guard->plan, -1, err.text, kiln_now_s());
        tell(guard, hand, "not started");
        return;
    }
    hand->child = true;
    hand->kill_s = 0;
    hand->life.reason[0] = '\0';
    settle(guard, hand, KILN_HAND_RUNNING);
    tell(guard, hand, "started");
}

/* The last line of its log, for the reason. */
static void last_words(const struct guard *guard, const struct hand *hand, char *out, size_t size)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.*s/log/%s.log", PATH_MAX - 64, guard->stack->dir,
             hand->row.name);
    FILE *file = fopen(path, "re");
    out[0] = '\0';
    if (!file)
        return;
    kiln_last_line(file, out, size);
    fclose(file);
}

/* It has ended: as it was told to, or by itself. */
static void note_end(struct guard *guard, struct hand *hand, int status)
{
    char words[KILN_CREW_REASON_MAX];
    last_words(guard, hand, words, sizeof words);
    if (status == -1 && strstr(words, "worker_ended"))
        status = 0;
    kiln_process_forget(guard->stack, hand->row.name);
    hand->pid = 0;
    if (hand->kill_s > 0) { /* somebody may have started it again before it was gone */
        bool again = hand->row.wanted && !guard->ending;
        hand->life =
            (struct kiln_hand_life){.state = KILN_HAND_STOPPED, .reason = "as it was told"};
        hand->kill_s = 0;
        settle(guard, hand, again ? KILN_HAND_WAITING : KILN_HAND_STOPPED);
        tell(guard, hand, "stopped");
        return;
    }
    kiln_hand_ended(&hand->life, &guard->plan, status, words, kiln_now_s());
    settle(guard, hand, hand->life.state);
    tell(guard, hand, kiln_hand_state_name(hand->life.state));
}

static void end_hand(struct guard *guard, struct hand *hand)
{
    double drain_s = kiln_config_number(guard->cli->config, KILN_KEY_DRAIN_S) + DRAIN_SLACK_S;
    if (hand->kill_s > 0 && kiln_now_s() > hand->kill_s)
        kill(hand->pid, SIGKILL);
    if (hand->kill_s > 0)
        return;
    hand->kill_s = kiln_now_s() + drain_s;
    kill(hand->pid, SIGTERM);
}

static void look_at(struct guard *guard, struct hand *hand)
{
    int status = 0;
    bool wanted = hand->row.wanted && !guard->ending;
    if (hand->pid && hand->child && waitpid(hand->pid, &status, WNOHANG) == hand->pid)
        note_end(guard, hand, status);
    else if (hand->pid && !hand->child && !kiln_process_alive(hand->pid))
        note_end(guard, hand, -1);
    if (hand->pid && (!wanted || hand->kill_s > 0)) {
        end_hand(guard, hand);
    } else if (!hand->pid && !wanted && hand->life.state != KILN_HAND_STOPPED) {
        snprintf(hand->life.reason, sizeof hand->life.reason, "as it was told");
        settle(guard, hand, KILN_HAND_STOPPED);
    } else if (!hand->pid && wanted && hand->life.state == KILN_HAND_WAITING &&
               kiln_now_s() >= hand->life.due_s) {
        hand->life.restarts += hand->life.crashes > 0;
        start_hand(guard, hand);
    }
}

/* --- the plan --------------------------------------------------------------------------------- */

static struct hand *find_hand(struct guard *guard, const char *name)
{
    for (int i = 0; i < guard->count; i++)
        if (strcmp(guard->hands[i].row.name, name) == 0)
            return &guard->hands[i];
    return NULL;
}

/* A row that is new: perhaps it runs already, left by an earlier guard. */
static void add_hand(struct guard *guard, const struct kiln_hand_row *row)
{
    struct hand *hand = &guard->hands[guard->count++];
    *hand = (struct hand){.row = *row, .since_ms = kiln_wall_ms()};
    hand->pid = kiln_crew_find_hand(guard->stack, row->name);
    hand->life.state = hand->pid ? KILN_HAND_RUNNING : KILN_HAND_WAITING;
    hand->life.started_s = kiln_now_s();
    if (hand->pid)
        tell(guard, hand, "taken over");
}

/* Somebody has asked for it again: the past is forgiven, of one that runs too. */
static void renew(struct guard *guard, struct hand *hand, const struct kiln_hand_row *row)
{
    bool again = row->turn != hand->row.turn;
    hand->row = *row;
    guard->changed = true;
    if (again)
        hand->life =
            (struct kiln_hand_life){.state = hand->pid ? hand->life.state : KILN_HAND_WAITING,
                                    .started_s = hand->life.started_s};
}

static void read_plan(struct guard *guard)
{
    struct kiln_crew_plan *plan = malloc(sizeof *plan);
    struct kiln_error err;
    if (plan && kiln_crew_read(guard->stack, plan, &err) == 0) {
        guard->plan = *plan;
        for (int i = 0; i < plan->count; i++) {
            struct hand *hand = find_hand(guard, plan->at[i].name);
            if (hand)
                renew(guard, hand, &plan->at[i]);
            else if (guard->count < KILN_CREW_MAX)
                add_hand(guard, &plan->at[i]);
        }
        guard->changed = true;
    } else {
        fprintf(stderr, "the plan stays as it was: %s\n", plan ? err.text : "no memory");
    }
    free(plan);
}

static void turn_logs(struct guard *guard)
{
    char path[PATH_MAX];
    struct kiln_error err;
    for (int i = -1; i < guard->count; i++) {
        snprintf(path, sizeof path, "%.*s/log/%s.log", PATH_MAX - 64, guard->stack->dir,
                 i < 0 ? GUARD : guard->hands[i].row.name);
        if (kiln_log_turn(path, guard->plan.log_bytes, &err))
            fprintf(stderr, "%s\n", err.text);
    }
}

/* Whether there is nothing left to guard. */
static bool is_over(const struct guard *guard)
{
    for (int i = 0; i < guard->count; i++)
        if (guard->hands[i].pid || (!guard->ending && guard->hands[i].row.wanted) ||
            guard->hands[i].life.state != KILN_HAND_STOPPED)
            return false;
    return true;
}

int kiln_crew_guard(struct kiln_cli *cli, struct kiln_stack *stack)
{
    struct guard *guard = calloc(1, sizeof *guard);
    sigset_t signals;
    if (!guard)
        return 71;
    guard->cli = cli;
    guard->stack = stack;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    read_plan(guard);
    for (unsigned looks = 0; !is_over(guard); looks++) {
        for (int i = 0; i < guard->count; i++)
            look_at(guard, &guard->hands[i]);
        if (looks % TURN_EVERY == 0)
            turn_logs(guard);
        if (guard->changed)
            write_state(guard);
        int got = sigtimedwait(&signals, NULL, &(struct timespec){.tv_nsec = LOOK_NS});
        if (got == SIGHUP)
            read_plan(guard);
        guard->ending = guard->ending || got == SIGTERM;
    }
    write_state(guard);
    kiln_process_forget(stack, GUARD);
    free(guard);
    return 0;
}

int kiln_crew_stop(struct kiln_stack *stack, struct kiln_cli *cli, double limit_s)
{
    struct kiln_crew_plan plan;
    struct kiln_error err;
    int stopped = 0;
    pid_t guard = kiln_crew_find_guard(stack);
    if (guard) {
        bool gentle = kiln_process_stop(stack, GUARD, guard, SIGTERM, limit_s + DRAIN_SLACK_S);
        kiln_say(cli, "%-10s stopped%s", GUARD, gentle ? "" : " (killed: it did not end in time)");
        stopped++;
    }
    if (kiln_crew_read(stack, &plan, &err))
        return stopped;
    for (int i = 0; i < plan.count; i++) { /* those whose guard was killed */
        pid_t pid = kiln_crew_find_hand(stack, plan.at[i].name);
        if (!pid)
            continue;
        (void)kiln_process_stop(stack, plan.at[i].name, pid, SIGTERM, limit_s);
        kiln_say(cli, "%-10s stopped", plan.at[i].name);
        stopped++;
    }
    return stopped;
}
