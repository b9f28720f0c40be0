/* test_donor_search.c - which donor a job gets: by class, table and whatever else must be equal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/cache/search.h"
#include "schemas/job/line.h"

#define ROW(class, depth)                                                                          \
    "{\"class\": \"" class "\", \"depth\": " depth ", \"donors\": 1, \"uses\": 2,"                 \
                           " \"variety\": 1, \"loss\": [0, 0], \"for\": [\"256x256\"]}"

static const char all_classes[] = "{\"teleport\": {\"rows\": [" ROW("same_prompt", "6") "," ROW(
    "canonical", "5") "," ROW("reworded", "4") "," ROW("donor_says_more", "3") "]}}";
static const char same_prompt[] = "{\"teleport\": {\"rows\": [" ROW("same_prompt", "6") "]}}";
static const char not_reworded[] = "{\"teleport\": {\"rows\": [" ROW("same_prompt", "6") "," ROW(
    "canonical", "5") "," ROW("donor_says_more", "3") "]}}";

static struct kiln_reuse_words *words;
static struct kiln_donor_index *index_of_test;
static uint64_t last_job;

static int start(void **state)
{
    (void)state;
    struct kiln_error err;
    last_job = 0;
    index_of_test = kiln_donor_index_new(1000, 1 << 20);
    return kiln_reuse_words_new(NULL, 0, &words, &err) || !index_of_test;
}

static int end(void **state)
{
    (void)state;
    kiln_donor_index_free(index_of_test);
    kiln_reuse_words_free(words);
    return 0;
}

static const struct kiln_donor_kind plain = {
    .model = "", .weights = 7, .width = 256, .height = 256, .steps = 8, .lora_set = ""};

static uint64_t put(const struct kiln_donor_kind *kind, const char *prompt, const char *negative)
{
    struct kiln_donor_entry entry = {.job = ++last_job, .prompt = prompt};
    char hash[65];
    struct kiln_facts *facts = kiln_donor_facts(words, prompt);
    kiln_prompt_hash(prompt, negative, hash);
    kiln_donor_keys(kind, hash, negative, facts, &entry.keys);
    kiln_facts_free(facts);
    assert_int_equal(kiln_donor_index_put(index_of_test, &entry), 0);
    return last_job;
}

static struct kiln_job job_of(const char *prompt)
{
    return (struct kiln_job){.prompt = (char *)(uintptr_t)prompt,
                             .negative_prompt = (char *)(uintptr_t) "",
                             .model = (char *)(uintptr_t) "",
                             .width = 256,
                             .height = 256,
                             .steps = 8,
                             .mode = {.kind = KILN_MODE_EXACT},
                             .teleport = KILN_TELEPORT_AUTO};
}

static struct kiln_donor find_with(const char *table, const struct kiln_reuse_words *lists,
                                   const struct kiln_job *job)
{
    struct kiln_model_card card;
    struct kiln_error err = {0};
    if (kiln_model_card_parse(table, strlen(table), "kiln.json", &card, &err))
        fail_msg("%s", err.text);
    const struct kiln_donor_stock stock = {.index = index_of_test, .card = &card, .words = lists};
    struct kiln_reuse_marks marks;
    return kiln_donor_search(&stock, job, 7, NULL, &marks);
}

static void check(const char *prompt, uint64_t donor, uint32_t depth, int class)
{
    const struct kiln_job job = job_of(prompt);
    const struct kiln_donor found = find_with(all_classes, words, &job);
    if (found.job != donor || found.step != depth || found.hit != class)
        fail_msg("%s: donor %llu at %u in class %d", prompt, (unsigned long long)found.job,
                 found.step, found.hit);
}

static void every_class_is_found(void **state)
{
    (void)state;
    const uint64_t cat = put(&plain, "a small red cat on a sofa", "");
    check("a small red cat on a sofa", cat, 6, KILN_REUSE_SAME_PROMPT);
    check("A small RED cat,  on a sofa!!", 0, 0, 0); /* a comma within says something */
    check("A small  red cat on a sofa!!", cat, 5, KILN_REUSE_CANONICAL);
    check("a little red cat on a couch", cat, 4, KILN_REUSE_REWORDED);
    check("a red cat on a couch", cat, 3, KILN_REUSE_DONOR_SAYS_MORE);
    static const char *const others[] = {
        "a small blue cat on a sofa",         "a small red dog on a sofa",
        "two small red cats on a sofa",       "a small red cat under a sofa",
        "a sofa on a small red cat",          "no small red cat on a sofa",
        "a small red cat on a sofa at night", "a small crimson cat on a sofa"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        check(others[i], 0, 0, 0);
}

