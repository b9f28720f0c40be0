/* test_reuse_block.c - every donor that the guard takes for a target has the target's subject and
 * says what it says: all prompts of the lists of pairs against each other.  Prints what is left to
 * compare. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/reuse/block.h"
#include "schemas/reuse/guard.h"

#define PROMPTS 1200 /* of a list: 1.4 million pairs */

struct prompt {
    char *text;
    struct kiln_facts *facts;
    struct kiln_reuse_block block;
};

static struct kiln_reuse_words *words;
static struct prompt prompts[PROMPTS];
static size_t count;

static FILE *open_source(const char *path)
{
    char whole[4096];
    const char *source = getenv("KILN_SOURCE");
    snprintf(whole, sizeof whole, "%s/%s", source ? source : ".", path);
    FILE *in = fopen(whole, "r");
    if (!in)
        fail_msg("%s cannot be opened", whole);
    return in;
}

static void take(const char *text)
{
    struct kiln_error err;
    struct prompt *prompt = &prompts[count];
    if (!text || kiln_facts_read(words, text, &prompt->facts, &err) != 0)
        return;
    prompt->text = strdup(text);
    prompt->block = kiln_reuse_block_of(prompt->facts);
    count++;
}

static void read_list(const char *path)
{
    FILE *in = open_source(path);
    char *line = NULL;
    size_t room = 0;
    while (count + 2 <= PROMPTS && getline(&line, &room, in) > 0) {
        char *rest = line;
        if (line[0] == '#' || !strsep(&rest, "\t") || !rest)
            continue;
        take(strsep(&rest, "\t"));
        take(rest ? strsep(&rest, "\t\n") : NULL);
    }
    free(line);
    fclose(in);
    assert_true(count > PROMPTS / 2);
}

static void add_words_of_sketch(void)
{
    FILE *in = open_source("pipeline/models/sketch/words.txt");
    char *text = NULL;
    size_t room = 0;
    struct kiln_error err;
    assert_true(getdelim(&text, &room, '\0', in) > 0);
    assert_int_equal(kiln_reuse_words_add(words, text, &err), 0);
    free(text);
    fclose(in);
}

static void check_all(const char *path)
{
    uint64_t pairs = 0, left = 0, taken = 0;
    count = 0;
    read_list(path);
    for (size_t t = 0; t < count; t++)
        for (size_t d = 0; d < count; d++) {
            char reason[KILN_REUSE_REASON_MAX];
            const struct kiln_reuse_block *target = &prompts[t].block, *donor = &prompts[d].block;
            const bool serves = target->subject == donor->subject &&
                                kiln_reuse_said_serves(target->said, donor->said);
            const enum kiln_reuse_class class =
                kiln_reuse_compare(prompts[t].facts, prompts[d].facts, reason);
            const bool found = class == KILN_REUSE_REWORDED || class == KILN_REUSE_DONOR_SAYS_MORE;
            if (found && !serves)
                fail_msg("%s: sorted out, though the guard takes it (%s):\n    %s\n    %s", path,
                         kiln_reuse_class_name(class), prompts[t].text, prompts[d].text);
            pairs++;
            left += serves;
            taken += found;
        }
    printf("%s: of %llu pairs %llu are left to compare, and %llu taken\n", path,
           (unsigned long long)pairs, (unsigned long long)left, (unsigned long long)taken);
    assert_true(taken > 200 && left < pairs / 100);
    for (size_t i = 0; i < count; i++) {
        kiln_facts_free(prompts[i].facts);
        free(prompts[i].text);
    }
}

static void nothing_that_serves_is_sorted_out(void **state)
{
    (void)state;
    struct kiln_error err;
    assert_int_equal(kiln_reuse_words_new(NULL, 0, &words, &err), 0);
    check_all("tests/quality/reuse/world.tsv");
    add_words_of_sketch();
    check_all("tests/quality/reuse/demo.tsv");
    kiln_reuse_words_free(words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_that_serves_is_sorted_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
