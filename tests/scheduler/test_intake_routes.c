/* test_intake_routes.c - loras "auto" from an entry of the stream to a row of the ledger. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/embed/embedder.h"
#include "scheduler/embedding/model.h"
#include "tests/scheduler/intake_rig.h"

#define SHA "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define OTHER_SHA "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

/* Adds a LoRA to the registry as any program may; extra: further keys of its texts. */
static void add_lora(const char *name, const char *tenant, const char *sha256, const char *extra)
{
    char sql[2048];
    snprintf(sql, sizeof sql,
             "SELECT lora_change('default', 0, '%s', '%s', '%s', '{\"bytes\":9,\"rank\":4,"
             "\"modules\":2,\"stored\":true}', true, true, false, 'test',"
             " '{\"name\":\"%s\",\"tenant\":\"%s\"%s}'::jsonb)",
             name, tenant, sha256, name, tenant, extra);
    char *version = kiln_test_sql(stack, sql);
    assert_true(atoi(version) > 0);
    free(version);
}

static int setup_registry(void **state)
{
    free(kiln_test_sql(stack, "SET client_min_messages = error; TRUNCATE lora, lora_file,"
                              " lora_registry CASCADE"));
    kiln_routes_close(routes); /* it knows that versions only grow */
    routes = NULL;
    kiln_test_ok(kiln_routes_open(stack->config, &routes, &err), err);
    return setup(state);
}

static void reopen_routes(void)
{
    kiln_routes_close(routes);
    kiln_test_ok(kiln_routes_open(stack->config, &routes, &err), err);
    kiln_intake_close(intake);
    kiln_test_ok(kiln_intake_open(stack->config, routes, &intake, &err), err);
}

static void send(const char *batch, const char *key, const char *line)
{
    const char *const fields[] = {"batch", batch, "key", key, "job", line};
    kiln_test_append(stack, fields, 3);
}

static void row_is(const char *key, const char *what, const char *expected)
{
    char sql[512];
    snprintf(sql, sizeof sql, "SELECT coalesce((%s)::text, 'null') FROM job WHERE key = '%s'", what,
             key);
    char *got = kiln_test_sql(stack, sql);
    if (strcmp(got, expected) != 0)
        fail_msg("%s of %s is %s, not %s", what, key, got, expected);
    free(got);
}

static const char neon[] =
    ",\"triggers\":[\"neon style\"],\"positive\":[\"glowing tubes\"],\"scale\":0.8";

static void a_prompt_gets_its_lora_and_why(void **state)
{
    (void)state;
    add_lora("neon", "", SHA, neon);
    send("b", "asks", "{\"prompt\":\"a fox, glowing tubes\",\"loras\":\"auto\"}");
    send("b", "writes", "{\"prompt\":\"a fox in neon style\",\"loras\":\"auto\"}");
    send("b", "none", "{\"prompt\":\"a fox\",\"loras\":\"auto\"}");
    send("b", "plain", "{\"prompt\":\"a fox\"}");
    send("b", "named", "{\"prompt\":\"a fox\",\"loras\":\"neon:0.5+unknown\"}");
    assert_int_equal(take_all(), 5);
    row_is("asks", "lora_set", "neon:0.8@aaaaaaaaaaaaaaaa");
    row_is("asks", "prompt", "a fox, glowing tubes");
    row_is("asks", "prompt_drawn", "neon style, a fox, glowing tubes");
    row_is("asks", "loras->0->>'sha256'", SHA);
    row_is("asks", "route::json->>'v'", "1");
    row_is("asks", "route::json#>>'{p,0,0}'", "neon");
    row_is("asks", "octet_length(route) <= 160", "true");
    row_is("writes", "lora_set", "neon:0.8@aaaaaaaaaaaaaaaa");
    row_is("writes", "prompt_drawn", "null");
    /* As a job that asks for nothing, but for the reason. */
    row_is("none", "lora_set", "");
    row_is("none", "prompt_drawn", "null");
    row_is("none", "lora_auto", "true");
    row_is("none", "route", "{\"v\":1,\"r\":9,\"p\":[]}");
    row_is("plain", "route", "null");
    row_is("named", "loras->0->>'sha256'", SHA);
    row_is("named", "loras->1->>'sha256'", "null");
    row_is("named", "route", "null");
}

