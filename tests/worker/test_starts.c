/* test_starts.c - the look-up of starts on a real ledger and store; its neighbours are played. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "schemas/clock.h"
#include "schemas/digest.h"
#include "schemas/job/inputs.h"
#include "schemas/telemetry/metrics_table.h"
#include "storage/formats/latentfile.h"
#include "storage/formats/pictures/webp.h"
#include "storage/ledger/ledger.h"
#include "storage/objects/store.h"
#include "tests/support/jobs.h"
#include "tests/worker/starts_rig.h"
#include "worker/stages/object_key.h"

/* --- the thread ------------------------------------------------------------------------------- */

/* Of jobs with donors. */
static struct kiln_mode own_mode;
static struct kiln_donor donor_kind = {.step = 2, .hit = 1};

/* Job i is from starts[i], the picture keys[i] or perhaps the donor donors[i]; else exact. */
static struct kiln_flight *arrive_from(struct rig *rig, const char *id, uint32_t side,
                                       const uint64_t *starts, char (*keys)[KILN_INPUT_KEY_MAX],
                                       const uint64_t *donors, uint32_t count)
{
    struct kiln_assignment a = {.width = side, .height = side, .steps = 8, .job_count = count};
    struct kiln_flight *flight = NULL;
    struct kiln_error err;
    if (starts || keys)
        a.mode = (struct kiln_mode){.kind = KILN_MODE_START_STEP, .step = 4};
    else
        a.mode = own_mode;
    snprintf(a.id, sizeof a.id, "%s", id);
    a.jobs = calloc(count, sizeof a.jobs[0]);
    assert_non_null(a.jobs);
    for (uint32_t i = 0; i < count; i++) {
        a.jobs[i] = (struct kiln_job){.id = 1000000 + i,
                                      .width = side,
                                      .height = side,
                                      .steps = 8,
                                      .prompt = strdup("p"),
                                      .mode = a.mode,
                                      .init_image = keys ? strdup(keys[i]) : NULL,
                                      .init_job = starts ? starts[i] : 0,
                                      .donor = donor_kind};
        a.jobs[i].donor.job = donors ? donors[i] : 0;
    }
    kiln_test_ok(kiln_flights_add(&rig->worker.flights, &a, 1, &flight, &err), err);
    kiln_board_want(&rig->worker.board);
    atomic_fetch_add(&rig->worker.waiting, 1);
    assert_int_equal(kiln_queue_push(rig->worker.arrived, flight, 1, 0), 0);
    return flight;
}

static struct kiln_flight *arrive(struct rig *rig, const char *id, uint32_t side,
                                  const uint64_t *starts, uint32_t count)
{
    return arrive_from(rig, id, side, starts, NULL, NULL, count);
}

static float value_of(const struct kiln_portion *portion, uint32_t i)
{
    assert_true(portion->jobs[i].start >= 0);
    return portion->starts[portion->jobs[i].start].latent[5];
}

/* --- what is looked up ------------------------------------------------------------------------ */

static void jobs_without_starts_pass_through(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, NULL);
    arrive(&rig, "plain", 64, NULL, 3);
    struct kiln_portion *portion = next_portion(&rig);
    assert_true(portion->first && portion->last);
    assert_int_equal(portion->job_count, 3);
    assert_int_equal(portion->jobs[2].index, 2);
    assert_int_equal(portion->jobs[2].start, -1);
    forget(&rig, portion);
    close_rig(&rig);
}

static void a_start_is_fetched_once_for_all_jobs_of_it(void **state)
{
    (void)state;
    struct rig rig;
    uint64_t donors[2];
    char keys[2][KILN_OBJECT_KEY_MAX + 1];
    make_donors("shared", 64, MODEL, 2, donors, keys);
    const uint64_t starts[] = {donors[1], donors[0], donors[1], donors[1]};
    open_rig(&rig, NULL);
    arrive(&rig, "shared", 64, starts, 4);
    struct kiln_portion *portion = next_portion(&rig);
    assert_true(portion->first && portion->last);
    assert_int_equal(portion->job_count, 4);
    assert_int_equal(portion->start_count, 2);
    assert_int_equal(portion->bytes, 2 * 16 * 8 * 8 * sizeof(float));
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(portion->jobs[i].code, 0);
        assert_true(value_of(portion, i) == (portion->jobs[i].index == 1 ? 0.0f : 1.0f));
    }
    forget(&rig, portion);
    close_rig(&rig);
}

