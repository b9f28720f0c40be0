/* test_router.c - which LoRAs a prompt gets: each rule of the router once, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <pthread.h>

#include "scheduler/router/learn.h"
#include "scheduler/router/lora_file.h"
#include "tests/support/router.h"

static const char registry[] =
    "{\"loras\": ["
    "{\"name\": \"neon\", \"base\": \"z-image\", \"variant\": \"turbo\", \"triggers\": [\"neon "
    "style\", \"neon sign\"],"
    " \"positive\": [\"glowing outlines\"], \"negative\": [\"starry night\", \"neon tetra\"], "
    "\"scale\": 0.8},"
    "{\"name\": \"clay\", \"triggers\": [\"clay style\", \"clay\"], \"negative\": [\"clay "
    "court\"], \"scale\": 1.0},"
    "{\"name\": \"pixel\", \"triggers\": [\"pxl\"], \"positive\": [\"pixel art\"], \"scale\": 1.0},"
    "{\"name\": \"oil\", \"triggers\": [\"oilcnv\"], \"positive\": [\"oil painting\"], \"family\": "
    "\"oil\"},"
    "{\"name\": \"knife\", \"triggers\": [\"knfpnt\"], \"positive\": [\"impasto\"], \"family\": "
    "\"oil\"},"
    "{\"name\": \"rays\", \"category\": \"effect\", \"triggers\": [\"gdry\"], \"positive\": [\"god "
    "rays\"], \"scale\": 0.6},"
    "{\"name\": \"blur\", \"category\": \"effect\", \"triggers\": [\"blrfx\"], \"scale\": 0.6},"
    "{\"name\": \"mira\", \"category\": \"character\", \"triggers\": [\"mira_elf\"]},"
    "{\"name\": \"fox\", \"category\": \"subject\", \"triggers\": [\"tilda\"], \"trigger_mode\": "
    "\"never\"},"
    "{\"name\": \"bonsai\", \"category\": \"subject\", \"triggers\": [\"bnsai\"], \"positive\": "
    "[\"bonsai\"]},"
    "{\"name\": \"tram\", \"category\": \"subject\", \"triggers\": [\"trm28\", \"old tram\"], "
    "\"trigger_mode\": \"one\"},"
    "{\"name\": \"beaut\", \"triggers\": [\"beautiful\", \"digital illustration\"]},"
    "{\"name\": \"photo\", \"triggers\": [\"phtrl\"], \"base\": \"sdxl\"},"
    "{\"name\": \"basic\", \"triggers\": [\"bsc\"], \"variant\": \"base\"},"
    "{\"name\": \"secret\", \"triggers\": [\"scrt\"], \"tenant\": \"ann\"},"
    "{\"name\": \"off\", \"triggers\": [\"offed\"], \"enabled\": false},"
    "{\"name\": \"orbit\", \"category\": \"motion\", \"type\": \"video\", \"triggers\": [\"orbit "
    "shot\"]},"
    "{\"name\": \"paid\", \"triggers\": [\"pdd\"], \"commercial\": false},"
    "{\"name\": \"open\", \"triggers\": [\"opn\"], \"commercial\": true, \"licence\": "
    "\"Apache-2.0\"},"
    "{\"name\": \"shared\", \"triggers\": [\"shrd\"], \"licence\": \"CC BY-NC 4.0\"},"
    "{\"name\": \"vague\", \"triggers\": [\"vge\"], \"licence\": \"...\"},"
    "{\"name\": \"twin-a\", \"triggers\": [\"twn\"]}, {\"name\": \"twin-b\", \"triggers\": "
    "[\"twn\"]}"
    "]}";

static struct kiln_route route;
static char names[256]; /* of the last route, in the order of the team */

