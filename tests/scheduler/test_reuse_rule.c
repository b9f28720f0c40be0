/* test_reuse_rule.c - how much of a run may be skipped, by the table of the measured sketch model.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/cache/rule.h"

#define INK "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* Shares of variety as they were measured at 256 px: donors 4 and 8, depths 1 to 4, and one donor
 * at depth 7. */
static const char text[] =
    "{\"coarse\": {\"auto\": \"4+3\", \"for\": [\"256x512\"]}, \"teleport\": {\"steps\": 8, "
    "\"rows\": ["
    "{\"class\": \"same_prompt\", \"depth\": 1, \"donors\": 4, \"uses\": 4, \"variety\": 0.99,"
    "  \"loss\": [0.1, 0.4], \"for\": [\"256x256..512x512\"]},"
    "{\"class\": \"same_prompt\", \"depth\": 2, \"donors\": 8, \"uses\": 2, \"variety\": 0.81,"
    "  \"loss\": [0, 0], \"for\": [\"256x256\"]},"
    "{\"class\": \"same_prompt\", \"depth\": 3, \"donors\": 8, \"uses\": 2, \"variety\": 0.56,"
    "  \"loss\": [0.6, 0], \"for\": [\"256x256\"]},"
    "{\"class\": \"same_prompt\", \"depth\": 7, \"donors\": 1, \"uses\": 16, \"variety\": 0.06,"
    "  \"loss\": [0.4, 1.4], \"for\": [\"256x256\"]},"
    "{\"class\": \"donor_says_more\", \"depth\": 6, \"donors\": 1, \"uses\": 1, \"variety\": 0.1,"
    "  \"loss\": [-0.2, 0], \"for\": [\"256x256\"]}], \"small\": {\"rows\": ["
    "{\"class\": \"same_prompt\", \"depth\": 5, \"donors\": 8, \"uses\": 1, \"variety\": 0.8,"
    "  \"loss\": [0, 0], \"for\": [\"256x512\"]},"
    "{\"class\": \"same_prompt\", \"depth\": 6, \"donors\": 1, \"uses\": 1, \"variety\": 0.1,"
    "  \"loss\": [0.2, 0.5], \"for\": [\"256x512\"]},"
    "{\"class\": \"same_prompt\", \"depth\": 7, \"donors\": 1, \"uses\": 1, \"variety\": 0.1,"
    "  \"loss\": [0.2, 1.6], \"for\": [\"256x512\"]}]},"
    "\"coarse\": {\"mode\": \"4+3\", \"rows\": ["
    "{\"class\": \"same_prompt\", \"depth\": 1, \"donors\": 1, \"uses\": 8, \"variety\": 1.02,"
    "  \"loss\": [0, 0], \"for\": [\"256x512\"]},"
    "{\"class\": \"same_prompt\", \"depth\": 2, \"donors\": 4, \"uses\": 8, \"variety\": 0.8,"
    "  \"loss\": [0, 0], \"for\": [\"256x512\"]},"
    "{\"class\": \"same_prompt\", \"depth\": 3, \"donors\": 1, \"uses\": 8, \"variety\": 0.3,"
    "  \"loss\": [0, 2], \"for\": [\"256x512\"]}]}, \"loras\": [{\"sha256\": \"" INK
    "\", \"strength\": 0.8, \"rows\": ["
    "{\"class\": \"same_prompt\", \"depth\": 2, \"donors\": 2, \"uses\": 8, \"variety\": 1,"
    "  \"loss\": [0, 1], \"for\": [\"256x256\", \"256x512\"]}]}]}}";

#define SAME (1u << KILN_REUSE_SAME_PROMPT)

static struct kiln_model_card card_of(const char *of)
{
    struct kiln_model_card card;
    struct kiln_error err = {0};
    if (kiln_model_card_parse(of, strlen(of), "kiln.json", &card, &err))
        fail_msg("%s", err.text);
    return card;
}

static struct kiln_model_card read_card(void)
{
    return card_of(text);
}

static struct kiln_job want(uint32_t alike)
{
    return (struct kiln_job){
        .width = 256, .height = 256, .steps = 8, .teleport = KILN_TELEPORT_AUTO, .alike = alike};
}

