/* test_enqueue.c - job files into a real intake stream: what is sent, under which identity, what is
 * refused, and what the receipt says. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

#include "scheduler/cli/jobs/enqueue/enqueue.h"
#include "schemas/job/line.h"
#include "schemas/wire/wire.h"
#include "storage/bus/bus.h"
#include "tests/support/files.h"
#include "tests/support/stack.h"

static struct kiln_test_stack *stack;
static struct kiln_cli cli;

static int setup(void **state)
{
    (void)state;
    stack = kiln_test_stack_start(KILN_STACK_REDIS);
    static const struct kiln_verb verb = {.name = "enqueue"};
    cli.config = stack->config;
    cli.verb = &verb;
    cli.quiet = true;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kiln_test_stack_stop(stack);
    return 0;
}

static int clear(void **state)
{
    (void)state;
    kiln_test_flushall(stack);
    return 0;
}

/* Enqueues and returns the exit status; stderr goes to the file "said". */
static int enqueue(const char *path, struct kiln_enqueue_request request,
                   struct kiln_enqueue_result *result)
{
    int saved = dup(STDERR_FILENO);
    assert_non_null(freopen("said", "w", stderr));
    request.file = path;
    int status = kiln_enqueue(&cli, &request, result);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    return status;
}

static void assert_said(const char *expected)
{
    static char said[65536];
    FILE *file = fopen("said", "r");
    size_t len = fread(said, 1, sizeof said - 1, file);
    fclose(file);
    said[len] = '\0';
    if (!strstr(said, expected))
        fail_msg("\"%s\" does not say \"%s\"", said, expected);
}

/* --- what is in the stream ----------------------------------------------------------------- */

struct sent {
    char key[KILN_INTAKE_KEY_MAX + 1], batch[KILN_BATCH_NAME_MAX + 1], token[KILN_WIRE_ID_MAX + 1];
    struct kiln_job job; /* prompt NULL: an entry without a job */
    uint32_t index;
    uint64_t end;
    bool has_end;
};

static void decode(const struct kiln_bus_entry *entry, struct sent *sent)
{
    struct kiln_intake_entry intake;
    struct kiln_error err;
    bool has_seed;
    if (kiln_intake_decode(entry->fields, entry->lengths, entry->field_count, &intake, &err) != 0)
        fail_msg("%s", err.text);
    memset(sent, 0, sizeof *sent);
    snprintf(sent->batch, sizeof sent->batch, "%s", intake.batch);
    snprintf(sent->token, sizeof sent->token, "%s", intake.token);
    snprintf(sent->key, sizeof sent->key, "%s", intake.key ? intake.key : "");
    sent->index = intake.index;
    sent->end = intake.end;
    sent->has_end = intake.has_end;
    if (!intake.job)
        return;
    if (kiln_job_line_parse(intake.job, intake.job_len, NULL, &sent->job, &has_seed, &err) != 0)
        fail_msg("%s: %s", intake.job, err.text);
    assert_true(has_seed && intake.has_index && intake.key);
}

static size_t read_stream(struct sent *sent, size_t max)
{
    struct kiln_bus *bus;
    struct kiln_bus_entries entries = {0};
    struct kiln_error err;
    char key[64];
    const char *stream = key, *after = "0";
    kiln_wire_key(key, sizeof key, "default", "intake", NULL);
    assert_int_equal(kiln_bus_open(stack->config, &bus, &err), 0);
    assert_int_equal(kiln_bus_read(bus, &stream, &after, 1, (uint32_t)max, 0, &entries, &err), 0);
    size_t count = entries.count;
    for (size_t i = 0; i < count; i++)
        decode(&entries.at[i], &sent[i]);
    kiln_bus_close(bus);
    return count;
}

static void release(struct sent *sent, size_t count)
{
    for (size_t i = 0; i < count; i++)
        kiln_job_release(&sent[i].job);
}

static const struct kiln_enqueue_request at_once = {.no_wait = true};

/* --- sending ------------------------------------------------------------------------------- */

