/* runs.c - renders the pairs of a table by its runs, and measures; see teleport.h.
 *
 * All runs of a few pairs follow one another, so a bench that is interrupted has whole pairs.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/bench/detail.h"
#include "worker/bench/teleport/teleport.h"
#include "worker/engine/soften.h"

#define CHANNELS_MAX 64
#define LOW_SIZE (CHANNELS_MAX * KILN_LOW_CELLS * KILN_LOW_CELLS)

uint64_t kiln_teleport_seed(const struct kiln_teleport_options *options, uint32_t line,
                            enum kiln_teleport_noise noise, uint32_t number)
{
    return (((options->seed << 32) + line) * 4 + (uint64_t)noise) * 256 + number;
}

/* Lets the items begin from copies of their donors, as a worker softens them; free(*ret_copies). */
static int soften(struct kiln_teleport_bench *bench, struct kiln_picture_size size, uint32_t cells,
                  DiffusionZItem *items, int count, float **ret_copies, struct kiln_error *err)
{
    int32_t channels, factor;
    diffusionz_latent_shape(bench->pictures.context, &channels, &factor);
    const uint32_t width = size.width / (uint32_t)factor, height = size.height / (uint32_t)factor;
    const size_t one = (size_t)channels * height * width;
    float *copies = malloc((size_t)count * one * sizeof *copies);
    if (!copies)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the donors");
    for (int i = 0; i < count; i++) {
        float *copy = copies + (size_t)i * one;
        memcpy(copy, items[i].start_latent, one * sizeof *copy);
        kiln_soften(copy, (uint32_t)channels, height, width, cells);
        items[i].start_latent = copy;
    }
    *ret_copies = copies;
    return 0;
}

int kiln_teleport_render(struct kiln_teleport_bench *bench, struct kiln_picture_size size,
                         int32_t steps, int32_t depth, bool decode, DiffusionZItem *items,
                         int count, DiffusionZOutput *outputs, struct kiln_error *err)
{
    const DiffusionZBatch batch = {
        .items = items,
        .item_count = count,
        .width = (int32_t)size.width,
        .height = (int32_t)size.height,
        .num_steps = steps,
        .skip_decode = !decode,
        .start = depth ? DIFFUSIONZ_FROM_STEP : DIFFUSIONZ_FROM_NOISE,
        .start_step = depth,
    };
    const uint32_t cells =
        depth > 0 && depth <= bench->options.soften_count ? bench->options.soften[depth - 1] : 0;
    float *copies = NULL;
    int code = cells ? soften(bench, size, cells, items, count, &copies, err) : 0;
    code = code ? code : kiln_pictures_render(&bench->pictures, &batch, outputs, NULL, err);
    free(copies);
    if (code == 0 && outputs[0].latent_channels > CHANNELS_MAX)
        code = kiln_fail(err, KILN_UNSUPPORTED, "latents of more than %d channels", CHANNELS_MAX);
    return code;
}

