/* answer.c - answers queries of the command line: why does this job wait, what waits in which
 * group.
 *
 * Only the leader's memory knows, so the query travels as a control message and the answer comes in
 * a list of its own with a short TTL (bus.md).  A query that nobody waits for any more costs as
 * much as any other: little, and one round reads no more than CONTROL_MAX messages.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/leader.h"
#include "schemas/clock.h"

#define ANSWER_TTL_S 30
#define GROUPS_MAX 200 /* the largest ones */

/* --- one job --------------------------------------------------------------------------------- */
/* JSON has no infinity: null means never. */
static json_t *seconds(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *why_answer(const struct kiln_leader *leader, uint64_t job)
{
    struct kiln_policy_why why;
    struct kiln_error err;
    if (kiln_policy_why(leader->policy, job, kiln_clock_ms(), &why, &err))
        return json_pack("{s:i, s:I, s:b}", "v", KILN_WIRE_VERSION, "job", (json_int_t)job, "waits",
                         0);
    return json_pack("{s:i, s:I, s:b, s:s, s:i, s:i, s:i, s:o, s:o, s:o, s:s}", "v",
                     KILN_WIRE_VERSION, "job", (json_int_t)job, "waits", 1, "hold",
                     kiln_policy_reason_name(why.reason), "place", (int)why.place, "of",
                     (int)why.of, "holders", (int)why.holders, "start_s", seconds(why.start_s),
                     "low_s", seconds(why.low_s), "high_s", seconds(why.high_s), "text", why.text);
}

/* --- the groups ------------------------------------------------------------------------------ */
static int larger_first(const void *a, const void *b)
{
    const struct kiln_policy_group *x = a, *y = b;
    return (x->backlog_s < y->backlog_s) - (x->backlog_s > y->backlog_s);
}

static json_t *groups_answer(const struct kiln_leader *leader)
{
    struct kiln_policy_counts counts;
    kiln_policy_counts(leader->policy, &counts);
    struct kiln_policy_group *at = calloc(counts.groups + 1, sizeof(*at));
    if (!at)
        return NULL;
    size_t count = kiln_policy_groups(leader->policy, at, counts.groups);
    qsort(at, count, sizeof(*at), larger_first);
    json_t *groups = json_array();
    for (size_t i = 0; i < count && i < GROUPS_MAX; i++) {
        const struct kiln_policy_group *g = &at[i];
        json_array_append_new(
            groups,
            json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:i, s:i, s:f}", "model", g->model,
                      "loras", g->lora_set, "mode", kiln_mode_shown(g->mode), "width",
                      (int)g->width, "height", (int)g->height, "steps", (int)g->steps, "skip",
                      (int)g->skip, "guidance", g->guidance, "queued", (int)g->jobs, "holders",
                      (int)g->holders, "backlog_s", g->backlog_s));
    }
    free(at);
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:f, s:I, s:I, s:I, s:o}", "v", KILN_WIRE_VERSION,
                     "waiting", (int)counts.waiting, "sleeping", (int)counts.sleeping, "holds",
                     (int)leader->pauses.count, "workers", (int)counts.workers, "backlog_s",
                     counts.backlog_s, "groups_total", (json_int_t)count, "picks",
                     (json_int_t)counts.picks, "switches", (json_int_t)counts.switches, "groups",
                     groups);
}

static json_t *donors_answer(const struct kiln_leader *leader)
{
    static const char *const stages[] = {"starting", "no_table", "reading", "complete"};
    const struct kiln_cache_state state = kiln_cache_warm(leader->cache);
    return json_pack("{s:i, s:s, s:I, s:I, s:I}", "v", KILN_WIRE_VERSION, "state",
                     stages[state.stage], "donors", (json_int_t)state.donors, "prompts",
                     (json_int_t)state.prompts, "looks", (json_int_t)state.looks);
}

int kiln_answer(struct kiln_leader *leader, const struct kiln_control *control,
                struct kiln_error *err)
{
    json_t *answer = control->donors ? donors_answer(leader)
                     : control->job  ? why_answer(leader, control->job)
                                     : groups_answer(leader);
    char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
    char key[KILN_KEY_MAX + KILN_BATCH_NAME_MAX];
    kiln_wire_key(key, sizeof(key), leader->pool, "answer", control->id);
    int rc = text ? kiln_bus_push(leader->bus, key, text, ANSWER_TTL_S, err)
                  : kiln_fail(err, KILN_NO_MEMORY, "no memory for an answer");
    /* Ending the leadership would help nobody, and a foreign value under the asker's token is the
     * asker's affair. */
    if (rc == KILN_NO_MEMORY || kiln_bus_refusal(leader->bus) != KILN_BUS_NOT_REFUSED) {
        kiln_log_limited(&leader->limits[KILN_LIMIT_ANSWER], "question_unanswered", key, err->text);
        rc = 0;
    }
    free(text);
    json_decref(answer);
    return rc;
}
