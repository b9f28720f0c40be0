/* test_embedding.c - the router's embedder: its weights, its thread and memo, and routes by
 * meaning, on small checkpoints of both kinds with random weights. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/embed/embedder.h"
#include "scheduler/embedding/desk.h"
#include "scheduler/embedding/loras.h"
#include "scheduler/embedding/memo.h"
#include "scheduler/router/lora_file.h"
#include "scheduler/router/router.h"
#include "tests/embed/golden_files.h"

static const char *const kinds[] = {"potion", "minilm"};
static struct kiln_error err;

static void ok(int rc)
{
    if (rc)
        fail_msg("%s", err.text);
}

/* The golden checkpoint `name` under ./name, with weights of such a text; "%s" is its recipe. */
static const char *place(const char *name, const char *weights)
{
    static char dir[64];
    char command[8400], path[128], text[512];
    struct kiln_embedder *e;
    snprintf(dir, sizeof dir, "%s", name);
    snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s' '%s' && chmod -R u+w '%s'", dir,
             golden(name), dir, dir);
    assert_int_equal(system(command), 0);
    if (!weights)
        return dir;
    ok(kiln_embedder_open(dir, NULL, &e, &err));
    const char *at = strstr(weights, "%s");
    const int before = (int)(at ? at - weights : (long)strlen(weights));
    snprintf(text, sizeof text, "%.*s%s%s", before, weights,
             at ? kiln_embedder_info(e)->recipe : "", at ? at + 2 : "");
    kiln_embedder_close(e);
    snprintf(path, sizeof path, "%s/" KILN_EMBEDDING_WEIGHTS, dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return dir;
}

#define WEIGHTS(bias, c)                                                                           \
    "{\"embedder\": \"%s\", \"router\": 9, \"weights\": {\"bias\": " #bias                         \
    ", \"b\": 0, \"c\": " #c ", \"m\": 0, \"x\": -1000}}"
#define GOOD WEIGHTS(-9000, 10000)

static struct kiln_embedding_model *open_model(const char *name)
{
    struct kiln_embedding_model *model;
    ok(kiln_embedding_model_open(place(name, GOOD), &model, &err));
    return model;
}

static void refused(const char *dir, const char *why)
{
    struct kiln_embedding_model *model;
    assert_int_equal(kiln_embedding_model_open(dir, &model, &err), KILN_CONFIG);
    if (!strstr(err.text, why))
        fail_msg("'%s' does not say '%s'", err.text, why);
}

static void a_directory_that_cannot_be_used_is_refused_with_what_to_do(void **state)
{
    (void)state;
    refused("./nowhere", "router_embedder ./nowhere: ");
    refused(place("potion", NULL), "kiln bench routing --embedder potion --fit potion/kiln_router");
    refused(place("potion", "{"), "kiln_router.json, line 1");
    refused(place("potion", "{\"weights\": {}}"), "it needs \"embedder\"");
    refused(place("potion", "{\"embedder\": \"bert-1-0\", \"router\": 9, \"weights\": {}}"),
            "the weights are for the embedder bert-1-0, and this is static-");
    refused(place("potion", "{\"embedder\": \"%s\", \"router\": 1, \"weights\": {}}"),
            "for router 1, and this is router 9");
    refused(
        place("potion", "{\"embedder\": \"%s\", \"router\": 9, \"weights\": {\"bias\": -9000}}"),
        "the weight b must be a whole number");
    refused(place("potion", WEIGHTS(0, 10000)), "bias is 0; it must be at most -848");
    refused(place("potion", WEIGHTS(-9000, -1)), "the weight c is -1; it must be from 0");
    refused(place("potion", WEIGHTS(-9000, 1e9)), "the weight c must be a whole number");
}

static void the_id_follows_the_files_and_the_weights(void **state)
{
    (void)state;
    struct kiln_embedding_model *a, *b;
    char id[3][KILN_MEANING_ID_SIZE];
    for (int i = 0; i < 2; i++) {
        a = open_model(kinds[i]);
        snprintf(id[i], sizeof id[i], "%s", kiln_embedding_model_id(a));
        kiln_embedding_model_close(a);
    }
    ok(kiln_embedding_model_open(place("potion", WEIGHTS(-9000, 10001)), &b, &err));
    snprintf(id[2], sizeof id[2], "%s", kiln_embedding_model_id(b));
    kiln_embedding_model_close(b);
    assert_int_equal(strlen(id[0]), 8);
    assert_string_not_equal(id[0], id[1]);
    assert_string_not_equal(id[0], id[2]);
    a = open_model("potion");
    assert_string_equal(kiln_embedding_model_id(a), id[0]);
    kiln_embedding_model_close(a);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    const struct kiln_meaning_weights w = {-9221, 1, 14302, 6812, -2935};
    struct kiln_meaning_weights got;
    char *text;
    size_t len;
    ok(kiln_embedding_weights_write("w.json", "static-8-0", &w, &err));
    ok(kiln_regular_read("w.json", 4096, &text, &len, &err));
    ok(kiln_embedding_weights_read(text, len, "w.json", "static-8-0", &got, &err));
    assert_memory_equal(&got, &w, sizeof w);
    free(text);
}

