/* test_model_card.c - kiln.json: what it says, what is refused by name, and when auto is exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/storage/card.h"

static const char whole[] =
    " {\"coarse\": {\"auto\": \"4+3\", \"sizes\": [\"256x256\", \"448x256\"],\n"
    "  \"for\": [\"512x512\", \"640x640..768x1024\"], \"later\": {\"x\": [1]}},\n"
    "  \"teleport\": {\"auto\": 7}}\n";

static void a_card_is_read(void **state)
{
    (void)state;
    struct kiln_model_card card = parse(whole);
    assert_int_equal(card.coarse.kind, KILN_MODE_COARSE);
    assert_int_equal(card.coarse.small, 4);
    assert_int_equal(card.coarse.full, 3);
    assert_true(card.coarse.sigma == KILN_COARSE_SIGMA);
    assert_int_equal(card.coarse_steps, 8);
    assert_int_equal(card.coarse_size_count, 2);
    assert_int_equal(card.coarse_sizes[1].width, 448);
    assert_int_equal(card.coarse_sizes[1].height, 256);
    assert_int_equal(card.coarse_for_count, 2);
    assert_int_equal(card.coarse_for[0].width_max, 512);
    assert_int_equal(card.coarse_for[1].height_max, 1024);
    assert_int_equal(parse("{\"coarse\": {\"auto\": \"off\"}}").coarse.kind, KILN_MODE_EXACT);
    assert_int_equal(parse("{}").coarse_for_count, 0);
    assert_int_equal(parse("{\"coarse\": {\"auto\": \"2+2\", \"steps\": 4}}").coarse_steps, 4);
    assert_int_equal(parse("{\"coarse\": {\"auto\": \"3+1+3\"}}").coarse.middle, 1);
}

static void sizes_are_known_or_not(void **state)
{
    char text[64];
    (void)state;
    struct kiln_model_card card = parse("{\"sizes\": [\"256x256..512x512\", \"896x512\"]}");
    assert_true(kiln_model_card_knows(&card, 256, 512) && kiln_model_card_knows(&card, 896, 512));
    assert_false(kiln_model_card_knows(&card, 512, 896) || kiln_model_card_knows(&card, 240, 256));
    assert_string_equal(kiln_model_card_sizes_text(&card, text, sizeof text),
                        "256x256..512x512, 896x512");
    assert_int_equal(strlen(kiln_model_card_sizes_text(&card, text, 20)), 19); /* cut */
    card = parse("{}");
    assert_true(kiln_model_card_knows(&card, 2048, 64));
}

static const struct kiln_mode automatic = {.kind = KILN_MODE_COARSE_AUTO};

static void a_schedule_is_read(void **state)
{
    (void)state;
    struct kiln_model_card card = parse("{\"schedule\": {\"steps\": 4}}");
    assert_int_equal(card.steps, 4);
    assert_null(kiln_model_card_sigmas(&card, 4));
    card = parse("{\"schedule\": {\"sigmas\": [1, 0.75, 1e-2]}, \"later\": 1}");
    assert_int_equal(card.steps, 3);
    assert_int_equal(card.sigma_count, 3);
    assert_true(kiln_model_card_sigmas(&card, 3) == card.sigmas);
    assert_true(card.sigmas[1] == 0.75 && card.sigmas[2] == 0.01);
    assert_null(kiln_model_card_sigmas(&card, 8));
    assert_int_equal(parse("{}").steps, 0);
    assert_true(card.noise == 0);
    card = parse("{\"schedule\": {\"steps\": 2, \"sigmas\": [0.999, 0.6], \"noise\": 1}}");
    assert_true(card.noise == 1 && card.sigmas[0] == 0.999);
    assert_true(parse("{\"schedule\": {\"noise\": 0.8}}").noise == 0.8);
}

