/* rule.c - see rule.h. */
#include "scheduler/cache/rule.h"

#include <math.h>

#include "schemas/job/line.h"
#include "schemas/random.h"

#define FLOOR_VARIED 0.95 /* at alike 0, */
#define FLOOR_HALF 0.64   /* at 50; nothing at 100 */
#define LEAST_HALF 0.24   /* of a single run */

/* Through FLOOR_VARIED at 0, half at 50 and nothing at 100. */
static double falling(uint32_t alike, double half)
{
    const double middle = KILN_ALIKE_MAX / 2.0;
    if (alike <= middle)
        return FLOOR_VARIED - (FLOOR_VARIED - half) * alike / middle;
    return alike < KILN_ALIKE_MAX ? half * (KILN_ALIKE_MAX - alike) / middle : 0;
}

double kiln_reuse_floor(uint32_t alike)
{
    return falling(alike, FLOOR_HALF);
}

double kiln_reuse_least(uint32_t alike)
{
    return falling(alike, LEAST_HALF);
}

bool kiln_reuse_wants(const struct kiln_job *job)
{
    return job->teleport == KILN_TELEPORT_AUTO && job->kind == KILN_KIND_IMAGE &&
           job->latents != KILN_LATENTS_TRAJECTORY && !kiln_mode_starts(&job->mode) &&
           job->mode.variety == 0 && job->guidance == 0 &&
           (job->lora_count == 0 || (job->lora_count == 1 && job->loras[0].sha256[0]));
}

/* Whether the row is for such donors and lost no more than is allowed. */
static bool is_for(const struct kiln_card_reuse_row *row, const struct kiln_job *job,
                   enum kiln_reuse_class class)
{
    return row->class == class && kiln_card_reuse_at(row, job->width, job->height) &&
           row->loss_attributes <= KILN_CARD_LOSS_ATTRIBUTES &&
           row->loss_whole <= KILN_CARD_LOSS_WHOLE;
}

/* The tables for donors that are small or not, of which some are only for coarse jobs. */
static int tables_of(const struct kiln_model_card *card, const struct kiln_job *job,
                     const struct kiln_mode *own, bool small, enum kiln_reuse_table ret[2])
{
    const bool coarse = own->kind == KILN_MODE_COARSE;
    int count = 0;
    if ((coarse || !small) && kiln_card_reuse_table_of(&card->reuse, job, small, false, &ret[0]))
        count++;
    if (coarse && !small && kiln_mode_same(own, &card->reuse.coarse) &&
        kiln_card_reuse_table_of(&card->reuse, job, false, true, &ret[count]))
        count++;
    return count;
}

/* What a run costs that begins at this step; INFINITY: it cannot. */
static double forwards_from(const struct kiln_mode *own, uint32_t steps, uint32_t step, bool coarse)
{
    const struct kiln_mode mode = kiln_mode_begun_at(own, step, coarse);
    const uint32_t small = own->kind == KILN_MODE_COARSE ? own->small : 0;
    return coarse == (step < small) ? kiln_mode_forwards(&mode, steps) : INFINITY;
}

uint32_t kiln_reuse_classes(const struct kiln_model_card *card, const struct kiln_job *job,
                            bool small, bool any)
{
    const struct kiln_mode own = kiln_model_card_mode_of(card, job);
    const double cost = kiln_mode_forwards(&own, job->steps), least = kiln_reuse_least(job->alike);
    enum kiln_reuse_table at[2];
    const int tables = card->reuse.steps == job->steps ? tables_of(card, job, &own, small, at) : 0;
    uint32_t classes = 0;
    for (int t = 0; t < tables; t++) {
        uint32_t count;
        const struct kiln_card_reuse_row *rows = kiln_card_reuse_rows(&card->reuse, at[t], &count);
        for (uint32_t i = 0; i < count; i++)
            if (is_for(&rows[i], job, rows[i].class) &&
                (any ||
                 (rows[i].variety >= least && forwards_from(&own, job->steps, rows[i].depth,
                                                            at[t] == KILN_REUSE_COARSE) < cost)))
                classes |= 1u << rows[i].class;
    }
    return classes;
}

