/* guard_rule.c - what becomes of a worker that has ended.  No clock, no processes: the guard brings
 * both.
 *
 *     ended with 0               it was drained: it stays away until somebody starts it
 *     wrong settings or usage    no restart can help: given up at once
 *     anything else              again after 1, 2, 4, ... 60 s; given up after too many crashes in
 *                                too short a time, so that a broken machine does not grind for days
 */
#include <stdio.h>
#include <sys/wait.h>
#include <sysexits.h>

#include "scheduler/cli/stack/guard.h"
#include "storage/daemon/outage.h"

#define PAUSE_FIRST_S 1
#define PAUSE_MAX_S 60
#define STEADY_S 60.0 /* after running so long, pauses are short again */

const char *kiln_guard_state_name(enum kiln_guard_state state)
{
    static const char *const names[] = {"running", "waiting", "stopped", "ended", "given_up"};
    return names[state];
}

void kiln_guard_ended(struct kiln_guard_life *life, const struct kiln_guard_plan *plan, int status,
                      const char *words, double now_s)
{
    char how[64] = "it was gone";
    int code = status != -1 && WIFEXITED(status) ? WEXITSTATUS(status) : -1, crashes = 0;
    if (code >= 0)
        snprintf(how, sizeof how, "exit %d", code);
    else if (status != -1)
        snprintf(how, sizeof how, "killed by signal %d", WTERMSIG(status));
    if (code == 0) {
        life->state = KILN_GUARD_ENDED;
        snprintf(life->reason, sizeof life->reason, "drained");
        return;
    }
    snprintf(life->reason, sizeof life->reason, "%s%s%.150s", how, words[0] ? ": " : "", words);
    if (code == EX_CONFIG || code == EX_USAGE) {
        life->state = KILN_GUARD_GIVEN_UP;
        return;
    }
    life->in_row = now_s - life->started_s >= STEADY_S ? 0 : life->in_row;
    life->crashed_s[life->crashes++ % KILN_GUARD_CRASHES_MAX] = now_s;
    for (uint32_t i = 0; i < life->crashes && i < KILN_GUARD_CRASHES_MAX; i++)
        crashes += now_s - life->crashed_s[i] <= (double)plan->within_s;
    if (crashes >= plan->crashes) {
        life->state = KILN_GUARD_GIVEN_UP;
        snprintf(life->reason, sizeof life->reason,
                 "%d crashes within %lld s, the last: %s%s%.120s", crashes,
                 (long long)plan->within_s, how, words[0] ? ": " : "", words);
        return;
    }
    life->due_s = now_s + kiln_backoff(++life->in_row, PAUSE_FIRST_S, PAUSE_MAX_S);
    life->state = KILN_GUARD_WAITING;
}
