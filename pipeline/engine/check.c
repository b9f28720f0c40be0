/* check.c - checks a batch before anything runs, and counts its steps; see engine.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/engine/parts.h"

static int check_side(const struct kiln_engine *e, const char *what, int side,
                      struct kiln_error *err)
{
    int step = 2 * e->config.vae.factor; /* pixels of one token */
    if (side < KILN_SIDE_MIN || side > KILN_SIDE_MAX || side % KILN_SIDE_STEP)
        return kiln_fail(err, KILN_BAD_INPUT, "%s %d: must be a multiple of %d from %d to %d", what,
                         side, KILN_SIDE_STEP, KILN_SIDE_MIN, KILN_SIDE_MAX);
    if (side % step)
        return kiln_fail(err, KILN_BAD_INPUT, "%s %d: this model renders multiples of %d pixels",
                         what, side, step);
    return 0;
}

static int check_prompt(const char *what, int item, const char *prompt, struct kiln_error *err)
{
    if (strnlen(prompt, KILN_PROMPT_MAX + 1) > KILN_PROMPT_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "item %d: the %s is longer than %d bytes", item, what,
                         KILN_PROMPT_MAX);
    return 0;
}

/* A list of the caller's: not too long, and there. */
static int check_list(const void *list, int count, int max, const char *what,
                      struct kiln_error *err)
{
    if (count < 0 || count > max)
        return kiln_fail(err, KILN_BAD_INPUT, "%d %s: at most %d", count, what, max);
    return list || count == 0
               ? 0
               : kiln_fail(err, KILN_BAD_INPUT, "%s: the list of these %d is NULL", what, count);
}

static int check_items(const DiffusionZBatch *b, struct kiln_error *err)
{
    if (!b->items || b->item_count < 1 || b->item_count > KILN_ASSIGN_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "a batch has 1 to %d items, this one %d",
                         KILN_ASSIGN_MAX, b->items ? b->item_count : 0);
    int code = 0;
    for (int i = 0; i < b->item_count && !code; i++) {
        const DiffusionZItem *item = &b->items[i];
        if (!item->prompt)
            return kiln_fail(err, KILN_BAD_INPUT, "item %d: the prompt is missing", i);
        code = check_prompt("prompt", i, item->prompt, err);
        if (!code)
            code = check_prompt("negative prompt", i, kiln_item_negative(item), err);
        if (!code && item->start_prompt)
            code = check_prompt("prompt of the start", i, item->start_prompt, err);
        if (!code && !(item->variety >= 0 && item->variety <= 1))
            code = kiln_fail(err, KILN_BAD_INPUT, "item %d: variety %g: must be 0 to 1", i,
                             item->variety);
    }
    return code;
}

static int check_results(const DiffusionZBatch *b, struct kiln_error *err)
{
    int code =
        check_list(b->smaller, b->smaller_count, DIFFUSIONZ_SMALLER_MAX, "smaller sizes", err);
    for (int i = 0; i < b->smaller_count && !code; i++)
        if (b->smaller[i] < 1 || b->smaller[i] > KILN_SIDE_MAX)
            return kiln_fail(err, KILN_BAD_INPUT, "smaller size %d: must be 1 to %d", b->smaller[i],
                             KILN_SIDE_MAX);
    return code;
}

/* The size of a phase, which is enlarged to that of the next: the names of both. */
static int check_smaller(const struct kiln_engine *e, const char *name, int width, int height,
                         const char *next, int next_width, int next_height, struct kiln_error *err)
{
    char side[24];
    snprintf(side, sizeof side, "%s width", name);
    int code = check_side(e, side, width, err);
    snprintf(side, sizeof side, "%s height", name);
    code = code ? code : check_side(e, side, height, err);
    if (!code && (width > next_width || height > next_height))
        code = kiln_fail(err, KILN_BAD_INPUT, "%s size %d x %d: must not exceed the %s %d x %d",
                         name, width, height, next, next_width, next_height);
    return code;
}