static const char *ask(const struct kiln_router_request *request)
{
    struct kiln_error err;
    if (kiln_router_route(reader, request, &route, &err))
        fail_msg("%s", err.text);
    names[0] = '\0';
    for (uint32_t i = 0; i < route.count; i++) {
        strcat(names, i ? " " : "");
        strcat(names, kiln_router_lora(router, route.picks[i].lora)->name);
    }
    json_t *reason = json_loads(route.reason, 0, NULL);
    assert_non_null(reason);
    assert_int_equal(json_integer_value(json_object_get(reason, "v")), KILN_TEST_REGISTRY);
    assert_true(strlen(route.reason) <= KILN_ROUTER_REASON_MAX);
    json_decref(reason);
    return names;
}

static const char *team(const char *prompt)
{
    return ask(&(struct kiln_router_request){.prompt = prompt,
                                             .pool = {.base = "Z-Image", .variant = "turbo"}});
}

static void an_exact_trigger_is_first(void **state)
{
    (void)state;
    assert_string_equal(team("a crab, neon style"), "neon");
    assert_string_equal(team("NEON-STYLE crab"), "neon");
    assert_string_equal(team("impasto crab, oilcnv"), "oil");
    assert_string_equal(team("mira_elf asleep"), "mira");
    assert_string_equal(team("xneon stylex"), "");
    assert_true(route.shown_count == 0 || route.shown[0].why != KILN_ROUTE_CHOSEN);
    assert_string_equal(team("neonstyle"), "neon"); /* two words as one: not the trigger */
    assert_false(route.shown[0].by_trigger);
    assert_string_equal(team("a crab, neon style"), "neon");
    assert_true(route.shown[0].by_trigger && route.shown[0].p >= 950);
}

static void quoted_or_denied_it_is_never_chosen(void **state)
{
    (void)state;
    assert_string_equal(team("a sign \"neon style\""), "");
    assert_string_equal(team("a wall that says neon style"), "");
    assert_string_equal(team("牌子上写着neon style"), "");
    assert_string_equal(team("a crab, not neon style"), "");
    assert_string_equal(team("a crab, glowing outlines, no neon style"), ""); /* it bars the LoRA */
    assert_int_equal(route.shown[0].why, KILN_ROUTE_BARRED);
    assert_string_equal(ask(&(struct kiln_router_request){.prompt = "glowing outlines",
                                                          .negative_prompt = "ugly, neon sign"}),
                        "");
    assert_string_equal(team("no no no, without, never"), "");
}

static void the_lexicon_knows_other_words(void **state)
{
    (void)state;
    assert_string_equal(team("a 16-bit castle"), "pixel");
    assert_string_equal(team("像素风格的城堡"), "pixel");
    assert_string_equal(team("像素風格的城堡"), "pixel"); /* traditional */
    assert_string_equal(team("a portrait painted in oils"), "oil");
    assert_string_equal(team("a pixle art castle"), "pixel"); /* misspelt */
}

static void things_are_no_looks(void **state)
{
    (void)state;
    assert_string_equal(team("a clay pot"), "");
    assert_string_equal(team("two players on a clay court"), "");
    assert_string_equal(team("the clay on the table"), "");
    assert_string_equal(team("a fox, clay"), "clay");
    assert_string_equal(team("a clay fox"), "clay");
    assert_string_equal(team("a fox as a clay"), "clay");
    assert_string_equal(team("not neon but a clay: a fox"), "clay");
    assert_string_equal(team("the eggs are etching"), "");
    assert_string_equal(team("a star pixelated by a censor"), "");
    assert_string_equal(team("a star pixelated by hand"), "pixel");
    assert_string_equal(team("neon tetra"), "");
    assert_string_equal(team("a neon sign in a starry night"), "neon");
}

/* "pixel?" of the lexicon: a thing too, which counts only where it certainly is a look. */
static void a_bare_word_must_be_a_look(void **state)
{
    (void)state;
    assert_string_equal(team("a fox, pixel"), "pixel");
    assert_string_equal(team("a fox. Style: pixel"), "pixel");
    assert_string_equal(team("a fox made of pixels"), "pixel");
    assert_string_equal(team("a fox - pixel - masterpiece"), "pixel");
    assert_string_equal(team("a screen with dead pixels"), "");
    assert_string_equal(team("pixel the cat sleeps"), "");
    assert_string_equal(team("a fox, no pixel"), "");
}

