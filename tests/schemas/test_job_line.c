/* test_job_line.c - the validator of job lines: what it fills, what it refuses and how. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/line.h"
#include "tests/support/random.h"

static const char *const loras[] = {"ink", "noir", "paper-cut"};
static const char *const models[] = {"sketch", "turbo"};
static const struct kiln_job_context known = {
    .lora_names = loras, .lora_name_count = 3, .model_names = models, .model_name_count = 2};

static struct kiln_job parse(const char *line, bool *ret_has_seed)
{
    struct kiln_job job;
    struct kiln_error err;
    if (kiln_job_line_parse(line, strlen(line), &known, &job, ret_has_seed, &err) != 0)
        fail_msg("%s: %s", line, err.text);
    return job;
}

static void check_refused(const char *line, size_t len, const char *says)
{
    struct kiln_job job;
    struct kiln_error err = {0};
    bool has_seed;
    assert_int_equal(kiln_job_line_parse(line, len, &known, &job, &has_seed, &err), KILN_BAD_INPUT);
    if (!strstr(err.text, says))
        fail_msg("%.80s: \"%s\" does not say \"%s\"", line, err.text, says);
}

static void refused(const char *line, const char *says)
{
    check_refused(line, strlen(line), says);
}

static void a_prompt_alone_takes_the_defaults(void **state)
{
    (void)state;
    bool has_seed = true;
    struct kiln_job job = parse("{\"prompt\": \"a cat\"}", &has_seed);
    assert_false(has_seed);
    assert_string_equal(job.prompt, "a cat");
    assert_string_equal(job.negative_prompt, "");
    assert_string_equal(job.batch, "");
    assert_string_equal(job.tenant, "default");
    assert_string_equal(job.model, "");
    assert_null(job.custom_id);
    assert_null(job.style);
    assert_int_equal(job.width, 1024);
    assert_int_equal(job.height, 1024);
    assert_int_equal(job.steps, 8);
    assert_true(job.guidance == 0);
    assert_int_equal(job.lora_count, 0);
    assert_false(job.lora_auto || job.embed_metadata);
    assert_int_equal(job.kind, KILN_KIND_IMAGE);
    assert_int_equal(job.latents, KILN_LATENTS_FINAL);
    assert_int_equal(job.teleport, KILN_TELEPORT_OFF);
    kiln_job_release(&job);
}

static void every_key_reaches_the_record(void **state)
{
    (void)state;
    bool has_seed = false;
    struct kiln_job job = parse("{\"prompt\":\"p\",\"negative_prompt\":\"n\",\"width\":64,"
                                "\"height\":2048,\"steps\":50,\"guidance\":3.5,"
                                "\"seed\":18446744073709551615,\"count\":1,\"loras\":[{\"name\":"
                                "\"ink\",\"scale\":-0.5},{\"name\":"
                                "\"noir\"}],\"model\":\"turbo\",\"priority\":-10,\"tenant\":\"t\","
                                "\"custom_id\":\"id \xc3\xa4\","
                                "\"kind\":\"latent-cache\",\"latents\":\"trajectory\",\"teleport\":"
                                "\"auto\",\"alike\":40,\"max_wait_s\":60,"
                                "\"embed_metadata\":true,\"template\":true}",
                                &has_seed);
    assert_true(has_seed);
    assert_true(job.seed == UINT64_MAX);
    assert_string_equal(job.negative_prompt, "n");
    assert_int_equal(job.width, 64);
    assert_int_equal(job.height, 2048);
    assert_int_equal(job.steps, 50);
    assert_true(job.guidance == 3.5);
    assert_int_equal(job.lora_count, 2);
    assert_string_equal(job.loras[0].name, "ink");
    assert_true(job.loras[0].scale == -0.5 && job.loras[1].scale == 1);
    assert_string_equal(job.model, "turbo");
    assert_int_equal(job.priority, -10);
    assert_string_equal(job.tenant, "t");
    assert_string_equal(job.custom_id, "id \xc3\xa4");
    assert_int_equal(job.kind, KILN_KIND_LATENT_CACHE);
    assert_int_equal(job.latents, KILN_LATENTS_TRAJECTORY);
    assert_int_equal(job.teleport, KILN_TELEPORT_AUTO);
    assert_int_equal(job.alike, 40);
    assert_int_equal(job.max_wait_s, 60);
    assert_true(job.embed_metadata);
    kiln_job_release(&job);
}

static void styles_put_words_around(void **state)
{
    (void)state;
    bool has_seed;
    struct kiln_job job =
        parse("{\"prompt\":\"a fox\",\"style\":\"oil-painting\",\"negative_prompt\":\"blurry\"}",
              &has_seed);
    assert_string_equal(job.prompt,
                        "oil painting of a fox, visible brush strokes, rich texture, canvas");
    assert_string_equal(job.negative_prompt, "blurry, photograph");
    assert_string_equal(job.style, "oil-painting");
    kiln_job_release(&job);
    job = parse("{\"prompt\":\"a fox\",\"style\":\"none\"}", &has_seed);
    assert_string_equal(job.prompt, "a fox");
    assert_null(job.style);
    kiln_job_release(&job);
    refused("{\"prompt\":\"x\",\"style\":\"cinematc\"}",
            "unknown style \"cinematc\"; did you mean \"cinematic\"?");
    refused("{\"prompt\":\"x\",\"style\":\"baroque\"}",
            "unknown style \"baroque\"; known are 3d-render, anime,");
    refused("{\"prompt\":\"x\",\"style\":\"anime\",\"styled\":\"anime\"}", "style and styled");
}

static void loras_have_three_forms(void **state)
{
    (void)state;
    bool has_seed;
    struct kiln_job job = parse("{\"prompt\":\"x\",\"loras\":\"none\"}", &has_seed);
    assert_false(job.lora_auto);
    kiln_job_release(&job);
    job = parse("{\"prompt\":\"x\",\"loras\":\"ink:0.8+noir\"}", &has_seed);
    assert_int_equal(job.lora_count, 2);
    assert_true(job.loras[0].scale == 0.8 && job.loras[1].scale == 1);
    kiln_job_release(&job);
    job = parse("{\"prompt\":\"x\",\"loras\":[]}", &has_seed);
    assert_int_equal(job.lora_count, 0);
    kiln_job_release(&job);
}

static void sigmas_are_put_in_order(void **state)
{
    (void)state;
    bool has_seed;
    char text[KILN_SIGMAS_TEXT_MAX];
    struct kiln_job job =
        parse("{\"prompt\":\"x\",\"sigmas\":[0.5, 1, 0.000049, 0.95]}", &has_seed);
    assert_int_equal(job.latents, KILN_LATENTS_TRAJECTORY);
    assert_int_equal(job.sigma_count, 4);
    kiln_sigmas_text(job.sigmas, job.sigma_count, text, sizeof text);
    assert_string_equal(text, "1,0.95,0.5,0");
    char *line = test_line(&job);
    assert_non_null(strstr(line, "\"sigmas\":\"1,0.95,0.5,0\""));
    kiln_job_release(&job);
    job = parse(line, &has_seed);
    assert_int_equal(job.sigma_count, 4);
    assert_true(job.sigmas[1] == 0.95);
    kiln_job_release(&job);
    free(line);
    /* The finished latent is not a state of its own kind. */
    job = parse("{\"prompt\":\"x\",\"sigmas\":\"0\",\"kind\":\"latent-cache\"}", &has_seed);
    assert_int_equal(job.latents, KILN_LATENTS_FINAL);
    assert_int_equal(job.sigma_count, 0);
    kiln_job_release(&job);
}

