/* test_donors.c - the reader of donors on a real Postgres: what is one, and commits that come late,
 * out of order or never. */
#include <libpq-fe.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/clock.h"
#include "storage/ledger/read/donors.h"
#include "storage/ledger/read/latents.h"
#include "tests/support/process.h"
#include "tests/support/rig.h"

#define JOBS 8

static uint64_t ids[JOBS];

static void sql(const char *text)
{
    free(kiln_test_sql(rig.stack, text));
}

static int start(void **state)
{
    struct kiln_job jobs[JOBS];
    struct kiln_error err;
    int rc = kiln_rig_start(state);
    kiln_test_ok(kiln_config_set(rig.stack->config, "pool", "p", "test", &err), err);
    size_t count = kiln_rig_assigned("donors", JOBS, jobs);
    assert_int_equal(count, JOBS);
    for (size_t i = 0; i < JOBS; i++) {
        ids[i] = jobs[i].id;
        assert_true(kiln_rig_commit(&jobs[i]));
    }
    kiln_rig_release(jobs, count);
    sql("UPDATE latent SET guidance = 0, lora_set = '', mode = ''; CREATE TABLE kept AS"
        " SELECT * FROM latent; ALTER TABLE kept DROP COLUMN changed");
    return rc;
}

/* What a process keeps of the ledger. */
struct kept {
    char sets[JOBS][KILN_LORA_SET_MAX];
    bool there[JOBS];
    uint32_t uses[JOBS];
    uint64_t rows, drawn;
};

static int keep(void *arg, const struct kiln_donor_row *row)
{
    struct kept *kept = arg;
    kept->rows++;
    for (size_t i = 0; i < JOBS; i++)
        if (ids[i] == row->job) {
            kept->there[i] = !row->gone;
            kept->uses[i] = row->uses;
            memcpy(kept->sets[i], row->lora_set, sizeof kept->sets[i]);
            kept->drawn += !row->gone && strncmp(row->prompt, "ink style, ", 11) == 0;
            if (!row->gone)
                assert_true(strlen(row->prompt_hash) == 64 && row->steps == 8);
        }
    return 0;
}

static void settle(struct kiln_donors *donors, struct kept *kept)
{
    struct kiln_error err;
    bool complete, more = true;
    for (int rounds = 0; rounds < 3 || more; rounds++) {
        kiln_test_ok(kiln_donors_step(donors, keep, kept, &complete, &more, &err), err);
        assert_true(rounds < 100);
    }
    assert_true(complete);
}

static struct kiln_donors *open_donors(struct kept *kept)
{
    struct kiln_donors *donors;
    struct kiln_error err;
    *kept = (struct kept){0};
    kiln_test_ok(kiln_donors_open(rig.stack->config, "test donors", &donors, &err), err);
    settle(donors, kept);
    return donors;
}

static void set_of(const char *set, uint64_t id)
{
    char text[400];
    snprintf(text, sizeof text, "UPDATE latent SET %s WHERE job_id = %llu", set,
             (unsigned long long)id);
    sql(text);
}

static void only_full_runs_are_donors(void **state)
{
    (void)state;
    static const char *const never[] = {"sigma = 0.5",
                                        "lora_set = 'ink:1'",
                                        "guidance = 3",
                                        "mode = 'teleport=2'",
                                        "mode = 'coarse=4+2,teleport=1'",
                                        "mode = 'start=4'",
                                        "mode = 'coarse=4+3,variety=0.3'"};
    struct kept kept;
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        set_of(never[i], ids[i]);
    set_of("mode = 'coarse=4+3'", ids[6]);
    kiln_donors_close(open_donors(&kept));
    for (size_t i = 0; i < JOBS; i++)
        assert_int_equal(kept.there[i], i >= 6);
    sql("UPDATE latent SET sigma = 0, guidance = 0, lora_set = '', mode = ''");
}