static void jobs_are_sent_in_order_with_their_end(void **state)
{
    (void)state;
    struct kiln_enqueue_result result;
    struct sent sent[16];
    kiln_test_write("a.jsonl",
                    "{\"prompt\":\"one\",\"custom_id\":\"x\",\"count\":2}\n{\"prompt\":\"{a|"
                    "b}\",\"seed\":7}\n");
    assert_int_equal(enqueue("a.jsonl", at_once, &result), EX_OK);
    assert_int_equal(result.sent, 4);
    assert_string_equal(result.batch, "a");
    assert_int_equal(read_stream(sent, 16), 5);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(sent[i].index, i);
        assert_string_equal(sent[i].batch, result.batch);
        assert_string_equal(sent[i].token, sent[0].token);
        assert_false(sent[i].has_end);
    }
    assert_int_equal(strncmp(sent[0].key, "h:", 2), 0);
    assert_int_equal(strncmp(sent[0].key, sent[1].key, 18), 0);
    assert_string_equal(sent[0].key + 18, "#0");
    assert_string_equal(sent[1].key + 18, "#1");
    assert_int_equal(strncmp(sent[2].key, "h:", 2), 0);
    assert_string_not_equal(sent[2].key, sent[3].key);
    assert_true(sent[0].job.seed == kiln_seed_derive("a", sent[0].key));
    assert_true(sent[1].job.seed == kiln_seed_derive("a", sent[1].key));
    assert_string_equal(sent[2].job.prompt, "a");
    assert_true(sent[3].job.seed == 7);
    assert_true(sent[4].has_end && sent[4].end == 4);
    assert_null(sent[4].job.prompt);
    release(sent, 5);
    kiln_enqueue_release(&result);
}

static void an_inserted_line_leaves_identities_alone(void **state)
{
    (void)state;
    struct kiln_enqueue_result result;
    struct kiln_enqueue_request request = at_once;
    struct sent sent[16];
    request.batch = "twice";
    kiln_test_write("a.txt", "a cat\na dog\na cat\n");
    assert_int_equal(enqueue("a.txt", request, &result), EX_OK);
    kiln_enqueue_release(&result);
    kiln_test_write("a.txt", "a bird\na cat\na dog\na cat\n");
    assert_int_equal(enqueue("a.txt", request, &result), EX_OK);
    kiln_enqueue_release(&result);
    size_t count = read_stream(sent, 16);
    assert_int_equal(count, 9);
    for (int i = 0; i < 3; i++)
        assert_string_equal(sent[i].key, sent[5 + i].key);
    for (int i = 0; i < 3; i++)
        assert_string_not_equal(sent[i].key, sent[4].key);
    assert_string_not_equal(sent[0].key,
                            sent[2].key); /* the second "a cat" is a picture of its own */
    assert_string_not_equal(sent[0].token, sent[4].token);
    release(sent, count);
}

static void overrides_reach_every_job(void **state)
{
    (void)state;
    struct kiln_enqueue_result result;
    struct kiln_enqueue_request request = at_once;
    struct kiln_set sets[] = {{"set", "size=64x128"}, {"set", "style=anime"}};
    struct sent sent[8];
    request.sets = sets;
    request.set_count = 2;
    kiln_test_write("a.jsonl", "{\"prompt\":\"x\",\"width\":512,\"height\":512}\n");
    assert_int_equal(enqueue("a.jsonl", request, &result), EX_OK);
    assert_int_equal(read_stream(sent, 8), 2);
    assert_int_equal(sent[0].job.width, 64);
    assert_string_equal(sent[0].job.style, "anime");
    assert_string_equal(sent[0].job.prompt,
                        "x, anime style, clean line art, cel shading, vivid colours");
    release(sent, 2);
    kiln_enqueue_release(&result);
    sets[0].value = "size=65x128";
    assert_int_equal(enqueue("a.jsonl", request, &result), EX_USAGE);
    assert_said("--set: width is 65, which is not a multiple of 16; the nearest allowed is 64");
    kiln_enqueue_release(&result);
}