static void wrong_sigmas_are_refused(void **state)
{
    (void)state;
#define SIGMAS(text) "{\"prompt\":\"x\",\"sigmas\":" text "}"
    static const char *const bad[] = {
        "\"\"",      "[]",     "\"0.9,\"", "\"0.9 0.5\"",   "\"0.9,0.9\"",
        "[0.5,0.5]", "[1.01]", "[-0.1]",   "\"1e-1\"",      "[\"0.5\"]",
        "0.5",       "true",   "[.1]",     "[0.90001,0.9]", "[0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8]"};
    char line[256];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(line, sizeof line, SIGMAS("%s"), bad[i]);
        refused(line, "");
    }
    refused(SIGMAS("[0.5],\"latents\":\"final\""),
            "sigmas needs latents \"trajectory\", but latents is final");
    refused(SIGMAS("\"many\""), "up to 8 different noise levels from 0 to 1");
}

static void wrong_loras_are_named(void **state)
{
    (void)state;
#define LORAS(text) "{\"prompt\":\"x\",\"loras\":" text "}"
    refused(LORAS("[{\"name\":\"inc\"}]"), "unknown LoRA \"inc\"; did you mean \"ink\"?");
    refused(LORAS("\"papercut\""), "unknown LoRA \"papercut\"; did you mean \"paper-cut\"?");
    refused(LORAS("[{\"name\":\"watercolour\"}]"),
            "unknown LoRA \"watercolour\"; lora_dir has none like it");
    refused(LORAS("\"non\""), "unknown LoRA \"non\"; did you mean \"none\"?");
    refused(LORAS("\"nour\""), "unknown LoRA \"nour\"; did you mean \"noir\"?");
    refused(LORAS("[{\"name\":\"ink\"},{\"name\":\"ink\"}]"), "\"ink\" is named twice");
    refused(LORAS("[{\"name\":\"ink\",\"scale\":4.01}]"),
            "scale of \"ink\" is 4.01; it must be from -4 to 4");
    refused(LORAS("[{\"name\":\"ink\",\"scale\":NaN}]"),
            "NaN and Infinity are not numbers in JSON");
    refused(LORAS("[{\"name\":\"ink\",\"scale\":1e999}]"), "scale must be a number from -4 to 4");
    refused(LORAS("[{\"name\":\"ink\",\"scale\":\"1\"}]"),
            "scale must be a number from -4 to 4, not text");
    refused(LORAS("[{\"name\":\"ink\",\"weight\":1}]"),
            "unknown key \"weight\"; known are name and scale");
    refused(LORAS("[{\"name\":\"ink\",\"scale\":1,\"scale\":2}]"), "given twice");
    refused(LORAS("[{\"scale\":1}]"), "has no name");
    refused(LORAS("[\"ink\"]"), "an entry is text");
    refused(LORAS("[{\"name\":\"../ink\"}]"), "is not a name");
    refused(LORAS("[{\"name\":7}]"), "name must be a text");
    refused(LORAS("{}"), "loras is an object; it must be \"none\", \"auto\", a text");
    refused(LORAS("\"\""), "loras is \"\"");
    refused(LORAS("\"ink:big\""), "scale of \"ink\" is not a number");
    static const char four[] =
        LORAS("[{\"name\":\"ink\"},{\"name\":\"noir\"},{\"name\":\"paper-cut\"},{\"name\":\"a\"}]");
    refused(four, "more than 3");
#undef LORAS
}