static void a_donor_is_softened_as_the_card_says(void **state)
{
    (void)state;
    struct rig rig;
    uint64_t donors[1];
    char keys[1][KILN_OBJECT_KEY_MAX + 1];
    rising = true;
    make_donors("soft", 64, MODEL, 1, donors, keys);
    rising = false;
    open_rig(&rig, NULL);
    struct kiln_card_reuse *reuse = &rig.worker.engine->card.reuse;
    for (uint32_t depths = 1; depths <= 2; depths++) { /* two steps are skipped */
        reuse->soften_count = depths;
        reuse->soften[depths - 1] = 2;
        arrive_from(&rig, depths == 1 ? "hard" : "soft", 64, NULL, NULL, donors, 1);
        struct kiln_portion *portion = next_portion(&rig);
        assert_true(value_of(&portion[0], 0) == (depths == 1 ? 5 : 4.5F));
        forget(&rig, portion);
    }
    close_rig(&rig);
}

static void set_of(const char *table, const char *set, uint64_t id)
{
    char sql[400];
    snprintf(sql, sizeof sql, "UPDATE %s SET %s WHERE job_id = %llu", table, set,
             (unsigned long long)id);
    free(kiln_test_sql(stack, sql));
}

/* Donors of one prompt, at large 1 apart from the next. */
static void like_donors_are_combined_where_they_agree(void **state)
{
    (void)state;
    static const struct {
        const char *combine, *most, *apart;
        uint32_t count;
        float values[2]; /* newest first */
    } cases[] = {
        {"single", "5", "9", 0, {0, 0}},  {"lerp", "3", "1.5", 1, {2, 0}}, /* 0 is 2 from 2 */
        {"slerp", "3", "2.5", 2, {3, 2}}, {"tree", "2", "2.5", 1, {3, 0}},
        {"lerp", "5", "0.5", 0, {0, 0}},
    };
    struct rig rig;
    uint64_t donors[4];
    char keys[4][KILN_OBJECT_KEY_MAX + 1];
    rising = true;
    make_donors("alike", 64, MODEL, 4, donors, keys);
    rising = false;
    for (int i = 0; i < 4; i++)
        set_of("latent", "prompt_hash = 'alike'", donors[i]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const settings[] = {"combine",     cases[i].combine, "combine_donors",
                                        cases[i].most, "combine_apart",  cases[i].apart,
                                        NULL};
        open_rig(&rig, settings);
        arrive_from(&rig, "alike", 64, NULL, NULL, donors + 1, 1);
        struct kiln_portion *portion = next_portion(&rig);
        const struct kiln_start *start = &portion->starts[0];
        assert_true(value_of(portion, 0) == 1 + 5);
        assert_int_equal(start->more_count, cases[i].count);
        for (uint32_t k = 0; k < start->more_count; k++)
            assert_true(start->more[k][5] == cases[i].values[k] + 5);
        assert_int_equal(start->bytes, (1 + start->more_count) * 16 * 64 * sizeof(float));
        forget(&rig, portion);
        close_rig(&rig);
    }
    write_object(keys[3], "x", 1); /* a damaged one is left out */
    open_rig(&rig, (const char *const[]){"combine", "lerp", "combine_donors", "5", "combine_apart",
                                         "2.5", NULL});
    arrive_from(&rig, "left out", 64, NULL, NULL, donors + 1, 1);
    struct kiln_portion *portion = next_portion(&rig);
    assert_int_equal(portion->jobs[0].fallback, KILN_FALLBACK_NONE);
    assert_int_equal(portion->starts[0].more_count, 2);
    assert_true(portion->starts[0].more[1][5] == 0 + 5);
    forget(&rig, portion);
    close_rig(&rig);
    struct kiln_error err;
    kiln_test_ok(kiln_config_set(stack->config, "combine", "single", "test", &err), err);
}

/* A donor of the small phase is shrunk to the small size; one that the run cannot use so is left.
 */
