/* test_starts_loras.c - LoRA files on their way from the store to a batch. */
#include "schemas/clock.h"
#include "schemas/digest.h"
#include "tests/support/files.h"
#include "tests/worker/starts_rig.h"
#include "worker/stages/lora_files.h"

/* Stores a file under the hash of its text; damaged: with other bytes. */
static void put_lora(const char *text, bool damaged, char sha256[KILN_LORA_SHA256_MAX])
{
    char key[KILN_LORA_KEY_MAX];
    uint8_t digest[KILN_SHA256_SIZE];
    struct kiln_error err;
    kiln_sha256(text, strlen(text), digest);
    kiln_hex(digest, sizeof digest, sha256);
    kiln_lora_key(sha256, key);
    struct kiln_put put = {.key = key, .data = text, .size = strlen(text), .content_type = "a/b"};
    kiln_test_ok(kiln_store_put(store, &put, 1, &err), err);
    if (damaged)
        write_object(key, "other", 5);
}

/* Two jobs of a LoRA. */
static struct kiln_flight *arrive_with(struct rig *rig, const char *id, const char *name,
                                       const char *sha256)
{
    struct kiln_assignment a = {
        .width = 64, .height = 64, .steps = 8, .job_count = 2, .lora_count = 1};
    struct kiln_flight *flight = NULL;
    struct kiln_error err;
    snprintf(a.id, sizeof a.id, "%s", id);
    snprintf(a.loras[0].name, sizeof a.loras[0].name, "%s", name);
    snprintf(a.loras[0].sha256, sizeof a.loras[0].sha256, "%s", sha256);
    a.jobs = calloc(2, sizeof a.jobs[0]);
    assert_non_null(a.jobs);
    for (uint32_t i = 0; i < 2; i++)
        a.jobs[i] = (struct kiln_job){
            .id = 2000000 + i, .width = 64, .height = 64, .steps = 8, .prompt = strdup("p")};
    kiln_test_ok(kiln_flights_add(&rig->worker.flights, &a, 1, &flight, &err), err);
    kiln_board_want(&rig->worker.board);
    atomic_fetch_add(&rig->worker.waiting, 1);
    assert_int_equal(kiln_queue_push(rig->worker.arrived, flight, 1, 0), 0);
    return flight;
}

/* lora_dir has `own`, and another file under the name `mine`. */
static void open_with_loras(struct rig *rig, char dirs[2][200], const char *own, const char *away)
{
    char path[300], at[64];
    snprintf(dirs[0], 200, "%s/loras", stack->dir);
    snprintf(dirs[1], 200, "%s/cache", stack->dir);
    snprintf(path, sizeof path, "%s/own.safetensors", dirs[0]);
    kiln_test_write(path, own);
    snprintf(path, sizeof path, "%s/mine.safetensors", dirs[0]);
    kiln_test_write(path, "what somebody else has put here");
    snprintf(at, sizeof at, "http://127.0.0.1:%d", kiln_test_free_port());
    const char *more[] = {"lora_dir",
                          dirs[0],
                          "lora_cache_dir",
                          dirs[1],
                          "hold_s",
                          away ? away : "20",
                          away ? "store" : NULL,
                          "s3://bucket/x",
                          "s3_endpoint",
                          at,
                          NULL};
    open_rig(rig, more);
}

static void loras_come_from_the_folder_or_from_the_store(void **state)
{
    (void)state;
    struct rig rig;
    char own[KILN_LORA_SHA256_MAX], mine[KILN_LORA_SHA256_MAX], dirs[2][200], want[300];
    put_lora("own", false, own);
    put_lora("mine", false, mine);
    open_with_loras(&rig, dirs, "own", NULL);
    arrive_with(&rig, "own", "own", own);
    arrive_with(&rig, "mine", "mine", mine);
    arrive_with(&rig, "unnamed", "mine", "");
    for (int i = 0; i < 3; i++) {
        struct kiln_portion *portion = next_portion(&rig);
        struct kiln_lora_paths paths;
        assert_int_equal(portion->job_count, 2);
        assert_true(portion->first && portion->last && portion->jobs[1].code == 0);
        kiln_lora_paths_fill(&paths, stack->config, portion->flight);
        if (i == 1)
            snprintf(want, sizeof want, "%s/%s.safetensors", dirs[1], mine);
        else
            snprintf(want, sizeof want, "%s/%s.safetensors", dirs[0], i == 0 ? "own" : "mine");
        assert_string_equal(paths.paths[0], want);
        char files[KILN_LORA_FILES_MAX];
        struct kiln_error err;
        assert_true(kiln_lora_files_text(&paths, &portion->flight->assignment, files));
        assert_int_equal(kiln_lora_files_check(&portion->flight->assignment, files, &err), 0);
        if (i == 1) { /* and of what the folder has, it says so */
            assert_int_equal(kiln_lora_files_check(&portion->flight->assignment, "mine:0", &err),
                             KILN_UNAVAILABLE);
            assert_non_null(strstr(err.text, "LoRA mine"));
            kiln_fail(&err, KILN_CORRUPT, "%s: cut short", want); /* the engine knows only this */
            kiln_lora_files_name(&paths, &portion->flight->assignment, &err);
            assert_int_equal(strncmp(err.text, "LoRA mine: /", 12), 0);
        }
        forget(&rig, portion);
    }
    close_rig(&rig);
}

