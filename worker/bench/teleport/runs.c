/* runs.c - renders the pairs of a table by its runs, and measures; see teleport.h.
 *
 * All runs of a few pairs follow one another, so a bench that is interrupted has whole pairs.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/bench/detail.h"
#include "worker/bench/teleport/teleport.h"
#include "worker/engine/batch_mode.h"
#include "worker/engine/soften.h"

#define LOW_SIZE KILN_TELEPORT_LOW
#define NOISE_CHOICE 160 /* numbers of the noise of donors to choose from; below are pools */

uint64_t kiln_teleport_seed(const struct kiln_teleport_options *options, uint32_t line,
                            enum kiln_teleport_noise noise, uint32_t number)
{
    return (((options->seed << 32) + line) * 4 + (uint64_t)noise) * 256 + number;
}

/* Copies of the latents that items begin from. */
struct softened {
    float *values[KILN_PICTURES_BATCH][DIFFUSIONZ_STARTS_MAX]; /* owned */
    const float *more[KILN_PICTURES_BATCH][DIFFUSIONZ_STARTS_MAX];
};

static void release(struct softened *softened)
{
    for (int i = 0; i < KILN_PICTURES_BATCH; i++)
        for (int k = 0; k < DIFFUSIONZ_STARTS_MAX; k++)
            free(softened->values[i][k]);
}

/* Lets the items begin from copies of their donors, as a worker makes them: shrunk where the run
 * begins at a smaller size, and softened. */
static int soften(struct kiln_teleport_bench *bench, const DiffusionZBatch *batch, uint32_t side,
                  DiffusionZItem *items, struct softened *ret, struct kiln_error *err)
{
    const bool small = batch->coarse_skip > 0;
    int32_t count, factor;
    diffusionz_latent_shape(bench->pictures.context, &count, &factor);
    const uint32_t width = (uint32_t)(batch->width / factor);
    const uint32_t height = (uint32_t)(batch->height / factor), channels = (uint32_t)count;
    const uint32_t out_width = small ? (uint32_t)(batch->coarse_width / factor) : width;
    const uint32_t out_height = small ? (uint32_t)(batch->coarse_height / factor) : height;
    for (int i = 0; i < batch->item_count; i++) {
        for (int k = 0; k <= items[i].more_count; k++) {
            const float *from = k ? items[i].more_latents[k - 1] : items[i].start_latent;
            float *copy = kiln_latent_shrunk(from, channels, height, width, out_height, out_width);
            if (!copy)
                return kiln_fail(err, KILN_NO_MEMORY, "no memory for the donors");
            if (side > 0)
                kiln_soften(copy, channels, out_height, out_width, side);
            ret->more[i][k] = ret->values[i][k] = copy;
        }
        items[i].start_latent = ret->more[i][0];
        items[i].more_latents = ret->more[i] + 1;
    }
    return 0;
}

/* mode: of whole runs. */
static int render(struct kiln_teleport_bench *bench, struct kiln_mode mode,
                  struct kiln_picture_size size, int32_t steps, int32_t depth, bool decode,
                  DiffusionZItem *items, int count, DiffusionZOutput *outputs,
                  struct kiln_error *err)
{
    const struct kiln_model_card *card = &bench->pictures.card;
    DiffusionZBatch batch = {.items = items,
                             .item_count = count,
                             .width = (int32_t)size.width,
                             .height = (int32_t)size.height,
                             .num_steps = steps,
                             .loras = &bench->options.lora,
                             .lora_count = bench->options.lora_count,
                             .skip_decode = !decode};
    if (mode.kind == KILN_MODE_EXACT && depth > 0)
        mode.kind = KILN_MODE_START_STEP;
    mode.step = (uint32_t)depth;
    mode.reused = depth > 0;
    if (!kiln_batch_set_mode(&batch, &mode, card->coarse_sizes, card->coarse_size_count))
        return kiln_fail(err, KILN_BAD_INPUT, KILN_MODEL_CARD " names no small size for %ux%u",
                         size.width, size.height);
    const uint32_t side =
        depth > 0 && depth <= bench->options.soften_count ? bench->options.soften[depth - 1] : 0;
    const bool copied = depth > 0 && (side > 0 || batch.coarse_skip > 0);
    struct softened softened = {0};
    int code = copied ? soften(bench, &batch, side, items, &softened, err) : 0;
    code = code ? code : kiln_pictures_render(&bench->pictures, &batch, outputs, NULL, err);
    release(&softened);
    if (code == 0 && outputs[0].latent_channels > KILN_TELEPORT_CHANNELS_MAX)
        code = kiln_fail(err, KILN_UNSUPPORTED, "latents of more than %d channels",
                         KILN_TELEPORT_CHANNELS_MAX);
    return code;
}

