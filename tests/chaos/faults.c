/* faults.c - how each fault of a plan begins and ends. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/chaos/site.h"

/* --- the store -------------------------------------------------------------------------------- */

static void script_store(struct chaos_site *site, enum chaos_kind kind)
{
    static const struct test_fault_rule slow_down[] = {{"PUT", FAULT_503, 1000, 0}};
    static const struct test_fault_rule breaks[] = {
        {"PUT", FAULT_RESET_AFTER, 6, 0},   {"PUT", FAULT_TRUNCATE, 3, 0},
        {"PUT", FAULT_RESET_BEFORE, 6, 0},  {"PUT", FAULT_SLOW, 6, 700},
        {"PUT", FAULT_WRONG_ETAG, 3, 0},    {"PUT", FAULT_GARBAGE, 3, 0},
        {"PUT", FAULT_500_HTML, 3, 0},      {"PUT", FAULT_CLOSE_AFTER, 6, 0},
        {"HEAD", FAULT_RESET_BEFORE, 2, 0},
    };
    static const struct test_fault_rule silent[] = {{"", FAULT_HANG, 6, 0}};
    if (kind == CHAOS_STORE_503)
        test_proxy_script(site->store, slow_down, 1);
    else if (kind == CHAOS_STORE_BREAKS)
        test_proxy_script(site->store, breaks, sizeof breaks / sizeof *breaks);
    else
        test_proxy_script(site->store, silent, 1);
}

/* --- the disk --------------------------------------------------------------------------------- */

static void ballast_path(const struct chaos_site *site, char out[160])
{
    snprintf(out, 160, "%s/ballast", site->disk);
}