/* Whether the donors are enough for the row and leave the variety. */
static bool holds(const struct kiln_card_reuse_row *row, const struct kiln_job *job,
                  const struct kiln_reuse_pool *pool, double variety)
{
    if (!is_for(row, job, pool->class))
        return false;
    /* At alike 100 repeats are wanted, so use counts do not matter. */
    if (variety <= 0)
        return pool->donors > 0;
    return row->variety >= variety && pool->donors >= row->donors && pool->uses < row->uses;
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

/* Whether a run from an exact picture would begin at the last small step: it is nearly a copy then,
 * and exact pictures are less right than those of coarse runs where these are used (measured:
 * scripts/bench/RESULTS.md). */
static bool copies_exact(const struct kiln_reuse_pool *pool, const struct kiln_mode *own,
                         uint32_t depth)
{
    return pool->exact && own->kind == KILN_MODE_COARSE && depth + 1 == own->small;
}

/* A start that the rows allow; without a row: the run in full. */
struct choice {
    const struct kiln_card_reuse_row *row;
    bool coarse;
    double forwards, variety;
};
#define CHOICES (1 + KILN_CARD_REUSE_ROWS + KILN_CARD_SMALL_ROWS)

/* The run in full, and what costs less and leaves the least variety; returns how many. */
static uint32_t choices_of(const struct kiln_model_card *card, const struct kiln_job *job,
                           const struct kiln_reuse_pool *pool, const struct kiln_mode *own,
                           struct choice ret[CHOICES])
{
    const double whole = kiln_mode_forwards(own, job->steps), least = kiln_reuse_least(job->alike);
    const bool possible = card->reuse.steps == job->steps && kiln_reuse_wants(job);
    enum kiln_reuse_table at[2];
    const int tables = possible ? tables_of(card, job, own, pool->small, at) : 0;
    uint32_t found = 0;
    ret[found++] = (struct choice){NULL, false, whole, 1};
    for (int t = 0; t < tables; t++) {
        const bool coarse = at[t] == KILN_REUSE_COARSE;
        uint32_t count;
        const struct kiln_card_reuse_row *rows = kiln_card_reuse_rows(&card->reuse, at[t], &count);
        for (uint32_t i = 0; i < count && !(coarse && pool->whole); i++) {
            const double forwards = forwards_from(own, job->steps, rows[i].depth, coarse);
            if (forwards < whole && holds(&rows[i], job, pool, least) &&
                !copies_exact(pool, own, rows[i].depth))
                ret[found++] =
                    (struct choice){&rows[i], coarse, forwards, fmin(rows[i].variety, 1)};
        }
    }
    return found;
}

/* In (0, 1); the same whenever the job is looked at. */
static double chance_of(const struct kiln_job *job)
{
    const char *prompt = kiln_job_drawn(job);
    uint64_t state = job->seed ^ kiln_seed_derive("teleport", prompt ? prompt : "");
    return kiln_random_share(&state);
}

/* What jobs share: `usual` leaves the floor or more, and a share of them begins at `deep`, which
 * leaves less, so that the mean is the floor; share 0: nobody does. */
struct mix {
    const struct choice *usual, *deep;
    double share, mean; /* mean: of what the runs cost */
};

/* Of all such pairs the one with the least mean, of several the most varied.  A higher alike allows
 * all that a lower one does, so the mean never rises with it. */
static struct mix least_mix(const struct choice *choices, uint32_t count, double floor)
{
    struct mix best = {.mean = INFINITY};
    double best_leaves = 0;
    for (const struct choice *usual = choices; usual < choices + count; usual++)
        for (const struct choice *deep = choices; deep < choices + count; deep++) {
            const double saves = usual->forwards - deep->forwards;
            const bool shares = deep->variety < floor && saves > 0;
            if (usual->variety < floor || (deep != usual && !shares))
                continue;
            const double share =
                shares ? (usual->variety - floor) / (usual->variety - deep->variety) : 0;
            const double mean = usual->forwards - share * saves;
            const double leaves = share > 0 ? floor : usual->variety;
            if (mean < best.mean || (mean == best.mean && leaves > best_leaves)) {
                best = (struct mix){usual, deep, share, mean};
                best_leaves = leaves;
            }
        }
    return best;
}

struct kiln_reuse_start kiln_reuse_start(const struct kiln_model_card *card,
                                         const struct kiln_job *job,
                                         const struct kiln_reuse_pool *pool)
{
    const struct kiln_mode own = kiln_model_card_mode_of(card, job);
    struct choice choices[CHOICES];
    const uint32_t count = choices_of(card, job, pool, &own, choices);
    const struct mix mix = least_mix(choices, count, kiln_reuse_floor(job->alike));
    const struct choice *at = mix.share > 0 && chance_of(job) < mix.share ? mix.deep : mix.usual;
    return (struct kiln_reuse_start){at->row, at->coarse, at->forwards, mix.mean, own};
}

uint32_t kiln_reuse_depth(const struct kiln_model_card *card, const struct kiln_job *job,
                          const struct kiln_reuse_pool *pool)
{
    const struct kiln_card_reuse_row *row = kiln_reuse_start(card, job, pool).row;
    return row ? row->depth : 0;
}

const char *kiln_reuse_refusal(const struct kiln_model_card *card, const struct kiln_job *job,
                               const struct kiln_reuse_pool *pool)
{
    const struct kiln_mode own = kiln_model_card_mode_of(card, job);
    const double least = kiln_reuse_least(job->alike), cost = kiln_mode_forwards(&own, job->steps);
    bool enough = least <= 0, fresh = least <= 0, varied = least <= 0, copies = false;
    if (!(kiln_reuse_classes(card, job, pool->small, true) & 1u << pool->class))
        return "the model's table has no row for them at this size and number of steps";
    if (pool->donors == 0)
        return "none is stored";
    if (kiln_reuse_start(card, job, pool).mean_forwards < cost)
        return "at its alike only some jobs begin from them: seed and prompt decide, and this one "
               "does not";
    enum kiln_reuse_table at[2];
    const int tables = tables_of(card, job, &own, pool->small, at);
    for (int t = 0; t < tables; t++) {
        uint32_t count;
        const struct kiln_card_reuse_row *rows = kiln_card_reuse_rows(&card->reuse, at[t], &count);
        for (uint32_t i = 0; i < count; i++) {
            const struct kiln_card_reuse_row *row = &rows[i];
            const bool possible = holds(row, job, pool, least);
            varied = varied || possible;
            copies = copies || (possible && copies_exact(pool, &own, row->depth) &&
                                forwards_from(&own, job->steps, row->depth,
                                              at[t] == KILN_REUSE_COARSE) < cost);
            if (!is_for(row, job, pool->class) || pool->donors < row->donors)
                continue;
            enough = true;
            fresh = fresh || pool->uses < row->uses;
        }
    }
    return !enough   ? "too few for any row of the model's table"
           : !fresh  ? "each was used as often as the model's table allows"
           : copies  ? "a coarse run from an exact picture keeps two small steps at least"
           : !varied ? "the pictures would be more alike than the job's alike allows"
                     : "a run from them would cost no less than the job's own mode";
}
