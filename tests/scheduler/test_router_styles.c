/* test_router_styles.c - the lists of prompts that ask for one of the demo model's six styles
 * (tests/quality/README.md): the right LoRA alone, never another style, and none where none is
 * asked for.  What the pictures show is scripts/bench/auto_loras.py's. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/support/router.h"

static FILE *open_source(const char *name)
{
    char path[PATH_MAX];
    const char *source = getenv("KILN_SOURCE");
    snprintf(path, sizeof path, "%s/%s", source ? source : ".", name);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s cannot be opened", path);
    return file;
}

struct counts {
    unsigned asked, right, wrong; /* wrong: another style */
    unsigned none, touched;
};

static void count(const json_t *row, struct counts *counts)
{
    const char *prompt = json_string_value(json_object_get(row, "prompt"));
    const char *kind = json_string_value(json_object_get(row, "kind"));
    const char *style = json_string_value(json_object_get(row, "style"));
    struct kiln_error err;
    struct kiln_route route;
    assert_true(prompt && kind);
    if (kiln_router_route(reader, &(struct kiln_router_request){.prompt = prompt}, &route, &err))
        fail_msg("%s", err.text);
    const char *chosen = route.count ? kiln_router_lora(router, route.picks[0].lora)->name : "";
    if (!style) {
        const bool touched = route.count > 0 || strcmp(route.prompt, prompt) != 0;
        counts->none++;
        counts->touched += touched;
        if (touched)
            print_message("%s for none: %s\n", chosen, prompt);
        return;
    }
    counts->wrong += route.count > 0 && strcmp(chosen, style) != 0;
    if (strcmp(kind, "para") == 0) /* a description without a name: no goal */
        return;
    counts->asked++;
    counts->right += route.count == 1 && strcmp(chosen, style) == 0;
}

static struct counts run(const char *name)
{
    struct counts counts = {0};
    FILE *file = open_source(name);
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, file) > 0) {
        json_t *row = json_loads(line, 0, NULL);
        assert_non_null(row);
        count(row, &counts);
        json_decref(row);
    }
    free(line);
    fclose(file);
    print_message("%s: %u of %u right, %u another style; %u of %u touched\n", name, counts.right,
                  counts.asked, counts.wrong, counts.touched, counts.none);
    assert_int_equal(counts.asked, 300);
    assert_int_equal(counts.none, 60);
    return counts;
}

/* By hand 99 to 100 % of the pictures are in the style (RESULTS.md), and the goal is 2 points less.
 * The first fresh list's author counts looks as neon or hatched that have names of their own. */
static void a_style_is_found_in_any_of_its_ways(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        unsigned right, touched;
    } goals[] = {{"styles", 297, 0},        {"styles_fresh", 285, 1},  {"styles_fresh2", 294, 0},
                 {"styles_fresh3", 294, 0}, {"styles_fresh4", 294, 0}, {"styles_fresh5", 294, 0},
                 {"styles_fresh6", 294, 0}, {"styles_fresh7", 294, 0}, {"styles_fresh8", 294, 0}};
    for (size_t i = 0; i < sizeof goals / sizeof *goals; i++) {
        char name[PATH_MAX];
        snprintf(name, sizeof name, "tests/quality/%s.jsonl", goals[i].list);
        const struct counts counts = run(name);
        assert_true(counts.right >= goals[i].right);
        assert_true(counts.touched <= goals[i].touched);
        assert_int_equal(counts.wrong, 0);
    }
}

/* Captions and sentences of other tests; "check" asks for styles by setting, not by words. */
static void prompts_of_other_tests_are_left_alone(void **state)
{
    (void)state;
    static const char *const lists[] = {"free200", "other60", "free60", "held", "free_grammar"};
    unsigned prompts = 0;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char name[PATH_MAX], *line = NULL;
        size_t room = 0;
        snprintf(name, sizeof name, "tests/quality/%s.jsonl", lists[i]);
        FILE *file = open_source(name);
        for (; getline(&line, &room, file) > 0; prompts++) {
            json_t *row = json_loads(line, 0, NULL);
            struct counts counts = {0};
            assert_non_null(row);
            json_object_set_new(row, "kind", json_string("none"));
            json_object_del(row, "style");
            count(row, &counts);
            assert_int_equal(counts.touched, 0);
            json_decref(row);
        }
        free(line);
        fclose(file);
    }
    assert_true(prompts >= 600);
}

static int open_all(void **state)
{
    static char text[1 << 16];
    (void)state;
    FILE *file = open_source("pipeline/models/sketch/loras/loras.json");
    assert_true(fread(text, 1, sizeof text, file) < sizeof text);
    fclose(file);
    return kiln_router_rig_open(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_style_is_found_in_any_of_its_ways),
        cmocka_unit_test(prompts_of_other_tests_are_left_alone),
    };
    return cmocka_run_group_tests(tests, open_all, kiln_router_rig_close);
}