int kiln_teleport_render(struct kiln_teleport_bench *bench, struct kiln_picture_size size,
                         int32_t steps, int32_t depth, bool decode, DiffusionZItem *items,
                         int count, DiffusionZOutput *outputs, struct kiln_error *err)
{
    return render(bench, bench->options.coarse, size, steps, depth, decode, items, count, outputs,
                  err);
}

/* The latents of outputs at the size of the table. */
static int enlarge(const struct kiln_teleport_table *table, DiffusionZOutput *outputs, int count,
                   struct kiln_error *err)
{
    const struct kiln_picture_size size = table->size, donor = table->donor;
    for (int i = 0; i < count; i++) {
        DiffusionZOutput *output = &outputs[i];
        const uint32_t height = (uint32_t)output->latent_height * size.height / donor.height;
        const uint32_t width = (uint32_t)output->latent_width * size.width / donor.width;
        float *large = kiln_latent_enlarged(output->latent, (uint32_t)output->latent_channels,
                                            (uint32_t)output->latent_height,
                                            (uint32_t)output->latent_width, height, width);
        if (!large)
            return kiln_fail(err, KILN_NO_MEMORY, "no memory to enlarge a latent");
        free(output->latent);
        output->latent = large;
        output->latent_height = (int32_t)height;
        output->latent_width = (int32_t)width;
    }
    return 0;
}

int kiln_teleport_render_donors(struct kiln_teleport_bench *bench,
                                const struct kiln_teleport_table *table, DiffusionZItem *items,
                                int count, DiffusionZOutput *outputs, struct kiln_error *err)
{
    int code = render(bench, bench->options.donors, table->donor, bench->options.steps, 0, false,
                      items, count, outputs, err);
    return code || !bench->options.small ? code : enlarge(table, outputs, count, err);
}

/* Pairs that are rendered together, all seeds of each one behind the other. */
struct group {
    struct kiln_teleport_bench *bench;
    struct kiln_teleport_table *table;
    size_t first, count;
    int channels;
    struct kiln_teleport_donors donors;
    float *low_full; /* [item][LOW_SIZE] */
    /* Of the full runs and of each item's own donor; NULL: not rendered yet. */
    struct kiln_features *full[KILN_PICTURES_BATCH], *donor[KILN_PICTURES_BATCH];
    bool has_full, has_choice;
};

static int items_of(const struct group *group)
{
    return (int)group->count * group->bench->options.seeds;
}

static size_t pair_of(const struct group *group, int item)
{
    return group->first + (size_t)(item / group->bench->options.seeds);
}

/* A run's own part of an item: prompt, noise and start. */
static DiffusionZItem item_of(const struct group *group, int item, enum kiln_teleport_noise noise)
{
    const struct kiln_teleport_options *o = &group->bench->options;
    const struct kiln_teleport_pair *pair = &group->bench->pairs.items[pair_of(group, item)];
    return (DiffusionZItem){
        .prompt = noise == KILN_NOISE_DONOR ? pair->donor : pair->target,
        .seed = kiln_teleport_seed(o, pair->line, noise, (uint32_t)(item % o->seeds)),
    };
}

/* Of a donor beside the item's own: another picture of the same prompt. */
static uint64_t choice_seed(const struct group *group, int item, int which)
{
    const struct kiln_teleport_options *o = &group->bench->options;
    return kiln_teleport_seed(
        o, group->bench->pairs.items[pair_of(group, item)].line, KILN_NOISE_POOL,
        (uint32_t)(NOISE_CHOICE + item % o->seeds * KILN_TELEPORT_CHOICE + which));
}

/* Keeps the decoder's features of a full run or an own donor. */
static int keep_features(const struct group *group, const DiffusionZOutput *output,
                         struct kiln_features **place, struct kiln_error *err)
{
    kiln_features_free(*place);
    *place = NULL;
    return kiln_features_of(group->bench->pictures.context, output->latent, output->latent_channels,
                            output->latent_height, output->latent_width, place, err);
}

/* Latents of full runs: the donors of this number, which are kept, or the targets' (-1), of which
 * the low part is. */