static uint32_t depth_of(const struct kiln_job *job, enum kiln_reuse_class class, uint32_t donors,
                         uint32_t uses)
{
    const struct kiln_model_card card = read_card();
    const struct kiln_reuse_pool pool = {.class = class, .donors = donors, .uses = uses};
    return kiln_reuse_depth(&card, job, &pool);
}

static void the_floor_falls_with_alike(void **state)
{
    (void)state;
    assert_true(kiln_reuse_floor(0) == 0.95 && kiln_reuse_least(0) == 0.95);
    assert_true(kiln_reuse_floor(50) == 0.64 && kiln_reuse_least(50) == 0.24);
    assert_true(kiln_reuse_floor(100) == 0 && kiln_reuse_least(100) == 0);
    for (uint32_t alike = 0; alike < KILN_ALIKE_MAX; alike++) {
        assert_true(kiln_reuse_floor(alike) > kiln_reuse_floor(alike + 1));
        assert_true(kiln_reuse_least(alike) > kiln_reuse_least(alike + 1));
    }
}

static void varied_pictures_need_a_pool(void **state)
{
    (void)state;
    const struct kiln_job job = want(0);
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 0, 0), 0);
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 3, 0), 0);
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 4, 0), 1);
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 4, 3), 1);
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 4, 4), 0); /* used up */
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 1000, 0), 1);
    assert_int_equal(depth_of(&job, KILN_REUSE_DONOR_SAYS_MORE, 1000, 0), 0);
    assert_int_equal(depth_of(&job, KILN_REUSE_CANONICAL, 1000, 0), 0); /* has no row */
}

static void alike_allows_more(void **state)
{
    (void)state;
    struct kiln_job job = want(35); /* each leaves 0.45 */
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 8, 1), 2);
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 8, 2), 1);
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 7, 0), 1);
    job = want(99); /* depth 3 loses too much, whatever alike is */
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 8, 0), 7);
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 8, 16), 0);
    job = want(100);
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 1, 1000), 7);
    assert_int_equal(depth_of(&job, KILN_REUSE_DONOR_SAYS_MORE, 1, 7), 6);
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 0, 0), 0);
}

static void the_row_says_how_varied(void **state)
{
    (void)state;
    const struct kiln_model_card card = read_card();
    struct kiln_reuse_pool pool = {.class = KILN_REUSE_SAME_PROMPT, .donors = 8, .uses = 1};
    struct kiln_job job = want(35);
    assert_true(kiln_reuse_start(&card, &job, &pool).row->variety == 0.81);
    job = want(100);
    assert_true(kiln_reuse_start(&card, &job, &pool).row->variety == 0.06);
    pool.donors = 0;
    assert_null(kiln_reuse_start(&card, &job, &pool).row);
}

#define OTHERS_DO                                                                                  \
    "at its alike only some jobs begin from them: seed and prompt decide, and this one does not"