static int check_coarse(const struct kiln_engine *e, const DiffusionZBatch *b,
                        struct kiln_error *err)
{
    const bool middle = b->middle_steps > 0;
    if (b->coarse_steps < 0 || b->coarse_steps > b->num_steps)
        return kiln_fail(err, KILN_BAD_INPUT, "coarse steps %d: must be 0 to %d, the steps",
                         b->coarse_steps, b->num_steps);
    if (b->coarse_skip < 0 || (b->coarse_skip > 0 && b->coarse_skip >= b->coarse_steps))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%d coarse steps left out: must be 0 or below the %d coarse steps",
                         b->coarse_skip, b->coarse_steps);
    const int most = b->coarse_steps > 0 ? b->num_steps - b->coarse_steps : 0;
    if (b->middle_steps < 0 || b->middle_steps > most)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "middle steps %d: must be 0 to %d, the steps after the coarse ones, and 0 "
                         "without these",
                         b->middle_steps, most);
    if (b->coarse_steps == 0)
        return 0;
    if (b->start != DIFFUSIONZ_FROM_SIGMA || b->rest_steps < 1)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "coarse steps %d: they need the sigma of the hand-over and the number of "
                         "steps after it",
                         b->coarse_steps);
    if (b->keep_trajectory)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "coarse steps %d: no trajectory is kept of steps at several sizes",
                         b->coarse_steps);
    int code = middle ? check_smaller(e, "middle", b->middle_width, b->middle_height, "picture's",
                                      b->width, b->height, err)
                      : 0;
    if (code)
        return code;
    return check_smaller(e, "coarse", b->coarse_width, b->coarse_height,
                         middle ? "middle" : "picture's", middle ? b->middle_width : b->width,
                         middle ? b->middle_height : b->height, err);
}

static int check_difference(const DiffusionZBatch *b, struct kiln_error *err)
{
    if (b->by_difference < 0 || b->by_difference > 1)
        return kiln_fail(err, KILN_BAD_INPUT, "by_difference %d: must be 0 or 1", b->by_difference);
    if (b->by_difference && (b->start == DIFFUSIONZ_FROM_NOISE || b->coarse_steps > 0))
        return kiln_fail(err, KILN_BAD_INPUT, "an edit by difference needs starts of its items");
    if (b->by_difference && b->keep_trajectory)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "no trajectory is kept of an edit by difference: its first two steps lead "
                         "to no picture");
    return 0;
}

/* The LoRAs that the model has for some of its steps. */
static int check_step_loras(const DiffusionZBatch *b, struct kiln_error *err)
{
    _Static_assert(DIFFUSIONZ_STEP_LORAS_MAX == KILN_STEP_LORAS_MAX, "one limit");
    int code = check_list(b->step_loras, b->step_lora_count, DIFFUSIONZ_STEP_LORAS_MAX,
                          "LoRAs of steps", err);
    if (code)
        return code;
    for (int i = 0; i < b->step_lora_count; i++) {
        const DiffusionZStepLora *of = &b->step_loras[i];
        if (of->first < 0 || of->first >= of->end || of->end > b->num_steps)
            return kiln_fail(err, KILN_BAD_INPUT,
                             "LoRA %d of steps: steps %d to %d of %d are no range", i, of->first,
                             of->end - 1, b->num_steps);
    }
    return 0;
}