static void wrong_values_are_named_with_their_limits(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } rows[] = {
        {"{}", "prompt is missing"},
        {"{\"prompt\":7}", "prompt is 7; it must be a text of up to 8192 bytes of UTF-8"},
        {"{\"prompt\":null}", "prompt is null"},
        {"{\"prompt\":\"x\",\"prompt\":\"y\"}", "key \"prompt\" is given twice"},
        {"{\"prompt\":\"x\",\"pro\\u006dpt\":\"y\"}", "key \"prompt\" is given twice"},
        {"{\"prompt\":\"x\",\"wdith\":64}", "unknown key \"wdith\"; did you mean \"width\"?"},
        {"{\"prompt\":\"x\",\"altitude\":64}", "unknown key \"altitude\"; the keys are prompt, "},
        {"{\"prompt\":\"x\",\"foo\":64}", "unknown key \"foo\"; the keys are prompt, "},
        {"{\"prompt\":\"x\",\"\":64}", "unknown key \"\"; the keys are prompt, "},
        {"{\"prompt\":\"x\",\"Seed\":64}", "did you mean \"seed\"?"},
        {"{\"prompt\":\"x\",\"steps\":0}", "steps is 0; it must be a whole number from 1 to 50"},
        {"{\"prompt\":\"x\",\"steps\":51}", "steps is 51; it must be a whole number from 1 to 50"},
        {"{\"prompt\":\"x\",\"steps\":8.5}", "steps is 8.5; it must be a whole number"},
        {"{\"prompt\":\"x\",\"steps\":\"8\"}", "steps is \"8\"; it must be a whole number"},
        {"{\"prompt\":\"x\",\"guidance\":31}", "guidance is 31; it must be a number from 0 to 30"},
        {"{\"prompt\":\"x\",\"guidance\":-1}", "guidance is -1"},
        {"{\"prompt\":\"x\",\"guidance\":Infinity}", "NaN and Infinity"},
        {"{\"prompt\":\"x\",\"width\":1000,\"height\":1024}",
         "width is 1000, which is not a multiple of 16; the "
         "nearest allowed are 992 and 1008"},
        {"{\"prompt\":\"x\",\"width\":1024,\"height\":1023}",
         "height is 1023, which is not a multiple of 16; the "
         "nearest allowed is 1024"},
        {"{\"prompt\":\"x\",\"width\":48,\"height\":64}", "from 64 to 2048"},
        {"{\"prompt\":\"x\",\"width\":64,\"height\":2064}", "from 64 to 2048"},
        {"{\"prompt\":\"x\",\"width\":1e30,\"height\":64}", "width is 1e30"},
        {"{\"prompt\":\"x\",\"width\":512}", "width is given without height"},
        {"{\"prompt\":\"x\",\"size\":\"16:9\",\"width\":64}", "size and width are both given"},
        {"{\"prompt\":\"x\",\"size\":\"16:9\",\"width\":64,\"height\":64}",
         "size and width and height"},
        {"{\"prompt\":\"x\",\"size\":\"huge\"}", "size is \"huge\""},
        {"{\"prompt\":\"x\",\"size\":1024}", "size is 1024; it must be a text such as"},
        {"{\"prompt\":\"x\",\"seed\":-1}", "seed is -1; it must be a whole number from 0 to "
                                           "18446744073709551615"},
        {"{\"prompt\":\"x\",\"seed\":18446744073709551616}", "seed is 18446744073709551616"},
        {"{\"prompt\":\"x\",\"seed\":1.5}", "seed is 1.5"},
        {"{\"prompt\":\"x\",\"seed\":\"abc\"}", "seed is \"abc\""},
        {"{\"prompt\":\"x\",\"count\":0}", "count is 0; it must be a whole number from 1 to 10000"},
        {"{\"prompt\":\"x\",\"count\":2}", "the line makes 2 pictures; only one is expected here"},
        {"{\"prompt\":\"{a|b}\"}", "the line makes 2 pictures"},
        {"{\"prompt\":\"x\",\"priority\":11}",
         "priority is 11; it must be a whole number from -10 to 10"},
        {"{\"prompt\":\"x\",\"tenant\":\"a b\"}", "tenant is \"a b\"; it must be a name"},
        {"{\"prompt\":\"x\",\"tenant\":\"\"}", "tenant is \"\""},
        {"{\"prompt\":\"x\",\"tenant\":\"backfill-x\"}",
         "tenant \"backfill-x\": Kiln's own names are"},
        {"{\"prompt\":\"x\",\"model\":\"trubo\"}",
         "unknown model \"trubo\"; did you mean \"turbo\"?"},
        {"{\"prompt\":\"x\",\"custom_id\":\"\"}", "custom_id is \"\""},
        {"{\"prompt\":\"x\",\"custom_id\":\"a\\nb\"}", "without control characters"},
        {"{\"prompt\":\"x\",\"custom_id\":\"ab\\u0085\"}",
         "custom_id: byte 3 begins U+0085; it must"},
        {"{\"prompt\":\"x\",\"custom_id\":\"\\u007f\"}", "custom_id: byte 1 begins U+007F"},
        {"{\"prompt\":\"x\",\"custom_id\":\"a\\u202eb\"}", "custom_id: byte 2 begins U+202E"},
        {"{\"prompt\":\"x\",\"custom_id\":\"\\u2028\"}", "custom_id: byte 1 begins U+2028"},
        {"{\"prompt\":\"x\",\"custom_id\":\"\\u2069\"}", "custom_id: byte 1 begins U+2069"},
        {"{\"prompt\":\"x\",\"kind\":\"video\"}",
         "kind is \"video\"; it must be \"image\" or \"latent-cache\""},
        {"{\"prompt\":\"x\",\"latents\":true}", "latents is true"},
        {"{\"prompt\":\"x\",\"kind\":\"latent-cache\",\"latents\":\"none\"}",
         "would store nothing"},
        {"{\"prompt\":\"x\",\"teleport\":\"on\"}", "it must be \"off\" or \"auto\""},
        {"{\"prompt\":\"x\",\"teleport\":\"auto\",\"alike\":101}", "alike is 101; it must"},
        {"{\"prompt\":\"x\",\"alike\":50}", "alike needs teleport \"auto\"; teleport is off"},
        {"{\"prompt\":\"x\",\"loras\":\"auto\",\"routed\":\"neon, \"}",
         "loras \"auto\" and routed are both given"},
        {"{\"prompt\":\"x\",\"loras\":\"ink\",\"routed\":\"\"}",
         "routed is \"\"; it must be the words that"},
        {"{\"prompt\":\"x\",\"max_wait_s\":2592001}", "max_wait_s is 2592001"},
        {"{\"prompt\":\"x\",\"embed_metadata\":1}",
         "embed_metadata is 1; it must be true or false"},
        {"{\"prompt\":\"x\",\"template\":\"no\"}", "template is \"no\""},
        {"\"prompt\"", "a '{' belongs here"},
        {"not json", "not valid JSON at byte 1"},
        {"{\"prompt\":\"\xff\"}", "not valid UTF-8"},
        {"{\"prompt\":\"a\\u0000b\"}", "NUL"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(rows[i].line, rows[i].says);
    check_refused("{\"prompt\":\"a\0b\"}", 16, "a NUL byte");
}

static void long_texts_are_refused_with_their_length(void **state)
{
    (void)state;
    static char line[KILN_LINE_MAX + 64];
    const char *prompt = "{\"prompt\":\"";
    strcpy(line, prompt);
    memset(line + strlen(prompt), 'x', 9 * 1024);
    strcpy(line + strlen(prompt) + 9 * 1024, "\"}");
    refused(line, "prompt is 9216 bytes of UTF-8; it must be a text of up to 8192");
    strcpy(line + strlen(prompt) + KILN_PROMPT_MAX, "\"}");
    bool has_seed;
    struct kiln_job job = parse(line, &has_seed);
    assert_int_equal(strlen(job.prompt), KILN_PROMPT_MAX);
    kiln_job_release(&job);
    strcpy(line + strlen(prompt) + KILN_PROMPT_MAX, "\",\"style\":\"anime\"}");
    refused(line, "with the words of its style; the limit is 8192");
    memset(line, ' ', KILN_LINE_MAX + 1);
    check_refused(line, KILN_LINE_MAX + 1, "the line is 65537 bytes long; the limit is 65536");
}

static void overrides_replace_keys(void **state)
{
    (void)state;
    struct kiln_job_context context = {.overrides = "{\"size\":\"16:9\",\"steps\":4}"};
    const char *line = "{\"prompt\":\"x\",\"width\":64,\"height\":64,\"steps\":50}";
    struct kiln_job job;
    struct kiln_error err;
    bool has_seed;
    assert_int_equal(kiln_job_line_parse(line, strlen(line), &context, &job, &has_seed, &err), 0);
    assert_int_equal(job.width, 1344);
    assert_int_equal(job.steps, 4);
    kiln_job_release(&job);
    context.overrides = "{\"width\":128,\"height\":256}";
    line = "{\"prompt\":\"x\",\"size\":\"1:1\"}";
    assert_int_equal(kiln_job_line_parse(line, strlen(line), &context, &job, &has_seed, &err), 0);
    assert_int_equal(job.width, 128);
    kiln_job_release(&job);
}

/* --- identity ------------------------------------------------------------------------------ */

/* Releases store the hash of a canonical line as the job's key: a line that is written in other
 * bytes would be drawn again when its batch is sent again.  None of these texts may ever change. */
static void a_canonical_line_never_changes(void **state)
{
    (void)state;
    static const struct {
        const char *line, *canonical;
    } cases[] = {
        {"{\"prompt\":\"a cat\"}",
         "{\"prompt\":\"a cat\",\"width\":1024,\"height\":1024,\"steps\":8}"},
        {"{\"prompt\":\"a cat\",\"teleport\":\"off\",\"max_wait_s\":5}",
         "{\"prompt\":\"a cat\",\"width\":1024,\"height\":1024,\"steps\":8,\"teleport\":\"off\","
         "\"max_wait_s\":5}"},
        {"{\"prompt\":\"a\\u0001\\u007f\\u0085\\u2028\\u202e\\u2066\\t\\n\",\"loras\":\"none\"}",
         "{\"prompt\":\"a\\u0001\x7f\xc2\x85\xe2\x80\xa8\xe2\x80\xae\xe2\x81\xa6\\t\\n\",\"width\":"
         "1024,"
         "\"height\":1024,\"steps\":8}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool has_seed;
        struct kiln_job job = parse(cases[i].line, &has_seed), back;
        struct kiln_text text = {0};
        kiln_job_line_write(&job, false, &text);
        assert_string_equal(text.at, cases[i].canonical);
        back = parse(text.at, &has_seed);
        kiln_text_clear(&text);
        kiln_job_line_write(&back, false, &text);
        assert_string_equal(text.at, cases[i].canonical);
        kiln_text_release(&text);
        kiln_job_release(&job);
        kiln_job_release(&back);
    }
}

/* --- round trip ---------------------------------------------------------------------------- */

static char *random_text(struct test_random *random, uint32_t max)
{
    static const char *const pieces[] = {
        "{",    "}", "|",   "\\",       "\"",           "\n",
        "\x01", " ", "cat", "\xc3\xa9", "\xe7\x8c\xab", "\xf0\x9f\x90\x88",
        "/",    "a", "7",   ","};
    char *text = calloc(1, max * 4 + 1);
    for (uint32_t n = test_random_below(random, max); n > 0; n--)
        strcat(text, pieces[test_random_below(random, sizeof pieces / sizeof *pieces)]);
    return text;
}

static void random_mode(struct test_random *random, struct kiln_job *job)
{
    uint32_t which = test_random_below(random, 5);
    if (which < 2) {
        job->mode.kind = which ? KILN_MODE_START_SIGMA : KILN_MODE_START_STEP;
        job->mode.step = which ? 0 : test_random_below(random, job->steps);
        job->mode.sigma = which ? (1 + test_random_below(random, 10000)) / 1e4 : 0;
        if (test_random_below(random, 2))
            job->init_job = job->parent = 1 + (test_random_u64(random) >> 1) / 2;
        else
            job->init_image = strdup("inputs/0123456789abcdef0123456789abcdef"
                                     "0123456789abcdef0123456789abcdef.webp");
        if (test_random_below(random, 2)) {
            job->mode.masked = true;
            job->init_mask = strdup("inputs/0123456789abcdef0123456789abcdef"
                                    "0123456789abcdef0123456789abcdee.png");
        }
    } else if (which < 4 && job->width >= 128 && job->height >= 128 && job->latents == 0) {
        bool pair = which == 2;
        job->mode.kind = pair ? KILN_MODE_COARSE : KILN_MODE_COARSE_AUTO;
        job->mode.small = pair ? 1 + test_random_below(random, job->steps) : 0;
        if (pair && job->width >= 1024 && job->height >= 1024)
            job->mode.middle = test_random_below(random, job->steps - job->mode.small + 1);
        job->mode.full = pair ? 1 + test_random_below(random, 50) : 0;
        job->mode.sigma = pair ? (1 + test_random_below(random, 9999)) / 1e4 : 0;
    }
    if (test_random_below(random, 3) == 0)
        job->mode.variety = test_random_below(random, 10001) / 1e4;
}

static void random_job(struct test_random *random, struct kiln_job *job)
{
    *job = (struct kiln_job){
        .width = 64 + 16 * test_random_below(random, 125),
        .height = 64 + 16 * test_random_below(random, 125),
        .steps = 1 + test_random_below(random, 50),
        .guidance = test_random_below(random, 2) ? 0 : test_random_below(random, 3001) / 100.0,
        .seed = test_random_u64(random) >> test_random_below(random, 64),
        .priority = (int32_t)test_random_below(random, 21) - 10,
        .max_wait_s = test_random_below(random, 2) * test_random_below(random, 2592001),
        .kind = test_random_below(random, 2),
        .latents = test_random_below(random, 2),
        .teleport = KILN_TELEPORT_AUTO,
        .teleport_said = true,
        .alike = test_random_below(random, 101),
        .embed_metadata = test_random_below(random, 2),
        .lora_count = test_random_below(random, 4)};
    for (uint32_t i = 0; i < job->lora_count; i++) {
        strcpy(job->loras[i].name, loras[i]);
        job->loras[i].scale = (double)(int)test_random_below(random, 8000001) / 1e6 - 4;
    }
    random_mode(random, job);
    job->batch = strdup("");
    job->prompt = random_text(random, 60);
    job->negative_prompt = random_text(random, 20);
    job->style = test_random_below(random, 2) ? strdup("anime") : NULL;
    job->custom_id = test_random_below(random, 2) ? strdup("id-\xc3\xa9 \"7\"") : NULL;
    job->tenant = strdup(test_random_below(random, 2) ? "default" : "studio");
    job->model = strdup(test_random_below(random, 2) ? "" : "turbo");
}

static void assert_same_text(const char *a, const char *b)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a)
        assert_string_equal(a, b);
}