/* Between two rows: so many take the deeper one that the mean is the floor. */
static void jobs_share_the_room_that_a_row_leaves(void **state)
{
    (void)state;
    const struct kiln_model_card card = card_of(
        "{\"teleport\": {\"steps\": 8, \"rows\": ["
        "{\"class\": \"same_prompt\", \"depth\": 2, \"donors\": 1, \"uses\": 8, \"variety\": 0.71,"
        "  \"loss\": [0, 0], \"for\": [\"256x256\"]},"
        "{\"class\": \"same_prompt\", \"depth\": 3, \"donors\": 1, \"uses\": 8, \"variety\": 0.25,"
        "  \"loss\": [0, 0], \"for\": [\"256x256\"]},"
        "{\"class\": \"same_prompt\", \"depth\": 3, \"donors\": 8, \"uses\": 8, \"variety\": 0.37,"
        "  \"loss\": [0, 0], \"for\": [\"256x256\"]},"
        "{\"class\": \"same_prompt\", \"depth\": 7, \"donors\": 1, \"uses\": 8, \"variety\": 0.05,"
        "  \"loss\": [0, 0], \"for\": [\"256x256\"]}]}}");
    const struct kiln_reuse_pool pool = {.class = KILN_REUSE_SAME_PROMPT, .donors = 2};
    const struct kiln_reuse_pool large = {.class = KILN_REUSE_SAME_PROMPT, .donors = 8};
    static const uint32_t alikes[] = {10, 30, 50, 60, 75};
    bool other = false;
    for (size_t a = 0; a < sizeof alikes / sizeof *alikes; a++) {
        struct kiln_job job = want(alikes[a]);
        double variety = 0, forwards = 0;
        for (job.seed = 0; job.seed < 4000; job.seed++) {
            job.prompt = (char[]){"a red circle"};
            const struct kiln_reuse_start start = kiln_reuse_start(&card, &job, &pool);
            const double leaves = start.row ? start.row->variety : 1;
            assert_true(leaves >= kiln_reuse_least(job.alike));
            assert_true(kiln_reuse_start(&card, &job, &pool).row == start.row);
            variety += leaves / 4000;
            forwards += start.forwards / 4000;
            job.prompt = (char[]){"a blue circle"}; /* the seed alone does not decide */
            other = other || kiln_reuse_start(&card, &job, &pool).row != start.row;
        }
        assert_true(variety > kiln_reuse_floor(job.alike) - 0.02);
        assert_true(job.alike < 30 || variety < kiln_reuse_floor(job.alike) + 0.02);
        const double mean = kiln_reuse_start(&card, &job, &pool).mean_forwards;
        assert_true(forwards > mean - 0.03 && forwards < mean + 0.03);
        assert_true(kiln_reuse_start(&card, &job, &large).mean_forwards <= mean);
    }
    assert_true(other);
    struct kiln_job job = want(30); /* no row leaves 0.76, so they share with runs in full */
    uint32_t deep = 0;
    for (; job.seed < 100; job.seed++) {
        const bool begins = kiln_reuse_start(&card, &job, &pool).row != NULL;
        deep += begins;
        if (!begins)
            assert_string_equal(kiln_reuse_refusal(&card, &job, &pool), OTHERS_DO);
    }
    assert_in_range(deep, 1, 99);
    job = want(0); /* whoever wants full variety has none to share */
    for (; job.seed < 100; job.seed++)
        assert_int_equal(kiln_reuse_depth(&card, &job, &pool), 0);
}

static void only_what_was_measured(void **state)
{
    (void)state;
    struct kiln_job job = want(100);
    job.width = 512; /* depth 1 alone */
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 8, 0), 1);
    job.width = 1024;
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 8, 0), 0);
    job = want(100);
    job.steps = 9;
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 8, 0), 0);
    const struct kiln_model_card nothing = {0};
    const struct kiln_reuse_pool pool = {.class = KILN_REUSE_SAME_PROMPT, .donors = 8};
    job = want(100);
    assert_int_equal(kiln_reuse_depth(&nothing, &job, &pool), 0);
}

static void some_jobs_never(void **state)
{
    (void)state;
    struct kiln_job job = want(100);
    assert_true(kiln_reuse_wants(&job));
#define NEVER(change)                                                                              \
    job = want(100);                                                                               \
    change;                                                                                        \
    assert_false(kiln_reuse_wants(&job));                                                          \
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 8, 0), 0)
    NEVER(job.teleport = KILN_TELEPORT_OFF);
    NEVER(job.teleport = KILN_TELEPORT_OLD);
    NEVER(job.kind = KILN_KIND_LATENT_CACHE);
    NEVER(job.latents = KILN_LATENTS_TRAJECTORY);
    NEVER(job.mode.variety = 0.2);
    NEVER(job.guidance = 2);
    NEVER(job.lora_count = 1);
    NEVER(job.mode.kind = KILN_MODE_START_STEP);
}

static void a_coarse_run_is_cheaper_than_a_shallow_hit(void **state)
{
    (void)state;
    struct kiln_job job = want(0);
    job.mode = (struct kiln_mode){.kind = KILN_MODE_COARSE, .small = 4, .full = 3, .sigma = 0.75};
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 8, 0), 0); /* 7 forwards as against 4 */
    job.alike = 100;
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 8, 0), 7);
    job = want(0); /* auto counts as what the card makes of it at this size */
    job.mode.kind = KILN_MODE_COARSE_AUTO;
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 8, 0), 1);
}