/* --- memo ------------------------------------------------------------------------------------- */

static void the_memo_forgets_what_was_not_asked_for_longest(void **state)
{
    (void)state;
    struct kiln_memo *memo = kiln_memo_new(3, 2);
    char text[8];
    int8_t row[2];
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "%d", i);
        row[0] = row[1] = (int8_t)i;
        kiln_memo_put(memo, kiln_memo_key(text), row);
        assert_non_null(kiln_memo_find(memo, kiln_memo_key("0"))); /* always the newest */
    }
    assert_null(kiln_memo_find(memo, kiln_memo_key("1")));
    assert_int_equal(kiln_memo_find(memo, kiln_memo_key("2"))[1], 2);
    assert_int_equal(kiln_memo_find(memo, kiln_memo_key("3"))[0], 3);
    for (int i = 0; i < 1000; i++) { /* the slots hold together */
        snprintf(text, sizeof text, "%d", i * 7 % 50);
        row[0] = (int8_t)(i * 7 % 50);
        kiln_memo_put(memo, kiln_memo_key(text), row);
        assert_int_equal(kiln_memo_find(memo, kiln_memo_key(text))[0], row[0]);
    }
    kiln_memo_free(memo);
}

/* --- thread ----------------------------------------------------------------------------------- */

static void the_thread_embeds_a_text_once_and_as_one_call_does(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct kiln_embedding_model *model = open_model(kinds[kind]);
        const size_t dims = kiln_embedding_model_dims(model);
        struct kiln_desk *desk;
        char texts[200][32];
        const char *list[200];
        int8_t got[4096], want[4096];
        for (int i = 0; i < 200; i++) {
            snprintf(texts[i], sizeof texts[i], "a red star %d", i % 100);
            list[i] = texts[i];
        }
        ok(kiln_desk_open(model, &desk, &err));
        ok(kiln_desk_prepare(desk, list, 200, 60000, &err));
        assert_int_equal(kiln_desk_embedded(desk), 100);
        ok(kiln_desk_prepare(desk, list, 200, 60000, &err));
        assert_int_equal(kiln_desk_embedded(desk), 100);
        for (int i = 0; i < 100; i += 9) { /* in a pass of 32 as alone, to the bit */
            assert_true(kiln_desk_find(desk, list[i], got));
            ok(kiln_embedding_model_rows(model, true, &list[i], 1, want, &err));
            assert_memory_equal(got, want, dims);
        }
        assert_false(kiln_desk_find(desk, "never asked for", got));
        kiln_desk_close(desk);
        kiln_embedding_model_close(model);
    }
}

/* The texts stay in the queue, so that the next call finds them done. */
static void too_little_time_is_told_and_nothing_is_lost(void **state)
{
    (void)state;
    struct kiln_embedding_model *model = open_model("potion");
    struct kiln_desk *desk;
    static char texts[KILN_DESK_TEXTS][32];
    const char *list[KILN_DESK_TEXTS];
    int8_t row[4096];
    for (int i = 0; i < KILN_DESK_TEXTS; i++) {
        snprintf(texts[i], sizeof texts[i], "a red star, number %d", i);
        list[i] = texts[i];
    }
    ok(kiln_desk_open(model, &desk, &err));
    assert_int_equal(kiln_desk_prepare(desk, list, KILN_DESK_TEXTS, 0, &err), KILN_TIMEOUT);
    assert_non_null(strstr(err.text, "the router's embedder has not finished"));
    ok(kiln_desk_prepare(desk, list, KILN_DESK_TEXTS, 300000, &err));
    assert_int_equal(kiln_desk_embedded(desk), KILN_DESK_TEXTS);
    assert_true(kiln_desk_find(desk, list[KILN_DESK_TEXTS - 1], row));
    assert_int_equal(kiln_desk_prepare(desk, list, KILN_DESK_TEXTS + 1, 0, &err), KILN_FULL);
    assert_int_equal(kiln_desk_prepare(desk, list, KILN_DESK_TEXTS, 0, &err), 0);
    kiln_desk_close(desk); /* with an empty queue, and below with a full one */
    ok(kiln_desk_open(model, &desk, &err));
    (void)!kiln_desk_prepare(desk, list, KILN_DESK_TEXTS, 0, &err);
    kiln_desk_close(desk);
    kiln_embedding_model_close(model);
}