/* The transformers that the model has for some of its steps. */
static int check_step_transformers(const struct kiln_engine *e, const DiffusionZBatch *b,
                                   struct kiln_error *err)
{
    int code = check_list(b->step_transformers, b->step_transformer_count,
                          DIFFUSIONZ_STEP_LORAS_MAX, "transformers of steps", err);
    if (code)
        return code;
    for (int i = 0; i < b->step_transformer_count; i++) {
        const DiffusionZStepTransformer *of = &b->step_transformers[i],
                                        *other = b->step_transformers;
        if (!of->folder || kiln_engine_set(e, of->folder) < 0)
            return kiln_fail(
                err, KILN_BAD_INPUT,
                "transformer %d of steps: \"%.80s\" was not loaded with the model; " KILN_MODEL_CARD
                " did not name it then",
                i, of->folder ? of->folder : "");
        if (of->first < 0 || of->first >= of->end || of->end > b->num_steps)
            return kiln_fail(err, KILN_BAD_INPUT,
                             "transformer %d of steps: steps %d to %d of %d are no range", i,
                             of->first, of->end - 1, b->num_steps);
        for (; other < of; other++)
            if (other->first < of->end && of->first < other->end)
                return kiln_fail(err, KILN_BAD_INPUT,
                                 "transformer %d of steps: its steps are also those of \"%.80s\"",
                                 i, other->folder);
    }
    return 0;
}

/* Where the runs of the batch begin, and their steps. */
static int check_schedule(const struct kiln_engine *e, const DiffusionZBatch *b,
                          struct kiln_error *err)
{
    if (b->num_steps < KILN_STEPS_MIN || b->num_steps > KILN_STEPS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "steps %d: must be %d to %d", b->num_steps,
                         KILN_STEPS_MIN, KILN_STEPS_MAX);
    for (int i = 0; b->sigmas && i < b->num_steps; i++)
        if (i == 0 ? !(b->sigmas[i] >= KILN_SIGMA_FIRST_MIN && b->sigmas[i] <= 1)
                   : !(b->sigmas[i] > 0 && b->sigmas[i] < b->sigmas[i - 1]))
            return kiln_fail(err, KILN_BAD_INPUT,
                             "sigma %g of step %d: the first must be %g to 1, and each of the "
                             "others below the one before it and above 0",
                             b->sigmas[i], i, KILN_SIGMA_FIRST_MIN);
    if (b->start < DIFFUSIONZ_FROM_NOISE || b->start > DIFFUSIONZ_FROM_SIGMA)
        return kiln_fail(err, KILN_BAD_INPUT, "start %d: there is none of that number", b->start);
    if (b->start == DIFFUSIONZ_FROM_STEP && (b->start_step < 0 || b->start_step >= b->num_steps))
        return kiln_fail(err, KILN_BAD_INPUT, "start step %d: must be 0 to %d", b->start_step,
                         b->num_steps - 1);
    if (b->start == DIFFUSIONZ_FROM_SIGMA && !(b->start_sigma > 0 && b->start_sigma <= 1))
        return kiln_fail(err, KILN_BAD_INPUT, "start sigma %g: must be above 0, and 1 at most",
                         b->start_sigma);
    const int most = b->start == DIFFUSIONZ_FROM_SIGMA ? KILN_STEPS_MAX : 0;
    if (b->rest_steps < 0 || b->rest_steps > most)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "steps %d from the start on: must be 0 to %d, and 0 without a start sigma",
                         b->rest_steps, KILN_STEPS_MAX);
    int code = check_step_loras(b, err);
    code = code ? code : check_step_transformers(e, b, err);
    code = code ? code : check_coarse(e, b, err);
    return code ? code : check_difference(b, err);
}

int kiln_engine_check(const struct kiln_engine *e, const DiffusionZBatch *b, struct kiln_error *err)
{
    int code = check_items(b, err);
    code = code ? code : check_side(e, "width", b->width, err);
    code = code ? code : check_side(e, "height", b->height, err);
    code = code ? code : check_schedule(e, b, err);
    if (code)
        return code;
    if (!isfinite(b->guidance_scale) || b->guidance_scale < 0 ||
        b->guidance_scale > KILN_GUIDANCE_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "guidance %g: must be 0 to %g",
                         (double)b->guidance_scale, KILN_GUIDANCE_MAX);
    code = check_list(b->loras, b->lora_count, KILN_LORAS_MAX, "LoRAs", err);
    return code ? code : check_results(b, err);
}

