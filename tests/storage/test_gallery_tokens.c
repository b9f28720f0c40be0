/* test_gallery_tokens.c - the tokens of prompts, by their keys and in a walk through the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/ledger/gallery/prompts.h"
#include "storage/ledger/ledger.h"
#include "tests/support/rig.h"

#define PROMPTS 40
#define BYTES 3 /* of tokens: the number of the prompt, and two more */

static struct kiln_ledger *session;
static struct kiln_prompt_hash prompts[PROMPTS];

static int start(void **state)
{
    int rc = kiln_rig_start(state);
    return rc ? rc : kiln_ledger_open_reading(rig.stack->config, "gallery", 0, &session, &rig.err);
}

static int stop(void **state)
{
    kiln_ledger_close(session);
    return kiln_rig_stop(state);
}

static void run(const char *sql)
{
    free(kiln_test_sql(rig.stack, sql));
}

/* Puts the prompts [from, from + count) under a recipe, with tokens of their numbers. */
static void put(const char *recipe, int from, int count)
{
    static const uint8_t row[4] = {129, 130, 131, 132};
    static uint8_t tokens[PROMPTS][BYTES];
    struct kiln_prompt_vector vectors[PROMPTS] = {0};
    for (int i = 0; i < count; i++) {
        struct kiln_prompt_vector *v = &vectors[i];
        snprintf(v->prompt_hash, sizeof v->prompt_hash, "%064x",
                 0x9e3779b1u * (unsigned)(from + i));
        tokens[from + i][0] = (uint8_t)(from + i);
        v->scale = 1, v->row = row, v->tokens = tokens[from + i], v->tokens_size = BYTES;
    }
    kiln_test_ok(kiln_gallery_vectors_put(rig.ledger, recipe, 4, vectors, (size_t)count, &rig.err),
                 rig.err);
    for (int i = 0; i < count; i++)
        memcpy(prompts[from + i].hex, vectors[i].prompt_hash, 65);
}

static void put_all(void)
{
    run("TRUNCATE gallery_vector");
    put("a", 0, PROMPTS);
}

struct taken {
    int count, calls[PROMPTS];
    bool has[PROMPTS];
};

static int take(void *arg, size_t place, const uint8_t *tokens, size_t size, struct kiln_error *err)
{
    struct taken *taken = arg;
    (void)err;
    assert_true(place < PROMPTS);
    assert_int_equal(taken->calls[place]++, 0);
    if (size == 0)
        return 0;
    assert_int_equal(size, BYTES);
    assert_int_equal(tokens[0], place);
    taken->has[place] = true;
    taken->count++;
    return 0;
}

/* Asks for all prompts; a prompt has its own tokens or none. */
static struct taken ask(void)
{
    struct taken taken = {0};
    kiln_test_ok(kiln_gallery_tokens(session, "a", prompts, PROMPTS, take, &taken, &rig.err),
                 rig.err);
    for (int i = 0; i < PROMPTS; i++)
        assert_int_equal(taken.calls[i], 1);
    return taken;
}

/* In an order of its own, with some of another recipe and some that there are not. */
static void tokens_come_in_the_order_of_the_prompts(void **state)
{
    (void)state;
    put_all();
    assert_int_equal(ask().count, PROMPTS);
    run("TRUNCATE gallery_vector");
    put("b", 0, PROMPTS);
    put("a", 5, 10);
    const struct taken taken = ask();
    assert_int_equal(taken.count, 10);
    assert_true(taken.has[5] && taken.has[14] && !taken.has[15]);
}

static void a_row_that_was_there_stays(void **state)
{
    (void)state;
    put_all();
    run("UPDATE gallery_vector SET tokens = '\\x074142'"
        " WHERE prompt_hash = (SELECT max(prompt_hash) FROM gallery_vector)");
    const int before = (int)kiln_test_count(
        rig.stack, "SELECT count(*) FROM gallery_vector WHERE tokens = '\\x074142'");
    put("a", 0, PROMPTS);
    assert_int_equal(before, 1);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM gallery_vector WHERE"
                                                " tokens = '\\x074142'"),
                     1);
}

static int count_tokens(void *arg, size_t place, const uint8_t *tokens, size_t size,
                        struct kiln_error *err)
{
    (void)err;
    assert_true(size == BYTES && tokens[0] == 7);
    ((int *)arg)[place]++;
    return 0;
}

/* As a candidate of a search that is a sample too. */
static void a_prompt_that_is_asked_for_twice_comes_twice(void **state)
{
    (void)state;
    put_all();
    const struct kiln_prompt_hash twice[2] = {prompts[7], prompts[7]};
    int calls[2] = {0};
    kiln_test_ok(kiln_gallery_tokens(session, "a", twice, 2, count_tokens, calls, &rig.err),
                 rig.err);
    assert_true(calls[0] == 1 && calls[1] == 1);
}

/* --- the walk -------------------------------------------------------------------------------- */
static int take_stored(void *arg, const char *prompt_hash, const uint8_t *tokens, size_t size,
                       struct kiln_error *err)
{
    for (size_t i = 0; i < PROMPTS; i++)
        if (strcmp(prompts[i].hex, prompt_hash) == 0)
            return take(arg, i, tokens, size, err);
    fail_msg("no such prompt: %s", prompt_hash);
    return 0;
}

/* Pieces of so many blocks; returns their number. */
static int walk(uint32_t blocks, struct taken *taken)
{
    uint32_t block = 0;
    bool more = true;
    int pieces = 0;
    memset(taken, 0, sizeof *taken);
    for (; more; pieces++)
        kiln_test_ok(kiln_gallery_tokens_walk(session, "a", blocks, &block, &more, take_stored,
                                              taken, &rig.err),
                     rig.err);
    return pieces;
}

static void a_walk_finds_each_prompt_once(void **state)
{
    (void)state;
    struct taken taken;
    put_all();
    assert_int_equal(walk(100, &taken), 1);
    assert_int_equal(taken.count, PROMPTS);
    put("b", 0, PROMPTS); /* rows that are not of the recipe */
    /* Rows of a third of a block, so that pieces end between them. */
    run("ALTER TABLE gallery_vector ALTER v SET STORAGE EXTERNAL");
    run("UPDATE gallery_vector SET v = decode(repeat('00', 2500), 'hex')");
    run("VACUUM FULL gallery_vector");
    const int pieces = walk(1, &taken);
    assert_int_equal(taken.count, PROMPTS);
    assert_true(pieces >= 2 * PROMPTS / 3);
    assert_true(walk(7, &taken) < pieces);
    assert_int_equal(taken.count, PROMPTS);
}

static void a_walk_says_who_has_no_tokens(void **state)
{
    (void)state;
    struct taken taken;
    put_all();
    run("UPDATE gallery_vector SET tokens = NULL");
    (void)walk(100, &taken);
    assert_int_equal(taken.count, 0);
    for (int i = 0; i < PROMPTS; i++)
        assert_int_equal(taken.calls[i], 1);
    run("TRUNCATE gallery_vector");
    assert_int_equal(walk(100, &taken), 1);
    assert_int_equal(taken.calls[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_come_in_the_order_of_the_prompts),
        cmocka_unit_test(a_row_that_was_there_stays),
        cmocka_unit_test(a_prompt_that_is_asked_for_twice_comes_twice),
        cmocka_unit_test(a_walk_finds_each_prompt_once),
        cmocka_unit_test(a_walk_says_who_has_no_tokens),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