static int latents(struct group *group, int which, struct kiln_error *err)
{
    struct kiln_teleport_bench *bench = group->bench;
    const int all = items_of(group), batch = kiln_pictures_batch(bench->options.device);
    float *low = which < 0 ? group->low_full : kiln_teleport_donor_low(&group->donors, which, 0);
    int code = 0;
    for (int at = 0; at < all && code == 0; at += batch) {
        const int count = all - at < batch ? all - at : batch;
        DiffusionZItem items[KILN_PICTURES_BATCH];
        DiffusionZOutput outputs[KILN_PICTURES_BATCH] = {0};
        for (int i = 0; i < count; i++)
            items[i] = item_of(group, at + i, which < 0 ? KILN_NOISE_TARGET : KILN_NOISE_DONOR);
        for (int i = 0; i < count && which > 0; i++)
            items[i].seed = choice_seed(group, at + i, which);
        code = which < 0
                   ? kiln_teleport_render(bench, group->table->size, bench->options.steps, 0, false,
                                          items, count, outputs, err)
                   : kiln_teleport_render_donors(bench, group->table, items, count, outputs, err);
        for (int i = 0; i < count && code == 0; i++) {
            group->channels = outputs[i].latent_channels;
            kiln_low_pass(outputs[i].latent, group->channels, outputs[i].latent_height,
                          outputs[i].latent_width, low + (at + i) * LOW_SIZE);
            if (which <= 0)
                code = keep_features(group, &outputs[i],
                                     which < 0 ? &group->full[at + i] : &group->donor[at + i], err);
            if (which < 0)
                continue;
            group->donors.latents[which][at + i] = outputs[i].latent; /* taken over */
            outputs[i].latent = NULL;
        }
        diffusionz_release_outputs(outputs, count);
    }
    return code;
}

/* Renders more donors for each item, and sorts them. */
static int make_choice(struct group *group, struct kiln_error *err)
{
    int code = 0;
    for (int which = 1; which < KILN_TELEPORT_CHOICE && code == 0; which++)
        code = latents(group, which, err);
    for (int i = 0; i < items_of(group) && code == 0; i++)
        kiln_teleport_donors_sort(&group->donors, i, group->channels);
    group->has_choice = code == 0;
    return code;
}

/* Adds how far a run's features are from those of the full run, and of its donor. */
static int compare_features(struct group *group, int run, int item, const DiffusionZOutput *output,
                            struct kiln_error *err)
{
    const enum kiln_teleport_kind kind = group->bench->runs[run].kind;
    const size_t pair = pair_of(group, item);
    double distance = 0;
    if (kind == KILN_TELEPORT_FULL)
        return keep_features(group, output, &group->full[item], err);
    struct kiln_features *own = NULL;
    int code = keep_features(group, output, &own, err);
    code = code ? code : kiln_features_distance(own, group->full[item], &distance, err);
    kiln_teleport_column(group->table, run, KILN_TELEPORT_FEATURES)[pair] += distance;
    if (code == 0 && kind == KILN_TELEPORT_SKIP) {
        code = kiln_features_distance(own, group->donor[item], &distance, err);
        kiln_teleport_column(group->table, run, KILN_TELEPORT_FEATURES_DONOR)[pair] += distance;
    }
    if (kind != KILN_TELEPORT_DONOR || code) {
        kiln_features_free(own);
        return code;
    }
    kiln_features_free(group->donor[item]);
    group->donor[item] = own;
    return 0;
}