static void unknown_loras_are_refused_by_the_files_of_lora_dir(void **state)
{
    (void)state;
    struct kiln_enqueue_result result;
    struct kiln_error err;
    kiln_test_write("loras/ink.safetensors", "");
    kiln_test_write("loras/readme.txt", "");
    assert_int_equal(kiln_config_set(cli.config, "lora_dir", "loras", "test", &err), 0);
    kiln_test_write(
        "a.jsonl",
        "{\"prompt\":\"x\",\"loras\":\"ikn\"}\n{\"prompt\":\"x\",\"loras\":\"ink:0.5\"}\n");
    assert_int_equal(enqueue("a.jsonl", at_once, &result), EX_DATAERR);
    assert_said("a.jsonl:1: loras: unknown LoRA \"ikn\"; lora_dir has none of that name, and the "
                "registry cannot be read: ");
    assert_int_equal(result.sent, 1);
    kiln_enqueue_release(&result);
    assert_int_equal(kiln_config_set(cli.config, "lora_dir", "nowhere", "test", &err), 0);
    assert_int_equal(enqueue("a.jsonl", at_once, &result), EX_CONFIG);
    assert_said("lora_dir: open nowhere: No such file or directory");
    kiln_enqueue_release(&result);
    assert_int_equal(kiln_config_set(cli.config, "lora_dir", "", "test", &err), 0);
}

/* --- refusing ------------------------------------------------------------------------------ */

static void bad_lines_are_told_and_the_good_ones_go_on(void **state)
{
    (void)state;
    struct kiln_enqueue_result result;
    struct sent sent[8];
    kiln_test_write(
        "a.jsonl", "{\"prompt\":\"x\",\"custom_id\":\"a\"}\n{\"prompt\":\"x\",\"stpes\":3}\n{oops\n"
                   "{\"prompt\":\"y\",\"custom_id\":\"a\"}\n{\"prompt\":\"z\"}\n");
    assert_int_equal(enqueue("a.jsonl", at_once, &result), EX_DATAERR);
    assert_said("a.jsonl:2: unknown key \"stpes\"; did you mean \"steps\"?\n");
    assert_said("a.jsonl:3: not valid JSON at byte 2");
    assert_said("a.jsonl:4: custom_id \"a\" is already used in line 1\n");
    assert_int_equal(result.refused, 3);
    assert_int_equal(result.refusals[1].line, 3);
    assert_int_equal(read_stream(sent, 8), 3);
    assert_true(sent[2].end == 2);
    release(sent, 3);
    kiln_enqueue_release(&result);
}

/* Every way in which a line can be bad, each between two good ones: all bad ones are told by their
 * number and all good ones are in the stream, in their order. */
