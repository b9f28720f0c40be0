/* test_model_words.c - words.txt of a model: what is read and refused, and which nouns of a prompt
 * the model was not taught. */
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
#include <jansson.h>

#include "schemas/reuse/known.h"
#include "storage/formats/card/model_words.h"

static void write_words(const char *path, const char *text, size_t len)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, len, out), len);
    assert_int_equal(fclose(out), 0);
}

/* A model's words go before the built-in ones; a bad file is refused by its line. */
static void words_are_read_or_refused(void **state)
{
    (void)state;
    char dir[] = "/tmp/kiln-words-XXXXXX", path[64];
    struct kiln_reuse_words *words;
    struct kiln_error err;
    bool own = true;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/words.txt", dir);
    const struct kiln_words_version none = kiln_model_words_version(dir);
    assert_true(none.size == 0 && none.file == 0);
    assert_int_equal(kiln_model_words_read(dir, &words, &own, &err), 0);
    assert_false(own);
    const struct kiln_sense *sense = kiln_sense_find(words, "vixen", 5, NULL);
    assert_null(sense);
    kiln_reuse_words_free(words);
    static const char good[] = "[being]\nfox: vixen\n";
    write_words(path, good, sizeof good - 1);
    const struct kiln_words_version first = kiln_model_words_version(dir);
    assert_int_equal(first.size, sizeof good - 1);
    assert_int_equal(kiln_model_words_read(dir, &words, &own, &err), 0);
    assert_true(own);
    sense = kiln_sense_find(words, "vixen", 5, NULL);
    assert_true(sense && strcmp(sense->meaning, "fox") == 0);
    kiln_reuse_words_free(words);
    static const char *const bad[] = {"[being]\n[beast]\n", "fox: vixen\n", "[being]\n\0\n"};
    static const char *const why[] = {"line 2", "before the first section", "zero byte"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_words(path, bad[i], i == 2 ? 10 : strlen(bad[i]));
        assert_int_equal(kiln_model_words_read(dir, &words, &own, &err), KILN_CONFIG);
        assert_non_null(strstr(err.text, path));
        assert_non_null(strstr(err.text, why[i]));
    }
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(kiln_model_words_read(dir, &words, &own, &err), KILN_CONFIG); /* no waiting */
    unlink(path);
    rmdir(dir);
}

/* --- nouns that a model was not taught --- */

static struct kiln_reuse_words *words_of_sketch(void)
{
    char dir[4096];
    struct kiln_reuse_words *words;
    struct kiln_error err;
    bool own;
    const char *source = getenv("KILN_SOURCE");
    snprintf(dir, sizeof dir, "%s/pipeline/models/sketch", source ? source : ".");
    if (kiln_model_words_read(dir, &words, &own, &err))
        fail_msg("%s", err.text);
    assert_true(own);
    return words;
}

static void assert_unknown(const struct kiln_reuse_words *words, const char *prompt,
                           const char *want)
{
    char noun[KILN_NOUN_MAX];
    struct kiln_error err;
    assert_int_equal(kiln_reuse_unknown_noun(words, prompt, noun, &err), 0);
    if (strcmp(noun, want) != 0)
        fail_msg("of '%s' the unknown noun is '%s', not '%s'", prompt, noun, want);
}

static void nouns_of_no_list_of_the_model_are_unknown(void **state)
{
    (void)state;
    struct kiln_reuse_words *words = words_of_sketch();
    struct kiln_error err;
    char noun[KILN_NOUN_MAX];
    assert_unknown(words, "a cat", "cat");
    assert_unknown(words, "a red star and three Elephants", "elephants");
    assert_unknown(words, "A photo of a red star, best quality", "");
    assert_unknown(words, "the word \"cat\", a red star", "");
    assert_unknown(words, "two perfect squares", "");
    assert_unknown(words, "a blorb", ""); /* in no list: perhaps no noun */
    assert_unknown(words, "", "");
    assert_int_equal(kiln_reuse_unknown_noun(words, "\xff", noun, &err), KILN_BAD_INPUT);
    kiln_reuse_words_free(words);
}

/* What the model was taught, said in the words of four people and a grammar. */
static void what_the_model_draws_is_known(void **state)
{
    (void)state;
    static const char *const lists[] = {"held", "free60", "free200", "other60", "free_grammar"};
    struct kiln_reuse_words *words = words_of_sketch();
    const char *source = getenv("KILN_SOURCE");
    int prompts = 0, warned = 0;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char path[4096], noun[KILN_NOUN_MAX];
        struct kiln_error err;
        snprintf(path, sizeof path, "%s/tests/quality/%s.jsonl", source ? source : ".", lists[i]);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        json_t *row;
        while ((row = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
            const char *prompt = json_string_value(json_object_get(row, "prompt"));
            assert_int_equal(kiln_reuse_unknown_noun(words, prompt, noun, &err), 0);
            prompts++;
            if (noun[0]) {
                warned++;
                printf("%s: %s: %s\n", lists[i], noun, prompt);
            }
            json_decref(row);
        }
        fclose(file);
    }
    printf("%d of %d prompts get a warning\n", warned, prompts);
    assert_true(prompts == 920 && warned <= 10);
    kiln_reuse_words_free(words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_read_or_refused),
        cmocka_unit_test(nouns_of_no_list_of_the_model_are_unknown),
        cmocka_unit_test(what_the_model_draws_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