static int look(struct group *group, int run, int item, const DiffusionZOutput *output,
                struct kiln_error *err)
{
    struct kiln_teleport_table *table = group->table;
    const struct kiln_teleport_run *how = &group->bench->runs[run];
    const enum kiln_teleport_kind kind = how->kind;
    const int style = group->bench->style;
    const size_t pair = pair_of(group, item);
    float low[LOW_SIZE];
    struct kiln_seen seen;
    struct kiln_score score;
    int code = kiln_pictures_look(&group->bench->pictures, &group->bench->pairs.items[pair].asked,
                                  output->rgb, (int32_t)table->size.width,
                                  (int32_t)table->size.height, &seen, &score, err);
    code = code ? code : compare_features(group, run, item, output, err);
    if (code)
        return code;
    for (int i = 0; i < KILN_ATTRIBUTES; i++) {
        kiln_teleport_column(table, run, KILN_TELEPORT_RIGHT)[pair] += score.right[i];
        kiln_teleport_column(table, run, KILN_TELEPORT_ASKED)[pair] += score.asked[i];
    }
    kiln_teleport_column(table, run, KILN_TELEPORT_WHOLE)[pair] += kiln_score_whole(&score);
    kiln_teleport_column(table, run, KILN_TELEPORT_STYLED)[pair] +=
        style < 0 ? NAN : seen.style == style;
    kiln_teleport_column(table, run, KILN_TELEPORT_PICTURES)[pair] += 1;
    group->channels = output->latent_channels;
    kiln_low_pass(output->latent, group->channels, output->latent_height, output->latent_width,
                  low);
    if (kind == KILN_TELEPORT_FULL)
        memcpy(group->low_full + item * LOW_SIZE, low, sizeof low);
    else
        kiln_teleport_column(table, run, KILN_TELEPORT_TO_FULL)[pair] +=
            kiln_low_distance(low, group->low_full + item * LOW_SIZE, group->channels);
    if (kind == KILN_TELEPORT_DONOR)
        memcpy(kiln_teleport_donor_low(&group->donors, 0, item), low, sizeof low);
    kiln_teleport_column(table, run, KILN_TELEPORT_CHANGE)[pair] += output->change;
    if (kind == KILN_TELEPORT_SKIP)
        kiln_teleport_column(table, run, KILN_TELEPORT_TO_DONOR)[pair] += kiln_low_distance(
            low, kiln_teleport_donor_low(&group->donors, 0, item), group->channels);
    if (kind != KILN_TELEPORT_COMBINED)
        return 0;
    kiln_teleport_column(table, run, KILN_TELEPORT_TO_DONOR)[pair] +=
        kiln_teleport_donors_near(&group->donors, item, how->donors, group->channels, low);
    kiln_teleport_column(table, run, KILN_TELEPORT_APART)[pair] +=
        kiln_teleport_donors_apart(&group->donors, item, how->donors, group->channels);
    return 0;
}

/* Lets an item begin from its donor, or from its nearest ones; more: room for those beside it. */
static void set_start(const struct group *group, const struct kiln_teleport_run *how, int item,
                      DiffusionZItem *out, const float *more[DIFFUSIONZ_STARTS_MAX])
{
    const struct kiln_teleport_donors *donors = &group->donors;
    if (how->kind != KILN_TELEPORT_SKIP && how->kind != KILN_TELEPORT_COMBINED)
        return;
    out->start_latent = donors->latents[0][item];
    out->change_most = INFINITY; /* measured, and never out of bounds */
    if (how->kind == KILN_TELEPORT_SKIP)
        return;
    for (int i = 1; i < how->donors; i++)
        more[i - 1] = donors->latents[donors->order[item][i]][item];
    out->more_latents = more;
    out->more_count = how->donors - 1;
    out->combine = how->way;
}

/* Renders items coarse first, as a worker does. */
static int render_coarse(struct group *group, const struct kiln_mode *mode, DiffusionZItem *items,
                         int count, DiffusionZOutput *outputs, struct kiln_error *err)
{
    struct kiln_pictures *pictures = &group->bench->pictures;
    DiffusionZBatch batch = {.items = items,
                             .item_count = count,
                             .width = (int32_t)group->table->size.width,
                             .height = (int32_t)group->table->size.height,
                             .num_steps = group->bench->options.steps,
                             .loras = &group->bench->options.lora,
                             .lora_count = group->bench->options.lora_count};
    if (!kiln_batch_set_mode(&batch, mode, pictures->card.coarse_sizes,
                             pictures->card.coarse_size_count))
        return kiln_fail(err, KILN_INTERNAL, "no small size for %dx%d", batch.width, batch.height);
    return kiln_pictures_render(pictures, &batch, outputs, NULL, err);
}

bool kiln_teleport_renders(const struct kiln_teleport_bench *bench,
                           const struct kiln_teleport_table *table, int run)
{
    const struct kiln_model_card *card = &bench->pictures.card;
    struct kiln_picture_size small, middle;
    return bench->runs[run].kind != KILN_TELEPORT_COARSE ||
           kiln_coarse_sizes(&bench->runs[run].mode, table->size, card->coarse_sizes,
                             card->coarse_size_count, &small, &middle);
}

