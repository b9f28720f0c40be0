/* test_safety.c - which pictures wait for a person, for a rule or for a classifier; votes.
 *
 * Which opinion counts is in test_gallery_list.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/ledger/gallery/follow.h"
#include "storage/ledger/gallery/gallery.h"
#include "storage/ledger/safety/review.h"
#include "storage/ledger/safety/unrated.h"
#include "storage/ledger/safety/verdict.h"
#include "storage/ledger/safety/vote.h"
#include "tests/support/gallery.h"
#include "tests/support/rig.h"

#define PICTURES 30

static uint64_t made[PICTURES];

static int start(void **state)
{
    int rc = kiln_rig_start(state);
    char prompt[40];
    for (int i = 0; i < PICTURES; i++) {
        snprintf(prompt, sizeof prompt, "picture %d", i);
        made[i] = kiln_test_shown(rig.stack, &(struct kiln_test_shown){.prompt = prompt});
    }
    return rc;
}

static int judge(int picture, int level, enum kiln_verdict_rank rank, const char *source)
{
    int now;
    struct kiln_verdict verdict = {made[picture], level, rank, 0.25, source};
    kiln_test_ok(kiln_ledger_judge(rig.ledger, "p", &verdict, &now, &rig.err), rig.err);
    return now;
}

/* --- review ----------------------------------------------------------------------------------- */

static int note_row(void *arg, const struct kiln_review_row *row, struct kiln_error *err)
{
    char *seen = arg;
    (void)err;
    for (int i = 0; i < PICTURES; i++)
        if (made[i] == row->job)
            snprintf(seen + strlen(seen), 400 - strlen(seen), "%d=%d %s, ", i, row->level,
                     row->source);
    return 0;
}

/* All pages of two rows each. */
static const char *review(enum kiln_review_list list, const char *pool)
{
    static char seen[400];
    struct kiln_page page = {.rows_max = 2, .keys = 1, .after = {INT64_MAX}, .more = true};
    seen[0] = '\0';
    while (page.more)
        kiln_test_ok(kiln_ledger_review(rig.ledger, pool, list, &page, note_row, seen, &rig.err),
                     rig.err);
    return seen;
}

static uint32_t waiting(uint32_t max)
{
    uint32_t count;
    kiln_test_ok(kiln_ledger_review_count(rig.ledger, "p", max, &count, &rig.err), rig.err);
    return count;
}

static void what_is_marked_waits_until_a_person_decides(void **state)
{
    (void)state;
    assert_string_equal(review(KILN_REVIEW_WAITING, "p"), "");
    judge(1, KILN_SAFETY_UNSURE, KILN_VERDICT_RULE, "rule:1");
    judge(2, KILN_SAFETY_CLEAR, KILN_VERDICT_MODEL, "model:a"); /* nothing was found: no need */
    judge(3, KILN_SAFETY_EXPLICIT, KILN_VERDICT_MODEL, "model:a");
    judge(4, KILN_SAFETY_UNSURE, KILN_VERDICT_RULE, "rule:1");
    assert_string_equal(review(KILN_REVIEW_WAITING, "p"), "4=1 rule:1, 3=3 model:a, 1=1 rule:1, ");
    assert_int_equal(waiting(10), 3);
    assert_int_equal(waiting(2), 2);
    assert_string_equal(review(KILN_REVIEW_WAITING, "q"), "");
    judge(3, KILN_SAFETY_MATURE, KILN_VERDICT_PERSON, "person:ann");
    judge(1, KILN_SAFETY_CLEAR, KILN_VERDICT_PERSON, "person:ann");
    judge(3, KILN_SAFETY_CLEAR, KILN_VERDICT_PERSON, "person:bob");
    assert_string_equal(review(KILN_REVIEW_WAITING, "p"), "4=1 rule:1, ");
    assert_string_equal(review(KILN_REVIEW_DECIDED, "p"), "3=0 person:bob, 1=0 person:ann, ");
    /* Rescoring brings nothing back; taking the opinion back does. */
    assert_int_equal(judge(3, KILN_SAFETY_EXPLICIT, KILN_VERDICT_MODEL, "model:b"), 0);
    assert_int_equal(waiting(10), 1);
    assert_int_equal(judge(3, KILN_SAFETY_UNCHECKED, KILN_VERDICT_PERSON, "person:bob"), 3);
    assert_string_equal(review(KILN_REVIEW_WAITING, "p"), "4=1 rule:1, 3=3 model:b, ");
    assert_string_equal(review(KILN_REVIEW_DECIDED, "p"), "1=0 person:ann, ");
}