static void a_coarse_donor_fits_the_run_or_is_left(void **state)
{
    (void)state;
    static const struct {
        const char *mode;
        uint32_t side, step;
        enum kiln_fallback fallback;
    } cases[] = {
        {"coarse=4+2", 128, 2, KILN_FALLBACK_NONE},  {"coarse=4+2", 128, 3, KILN_FALLBACK_NONE},
        {"", 128, 2, KILN_FALLBACK_UNFIT},           /* its worker renders exactly */
        {"coarse=4+2", 128, 4, KILN_FALLBACK_UNFIT}, /* no small step would be left */
        {"coarse=4+2", 64, 2, KILN_FALLBACK_UNFIT},  /* a latent of the small size */
        {"coarse=4+2", 256, 2, KILN_FALLBACK_UNFIT},
    };
    struct rig rig;
    open_rig(&rig, NULL);
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t donors[1];
        char keys[1][KILN_OBJECT_KEY_MAX + 1], batch[20];
        snprintf(batch, sizeof batch, "coarse %u", i);
        rising = true;
        make_donors(batch, cases[i].side, MODEL, 1, donors, keys);
        rising = false;
        assert_true(kiln_mode_parse(cases[i].mode, &own_mode));
        donor_kind.coarse = true;
        donor_kind.step = cases[i].step;
        arrive_from(&rig, batch, 128, NULL, NULL, donors, 1);
        own_mode = (struct kiln_mode){.kind = KILN_MODE_EXACT};
        donor_kind = (struct kiln_donor){.step = 2, .hit = 1};
        struct kiln_portion *portion = next_portion(&rig);
        assert_int_equal(portion->jobs[0].code, 0);
        assert_int_equal(portion->jobs[0].fallback, cases[i].fallback);
        if (cases[i].fallback == KILN_FALLBACK_NONE)
            assert_true(fabsf(value_of(portion, 0) - 2.5F) < 1); /* of columns 10 and 11 */
        else
            assert_int_equal(portion->jobs[0].start, -1);
        forget(&rig, portion);
    }
    close_rig(&rig);
}

/* The failure of job number `index`. */
static const struct kiln_portion_job *failed(const struct kiln_portion *portion, uint32_t index)
{
    for (uint32_t i = 0; i < portion->job_count; i++)
        if (portion->jobs[i].index == index)
            return &portion->jobs[i];
    fail_msg("no job %u", index);
    return NULL;
}

/* Replaces the bytes of a stored latent and tells the ledger, as somebody would who may write to
 * both. */
static void replace_latent(uint64_t id, const char *key, uint32_t side, const char *model,
                           float value)
{
    size_t size;
    char hex[65], sql[300];
    uint8_t digest[KILN_SHA256_SIZE], *data = latent_file(side, value, model, &size);
    write_object(key, data, size);
    kiln_sha256(data, size, digest);
    kiln_hex(digest, sizeof digest, hex);
    free(data);
    snprintf(sql, sizeof sql,
             "UPDATE object SET sha256 = '%s', bytes = %zu WHERE job_id = %llu AND role = 'latent'",
             hex, size, (unsigned long long)id);
    free(kiln_test_sql(stack, sql));
}