/* Several starts of one item, and bounds for what its first step changes. */
static int check_latents(const DiffusionZBatch *b, int i, struct kiln_error *err)
{
    const DiffusionZItem *item = &b->items[i];
    if (item->more_count < 0 || item->more_count >= DIFFUSIONZ_STARTS_MAX ||
        item->combine < DIFFUSIONZ_SINGLE || item->combine > DIFFUSIONZ_TREE)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "item %d: %d more latents, combined in way %d: at most %d more, and ways "
                         "0 to %d",
                         i, item->more_count, item->combine, DIFFUSIONZ_STARTS_MAX - 1,
                         DIFFUSIONZ_TREE);
    bool all = !item->more_count || (item->start_latent && item->more_latents);
    for (int k = 0; k < item->more_count && all; k++)
        all = item->more_latents[k] != NULL;
    if (!all)
        return kiln_fail(err, KILN_BAD_INPUT, "item %d: a latent to combine is missing", i);
    if (item->more_count && b->by_difference)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "item %d: an edit by difference starts from one latent", i);
    const bool bounds = item->change_least != 0 || item->change_most != 0;
    if (bounds && !(item->change_least >= 0 && item->change_most > 0 &&
                    item->change_most >= item->change_least))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "item %d: a change of %g to %g: the bounds must be 0 or more, and the "
                         "upper one above 0",
                         i, item->change_least, item->change_most);
    if (bounds && (!item->start_latent || item->start_mask || b->by_difference))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "item %d: the change is measured of runs from a latent, without a mask "
                         "or a difference",
                         i);
    return 0;
}

int kiln_engine_check_starts(const DiffusionZBatch *b, struct kiln_error *err)
{
    const bool small = b->coarse_skip > 0; /* its starts are latents of the coarse size */
    const bool needed = small || (b->start != DIFFUSIONZ_FROM_NOISE && b->coarse_steps == 0);
    for (int i = 0; i < b->item_count; i++) {
        const DiffusionZItem *item = &b->items[i];
        if (item->start_latent && item->start_rgb)
            return kiln_fail(err, KILN_BAD_INPUT,
                             "item %d: starts from a latent and from a picture; give one", i);
        const bool given = item->start_latent || item->start_rgb;
        if (needed && !given)
            return kiln_fail(err, KILN_BAD_INPUT, "item %d: the start is missing", i);
        if (given && !needed)
            return kiln_fail(err, KILN_BAD_INPUT,
                             "item %d: has a start, but its batch begins from noise", i);
        if (!b->by_difference != !item->start_prompt)
            return kiln_fail(err, KILN_BAD_INPUT,
                             b->by_difference
                                 ? "item %d: the prompt of its start is missing"
                                 : "item %d: names the prompt of its start without need",
                             i);
        if (b->by_difference && (!item->start_latent || item->start_mask))
            return kiln_fail(err, KILN_BAD_INPUT,
                             "item %d: an edit by difference starts from a latent, without a mask",
                             i);
        if (small && (item->start_rgb || item->start_mask))
            return kiln_fail(err, KILN_BAD_INPUT,
                             "item %d: coarse steps are left out by starts from latents alone", i);
        if (item->start_mask && !given)
            return kiln_fail(err, KILN_BAD_INPUT,
                             "item %d: has a mask, but no start of which it keeps a part", i);
        const int code = check_latents(b, i, err);
        if (code)
            return code;
    }
    return 0;
}

int kiln_engine_forwards(const struct kiln_engine *e, const DiffusionZBatch *b)
{
    struct kiln_error err;
    struct kiln_phase phases[KILN_PHASES_MAX];
    if (check_schedule(e, b, &err))
        return 0;
    const struct kiln_phase *last = &phases[kiln_phases_fill(e, b, phases) - 1];
    return last->row + last->schedule.steps;
}

double kiln_engine_start_sigma(const struct kiln_engine *e, const DiffusionZBatch *b)
{
    return kiln_engine_forwards(e, b) > 0 ? kiln_phases_start_sigma(e, b) : 0;
}
