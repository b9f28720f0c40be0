/* test_ledger_intake.c - jobs come in: whole, once, and each enqueue call with its account. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/rig.h"

static void a_record_comes_back_as_it_went_in(void **state)
{
    (void)state;
    struct kiln_new_job *jobs = kiln_test_jobs("record", 1);
    struct kiln_job *in = &jobs->job, out;
    free(in->prompt);
    in->prompt = strdup("a \"quoted\" {brace}, back\\slash,\n\xf0\x9f\x90\x99 NULL '; --");
    free(in->negative_prompt);
    in->negative_prompt = strdup("blur");
    in->custom_id = strdup("my/id {1,2}");
    in->style = strdup("anime");
    in->index = 4294967295u;
    in->seed = 18446744073709551615u;
    in->guidance = 3.0000000000000004;
    in->lora_count = 2;
    in->loras[0] = (struct kiln_lora){"ink", 0.1, ""};
    in->loras[1] = (struct kiln_lora){"wash", -1.0 / 3, ""};
    in->lora_auto = in->embed_metadata = true;
    in->route = strdup("{\"v\":2,\"r\":1,\"p\":[]}");
    assert_true(kiln_job_draw(in, "ink, ", 5));
    memset(in->loras[0].sha256, 'a', 64);
    in->priority = -10;
    in->max_wait_s = 3600;
    in->kind = KILN_KIND_LATENT_CACHE;
    in->latents = KILN_LATENTS_TRAJECTORY;
    in->teleport = KILN_TELEPORT_AUTO;
    in->alike = 70;
    in->mode = (struct kiln_mode){.kind = KILN_MODE_START_SIGMA, .sigma = 0.55, .masked = true};
    in->init_mask = strdup("inputs/y.png");
    in->init_image = strdup("inputs/x.png");
    in->init_job = INT64_MAX;
    in->parent = 7;
    uint64_t inserted, before = (uint64_t)kiln_test_count(rig.stack, "SELECT max(id) FROM job");
    struct kiln_rig_found ids = {0};
    size_t count;
    kiln_test_ok(kiln_ledger_insert_jobs(rig.ledger, "p", jobs, 1, &inserted, &rig.err), rig.err);
    kiln_test_ok(kiln_ledger_waiting(rig.ledger, "p", before, 64, kiln_rig_collect, &ids, &rig.err),
                 rig.err);
    assert_string_equal(ids.jobs[0].lora_set, "ink:0.1@aaaaaaaaaaaaaaaa+wash:-0.3333");
    assert_string_equal(ids.jobs[0].tenant, "tester");
    assert_int_equal(ids.jobs[0].priority, -10);
    assert_string_equal(ids.jobs[0].mode, "inpaint@0.55");
    assert_true(ids.jobs[0].guidance == 3.0000000000000004);
    kiln_test_ok(kiln_ledger_assign(rig.ledger, "w", "r", ids.at, 1, &out, &count, &rig.err),
                 rig.err);
    assert_string_equal(out.batch, "record");
    assert_string_equal(out.prompt, in->prompt);
    assert_string_equal(out.negative_prompt, "blur");
    assert_string_equal(out.custom_id, in->custom_id);
    assert_string_equal(out.style, "anime");
    assert_int_equal(out.index, in->index);
    assert_true(out.seed == in->seed);
    assert_true(out.guidance == in->guidance);
    assert_int_equal(out.lora_count, 2);
    assert_string_equal(out.loras[1].name, "wash");
    assert_true(out.loras[0].scale == 0.1 && out.loras[1].scale == -1.0 / 3);
    assert_true(out.lora_auto && out.embed_metadata);
    assert_string_equal(out.route, in->route);
    assert_string_equal(out.drawn, in->drawn);
    assert_string_equal(out.loras[0].sha256, in->loras[0].sha256);
    assert_string_equal(out.loras[1].sha256, "");
    assert_int_equal(out.priority, -10);
    assert_int_equal(out.max_wait_s, 3600);
    assert_int_equal(out.kind, KILN_KIND_LATENT_CACHE);
    assert_int_equal(out.latents, KILN_LATENTS_TRAJECTORY);
    assert_int_equal(out.teleport, KILN_TELEPORT_AUTO);
    assert_int_equal(out.alike, 70);
    assert_true(kiln_mode_same(&out.mode, &in->mode));
    assert_string_equal(out.init_image, "inputs/x.png");
    assert_string_equal(out.init_mask, "inputs/y.png");
    assert_true(out.init_job == INT64_MAX && out.parent == 7);
    assert_true(kiln_rig_commit(&out)); /* a latent-cache job leaves a latent and no picture */
    assert_int_equal(kiln_rig_rows("image", out.id), 0);
    assert_int_equal(kiln_rig_rows("latent", out.id), 1);
    kiln_job_release(&out);
    kiln_test_jobs_free(jobs, 1);
}