static void a_text_that_fails_takes_no_other_along(void **state)
{
    (void)state;
    struct kiln_embedding_model *model = open_model("potion");
    struct kiln_desk *desk;
    const char *const list[] = {"a red star", "\xff", "a blue star"};
    int8_t row[4096];
    ok(kiln_desk_open(model, &desk, &err));
    assert_int_equal(kiln_desk_prepare(desk, list, 3, 60000, &err), KILN_UNAVAILABLE);
    assert_non_null(strstr(err.text, "the router's embedder failed: text 0 is not UTF-8"));
    assert_true(kiln_desk_find(desk, "a blue star", row));
    ok(kiln_desk_prepare(desk, list, 1, 60000, &err));
    kiln_desk_close(desk);
    kiln_embedding_model_close(model);
}

/* --- routes ----------------------------------------------------------------------------------- */

static const char registry[] =
    "{\"loras\": ["
    "{\"name\": \"disc\", \"triggers\": [\"dsc\"], \"description\": \"a crimson disc\"},"
    "{\"name\": \"star\", \"triggers\": [\"str\"], \"examples\": [\"the quick brown fox\"],"
    " \"negative\": [\"a red star\"]},"
    "{\"name\": \"word\", \"triggers\": [\"wrd\"], \"positive\": [\"lazy dog\"]},"
    "{\"name\": \"mute\", \"triggers\": [\"mte\"]}]}";

struct rig {
    struct kiln_lexicon *lexicon;
    struct kiln_embedding_model *model;
    struct kiln_router *router;
    struct kiln_router_reader *reader;
    struct kiln_embedding_vectors vectors;
    struct kiln_route route;
};

static struct kiln_router *build(const struct kiln_lexicon *lexicon, const char *text)
{
    struct kiln_router_lora *loras;
    struct kiln_router *router;
    size_t count;
    ok(kiln_lora_file_read(text, strlen(text), "test", &loras, &count, &err));
    ok(kiln_router_build(loras, count, 7, lexicon, &router, &err));
    return router;
}

static struct rig rig_new(const char *kind)
{
    struct rig rig = {0};
    ok(kiln_lexicon_new(&rig.lexicon, &err));
    rig.model = open_model(kind);
    rig.router = build(rig.lexicon, registry);
    ok(kiln_embedding_loras(rig.model, rig.router, NULL, NULL, NULL, &err));
    rig.reader = kiln_router_reader_new(rig.router);
    return rig;
}

static void rig_free(struct rig *rig)
{
    kiln_embedding_vectors_release(&rig->vectors);
    kiln_router_reader_free(rig->reader);
    kiln_router_free(rig->router);
    kiln_embedding_model_close(rig->model);
    kiln_lexicon_free(rig->lexicon);
}

/* The names of the team. */
static const char *ask(struct rig *rig, const char *prompt)
{
    static char names[256];
    struct kiln_router_request request = {.prompt = prompt};
    ok(kiln_embedding_model_request(rig->model, rig->reader, &request, &rig->vectors, &err));
    ok(kiln_router_route(rig->reader, &request, &rig->route, &err));
    names[0] = '\0';
    for (uint32_t i = 0; i < rig->route.count; i++)
        sprintf(names + strlen(names), "%s%s", i ? " " : "",
                kiln_router_lora(rig->router, rig->route.picks[i].lora)->name);
    return names;
}

static void meaning_chooses_where_words_choose_nothing(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct rig rig = rig_new(kinds[kind]);
        char start[64];
        assert_string_equal(ask(&rig, "a crimson disc"), "disc");
        assert_true(rig.route.shown[0].by_meaning && rig.route.shown[0].c > 980);
        snprintf(start, sizeof start, "{\"v\":7,\"r\":9,\"e\":\"%s\",\"p\":[[\"disc\",",
                 kiln_embedding_model_id(rig.model));
        assert_int_equal(strncmp(rig.route.reason, start, strlen(start)), 0);
        assert_non_null(strstr(rig.route.reason, "\"meaning\"]"));
        assert_string_equal(rig.route.prompt, "dsc, a crimson disc");
        /* A clause is enough; what is quoted or denied says nothing. */
        assert_string_equal(ask(&rig, "1024x768, a crimson disc"), "disc");
        assert_string_equal(ask(&rig, "a sign that says \"a crimson disc\""), "");
        assert_string_equal(ask(&rig, "without a crimson disc"), "");
        /* Words come first, and are no worse for the embedder. */
        assert_string_equal(ask(&rig, "str, a crimson disc"), "star");
        assert_false(rig.route.shown[0].by_meaning);
        assert_string_equal(ask(&rig, ""), "");
        assert_string_equal(ask(&rig, "\xf0\x9f\xa6\x8a"), "");
        rig_free(&rig);
    }
}

