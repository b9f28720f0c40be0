/* rule.c - see rule.h. */
#include "scheduler/cache/rule.h"

#define FLOOR_VARIED 0.95 /* at alike 0, */
#define FLOOR_HALF 0.70   /* at 50; nothing at 100 */

double kiln_reuse_floor(uint32_t alike)
{
    const double half = KILN_ALIKE_MAX / 2.0;
    if (alike <= half)
        return FLOOR_VARIED - (FLOOR_VARIED - FLOOR_HALF) * alike / half;
    return alike < KILN_ALIKE_MAX ? FLOOR_HALF * (KILN_ALIKE_MAX - alike) / half : 0;
}

bool kiln_reuse_wants(const struct kiln_job *job)
{
    return job->teleport == KILN_TELEPORT_AUTO && job->kind == KILN_KIND_IMAGE &&
           job->latents != KILN_LATENTS_TRAJECTORY && !kiln_mode_starts(&job->mode) &&
           job->mode.variety == 0 && job->guidance == 0 && job->lora_count == 0;
}

/* Whether the row is for such donors and lost no more than is allowed. */
static bool is_for(const struct kiln_card_reuse_row *row, const struct kiln_job *job,
                   enum kiln_reuse_class class)
{
    return row->class == class && kiln_card_reuse_at(row, job->width, job->height) &&
           row->loss_attributes <= KILN_CARD_LOSS_ATTRIBUTES &&
           row->loss_whole <= KILN_CARD_LOSS_WHOLE;
}

bool kiln_reuse_measured(const struct kiln_model_card *card, const struct kiln_job *job,
                         enum kiln_reuse_class class, bool small)
{
    uint32_t count;
    const struct kiln_card_reuse_row *rows = kiln_card_reuse_rows(&card->reuse, small, &count);
    for (uint32_t i = 0; card->reuse.steps == job->steps && i < count; i++)
        if (is_for(&rows[i], job, class))
            return true;
    return false;
}

static bool holds(const struct kiln_card_reuse_row *row, const struct kiln_job *job,
                  const struct kiln_reuse_pool *pool)
{
    const double floor = kiln_reuse_floor(job->alike);
    if (!is_for(row, job, pool->class))
        return false;
    /* At alike 100 repeats are wanted, so use counts do not matter. */
    if (floor <= 0)
        return pool->donors > 0;
    return row->variety >= floor && pool->donors >= row->donors && pool->uses < row->uses;
}

double kiln_reuse_own_forwards(const struct kiln_model_card *card, const struct kiln_job *job)
{
    const struct kiln_mode mode = kiln_model_card_mode_of(card, job);
    return kiln_mode_forwards(&mode, job->steps);
}

bool kiln_reuse_small_size(const struct kiln_model_card *card, const struct kiln_job *job,
                           struct kiln_picture_size *ret)
{
    return kiln_model_card_mode_of(card, job).kind == KILN_MODE_COARSE &&
           kiln_coarse_size((struct kiln_picture_size){job->width, job->height}, card->coarse_sizes,
                            card->coarse_size_count, ret);
}

const struct kiln_card_reuse_row *kiln_reuse_row(const struct kiln_model_card *card,
                                                 const struct kiln_job *job,
                                                 const struct kiln_reuse_pool *pool)
{
    const struct kiln_card_reuse_row *deepest = NULL;
    uint32_t count;
    const struct kiln_card_reuse_row *rows =
        kiln_card_reuse_rows(&card->reuse, pool->small, &count);
    if (card->reuse.steps != job->steps || !kiln_reuse_wants(job) ||
        (pool->small && kiln_model_card_mode_of(card, job).kind != KILN_MODE_COARSE))
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        if ((!deepest || rows[i].depth > deepest->depth) && holds(&rows[i], job, pool))
            deepest = &rows[i];
    return deepest && job->steps - deepest->depth < kiln_reuse_own_forwards(card, job) ? deepest
                                                                                       : NULL;
}

uint32_t kiln_reuse_depth(const struct kiln_model_card *card, const struct kiln_job *job,
                          const struct kiln_reuse_pool *pool)
{
    const struct kiln_card_reuse_row *row = kiln_reuse_row(card, job, pool);
    return row ? row->depth : 0;
}

const char *kiln_reuse_refusal(const struct kiln_model_card *card, const struct kiln_job *job,
                               const struct kiln_reuse_pool *pool)
{
    const double floor = kiln_reuse_floor(job->alike);
    bool enough = floor <= 0, fresh = floor <= 0, varied = floor <= 0;
    uint32_t count;
    const struct kiln_card_reuse_row *rows =
        kiln_card_reuse_rows(&card->reuse, pool->small, &count);
    if (!kiln_reuse_measured(card, job, pool->class, pool->small))
        return "the model's table has no row for them at this size and number of steps";
    if (pool->donors == 0)
        return "none is stored";
    for (uint32_t i = 0; i < count; i++) {
        const struct kiln_card_reuse_row *row = &rows[i];
        if (!is_for(row, job, pool->class) || pool->donors < row->donors)
            continue;
        enough = true;
        fresh = fresh || pool->uses < row->uses;
        varied = varied || (pool->uses < row->uses && row->variety >= floor);
    }
    return !enough   ? "too few for any row of the model's table"
           : !fresh  ? "each was used as often as the model's table allows"
           : !varied ? "the pictures would be more alike than the job's alike allows"
                     : "a run from them would cost no less than the job's own mode";
}
