/* test_ledger_makespan.c - what the pictures of a batch cost, from rows whose sums are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/ledger/read/makespan.h"
#include "tests/support/rig.h"

struct found {
    struct kiln_makespan_set sets[8];
    size_t count;
};

static int add_set(void *arg, const struct kiln_makespan_set *set, struct kiln_error *err)
{
    struct found *found = arg;
    (void)err;
    if (found->count < 8)
        found->sets[found->count++] = *set;
    return 0;
}

static const struct kiln_makespan_set *set_of(const struct found *found, const char *lora_set)
{
    for (size_t i = 0; i < found->count; i++)
        if (strcmp(found->sets[i].lora_set, lora_set) == 0)
            return &found->sets[i];
    fail_msg("no set '%s'", lora_set);
    return NULL;
}

static void run(const char *sql)
{
    free(kiln_test_sql(rig.stack, sql));
}

static void pictures_are_summed(void **state)
{
    struct kiln_job jobs[6];
    struct found found = {0};
    struct kiln_makespan makespan;
    (void)state;
    size_t count = kiln_rig_assigned("six", 6, jobs);
    for (size_t i = 0; i < count; i++)
        assert_true(kiln_rig_commit(&jobs[i]));
    kiln_rig_release(jobs, count);
    /* Two workers, three pictures each: w0 draws a, b, a and w1 the bare model, then b twice. */
    run("UPDATE image i SET worker = 'w' || n / 3, text_ms = 0, decode_ms = 500,"
        " denoise_ms = 1000 * n, lora_set = (ARRAY['a:1', 'b:1', 'a:1', '', 'b:1', 'b:1'])[n + 1]"
        " FROM (SELECT job_id, row_number() OVER (ORDER BY job_id) - 1 AS n FROM image) o"
        " WHERE o.job_id = i.job_id");
    run("UPDATE job j SET assigned_at = timestamptz '2026-01-01' + n * interval '1 s',"
        " finished_at = timestamptz '2026-01-01' + (n + 2) * interval '1 s'"
        " FROM (SELECT id, row_number() OVER (ORDER BY id) - 1 AS n FROM job) o WHERE o.id = j.id");
    kiln_test_ok(kiln_ledger_makespan(rig.ledger, "p", "six", &makespan, add_set, &found, &rig.err),
                 rig.err);
    assert_int_equal(makespan.pictures, 6);
    assert_int_equal(makespan.workers, 2);
    assert_int_equal(makespan.switches, 4);
    assert_int_equal(makespan.ended_ms - makespan.began_ms, 7000);
    assert_int_equal(found.count, 3);
    assert_true(set_of(&found, "a:1")->work_s == 0.5 + 2.5);
    assert_true(set_of(&found, "b:1")->work_s == 1.5 + 4.5 + 5.5);
    assert_true(set_of(&found, "b:1")->longest_s == 5.5);
    assert_true(set_of(&found, "")->work_s == 3.5);
}

/* An edited file: two of the six jobs came in an hour after the others had ended. */
static void only_the_latest_run_counts(void **state)
{
    struct found found = {0};
    struct kiln_makespan makespan;
    (void)state;
    run("UPDATE job SET created_at = timestamptz '2026-01-01' + (id % 2) * interval '1 s'");
    run("UPDATE job j SET created_at = timestamptz '2026-01-01 01:00' + n * interval '1 s',"
        " assigned_at = timestamptz '2026-01-01 01:00' + n * interval '2 s',"
        " finished_at = timestamptz '2026-01-01 01:00' + (n + 1) * interval '2 s'"
        " FROM (SELECT id, row_number() OVER (ORDER BY id) - 5 AS n FROM job) o"
        " WHERE o.id = j.id AND n >= 0");
    kiln_test_ok(kiln_ledger_makespan(rig.ledger, "p", "six", &makespan, add_set, &found, &rig.err),
                 rig.err);
    assert_int_equal(makespan.pictures, 2);
    assert_int_equal(makespan.workers, 1);
    assert_int_equal(makespan.ended_ms - makespan.began_ms, 4000);
    assert_int_equal(found.count, 1);
    assert_true(set_of(&found, "b:1")->work_s == 4.5 + 5.5);
    /* Jobs that came in while earlier ones were rendered belong to the same run. */
    run("UPDATE job SET finished_at = timestamptz '2026-01-01 00:59:58'"
        " WHERE id = (SELECT min(id) FROM job)");
    kiln_test_ok(kiln_ledger_makespan(rig.ledger, "p", "six", &makespan, add_set, &found, &rig.err),
                 rig.err);
    assert_int_equal(makespan.pictures, 6);
}

static void no_pictures_are_zeros(void **state)
{
    struct kiln_job jobs[1];
    struct found found = {0};
    struct kiln_makespan makespan;
    (void)state;
    kiln_rig_release(jobs, kiln_rig_assigned("none", 1, jobs));
    kiln_test_ok(
        kiln_ledger_makespan(rig.ledger, "p", "none", &makespan, add_set, &found, &rig.err),
        rig.err);
    assert_int_equal(makespan.pictures, 0);
    assert_int_equal(makespan.workers, 0);
    assert_int_equal(found.count, 0);
    assert_int_equal(
        kiln_ledger_makespan(rig.ledger, "p", "absent", &makespan, add_set, &found, &rig.err),
        KILN_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_are_summed),
        cmocka_unit_test(only_the_latest_run_counts),
        cmocka_unit_test(no_pictures_are_zeros),
    };
    return cmocka_run_group_tests(tests, kiln_rig_start, kiln_rig_stop);
}