static void bad_schedules_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *schedule, *says;
    } cases[] = {
        {"[4]", "\"schedule\": expected an object"},
        {"{\"steps\": 0}", "\"schedule.steps\": expected a number of steps, 1 to 50"},
        {"{\"steps\": \"4\"}", "\"schedule.steps\""},
        {"{\"sigmas\": 1}", "\"schedule.sigmas\": expected a list"},
        {"{\"sigmas\": []}", "at least one"},
        {"{\"sigmas\": [0.89, 0.5]}", "\"schedule.sigmas\": number 1: expected noise levels"},
        {"{\"sigmas\": [1.001, 0.5]}", "number 1"},
        {"{\"sigma\": [1, 0.5]}", "\"schedule\": unknown key \"sigma\"; there are \"steps\", "},
        {"{\"noise\": 1.01}", "\"schedule.noise\": expected a number from 0 to 1"},
        {"{\"noise\": -0.1}", "\"schedule.noise\""},
        {"{\"noise\": \"1\"}", "\"schedule.noise\""},
        {"{\"sigmas\": [1, 1]}", "number 2"},
        {"{\"sigmas\": [1, 0.5, 0]}", "number 3"},
        {"{\"sigmas\": [1, null]}", "number 2"},
        {"{\"steps\": 4, \"sigmas\": [1, 0.5]}", "4 steps, but 2 sigmas"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text, "{\"schedule\": %s}", cases[i].schedule);
        expect_refused(text, cases[i].says);
    }
}

#define FAST "00000000000000000000000000000000000000000000000000000000000000cc"

static void weights_of_steps_are_read(void **state)
{
    (void)state;
    struct kiln_model_card card =
        parse("{\"schedule\": {\"steps\": 4, \"weights\": ["
              "{\"steps\": [1, 2], \"lora\": \"loras/fast.safetensors\", \"sha256\": \"" FAST "\"},"
              "{\"scale\": -0.5, \"steps\": [4, 4], \"lora\": \"b\", \"sha256\": \"" FAST "\"}]}}");
    char path[KILN_CARD_PATH_MAX];
    assert_int_equal(card.weight_count, 2);
    assert_int_equal(card.weights[0].first, 0);
    assert_int_equal(card.weights[0].end, 2);
    assert_true(card.weights[0].scale == 1 && card.weights[1].scale == -0.5);
    assert_int_equal(card.weights[1].first, 3);
    assert_int_equal(card.weights[1].end, 4);
    assert_string_equal(card.weights[1].sha256, FAST);
    kiln_card_weights_path(&card.weights[0], "m", path);
    assert_string_equal(path, "m/loras/fast.safetensors");
    assert_false(card.weights[0].transformer || card.weights[1].transformer);
    card = parse("{\"schedule\": {\"steps\": 4, \"weights\": ["
                 "{\"steps\": [1, 2], \"transformer\": \"sets/base\", \"sha256\": \"" FAST "\"},"
                 "{\"steps\": [2, 3], \"lora\": \"b\", \"sha256\": \"" FAST "\"},"
                 "{\"steps\": [3, 3], \"transformer\": \"c\", \"sha256\": \"" FAST "\"}]}}");
    assert_int_equal(card.weight_count, 3);
    assert_true(card.weights[0].transformer && !card.weights[1].transformer);
    assert_string_equal(card.weights[0].path, "sets/base");
    assert_int_equal(card.weights[0].end, 2);
}