static void two_words_may_be_one(void **state)
{
    (void)state;
    assert_string_equal(team("a fox, godrays"), "rays");
    assert_string_equal(team("a fox, oilpainting"), "oil");
    assert_string_equal(team("a fox, oilpanting"), "oil"); /* and misspelt */
    assert_string_equal(team("a fox, pixelart"), "pixel");
    assert_string_equal(team("a fox, glowing-outlines"), "neon");
    assert_string_equal(team("a fox, glowingoutlines"), "neon");
    assert_string_equal(team("a fox, neonsign"), "neon"); /* has no trigger yet: */
    assert_string_equal(route.prompt, "neon style, a fox, neonsign");
}

static void short_words_may_have_a_slip(void **state)
{
    (void)state;
    assert_string_equal(team("a fox, neno style"), "neon"); /* swapped */
    assert_string_equal(team("a fox, caly style"), "clay");
    assert_string_equal(team("a fox, neoon style"), "neon"); /* doubled */
    assert_string_equal(team("a fox, pixel artt"), "pixel");
    assert_string_equal(team("a fox, clan style"), ""); /* a word of its own */
    assert_string_equal(team("a fox, nean style"), "neon"); /* within a phrase */
    /* As near to "pixelized" as to "pixelised", which the same LoRA has. */
    assert_string_equal(team("a fox, pixelied"), "pixel");
}

static void praise_is_no_evidence(void **state)
{
    (void)state;
    assert_string_equal(team("beautiful digital illustration, masterpiece, best quality"), "");
    assert_string_equal(team(""), "");
    assert_string_equal(team("😀😀😀"), "");
    assert_string_equal(team("fox"), "");
}

static void a_character_needs_its_name(void **state)
{
    (void)state;
    assert_string_equal(team("an elf named mira"), "");
    assert_string_equal(team("mira elf in clay style"), "mira clay");
}

static void the_team_has_rules(void **state)
{
    (void)state;
    assert_string_equal(team("oil painting, impasto"), "oil");        /* one family */
    assert_string_equal(team("pixel art, glowing outlines"), "neon"); /* one style, by name */
    assert_string_equal(team("pxl, neon style"), "neon pixel");       /* two written triggers */
    assert_string_equal(team("gdry, blrfx"), "blur");                 /* one effect */
    assert_string_equal(team("tilda, bonsai, mira_elf"), "mira fox"); /* two subjects */
    assert_string_equal(team("pxl, neon style, tilda, gdry"), "fox neon pixel");
    assert_string_equal(team("twn"), "twin-a"); /* one trigger of two: by name, and one of them */
}

/* The p of the first candidate, with this bias. */
static int p_with_bias(const char *bias, const char *prompt)
{
    char text[200];
    struct kiln_router *usual = router;
    struct kiln_router_reader *usual_reader = reader;
    snprintf(text, sizeof text,
             "{\"loras\": [{\"name\": \"knife\", \"triggers\": [\"knfpnt\"], \"positive\": "
             "[\"impasto\"]%s}]}",
             bias);
    router = kiln_test_router(text);
    reader = kiln_router_reader_new(router);
    assert_non_null(reader);
    (void)team(prompt);
    const int p = route.shown_count ? route.shown[0].p : -1;
    kiln_router_reader_free(reader);
    kiln_router_free(router);
    router = usual;
    reader = usual_reader;
    return p;
}

/* It moves what words say a little, and neither an exact trigger nor a prompt without evidence. */
static void a_learnt_bias_moves_words_alone(void **state)
{
    (void)state;
    const int plain = p_with_bias("", "an impasto crab");
    const int more = p_with_bias(", \"bias\": 0.5", "an impasto crab");
    const int less = p_with_bias(", \"bias\": -0.5", "an impasto crab");
    assert_true(less < plain && plain < more && less > 800);
    assert_int_equal(p_with_bias(", \"bias\": -0.5", "a crab, knfpnt"),
                     p_with_bias("", "a crab, knfpnt"));
    assert_int_equal(p_with_bias(", \"bias\": 0.5", "a crab"), -1);
}