static void inserting_twice_adds_nothing(void **state)
{
    (void)state;
    struct kiln_new_job *jobs = kiln_test_jobs("twice", 4500); /* several statements */
    uint64_t inserted = 0;
    kiln_test_ok(kiln_ledger_insert_jobs(rig.ledger, "p", jobs, 4000, &inserted, &rig.err),
                 rig.err);
    assert_int_equal(inserted, 4000);
    kiln_test_ok(kiln_ledger_insert_jobs(rig.ledger, "p", jobs, 4500, &inserted, &rig.err),
                 rig.err);
    assert_int_equal(inserted, 500);
    kiln_rig_expect("twice", "queued", KILN_JOB_QUEUED, 4500);
    kiln_test_jobs_free(jobs, 4500);
    kiln_test_ok(kiln_ledger_insert_jobs(rig.ledger, "p", NULL, 0, &inserted, &rig.err), rig.err);
    assert_int_equal(inserted, 0);
}

/* A column on which the jobs of a call agree travels once, and others as they are. */
static void each_job_has_what_all_share(void **state)
{
    (void)state;
    struct kiln_new_job *jobs = kiln_test_jobs("shared", 3);
    uint64_t inserted = 0;
    for (int i = 0; i < 3; i++) {
        jobs[i].source = "jobs.jsonl"; /* borrowed */
        jobs[i].job.custom_id = i == 1 ? strdup("own") : NULL;
        jobs[i].job.steps = i == 2 ? 7 : 5;
        jobs[i].job.width = 320;
    }
    kiln_test_ok(kiln_ledger_insert_jobs(rig.ledger, "p", jobs, 3, &inserted, &rig.err), rig.err);
    assert_int_equal(inserted, 3);
#define SHARED_WHERE(more)                                                                         \
    "SELECT count(*) FROM job WHERE batch_id = (SELECT id FROM batch WHERE name = 'shared')"       \
    " AND source = 'jobs.jsonl' AND width = 320 AND loras = '[]' AND style IS NULL AND " more
    assert_int_equal(kiln_test_count(rig.stack, SHARED_WHERE("custom_id IS NULL")), 2);
    assert_int_equal(kiln_test_count(rig.stack, SHARED_WHERE("custom_id = 'own'")), 1);
    assert_int_equal(kiln_test_count(rig.stack, SHARED_WHERE("steps = 5")), 2);
    assert_int_equal(kiln_test_count(rig.stack, SHARED_WHERE("steps = 7")), 1);
    kiln_test_jobs_free(jobs, 3);
}

static void one_call_may_bring_several_batches(void **state)
{
    (void)state;
    struct kiln_new_job *jobs = kiln_test_jobs("left", 6);
    uint64_t inserted = 0;
    for (size_t i = 0; i < 6; i += 2) {
        free(jobs[i].job.batch);
        jobs[i].job.batch = strdup("right");
    }
    kiln_test_ok(kiln_ledger_insert_jobs(rig.ledger, "p", jobs, 6, &inserted, &rig.err), rig.err);
    assert_int_equal(inserted, 6);
    kiln_rig_expect("left", "queued", KILN_JOB_QUEUED, 3);
    kiln_rig_expect("right", "queued", KILN_JOB_QUEUED, 3);
    kiln_test_jobs_free(jobs, 6);
}

struct account {
    uint64_t accepted, duplicate, refused;
};

static struct account announce(const char *batch, const char *token, uint64_t announced)
{
    struct account got;
    kiln_test_ok(kiln_ledger_announce(rig.ledger, "p", batch, token, announced, &got.accepted,
                                      &got.duplicate, &got.refused, &rig.err),
                 rig.err);
    return got;
}

/* Entry ids "1000-0", "1000-1", ... */
static void number_entries(struct kiln_new_job *jobs, size_t count, char ids[][16],
                           const char *token)
{
    for (size_t i = 0; i < count; i++) {
        snprintf(ids[i], 16, "1000-%zu", i);
        jobs[i].entry = ids[i];
        jobs[i].token = token;
    }
}