/* Whatever room is left. */
static void fill_disk(const struct chaos_site *site)
{
    static const char zeros[1 << 16];
    char path[160];
    if (!site->disk[0])
        return;
    ballast_path(site, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (size_t size = sizeof zeros; fd >= 0 && size > 0;)
        if (write(fd, zeros, size) <= 0)
            size /= 2; /* to the last byte */
    if (fd >= 0)
        close(fd);
}

/* --- servers ---------------------------------------------------------------------------------- */

static bool has_died(const struct kiln_test_stack *stack, enum kiln_test_server server)
{
    siginfo_t info = {0};
    return stack->pid[server] == 0 ||
           (waitid(P_PID, (id_t)stack->pid[server], &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == stack->pid[server]);
}

/* A server may have given up on the full disk. */
static void free_disk(struct chaos_site *site)
{
    char path[160];
    if (!site->disk[0])
        return;
    ballast_path(site, path);
    (void)unlink(path);
    for (int server = KILN_TEST_REDIS; server <= KILN_TEST_POSTGRES; server++)
        if (has_died(site->stack, (enum kiln_test_server)server)) {
            kiln_test_kill(site->stack, (enum kiln_test_server)server);
            kiln_test_restart(site->stack, (enum kiln_test_server)server, NULL);
        }
}

static void stop_server(struct chaos_site *site, enum kiln_test_server server)
{
    kill(site->stack->pid[server], server == KILN_TEST_REDIS ? SIGTERM : SIGINT);
    waitpid(site->stack->pid[server], NULL, 0);
    site->stack->pid[server] = 0;
}

/* --- programs --------------------------------------------------------------------------------- */

static void cut(struct chaos_seat *seat, enum test_cable cable, bool apart)
{
    if (seat->room)
        test_room_cut(seat->room, cable, apart);
    else
        test_link_cut(seat->links[cable], apart);
}

/* What a fault takes a program from. */
static void cut_for(struct chaos_seat *seat, enum chaos_kind kind, bool apart)
{
    bool redis = kind == CHAOS_WORKER_NO_REDIS || kind == CHAOS_SCHEDULER_NO_REDIS;
    bool postgres = kind == CHAOS_WORKER_NO_POSTGRES || kind == CHAOS_SCHEDULER_NO_POSTGRES;
    bool store = kind == CHAOS_WORKER_NO_STORE, all = !redis && !postgres && !store;
    if (redis || all)
        cut(seat, TEST_CABLE_REDIS, apart);
    if (postgres || all)
        cut(seat, TEST_CABLE_POSTGRES, apart);
    if (store || all)
        cut(seat, TEST_CABLE_STORE, apart);
}

static void reset(struct chaos_seat *seat)
{
    if (seat->room)
        test_room_reset(seat->room);
    for (int i = 0; !seat->room && i < TEST_CABLES; i++)
        test_link_reset(seat->links[i]);
}

static void kill_worker(struct chaos_site *site, int which)
{
    site->worker_away[which] = true;
    kiln_test_worker_signal(&site->workers[which], SIGKILL);
    (void)kiln_test_worker_wait(&site->workers[which], 10);
}

static void begin_with_worker(struct chaos_site *site, const struct chaos_fault *fault)
{
    struct kiln_test_worker *worker = &site->workers[fault->target];
    struct chaos_seat *seat = &site->worker_seats[fault->target];
    switch (fault->kind) {
    case CHAOS_WORKER_KILL:
        kill_worker(site, fault->target);
        break;
    case CHAOS_WORKER_PAUSE:
        kiln_test_worker_signal(worker, SIGSTOP);
        break;
    case CHAOS_WORKER_DRAIN:
        kiln_test_worker_signal(worker, SIGTERM);
        break;
    case CHAOS_WORKER_RESET:
        reset(seat);
        break;
    default:
        cut_for(seat, fault->kind, true);
        break;
    }
}

static void begin_with_scheduler(struct chaos_site *site, const struct chaos_fault *fault)
{
    struct kiln_test_scheduler *scheduler = &site->schedulers[fault->target];
    if (fault->kind == CHAOS_SCHEDULER_KILL) {
        site->scheduler_away[fault->target] = true;
        (void)kiln_test_scheduler_kill(scheduler);
    } else if (fault->kind == CHAOS_SCHEDULER_PAUSE) {
        if (scheduler->process.pid > 0)
            kill(scheduler->process.pid, SIGSTOP);
    } else {
        cut_for(&site->scheduler_seats[fault->target], fault->kind, true);
    }
}

void chaos_begin(struct chaos_site *site, const struct chaos_fault *fault)
{
    enum kiln_test_server server =
        fault->kind >= CHAOS_POSTGRES_KILL ? KILN_TEST_POSTGRES : KILN_TEST_REDIS;
    switch (fault->kind) {
    case CHAOS_SCHEDULER_KILL:
    case CHAOS_SCHEDULER_PAUSE:
    case CHAOS_SCHEDULER_CUT:
    case CHAOS_SCHEDULER_NO_REDIS:
    case CHAOS_SCHEDULER_NO_POSTGRES:
        begin_with_scheduler(site, fault);
        break;
    case CHAOS_REDIS_KILL:
    case CHAOS_POSTGRES_KILL:
        kiln_test_kill(site->stack, server);
        break;
    case CHAOS_REDIS_RESTART:
    case CHAOS_POSTGRES_RESTART:
        stop_server(site, server);
        break;
    case CHAOS_REDIS_FREEZE:
    case CHAOS_POSTGRES_FREEZE:
        kiln_test_freeze(site->stack, server);
        break;
    case CHAOS_REDIS_FLUSH:
        kiln_test_flushall(site->stack);
        break;
    case CHAOS_STORE_503:
    case CHAOS_STORE_BREAKS:
    case CHAOS_STORE_HANGS:
        script_store(site, fault->kind);
        break;
    case CHAOS_DISK_FULL:
        fill_disk(site);
        break;
    default:
        begin_with_worker(site, fault);
        break;
    }
}

void chaos_end(struct chaos_site *site, const struct chaos_fault *fault)
{
    enum kiln_test_server server =
        fault->kind >= CHAOS_POSTGRES_KILL ? KILN_TEST_POSTGRES : KILN_TEST_REDIS;
    switch (fault->kind) {
    case CHAOS_WORKER_KILL:
        site->worker_away[fault->target] = false; /* chaos_tend starts it */
        break;
    case CHAOS_WORKER_PAUSE:
        kiln_test_worker_signal(&site->workers[fault->target], SIGCONT);
        break;
    case CHAOS_WORKER_CUT:
    case CHAOS_WORKER_NO_REDIS:
    case CHAOS_WORKER_NO_POSTGRES:
    case CHAOS_WORKER_NO_STORE:
        cut_for(&site->worker_seats[fault->target], fault->kind, false);
        break;
    case CHAOS_SCHEDULER_KILL:
        site->scheduler_away[fault->target] = false;
        break;
    case CHAOS_SCHEDULER_PAUSE:
        if (site->schedulers[fault->target].process.pid > 0)
            kill(site->schedulers[fault->target].process.pid, SIGCONT);
        break;
    case CHAOS_SCHEDULER_CUT:
    case CHAOS_SCHEDULER_NO_REDIS:
    case CHAOS_SCHEDULER_NO_POSTGRES:
        cut_for(&site->scheduler_seats[fault->target], fault->kind, false);
        break;
    case CHAOS_REDIS_KILL:
    case CHAOS_REDIS_RESTART:
    case CHAOS_POSTGRES_KILL:
    case CHAOS_POSTGRES_RESTART:
        kiln_test_restart(site->stack, server, NULL);
        break;
    case CHAOS_REDIS_FREEZE:
    case CHAOS_POSTGRES_FREEZE:
        kiln_test_thaw(site->stack, server);
        break;
    case CHAOS_STORE_503:
    case CHAOS_STORE_BREAKS:
    case CHAOS_STORE_HANGS:
        test_proxy_script(site->store, NULL, 0);
        break;
    case CHAOS_DISK_FULL:
        free_disk(site);
        break;
    default: /* over at once, or ended by the program itself */
        break;
    }
}
