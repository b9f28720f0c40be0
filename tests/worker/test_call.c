/* test_call.c - the mode of a call: what the engine is told, and what auto means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/files.h"
#include "worker/stages/call.h"

static struct kiln_renderer *engine;
static struct kiln_flight flight;
static struct kiln_job job;

#define HASH "00000000000000000000000000000000000000000000000000000000000000aa"
static struct kiln_lora lora = {.scale = 1};
static const char *lora_files = ""; /* of the jobs; not "": they have the LoRA */

static int open_engine(void **state)
{
    (void)state;
    static const char card[] = "{\"coarse\": {\"auto\": \"4+3\", \"sizes\": [\"256x256\"],"
                               " \"for\": [\"512x512..1024x1024\"],"
                               " \"loras\": [{\"sha256\": \"" HASH "\","
                               " \"for\": [\"512x512\"]}]}}";
    struct kiln_error err;
    assert_int_equal(kiln_renderer_testcard_open(&engine, &err), 0);
    return kiln_model_card_parse(card, strlen(card), "card", &engine->card, &err);
}

static int close_engine(void **state)
{
    (void)state;
    kiln_renderer_close(engine);
    return 0;
}

/* The call and batch of a job of the assignment's mode; returns the code. */
static int set_mode(const char *mode, uint32_t width, uint32_t height, struct kiln_call *call,
                    DiffusionZBatch *batch)
{
    flight.assignment = (struct kiln_assignment){
        .width = width, .height = height, .steps = 8, .jobs = &job, .job_count = 1};
    assert_true(kiln_mode_parse(mode, &flight.assignment.mode));
    *call = (struct kiln_call){.flight = &flight, .count = 1};
    snprintf(call->lora_files, sizeof call->lora_files, "%s", lora_files);
    flight.assignment.lora_count = lora_files[0] ? 1 : 0;
    flight.assignment.loras[0] = lora;
    *batch = (DiffusionZBatch){.width = (int32_t)width, .height = (int32_t)height, .num_steps = 8};
    return kiln_call_set_mode(call, engine, batch);
}

static const char *mode_of(const struct kiln_call *call)
{
    static char text[KILN_MODE_MAX];
    kiln_mode_text(&call->mode, text);
    return text;
}

static void an_exact_call_is_as_before(void **state)
{
    (void)state;
    static struct kiln_call call;
    DiffusionZBatch batch, plain = {.width = 512, .height = 512, .num_steps = 8};
    job = (struct kiln_job){.kind = KILN_KIND_IMAGE};
    assert_int_equal(set_mode("", 512, 512, &call, &batch), 0);
    assert_memory_equal(&batch, &plain, sizeof batch);
    assert_int_equal(call.steps, 8);
    assert_true(call.forwards == 8);
}

static void coarse_first_runs_at_a_size_of_the_card(void **state)
{
    (void)state;
    static struct kiln_call call;
    DiffusionZBatch batch;
    job = (struct kiln_job){.kind = KILN_KIND_IMAGE};
    assert_int_equal(set_mode("coarse=4+2@0.8", 512, 512, &call, &batch), 0);
    assert_int_equal(batch.coarse_steps, 4);
    assert_int_equal(batch.coarse_width, 256);
    assert_int_equal(batch.coarse_height, 256);
    assert_int_equal(batch.start, DIFFUSIONZ_FROM_SIGMA);
    assert_true(batch.start_sigma == 0.8);
    assert_int_equal(batch.rest_steps, 2);
    assert_int_equal(call.steps, 6);
    assert_true(call.forwards == 3);
    assert_string_equal(mode_of(&call), "coarse=4+2@0.8");
    assert_int_equal(call.coarse_width, 256);
    /* The card lists no small size of this shape. */
    assert_int_equal(set_mode("coarse=4+2", 1024, 512, &call, &batch), KILN_UNSUPPORTED);
    assert_non_null(strstr(call.err.text, "kiln.json of model testcard lists no small size"));
}