static void a_bad_start_fails_its_jobs_alone(void **state)
{
    (void)state;
    enum {
        GOOD,
        GONE,
        DAMAGED,
        LONGER,
        OTHER,
        SMALL,
        UNFINISHED,
        ROWLESS,
        LIES,
        ENDLESS,
        OUTSIDE,
        DONORS
    };
    struct rig rig;
    uint64_t donors[DONORS], small[1];
    char keys[DONORS][KILN_OBJECT_KEY_MAX + 1], key[1][KILN_OBJECT_KEY_MAX + 1];
    char path[KILN_OBJECT_KEY_MAX + 256];
    make_donors("bad", 64, MODEL, DONORS, donors, keys);
    make_donors("small", 80, MODEL, 1, small, key);
    snprintf(path, sizeof path, "%s/store/%s", stack->dir, keys[GONE]);
    assert_int_equal(unlink(path), 0);
    write_object(keys[DAMAGED], "not a latent", 12);
    free(kiln_test_sql(stack, "ALTER TABLE latent DROP CONSTRAINT latent_key_fkey"));
    set_of("object", "bytes = 3", donors[LONGER]);
    set_of("latent", "model_hash = 'another'", donors[OTHER]);
    set_of("latent", "sigma = 0.5", donors[UNFINISHED]);
    char sql[100];
    snprintf(sql, sizeof sql, "DELETE FROM latent WHERE job_id = %llu",
             (unsigned long long)donors[ROWLESS]);
    free(kiln_test_sql(stack, sql));
    set_of("latent", "key = 'images/../../etc/passwd'", donors[OUTSIDE]);
    replace_latent(donors[LIES], keys[LIES], 64, "0123456789abcdef", 1);
    replace_latent(donors[ENDLESS], keys[ENDLESS], 64, MODEL, INFINITY);
    const uint64_t starts[] = {donors[GOOD],
                               donors[GONE],
                               donors[DAMAGED],
                               donors[LONGER],
                               donors[OTHER],
                               small[0],
                               donors[UNFINISHED],
                               donors[ROWLESS],
                               donors[LIES],
                               donors[ENDLESS],
                               donors[OUTSIDE],
                               999999999,
                               0,
                               donors[GOOD]};
    static const struct {
        int code;
        const char *says;
    } want[] = {
        {0, ""},
        {KILN_NOT_FOUND, "is no longer in the store"},
        {KILN_CORRUPT, "is damaged"},
        {KILN_CORRUPT, "has more than 3 bytes"},
        {KILN_BAD_INPUT, "its latent is of model another, and this model is " MODEL},
        {KILN_BAD_INPUT, "its latent is of 80x80 px and this job of 64x64"},
        {KILN_UNSUPPORTED, "its latent ends at sigma 0.5"},
        {KILN_NOT_FOUND, "no latent of it is stored"},
        {KILN_CORRUPT, "the file is of model 0123456789abcdef"},
        {KILN_CORRUPT, "is not finite"},
        {KILN_CORRUPT, "names no usable latent"},
        {KILN_NOT_FOUND, "init_job 999999999: there is no such job"},
        {KILN_BAD_INPUT, "names none"},
        {0, ""},
    };
    const uint32_t count = sizeof starts / sizeof *starts;
    open_rig(&rig, NULL);
    arrive(&rig, "bad", 64, starts, count);
    struct kiln_portion *portion = next_portion(&rig);
    assert_int_equal(portion->job_count, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct kiln_portion_job *job = failed(portion, i);
        if (job->code != want[i].code || !strstr(job->reason, want[i].says))
            fail_msg("job %u: %s \"%s\", not \"%s\"", i, kiln_code_name(job->code), job->reason,
                     want[i].says);
        assert_int_equal(job->final, want[i].code != 0);
        assert_int_equal(job->start >= 0, want[i].code == 0);
    }
    assert_int_equal(portion->start_count, 1);
    forget(&rig, portion);
    close_rig(&rig);
}

/* A smaller latent is enlarged: one whose values are all the same keeps them. */
static void a_smaller_latent_of_the_same_shape_is_enlarged(void **state)
{
    (void)state;
    struct rig rig;
    uint64_t donors[2];
    char keys[2][KILN_OBJECT_KEY_MAX + 1];
    make_donors("enlarge", 64, MODEL, 2, donors, keys);
    open_rig(&rig, NULL);
    arrive(&rig, "twice", 128, donors, 2);
    struct kiln_portion *portion = next_portion(&rig);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(portion->jobs[i].code, 0);
        const struct kiln_start *start = &portion->starts[portion->jobs[i].start];
        assert_int_equal(start->bytes, 16 * 16 * 16 * sizeof(float));
        for (int v = 0; v < 16 * 16 * 16; v++)
            assert_true(fabsf(start->latent[v] - (float)i) < 1e-5f);
    }
    forget(&rig, portion);
    arrive(&rig, "five", 320, donors, 1);
    portion = next_portion(&rig);
    assert_int_equal(portion->jobs[0].code, KILN_BAD_INPUT);
    forget(&rig, portion);
    close_rig(&rig);
}

/* --- what is bounded -------------------------------------------------------------------------- */

