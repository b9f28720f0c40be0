/* expect.c - which waiting jobs would begin from a stored latent, so that the policy groups them.
 *
 * A batch whose jobs have different numbers of steps left needs several calls of the engine.  So
 * before jobs are picked, it is looked up for those that go soon where they would begin; again only
 * if a donor has come since that may be theirs (scheduler/cache/news.h).  What a run really begins
 * from is decided when it is assigned (dispatch.c).  A job far behind in the queue costs nothing.
 *
 * Bounds: in a round KILN_POLICY_SOON jobs are considered and LOOKS of them read, and looked up for
 * LOOK_MS of the processor; then there is no other round for as long as that took.
 */
#include "scheduler/leader.h"
#include "schemas/clock.h"

#define LOOKS 256
#define LOOK_MS 10.0
#define ADVANCE_MS 50 /* the jobs that go soon are others after this time, without new donors */

struct expecting {
    struct kiln_leader *leader;
    const uint64_t *ids;
    bool told[LOOKS];
    size_t count;
    double until_ms; /* of the processor */
};

static bool is_served(const void *arg, const char *lora_set)
{
    return kiln_cache_serves(arg, lora_set);
}

static bool is_outdated(const void *arg, const struct kiln_reuse_look *look)
{
    return kiln_cache_outdated(arg, look);
}

static int expect_one(void *arg, const struct kiln_job *job)
{
    struct expecting *expecting = arg;
    struct kiln_leader *leader = expecting->leader;
    struct kiln_reuse_look look;
    const char *silent;
    for (size_t i = 0; i < expecting->count; i++)
        if (expecting->ids[i] == job->id)
            expecting->told[i] = true;
    if (kiln_ms_of(CLOCK_THREAD_CPUTIME_ID) < expecting->until_ms) {
        const struct kiln_donor donor =
            kiln_cache_look(leader->cache, job, false, NULL, &silent, &look);
        kiln_policy_expect(leader->policy, job->id, &donor, &look);
    }
    return 0;
}

int kiln_expect(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err)
{
    uint64_t ids[LOOKS];
    const uint64_t turn = kiln_cache_turn(leader->cache);
    if (now_ms < leader->expect_rest_ms ||
        (turn == leader->expected_turn && now_ms < leader->expect_due_ms) ||
        !kiln_cache_ready(leader->cache))
        return 0;
    const int64_t began_ms = kiln_clock_ms();
    struct expecting expecting = {
        .leader = leader, .ids = ids, .until_ms = kiln_ms_of(CLOCK_THREAD_CPUTIME_ID) + LOOK_MS};
    expecting.count =
        kiln_policy_to_look(leader->policy, is_served, is_outdated, leader->cache, ids, LOOKS);
    if (expecting.count > 0) {
        int rc = kiln_ledger_asking(leader->ledger, leader->pool, ids, expecting.count, expect_one,
                                    &expecting, err);
        if (rc)
            return rc;
    }
    /* The ledger does not give them: damaged, or taken a moment ago. */
    const struct kiln_reuse_look looked = {.turn = turn};
    const struct kiln_donor none = {0};
    for (size_t i = 0; i < expecting.count; i++)
        if (!expecting.told[i])
            kiln_policy_expect(leader->policy, ids[i], &none, &looked);
    const int64_t took_ms = kiln_clock_ms() - began_ms;
    leader->expected_turn = turn;
    leader->expect_rest_ms = now_ms + 2 * took_ms;
    leader->expect_due_ms = expecting.count == LOOKS ? now_ms : now_ms + ADVANCE_MS;
    return 0;
}