/* The middle size is the one of two levels, the smallest the one nearest to half of that. */
static void a_third_level_runs_at_two_sizes_of_the_card(void **state)
{
    (void)state;
    static struct kiln_call call;
    DiffusionZBatch batch;
    job = (struct kiln_job){.kind = KILN_KIND_IMAGE};
    struct kiln_model_card *card = &engine->card;
    card->coarse_sizes[card->coarse_size_count++] = (struct kiln_picture_size){512, 512};
    assert_int_equal(set_mode("coarse=3+1+2", 1024, 1024, &call, &batch), 0);
    assert_int_equal(batch.coarse_steps, 3);
    assert_int_equal(batch.coarse_width, 256);
    assert_int_equal(batch.middle_steps, 1);
    assert_int_equal(batch.middle_width, 512);
    assert_int_equal(batch.middle_height, 512);
    assert_int_equal(batch.rest_steps, 2);
    assert_int_equal(call.steps, 6);
    assert_true(call.forwards == 2.4375);
    assert_true(kiln_call_begun_forwards(&call, engine, 2) == 0.125);
    assert_true(kiln_call_begun_forwards(&call, engine, 5) == 1.4375);
    assert_int_equal(call.coarse_height, 256);
    assert_int_equal(call.middle_height, 512);
    card->coarse_size_count--;
    assert_int_equal(set_mode("coarse=3+1+2", 1024, 1024, &call, &batch), KILN_UNSUPPORTED);
    /* A card that names it for a size that is too small. */
    const struct kiln_mode before = card->coarse;
    card->coarse = (struct kiln_mode){
        .kind = KILN_MODE_COARSE, .small = 3, .middle = 1, .full = 3, .sigma = KILN_COARSE_SIGMA};
    assert_int_equal(set_mode("coarse=auto", 512, 512, &call, &batch), 0);
    assert_string_equal(mode_of(&call), "");
    assert_int_equal(batch.middle_steps, 0);
    card->coarse = before;
}

static void auto_is_decided_by_the_card_and_the_job(void **state)
{
    (void)state;
    static struct kiln_call call;
    DiffusionZBatch batch;
    job = (struct kiln_job){.kind = KILN_KIND_IMAGE};
    assert_int_equal(set_mode("coarse=auto", 512, 512, &call, &batch), 0);
    assert_string_equal(mode_of(&call), "coarse=4+3");
    assert_int_equal(batch.rest_steps, 3);
    assert_true(call.forwards == 4);
    assert_int_equal(set_mode("coarse=auto", 256, 256, &call, &batch), 0); /* not measured */
    assert_string_equal(mode_of(&call), "");
    assert_int_equal(set_mode("coarse=auto", 1024, 512, &call, &batch), 0); /* no small size */
    assert_string_equal(mode_of(&call), "");
    assert_int_equal(batch.coarse_steps, 0);
    job.guidance = 4;
    assert_int_equal(set_mode("coarse=auto", 512, 512, &call, &batch), 0);
    assert_string_equal(mode_of(&call), "");
    job = (struct kiln_job){.kind = KILN_KIND_LATENT_CACHE};
    assert_int_equal(set_mode("coarse=auto", 512, 512, &call, &batch), 0);
    assert_string_equal(mode_of(&call), "");
    job = (struct kiln_job){.latents = KILN_LATENTS_TRAJECTORY};
    assert_int_equal(set_mode("coarse=auto", 512, 512, &call, &batch), 0);
    assert_string_equal(mode_of(&call), "");
    assert_int_equal(batch.start, DIFFUSIONZ_FROM_NOISE);
}

static void auto_depends_on_the_lora_file(void **state)
{
    (void)state;
    static struct kiln_call call;
    DiffusionZBatch batch;
    job = (struct kiln_job){.kind = KILN_KIND_IMAGE};
    lora_files = "neon:" HASH;
    assert_int_equal(set_mode("coarse=auto", 512, 512, &call, &batch), 0);
    assert_string_equal(mode_of(&call), "coarse=4+3");
    lora_files = "neon:11111111111111111111111111111111111111111111111111111111111111aa";
    assert_int_equal(set_mode("coarse=auto", 512, 512, &call, &batch), 0);
    assert_string_equal(mode_of(&call), "");
    assert_int_equal(set_mode("coarse=4+3", 512, 512, &call, &batch), 0); /* as was asked for */
    assert_string_equal(mode_of(&call), "coarse=4+3");
    lora_files = "";
}