static void bad_weights_are_refused_by_name(void **state)
{
    (void)state;
#define SHA ", \"sha256\": \"" FAST "\""
#define OF ", \"lora\": \"b\"" SHA "}"
    static const struct {
        const char *weights, *says;
    } cases[] = {
        {"{}", "expected a list"},
        {"[3]", "expected an object"},
        {"[{\"steps\": [1, 2]}]", "number 1 lacks \"lora\""},
        {"[{\"steps\": [1, 2], \"lora\": \"b\"}]", "number 1 lacks \"sha256\""},
        {"[{\"lora\": \"b\", \"sha256\": \"" FAST "\"}]", "number 1 lacks \"steps\""},
        {"[{\"steps\": [1]" OF "]", "the first and the last step"},
        {"[{\"steps\": [1, 2, 3]" OF "]", "the first and the last step"},
        {"[{\"steps\": [2, 1]" OF "]", "the first and the last step"},
        {"[{\"steps\": [0, 1]" OF "]", "the first and the last step"},
        {"[{\"steps\": 2" OF "]", "the first and the last step"},
        {"[{\"steps\": [1, 5]" OF "]", "\"schedule.weights\": number 1: step 5 of 4"},
        {"[{\"lora\": \"/etc/passwd\"}]", "inside the model's directory"},
        {"[{\"lora\": \"../x\"}]", "inside the model's directory"},
        {"[{\"lora\": \"\"}]", "inside the model's directory"},
        {"[{\"sha256\": \"cc\"}]", "64 hex digits"},
        {"[{\"scael\": 1}]", "\"schedule.weights\": unknown key \"scael\"; there are \"steps\""},
        {"[{\"scale\": 5}]", "\"scale\": expected a number from -4 to 4"},
        {"[{\"transformer\": \"/t\"}]", "path of a folder inside the model's directory"},
        {"[{\"transformer\": \"../t\"}]", "path of a folder inside the model's directory"},
        {"[{\"transformer\": \"\"}]", "path of a folder inside the model's directory"},
        {"[{\"transformer\": 3}]", "path of a folder inside the model's directory"},
        {"[{\"transformer\": \"a//b\"}]", "names with one \"/\" between them"},
        {"[{\"transformer\": \"a/\"}]", "names with one \"/\" between them"},
        {"[{\"transformer\": \"./a\"}]", "names with one \"/\" between them"},
        {"[{\"transformer\": \"a/./b\"}]", "names with one \"/\" between them"},
        {"[{\"transformer\": \"transformer\"}]", "is what steps without an entry have"},
        {"[{\"transformer\": \"a\", \"lora\": \"b\"}]", "beside another name of weights"},
        {"[{\"lora\": \"b\", \"transformer\": \"a\"}]", "beside another name of weights"},
        {"[{\"steps\": [1, 2], \"transformer\": \"a\"}]", "number 1 lacks \"sha256\""},
        {"[{\"steps\": [1, 2], \"scale\": 2, \"transformer\": \"a\"" SHA "}]",
         "number 1: \"scale\" is for LoRAs"},
        {"[{\"steps\": [1, 2], \"transformer\": \"a\"" SHA
         "}, {\"steps\": [2, 3], \"transformer\": \"b\"" SHA "}]",
         "number 2: its steps are also those of the transformer of number 1"},
        {"[{\"steps\": [1, 1]" OF ",{\"steps\": [1, 1]" OF ",{\"steps\": [1, 1]" OF
         ",{\"steps\": [1, 1]" OF ",{\"steps\": [1, 1]" OF "]",
         "at most 4 weights"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text, "{\"schedule\": {\"steps\": 4, \"weights\": %s}}",
                 cases[i].weights);
        expect_refused(text, cases[i].says);
    }
    struct kiln_model_card card;
    struct kiln_error err;
    static const char stepless[] = "{\"schedule\": {\"weights\": [{\"steps\": [1, 1]" OF "]}}";
    assert_int_equal(kiln_model_card_parse(stepless, sizeof stepless - 1, "x", &card, &err),
                     KILN_CONFIG);
    assert_non_null(strstr(err.text, "weights, but no number of steps"));
}

static uint32_t steps_with(const char *model, const char *steps, int *ret_code)
{
    struct kiln_config *config = kiln_config_new();
    struct kiln_error err;
    struct kiln_job_context context = {.steps = 0};
    assert_int_equal(kiln_config_set(config, "model", model, "test", &err), 0);
    if (steps)
        assert_int_equal(kiln_config_set(config, "default_steps", steps, "test", &err), 0);
    *ret_code = kiln_model_card_context(config, &context, &err);
    kiln_config_free(config);
    return context.steps;
}

