/* guard_rule.c - what becomes of a worker that has ended.  No clock, no processes: the guard brings
 * both.
 *
 *     ended with 0               it was drained: it stays away until somebody starts it
 *     wrong settings or usage    no restart can help: given up at once
 *     anything else              again after 1, 2, 4, ... 60 s; given up after too many crashes in
 *                                too short a time, so that a broken machine does not grind for days
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
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

/* People read the reason: one that is too long ends after a word. */
static void KILN_PRINTF(2, 3) give_reason(struct kiln_guard_life *life, const char *fmt, ...)
{
    static const char rest[] = " ... (its log says more)";
    size_t fits = sizeof life->reason - sizeof rest;
    va_list args;
    va_start(args, fmt);
    bool whole = vsnprintf(life->reason, sizeof life->reason, fmt, args) < KILN_GUARD_REASON_MAX;
    va_end(args);
    if (whole)
        return;
    while (fits > 0 && life->reason[fits] != ' ')
        fits--;
    memcpy(life->reason + fits, rest, sizeof rest);
}

/* The character that an escape in a quoted text of the log stands for, as people shall see it; *at,
 * at its backslash, moves to its last byte. */
static char escaped(const char **at)
{
    const char c = *++*at;
    if (c != 'u')
        return c == 'n' || c == 't' || c == 'r' ? ' ' : c;
    for (int i = 0; i < 4 && isxdigit((unsigned char)(*at)[1]); i++)
        ++*at;
    return '?';
}

/* What a line of the log says went wrong: the text of its field `error`, or the line. */
static const char *error_of(const char *line, char out[KILN_ERROR_TEXT_MAX])
{
    static const char field[] = " error=";
    const char *at = strstr(line, field);
    size_t len = 0;
    if (!at)
        return line;
    at += strlen(field);
    const char end = *at == '"' ? '"' : ' '; /* a word has no quotes */
    at += end == '"';
    for (; *at && *at != end && len + 1 < KILN_ERROR_TEXT_MAX; at++)
        out[len++] = *at == '\\' && at[1] ? escaped(&at) : *at;
    out[len] = '\0';
    return out;
}

void kiln_guard_ended(struct kiln_guard_life *life, const struct kiln_guard_plan *plan, int status,
                      const char *line, double now_s)
{
    char how[64] = "it was gone", text[KILN_ERROR_TEXT_MAX];
    const char *words = error_of(line, text);
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
    give_reason(life, "%s%s%s", how, words[0] ? ": " : "", words);
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
        give_reason(life, "%d crashes within %lld s, the last: %s%s%s", crashes,
                    (long long)plan->within_s, how, words[0] ? ": " : "", words);
        return;
    }
    life->due_s = now_s + kiln_backoff(++life->in_row, PAUSE_FIRST_S, PAUSE_MAX_S);
    life->state = KILN_GUARD_WAITING;
}
