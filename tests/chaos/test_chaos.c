/* test_chaos.c - the whole system under seeded faults: real Redis, Postgres and S3, two schedulers,
 * three workers, a client, and everything of it killed, paused, emptied, filled up or cut off.
 *
 * However a run goes, at its end every job has ended exactly once, the ledger and the bucket agree,
 * and no process is left (check.c).  The seed makes the plan of faults, and the same seed makes the
 * same plan again; time is real, so what the faults hit is not the same twice.  A run that breaks a
 * rule prints its plan and keeps its logs.
 *
 *     make chaos SEEDS=20     seeds 1 to 20
 *     make chaos SEED=7       that seed alone
 *
 * The words below are no settings of Kiln; they are taken out of the environment before a program
 * starts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/clock.h"
#include "tests/chaos/check.h"
#include "tests/chaos/client.h"

#define SEEDS_DEFAULT 2
#define PLANS 100000 /* that are made, to see that each comes to an end */
#define TICK_MS 20
#define INTAKE_LIMIT_S 180 /* after the last fault */
#define FINISH_LIMIT_S 180 /* and so much more again for pictures that are really drawn */

static struct test_swift *swift;
static struct test_proxy *store;
static uint64_t only_seed, seed_count;
static bool first_run = true, rooms;

/* --- one run ---------------------------------------------------------------------------------- */

/* Begins and ends each fault at its time.  A server that takes long to start holds up the others:
 * the plan says when they are due, not when they come. */
static void run_plan(struct chaos_site *site)
{
    bool begun[CHAOS_FAULTS] = {false}, ended[CHAOS_FAULTS] = {false};
    int64_t start = kiln_clock_ms();
    for (int left = CHAOS_FAULTS; left > 0;) {
        int64_t now = kiln_clock_ms() - start;
        for (int i = 0; i < CHAOS_FAULTS; i++) {
            const struct chaos_fault *fault = &site->plan.faults[i];
            if (begun[i] && !ended[i] && now >= fault->at_ms + fault->for_ms) {
                chaos_end(site, fault);
                ended[i] = true;
                left--;
            }
            if (!begun[i] && now >= fault->at_ms) {
                chaos_begin(site, fault);
                begun[i] = true;
            }
        }
        chaos_tend(site);
        kiln_test_sleep_ms(TICK_MS);
    }
}

static bool wait_until_over(struct chaos_site *site)
{
    int64_t until = kiln_clock_ms() + (site->model[0] ? 4 : 1) * FINISH_LIMIT_S * 1000;
    while (kiln_test_count(site->stack, "SELECT count(*) FROM job WHERE state IN (0, 1)") > 0) {
        chaos_tend(site);
        kiln_test_sleep_ms(5 * TICK_MS);
        if (kiln_clock_ms() > until)
            return false;
    }
    return true;
}

static bool one_run(uint64_t seed)
{
    struct chaos_site site = {0};
    chaos_plan_make(&site.plan, seed);
    chaos_site_start(&site, swift, store, rooms);
    struct chaos_client *client = chaos_client_start(site.stack, !site.model[0]);
    run_plan(&site);
    int64_t healed = kiln_clock_ms();
    bool sent = chaos_client_finish(client, INTAKE_LIMIT_S);
    int resent = chaos_client_resent(client);
    chaos_client_free(client);
    bool over = sent && wait_until_over(&site);
    double took_s = (double)(kiln_clock_ms() - healed) / 1000;
    if (!sent)
        printf("broken: the client's lines were not taken in within %d s\n", INTAKE_LIMIT_S);
    else if (!over)
        printf("broken: not every job ended in time\n");
    bool good = chaos_site_end(&site);
    good = chaos_check(&site, CHAOS_JOBS) == 0 && good && sent && over;
    printf("seed %llu%s%s %s: %d faults, %d jobs, %lld assignments, %d batches sent again, %d "
           "programs "
           "started again, over %.1f s after the last fault\n",
           (unsigned long long)seed, site.rooms ? " (rooms)" : "",
           site.model[0] ? " (demo engine)" : "", good ? "keeps every rule" : "BREAKS A RULE",
           CHAOS_FAULTS, CHAOS_JOBS, kiln_test_count(site.stack, "SELECT sum(attempt) FROM job"),
           resent, site.restarts, took_s);
    if (!good)
        chaos_plan_print(&site.plan);
    else if (first_run) /* once: would it have been noticed? */
        good = chaos_check_notices(&site, CHAOS_JOBS);
    first_run = false;
    chaos_site_stop(&site, !good);
    return good;
}

static void every_rule_is_kept(void **state)
{
    (void)state;
    uint64_t first = only_seed ? only_seed : 1, last = only_seed ? only_seed : seed_count;
    int broken = 0;
    if (only_seed) {
        struct chaos_plan plan;
        chaos_plan_make(&plan, only_seed);
        chaos_plan_print(&plan);
        printf("the plan is the seed's; the moments that it hits are not the same twice\n");
    }
    for (uint64_t seed = first; seed <= last; seed++) {
        fflush(stdout);
        if (!one_run(seed)) {
            broken++;
            printf("again: make chaos SEED=%llu\n", (unsigned long long)seed);
        }
    }
    assert_int_equal(broken, 0);
}

static void the_same_seed_makes_the_same_plan(void **state)
{
    (void)state;
    struct chaos_plan one, two;
    chaos_plan_make(&one, 7);
    chaos_plan_make(&two, 7);
    assert_memory_equal(&one, &two, sizeof one);
    chaos_plan_make(&two, 8);
    assert_memory_not_equal(&one, &two, sizeof one);
    for (uint64_t seed = 1; seed <= PLANS; seed++) {
        chaos_plan_make(&one, seed);
        assert_in_range(one.end_ms, 1, CHAOS_FAULTS * 4000);
    }
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t value = text && text[0] ? strtoull(text, NULL, 10) : otherwise;
    unsetenv(name);
    return value;
}

int main(void)
{
    only_seed = number("CHAOS_SEED", 0);
    seed_count = number("CHAOS_SEEDS", SEEDS_DEFAULT);
    setvbuf(stdout, NULL, _IOLBF, 0);
    char why[96];
    rooms = test_network_own(why, sizeof why);
    if (!rooms)
        printf("skip: %s: all networks are links\n", why);
    swift = test_swift_start();
    if (!swift)
        return 77;
    store = test_proxy_start(test_swift_port(swift));
    kiln_store_close(test_s3_store(test_swift_port(swift), "", NULL)); /* keys: environment */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_makes_the_same_plan),
        cmocka_unit_test(every_rule_is_kept),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_proxy_stop(store);
    test_swift_stop(swift);
    return failed;
}