static void write_card(const char *dir, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "%s/kiln.json", dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

static void steps_are_the_models_unless_a_setting_says_more(void **state)
{
    (void)state;
    char dir[] = "/tmp/kiln-card-XXXXXX", path[64];
    int code;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(steps_with("", NULL, &code), KILN_STEPS_DEFAULT);
    assert_int_equal(steps_with("/nowhere", NULL, &code), KILN_STEPS_DEFAULT);
    assert_int_equal(steps_with(dir, NULL, &code), KILN_STEPS_DEFAULT);
    write_card(dir, "{\"schedule\": {\"sigmas\": [1, 0.5]}}");
    assert_int_equal(steps_with(dir, NULL, &code), 2);
    assert_int_equal(steps_with(dir, "0", &code), 2);
    assert_int_equal(steps_with(dir, "12", &code), 12);
    assert_int_equal(code, 0);
    write_card(dir, "{\"schedule\": 2}");
    steps_with(dir, NULL, &code);
    assert_int_equal(code, KILN_CONFIG);
    snprintf(path, sizeof path, "%s/kiln.json", dir);
    unlink(path);
    rmdir(dir);
}

static struct kiln_mode mode_at(const struct kiln_model_card *card, uint32_t width, uint32_t height,
                                uint32_t steps, double guidance)
{
    const struct kiln_card_picture picture = {
        .width = width, .height = height, .steps = steps, .guidance = guidance};
    return kiln_model_card_mode(card, &automatic, &picture);
}

static void auto_is_coarse_only_where_it_was_measured(void **state)
{
    (void)state;
    struct kiln_model_card card = parse(whole), none = {0};
    assert_int_equal(mode_at(&card, 512, 512, 8, 0).kind, KILN_MODE_COARSE);
    assert_int_equal(mode_at(&card, 768, 640, 8, 0).kind, KILN_MODE_COARSE);
    assert_int_equal(mode_at(&card, 768, 1024, 8, 0).small, 4);
    assert_int_equal(mode_at(&card, 784, 1024, 8, 0).kind, KILN_MODE_EXACT);
    assert_int_equal(mode_at(&card, 768, 1040, 8, 0).kind, KILN_MODE_EXACT);
    assert_int_equal(mode_at(&card, 512, 528, 8, 0).kind, KILN_MODE_EXACT);
    assert_int_equal(mode_at(&card, 512, 512, 9, 0).kind, KILN_MODE_EXACT);
    assert_int_equal(mode_at(&card, 512, 512, 8, 3.5).kind, KILN_MODE_EXACT);
    assert_int_equal(mode_at(&none, 512, 512, 8, 0).kind, KILN_MODE_EXACT);
    const struct kiln_mode varied = {.kind = KILN_MODE_COARSE_AUTO, .variety = 0.3};
    const struct kiln_card_picture fits = {.width = 512, .height = 512, .steps = 8};
    assert_int_equal(kiln_model_card_mode(&card, &varied, &fits).kind, KILN_MODE_EXACT);
    assert_true(kiln_model_card_mode(&card, &varied, &fits).variety == 0.3);
    const struct kiln_mode said = {.kind = KILN_MODE_COARSE, .small = 2, .full = 2, .sigma = 0.8};
    const struct kiln_card_picture any = {.width = 64, .height = 64, .steps = 30, .guidance = 7};
    assert_int_equal(kiln_model_card_mode(&none, &said, &any).small, 2);
}

#define NEON "00000000000000000000000000000000000000000000000000000000000000aa"
#define CLAY "00000000000000000000000000000000000000000000000000000000000000bb"

static const char with_loras[] =
    "{\"coarse\": {\"auto\": \"4+3\", \"for\": [\"512x512..768x768\"],"
    " \"loras\": [{\"name\": \"neon\", \"sha256\": \"" NEON "\", \"strength\": 0.8,"
    " \"for\": [\"512x512\", \"640x512\"]},"
    " {\"sha256\": \"" CLAY "\", \"for\": [\"768x768\", \"1024x1024\"]}]}}";

static bool coarse_with(const struct kiln_model_card *card, uint32_t side, const char *sha256,
                        double scale, uint32_t count)
{
    const struct kiln_card_picture picture = {.width = side,
                                              .height = side,
                                              .steps = 8,
                                              .lora_count = count,
                                              .lora_sha256 = sha256,
                                              .lora_scale = scale};
    return kiln_model_card_mode(card, &automatic, &picture).kind == KILN_MODE_COARSE;
}

static void auto_with_a_lora_is_coarse_only_if_that_file_was_measured(void **state)
{
    (void)state;
    struct kiln_model_card card = parse(with_loras), bare = parse(whole);
    assert_int_equal(card.coarse_lora_count, 2);
    assert_int_equal(card.coarse_loras[0].size_count, 2);
    assert_true(card.coarse_loras[1].strength == 1);
    assert_true(coarse_with(&card, 512, NULL, 0, 0));
    assert_true(coarse_with(&card, 512, NEON, 0.8, 1));
    assert_true(coarse_with(&card, 512, NEON, (double)0.8f, 1)); /* of a command line */
    assert_true(coarse_with(&card, 512, NEON, 0, 1));
    assert_false(coarse_with(&card, 512, NEON, 0.81, 1)); /* stronger than measured */
    assert_false(coarse_with(&card, 512, NEON, -0.1, 1));
    assert_false(coarse_with(&card, 768, NEON, 0.8, 1)); /* not measured at this size */
    assert_true(coarse_with(&card, 768, CLAY, 1, 1));
    assert_false(coarse_with(&card, 1024, CLAY, 1, 1)); /* the model alone was not good there */
    assert_false(coarse_with(&card, 512, CLAY, 1, 1));
    assert_false(coarse_with(&card, 512, NEON, 0.5, 2)); /* two LoRAs together */
    assert_false(coarse_with(&card, 512, NULL, 0.5, 1)); /* its file cannot be read */
    assert_false(coarse_with(&bare, 512, NEON, 0.5, 1));
}

static void auto_holds_for_the_model_and_dtype_that_were_measured(void **state)
{
    (void)state;
    static const char text[] = "{\"coarse\": {\"auto\": \"4+3\", \"for\": [\"512x512\"],"
                               " \"sizes\": [\"256x256\"], \"model\": \"0123456789abcdef\","
                               " \"dtypes\": [\"fp32\", \"bf16\"]}}";
    static const char hash[] = "0123456789abcdef";
    char why[KILN_CARD_WHY];
    struct kiln_model_card card = parse(text);
    assert_true(kiln_model_card_fits(&card, hash, "bf16", why));
    assert_string_equal(why, "");
    assert_true(kiln_model_card_fits(&card, hash, "fp32", why));
    assert_int_equal(mode_at(&card, 512, 512, 8, 0).kind, KILN_MODE_COARSE);
    assert_false(kiln_model_card_fits(&card, hash, "fp8", why));
    assert_non_null(strstr(why, "was not measured with fp8"));
    assert_int_equal(mode_at(&card, 512, 512, 8, 0).kind, KILN_MODE_EXACT);
    assert_int_equal(card.coarse_size_count, 1); /* for jobs that say 4+3 themselves */
    assert_true(kiln_model_card_fits(&card, hash, "fp8", why)); /* it is said once */
    card = parse(text);
    assert_false(kiln_model_card_fits(&card, "fedcba9876543210", "bf16", why));
    assert_non_null(strstr(why, "(0123456789abcdef, not fedcba9876543210)"));
    assert_int_equal(mode_at(&card, 512, 512, 8, 0).kind, KILN_MODE_EXACT);
    card = parse(whole); /* says neither */
    assert_true(kiln_model_card_fits(&card, hash, "fp8", why));
    assert_int_equal(mode_at(&card, 512, 512, 8, 0).kind, KILN_MODE_COARSE);
}

static void a_bad_card_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "m/kiln.json"},
        {"[]", "m/kiln.json"},
        {"{\"coarse\": 3}", "\"coarse\": expected an object, found a number"},
        {"{\"coarse\": {\"auto\": 3}}", "\"coarse.auto\": expected text"},
        {"{\"coarse\": {\"auto\": \"auto\"}}", "\"coarse.auto\": \"auto\""},
        {"{\"coarse\": {\"auto\": \"4+\"}}", "\"coarse.auto\": \"4+\""},
        {"{\"coarse\": {\"auto\": \"9+3\"}}", "9 small steps of a schedule of 8"},
        {"{\"coarse\": {\"auto\": \"4+3\", \"steps\": 0}}", "\"coarse.steps\""},
        {"{\"coarse\": {\"steps\": 8.5}}", "\"coarse.steps\""},
        {"{\"coarse\": {\"sizes\": \"256x256\"}}", "\"coarse.sizes\": expected a list"},
        {"{\"coarse\": {\"sizes\": [\"250x256\"]}}", "\"coarse.sizes\": width is 250"},
        {"{\"coarse\": {\"sizes\": [\"16:9\"]}}", "\"coarse.sizes\": \"16:9\""},
        {"{\"coarse\": {\"sizes\": [[\"256x256\"]]}}", "\"coarse.sizes\": expected text"},
        {"{\"coarse\": {\"for\": [\"512x512..256x1024\"]}}", "the first size is larger"},
        {"{\"coarse\": {\"for\": [\"512x512..\"]}}", "\"coarse.for\""},
        {"{\"coarse\": {\"for\": [\"4096x4096\"]}}", "\"coarse.for\": width is 4096"},
        {"{\"coarse\": {\"for\": [\"512x512\"]}} x", "m/kiln.json"},
        {"{\"coarse\": {\"model\": \"0123\"}}", "\"coarse.model\": \"0123\": expected the 16"},
        {"{\"coarse\": {\"model\": \"0123456789ABCDEF\"}}", "\"coarse.model\""},
        {"{\"coarse\": {\"dtypes\": \"bf16\"}}", "\"coarse.dtypes\": expected a list"},
        {"{\"coarse\": {\"dtypes\": [\"auto\"]}}", "\"coarse.dtypes\": \"auto\": expected"},
        {"{\"coarse\": {\"dtypes\": [\"fp8\", \"fp8\", \"fp8\", \"fp8\"]}}", "at most 3 dtypes"},
        {"{\"coarse\": {\"loras\": {}}}", "\"coarse.loras\": expected a list"},
        {"{\"coarse\": {\"loras\": [\"neon\"]}}", "\"coarse.loras\": expected an object"},
        {"{\"coarse\": {\"loras\": [{\"name\": \"neon\"}]}}", "without \"sha256\""},
        {"{\"coarse\": {\"loras\": [{\"sha256\": \"00aa\"}]}}", "expected 64 hex digits"},
        {"{\"coarse\": {\"loras\": [{\"sha256\": \"" NEON "0\"}]}}", "expected 64 hex digits"},
        {"{\"coarse\": {\"loras\": [{\"strength\": 0}]}}", "\"strength\": expected a number"},
        {"{\"coarse\": {\"loras\": [{\"for\": [\"16:9\"]}]}}", "\"coarse.loras\": \"for\""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect_refused(bad[i].text, bad[i].says);
}

