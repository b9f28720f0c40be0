/* test_mode_keys.c - coarse first and starts in job lines: what is read, written and refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/job/draft.h"
#include "schemas/job/inputs.h"

#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define IMAGE "\"init_image\":\"inputs/" SHA ".png\""
#define MASK "\"init_mask\":\"inputs/" SHA ".webp\""

static const struct kiln_job_context nothing_known;

/* A line of a prompt and these members. */
static struct kiln_job parse(const char *members, const struct kiln_job_context *context)
{
    char line[1024];
    struct kiln_job job;
    struct kiln_error err;
    bool has_seed;
    snprintf(line, sizeof line, "{\"prompt\":\"x\"%s%s}", *members ? "," : "", members);
    if (kiln_job_line_parse(line, strlen(line), context, &job, &has_seed, &err) != 0)
        fail_msg("%s: %s", line, err.text);
    return job;
}

static void check_mode(const char *members, const struct kiln_job_context *context,
                       const char *mode)
{
    char text[KILN_MODE_MAX];
    struct kiln_job job = parse(members, context);
    kiln_mode_text(&job.mode, text);
    if (strcmp(text, mode) != 0)
        fail_msg("%s: mode \"%s\", expected \"%s\"", members, text, mode);
    kiln_job_release(&job);
}