static void the_same_texts_give_the_same_vectors_without_the_embedder(void **state)
{
    (void)state;
    struct rig rig = rig_new("potion");
    struct kiln_embedding_loras *known = kiln_embedding_loras_new();
    struct kiln_router *twice[2];
    for (int i = 0; i < 2; i++) {
        twice[i] = build(rig.lexicon, registry);
        ok(kiln_embedding_loras(rig.model, twice[i], known, NULL, NULL, &err));
    }
    const struct kiln_meaning *a = kiln_router_meaning(twice[0]),
                              *b = kiln_router_meaning(twice[1]);
    assert_int_equal(a->count, 4);
    assert_int_equal(a->first[4], 1); /* the negative text of star */
    assert_memory_equal(a->rows, b->rows, a->count * a->dims);
    assert_memory_equal(a->negatives, b->negatives, a->dims);
    assert_int_equal(a->lengths[1], 0); /* "mute" has no text, by the order of names */
    assert_true(a->lengths[0] > 0 && a->lengths[2] > 0 && a->lengths[3] > 0);
    for (int i = 0; i < 2; i++)
        kiln_router_free(twice[i]);
    kiln_embedding_loras_free(known);
    rig_free(&rig);
}

static bool at_once(void *arg)
{
    (void)arg;
    return true;
}

static void a_route_without_its_vectors_is_refused(void **state)
{
    (void)state;
    struct rig rig = rig_new("potion");
    const struct kiln_router_request request = {.prompt = "a crimson disc"};
    assert_int_equal(kiln_router_route(rig.reader, &request, &rig.route, &err), KILN_INTERNAL);
    struct kiln_router *router = build(rig.lexicon, registry);
    assert_int_equal(kiln_embedding_loras(rig.model, router, NULL, at_once, NULL, &err),
                     KILN_CANCELLED);
    kiln_router_free(router);
    rig_free(&rig);
}

/* Random prompts and any bytes: no route fails, and asking twice gives the same. */
static void hostile_prompts_are_routed_alike_twice(void **state)
{
    (void)state;
    struct rig rig = rig_new("minilm");
    static const char *const bits[] = {"a crimson disc",  ",",    "\"",   " no ",       "\n",
                                       "(fox:1.2)",       "…",    "红色", "<lora:x:1>", "style",
                                       "the quick brown", "not ", "。",   "\t",         "dsc"};
    char prompt[2048], reason[KILN_ROUTER_REASON_MAX + 1];
    unsigned seed = 5;
    for (int i = 0; i < 300; i++) {
        prompt[0] = '\0';
        for (int n = 0; n < i % 40; n++) {
            seed = seed * 1103515245 + 12345;
            strcat(prompt, bits[(seed >> 16) % 15]);
        }
        (void)ask(&rig, prompt);
        snprintf(reason, sizeof reason, "%s", rig.route.reason);
        (void)ask(&rig, prompt);
        assert_string_equal(reason, rig.route.reason);
    }
    char *longest = malloc(KILN_PROMPT_MAX + 1);
    memset(longest, 'a', KILN_PROMPT_MAX);
    for (int i = 0; i < KILN_PROMPT_MAX; i += 9)
        longest[i] = i % 2 ? ',' : ' ';
    longest[KILN_PROMPT_MAX] = '\0';
    (void)ask(&rig, longest);
    free(longest);
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_directory_that_cannot_be_used_is_refused_with_what_to_do),
        cmocka_unit_test(the_id_follows_the_files_and_the_weights),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(the_memo_forgets_what_was_not_asked_for_longest),
        cmocka_unit_test(the_thread_embeds_a_text_once_and_as_one_call_does),
        cmocka_unit_test(too_little_time_is_told_and_nothing_is_lost),
        cmocka_unit_test(a_text_that_fails_takes_no_other_along),
        cmocka_unit_test(meaning_chooses_where_words_choose_nothing),
        cmocka_unit_test(the_same_texts_give_the_same_vectors_without_the_embedder),
        cmocka_unit_test(a_route_without_its_vectors_is_refused),
        cmocka_unit_test(hostile_prompts_are_routed_alike_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