/* How many latents may be combined with that of the job. */
static uint32_t like(uint64_t id)
{
    struct kiln_latent_row rows[JOBS];
    struct kiln_error err;
    uint32_t count = 0;
    kiln_test_ok(kiln_ledger_like_latents(rig.ledger, "p", id, JOBS, rows, &count, &err), err);
    return count;
}

/* One LoRA, whose file is known and was noted by the worker as well. */
static void a_donor_names_its_lora(void **state)
{
    (void)state;
    static const char *const never[] = {
        "lora_set = 'ink:1', lora_files = '{}'",
        "lora_set = 'ink:1@0123456789abcdef'",
        "lora_set = 'ink:1@0123456789abcdef', lora_files = ARRAY['ink:' || repeat('f', 64)]",
        "lora_set = 'ink:1@0123456789abcdef+pen:1@0123456789abcdef', lora_files ="
        " ARRAY['ink:' || repeat('0123456789abcdef', 4), 'pen:' || repeat('0123456789abcdef', 4)]",
    };
    const size_t count = sizeof never / sizeof *never;
    struct kept kept;
    sql("UPDATE latent SET lora_files = NULL");
    for (size_t i = 0; i < count; i++)
        set_of(never[i], ids[i]);
    set_of("lora_set = 'ink:0.8@0123456789abcdef',"
           " lora_files = ARRAY['ink:' || repeat('0123456789abcdef', 4)]",
           ids[count]);
    set_of("lora_set = '', lora_files = '{}'", ids[count + 1]);
    kiln_donors_close(open_donors(&kept));
    for (size_t i = 0; i < JOBS; i++)
        assert_int_equal(kept.there[i], i >= count);
    assert_string_equal(kept.sets[count], "ink:0.8@0123456789abcdef");
    assert_string_equal(kept.sets[count + 1], "");
    for (size_t i = 0; i <= count; i++) /* one set, of files that differ: */
        set_of("lora_set = 'ink:0.8@0123456789abcdef'", ids[i]);
    set_of("lora_files = ARRAY['ink:' || repeat('0123456789abcdef', 4)]", ids[0]);
    sql("UPDATE latent SET prompt_hash = repeat('e', 64)");
    assert_int_equal(like(ids[count]), 1); /* that of ids[0] alone */
    assert_int_equal(like(ids[count + 1]), JOBS - count - 2);
    sql("UPDATE latent SET lora_set = '', lora_files = '{}', prompt_hash ="
        " (SELECT prompt_hash FROM kept WHERE kept.job_id = latent.job_id)");
}

/* Its words are those that it was rendered with. */
static void a_donor_has_the_prompt_as_drawn(void **state)
{
    (void)state;
    struct kept kept;
    sql("UPDATE job SET prompt_drawn = 'ink style, ' || prompt");
    kiln_donors_close(open_donors(&kept));
    assert_int_equal(kept.drawn, JOBS);
    sql("UPDATE job SET prompt_drawn = NULL");
    kiln_donors_close(open_donors(&kept));
    assert_int_equal(kept.drawn, 0);
}

static void uses_are_those_of_the_ledger(void **state)
{
    (void)state;
    struct kept kept;
    kiln_donors_close(open_donors(&kept));
    assert_true(kept.there[1] && kept.uses[1] == 0);
    char text[400];
    snprintf(text, sizeof text, "UPDATE image SET donor = %llu, hit = 1",
             (unsigned long long)ids[1]);
    sql(text);
    const long long pictures = kiln_test_count(rig.stack, "SELECT count(*) FROM image");
    kiln_donors_close(open_donors(&kept));
    assert_int_equal(kept.uses[1], pictures);
    assert_int_equal(kept.uses[2], 0);
    sql("UPDATE image SET donor = NULL, hit = NULL");
}

static PGconn *connect_more(void)
{
    PGconn *conn = PQconnectdb(kiln_config_text(rig.stack->config, KILN_KEY_POSTGRES));
    assert_int_equal(PQstatus(conn), CONNECTION_OK);
    return conn;
}