static int slice(struct group *group, int run, int at, int count, struct kiln_error *err)
{
    struct kiln_teleport_bench *bench = group->bench;
    const struct kiln_teleport_run *how = &bench->runs[run];
    DiffusionZItem items[KILN_PICTURES_BATCH];
    DiffusionZOutput outputs[KILN_PICTURES_BATCH] = {0};
    const enum kiln_teleport_noise noise = how->kind == KILN_TELEPORT_AGAIN   ? KILN_NOISE_AGAIN
                                           : how->kind == KILN_TELEPORT_DONOR ? KILN_NOISE_DONOR
                                                                              : KILN_NOISE_TARGET;
    const float *more[KILN_PICTURES_BATCH][DIFFUSIONZ_STARTS_MAX];
    for (int i = 0; i < count; i++) {
        items[i] = item_of(group, at + i, noise);
        set_start(group, how, at + i, &items[i], more[i]);
    }
    const int32_t fewer = how->kind == KILN_TELEPORT_FEWER ? how->depth : 0;
    const int32_t skip = items[0].start_latent ? how->depth : 0;
    const struct kiln_mode mode =
        noise == KILN_NOISE_DONOR ? bench->options.donors : bench->options.coarse;
    int code = how->kind == KILN_TELEPORT_COARSE
                   ? render_coarse(group, &how->mode, items, count, outputs, err)
                   : render(bench, mode, group->table->size, bench->options.steps - fewer, skip,
                            true, items, count, outputs, err);
    for (int i = 0; i < count && code == 0; i++)
        code = look(group, run, at + i, &outputs[i], err);
    for (int i = 0; i < count && code == 0 && noise == KILN_NOISE_DONOR; i++) {
        group->donors.latents[0][at + i] = outputs[i].latent; /* taken over */
        outputs[i].latent = NULL;
    }
    diffusionz_release_outputs(outputs, count);
    return code;
}

static int run_group(struct group *group, int run, struct kiln_error *err)
{
    const enum kiln_teleport_kind kind = group->bench->runs[run].kind;
    const int all = items_of(group), batch = kiln_pictures_batch(group->bench->options.device);
    int code = 0;
    if ((kind == KILN_TELEPORT_SKIP || kind == KILN_TELEPORT_COMBINED) &&
        !group->donors.latents[0][0])
        code = latents(group, 0, err);
    if (kind == KILN_TELEPORT_COMBINED && !group->has_choice && code == 0)
        code = make_choice(group, err);
    if (kind != KILN_TELEPORT_FULL && !group->has_full && code == 0)
        code = latents(group, -1, err); /* they were measured before an end */
    group->has_full = true;
    for (int m = 0; m < KILN_TELEPORT_MEASURES; m++)
        for (size_t i = 0; i < group->count; i++)
            kiln_teleport_column(group->table, run,
                                 (enum kiln_teleport_measure)m)[group->first + i] = 0;
    for (int at = 0; at < all && code == 0; at += batch)
        code = slice(group, run, at, all - at < batch ? all - at : batch, err);
    for (size_t i = 0; i < group->count && code == 0; i++)
        code = kiln_teleport_record(group->bench, group->table, run, group->first + i, err);
    return code;
}

static bool measured(const struct group *group, int run)
{
    const double *pictures = kiln_teleport_column(group->table, run, KILN_TELEPORT_PICTURES);
    for (size_t i = 0; i < group->count; i++)
        if (isnan(pictures[group->first + i]))
            return false;
    return true;
}

static void clear_group(struct group *group)
{
    for (int i = 0; i < KILN_PICTURES_BATCH; i++) {
        kiln_features_free(group->full[i]);
        kiln_features_free(group->donor[i]);
        group->full[i] = group->donor[i] = NULL;
    }
    kiln_teleport_donors_clear(&group->donors);
}

int kiln_teleport_fill(struct kiln_teleport_bench *bench, struct kiln_teleport_table *table,
                       struct kiln_error *err)
{
    const int seeds = bench->options.seeds, batch = kiln_pictures_batch(bench->options.device);
    const size_t together = seeds < batch ? (size_t)(batch / seeds) : 1;
    struct group group = {.bench = bench, .table = table};
    group.donors.low =
        malloc((size_t)KILN_TELEPORT_CHOICE * KILN_PICTURES_BATCH * LOW_SIZE * sizeof(float));
    group.low_full = malloc(KILN_PICTURES_BATCH * LOW_SIZE * sizeof(float));
    int code = group.donors.low && group.low_full
                   ? 0
                   : kiln_fail(err, KILN_NO_MEMORY, "no memory to compare latents");
    for (; group.first < table->pairs && code == 0; group.first += group.count) {
        const size_t left = table->pairs - group.first;
        group.count = left < together ? left : together;
        group.has_full = group.has_choice = false;
        kiln_teleport_progress(table, "pairs", group.first, table->pairs);
        for (int run = 0; run < bench->run_count && code == 0; run++)
            if (kiln_teleport_renders(bench, table, run) && !measured(&group, run))
                code = run_group(&group, run, err);
        clear_group(&group);
    }
    kiln_teleport_progress(table, "pairs", 0, 0);
    free(group.donors.low);
    free(group.low_full);
    return code;
}
