/* test_catalogue.c - the gallery's pictures in memory, against a filter that looks at each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/gallery/meaning/catalogue.h"
#include "scheduler/gallery/meaning/digests.h"
#include "scheduler/gallery/meaning/fusion.h"
#include "tests/support/random.h"

#define JOBS 3000
#define PROMPTS 400
#define DAY_MS 86400000
/* Of prompt %u: the first bytes of all are alike, so that they meet in the table. */
#define HASH "00000000000000000000000000000000000000000000000000000000000%05x"
#define HASH_7 "0000000000000000000000000000000000000000000000000000000000000007"

static const char *const tenants[] = {"ada", "bob"}, *const styles[] = {NULL, "ink", "neon"};
static const char *const loras[] = {NULL, "ink", "ink-2", "neon ink", "neon"};
static const uint32_t sizes[][2] = {{512, 512}, {896, 512}, {512, 896}};

/* What a job is, from its number alone; `turn` changes what may change. */
static struct kiln_prompt_picture picture_of(uint64_t job, uint32_t turn, char hash[65])
{
    struct test_random random = {job};
    snprintf(hash, 65, HASH, test_random_below(&random, PROMPTS));
    const uint32_t *size = sizes[test_random_below(&random, 3)];
    struct kiln_prompt_picture p = {
        .job = job,
        .created_ms = DAY_MS * (int64_t)(1 + test_random_below(&random, 5)),
        .prompt_hash = hash,
        .batch = test_random_below(&random, 2) ? "spring" : "autumn",
        .tenant = tenants[test_random_below(&random, 2)],
        .model = "sketch",
        .style = styles[test_random_below(&random, 3)],
        .loras = loras[test_random_below(&random, 5)],
        .width = size[0],
        .height = size[1],
        .mode = (enum kiln_gallery_mode)(1 + test_random_below(&random, 3)),
    };
    random.state += turn;
    p.level = (int)test_random_below(&random, 4) - 1;
    p.starred = test_random_below(&random, 5) == 0;
    p.vote = (int)test_random_below(&random, 3) - 1;
    return p;
}

static bool names_contain(const char *names, const char *name)
{
    char padded[64], wanted[64];
    snprintf(padded, sizeof padded, " %s ", names ? names : "");
    snprintf(wanted, sizeof wanted, " %s ", name);
    return strstr(padded, wanted) != NULL;
}

static bool same(const char *wanted, const char *is)
{
    return !wanted || (is && strcmp(wanted, is) == 0);
}

static bool expected(const struct kiln_gallery_filter *f, const struct kiln_prompt_picture *p)
{
    int aspect = p->width > p->height   ? KILN_GALLERY_WIDE
                 : p->width < p->height ? KILN_GALLERY_TALL
                                        : KILN_GALLERY_SQUARE;
    return p->level <= f->level_max && (p->level >= 0 || f->show_unchecked) &&
           same(f->batch, p->batch) && same(f->tenant, p->tenant) && same(f->model, p->model) &&
           same(f->style, p->style) && same(f->prompt_hash, p->prompt_hash) &&
           (!f->lora || names_contain(p->loras, f->lora)) &&
           (!f->width || (f->width == p->width && f->height == p->height)) &&
           (!f->aspect || (int)f->aspect == aspect) && (!f->mode || (int)f->mode == p->mode) &&
           (!f->starred || p->starred) && (!f->vote || p->vote == f->vote) &&
           (!f->from_ms || p->created_ms >= f->from_ms) && (!f->to_ms || p->created_ms < f->to_ms);
}

static const struct kiln_gallery_filter filters[] = {
    {.level_max = 3, .show_unchecked = true},
    {.level_max = 0},
    {.level_max = 1, .show_unchecked = true, .starred = true},
    {.level_max = 1, .show_unchecked = true, .vote = -1},
    {.level_max = 1, .show_unchecked = true, .starred = true, .vote = 1},
    {.level_max = 3, .batch = "spring", .tenant = "ada"},
    {.level_max = 3, .lora = "ink"},
    {.level_max = 3, .lora = "neon", .style = "ink"},
    {.level_max = 3, .lora = "in"},
    {.level_max = 3, .width = 896, .height = 512, .mode = KILN_GALLERY_COARSE},
    {.level_max = 3, .aspect = KILN_GALLERY_TALL, .from_ms = 2 * DAY_MS, .to_ms = 4 * DAY_MS},
    {.level_max = 3, .tenant = "nobody"},
    {.level_max = 3, .model = "sketch", .prompt_hash = HASH_7, .show_unchecked = true},
    {.level_max = 3, .prompt_hash = "none such"},
};