/* Their small phase begins later; the table is of one mode, and of coarse runs alone. */
static void a_coarse_run_begins_its_small_phase_from_a_donor(void **state)
{
    (void)state;
    const struct kiln_model_card card = read_card();
    struct kiln_reuse_pool pool = {.class = KILN_REUSE_SAME_PROMPT, .donors = 3, .uses = 7};
    struct kiln_job job = want(0);
    job.mode.kind = KILN_MODE_COARSE_AUTO;
    job.height = 512;
    struct kiln_reuse_start start = kiln_reuse_start(&card, &job, &pool);
    assert_true(start.coarse && start.row->depth == 1);
    assert_true(start.forwards == 3.75); /* of 4 * 0.25 + 3 */
    job.alike = 50;
    assert_int_equal(kiln_reuse_start(&card, &job, &pool).row->depth, 1); /* too few for 2 */
    pool.donors = 4;
    assert_int_equal(kiln_reuse_start(&card, &job, &pool).row->depth, 2);
    pool.uses = 8;
    assert_null(kiln_reuse_start(&card, &job, &pool).row);
    assert_string_equal(kiln_reuse_refusal(&card, &job, &pool),
                        "each was used as often as the model's table allows");
    pool.uses = 0;
    assert_int_equal(kiln_reuse_classes(&card, &job, false, false), SAME);
    job.alike = 0;
    job.mode = (struct kiln_mode){.kind = KILN_MODE_COARSE, .small = 4, .full = 3, .sigma = 0.75};
    assert_int_equal(kiln_reuse_start(&card, &job, &pool).row->depth, 1);
    job.mode.full = 2;
    assert_null(kiln_reuse_start(&card, &job, &pool).row);
    assert_int_equal(kiln_reuse_classes(&card, &job, false, false), 0);
    assert_int_equal(kiln_reuse_classes(&card, &job, false, true), SAME); /* of whole runs */
    job.mode = (struct kiln_mode){.kind = KILN_MODE_EXACT};
    start = kiln_reuse_start(&card, &job, &pool);
    assert_true(!start.coarse && start.forwards == 7); /* by the row of whole runs */
    pool.small = true; /* these are measured as enlarged ones alone */
    job.mode = (struct kiln_mode){.kind = KILN_MODE_COARSE, .small = 4, .full = 3, .sigma = 0.75};
    assert_null(kiln_reuse_start(&card, &job, &pool).row);
}

static void a_coarse_run_keeps_two_small_steps_from_an_exact_picture(void **state)
{
    (void)state;
    const struct kiln_model_card card = card_of(
        "{\"coarse\": {\"auto\": \"4+3\", \"for\": [\"256x512\"]}, \"teleport\": {\"steps\": 8, "
        "\"coarse\": {\"mode\": \"4+3\", \"rows\": ["
        "{\"class\": \"same_prompt\", \"depth\": 3, \"donors\": 1, \"uses\": 8, \"variety\": 0.96,"
        "  \"loss\": [0, 0], \"for\": [\"256x512\"]}]}}}");
    struct kiln_reuse_pool pool = {.class = KILN_REUSE_SAME_PROMPT, .donors = 1};
    struct kiln_job job = want(0);
    job.mode.kind = KILN_MODE_COARSE_AUTO;
    job.height = 512;
    assert_int_equal(kiln_reuse_depth(&card, &job, &pool), 3);
    pool.exact = true;
    assert_int_equal(kiln_reuse_depth(&card, &job, &pool), 0);
    assert_string_equal(kiln_reuse_refusal(&card, &job, &pool),
                        "a coarse run from an exact picture keeps two small steps at least");
    pool.uses = 8;
    assert_string_equal(kiln_reuse_refusal(&card, &job, &pool),
                        "each was used as often as the model's table allows");
}

static struct kiln_job inked(double scale)
{
    struct kiln_job job = want(0);
    job.loras[job.lora_count++] = (struct kiln_lora){.name = "ink", .scale = scale, .sha256 = INK};
    return job;
}