static void run(PGconn *conn, const char *text)
{
    PGresult *result = PQexec(conn, text);
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", text, PQerrorMessage(conn));
    PQclear(result);
}

static void put_back(PGconn *conn, size_t i)
{
    char text[800];
    snprintf(
        text, sizeof text,
        "INSERT INTO latent (job_id, sigma, seed, guidance, width, height, steps, states, shape,"
        " key, encoding, model, model_hash, lora_set, prompt_hash, mode) SELECT job_id, sigma,"
        " seed, guidance, width, height, steps, states, shape, key, encoding, model, model_hash,"
        " lora_set, prompt_hash, mode FROM kept WHERE job_id = %llu",
        (unsigned long long)ids[i]);
    run(conn, text);
}

/* Two writers hold their transactions open while the reader goes on and others commit behind them.
 */
static void late_commits_are_seen(void **state)
{
    (void)state;
    struct kept kept;
    PGconn *first = connect_more(), *second = connect_more(), *third = connect_more();
    sql("DELETE FROM latent");
    struct kiln_donors *donors = open_donors(&kept);
    for (size_t i = 0; i < JOBS; i++)
        assert_false(kept.there[i]);
    run(first, "BEGIN");
    put_back(first, 0);
    run(second, "BEGIN");
    put_back(second, 1);
    run(third, "BEGIN");
    put_back(third, 2);
    put_back(third, 3);
    run(third, "COMMIT"); /* the last to begin is the first to commit */
    settle(donors, &kept);
    assert_true(!kept.there[0] && !kept.there[1] && kept.there[2] && kept.there[3]);
    char remove[100];
    snprintf(remove, sizeof remove, "DELETE FROM latent WHERE job_id = %llu",
             (unsigned long long)ids[3]);
    sql(remove);
    settle(donors, &kept);
    assert_true(!kept.there[0] && kept.there[2] && !kept.there[3]);
    run(first, "COMMIT");
    run(second, "ROLLBACK");
    settle(donors, &kept);
    assert_true(kept.there[0] && !kept.there[1] && kept.there[2] && !kept.there[3]);
    put_back(second, 1);
    settle(donors, &kept);
    assert_true(kept.there[1]);
    const uint64_t rows = kept.rows; /* nothing is read again while nothing changes */
    settle(donors, &kept);
    assert_int_equal(kept.rows, rows);
    kiln_donors_close(donors);
    PQfinish(first);
    PQfinish(second);
    PQfinish(third);
}

/* Each removal forgets what every reader has seen long ago, and nothing else. */
static void what_went_is_forgotten_in_time(void **state)
{
    (void)state;
    static const char count[] = "SELECT count(*) FROM latent_gone";
    sql("TRUNCATE latent_gone; DELETE FROM latent");
    const long long gone = kiln_test_count(rig.stack, count);
    assert_true(gone > 0);
    sql("SELECT latent_gone_prune(1000000)");
    assert_int_equal(kiln_test_count(rig.stack, count), gone);
    for (int64_t until = kiln_clock_ms() + 60000;
         kiln_test_count(rig.stack, count) > 0 && kiln_clock_ms() < until;) {
        sql("SELECT latent_gone_prune(0)"); /* as soon as no older transaction runs */
        kiln_test_sleep_ms(50);
    }
    assert_int_equal(kiln_test_count(rig.stack, count), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_full_runs_are_donors),
        cmocka_unit_test(a_donor_names_its_lora),
        cmocka_unit_test(a_donor_has_the_prompt_as_drawn),
        cmocka_unit_test(uses_are_those_of_the_ledger),
        cmocka_unit_test(late_commits_are_seen),
        cmocka_unit_test(what_went_is_forgotten_in_time),
    };
    return cmocka_run_group_tests(tests, start, kiln_rig_stop);
}