static void lists_and_depth_are_bounded(void **state)
{
    (void)state;
    static char text[400000];
    struct kiln_model_card card;
    struct kiln_error err;
    size_t len = (size_t)sprintf(text, "{\"coarse\": {\"sizes\": [\"64x64\"");
    for (int i = 0; i < KILN_LIST_MAX; i++)
        len += (size_t)sprintf(text + len, ",\"64x64\"");
    len += (size_t)sprintf(text + len, "]}}");
    assert_int_equal(kiln_model_card_parse(text, len, "x", &card, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "at most 32 sizes"));
    len = (size_t)sprintf(text, "{\"coarse\": {\"loras\": [{\"sha256\": \"" NEON "\"}");
    for (int i = 0; i < KILN_LIST_MAX; i++)
        len += (size_t)sprintf(text + len, ",{\"sha256\": \"" NEON "\"}");
    len += (size_t)sprintf(text + len, "]}}");
    assert_int_equal(kiln_model_card_parse(text, len, "x", &card, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "at most 32 LoRAs"));
    len = (size_t)sprintf(text, "{\"coarse\": {\"loras\": [{\"for\": [\"64x64\"");
    for (int i = 0; i < KILN_CARD_LORA_SIZES; i++)
        len += (size_t)sprintf(text + len, ",\"64x64\"");
    len += (size_t)sprintf(text + len, "]}]}}");
    assert_int_equal(kiln_model_card_parse(text, len, "x", &card, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "at most 8 sizes"));
    len = (size_t)sprintf(text, "{\"a\":");
    memset(text + len, '[', 100000);
    assert_int_equal(kiln_model_card_parse(text, len + 100000, "x", &card, &err), KILN_CONFIG);
}