/* What the words of a preset and what it excludes say, the user did not say. */
static void the_words_of_a_style_ask_for_nothing(void **state)
{
    (void)state;
    add_lora("neon", "", SHA, ",\"triggers\":[\"neon accents\"],\"positive\":[\"neon accents\"]");
    send("b", "styled", "{\"prompt\":\"a fox\",\"style\":\"sci-fi\",\"loras\":\"auto\"}");
    send("b", "own", "{\"prompt\":\"a fox, neon accents\",\"style\":\"anime\",\"loras\":\"auto\"}");
    assert_int_equal(take_all(), 2);
    row_is("styled", "position('neon accents' in prompt) > 0", "true");
    row_is("styled", "lora_set", "");
    row_is("own", "lora_set", "neon:1@aaaaaaaaaaaaaaaa");
}

/* The row of an entry that is read twice keeps its first route; later lines get the new version. */
static void a_change_in_mid_stream_is_for_later_jobs(void **state)
{
    (void)state;
    const char *line = "{\"prompt\":\"a fox in ink wash style\",\"loras\":\"auto\"}";
    send("b", "before", line);
    assert_int_equal(take_all(), 1);
    row_is("before", "lora_set", "");
    row_is("before", "route::json->>'v'", "0");
    add_lora("wash", "", OTHER_SHA, ",\"triggers\":[\"ink wash style\"]");
    send("b", "after", line);
    send("b", "before", line);
    assert_int_equal(take_all(), 1);
    row_is("after", "lora_set", "wash:1@bbbbbbbbbbbbbbbb");
    row_is("after", "route::json->>'v'", "1");
    row_is("before", "lora_set", "");
    static const char *const moves[] = {"1", "3", "0"}; /* assigned, failed, queued by a retry */
    for (int i = 0; i < 3; i++) {
        char sql[80];
        snprintf(sql, sizeof sql, "UPDATE job SET state = %s WHERE key = 'before'", moves[i]);
        free(kiln_test_sql(stack, sql));
    }
    row_is("before", "route::json->>'v'", "0");
}

/* A release that knows more keys has written a row: only that LoRA is left out. */
static void a_registry_of_another_release_is_read_as_far_as_it_goes(void **state)
{
    (void)state;
    add_lora("future", "", SHA, ",\"triggers\":[\"future style\"],\"embedding\":[1,2]");
    add_lora("neon", "", OTHER_SHA, neon);
    send("b", "known", "{\"prompt\":\"a fox in neon style\",\"loras\":\"auto\"}");
    send("b", "unknown", "{\"prompt\":\"a fox in future style\",\"loras\":\"auto\"}");
    send("b", "named", "{\"prompt\":\"a fox\",\"loras\":\"future\"}");
    assert_int_equal(take_all(), 3);
    row_is("known", "lora_set", "neon:0.8@bbbbbbbbbbbbbbbb");
    row_is("unknown", "lora_set", "");
    row_is("named", "loras->0->>'sha256'", SHA);
}

/* The router is built of what fits into its bounds; without one, jobs would wait for ever. */
static void a_registry_beyond_the_bounds_is_read_as_far_as_they_go(void **state)
{
    (void)state;
    add_lora("a-neon", "", OTHER_SHA, neon);
    add_lora("z-late", "", OTHER_SHA, ",\"triggers\":[\"late style\"]");
    free(kiln_test_sql(
        stack, "INSERT INTO lora (lora, since, enabled, routable, seen, pool, name, tenant, sha256,"
               " who, entry) SELECT 100 + i, 2, true, true, false, 'default', 'long-' || i, '',"
               " '" OTHER_SHA "', 'test', jsonb_build_object('name', 'long-' || i, 'triggers',"
               " jsonb_build_array('long style ' || i), 'source', repeat('x', 260000))"
               " FROM generate_series(1, 270) i"));
    reopen_routes();
    for (int i = 0; i < 12; i++) /* 64 MB of texts take some seconds on a busy machine */
        kiln_routes_turn(routes);
    send("b", "within", "{\"prompt\":\"a fox in neon style\",\"loras\":\"auto\"}");
    send("b", "beyond", "{\"prompt\":\"a fox in late style\",\"loras\":\"auto\"}");
    send("b", "named", "{\"prompt\":\"a fox\",\"loras\":\"z-late\"}");
    assert_int_equal(take_all(), 3);
    row_is("within", "lora_set", "a-neon:0.8@bbbbbbbbbbbbbbbb");
    row_is("beyond", "lora_set", "");
    row_is("named", "loras->0->>'sha256'", OTHER_SHA);
}