/* The deepest row wins, so the class of most trust here; a used one leaves the next. */
static void the_deepest_wins_and_uses_count(void **state)
{
    (void)state;
    const uint64_t reworded = put(&plain, "a little red cat on a couch", "");
    const uint64_t typed = put(&plain, "A small red cat on a sofa", "");
    const uint64_t same = put(&plain, "a small red cat on a sofa", "");
    const uint64_t again = put(&plain, "a small red cat on a sofa", "");
    check("a small red cat on a sofa", again, 6, KILN_REUSE_SAME_PROMPT);
    kiln_donor_index_use(index_of_test, again);
    check("a small red cat on a sofa", same, 6, KILN_REUSE_SAME_PROMPT);
    for (int i = 0; i < 2; i++) {
        kiln_donor_index_use(index_of_test, again);
        kiln_donor_index_use(index_of_test, same);
    }
    check("a small red cat on a sofa", typed, 5, KILN_REUSE_CANONICAL);
    assert_true(kiln_donor_index_remove(index_of_test, typed));
    check("a small red cat on a sofa", reworded, 4, KILN_REUSE_REWORDED);
}

static void all_else_must_be_equal(void **state)
{
    (void)state;
    struct kiln_donor_kind kinds[] = {plain, plain, plain, plain, plain, plain};
    kinds[0].weights = 8; /* the model was exchanged under its name */
    kinds[1].model = "other";
    kinds[2].width = 512;
    kinds[3].height = 512;
    kinds[4].steps = 4;
    kinds[5].coarse = true; /* an exact picture begins from exact ones alone */
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        put(&kinds[i], "a small red cat on a sofa", "");
    put(&plain, "a small red cat on a sofa", "blurry");
    check("a small red cat on a sofa", 0, 0, 0);
    check("A small red cat on a sofa", 0, 0, 0);
    check("a red cat on a couch", 0, 0, 0);
    struct kiln_job job = job_of("A small red cat on a sofa");
    job.negative_prompt = (char *)(uintptr_t) "blurry";
    assert_int_equal(find_with(all_classes, words, &job).hit, KILN_REUSE_CANONICAL);
    job = job_of("a red cat on a couch");
    job.mode.kind = KILN_MODE_COARSE_AUTO;
    assert_int_equal(find_with(all_classes, words, &job).hit, KILN_REUSE_DONOR_SAYS_MORE);
}

/* A coarse run from an exact picture leaves out small steps, but not all but one. */
static void exact_donors_of_coarse_runs_are_not_copied(void **state)
{
    (void)state;
    static const char table[] = "{\"teleport\": {\"rows\": [" ROW(
        "canonical", "5") "], \"coarse\": {\"mode\": \"4+2\","
                          " \"rows\": [" ROW("same_prompt", "2") "," ROW("same_prompt", "3") "]}}}";
    struct kiln_donor_kind coarse = plain;
    struct kiln_job job = job_of("a small red cat on a sofa");
    assert_true(kiln_mode_parse("coarse=4+2", &job.mode));
    coarse.coarse = true;
    put(&plain, "a small red cat on a sofa", "");
    struct kiln_donor found = find_with(table, words, &job);
    assert_true(found.coarse && found.step == 2);
    const uint64_t donor = put(&coarse, "a small red cat on a sofa", "");
    found = find_with(table, words, &job);
    assert_true(found.coarse && found.step == 3 && found.job == donor);
}