static void a_call_is_counted_once_however_often_it_is_delivered(void **state)
{
    (void)state;
    char ids[10][16];
    uint64_t inserted;
    struct kiln_new_job *jobs = kiln_test_jobs("calls", 10);
    number_entries(jobs, 10, ids, "first");
    kiln_test_ok(kiln_ledger_insert_jobs(rig.ledger, "p", jobs, 6, &inserted, &rig.err), rig.err);
    number_entries(jobs, 10, ids, "second"); /* six of these ten are there already */
    for (int delivery = 0; delivery < 3; delivery++) {
        kiln_test_ok(kiln_ledger_insert_jobs(rig.ledger, "p", jobs, 5, &inserted, &rig.err),
                     rig.err);
        kiln_test_ok(kiln_ledger_insert_jobs(rig.ledger, "p", jobs + 5, 5, &inserted, &rig.err),
                     rig.err);
        for (int i = 0; i < 2; i++)
            kiln_test_ok(
                kiln_ledger_refuse(rig.ledger, "p", "calls", "second", "k99", "no", &rig.err),
                rig.err);
        struct account second = announce("calls", "second", 11);
        assert_int_equal(second.accepted, 4);
        assert_int_equal(second.duplicate, 6);
        assert_int_equal(second.refused, 1);
    }
    struct account first = announce("calls", "first", 6);
    assert_int_equal(first.accepted, 6);
    assert_int_equal(first.duplicate + first.refused, 0);
    struct account nobody = announce("a new batch", "third", 0);
    assert_int_equal(nobody.accepted + nobody.duplicate + nobody.refused, 0);
    kiln_test_jobs_free(jobs, 10);
}

static void a_key_twice_in_one_call_is_a_duplicate(void **state)
{
    (void)state;
    uint64_t inserted;
    struct kiln_new_job *jobs = kiln_test_jobs("same key", 3);
    free((char *)jobs[2].key);
    jobs[2].key = strdup(jobs[0].key);
    kiln_test_ok(kiln_ledger_insert_jobs(rig.ledger, "p", jobs, 3, &inserted, &rig.err), rig.err);
    assert_int_equal(inserted, 2);
    struct account got = announce("same key", "t", 3);
    assert_int_equal(got.accepted, 2);
    assert_int_equal(got.duplicate, 1);
    kiln_test_jobs_free(jobs, 3);
}

/* Jobs without an index get the next ones of their batch, and nobody gets the same. */
static void no_index_is_given_out_twice(void **state)
{
    (void)state;
    static const char *const keys[4] = {"k0", "k1", "k2", "k3"};
    int64_t first[4], again[4];
    uint64_t inserted;
    kiln_test_ok(kiln_ledger_number(rig.ledger, "p", "numbers", keys, NULL, 4, first, &rig.err),
                 rig.err);
    for (int i = 0; i < 4; i++)
        assert_int_equal(first[i], i);
    /* The scheduler died before it inserted them; k0 and k1 then came from elsewhere, as 0 and 90.
     */
    struct kiln_new_job *jobs = kiln_test_jobs("numbers", 2);
    jobs[1].job.index = 90;
    kiln_test_ok(kiln_ledger_insert_jobs(rig.ledger, "p", jobs, 2, &inserted, &rig.err), rig.err);
    assert_int_equal(inserted, 2);
    kiln_test_ok(kiln_ledger_number(rig.ledger, "p", "numbers", keys, NULL, 4, again, &rig.err),
                 rig.err);
    assert_int_equal(again[0], 0);
    assert_int_equal(again[1], 0);
    assert_int_equal(again[2], 4); /* 90 is passed over when it is reached */
    assert_int_equal(again[3], 5);
    kiln_test_jobs_free(jobs, 2);
}

/* An index that is named is a wish: whoever names it first has it, if nobody had it before. */
static void an_index_that_is_named_is_granted_once(void **state)
{
    (void)state;
    static const char *const keys[6] = {"w0", "w1", "w2", "w3", "k0", "w5"};
    static const int64_t wishes[6] = {1, -1, 1, 7, 50, 0};
    static const int64_t wanted[6] = {2, 3, 4, 7, 0, 5};
    int64_t got[6];
    uint64_t inserted;
    struct kiln_new_job *jobs = kiln_test_jobs("wishes", 2); /* k0 and k1 have 0 and 1 */
    kiln_test_ok(kiln_ledger_insert_jobs(rig.ledger, "p", jobs, 2, &inserted, &rig.err), rig.err);
    kiln_test_ok(kiln_ledger_number(rig.ledger, "p", "wishes", keys, wishes, 6, got, &rig.err),
                 rig.err);
    for (int i = 0; i < 6; i++)
        assert_int_equal(got[i], wanted[i]);
    kiln_test_jobs_free(jobs, 2);
}