/* --- rule ------------------------------------------------------------------------------------- */

static int note_rule(void *arg, const struct kiln_rule_picture *picture, struct kiln_error *err)
{
    char *seen = arg;
    (void)err;
    assert_string_equal(picture->pool, "p");
    snprintf(seen + strlen(seen), 200 - strlen(seen), "%s %s %d, ", picture->prompt,
             picture->said_by ? picture->said_by : "-", picture->said);
    return 0;
}

static void a_rule_knows_what_it_has_said(void **state)
{
    (void)state;
    char seen[200] = "";
    judge(10, KILN_SAFETY_UNSURE, KILN_VERDICT_RULE, "rule:1");
    judge(10, KILN_SAFETY_UNCHECKED, KILN_VERDICT_RULE, "rule:2");
    judge(11, KILN_SAFETY_UNSURE, KILN_VERDICT_RULE, "rule:1");
    judge(11, KILN_SAFETY_CLEAR, KILN_VERDICT_PERSON, "person:ann");
    const uint64_t jobs[] = {made[10], made[11], made[12], 999999};
    kiln_test_ok(kiln_ledger_rule_pictures(rig.ledger, jobs, 4, note_rule, seen, &rig.err),
                 rig.err);
    assert_non_null(strstr(seen, "picture 10 rule:2 -1, "));
    assert_non_null(strstr(seen, "picture 11 rule:1 1, "));
    assert_non_null(strstr(seen, "picture 12 - -1, "));
    assert_int_equal(strlen(seen), strlen("picture 10 rule:2 -1, ") +
                                       strlen("picture 11 rule:1 1, ") +
                                       strlen("picture 12 - -1, "));
}

static void a_rule_goes_on_where_it_was(void **state)
{
    (void)state;
    uint64_t below, jobs[PICTURES];
    uint32_t count;
    kiln_test_ok(kiln_ledger_rule_begin(rig.ledger, "rule:1", &below, &rig.err), rig.err);
    assert_true(below == INT64_MAX);
    kiln_test_ok(kiln_ledger_rule_next(rig.ledger, below, 7, jobs, &count, &rig.err), rig.err);
    assert_int_equal(count, 7);
    assert_true(jobs[0] == made[PICTURES - 1] && jobs[6] == made[PICTURES - 7]);
    kiln_test_ok(kiln_ledger_rule_reached(rig.ledger, "rule:1", jobs[6], &rig.err), rig.err);
    kiln_test_ok(kiln_ledger_rule_begin(rig.ledger, "rule:1", &below, &rig.err), rig.err);
    assert_true(below == made[PICTURES - 7]);
    /* Another list begins anew, and so does this one after it. */
    kiln_test_ok(kiln_ledger_rule_begin(rig.ledger, "rule:none", &below, &rig.err), rig.err);
    assert_true(below == INT64_MAX);
    kiln_test_ok(kiln_ledger_rule_begin(rig.ledger, "rule:1", &below, &rig.err), rig.err);
    assert_true(below == INT64_MAX);
}

/* --- classifier ------------------------------------------------------------------------------- */

static int note_unrated(void *arg, const struct kiln_unrated_picture *picture,
                        struct kiln_error *err)
{
    uint32_t *count = arg;
    char key[40];
    (void)err;
    snprintf(key, sizeof key, "%llu/full", (unsigned long long)picture->job);
    assert_string_equal(picture->key, key);
    ++*count;
    return 0;
}