/* Stores a picture of one colour to start from. */
static void put_picture(uint8_t grey, char key_ret[KILN_INPUT_KEY_MAX])
{
    const struct kiln_webp_options options = {.lossless = 1};
    uint8_t rgb[16 * 16 * 3], digest[KILN_SHA256_SIZE], *data;
    char hex[65];
    struct kiln_error err;
    size_t size;
    memset(rgb, grey, sizeof rgb);
    kiln_test_ok(kiln_webp_encode(rgb, 16, 16, &options, &data, &size, &err), err);
    kiln_sha256(data, size, digest);
    kiln_hex(digest, sizeof digest, hex);
    snprintf(key_ret, KILN_INPUT_KEY_MAX, KILN_INPUTS_PREFIX "%s.webp", hex);
    struct kiln_put put = {.key = key_ret, .data = data, .size = size, .content_type = "a/b"};
    kiln_test_ok(kiln_store_put(store, &put, 1, &err), err);
    free(data);
}

/* Resident memory of this process, in bytes. */
static size_t resident(void)
{
    unsigned long all, here;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &all, &here), 2);
    fclose(file);
    return here * (size_t)sysconf(_SC_PAGESIZE);
}

/* 64 pictures of 2048 px take 800 MB. */
static void large_starts_come_in_portions(void **state)
{
    (void)state;
    static char keys[KILN_ASSIGN_MAX][KILN_INPUT_KEY_MAX];
    const size_t one = (size_t)2048 * 2048 * 3;
    struct rig rig;
    uint32_t jobs = 0, portions = 0;
    for (int i = 0; i < KILN_ASSIGN_MAX; i++)
        put_picture((uint8_t)i, keys[i]);
    const size_t before = resident();
    open_rig(&rig, NULL);
    arrive_from(&rig, "large", 2048, NULL, keys, NULL, KILN_ASSIGN_MAX);
    for (bool last = false; !last; portions++) {
        struct kiln_portion *portion = next_portion(&rig);
        assert_true(portion->bytes < KILN_PORTION_BYTES + one);
        assert_int_equal(portion->first, portions == 0);
        for (uint32_t i = 0; i < portion->job_count; i++)
            assert_int_equal(portion->starts[portion->jobs[i].start].rgb[one / 2],
                             portion->jobs[i].index);
        usleep(100000); /* as while it is rendered: the next ones are fetched */
        assert_true(kiln_queue_length(rig.worker.ready) <= 1);
        /* Three portions, and what resizing one picture takes. */
        assert_true(resident() < before + 3 * (KILN_PORTION_BYTES + one) + 3 * one);
        jobs += portion->job_count;
        last = portion->last;
        forget(&rig, portion);
    }
    assert_int_equal(jobs, KILN_ASSIGN_MAX);
    assert_true(portions > 8);
    close_rig(&rig);
}

/* --- servers that are away -------------------------------------------------------------------- */
/* With a store that nobody serves */
static void open_away(struct rig *rig, const char *hold_s)
{
    char at[64];
    const char *more[] = {"store", "s3://bucket/x", "s3_endpoint", at, "hold_s", hold_s, NULL};
    snprintf(at, sizeof at, "http://127.0.0.1:%d", kiln_test_free_port());
    open_rig(rig, more);
}

static void a_store_that_is_away_is_waited_for_but_not_for_donors(void **state)
{
    (void)state;
    struct rig rig;
    uint64_t donors[1];
    char keys[1][KILN_OBJECT_KEY_MAX + 1];
    make_donors("away", 64, MODEL, 1, donors, keys);
    open_away(&rig, "4");
    struct kiln_flight *waits = arrive(&rig, "waits", 64, donors, 1);
    struct kiln_flight *plain = arrive(&rig, "plain", 64, NULL, 2);
    struct kiln_portion *portion = next_portion(&rig);
    assert_ptr_equal(portion->flight, plain);
    forget(&rig, portion);
    portion = next_portion(&rig);
    assert_ptr_equal(portion->flight, waits);
    assert_true(portion->jobs[0].code == KILN_UNAVAILABLE || portion->jobs[0].code == KILN_TIMEOUT);
    assert_false(portion->jobs[0].final);
    forget(&rig, portion);
    arrive_from(&rig, "donors", 64, NULL, NULL, donors, 1);
    portion = next_portion(&rig);
    assert_true(portion->jobs[0].start == -1 && portion->jobs[0].fallback == KILN_FALLBACK_AWAY);
    forget(&rig, portion);
    close_rig(&rig);
}