/* With an embedder: prompts whose vectors the thread makes, and an id in each reason. */
static void meaning_chooses_and_the_row_names_the_embedder(void **state)
{
    (void)state;
    const char *source = getenv("KILN_SOURCE");
    char command[1200], dir[200], path[300];
    struct kiln_embedder *e;
    snprintf(dir, sizeof dir, "%s/potion", stack->dir);
    snprintf(command, sizeof command,
             "rm -rf '%s' && cp -r '%s/tests/golden/embed/potion' '%s' && chmod -R u+w '%s'", dir,
             source ? source : ".", dir, dir);
    assert_int_equal(system(command), 0);
    kiln_test_ok(kiln_config_set(stack->config, "router_embedder", dir, "test", &err), err);
    assert_int_equal(kiln_routes_check(stack->config, &err), KILN_CONFIG); /* it has no weights */
    assert_non_null(strstr(err.text, "kiln_router.json"));
    kiln_test_ok(kiln_embedder_open(dir, NULL, &e, &err), err);
    snprintf(path, sizeof path, "%s/" KILN_EMBEDDING_WEIGHTS, dir);
    const struct kiln_meaning_weights weights = {.bias = -9000, .c = 10000};
    kiln_test_ok(kiln_embedding_weights_write(path, kiln_embedder_info(e)->recipe, &weights, &err),
                 err);
    kiln_embedder_close(e);
    kiln_test_ok(kiln_routes_check(stack->config, &err), err);
    add_lora("disc", "", SHA, ",\"triggers\":[\"dsc\"],\"description\":\"a crimson disc\"");
    reopen_routes();
    send("b", "means", "{\"prompt\":\"a crimson disc\",\"loras\":\"auto\"}");
    send("b", "bad", "{\"prompt\":\"x\",\"loras\":\"auto\",\"steps\":0}");
    for (int i = 0; i < 300; i++) { /* more than are prepared together */
        char key[16], line[80];
        snprintf(key, sizeof key, "k%d", i);
        snprintf(line, sizeof line, "{\"prompt\":\"a red star %d\",\"loras\":\"auto\"}", i);
        send("b", key, line);
    }
    assert_int_equal(take_all(), 301);
    row_is("means", "lora_set", "disc:1@aaaaaaaaaaaaaaaa");
    row_is("means", "prompt_drawn", "dsc, a crimson disc");
    row_is("means", "length(route::json->>'e')", "8");
    row_is("k299", "lora_set", "");
    row_is("k299", "route::json->>'e' = (SELECT route::json->>'e' FROM job WHERE key = 'means')",
           "true");
    kiln_test_ok(kiln_config_set(stack->config, "router_embedder", "none", "test", &err), err);
}

static void a_lora_of_a_tenant_is_for_that_tenant(void **state)
{
    (void)state;
    add_lora("mine", "ann", SHA, ",\"triggers\":[\"mine style\"]");
    send("b", "ann", "{\"prompt\":\"a fox in mine style\",\"loras\":\"auto\",\"tenant\":\"ann\"}");
    send("b", "bob", "{\"prompt\":\"a fox in mine style\",\"loras\":\"auto\",\"tenant\":\"bob\"}");
    send("b", "named", "{\"prompt\":\"a fox\",\"loras\":\"mine\",\"tenant\":\"bob\"}");
    assert_int_equal(take_all(), 2);
    row_is("ann", "lora_set", "mine:1@aaaaaaaaaaaaaaaa");
    row_is("bob", "lora_set", "");
    char *reason = kiln_test_sql(stack, "SELECT reason FROM intake_refusal WHERE key = 'named'");
    assert_string_equal(reason, "loras: \"mine\" is not for tenant \"bob\"");
    free(reason);
}

/* No LoRA for video, and none whose licence the setting does not name; a line may name them. */
static void a_lora_of_another_kind_or_licence_is_not_chosen(void **state)
{
    (void)state;
    kiln_test_ok(kiln_config_set(stack->config, "router_licences", "mit", "test", &err), err);
    add_lora("film", "", SHA,
             ",\"triggers\":[\"film style\"],\"type\":\"video\",\"licence\":\"MIT\"");
    add_lora("free", "", SHA, ",\"triggers\":[\"free style\"],\"licence\":\"MIT\"");
    add_lora("paid", "", SHA, ",\"triggers\":[\"paid style\"],\"licence\":\"ask me\"");
    add_lora("unsaid", "", SHA, ",\"triggers\":[\"unsaid style\"]");
    send("b", "film", "{\"prompt\":\"a fox, film style\",\"loras\":\"auto\"}");
    send("b", "free", "{\"prompt\":\"a fox, free style\",\"loras\":\"auto\"}");
    send("b", "paid", "{\"prompt\":\"a fox, paid style\",\"loras\":\"auto\"}");
    send("b", "unsaid", "{\"prompt\":\"a fox, unsaid style\",\"loras\":\"auto\"}");
    send("b", "named", "{\"prompt\":\"a fox\",\"loras\":\"paid\"}");
    assert_int_equal(take_all(), 5);
    kiln_test_ok(kiln_config_set(stack->config, "router_licences", "", "test", &err), err);
    row_is("film", "lora_set", "");
    row_is("free", "lora_set", "free:1@aaaaaaaaaaaaaaaa");
    row_is("paid", "lora_set", "");
    row_is("unsaid", "lora_set", "");
    row_is("named", "lora_set", "paid:1@aaaaaaaaaaaaaaaa");
}