static void between_bad_lines_no_good_one_is_lost(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        size_t len; /* 0: of the text */
        const char *says;
    } bad[] = {
        {"{oops", 0, "not valid JSON"},
        {"[1, 2]", 0, "a '{' belongs here"},
        {"{\"prompt\":\"x\"} and more", 0, "not valid JSON"},
        {"{\"prompt\":\"caf\xe9\"}", 0, "not valid UTF-8"},
        {"{\"prompt\":\"a\0b\"}", 16, "a NUL byte"},
        {"{\"prompt\":\"a\\u0000b\"}", 0, "NUL"},
        {"{\"prompt\":\"x\",\"heigth\":64}", 0, "did you mean \"height\"?"},
        {"{\"prompt\":[\"x\"]}", 0, "prompt is a list"},
        {"{\"prompt\":\"x\",\"width\":100,\"height\":64}", 0, "not a multiple of 16"},
        {"{\"prompt\":\"x\",\"width\":4096,\"height\":64}", 0, "from 64 to 2048"},
        {"{\"prompt\":\"x\",\"steps\":0}", 0, "steps is 0"},
        {"{\"prompt\":\"x\",\"loras\":[{\"name\":\"a\",\"scale\":NaN}]}", 0, "NaN"},
        {"{\"prompt\":\"x\",\"seed\":18446744073709551616}", 0, "seed is 18446744073709551616"},
        {"{\"prompt\":\"x\",\"custom_id\":\"id 0\"}", 0, "is already used in line 1"},
        {"{}", 0, "prompt is missing"},
    };
    enum { BAD = sizeof bad / sizeof *bad, LONG = 10 * 1024 * 1024 };
    FILE *file = fopen("hostile.jsonl", "wb");
    assert_non_null(file);
    fputs("\xef\xbb\xbf", file);
    for (int i = 0; i < BAD; i++) {
        fprintf(file, "{\"prompt\":\"good %d\",\"custom_id\":\"id %d\"}\r\n", i, i);
        fwrite(bad[i].line, 1, bad[i].len ? bad[i].len : strlen(bad[i].line), file);
        fputc('\n', file);
    }
    fprintf(file, "{\"prompt\":\"%0*d\"}\n", 9 * 1024, 0);
    fprintf(file, "{\"prompt\":\"%0*d\"}\n", LONG, 0);
    fprintf(file, "{\"prompt\":\"good %d\"}", BAD); /* no newline at the end */
    assert_int_equal(fclose(file), 0);

    struct kiln_enqueue_result result;
    static struct sent sent[BAD + 8];
    assert_int_equal(enqueue("hostile.jsonl", at_once, &result), EX_DATAERR);
    assert_int_equal(result.refused, BAD + 2);
    for (int i = 0; i < BAD; i++) {
        assert_int_equal(result.refusals[i].line, 2 * i + 2);
        assert_said(bad[i].says);
    }
    assert_said("prompt is 9216 bytes");
    assert_said("the limit is 65536");
    kiln_enqueue_release(&result);
    assert_int_equal(read_stream(sent, BAD + 8), BAD + 2);
    for (int i = 0; i <= BAD; i++) {
        char prompt[16];
        snprintf(prompt, sizeof prompt, "good %d", i);
        assert_string_equal(sent[i].job.prompt, prompt);
    }
    assert_true(sent[BAD + 1].end == BAD + 1);
    release(sent, BAD + 2);
}

/* Redis at maxmemory takes no jobs: the call says so, and the same call later adds what lacks. */
static void a_full_redis_is_named(void **state)
{
    (void)state;
    struct kiln_enqueue_result result;
    struct kiln_enqueue_request request = at_once;
    struct sent sent[8];
    request.batch = "full";
    kiln_test_write("a.txt", "one\ntwo\n");
    kiln_test_redis(stack, "CONFIG SET maxmemory 1");
    assert_int_equal(enqueue("a.txt", request, &result), EX_TEMPFAIL);
    assert_said("maxmemory");
    kiln_enqueue_release(&result);
    kiln_test_redis(stack, "CONFIG SET maxmemory 0");
    assert_int_equal(enqueue("a.txt", request, &result), EX_OK);
    size_t count = read_stream(sent, 8);
    assert_int_equal(count, 3);
    release(sent, count);
    kiln_enqueue_release(&result);
}

static void strict_sends_nothing_if_a_line_is_bad(void **state)
{
    (void)state;
    struct kiln_enqueue_result result;
    struct kiln_enqueue_request request = at_once;
    struct sent sent[8];
    request.strict = true;
    kiln_test_write("a.txt", "good\n{bad\ngood\n");
    assert_int_equal(enqueue("a.txt", request, &result), EX_DATAERR);
    assert_said("1 line refused, so nothing was sent (--strict)");
    assert_int_equal(result.sent, 0);
    assert_int_equal(read_stream(sent, 8), 0);
    kiln_enqueue_release(&result);
    kiln_test_write("a.jsonl", "{\"prompt\":\"x\",\"custom_id\":\"a\"}\n{\"prompt\":\"y\"}\n");
    assert_int_equal(enqueue("a.jsonl", request, &result), EX_OK);
    assert_int_equal(read_stream(sent, 8), 3);
    release(sent, 3);
    kiln_enqueue_release(&result);
}

static void files_without_jobs_are_an_error(void **state)
{
    (void)state;
    struct kiln_enqueue_result result;
    struct sent sent[2];
    kiln_test_write("empty.jsonl", "");
    assert_int_equal(enqueue("empty.jsonl", at_once, &result), EX_DATAERR);
    assert_said("empty.jsonl contains no jobs");
    kiln_enqueue_release(&result);
    assert_int_equal(enqueue("nowhere.jsonl", at_once, &result), EX_NOINPUT);
    kiln_enqueue_release(&result);
    struct kiln_enqueue_request request = at_once;
    request.batch = "a b";
    assert_int_equal(enqueue("empty.jsonl", request, &result), EX_USAGE);
    kiln_enqueue_release(&result);
    assert_int_equal(read_stream(sent, 2), 0);
}

