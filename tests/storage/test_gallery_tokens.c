/* test_gallery_tokens.c - the tokens of prompts, read by the addresses of their rows. */
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
static struct kiln_prompt_row prompts[PROMPTS];

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
    for (int i = 0; i < count; i++) {
        memcpy(prompts[from + i].prompt_hash, vectors[i].prompt_hash, 65);
        prompts[from + i].address = vectors[i].address;
    }
}

/* All prompts, each at an address of its own. */
static void put_all(void)
{
    run("TRUNCATE gallery_vector");
    put("a", 0, PROMPTS);
    for (int i = 0; i < PROMPTS; i++) {
        assert_true(prompts[i].address > 0);
        for (int j = 0; j < i; j++)
            assert_true(prompts[i].address != prompts[j].address);
    }
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

static int keep_address(void *arg, const struct kiln_prompt_vector *vector, struct kiln_error *err)
{
    (void)arg, (void)err;
    for (int i = 0; i < PROMPTS; i++)
        if (strcmp(prompts[i].prompt_hash, vector->prompt_hash) == 0)
            prompts[i].address = vector->address;
    return 0;
}

static void a_row_that_is_written_has_the_address_at_which_it_is_read(void **state)
{
    (void)state;
    struct kiln_prompt_row written[PROMPTS];
    put_all();
    assert_int_equal(ask().count, PROMPTS);
    memcpy(written, prompts, sizeof written);
    for (int i = 0; i < PROMPTS; i++)
        prompts[i].address = 0;
    assert_int_equal(ask().count, PROMPTS); /* of rows at unknown addresses */
    kiln_test_ok(kiln_gallery_vectors(session, "a", 4, keep_address, NULL, &rig.err), rig.err);
    for (int i = 0; i < PROMPTS; i++)
        assert_true(prompts[i].address == written[i].address);
}

static void a_row_that_was_there_stays_and_its_address_is_unknown(void **state)
{
    (void)state;
    run("TRUNCATE gallery_vector");
    put("a", 5, 10);
    put("a", 0, PROMPTS);
    for (int i = 0; i < PROMPTS; i++)
        assert_int_equal(prompts[i].address > 0, i < 5 || i >= 15);
    assert_int_equal(ask().count, PROMPTS);
}

static void rows_that_moved_are_found(void **state)
{
    (void)state;
    put_all();
    run("UPDATE gallery_vector SET scale = 2 WHERE prompt_hash = (SELECT min(prompt_hash) FROM"
        " gallery_vector)");
    assert_int_equal(ask().count, PROMPTS);
    run("DELETE FROM gallery_vector WHERE ctid = '(0,2)'");
    run("VACUUM FULL gallery_vector"); /* the others move up by one */
    const struct taken taken = ask();
    assert_int_equal(taken.count, PROMPTS - 1);
    kiln_test_restart(rig.stack, KILN_TEST_POSTGRES, NULL);
    assert_int_equal(ask().count, PROMPTS - 1);
}

/* Rows of others at the addresses: of other prompts, of another recipe. */
static void an_address_gives_no_tokens_of_another_row(void **state)
{
    (void)state;
    put_all();
    run("CREATE TABLE aside AS SELECT * FROM gallery_vector");
    run("TRUNCATE gallery_vector");
    run("INSERT INTO gallery_vector SELECT * FROM aside ORDER BY prompt_hash DESC");
    assert_int_equal(ask().count, PROMPTS);
    run("TRUNCATE gallery_vector");
    run("INSERT INTO gallery_vector (prompt_hash, recipe, scale, v, tokens) SELECT"
        " prompt_hash, 'b', scale, v, '\\x636363' FROM aside");
    assert_int_equal(ask().count, 0);
    run("INSERT INTO gallery_vector SELECT * FROM aside");
    assert_int_equal(ask().count, PROMPTS);
    run("DROP TABLE aside");
}

static void a_row_that_went_gives_no_tokens_and_its_place_to_others(void **state)
{
    (void)state;
    kiln_row_address address = 0;
    put_all();
    run("DELETE FROM gallery_vector WHERE ctid < '(0,11)'");
    assert_int_equal(ask().count, PROMPTS - 10);
    run("VACUUM gallery_vector");
    put("b", 0, 10);
    for (int i = 0; i < 10; i++)
        address = prompts[i].address > address ? prompts[i].address : address;
    assert_true(address <= 10); /* they took those places */
    struct taken taken = ask();
    assert_int_equal(taken.count, PROMPTS - 10);
    assert_false(taken.has[0] || taken.has[9]);
    run("TRUNCATE gallery_vector"); /* no address is in the table any more */
    assert_int_equal(ask().count, 0);
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
    struct kiln_prompt_row twice[2] = {prompts[7], prompts[7]};
    for (int known = 2; known >= 0; known--) { /* of its addresses */
        int calls[2] = {0};
        kiln_test_ok(kiln_gallery_tokens(session, "a", twice, 2, count_tokens, calls, &rig.err),
                     rig.err);
        assert_true(calls[0] == 1 && calls[1] == 1);
        twice[known > 0 ? known - 1 : 0].address = 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_that_is_written_has_the_address_at_which_it_is_read),
        cmocka_unit_test(a_row_that_was_there_stays_and_its_address_is_unknown),
        cmocka_unit_test(an_address_gives_no_tokens_of_another_row),
        cmocka_unit_test(a_row_that_went_gives_no_tokens_and_its_place_to_others),
        cmocka_unit_test(a_prompt_that_is_asked_for_twice_comes_twice),
        cmocka_unit_test(rows_that_moved_are_found),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