/* Pairs that are rendered together, all seeds of each one behind the other. */
struct group {
    struct kiln_teleport_bench *bench;
    struct kiln_teleport_table *table;
    size_t first, count;
    int channels;
    float *donors[KILN_PICTURES_BATCH]; /* their final latents; NULL: not rendered yet */
    float *low_donors, *low_full;       /* [item][LOW_SIZE] */
    bool has_full;
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

/* Latents of full runs: the donors', which are kept, or the targets', of which the low part is. */
static int latents(struct group *group, enum kiln_teleport_noise noise, struct kiln_error *err)
{
    struct kiln_teleport_bench *bench = group->bench;
    const int all = items_of(group), batch = kiln_pictures_batch(bench->options.device);
    float *low = noise == KILN_NOISE_DONOR ? group->low_donors : group->low_full;
    int code = 0;
    for (int at = 0; at < all && code == 0; at += batch) {
        const int count = all - at < batch ? all - at : batch;
        DiffusionZItem items[KILN_PICTURES_BATCH];
        DiffusionZOutput outputs[KILN_PICTURES_BATCH] = {0};
        for (int i = 0; i < count; i++)
            items[i] = item_of(group, at + i, noise);
        code = kiln_teleport_render(bench, group->table->size, bench->options.steps, 0, false,
                                    items, count, outputs, err);
        for (int i = 0; i < count && code == 0; i++) {
            group->channels = outputs[i].latent_channels;
            kiln_low_pass(outputs[i].latent, group->channels, outputs[i].latent_height,
                          outputs[i].latent_width, low + (at + i) * LOW_SIZE);
            if (noise != KILN_NOISE_DONOR)
                continue;
            group->donors[at + i] = outputs[i].latent; /* taken over */
            outputs[i].latent = NULL;
        }
        diffusionz_release_outputs(outputs, count);
    }
    return code;
}

static int look(struct group *group, int run, int item, const DiffusionZOutput *output,
                struct kiln_error *err)
{
    struct kiln_teleport_table *table = group->table;
    const enum kiln_teleport_kind kind = group->bench->runs[run].kind;
    const size_t pair = pair_of(group, item);
    float low[LOW_SIZE];
    struct kiln_seen seen;
    struct kiln_score score;
    int code = kiln_pictures_look(&group->bench->pictures, &group->bench->pairs.items[pair].asked,
                                  output->rgb, (int32_t)table->size.width,
                                  (int32_t)table->size.height, &seen, &score, err);
    if (code)
        return code;
    for (int i = 0; i < KILN_ATTRIBUTES; i++) {
        kiln_teleport_column(table, run, KILN_TELEPORT_RIGHT)[pair] += score.right[i];
        kiln_teleport_column(table, run, KILN_TELEPORT_ASKED)[pair] += score.asked[i];
    }
    kiln_teleport_column(table, run, KILN_TELEPORT_WHOLE)[pair] += kiln_score_whole(&score);
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
        memcpy(group->low_donors + item * LOW_SIZE, low, sizeof low);
    if (kind == KILN_TELEPORT_SKIP)
        kiln_teleport_column(table, run, KILN_TELEPORT_TO_DONOR)[pair] +=
            kiln_low_distance(low, group->low_donors + item * LOW_SIZE, group->channels);
    return 0;
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
    for (int i = 0; i < count; i++) {
        items[i] = item_of(group, at + i, noise);
        if (how->kind == KILN_TELEPORT_SKIP)
            items[i].start_latent = group->donors[at + i];
    }
    const int32_t fewer = how->kind == KILN_TELEPORT_FEWER ? how->depth : 0;
    const int32_t skip = how->kind == KILN_TELEPORT_SKIP ? how->depth : 0;
    int code = kiln_teleport_render(bench, group->table->size, bench->options.steps - fewer, skip,
                                    true, items, count, outputs, err);
    for (int i = 0; i < count && code == 0; i++)
        code = look(group, run, at + i, &outputs[i], err);
    for (int i = 0; i < count && code == 0 && noise == KILN_NOISE_DONOR; i++) {
        group->donors[at + i] = outputs[i].latent; /* taken over */
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
    if (kind == KILN_TELEPORT_SKIP && !group->donors[0])
        code = latents(group, KILN_NOISE_DONOR, err);
    if (kind != KILN_TELEPORT_FULL && !group->has_full && code == 0)
        code = latents(group, KILN_NOISE_TARGET, err); /* they were measured before an end */
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

int kiln_teleport_fill(struct kiln_teleport_bench *bench, struct kiln_teleport_table *table,
                       struct kiln_error *err)
{
    const int seeds = bench->options.seeds, batch = kiln_pictures_batch(bench->options.device);
    const size_t together = seeds < batch ? (size_t)(batch / seeds) : 1;
    struct group group = {.bench = bench, .table = table};
    group.low_donors = malloc(KILN_PICTURES_BATCH * LOW_SIZE * sizeof(float));
    group.low_full = malloc(KILN_PICTURES_BATCH * LOW_SIZE * sizeof(float));
    int code = group.low_donors && group.low_full
                   ? 0
                   : kiln_fail(err, KILN_NO_MEMORY, "no memory to compare latents");
    for (; group.first < table->pairs && code == 0; group.first += group.count) {
        const size_t left = table->pairs - group.first;
        group.count = left < together ? left : together;
        group.has_full = false;
        kiln_teleport_progress(table, "pairs", group.first, table->pairs);
        for (int run = 0; run < bench->run_count && code == 0; run++)
            if (!measured(&group, run))
                code = run_group(&group, run, err);
        for (int i = 0; i < KILN_PICTURES_BATCH; i++) {
            free(group.donors[i]);
            group.donors[i] = NULL;
        }
    }
    kiln_teleport_progress(table, "pairs", 0, 0);
    free(group.low_donors);
    free(group.low_full);
    return code;
}