static void a_dry_run_counts_and_sends_nothing(void **state)
{
    (void)state;
    struct kiln_enqueue_result result;
    struct kiln_enqueue_request request = {.dry_run = true};
    struct sent sent[2];
    kiln_test_write("a.jsonl",
                    "{\"prompt\":\"x\",\"count\":1000}\n"
                    "{\"prompt\":\"{a|b}\",\"size\":[\"512x512\",\"1:1\"],\"loras\":\"ink\"}\n");
    assert_int_equal(enqueue("a.jsonl", request, &result), EX_OK);
    assert_int_equal(result.plan.jobs, 1004);
    assert_int_equal(result.plan.group_count, 3);
    assert_int_equal(result.plan.groups[0].jobs, 1000);
    assert_string_equal(result.plan.groups[1].lora_set, "ink:1");
    assert_int_equal(result.plan.groups[1].jobs, 2);
    assert_int_equal(read_stream(sent, 2), 0);
    kiln_enqueue_release(&result);
}

/* The arithmetic of the full model: 8 forwards of 56.58 TFLOP and a decode of 10.47 at 1024 px, 8
 * of 13.69 and 2.51 at 512 px. */
static void gpu_time_follows_the_model(void **state)
{
    (void)state;
    struct kiln_job job = {.width = 1024, .height = 1024, .steps = 8};
    double tflop = kiln_plan_gpu_seconds(NULL, &job) * KILN_PLAN_FLOPS / 1e12;
    assert_true(tflop > (8 * 56.58 + 10.47) * 0.995 && tflop < (8 * 56.58 + 10.47) * 1.005);
    job.width = job.height = 512;
    tflop = kiln_plan_gpu_seconds(NULL, &job) * KILN_PLAN_FLOPS / 1e12;
    assert_true(tflop > (8 * 13.69 + 2.51) * 0.995 && tflop < (8 * 13.69 + 2.51) * 1.005);
    job.guidance = 3;
    assert_true(kiln_plan_gpu_seconds(NULL, &job) * KILN_PLAN_FLOPS / 1e12 > 1.9 * 8 * 13.69);
    /* Coarse "auto" costs what the card makes of it; without a card, and with LoRAs, an exact run.
     */
    struct kiln_model_card card = {.coarse = {.kind = KILN_MODE_COARSE, .small = 4, .full = 2},
                                   .coarse_steps = 8,
                                   .coarse_for = {{512, 512, 512, 512}},
                                   .coarse_for_count = 1};
    job.guidance = 0;
    const double exact = kiln_plan_gpu_seconds(NULL, &job);
    job.mode.kind = KILN_MODE_COARSE_AUTO;
    assert_true(kiln_plan_gpu_seconds(NULL, &job) == exact);
    tflop = kiln_plan_gpu_seconds(&card, &job) * KILN_PLAN_FLOPS / 1e12;
    assert_true(tflop > (3 * 13.69 + 2.51) * 0.995 && tflop < (3 * 13.69 + 2.51) * 1.005);
    job.lora_count = 1;
    assert_true(kiln_plan_gpu_seconds(&card, &job) == exact);
}

/* --- receipts ------------------------------------------------------------------------------ */

/* Stands for the scheduler: waits for an end, answers with a receipt. */
static void *answer(void *arg)
{
    struct kiln_receipt *receipt = arg;
    struct sent sent[16];
    struct kiln_bus *bus;
    struct kiln_error err;
    size_t count = 0;
    for (int tries = 0; tries < 500 && (count == 0 || !sent[count - 1].has_end); tries++) {
        release(sent, count);
        usleep(10000);
        count = read_stream(sent, 16);
    }
    char list[128];
    kiln_wire_key(list, sizeof list, "default", "receipt", sent[count - 1].token);
    snprintf(receipt->batch, sizeof receipt->batch, "%s", sent[0].batch);
    char *text = kiln_receipt_encode(receipt);
    assert_int_equal(kiln_bus_open(stack->config, &bus, &err), 0);
    assert_int_equal(kiln_bus_push(bus, list, text, 60, &err), 0);
    kiln_bus_close(bus);
    free(text);
    release(sent, count);
    return NULL;
}