/* No rows but those of the LoRA's file, up to the strength that they were measured with. */
static void a_job_with_a_lora_has_rows_of_its_own(void **state)
{
    (void)state;
    const struct kiln_model_card card = read_card();
    struct kiln_job job = inked(0.8);
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 4, 0), 2);
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 1, 0), 0);
    assert_int_equal(depth_of(&job, KILN_REUSE_DONOR_SAYS_MORE, 4, 0), 0);
    assert_int_equal(kiln_reuse_classes(&card, &job, false, true), SAME);
    char set[KILN_LORA_SET_MAX];
    kiln_lora_set_key(job.loras, 1, set, sizeof set);
    assert_true(kiln_card_reuse_serves(&card.reuse, set));
    assert_true(kiln_card_reuse_serves(&card.reuse, ""));
    assert_false(kiln_card_reuse_serves(&card.reuse, "ink:0.8"));
    assert_false(kiln_card_reuse_serves(&card.reuse, "ink:0.8@00112233445566ff"));
    job.loras[0].scale = 1.2; /* more than was measured, and beside another LoRA */
    kiln_lora_set_key(job.loras, 1, set, sizeof set);
    assert_false(kiln_card_reuse_serves(&card.reuse, set));
    job.loras[0].scale = 0.8;
    job.loras[1] = (struct kiln_lora){.name = "a", .scale = 0.5, .sha256 = INK};
    kiln_lora_set_key(job.loras, 2, set, sizeof set);
    assert_false(kiln_card_reuse_serves(&card.reuse, set));
    job.height = 512;
    job.mode.kind = KILN_MODE_COARSE_AUTO; /* exact with this LoRA: no small donors */
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 4, 0), 2);
    job.mode = (struct kiln_mode){.kind = KILN_MODE_COARSE, .small = 4, .full = 3, .sigma = 0.75};
    assert_int_equal(kiln_reuse_classes(&card, &job, true, true), 0);
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 4, 0), 0);
    job = inked(0.5);
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 4, 0), 2);
    job = inked(0.9);
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 4, 0), 0);
    job = inked(-0.1);
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 4, 0), 0);
    job = inked(0.8);
    job.loras[0].sha256[3] = 'f'; /* another file of the name */
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 4, 0), 0);
    assert_true(kiln_reuse_wants(&job));
    job.loras[0].sha256[0] = '\0'; /* whatever the worker has */
    assert_false(kiln_reuse_wants(&job));
    job = inked(0.8);
    job.loras[job.lora_count++] = job.loras[0];
    assert_false(kiln_reuse_wants(&job));
    assert_int_equal(depth_of(&job, KILN_REUSE_SAME_PROMPT, 4, 0), 0);
}

static uint32_t small_depth(const struct kiln_job *job, uint32_t donors, uint32_t uses)
{
    const struct kiln_model_card card = read_card();
    const struct kiln_reuse_pool pool = {
        .class = KILN_REUSE_SAME_PROMPT, .donors = donors, .uses = uses, .small = true};
    return kiln_reuse_depth(&card, job, &pool);
}

/* They have rows of their own, and serve only what is rendered coarse first. */
static void small_donors_are_for_coarse_runs(void **state)
{
    (void)state;
    const struct kiln_model_card card = read_card();
    struct kiln_picture_size size = {0};
    struct kiln_job job = want(100);
    job.height = 512;
    assert_int_equal(small_depth(&job, 1, 0), 0); /* exact */
    assert_false(kiln_reuse_small_size(&card, &job, &size));
    job.mode.kind = KILN_MODE_COARSE_AUTO; /* 4+3 at this size */
    assert_int_equal(small_depth(&job, 1, 9), 6);
    assert_true(kiln_reuse_small_size(&card, &job, &size));
    assert_int_equal(size.width, 128);
    assert_int_equal(size.height, 256);
    job.alike = 30; /* each leaves 0.52 */
    assert_int_equal(small_depth(&job, 8, 0), 5);
    assert_int_equal(small_depth(&job, 8, 1), 0);
    assert_int_equal(small_depth(&job, 7, 0), 0);
    job.alike = 0;
    assert_int_equal(small_depth(&job, 8, 0), 0);
    assert_int_equal(kiln_reuse_classes(&card, &job, true, true), SAME);
    job.alike = 100;
    job.mode = (struct kiln_mode){.kind = KILN_MODE_COARSE, .small = 4, .full = 1, .sigma = 0.75};
    assert_int_equal(small_depth(&job, 1, 0), 0); /* 2 forwards, as its own mode */
    job = want(100);                              /* auto is exact at this size */
    job.mode.kind = KILN_MODE_COARSE_AUTO;
    assert_false(kiln_reuse_small_size(&card, &job, &size));
    assert_int_equal(small_depth(&job, 1, 0), 0);
}