/* A file of this name by its hash, and how strong it is. */
static struct kiln_job job_with(const char *prompt, double scale, char digit)
{
    struct kiln_job job = job_of(prompt);
    struct kiln_lora *ink = &job.loras[job.lora_count++];
    snprintf(ink->name, sizeof ink->name, "ink");
    ink->scale = scale;
    memset(ink->sha256, digit, 64);
    return job;
}

static void donors_have_the_loras_of_the_job(void **state)
{
    (void)state;
    struct kiln_donor_kind inked = plain;
    char set[KILN_LORA_SET_MAX], table[1024];
    struct kiln_job job = job_with("a small red cat on a sofa", 0.8, 'a');
    kiln_lora_set_key(job.loras, 1, set, sizeof set);
    inked.lora_set = set;
    snprintf(table, sizeof table,
             "{\"teleport\": {\"loras\": [{\"sha256\": \"%s\", \"rows\": [{\"class\":"
             " \"same_prompt\", \"depth\": 2, \"donors\": 1, \"uses\": 9, \"variety\": 1,"
             " \"loss\": [0, 0], \"for\": [\"256x256\"]}]}]}}",
             job.loras[0].sha256);
    const uint64_t without = put(&plain, job.prompt, "");
    assert_int_equal(find_with(table, words, &job).job, 0);
    const uint64_t with = put(&inked, job.prompt, "");
    assert_int_equal(find_with(table, words, &job).job, with);
    assert_int_equal(find_with(table, words, &job).step, 2);
    struct kiln_job bare = job_of(job.prompt);
    assert_int_equal(find_with(all_classes, words, &bare).job, without);
    assert_int_equal(find_with(table, words, &bare).job, 0); /* it has no rows for them */
    struct kiln_job other = job_with(job.prompt, 0.7, 'a');
    assert_int_equal(find_with(table, words, &other).job, 0);
    other = job_with(job.prompt, 0.8, 'b'); /* another file of the name */
    assert_int_equal(find_with(table, words, &other).job, 0);
    other = job_with(job.prompt, 0.8, '\0'); /* whatever the worker has */
    assert_int_equal(find_with(table, words, &other).job, 0);
    other = job;
    snprintf(other.loras[0].name, sizeof other.loras[0].name, "pen"); /* another name of the file */
    assert_int_equal(find_with(table, words, &other).job, 0);
}

static void count_judged(void *arg, const char *prompt, enum kiln_reuse_class class,
                         const char *reason)
{
    (void)prompt, (void)class, (void)reason;
    ++*(uint32_t *)arg;
}

static void a_class_without_rows_is_not_used(void **state)
{
    (void)state;
    struct kiln_job job = job_of("a little red cat on a couch");
    put(&plain, "a small red cat on a sofa", "");
    assert_int_equal(find_with(all_classes, words, &job).hit, KILN_REUSE_REWORDED);
    assert_int_equal(find_with(not_reworded, words, &job).job, 0);
    assert_int_equal(find_with(same_prompt, words, &job).job, 0);
    assert_int_equal(find_with(all_classes, NULL, &job).job, 0); /* lists that are not valid */
    job.prompt = (char *)(uintptr_t) "a small red cat on a sofa";
    assert_int_equal(find_with(all_classes, NULL, &job).hit, KILN_REUSE_SAME_PROMPT);
    job.width = 512;
    assert_int_equal(find_with(all_classes, words, &job).job, 0);
}