/* One that is gone may be on another machine: the jobs return, which counts as a try. */
static void a_lora_that_is_damaged_or_gone_fails_its_jobs(void **state)
{
    (void)state;
    struct rig rig;
    char bad[KILN_LORA_SHA256_MAX], gone[KILN_LORA_SHA256_MAX], dirs[2][200];
    put_lora("bad", true, bad);
    memset(gone, '0', sizeof gone - 1);
    gone[sizeof gone - 1] = '\0';
    open_with_loras(&rig, dirs, "x", NULL);
    arrive_with(&rig, "bad", "bad", bad);
    arrive_with(&rig, "gone", "gone", gone);
    arrive_with(&rig, "plain", "x", "");
    struct kiln_portion *portion = next_portion(&rig);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(portion->jobs[i].code, KILN_CORRUPT);
        assert_true(portion->jobs[i].final);
        assert_non_null(strstr(portion->jobs[i].reason, "LoRA bad"));
        assert_non_null(strstr(portion->jobs[i].reason, bad));
    }
    forget(&rig, portion);
    portion = next_portion(&rig);
    assert_int_equal(portion->jobs[1].code, KILN_NOT_FOUND);
    assert_false(portion->jobs[1].final);
    assert_non_null(strstr(portion->jobs[1].reason, gone));
    assert_non_null(strstr(portion->jobs[1].reason, "neither on this machine nor in the store"));
    forget(&rig, portion);
    portion = next_portion(&rig);
    assert_int_equal(portion->jobs[0].code, 0);
    forget(&rig, portion);
    close_rig(&rig);
}

static void a_lora_waits_for_a_store_that_is_away(void **state)
{
    (void)state;
    struct rig rig;
    char own[KILN_LORA_SHA256_MAX], away[KILN_LORA_SHA256_MAX], dirs[2][200];
    put_lora("own", false, own);
    put_lora("far away", false, away);
    open_with_loras(&rig, dirs, "own", "3");
    struct kiln_flight *waits = arrive_with(&rig, "waits", "far", away);
    struct kiln_flight *here = arrive_with(&rig, "here", "own", own);
    struct kiln_portion *portion = next_portion(&rig);
    assert_ptr_equal(portion->flight, here); /* it needs no store */
    forget(&rig, portion);
    portion = next_portion(&rig);
    assert_ptr_equal(portion->flight, waits);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(portion->jobs[i].code == KILN_UNAVAILABLE ||
                    portion->jobs[i].code == KILN_TIMEOUT);
        assert_false(portion->jobs[i].final);
    }
    forget(&rig, portion);
    close_rig(&rig);
}

/* The list of the heartbeats: files of the cache, the last used first, then those of lora_dir. */
static void what_is_on_the_machine_is_told(void **state)
{
    (void)state;
    struct rig rig;
    pthread_t thread;
    static struct kiln_heartbeat beat;
    char own[KILN_LORA_SHA256_MAX], far[KILN_LORA_SHA256_MAX], dirs[2][200], path[300];
    put_lora("own", false, own);
    put_lora("from afar", false, far);
    open_with_loras(&rig, dirs, "own", NULL);
    snprintf(path, sizeof path, "%s/notes.txt", dirs[0]);
    kiln_test_write(path, "no LoRA");
    kiln_board_beat(&rig.worker.board, &beat);
    assert_false(beat.files_told);
    atomic_fetch_add(&rig.worker.threads, 1);
    assert_int_equal(pthread_create(&thread, NULL, kiln_inventory, &rig.worker), 0);
    arrive_with(&rig, "far", "far", far);
    struct kiln_portion *portion = next_portion(&rig);
    assert_int_equal(portion->jobs[0].code, 0);
    assert_true(portion->flight->fetch_ms > 0);
    const uint64_t want = kiln_lora_digits(far);
    double until_ms = kiln_monotonic_ms() + LIMIT_MS;
    do {
        usleep(10000);
        kiln_board_beat(&rig.worker.board, &beat);
        assert_true(kiln_monotonic_ms() < until_ms);
    } while (!beat.files_told || beat.file_count < 3 || beat.files[0] != want);
    uint32_t owned = 0;
    for (uint32_t i = 1; i < beat.file_count; i++)
        owned += beat.files[i] == kiln_lora_digits(own);
    assert_int_equal(owned, 1);
    assert_true(beat.files[beat.file_count - 1] == kiln_lora_digits(own)); /* "mine" is before it */
    forget(&rig, portion);
    arrive_with(&rig, "again", "far", far);
    portion = next_portion(&rig);
    assert_true(portion->flight->fetch_ms == 0);
    forget(&rig, portion);
    atomic_store(&rig.worker.drain, KILN_DRAIN_ASKED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loras_come_from_the_folder_or_from_the_store),
        cmocka_unit_test(a_lora_that_is_damaged_or_gone_fails_its_jobs),
        cmocka_unit_test(a_lora_waits_for_a_store_that_is_away),
        cmocka_unit_test(what_is_on_the_machine_is_told),
    };
    return cmocka_run_group_tests(tests, start_stack, stop_stack);
}