static void number(const char *batch, const char *const *keys, const int64_t *wishes, size_t count,
                   int64_t *ret)
{
    kiln_test_ok(kiln_ledger_number(rig.ledger, "p", batch, keys, wishes, count, ret, &rig.err),
                 rig.err);
}

/* The highest index there is, and one that no row holds, cost the others nothing. */
static void a_wish_does_not_move_the_numbers_on(void **state)
{
    (void)state;
    static const char *const keys[5] = {"a", "b", "c", "d", "e"};
    static const int64_t wishes[5] = {4294967295, -1, 4294967296, 1, -1};
    static const int64_t wanted[5] = {4294967295, 0, 2, 1, 3};
    int64_t got[5];
    uint64_t inserted;
    number("edge", keys, wishes, 5, got);
    for (int i = 0; i < 5; i++)
        assert_int_equal(got[i], wanted[i]);
    struct kiln_new_job *jobs = kiln_test_jobs("edge", 1); /* of another key */
    jobs[0].job.index = 4294967295;
    kiln_test_ok(kiln_ledger_insert_jobs(rig.ledger, "p", jobs, 1, &inserted, &rig.err), rig.err);
    number("edge", keys, wishes, 1, got);
    assert_int_equal(got[0], 4);
    kiln_test_jobs_free(jobs, 1);
}

/* What was passed over is there still when the last number is reached, also for a batch that an
 * earlier release took for full. */
static void the_numbers_go_round(void **state)
{
    (void)state;
    static const char *const keys[4] = {"a", "b", "c", "d"};
    static const int64_t wanted[4] = {4294967294, 4294967295, 0, 1};
    int64_t got[4];
    number("round", keys, NULL, 1, got);
    free(kiln_test_sql(rig.stack, "UPDATE batch SET next_index = 4294967294 WHERE name = 'round'"));
    number("round", keys, NULL, 4, got);
    for (int i = 0; i < 4; i++)
        assert_int_equal(got[i], wanted[i]);
    free(kiln_test_sql(rig.stack, "UPDATE batch SET next_index = 4294967296 WHERE name = 'round'"));
    number("round", keys, NULL, 1, got);
    assert_int_equal(got[0], 0);
}

/* What is no UTF-8 reaches no statement: not alone, not in an array, however long it is. */
static void texts_are_made_good_at_the_door(void **state)
{
    (void)state;
    struct kiln_new_job *jobs = kiln_test_jobs("odd", 2);
    uint64_t inserted = 0;
    free(jobs[0].job.prompt);
    jobs[0].job.prompt = strdup("half a \xe5\xb8, a stray \xff and \xed\xa0\x80");
    kiln_test_ok(kiln_ledger_insert_jobs(rig.ledger, "p", jobs, 2, &inserted, &rig.err), rig.err);
    assert_int_equal(inserted, 2);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM job WHERE prompt ="
                                                " 'half a \?\?, a stray ? and \?\?\?'"),
                     1);
    kiln_test_ok(
        kiln_ledger_refuse(rig.ledger, "p", "odd", "t", "k\xf0\x9f", "bad \xe5\xb8", &rig.err),
        rig.err);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM intake_refusal"
                                                " WHERE key = 'k\?\?' AND reason = 'bad \?\?'"),
                     1);
    kiln_test_jobs_free(jobs, 2);
}

static void the_sums_agree_with_the_rows(void **state)
{
    (void)state;
    kiln_rig_expect_sums();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_comes_back_as_it_went_in),
        cmocka_unit_test(inserting_twice_adds_nothing),
        cmocka_unit_test(each_job_has_what_all_share),
        cmocka_unit_test(one_call_may_bring_several_batches),
        cmocka_unit_test(a_call_is_counted_once_however_often_it_is_delivered),
        cmocka_unit_test(a_key_twice_in_one_call_is_a_duplicate),
        cmocka_unit_test(no_index_is_given_out_twice),
        cmocka_unit_test(an_index_that_is_named_is_granted_once),
        cmocka_unit_test(a_wish_does_not_move_the_numbers_on),
        cmocka_unit_test(the_numbers_go_round),
        cmocka_unit_test(texts_are_made_good_at_the_door),
        cmocka_unit_test(the_sums_agree_with_the_rows),
    };
    return cmocka_run_group_tests(tests, kiln_rig_start, kiln_rig_stop);
}