/* The call of jobs that all begin at this step from their donors. */
static void set_reused(const char *mode, uint32_t step, struct kiln_call *call,
                       DiffusionZBatch *batch)
{
    assert_int_equal(set_mode(mode, 512, 512, call, batch), 0);
    assert_true(call->own_forwards == 0);
    *call = (struct kiln_call){.flight = &flight, .count = 1, .reused_from = step};
    *batch = (DiffusionZBatch){.width = 512, .height = 512, .num_steps = 8};
    assert_int_equal(kiln_call_set_mode(call, engine, batch), 0);
}

static void what_a_donor_saves_is_against_the_jobs_own_mode(void **state)
{
    (void)state;
    static struct kiln_call call;
    DiffusionZBatch batch;
    job = (struct kiln_job){.kind = KILN_KIND_IMAGE};
    set_reused("", 6, &call, &batch);
    assert_string_equal(mode_of(&call), "teleport=6");
    assert_true(call.forwards == 2 && call.own_forwards == 8);
    assert_true(call.start_sigma == 0.25); /* of the test card: 1 - 6 / 8 */
    set_reused("coarse=auto", 6, &call, &batch);
    assert_string_equal(mode_of(&call), "teleport=6");
    assert_true(call.forwards == 2 && call.own_forwards == 4); /* 4 at a quarter, and 3 */
    assert_true(batch.coarse_steps == 0 && batch.start == DIFFUSIONZ_FROM_STEP);
}

static void a_donor_of_the_small_phase_leaves_small_steps_out(void **state)
{
    (void)state;
    static struct kiln_call call;
    DiffusionZBatch batch = {.width = 512, .height = 512, .num_steps = 8};
    job = (struct kiln_job){.kind = KILN_KIND_IMAGE};
    assert_int_equal(set_mode("coarse=auto", 512, 512, &call, &batch), 0);
    call =
        (struct kiln_call){.flight = &flight, .count = 1, .reused_from = 1, .reused_coarse = true};
    batch = (DiffusionZBatch){.width = 512, .height = 512, .num_steps = 8};
    assert_int_equal(kiln_call_set_mode(&call, engine, &batch), 0);
    assert_string_equal(mode_of(&call), "coarse=4+3,teleport=1");
    assert_true(batch.coarse_steps == 4 && batch.coarse_skip == 1 && batch.rest_steps == 3);
    assert_true(call.steps == 6 && call.forwards == 3.75 && call.own_forwards == 4);
    assert_true(call.start_sigma == 0.875); /* of the test card: 1 - 1 / 8 */
    assert_true(kiln_call_begun_forwards(&call, engine, 1) == 0.25);
    assert_true(kiln_call_begun_forwards(&call, engine, 3) == 0.75);
    assert_true(kiln_call_begun_forwards(&call, engine, 5) == 2.75);
    assert_true(kiln_call_begun_forwards(&call, engine, 6) == call.forwards);
    /* A job that is not coarse first here has no small steps. */
    flight.assignment.mode = (struct kiln_mode){.kind = KILN_MODE_EXACT};
    batch = (DiffusionZBatch){.width = 512, .height = 512, .num_steps = 8};
    assert_int_equal(kiln_call_set_mode(&call, engine, &batch), KILN_INTERNAL);
}