/* As where a file system is not mounted: no job may fail for good. */
static void a_store_without_its_directory_is_away(void **state)
{
    (void)state;
    struct rig rig;
    uint64_t donors[1];
    char keys[1][KILN_OBJECT_KEY_MAX + 1], from[200], to[200];
    make_donors("unmounted", 64, MODEL, 1, donors, keys);
    open_rig(&rig, NULL);
    arrive(&rig, "before", 64, donors, 1); /* so that the store is open */
    forget(&rig, next_portion(&rig));
    snprintf(from, sizeof from, "%s/store", stack->dir);
    snprintf(to, sizeof to, "%s/elsewhere", stack->dir);
    assert_int_equal(rename(from, to), 0);
    arrive(&rig, "meanwhile", 64, donors, 1);
    usleep(300000);
    assert_int_equal(kiln_queue_length(rig.worker.ready), 0);
    assert_int_equal(rename(to, from), 0);
    struct kiln_portion *portion = next_portion(&rig);
    assert_int_equal(portion->jobs[0].code, 0);
    assert_int_equal(portion->jobs[0].start, 0);
    forget(&rig, portion);
    close_rig(&rig);
}

/* An assignment that waits for a store that is away, for long. */
static void wait_for_store(struct rig *rig, const char *batch)
{
    uint64_t donors[1];
    char keys[1][KILN_OBJECT_KEY_MAX + 1];
    make_donors(batch, 64, MODEL, 1, donors, keys);
    open_away(rig, "600");
    arrive(rig, batch, 64, donors, 1);
    usleep(200000);
}

static void a_worker_that_ends_looks_nothing_up(void **state)
{
    (void)state;
    struct rig rig;
    wait_for_store(&rig, "drained");
    atomic_store(&rig.worker.drain, KILN_DRAIN_ASKED);
    struct kiln_portion *portion = next_portion(&rig);
    assert_int_equal(portion->jobs[0].code, 0); /* the compute thread returns it unused */
    forget(&rig, portion);
    close_rig(&rig);
}

static void a_start_that_nobody_wants_is_not_waited_for(void **state)
{
    (void)state;
    struct rig rig;
    wait_for_store(&rig, "cancelled");
    kiln_flights_stop_all(&rig.worker.flights, KILN_STOP_CANCELLED);
    forget(&rig, next_portion(&rig));
    close_rig(&rig);
}

/* The names of a fallback are the values of the metric's label. */
static void fallbacks_are_counted_under_their_names(void **state)
{
    (void)state;
    assert_int_equal(kiln_metric_labels(KILN_METRIC_REUSES), KILN_FALLBACK_SLOWER + 1);
    for (int i = KILN_FALLBACK_MISSING; i <= KILN_FALLBACK_SLOWER; i++)
        assert_string_equal(kiln_metric_label(KILN_METRIC_REUSES, (uint32_t)i),
                            kiln_fallback_name((enum kiln_fallback)i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_without_starts_pass_through),
        cmocka_unit_test(a_start_is_fetched_once_for_all_jobs_of_it),
        cmocka_unit_test(a_donor_is_softened_as_the_card_says),
        cmocka_unit_test(like_donors_are_combined_where_they_agree),
        cmocka_unit_test(a_coarse_donor_fits_the_run_or_is_left),
        cmocka_unit_test(a_bad_start_fails_its_jobs_alone),
        cmocka_unit_test(a_smaller_latent_of_the_same_shape_is_enlarged),
        cmocka_unit_test(large_starts_come_in_portions),
        cmocka_unit_test(a_store_that_is_away_is_waited_for_but_not_for_donors),
        cmocka_unit_test(a_store_without_its_directory_is_away),
        cmocka_unit_test(a_worker_that_ends_looks_nothing_up),
        cmocka_unit_test(a_start_that_nobody_wants_is_not_waited_for),
        cmocka_unit_test(fallbacks_are_counted_under_their_names),
    };
    return cmocka_run_group_tests(tests, start_stack, stop_stack);
}