static void assert_same_job(const struct kiln_job *a, const struct kiln_job *b)
{
    assert_same_text(a->prompt, b->prompt);
    assert_same_text(a->negative_prompt, b->negative_prompt);
    assert_same_text(a->style, b->style);
    assert_same_text(a->custom_id, b->custom_id);
    assert_same_text(a->tenant, b->tenant);
    assert_same_text(a->model, b->model);
    assert_true(a->seed == b->seed && a->guidance == b->guidance);
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->height, b->height);
    assert_int_equal(a->steps, b->steps);
    assert_int_equal(a->priority, b->priority);
    assert_int_equal(a->max_wait_s, b->max_wait_s);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->latents, b->latents);
    assert_int_equal(a->teleport, b->teleport);
    assert_int_equal(a->alike, b->alike);
    assert_int_equal(a->embed_metadata, b->embed_metadata);
    assert_same_text(a->init_image, b->init_image);
    assert_same_text(a->init_mask, b->init_mask);
    assert_int_equal(a->mode.masked, b->mode.masked);
    assert_true(a->init_job == b->init_job && a->parent == b->parent);
    assert_true(kiln_mode_same(&a->mode, &b->mode));
    assert_int_equal(a->lora_auto, b->lora_auto);
    assert_int_equal(a->lora_count, b->lora_count);
    for (uint32_t i = 0; i < a->lora_count; i++) {
        assert_string_equal(a->loras[i].name, b->loras[i].name);
        assert_true(a->loras[i].scale == b->loras[i].scale);
    }
}