static void a_classifier_comes_by_each_picture_once(void **state)
{
    (void)state;
    uint64_t below = INT64_MAX, left;
    uint32_t count = 0, pages = 0;
    for (int i = 0; i < PICTURES; i += 3)
        judge(i, KILN_SAFETY_CLEAR, KILN_VERDICT_MODEL, "model:c");
    kiln_test_ok(kiln_ledger_unrated_count(rig.ledger, "p", "model:c", &left, &rig.err), rig.err);
    assert_int_equal(left, 20);
    while (below > 0) {
        kiln_test_ok(kiln_ledger_unrated(rig.ledger, "p", "model:c", below, 8, note_unrated, &count,
                                         &below, &rig.err),
                     rig.err);
        pages++;
    }
    assert_int_equal(count, 20);
    assert_in_range(pages, 3, 4);
    count = 0;
    kiln_test_ok(kiln_ledger_unrated(rig.ledger, "q", "model:c", INT64_MAX, 8, note_unrated, &count,
                                     &below, &rig.err),
                 rig.err);
    assert_true(count == 0 && below == 0);
}

/* --- votes ------------------------------------------------------------------------------------ */

static int note_tile(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    uint64_t *job = arg;
    (void)err;
    *job = *job * 1000 + (tile->job - made[0]);
    return 0;
}

static uint64_t voted(int vote)
{
    struct kiln_gallery_query query = {
        .filter = {.pool = "p", .level_max = 3, .show_unchecked = true, .vote = vote},
        .rows_max = 48,
        .budget_ms = 5000};
    struct kiln_gallery_page page;
    uint64_t jobs = 0;
    kiln_test_ok(kiln_gallery_list(rig.ledger, &query, note_tile, &jobs, &page, &rig.err), rig.err);
    return jobs;
}

static void step_until_done(struct kiln_follower *follower)
{
    struct kiln_follower_progress progress = {.more = true};
    while (progress.more)
        kiln_test_ok(kiln_follower_step(follower, &progress, &rig.err), rig.err);
}

static void votes_are_given_changed_taken_back_and_found(void **state)
{
    (void)state;
    struct kiln_follower *follower;
    kiln_test_ok(kiln_follower_open(rig.stack->config, "follower",
                                    &(struct kiln_follower_options){0}, &follower, &rig.err),
                 rig.err);
    step_until_done(follower);
    kiln_test_ok(kiln_ledger_vote(rig.ledger, "p", made[3], 1, &rig.err), rig.err);
    kiln_test_ok(kiln_ledger_vote(rig.ledger, "p", made[3], 1, &rig.err), rig.err);
    kiln_test_ok(kiln_ledger_vote(rig.ledger, "p", made[5], 1, &rig.err), rig.err);
    kiln_test_ok(kiln_ledger_vote(rig.ledger, "p", made[7], -1, &rig.err), rig.err);
    step_until_done(follower);
    const uint64_t three = made[3] - made[0], five = made[5] - made[0], seven = made[7] - made[0];
    assert_true(voted(1) == five * 1000 + three);
    assert_true(voted(-1) == seven);
    kiln_test_ok(kiln_ledger_vote(rig.ledger, "p", made[5], -1, &rig.err), rig.err);
    kiln_test_ok(kiln_ledger_vote(rig.ledger, "p", made[7], 0, &rig.err), rig.err);
    step_until_done(follower);
    assert_true(voted(1) == three);
    assert_true(voted(-1) == five);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM gallery_text WHERE tsv @@"
                                                " '''v:down'''::tsquery"),
                     1);
    assert_int_equal(kiln_ledger_vote(rig.ledger, "q", made[5], 1, &rig.err), KILN_NOT_FOUND);
    assert_int_equal(kiln_ledger_vote(rig.ledger, "p", 999999, 1, &rig.err), KILN_NOT_FOUND);
    assert_int_equal(kiln_ledger_vote(rig.ledger, "p", made[5], 2, &rig.err), KILN_BAD_INPUT);
    kiln_follower_close(follower);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_marked_waits_until_a_person_decides),
        cmocka_unit_test(a_rule_knows_what_it_has_said),
        cmocka_unit_test(a_rule_goes_on_where_it_was),
        cmocka_unit_test(a_classifier_comes_by_each_picture_once),
        cmocka_unit_test(votes_are_given_changed_taken_back_and_found),
    };
    return cmocka_run_group_tests(tests, start, kiln_rig_stop);
}