static void what_is_judged_is_bounded(void **state)
{
    (void)state;
    struct kiln_model_card card;
    struct kiln_error err;
    uint32_t judged = 0;
    const struct kiln_search_watch watch = {.prompt = count_judged, .arg = &judged};
    struct kiln_job job = job_of("a cat and a dog");
    assert_int_equal(
        kiln_model_card_parse(all_classes, sizeof all_classes - 1, "kiln.json", &card, &err), 0);
    for (int i = 0; i < 500; i++) {
        char text[80];
        snprintf(text, sizeof text, "a cat%*s left of a dog", i + 1, "");
        put(&plain, text, "");
    }
    const struct kiln_donor_stock stock = {.index = index_of_test, .card = &card, .words = words};
    struct kiln_reuse_marks marks;
    assert_int_equal(kiln_donor_search(&stock, &job, 7, &watch, &marks).job, 0);
    assert_true(judged > 0 && judged <= KILN_SEARCH_JUDGED);
    /* A prompt that is too long to be compared is found to the byte. */
    static char longest[KILN_SEARCH_PROMPT + 100];
    memset(longest, 'a', sizeof longest - 1);
    const uint64_t donor = put(&plain, longest, "");
    check(longest, donor, 6, KILN_REUSE_SAME_PROMPT);
    longest[0] = 'A';
    check(longest, 0, 0, 0);
}

/* A job that is rendered coarse first may begin from a latent of its small size. */
static void small_donors_are_found(void **state)
{
    (void)state;
    static const char table[] =
        "{\"coarse\": {\"sizes\": [\"128x128\"]}, \"teleport\": {\"rows\": [" ROW(
            "same_prompt", "5") "], \"small\": {\"rows\": [" ROW("same_prompt",
                                                                 "6") "," ROW("reworded",
                                                                              "6") "]}}}";
    struct kiln_donor_kind half = plain;
    half.width = half.height = 128;
    struct kiln_job job = job_of("a small red cat on a sofa");
    const uint64_t small = put(&half, "a small red cat on a sofa", "");
    assert_int_equal(find_with(table, words, &job).job, 0); /* an exact job has none */
    job.mode = (struct kiln_mode){.kind = KILN_MODE_COARSE, .small = 4, .full = 3, .sigma = 0.75};
    assert_int_equal(find_with(table, words, &job).job, small);
    assert_int_equal(find_with(table, words, &job).step, 6);
    assert_int_equal(find_with(same_prompt, words, &job).job, 0); /* without rows of them */
    const uint64_t whole = put(&plain, "a small red cat on a sofa", "");
    assert_int_equal(find_with(table, words, &job).job, small); /* which saves more */
    kiln_donor_index_remove(index_of_test, small);
    assert_int_equal(find_with(table, words, &job).job, whole);
    job = job_of("a little red cat on a couch");
    job.mode = (struct kiln_mode){.kind = KILN_MODE_COARSE, .small = 4, .full = 3, .sigma = 0.75};
    assert_int_equal(find_with(table, words, &job).job, 0); /* reworded has a row of small ones */
    const uint64_t other = put(&half, "a small red cat on a sofa", "");
    assert_int_equal(find_with(table, words, &job).job, other);
    assert_int_equal(find_with(table, words, &job).hit, KILN_REUSE_REWORDED);
    half.coarse = true; /* its own small phase was a quarter */
    kiln_donor_index_remove(index_of_test, other);
    put(&half, "a small red cat on a sofa", "");
    assert_int_equal(find_with(table, words, &job).job, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_class_is_found, start, end),
        cmocka_unit_test_setup_teardown(the_deepest_wins_and_uses_count, start, end),
        cmocka_unit_test_setup_teardown(all_else_must_be_equal, start, end),
        cmocka_unit_test_setup_teardown(exact_donors_of_coarse_runs_are_not_copied, start, end),
        cmocka_unit_test_setup_teardown(donors_have_the_loras_of_the_job, start, end),
        cmocka_unit_test_setup_teardown(a_class_without_rows_is_not_used, start, end),
        cmocka_unit_test_setup_teardown(what_is_judged_is_bounded, start, end),
        cmocka_unit_test_setup_teardown(small_donors_are_found, start, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