static void a_job_survives_its_line(void **state)
{
    (void)state;
    struct test_random random = {77};
    for (int i = 0; i < 5000; i++) {
        struct kiln_job job;
        random_job(&random, &job);
        char *line = test_line(&job);
        bool has_seed = false;
        struct kiln_job back = parse(line, &has_seed);
        assert_true(has_seed);
        assert_same_job(&job, &back);
        char *again = test_line(&back);
        assert_string_equal(line, again);
        free(line);
        free(again);
        kiln_job_release(&job);
        kiln_job_release(&back);
    }
}

static void damaged_lines_are_refused_or_good(void **state)
{
    (void)state;
    struct test_random random = {78};
    for (int i = 0; i < 20000; i++) {
        struct kiln_job job, back;
        struct kiln_error err = {0};
        bool has_seed;
        random_job(&random, &job);
        char *line = test_line(&job);
        size_t len = strlen(line);
        for (int edits = 0; edits < 3; edits++)
            line[test_random_below(&random, (uint32_t)len)] = (char)test_random_below(&random, 256);
        if (kiln_job_line_parse(line, len, &known, &back, &has_seed, &err) == 0)
            kiln_job_release(&back);
        else
            assert_true(strlen(err.text) > 5);
        free(line);
        kiln_job_release(&job);
    }
}