/* The variety that jobs which differ in their seed leave in the mean; each leaves the least. */
static double mean_variety(const struct kiln_model_card *card, struct kiln_job job,
                           const struct kiln_reuse_pool *pool)
{
    double first = 0, leaves = 0;
    for (job.seed = 0; job.seed < 1000000; job.seed++) {
        const struct kiln_reuse_start start = kiln_reuse_start(card, &job, pool);
        const double one = start.row && start.row->variety < 1 ? start.row->variety : 1;
        assert_true(one >= kiln_reuse_least(job.alike));
        if (job.seed == 0) {
            first = start.forwards;
            leaves = one;
        }
        if (start.forwards == start.mean_forwards) /* all jobs have it */
            return one;
        if (start.forwards != first) /* the other one of the two that jobs share */
            return leaves +
                   (one - leaves) * (start.mean_forwards - first) / (start.forwards - first);
    }
    fail_msg("no seed has the other start");
    return 0;
}

static void more_alike_never_costs_more(const struct kiln_model_card *card, struct kiln_job job,
                                        const struct kiln_reuse_pool *pool)
{
    double before = kiln_reuse_own_forwards(card, &job);
    for (job.alike = 0; job.alike <= KILN_ALIKE_MAX; job.alike++) {
        const double mean = kiln_reuse_start(card, &job, pool).mean_forwards;
        if (mean > before + 1e-9)
            fail_msg("class %d, %ux%u, alike %u: %g forwards instead of %g", pool->class, job.width,
                     job.height, job.alike, mean, before);
        assert_true(mean_variety(card, job, pool) >= kiln_reuse_floor(job.alike) - 1e-9);
        before = mean;
    }
}

/* With every class, size and number of donors that the demo model has rows for. */
static void the_demo_model_saves_more_the_more_alike(void **state)
{
    (void)state;
    static struct kiln_model_card card;
    struct kiln_error err;
    char dir[4096];
    const char *source = getenv("KILN_SOURCE");
    uint32_t swept = 0;
    snprintf(dir, sizeof dir, "%s/pipeline/models/sketch", source ? source : ".");
    if (kiln_model_card_read(dir, &card, &err))
        fail_msg("%s", err.text);
    for (uint32_t table = 0; table < KILN_REUSE_LORA + card.reuse.lora_count; table++) {
        uint32_t count;
        const struct kiln_card_reuse_row *rows =
            kiln_card_reuse_rows(&card.reuse, (enum kiln_reuse_table)table, &count);
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t size = 0; size < rows[i].size_count; size++, swept++) {
                struct kiln_job job = want(0);
                job.width = rows[i].sizes[size].width_max;
                job.height = rows[i].sizes[size].height_max;
                if (table == KILN_REUSE_SMALL || table == KILN_REUSE_COARSE)
                    job.mode.kind = KILN_MODE_COARSE_AUTO;
                if (table >= KILN_REUSE_LORA) {
                    const struct kiln_card_reuse_lora *of =
                        &card.reuse.loras[table - KILN_REUSE_LORA];
                    struct kiln_lora *lora = &job.loras[job.lora_count++];
                    *lora = (struct kiln_lora){.name = "it", .scale = of->strength};
                    memcpy(lora->sha256, of->sha256, sizeof lora->sha256);
                }
                const struct kiln_reuse_pool pool = {.class = rows[i].class,
                                                     .donors = rows[i].donors,
                                                     .small = table == KILN_REUSE_SMALL};
                more_alike_never_costs_more(&card, job, &pool);
            }
    }
    assert_true(swept > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_floor_falls_with_alike),
        cmocka_unit_test(varied_pictures_need_a_pool),
        cmocka_unit_test(alike_allows_more),
        cmocka_unit_test(the_row_says_how_varied),
        cmocka_unit_test(jobs_share_the_room_that_a_row_leaves),
        cmocka_unit_test(the_demo_model_saves_more_the_more_alike),
        cmocka_unit_test(only_what_was_measured),
        cmocka_unit_test(some_jobs_never),
        cmocka_unit_test(a_coarse_run_is_cheaper_than_a_shallow_hit),
        cmocka_unit_test(a_coarse_run_begins_its_small_phase_from_a_donor),
        cmocka_unit_test(a_coarse_run_keeps_two_small_steps_from_an_exact_picture),
        cmocka_unit_test(small_donors_are_for_coarse_runs),
        cmocka_unit_test(a_job_with_a_lora_has_rows_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
