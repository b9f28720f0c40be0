/* test_router_texts.c - the texts behind the router: loras.json of strangers, the lexicon, and
 * registries without LoRAs and with ten thousand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/router/lora_file.h"
#include "scheduler/router/router.h"
#include "scheduler/router/tokens.h"
#include "schemas/random.h"

static struct kiln_lexicon *lexicon;

/* Reads and builds it; the code, and the sentence in err. */
static int open_text(const char *text, struct kiln_router **ret, struct kiln_error *err)
{
    struct kiln_router_lora *loras;
    size_t count;
    int rc = kiln_lora_file_read(text, strlen(text), "f.json", &loras, &count, err);
    return rc ? rc : kiln_router_build(loras, count, 1, lexicon, ret, err);
}

static void refused(const char *text, const char *sentence)
{
    struct kiln_router *router;
    struct kiln_error err = {0};
    assert_int_equal(open_text(text, &router, &err), KILN_BAD_INPUT);
    if (!strstr(err.text, sentence))
        fail_msg("'%s' does not say '%s'", err.text, sentence);
}

static void wrong_files_are_refused_by_name(void **state)
{
    (void)state;
    refused("", "f.json, line 1");
    refused("[]", "no list 'loras'");
    refused("{\"loras\": {}}", "no list 'loras'");
    refused("{\"loras\": [{}]}", "LoRA 1: it has no 'name'");
    refused("{\"loras\": [{\"name\": \"../x\"}]}", "'name' must be letters");
    refused("{\"loras\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}", "'a' is there twice");
    refused("{\"loras\": [{\"name\": \"a\", \"triggers\": [\"x\"], \"triggers\": [\"y\"]}]}",
            "duplicate object key");
    refused("{\"loras\": [{\"name\": \"a\", \"name\": \"b\"}]}", "duplicate");
    refused("{\"loras\": [{\"name\": \"a\", \"trigers\": []}]}", "'trigers' is not a key");
    refused("{\"loras\": [{\"name\": \"a\", \"triggers\": \"x\"}]}", "list of texts");
    refused("{\"loras\": [{\"name\": \"a\", \"triggers\": [\"\"]}]}", "not empty");
    refused("{\"loras\": [{\"name\": \"a\", \"triggers\": [\"x\\ny\"]}]}",
            "control character U+000A");
    refused("{\"loras\": [{\"name\": \"a\", \"triggers\": [\"x\\u202ey\"]}]}", "U+202E");
    refused("{\"loras\": [{\"name\": \"a\", \"positive\": [\"x\\u009by\"]}]}", "U+009B");
    refused("{\"loras\": [{\"name\": \"a\", \"category\": \"look\"}]}",
            "style, subject, character, effect, motion");
    refused("{\"loras\": [{\"name\": \"a\", \"scale\": \"1\"}]}", "must be a number");
    refused("{\"loras\": [{\"name\": \"a\", \"scale\": 9}]}", "scale 9");
    refused("{\"loras\": [{\"name\": \"a\", \"scale\": 0}]}", "scale 0");
    refused("{\"loras\": [{\"name\": \"a\", \"scale\": 0.5, \"min\": 0.6}]}",
            "scale 0.5 must be from 0.6 to 4, and not 0");
    refused("{\"loras\": [{\"name\": \"a\", \"enabled\": 1}]}", "true or false");
    refused("{\"loras\": [{\"name\": \"a\", \"licence\": 1}]}", "'licence' must be a text");
    char text[1024];
    snprintf(text, sizeof text, "{\"loras\": [{\"name\": \"a\", \"triggers\": [\"%0*d\"]}]}",
             KILN_ROUTER_TEXT_MAX + 1, 0);
    refused(text, "121 bytes; at most 120");
    snprintf(text, sizeof text, "{\"loras\": [{\"name\": \"a\", \"positive\": [%s\"x\"]}]}",
             "\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\","
             "\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\","
             "\"x\",\"x\",\"x\",\"x\",");
    refused(text, "33 positive; at most 32");
}