static void seeds_follow_batch_and_key(void **state)
{
    (void)state;
    const char *key = "h:0123456789abcdef#0";
    uint64_t seed = kiln_seed_derive("b", key);
    assert_true(seed == kiln_seed_derive("b", key));
    assert_true(seed != kiln_seed_derive("b", "h:0123456789abcdef#1"));
    assert_true(seed != kiln_seed_derive("c", key));
    for (char other[] = "k0"; other[1] <= '9'; other[1]++)
        assert_true(kiln_seed_derive("b", other) < UINT64_C(1) << 53);
    /* printf 'kiln seed\0b\0h:0123456789abcdef#0' | sha256sum, the low 53 of the first 64 bits */
    assert_true(seed == 0x7d8afd443e095u);
}

static void keys_follow_content_and_copy(void **state)
{
    (void)state;
    uint8_t digest[32] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xff};
    char key[KILN_LINE_KEY_MAX];
    kiln_job_line_key(digest, 0, key);
    assert_string_equal(key, "h:0123456789abcdef#0");
    kiln_job_line_key(digest, UINT32_MAX, key);
    assert_string_equal(key, "h:0123456789abcdef#4294967295");
}

static void prompt_hashes_tell_texts_apart(void **state)
{
    (void)state;
    char a[65], b[65];
    kiln_prompt_hash("ab", "c", a);
    kiln_prompt_hash("a", "bc", b);
    assert_string_not_equal(a, b);
    kiln_prompt_hash("ab", "c", b);
    assert_string_equal(a, b);
    /* printf 'kiln prompt 2 1 abc' | sha256sum */
    assert_string_equal(a, "4be7df7ecfb41a04a6be4b4a8b30b1819c879dc56fd8959ff30d42756df11e6f");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_alone_takes_the_defaults),
        cmocka_unit_test(every_key_reaches_the_record),
        cmocka_unit_test(sigmas_are_put_in_order),
        cmocka_unit_test(wrong_sigmas_are_refused),
        cmocka_unit_test(styles_put_words_around),
        cmocka_unit_test(loras_have_three_forms),
        cmocka_unit_test(wrong_loras_are_named),
        cmocka_unit_test(wrong_values_are_named_with_their_limits),
        cmocka_unit_test(long_texts_are_refused_with_their_length),
        cmocka_unit_test(overrides_replace_keys),
        cmocka_unit_test(a_canonical_line_never_changes),
        cmocka_unit_test(a_job_survives_its_line),
        cmocka_unit_test(damaged_lines_are_refused_or_good),
        cmocka_unit_test(seeds_follow_batch_and_key),
        cmocka_unit_test(keys_follow_content_and_copy),
        cmocka_unit_test(prompt_hashes_tell_texts_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