/* Every filter, by mask and by the newest of each prompt.  alive[job]: the turn, or -1. */
static void check_all(struct kiln_catalogue *c, const int *alive)
{
    static uint32_t places[PROMPTS], prompts[PROMPTS];
    static uint64_t newest[PROMPTS], got[PROMPTS];
    for (size_t f = 0; f < sizeof filters / sizeof *filters; f++) {
        uint64_t mask[PROMPTS / 64 + 1] = {0}, right[PROMPTS / 64 + 1] = {0};
        uint32_t count = 0, known;
        kiln_catalogue_count(c, &known);
        memset(newest, 0, sizeof newest);
        for (uint32_t i = 0; i < known; i++) {
            places[i] = i % 7 == 3 ? KILN_NONE : known - 1 - i;
            prompts[i] = i;
        }
        for (uint64_t job = 1; job <= JOBS; job++) {
            char hash[65];
            if (alive[job] < 0)
                continue;
            struct kiln_prompt_picture p = picture_of(job, (uint32_t)alive[job], hash);
            uint32_t prompt = kiln_catalogue_prompt(c, hash);
            assert_int_equal(kiln_catalogue_prompt_of(c, job), prompt);
            if (!expected(&filters[f], &p))
                continue;
            count++;
            newest[prompt] = job;
            if (places[prompt] != KILN_NONE)
                right[places[prompt] / 64] |= UINT64_C(1) << places[prompt] % 64;
        }
        assert_int_equal(kiln_catalogue_mask(c, &filters[f], places, known, mask, known, NULL),
                         count);
        assert_memory_equal(mask, right, sizeof mask);
        kiln_catalogue_newest(c, &filters[f], prompts, known, got);
        assert_memory_equal(got, newest, known * sizeof *got);
    }
}

static void filters_see_what_the_pictures_are(void **state)
{
    (void)state;
    static int alive[JOBS + 1];
    struct test_random random = {3};
    struct kiln_error err = {0};
    struct kiln_catalogue *c;
    uint32_t count = 0;
    assert_int_equal(kiln_catalogue_new(&c, &err), 0);
    assert_int_equal(kiln_catalogue_count(c, NULL), 0);
    assert_int_equal(kiln_catalogue_prompt(c, HASH_7), KILN_NONE);
    memset(alive, -1, sizeof alive);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4000; i++) { /* new ones, changed ones, some that come back */
            uint64_t job = 1 + test_random_below(&random, JOBS);
            char hash[65];
            if (test_random_below(&random, 6) == 0) {
                kiln_catalogue_remove(c, job);
                alive[job] = -1;
                continue;
            }
            struct kiln_prompt_picture p = picture_of(job, (uint32_t)i, hash);
            uint32_t prompt;
            assert_int_equal(kiln_catalogue_put(c, &p, &prompt, &err), 0);
            assert_int_equal(kiln_catalogue_prompt(c, hash), prompt);
            alive[job] = i;
        }
        check_all(c, alive);
    }
    for (int job = 1; job <= JOBS; job++)
        count += alive[job] >= 0;
    assert_int_equal(kiln_catalogue_count(c, NULL), count);
    kiln_catalogue_free(c);
    kiln_catalogue_free(NULL);
}