static void hostile_prompts_come_in(void **state)
{
    (void)state;
    add_lora("neon", "", SHA, neon);
    char *line = malloc(KILN_PROMPT_MAX + 200), *at = line;
    at += sprintf(at, "{\"loras\":\"auto\",\"prompt\":\"glowing tubes, ");
    for (size_t len = strlen("glowing tubes, "); len < KILN_PROMPT_MAX; len++)
        *at++ = len % 7 ? 'x' : ' ';
    strcpy(at, "\"}");
    send("b", "long", line); /* has no room for a trigger */
    send("b", "emoji", "{\"loras\":\"auto\",\"prompt\":\"\xf0\x9f\xa6\x8a\xf0\x9f\x8c\x83\"}");
    send(
        "b", "denied",
        "{\"loras\":\"auto\",\"prompt\":\"no neon style, not neon style, without glowing tubes\"}");
    send("b", "quoted", "{\"loras\":\"auto\",\"prompt\":\"a sign that says \\\"neon style\\\"\"}");
    send("b", "barred",
         "{\"loras\":\"auto\",\"prompt\":\"neon style\",\"negative_prompt\":\"neon style\"}");
    send("b", "word", "{\"loras\":\"auto\",\"prompt\":\"fox\"}");
    send("b", "empty", "{\"loras\":\"auto\",\"prompt\":\"\"}");
    assert_int_equal(take_all(), 7);
    row_is("long", "prompt_drawn", "null");
    row_is("long", "lora_set", "neon:0.8@aaaaaaaaaaaaaaaa");
    static const char *const without[] = {"emoji", "denied", "quoted", "barred", "word", "empty"};
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        row_is(without[i], "lora_set", "");
    free(line);
}

#define ROUTED(name) cmocka_unit_test_setup_teardown(name, setup_registry, teardown)

/* What `kiln up` gives to somebody who has done nothing. */
static void the_loras_of_the_model_are_chosen_out_of_the_box(void **state)
{
    (void)state;
    char dir[PATH_MAX];
    const char *source = getenv("KILN_SOURCE");
    snprintf(dir, sizeof dir, "%s/pipeline/models/sketch/loras", source ? source : ".");
    kiln_test_ok(kiln_config_set(stack->config, "lora_dir", dir, "test", &err), err);
    reopen_routes();
    send("b", "box", "{\"prompt\":\"a fox in pixel art style\",\"loras\":\"auto\"}");
    send("b", "plain", "{\"prompt\":\"a fox in the snow\",\"loras\":\"auto\"}");
    assert_int_equal(take_all(), 2);
    row_is("box", "lora_set ~ '^pixel:1@[0-9a-f]{16}$'", "true"); /* which only the folder has */
    row_is("plain", "lora_set", "");
    char *rows = kiln_test_sql(stack, "SELECT count(*) FROM lora WHERE seen AND until IS NULL");
    assert_string_equal(rows, "6");
    free(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROUTED(a_prompt_gets_its_lora_and_why),
        ROUTED(the_words_of_a_style_ask_for_nothing),
        ROUTED(a_change_in_mid_stream_is_for_later_jobs),
        ROUTED(a_registry_of_another_release_is_read_as_far_as_it_goes),
        ROUTED(a_registry_beyond_the_bounds_is_read_as_far_as_they_go),
        ROUTED(meaning_chooses_and_the_row_names_the_embedder),
        ROUTED(a_lora_of_a_tenant_is_for_that_tenant),
        ROUTED(a_lora_of_another_kind_or_licence_is_not_chosen),
        ROUTED(hostile_prompts_come_in),
        ROUTED(the_loras_of_the_model_are_chosen_out_of_the_box), /* it sets lora_dir */
    };
    return cmocka_run_group_tests(tests, start, stop);
}