static int enqueue_answered(struct kiln_receipt *receipt, struct kiln_enqueue_result *result)
{
    pthread_t scheduler;
    struct kiln_enqueue_request request = {.wait_s = 20};
    kiln_test_write("a.txt", "one\ntwo\nthree\n");
    assert_int_equal(pthread_create(&scheduler, NULL, answer, receipt), 0);
    int status = enqueue("a.txt", request, result);
    pthread_join(scheduler, NULL);
    return status;
}

static void the_receipt_is_waited_for(void **state)
{
    (void)state;
    struct kiln_enqueue_result result;
    struct kiln_receipt receipt = {.accepted = 2, .duplicate = 1};
    assert_int_equal(enqueue_answered(&receipt, &result), EX_OK);
    assert_true(result.receipted);
    assert_int_equal(result.accepted, 2);
    assert_int_equal(result.duplicate, 1);
    kiln_enqueue_release(&result);
}

static void refusals_of_the_scheduler_are_told(void **state)
{
    (void)state;
    struct kiln_enqueue_result result;
    struct kiln_receipt receipt = {
        .accepted = 1, .refused = 2, .first_refusal = "unknown LoRA \"x\""};
    assert_int_equal(enqueue_answered(&receipt, &result), EX_DATAERR);
    assert_said("the scheduler refused 2 jobs, the first: unknown LoRA \"x\"");
    assert_int_equal(result.refused, 2);
    kiln_enqueue_release(&result);
}

static void without_a_scheduler_the_jobs_are_safe(void **state)
{
    (void)state;
    struct kiln_enqueue_result result;
    struct kiln_enqueue_request request = {.wait_s = 1};
    struct sent sent[8];
    kiln_test_write("a.txt", "one\n");
    assert_int_equal(enqueue("a.txt", request, &result), EX_TEMPFAIL);
    assert_said("no receipt within 1 s, ");
    assert_said("are safe in the stream");
    assert_false(result.receipted);
    assert_int_equal(read_stream(sent, 8), 2);
    release(sent, 2);
    kiln_enqueue_release(&result);
}

static void a_dead_redis_is_named(void **state)
{
    (void)state;
    struct kiln_enqueue_result result;
    kiln_test_kill(stack, KILN_TEST_REDIS);
    kiln_test_write("a.txt", "one\n");
    assert_int_equal(enqueue("a.txt", at_once, &result), EX_UNAVAILABLE);
    assert_int_equal(result.sent, 0);
    kiln_enqueue_release(&result);
    kiln_test_restart(stack, KILN_TEST_REDIS, NULL);
}

#define REDIS_TEST(name) cmocka_unit_test_setup(name, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REDIS_TEST(jobs_are_sent_in_order_with_their_end),
        REDIS_TEST(an_inserted_line_leaves_identities_alone),
        REDIS_TEST(overrides_reach_every_job),
        REDIS_TEST(unknown_loras_are_refused_by_the_files_of_lora_dir),
        REDIS_TEST(bad_lines_are_told_and_the_good_ones_go_on),
        REDIS_TEST(between_bad_lines_no_good_one_is_lost),
        REDIS_TEST(a_full_redis_is_named),
        REDIS_TEST(strict_sends_nothing_if_a_line_is_bad),
        REDIS_TEST(files_without_jobs_are_an_error),
        REDIS_TEST(a_dry_run_counts_and_sends_nothing),
        cmocka_unit_test(gpu_time_follows_the_model),
        REDIS_TEST(the_receipt_is_waited_for),
        REDIS_TEST(refusals_of_the_scheduler_are_told),
        REDIS_TEST(without_a_scheduler_the_jobs_are_safe),
        REDIS_TEST(a_dead_redis_is_named),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