/* Whatever is in it: the registry is read as a whole. */
static void a_lora_has_a_bound(void **state)
{
    (void)state;
    struct kiln_lora_facts facts;
    struct kiln_error err = {0};
    const size_t size = KILN_LORA_ENTRY_MAX + 64;
    char *text = malloc(size);
    assert_non_null(text);
    snprintf(text, size, "{\"name\":\"a\",\"source\":\"%0*d\"}", KILN_LORA_ENTRY_MAX - 24, 0);
    assert_int_equal(strlen(text), KILN_LORA_ENTRY_MAX);
    assert_int_equal(kiln_lora_file_try(text, "f.json", lexicon, &facts, &err), 0);
    snprintf(text, size, "{\"name\":\"a\",\"source\":\"%0*d\"}", KILN_LORA_ENTRY_MAX - 23, 0);
    assert_int_equal(kiln_lora_file_try(text, "f.json", lexicon, &facts, &err), KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "262145 bytes of texts; at most 262144"));
    free(text);
}

static void the_lexicon_refuses_what_is_wrong(void **state)
{
    (void)state;
    struct kiln_lexicon *other;
    struct kiln_error err;
    static const struct {
        const char *concepts, *background, *sentence;
    } cases[] = {{"a | style | |", "5 the", "line 1: 4 fields"},
                 {"a | look | | | x", "5 the", "unknown kind 'look'"},
                 {"a | style | b | | x", "5 the", "no concept 'b'"},
                 {"a | style | | | x\nb | style | | | X", "5 the", "'X' is a phrase of 'a' too"},
                 {"a | style | | | x\na | style | | | y", "5 the", "line 2: 'a' is there twice"},
                 {"a | style | | | ...", "5 the", "'...' has no words"},
                 {"a | style | | | @b x", "5 the", "line 1: there is no group '@b'"},
                 {"@b | x\n@b | y", "5 the", "line 2: '@b' must be a new group with words"},
                 {"@b |", "5 the", "line 1: '@b' must be a new group"},
                 {"@b | x, @c", "5 the", "line 1: '@b' must be a new group"},
                 {"@b | x, y?", "5 the", "line 1: '@b' must be a new group"},
                 {"a | style | | | x", "the", "has no idf"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(kiln_lexicon_parse(cases[i].concepts, cases[i].background, &other, &err),
                         KILN_BAD_INPUT);
        if (!strstr(err.text, cases[i].sentence))
            fail_msg("'%s' does not say '%s'", err.text, cases[i].sentence);
    }
}

static int32_t find(const char *text)
{
    struct kiln_route_tokens tokens = {0};
    struct kiln_error err;
    assert_int_equal(kiln_route_tokens_add(&tokens, text, strlen(text), false, &err), 0);
    const uint64_t phrase = kiln_route_tokens_phrase(tokens.at, tokens.count);
    kiln_route_tokens_release(&tokens);
    return kiln_lexicon_find(lexicon, phrase);
}

static void the_lexicon_is_large_and_answers_in_two_languages(void **state)
{
    (void)state;
    size_t phrases = 0, chinese = 0;
    for (size_t i = 0; i < kiln_lexicon_count(lexicon); i++) {
        const struct kiln_concept *at = kiln_lexicon_concept(lexicon, (int32_t)i);
        phrases += at->count;
        for (size_t p = 0; p < at->count; p++)
            chinese += (unsigned char)at->phrases[p].text[0] >= 0xe4;
        assert_true(at->count >= 1 && at->parent != (int32_t)i);
    }
    assert_true(kiln_lexicon_count(lexicon) >= 400);
    assert_true(phrases >= 2400 && chinese >= 400);
    const int32_t watercolor = find("Aquarelles");
    assert_true(watercolor >= 0);
    assert_int_equal(find("水彩畫"), watercolor);
    assert_int_equal(find("Water-Colour"), watercolor);
    assert_int_equal(find("no such phrase"), -1);
}

/* "@glow line": a phrase for each word of the group; what another concept writes out is its. */
static void a_group_of_the_lexicon_makes_phrases(void **state)
{
    (void)state;
    struct kiln_lexicon *usual = lexicon;
    struct kiln_error err;
    if (kiln_lexicon_parse("@glow | shiny, lit up\n@mark | line, dot\n"
                           "a | style | | | @glow @mark, plain, @glow thing?\n"
                           "b | style | | | lit up dot",
                           "5 the", &lexicon, &err))
        fail_msg("%s", err.text);
    const struct kiln_concept *a = kiln_lexicon_concept(lexicon, 0);
    assert_int_equal(a->count, 1 + 3 + 2);
    assert_string_equal(a->phrases[0].text, "plain");
    assert_false(a->phrases[0].grouped || a->phrases[0].bare);
    assert_string_equal(a->phrases[1].text, "shiny line");
    assert_true(a->phrases[1].grouped && !a->phrases[1].bare);
    assert_string_equal(a->phrases[5].text, "lit up thing");
    assert_true(a->phrases[5].grouped && a->phrases[5].bare);
    assert_int_equal(find("shiny dots"), 0);
    assert_int_equal(find("lit up dot"), 1);
    assert_int_equal(find("dot"), -1);
    kiln_lexicon_free(lexicon);
    lexicon = usual;
}

static void an_empty_registry_chooses_nothing(void **state)
{
    (void)state;
    struct kiln_router *router;
    struct kiln_error err;
    struct kiln_route route;
    assert_int_equal(open_text("{\"loras\": []}", &router, &err), 0);
    struct kiln_router_reader *reader = kiln_router_reader_new(router);
    assert_non_null(reader);
    assert_int_equal(kiln_router_route(reader, &(struct kiln_router_request){.prompt = "pixel art"},
                                       &route, &err),
                     0);
    assert_int_equal(route.count, 0);
    assert_string_equal(route.reason, "{\"v\":1,\"r\":9,\"p\":[]}");
    assert_string_equal(route.prompt, "pixel art");
    assert_int_equal(
        kiln_router_route(reader, &(struct kiln_router_request){.prompt = "\xff"}, &route, &err),
        KILN_BAD_INPUT);
    kiln_router_reader_free(reader);
    kiln_router_free(router);
}

static char *copy(const char *text)
{
    char *made = strdup(text);
    assert_non_null(made);
    return made;
}

static struct kiln_texts one(const char *text)
{
    struct kiln_texts texts = {calloc(1, sizeof(char *)), 1};
    assert_non_null(texts.at);
    texts.at[0] = copy(text);
    return texts;
}

/* Each LoRA is found among ten thousand by its own trigger, also in a prompt of 8 KiB. */
static void ten_thousand_loras(void **state)
{
    (void)state;
    const size_t count = 10000;
    struct kiln_router_lora *loras = calloc(count, sizeof *loras);
    struct kiln_router *router;
    struct kiln_error err;
    struct kiln_route route;
    uint64_t random = 7;
    assert_non_null(loras);
    for (size_t i = 0; i < count; i++) {
        char trigger[32];
        snprintf(loras[i].name, sizeof loras[i].name, "lora-%05zu", i);
        snprintf(trigger, sizeof trigger, "trg%05zu", i);
        loras[i].triggers = one(trigger);
        loras[i].positive = one(i % 2 ? "watercolor" : "pixel art");
        loras[i].description = copy("soft light on old paper");
        loras[i].enabled = true;
        loras[i].scale = loras[i].max = 1;
    }
    assert_int_equal(kiln_router_build(loras, count, 1, lexicon, &router, &err), 0);
    struct kiln_router_reader *reader = kiln_router_reader_new(router);
    assert_non_null(reader);
    char prompt[KILN_PROMPT_MAX + 1];
    for (int i = 0; i < 20; i++) {
        const unsigned wanted = (unsigned)(kiln_random_next(&random) % count);
        size_t at = (size_t)snprintf(prompt, sizeof prompt, "a fox, trg%05u", wanted);
        while (i % 2 && at + 40 < sizeof prompt)
            at +=
                (size_t)snprintf(prompt + at, sizeof prompt - at, ", old paper and watercolor fox");
        assert_int_equal(kiln_router_route(reader, &(struct kiln_router_request){.prompt = prompt},
                                           &route, &err),
                         0);
        assert_true(route.count >= 1);
        char name[32];
        snprintf(name, sizeof name, "lora-%05u", wanted);
        assert_string_equal(kiln_router_lora(router, route.picks[0].lora)->name, name);
    }
    kiln_router_reader_free(reader);
    kiln_router_free(router);
}

static int open_lexicon(void **state)
{
    struct kiln_error err;
    (void)state;
    if (kiln_lexicon_new(&lexicon, &err))
        fail_msg("%s", err.text);
    return 0;
}

static int close_lexicon(void **state)
{
    (void)state;
    kiln_lexicon_free(lexicon);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_files_are_refused_by_name),
        cmocka_unit_test(a_lora_has_a_bound),
        cmocka_unit_test(the_lexicon_refuses_what_is_wrong),
        cmocka_unit_test(the_lexicon_is_large_and_answers_in_two_languages),
        cmocka_unit_test(a_group_of_the_lexicon_makes_phrases),
        cmocka_unit_test(an_empty_registry_chooses_nothing),
        cmocka_unit_test(ten_thousand_loras),
    };
    return cmocka_run_group_tests(tests, open_lexicon, close_lexicon);
}