static void a_kept_mask_is_the_same_as_a_new_one(void **state)
{
    (void)state;
    struct test_random random = {5};
    struct kiln_error err = {0};
    struct kiln_catalogue *c;
    struct kiln_catalogue_seen seen = {0};
    uint64_t kept[PROMPTS / 64 + 1];
    uint32_t places[PROMPTS], known, looked_at = 0;
    memset(kept, 0xff, sizeof kept); /* cleared at the first time */
    for (uint32_t i = 0; i < PROMPTS; i++)
        places[i] = i;
    assert_int_equal(kiln_catalogue_new(&c, &err), 0);
    for (int turn = 0; turn < 2000; turn++) {
        const uint64_t job = 1 + test_random_below(&random, JOBS);
        const bool remove = test_random_below(&random, 12) == 0;
        uint64_t fresh[PROMPTS / 64 + 1] = {0};
        char hash[65];
        struct kiln_prompt_picture p = picture_of(job, 1, hash); /* mostly what it is already */
        p.starred = test_random_below(&random, 40) == 0;
        if (remove)
            kiln_catalogue_remove(c, job);
        else
            assert_int_equal(kiln_catalogue_put(c, &p, NULL, &err), 0);
        kiln_catalogue_count(c, &known);
        (void)kiln_catalogue_mask(c, &filters[2], places, known, fresh, PROMPTS, NULL);
        const uint64_t changes = seen.changes;
        (void)kiln_catalogue_mask(c, &filters[2], places, known, kept, PROMPTS, &seen);
        looked_at += seen.changes == changes;
        assert_memory_equal(kept, fresh, sizeof kept);
    }
    assert_true(looked_at > 500); /* most turns changed nothing that was there */
    kiln_catalogue_free(c);
}

static void hashes_are_64_digits(void **state)
{
    (void)state;
    static const char *const others[] = {
        "", "7", HASH_7 "0", "g000000000000000000000000000000000000000000000000000000000000000",
        "A000000000000000000000000000000000000000000000000000000000000000",
        "000000000000000000000000000000000000000000000000000000000000000"};
    struct kiln_digests digests = {0};
    struct kiln_catalogue *c;
    struct kiln_error err = {0};
    char hash[65], back[65];
    for (uint32_t i = 0; i < 5000; i++) {
        snprintf(hash, sizeof hash, HASH, 7 * i);
        assert_int_equal(kiln_digests_find(&digests, hash), KILN_NONE);
        assert_int_equal(kiln_digests_put(&digests, hash), i);
    }
    for (uint32_t i = 0; i < 5000; i++) {
        snprintf(hash, sizeof hash, HASH, 7 * i);
        assert_int_equal(kiln_digests_put(&digests, hash), i);
        kiln_digests_hex(&digests, i, back);
        assert_string_equal(back, hash);
    }
    assert_int_equal(digests.count, 5000);
    assert_int_equal(kiln_catalogue_new(&c, &err), 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct kiln_prompt_picture p = picture_of(1, 1, hash);
        p.prompt_hash = others[i];
        assert_int_equal(kiln_digests_put(&digests, others[i]), KILN_NONE);
        assert_int_equal(kiln_digests_find(&digests, others[i]), KILN_NONE);
        assert_int_equal(kiln_catalogue_put(c, &p, NULL, &err), KILN_BAD_INPUT);
        assert_non_null(strstr(err.text, "job 1"));
    }
    assert_int_equal(kiln_catalogue_count(c, NULL), 0);
    kiln_catalogue_free(c);
    kiln_digests_release(&digests);
}

static void a_picture_in_both_lists_comes_first(void **state)
{
    (void)state;
    const uint64_t words[] = {10, 20, 30}, meaning[] = {40, 30, 50};
    const struct kiln_fusion_list lists[] = {{words, 3, 1}, {meaning, 3, 1}};
    uint64_t jobs[6];
    assert_int_equal(kiln_fuse(lists, 2, jobs), 5);
    /* 1/63 + 1/62; 1/61 twice, the larger first; 1/62; 1/63 */
    const uint64_t right[] = {30, 40, 10, 20, 50};
    assert_memory_equal(jobs, right, sizeof right);

    const struct kiln_fusion_list weak[] = {{words, 3, 1}, {meaning, 3, 0.5}};
    assert_int_equal(kiln_fuse(weak, 2, jobs), 5);
    const uint64_t by_words[] = {30, 10, 20, 40, 50};
    assert_memory_equal(jobs, by_words, sizeof by_words);
    assert_int_equal(kiln_fuse(lists, 1, jobs), 3);
    assert_memory_equal(jobs, words, sizeof words);
    assert_int_equal(kiln_fuse(lists, 0, jobs), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_see_what_the_pictures_are),
        cmocka_unit_test(a_kept_mask_is_the_same_as_a_new_one),
        cmocka_unit_test(hashes_are_64_digits),
        cmocka_unit_test(a_picture_in_both_lists_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
