/* test_ledger_webhook.c - messages to URLs in the ledger: kept once, due when the batch has ended,
 * taken by one scheduler, tried again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/ledger/queue/webhook.h"
#include "tests/support/rig.h"

static bool keep(const char *batch, const char *entry, const char *url)
{
    bool full = false;
    kiln_test_ok(kiln_ledger_webhook_keep(rig.ledger, "p", batch, entry, url, &full, &rig.err),
                 rig.err);
    return !full;
}

static bool take(struct kiln_webhook_row *ret, double lease_s)
{
    bool found = false;
    kiln_test_ok(kiln_ledger_webhook_take(rig.ledger, "p", lease_s, ret, &found, &rig.err),
                 rig.err);
    return found;
}

static void tried(uint64_t id, const char *error, double retry_s)
{
    kiln_test_ok(kiln_ledger_webhook_tried(rig.ledger, id, error, retry_s, &rig.err), rig.err);
}

static long long rows_of(const char *batch)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM webhook w JOIN batch b ON b.id = w.batch_id WHERE b.name = '%s'",
             batch);
    return kiln_test_count(rig.stack, sql);
}

static void announce(const char *batch, uint64_t count)
{
    uint64_t accepted, duplicate, refused;
    kiln_test_ok(kiln_ledger_announce(rig.ledger, "p", batch, "t", count, &accepted, &duplicate,
                                      &refused, &rig.err),
                 rig.err);
}

static void a_message_is_due_when_its_batch_has_ended(void **state)
{
    (void)state;
    struct kiln_job jobs[2];
    struct kiln_webhook_row row, again;
    assert_int_equal(kiln_rig_assigned("due", 2, jobs), 2);
    assert_true(keep("due", "1-0", "http://a/x"));
    assert_true(kiln_rig_commit(&jobs[0]));
    assert_true(kiln_rig_commit(&jobs[1]));
    assert_false(take(&row, 60)); /* its end was not announced: more may come */
    announce("due", 2);
    assert_true(take(&row, 0));
    assert_string_equal(row.batch, "due");
    assert_string_equal(row.url, "http://a/x");
    assert_int_equal(row.tries, 1);
    assert_int_equal(row.done, 2);
    assert_int_equal(row.failed + row.cancelled, 0);
    assert_true(row.began_ms > 0 && row.ended_ms >= row.began_ms);
    assert_true(take(&again, 60)); /* the lease was over: its scheduler died */
    assert_int_equal(again.tries, 2);
    assert_string_equal(again.delivery, row.delivery);
    assert_false(take(&again, 60)); /* somebody is at it */
    tried(row.id, "http://a answered 500", 1e-6);
    assert_true(take(&again, 60));
    tried(row.id, NULL, 0);
    assert_false(take(&again, 60));
    assert_int_equal(kiln_test_count(rig.stack,
                                     "SELECT count(*) FROM webhook WHERE outcome = 'delivered'"
                                     " AND error IS NULL AND tries = 3"),
                     1);
    kiln_rig_release(jobs, 2);
}

static void a_url_waits_once_and_a_batch_has_few(void **state)
{
    (void)state;
    char entry[16], url[32];
    assert_true(keep("many", "1-0", "http://a/"));
    assert_true(keep("many", "1-0", "http://a/")); /* the entry was read again */
    assert_true(keep("many", "2-0", "http://a/")); /* another call */
    assert_int_equal(rows_of("many"), 1);
    for (int i = 1; i < KILN_WEBHOOKS_OF_BATCH; i++) {
        snprintf(entry, sizeof entry, "3-%d", i);
        snprintf(url, sizeof url, "http://a/%d", i);
        assert_true(keep("many", entry, url));
    }
    assert_int_equal(rows_of("many"), KILN_WEBHOOKS_OF_BATCH);
    assert_false(keep("many", "4-0", "http://a/more"));
    assert_true(keep("many", "4-1", "http://a/")); /* one of those */
    assert_int_equal(rows_of("many"), KILN_WEBHOOKS_OF_BATCH);
    free(kiln_test_sql(rig.stack, "DELETE FROM batch WHERE name = 'many'"));
    assert_int_equal(rows_of("many"), 0);
}

static void what_fails_is_told_to_people(void **state)
{
    (void)state;
    struct kiln_webhook_trouble trouble;
    struct kiln_webhook_row row;
    assert_true(keep("bad", "1-0", "http://a/"));
    announce("bad", 0);
    for (int i = 1; i <= 3; i++) {
        assert_true(take(&row, 60));
        assert_int_equal(row.tries, i);
        assert_int_equal(row.began_ms, 0); /* nothing ran */
        kiln_test_ok(kiln_ledger_webhook_trouble(rig.ledger, "p", &trouble, &rig.err), rig.err);
        assert_int_equal(trouble.failed, 0);
        assert_int_equal(trouble.retried, i == 3);
        tried(row.id, "http://a answered 500", 1e-6);
    }
    kiln_test_ok(kiln_ledger_webhook_trouble(rig.ledger, "p", &trouble, &rig.err), rig.err);
    assert_int_equal(trouble.retried, 1);
    assert_true(take(&row, 60));
    tried(row.id, "http://a answered 501", 0);
    kiln_test_ok(kiln_ledger_webhook_trouble(rig.ledger, "p", &trouble, &rig.err), rig.err);
    assert_int_equal(trouble.failed, 1);
    assert_int_equal(trouble.retried, 0);
    assert_string_equal(trouble.batch, "bad");
    assert_string_equal(trouble.error, "http://a answered 501");
    kiln_test_ok(kiln_ledger_webhook_trouble(rig.ledger, "other", &trouble, &rig.err), rig.err);
    assert_int_equal(trouble.failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_due_when_its_batch_has_ended),
        cmocka_unit_test(a_url_waits_once_and_a_batch_has_few),
        cmocka_unit_test(what_fails_is_told_to_people),
    };
    return cmocka_run_group_tests(tests, kiln_rig_start, kiln_rig_stop);
}