static void a_bias_out_of_bounds_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"0.51", "-0.501", "\"0.1\"", "true", "1e300"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[100];
        struct kiln_error err;
        struct kiln_router_lora *loras;
        size_t count;
        snprintf(text, sizeof text, "{\"loras\": [{\"name\": \"x\", \"bias\": %s}]}", wrong[i]);
        assert_int_equal(kiln_lora_file_read(text, strlen(text), "test", &loras, &count, &err),
                         KILN_BAD_INPUT);
        assert_non_null(strstr(err.text, "'bias' must be a number from -0.5 to 0.5"));
    }
}

static int bias(uint64_t liked, uint64_t rated, uint64_t pool_liked, uint64_t pool_rated)
{
    return kiln_learn_bias((struct kiln_ratings){liked, rated},
                           (struct kiln_ratings){pool_liked, pool_rated});
}

/* The formula of learn.h by hand: m = 51/102, q = (5 + 18)/(10 + 20), half of logit(23/30). */
static void ratings_become_a_small_bias(void **state)
{
    (void)state;
    assert_int_equal(bias(18, 20, 50, 100), 250); /* logit(q) = 1.19, which is over 0.5 */
    assert_int_equal(bias(12, 20, 50, 100), 134); /* logit(17/30) = 0.268 */
    assert_int_equal(bias(2, 20, 50, 100), -250);
    assert_int_equal(bias(0, 0, 50, 100), 0);
    assert_int_equal(bias(0, 0, 0, 0), 0);
    assert_int_equal(bias(1, 1, 1, 1), 7); /* m = 2/3, q = 23/33: one picture says little */
    assert_int_equal(bias(10, 20, 50, 100), 0);
    const uint64_t most = INT64_MAX;
    assert_int_equal(bias(most, most, most, 2 * most), 500);
    assert_int_equal(bias(0, most, most, 2 * most), -500);
    for (uint64_t n = 1; n < 400; n++) {
        assert_in_range(bias(n, n, 7 * n, 9 * n) + 500, 500, 1000);
        assert_true(bias(n, n, 7 * n, 9 * n) >= bias(n - 1, n, 7 * n, 9 * n));
        assert_true(bias(0, n, n, n) <= 0 && bias(n, n, n, n) >= 0);
    }
}

static void the_pool_decides_who_may(void **state)
{
    (void)state;
    assert_string_equal(team("phtrl"), "");
    assert_string_equal(team("bsc"), "");
    assert_string_equal(team("scrt"), "");
    assert_string_equal(team("offed"), "");
    assert_string_equal(team("orbit shot"), "");
    assert_string_equal(
        ask(&(struct kiln_router_request){.prompt = "phtrl bsc", .pool = {.base = "SDXL"}}),
        "basic photo");
    assert_string_equal(
        ask(&(struct kiln_router_request){.prompt = "scrt", .pool = {.tenant = "ann"}}), "secret");
    assert_string_equal(
        ask(&(struct kiln_router_request){.prompt = "orbit shot", .pool = {.video = true}}),
        "orbit");
    assert_string_equal(ask(&(struct kiln_router_request){.prompt = "pdd"}), "paid");
}