static void lines_say_a_mode(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", ""},
        {"\"coarse\":\"off\"", ""},
        {"\"coarse\":\"auto\"", "coarse=auto"},
        {"\"coarse\":\"4+3\"", "coarse=4+3"},
        {"\"coarse\":\"8+2\"", "coarse=8+2"},
        {"\"coarse\":\"3+1+3\"", "coarse=3+1+3"},
        {"\"coarse\":\"3+1+3\",\"coarse_sigma\":0.8", "coarse=3+1+3@0.8"},
        {"\"coarse\":\"4+3\",\"coarse_sigma\":0.8", "coarse=4+3@0.8"},
        {"\"coarse\":\"4+3\",\"coarse_sigma\":0.75", "coarse=4+3"},
        {"\"coarse\":\"4+3\",\"size\":\"128x128\"", "coarse=4+3"},
        {"\"coarse\":\"auto\",\"size\":\"112x1024\"", ""},
        {"\"coarse\":\"auto\",\"latents\":\"trajectory\"", ""},
        {IMAGE, "start=3"},
        {IMAGE ",\"strength\":1", "start=0"},
        {IMAGE ",\"strength\":0.5,\"steps\":4", "start=2"},
        {IMAGE ",\"start_sigma\":0.5", "start@0.5"},
        {IMAGE ",\"coarse\":\"auto\"", "start=3"},
        {IMAGE ",\"coarse\":\"off\"", "start=3"},
        {"\"init_job\":7,\"strength\":0.3", "start=5"},
        {IMAGE "," MASK, "inpaint=0"},
        {IMAGE "," MASK ",\"strength\":0.6", "inpaint=3"},
        {IMAGE "," MASK ",\"start_sigma\":0.5", "inpaint@0.5"},
        {IMAGE "," MASK ",\"coarse\":\"auto\"", "inpaint=0"},
        {"\"init_job\":7," MASK ",\"strength\":0.3", "inpaint=5"},
        {"\"init_job\":9223372036854775807", "start=3"},
        {"\"init_job\":7,\"edit\":true", "edit=3"},
        {"\"init_job\":7,\"edit\":false", "start=3"},
        {"\"init_job\":7,\"edit\":true,\"start_sigma\":0.5", "edit@0.5"},
        {IMAGE ",\"edit\":false", "start=3"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_mode(rows[i][0], &nothing_known, rows[i][1]);
    struct kiln_job job = parse(IMAGE, &nothing_known);
    assert_string_equal(job.init_image, "inputs/" SHA ".png");
    assert_true(job.init_job == 0 && job.parent == 0);
    kiln_job_release(&job);
    job = parse("\"init_job\":7", &nothing_known);
    assert_null(job.init_image);
    assert_null(job.init_mask);
    assert_true(job.init_job == 7 && job.parent == 7);
    kiln_job_release(&job);
    job = parse("\"parent\":5", &nothing_known);
    assert_true(job.init_job == 0 && job.parent == 5 && job.mode.kind == KILN_MODE_EXACT);
    kiln_job_release(&job);
    job = parse("\"init_job\":7,\"parent\":5,\"strength\":1", &nothing_known);
    assert_true(job.init_job == 7 && job.parent == 5);
    kiln_job_release(&job);
    job = parse(IMAGE ",\"parent\":9223372036854775807", &nothing_known);
    assert_true(job.init_job == 0 && job.parent == INT64_MAX);
    kiln_job_release(&job);
    job = parse("\"init_job\":7," MASK, &nothing_known);
    assert_string_equal(job.init_mask, "inputs/" SHA ".webp");
    kiln_job_release(&job);
}

/* The setting is a wish: it never refuses a job, nor adds a word to its line of enqueue. */
static void a_setting_applies_where_it_fits(void **state)
{
    (void)state;
    struct kiln_job_context pair = {0}, automatic = {0}, three = {0};
    assert_true(kiln_mode_parse_coarse("6+3", &pair.coarse));
    assert_true(kiln_mode_parse_coarse("auto", &automatic.coarse));
    static const char *const rows[][3] = {
        {"", "coarse=6+3", "coarse=auto"},
        {"\"coarse\":\"off\"", "", ""},
        {"\"coarse\":\"4+2\"", "coarse=4+2", "coarse=4+2"},
        {"\"coarse\":\"auto\"", "coarse=auto", "coarse=auto"},
        {"\"steps\":5", "", "coarse=auto"},
        {"\"size\":\"64x1024\"", "", ""},
        {"\"latents\":\"trajectory\"", "", ""},
        {"\"kind\":\"latent-cache\"", "", ""},
        {"\"kind\":\"latent-cache\",\"coarse\":\"auto\"", "coarse=auto", "coarse=auto"},
        {IMAGE, "start=3", "start=3"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check_mode(rows[i][0], &pair, rows[i][1]);
        check_mode(rows[i][0], &automatic, rows[i][2]);
    }
    assert_true(kiln_mode_parse_coarse("3+1+3", &three.coarse));
    check_mode("", &three, "coarse=3+1+3");
    check_mode("\"size\":\"768x768\"", &three, "");
    check_mode("\"steps\":3", &three, "");
}

static void canonical(const char *members, const struct kiln_job_context *context,
                      const char *written)
{
    struct kiln_job job = parse(members, context), back;
    struct kiln_text text = {0};
    struct kiln_error err;
    bool has_seed;
    for (int round = 0; round < 2; round++) {
        kiln_text_clear(&text);
        kiln_job_line_write(&job, false, &text);
        char expected[1024];
        snprintf(expected, sizeof expected,
                 "{\"prompt\":\"x\",\"width\":1024,\"height\":1024,\"steps\":8%s%s}",
                 *written ? "," : "", written);
        assert_string_equal(text.at, expected);
        assert_int_equal(
            kiln_job_line_parse(text.at, text.len, &nothing_known, &back, &has_seed, &err), 0);
        assert_true(kiln_mode_same(&back.mode, &job.mode));
        assert_true(back.init_job == job.init_job && back.parent == job.parent);
        assert_int_equal(back.init_mask != NULL, job.init_mask != NULL);
        kiln_job_release(&job);
        job = back;
    }
    kiln_job_release(&job);
    kiln_text_release(&text);
}

/* Hashes of these lines are keys of jobs: none of the texts may ever change (test_job_line.c). */
static void written_lines_say_it_shortly(void **state)
{
    (void)state;
    canonical("", &nothing_known, "");
    canonical("\"coarse\":\"off\"", &nothing_known, "\"coarse\":\"off\"");
    canonical("\"coarse\":\"auto\"", &nothing_known, "\"coarse\":\"auto\"");
    canonical("\"coarse_sigma\":0.8,\"coarse\":\"4+3\"", &nothing_known,
              "\"coarse\":\"4+3\",\"coarse_sigma\":0.8");
    canonical("\"coarse_sigma\":0.8,\"coarse\":\"3+1+3\"", &nothing_known,
              "\"coarse\":\"3+1+3\",\"coarse_sigma\":0.8");
    canonical("\"coarse_sigma\":0.75,\"coarse\":\"4+3\"", &nothing_known, "\"coarse\":\"4+3\"");
    canonical(IMAGE ",\"strength\":0.6,\"coarse\":\"auto\"", &nothing_known, IMAGE);
    canonical(IMAGE ",\"strength\":0.55", &nothing_known, IMAGE);
    canonical("\"init_job\":7,\"strength\":0.26", &nothing_known,
              "\"init_job\":7,\"strength\":0.3");
    canonical("\"init_job\":7,\"start_sigma\":0.12346", &nothing_known,
              "\"init_job\":7,\"start_sigma\":0.1235");
    canonical("\"edit\":true,\"init_job\":7,\"strength\":0.26", &nothing_known,
              "\"init_job\":7,\"strength\":0.3,\"edit\":true");
    canonical("\"edit\":false,\"init_job\":7", &nothing_known, "\"init_job\":7");
    canonical("\"parent\":7,\"init_job\":7", &nothing_known, "\"init_job\":7");
    canonical("\"parent\":5,\"init_job\":7", &nothing_known, "\"init_job\":7,\"parent\":5");
    canonical("\"parent\":5,\"coarse\":\"4+3\"", &nothing_known, "\"coarse\":\"4+3\",\"parent\":5");
    canonical(MASK "," IMAGE ",\"strength\":1", &nothing_known, IMAGE "," MASK);
    canonical(MASK "," IMAGE, &nothing_known, IMAGE "," MASK);
    canonical("\"init_job\":7," MASK ",\"strength\":0.55", &nothing_known,
              "\"init_job\":7," MASK ",\"strength\":0.6");
    canonical("\"init_job\":7," MASK ",\"start_sigma\":1", &nothing_known,
              "\"init_job\":7," MASK ",\"start_sigma\":1");
}

static void every_step_has_a_strength(void **state)
{
    (void)state;
    struct kiln_mode mode;
    for (uint32_t steps = 1; steps <= KILN_STEPS_MAX; steps++)
        for (uint32_t step = 0; step < steps; step++) {
            double strength = kiln_mode_strength(step, steps);
            assert_true(kiln_mode_of_strength(strength, steps, &mode));
            assert_int_equal(mode.step, step);
            assert_true(strength == nearbyint(strength * 100) / 100);
        }
    assert_true(kiln_mode_strength(3, 8) == 0.6 && kiln_mode_strength(0, 8) == 1);
}

static void bad_values_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"\"coarse\":\"on\"", "coarse is \"on\"; it must be \"off\", \"auto\" or \"S+L\""},
        {"\"coarse\":true", "coarse is true"},
        {"\"coarse\":\"4+0\"", "coarse is \"4+0\""},
        {"\"coarse\":\"4+3@0.8\"", "coarse is \"4+3@0.8\""},
        {"\"coarse\":\"9+3\"", "coarse \"9+3\": 9 steps before the full size, but steps is 8"},
        {"\"coarse\":\"6+3+3\"", "coarse \"6+3+3\": 9 steps before the full size, but steps is 8"},
        {"\"coarse\":\"3+1+3\",\"size\":\"1008x1024\"",
         "coarse \"3+1+3\": 1008x1024 is too small for three sizes; both sides must be at least "
         "1024"},
        {"\"coarse\":\"3+1+3\",\"latents\":\"trajectory\"",
         "coarse and latents \"trajectory\" are both given"},
        {"\"coarse\":\"3+1+3\"," IMAGE, "coarse and a start (init_image or init_job)"},
        {"\"coarse\":\"4+3\",\"size\":\"112x1024\"",
         "coarse: 112x1024 is too small; both sides must be at least 128"},
        {"\"coarse\":\"4+3\",\"latents\":\"trajectory\"",
         "coarse and latents \"trajectory\" are both given"},
        {"\"coarse\":\"4+3\",\"sigmas\":\"0.9\"", "coarse and latents \"trajectory\""},
        {"\"coarse\":\"4+3\"," IMAGE, "coarse and a start (init_image or init_job) are both given"},
        {"\"coarse\":\"4+3\",\"init_job\":1", "coarse and a start"},
        {"\"coarse_sigma\":0.5", "coarse_sigma is given without coarse \"S+L\""},
        {"\"coarse_sigma\":0.5,\"coarse\":\"auto\"",
         "coarse_sigma needs coarse \"S+L\", such as \"4+3\", but coarse is auto"},
        {"\"coarse_sigma\":0,\"coarse\":\"4+3\"", "coarse_sigma is 0; it must be a number above 0"},
        {"\"coarse_sigma\":1,\"coarse\":\"4+3\"", "coarse_sigma is 1;"},
        {"\"coarse_sigma\":0.99999,\"coarse\":\"4+3\"", "coarse_sigma is 0.99999;"},
        {"\"coarse_sigma\":\"x\",\"coarse\":\"4+3\"", "coarse_sigma is \"x\";"},
        {IMAGE ",\"init_job\":1", "init_image and init_job are both given; keep one"},
        {MASK, "init_mask is given without a start; init_image or init_job names one"},
        {MASK ",\"strength\":0.5", "init_mask is given without a start"},
        {MASK ",\"coarse\":\"4+3\"", "init_mask is given without a start"},
        {MASK "," IMAGE ",\"coarse\":\"4+3\"", "coarse and a start"},
        {MASK "," IMAGE ",\"strength\":0", "strength is 0"},
        {MASK ",\"init_job\":7,\"edit\":true", "init_mask and edit are both given; keep one"},
        {IMAGE ",\"init_mask\":\"\"", "init_mask is \"\""},
        {IMAGE ",\"init_mask\":true", "init_mask is true"},
        {IMAGE ",\"init_mask\":\"mask.png\"",
         "init_mask is \"mask.png\"; it must be the key of a stored picture"},
        {IMAGE ",\"init_mask\":\"inputs/../x.png\"", "init_mask is \"inputs/../"},
        {IMAGE ",\"strength\":0.5,\"start_sigma\":0.5",
         "strength and start_sigma are both given; keep one"},
        {"\"strength\":0.5", "strength is given without a start; init_image or init_job names one"},
        {"\"start_sigma\":0.5", "start_sigma is given without a start"},
        {IMAGE ",\"strength\":0", "strength is 0; it must be a number above 0 and at most 1"},
        {IMAGE ",\"strength\":-0.5", "strength is -0.5;"},
        {IMAGE ",\"strength\":1.01", "strength is 1.01;"},
        {IMAGE ",\"strength\":\"NaN\"", "strength is \"NaN\";"},
        {IMAGE ",\"strength\":NaN", "not valid JSON"},
        {IMAGE ",\"strength\":1e999", "strength is 1e999;"},
        {IMAGE ",\"strength\":1e-17", "strength 1e-17 of 8 steps leaves no step to run"},
        {IMAGE ",\"start_sigma\":0", "start_sigma is 0; it must be a number above 0"},
        {IMAGE ",\"start_sigma\":1.5", "start_sigma is 1.5;"},
        {IMAGE ",\"start_sigma\":0.00001", "start_sigma is 0.00001;"},
        {"\"init_job\":0", "init_job is 0; it must be the number of a job"},
        {"\"init_job\":-1", "init_job is -1"},
        {"\"init_job\":1.5", "init_job is 1.5"},
        {"\"init_job\":9223372036854775808", "init_job is 9223372036854775808"},
        {"\"edit\":true", "edit is given without a start"},
        {"\"edit\":1,\"init_job\":7", "edit is 1; it must be true or false"},
        {IMAGE ",\"edit\":true", "edit needs init_job: the prompt of a picture is not known"},
        {"\"init_job\":7,\"edit\":true,\"latents\":\"trajectory\"",
         "edit and latents \"trajectory\" are both given"},
        {"\"parent\":0", "parent is 0; it must be the number of a job, 1 or above"},
        {"\"parent\":\"17\"", "parent is \"17\""},
        {"\"parent\":9223372036854775808", "parent is 9223372036854775808"},
        {"\"parent\":1,\"parent\":2", "key \"parent\" is given twice"},
        {"\"init_image\":\"\"", "init_image is \"\""},
        {"\"init_image\":7", "init_image is 7"},
        {"\"init_image\":\"/etc/passwd\"",
         "init_image is \"/etc/passwd\"; it must be the key of a stored picture"},
        {"\"init_image\":\"cat.png\"", "init_image is \"cat.png\""},
        {"\"init_image\":\"inputs/../images/x.png\"", "init_image is \"inputs/../"},
        {"\"init_image\":\"inputs/" SHA ".PNG\"", "init_image is \"inputs/"},
        {"\"init_image\":\"inputs/" SHA "0.png\"", "init_image is \"inputs/"},
        {"\"init_image\":\"inputs/" SHA ".png/..\"", "init_image is \"inputs/"},
        {"\"init_image\":\"s3://bucket/inputs/" SHA ".png\"", "init_image is \"s3://"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[1024];
        struct kiln_job job;
        struct kiln_error err = {0};
        bool has_seed;
        snprintf(line, sizeof line, "{\"prompt\":\"x\",%s}", rows[i][0]);
        assert_int_equal(
            kiln_job_line_parse(line, strlen(line), &nothing_known, &job, &has_seed, &err),
            KILN_BAD_INPUT);
        if (!strstr(err.text, rows[i][1]))
            fail_msg("%s: \"%s\" does not say \"%s\"", line, err.text, rows[i][1]);
    }
}