static void files_are_read_or_refused(void **state)
{
    (void)state;
    char dir[] = "/tmp/kiln-card-XXXXXX", path[64];
    struct kiln_model_card card = {.coarse_steps = 9};
    struct kiln_error err;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/kiln.json", dir);
    assert_int_equal(kiln_model_card_read(dir, &card, &err), 0);
    assert_int_equal(card.coarse_steps, 0);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(whole, file);
    fclose(file);
    assert_int_equal(kiln_model_card_read(dir, &card, &err), 0);
    assert_int_equal(card.coarse_size_count, 2);
    assert_int_equal(truncate(path, 1 << 20), 0);
    assert_int_equal(kiln_model_card_read(dir, &card, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, path));
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(kiln_model_card_read(dir, &card, &err), KILN_CONFIG); /* and does not wait */
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_card_is_read),
        cmocka_unit_test(sizes_are_known_or_not),
        cmocka_unit_test(a_schedule_is_read),
        cmocka_unit_test(bad_schedules_are_refused_by_name),
        cmocka_unit_test(weights_of_steps_are_read),
        cmocka_unit_test(bad_weights_are_refused_by_name),
        cmocka_unit_test(steps_are_the_models_unless_a_setting_says_more),
        cmocka_unit_test(auto_is_coarse_only_where_it_was_measured),
        cmocka_unit_test(auto_with_a_lora_is_coarse_only_if_that_file_was_measured),
        cmocka_unit_test(auto_holds_for_the_model_and_dtype_that_were_measured),
        cmocka_unit_test(a_bad_card_is_refused_by_name),
        cmocka_unit_test(lists_and_depth_are_bounded),
        cmocka_unit_test(files_are_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