static void starts_are_passed_on(void **state)
{
    (void)state;
    static struct kiln_call call;
    DiffusionZBatch batch;
    job = (struct kiln_job){.kind = KILN_KIND_IMAGE};
    assert_int_equal(set_mode("", 512, 512, &call, &batch), 0);
    assert_true(call.start_sigma == 0);
    assert_int_equal(set_mode("start=5", 512, 512, &call, &batch), 0);
    assert_true(call.start_sigma == 0.375);
    assert_int_equal(batch.start, DIFFUSIONZ_FROM_STEP);
    assert_int_equal(batch.start_step, 5);
    assert_int_equal(call.steps, 3);
    assert_true(call.forwards == 3);
    assert_int_equal(set_mode("start@0.5", 512, 512, &call, &batch), 0);
    assert_int_equal(batch.start, DIFFUSIONZ_FROM_SIGMA);
    assert_true(batch.start_sigma == 0.5);
    assert_int_equal(batch.rest_steps, 0);
    assert_int_equal(call.steps, 4); /* the test card's sigmas: .5, .375, .25, .125 */
}

/* A run of the card's number of steps has its sigmas and weights, others do not; a file that was
 * replaced fails the call. */
static void the_weights_of_the_card_are_passed_on(void **state)
{
    (void)state;
    static struct kiln_call call;
    static const char card[] =
        "{\"schedule\": {\"steps\": 8, \"weights\": [{\"steps\": [3, 8], \"scale\": 0.5,"
        " \"lora\": \"fast.safetensors\", \"sha256\": "
        "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"}]}}"; /* of abc */
    char dir[] = "/tmp/kiln-call-XXXXXX", path[64];
    DiffusionZBatch batch;
    struct kiln_error err;
    const struct kiln_model_card before = engine->card;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/fast.safetensors", dir);
    assert_int_equal(kiln_model_card_parse(card, strlen(card), "card", &engine->card, &err), 0);
    engine->model_dir = dir;
    job = (struct kiln_job){.kind = KILN_KIND_IMAGE};
    assert_int_equal(set_mode("", 512, 512, &call, &batch), KILN_NOT_FOUND);
    assert_non_null(
        strstr(call.err.text, "fast.safetensors, which kiln.json names for steps 3 to 8"));
    kiln_test_write(path, "abc");
    assert_int_equal(set_mode("", 512, 512, &call, &batch), 0);
    assert_int_equal(batch.step_lora_count, 1);
    assert_int_equal(batch.step_loras[0].first, 2);
    assert_int_equal(batch.step_loras[0].end, 8);
    assert_true(batch.step_loras[0].lora.weight == 0.5f);
    assert_string_equal(batch.step_loras[0].lora.path, path);
    kiln_test_write(path, "abcd");
    assert_int_equal(set_mode("", 512, 512, &call, &batch), KILN_CORRUPT);
    assert_non_null(strstr(call.err.text, "is another file than the one that kiln.json names"));
    engine->card.weights[0].transformer = true; /* it is loaded with the model, and checked then */
    assert_int_equal(set_mode("", 512, 512, &call, &batch), 0);
    assert_int_equal(batch.step_lora_count, 0);
    assert_int_equal(batch.step_transformer_count, 1);
    assert_string_equal(batch.step_transformers[0].folder, "fast.safetensors");
    assert_int_equal(batch.step_transformers[0].first, 2);
    assert_int_equal(batch.step_transformers[0].end, 8);
    engine->card.steps = 4;
    assert_int_equal(set_mode("", 512, 512, &call, &batch), 0);
    assert_int_equal(batch.step_lora_count, 0);
    assert_int_equal(batch.step_transformer_count, 0);
    engine->card = before;
    engine->model_dir = "";
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exact_call_is_as_before),
        cmocka_unit_test(coarse_first_runs_at_a_size_of_the_card),
        cmocka_unit_test(a_third_level_runs_at_two_sizes_of_the_card),
        cmocka_unit_test(auto_is_decided_by_the_card_and_the_job),
        cmocka_unit_test(auto_depends_on_the_lora_file),
        cmocka_unit_test(what_a_donor_saves_is_against_the_jobs_own_mode),
        cmocka_unit_test(a_donor_of_the_small_phase_leaves_small_steps_out),
        cmocka_unit_test(starts_are_passed_on),
        cmocka_unit_test(the_weights_of_the_card_are_passed_on),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