/* Only where the caller uploads the file. */
static void a_path_is_taken_where_it_is_uploaded(void **state)
{
    (void)state;
    const struct kiln_job_context files = {.init_files = true};
    struct kiln_job job = parse("\"init_image\":\"pictures/my cat.png\"", &files);
    assert_string_equal(job.init_image, "pictures/my cat.png");
    kiln_job_release(&job);
    job = parse(IMAGE ",\"init_mask\":\"a mask.png\"", &files);
    assert_string_equal(job.init_mask, "a mask.png");
    kiln_job_release(&job);
}

static void keys_of_inputs_have_one_form(void **state)
{
    (void)state;
    assert_true(kiln_input_key_valid("inputs/" SHA ".webp"));
    assert_true(kiln_input_key_valid("inputs/" SHA ".png"));
    assert_true(kiln_input_key_valid("inputs/" SHA ".jpg"));
    static const char *const bad[] = {"",
                                      "inputs/",
                                      "inputs/" SHA,
                                      "inputs/" SHA ".jpeg",
                                      "inputs/" SHA ".gif",
                                      "inputs/a" SHA ".png",
                                      "Inputs/" SHA ".png",
                                      "/inputs/" SHA ".png",
                                      "images/" SHA ".png",
                                      "inputs/" SHA ".png "};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(kiln_input_key_valid(bad[i]));
}