static void the_pool_decides_which_licences(void **state)
{
    (void)state;
    static const struct {
        const char *licences, *prompt, *chosen;
    } cases[] = {
        {"", "opn", "open"},
        {"commercial", "pdd, neon style", ""}, /* an unknown licence allows nothing */
        {"commercial", "shrd", ""},
        {"commercial", "opn", "open"},
        {"apache 2.0", "opn", "open"},
        {"apache 2.0", "shrd", ""},
        {"apache 2", "opn", ""},
        {"apache 2.01", "opn", ""},
        {"mit, cc-by-nc-4.0", "shrd", "shared"},
        {"mit, cc-by-nc-4.0", "opn", ""},
        {"mit, cc-by-nc-4.0", "neon style", ""},
        {"mit , commercial", "opn", "open"},
        {",", "neon style", ""},
        {"mit,, - ,", "vge", ""}, /* nor does one that says nothing */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(
            ask(&(struct kiln_router_request){.prompt = cases[i].prompt,
                                              .pool = {.licences = cases[i].licences}}),
            cases[i].chosen);
}

static void a_style_counts_as_a_word(void **state)
{
    (void)state;
    assert_string_equal(
        ask(&(struct kiln_router_request){.prompt = "a crab", .style = "oil-painting"}), "oil");
    assert_string_equal(route.prompt, "oilcnv, a crab");
}

static void scales_shrink_with_the_team(void **state)
{
    (void)state;
    (void)team("neon style");
    assert_true(route.picks[0].scale == 0.8);
    (void)team("neon style, pxl"); /* 0.64 + 0.8 is over 1.2 */
    assert_true(route.picks[0].scale == 0.5 && route.picks[1].scale == 0.65);
    (void)team("tilda, pxl, gdry");
    double sum = 0;
    for (uint32_t i = 0; i < route.count; i++)
        sum += route.picks[i].scale;
    assert_int_equal(route.count, 3);
    assert_true(sum <= 1.5 && sum > 1.2);
}

/* A team makes it weaker and rounds it, but not beyond its limits. */
static void a_scale_stays_within_the_loras_limits(void **state)
{
    (void)state;
    static const char text[] =
        "{\"loras\": ["
        "{\"name\": \"least\", \"triggers\": [\"lstx\"], \"scale\": 0.8, \"min\": 0.72},"
        "{\"name\": \"most\", \"triggers\": [\"mstx\"], \"scale\": -0.9, \"max\": -0.77, "
        "\"category\": \"effect\"},"
        "{\"name\": \"tiny\", \"triggers\": [\"tnyx\"], \"scale\": 0.02, \"max\": 0.03, "
        "\"category\": \"subject\"}]}";
    struct kiln_router *usual = router;
    struct kiln_router_reader *usual_reader = reader;
    router = kiln_test_router(text);
    reader = kiln_router_reader_new(router);
    assert_non_null(reader);
    assert_string_equal(team("lstx, mstx, tnyx"), "least most tiny");
    assert_true(route.picks[0].scale == 0.72);  /* not 0.5 */
    assert_true(route.picks[1].scale == -0.77); /* not -0.55 */
    assert_true(route.picks[2].scale == 0.03);  /* not 0.05 */
    kiln_router_reader_free(reader);
    kiln_router_free(router);
    router = usual;
    reader = usual_reader;
}

static void a_missing_trigger_is_prepended_once(void **state)
{
    (void)state;
    (void)team("Glowing Outlines, a \"crab\"");
    assert_string_equal(route.prompt, "neon style, Glowing Outlines, a \"crab\"");
    (void)team("a crab, Neon Sign");
    assert_string_equal(route.prompt, "a crab, Neon Sign"); /* any trigger will do */
    (void)team("an old tram");
    assert_string_equal(route.prompt, "trm28, an old tram"); /* its first one must be there */
    (void)team("tilda, bonsai");
    assert_string_equal(route.prompt, "bnsai, tilda, bonsai"); /* never */
    (void)team("\"neon style\" glowing outlines");
    assert_string_equal(route.prompt, "neon style, \"neon style\" glowing outlines");
}

static void a_full_prompt_gets_no_trigger(void **state)
{
    (void)state;
    char prompt[KILN_PROMPT_MAX + 2];
    memset(prompt, 'x', sizeof prompt);
    memcpy(prompt, "glowing outlines ", 17);
    prompt[KILN_PROMPT_MAX] = '\0';
    assert_string_equal(team(prompt), "neon");
    assert_true(route.trigger_dropped);
    assert_string_equal(route.prompt, prompt);
    prompt[KILN_PROMPT_MAX] = 'x';
    prompt[KILN_PROMPT_MAX + 1] = '\0';
    struct kiln_error err;
    assert_int_equal(
        kiln_router_route(reader, &(struct kiln_router_request){.prompt = prompt}, &route, &err),
        KILN_BAD_INPUT);
}

static void tags_are_told_and_not_obeyed(void **state)
{
    (void)state;
    assert_string_equal(team("a crab <lora:pxl:1>"), "");
    assert_true(route.tags);
}

static void the_answer_does_not_depend_on_the_order_of_the_file(void **state)
{
    (void)state;
    static const char *const rows[] = {"{\"name\": \"b\", \"triggers\": [\"twn\"]}",
                                       "{\"name\": \"a\", \"triggers\": [\"twn\"]}",
                                       "{\"name\": \"c\", \"triggers\": [\"twn\"]}"};
    char reasons[2][KILN_ROUTER_REASON_MAX + 1];
    for (int order = 0; order < 2; order++) {
        char text[400];
        snprintf(text, sizeof text, "{\"loras\": [%s, %s, %s]}", rows[order ? 2 : 0], rows[1],
                 rows[order ? 0 : 2]);
        struct kiln_router *other = kiln_test_router(text);
        struct kiln_router_reader *own = kiln_router_reader_new(other);
        struct kiln_error err;
        assert_int_equal(
            kiln_router_route(own, &(struct kiln_router_request){.prompt = "twn"}, &route, &err),
            0);
        assert_string_equal(kiln_router_lora(other, route.picks[0].lora)->name, "a");
        strcpy(reasons[order], route.reason);
        kiln_router_reader_free(own);
        kiln_router_free(other);
    }
    assert_string_equal(reasons[0], reasons[1]);
}

static void *route_many(void *arg)
{
    struct kiln_router_reader *own = kiln_router_reader_new(arg);
    struct kiln_route each;
    struct kiln_error err;
    intptr_t wrong = 0;
    for (int i = 0; own && i < 2000; i++) {
        const char *prompt = i % 2 ? "a 16-bit castle" : "a crab, neon style";
        wrong +=
            kiln_router_route(own, &(struct kiln_router_request){.prompt = prompt}, &each, &err) ||
            each.count != 1;
    }
    kiln_router_reader_free(own);
    return (void *)(own ? wrong : -1);
}

static void threads_share_a_snapshot(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, route_many, router), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

static int open_all(void **state)
{
    (void)state;
    return kiln_router_rig_open(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exact_trigger_is_first),
        cmocka_unit_test(quoted_or_denied_it_is_never_chosen),
        cmocka_unit_test(the_lexicon_knows_other_words),
        cmocka_unit_test(things_are_no_looks),
        cmocka_unit_test(a_bare_word_must_be_a_look),
        cmocka_unit_test(two_words_may_be_one),
        cmocka_unit_test(short_words_may_have_a_slip),
        cmocka_unit_test(praise_is_no_evidence),
        cmocka_unit_test(a_character_needs_its_name),
        cmocka_unit_test(the_team_has_rules),
        cmocka_unit_test(a_learnt_bias_moves_words_alone),
        cmocka_unit_test(a_bias_out_of_bounds_is_refused),
        cmocka_unit_test(ratings_become_a_small_bias),
        cmocka_unit_test(the_pool_decides_who_may),
        cmocka_unit_test(the_pool_decides_which_licences),
        cmocka_unit_test(a_style_counts_as_a_word),
        cmocka_unit_test(scales_shrink_with_the_team),
        cmocka_unit_test(a_scale_stays_within_the_loras_limits),
        cmocka_unit_test(a_missing_trigger_is_prepended_once),
        cmocka_unit_test(a_full_prompt_gets_no_trigger),
        cmocka_unit_test(tags_are_told_and_not_obeyed),
        cmocka_unit_test(the_answer_does_not_depend_on_the_order_of_the_file),
        cmocka_unit_test(threads_share_a_snapshot),
    };
    return cmocka_run_group_tests(tests, open_all, kiln_router_rig_close);
}