static void keys_of_loras_have_one_form(void **state)
{
    (void)state;
    char key[KILN_LORA_KEY_MAX];
    kiln_lora_key(SHA, key);
    assert_string_equal(key, "loras/" SHA ".safetensors");
    assert_true(kiln_lora_key_valid(key));
    static const char *const bad[] = {"",
                                      "loras/",
                                      "loras/" SHA,
                                      "loras/" SHA ".safetensors.part",
                                      "loras/a" SHA ".safetensors",
                                      "inputs/" SHA ".safetensors"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(kiln_lora_key_valid(bad[i]));
    assert_true(kiln_sha256_valid(SHA));
    assert_false(kiln_sha256_valid(SHA "0"));
    assert_false(kiln_sha256_valid(""));
    static const char *const no_loras[] = {".safetensors",         "ink",
                                           "ink.safetensors.part", "i nk.safetensors",
                                           "ink.safetensor",       "loras.json"};
    assert_int_equal(kiln_lora_stem("ink-2.safetensors"), strlen("ink-2"));
    for (size_t i = 0; i < sizeof no_loras / sizeof *no_loras; i++)
        assert_int_equal(kiln_lora_stem(no_loras[i]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_say_a_mode),
        cmocka_unit_test(a_setting_applies_where_it_fits),
        cmocka_unit_test(written_lines_say_it_shortly),
        cmocka_unit_test(every_step_has_a_strength),
        cmocka_unit_test(bad_values_are_refused_by_name),
        cmocka_unit_test(a_path_is_taken_where_it_is_uploaded),
        cmocka_unit_test(keys_of_inputs_have_one_form),
        cmocka_unit_test(keys_of_loras_have_one_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
