/* rule.c - see rule.h.
 *
 * A row is superfluous if another one of its class and size skips as much or more, needs no more
 * donors, may use them as often and leaves the same variety.  Variety is compared by levels, so that
 * a difference of which nobody takes notice makes no row.  The least is what a single run must leave
 * at `alike` 50 (scheduler/cache/rule.h).
 */
#include "worker/bench/teleport/rule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/bench/detail.h"
#include "storage/formats/card/model_card.h"

static const double levels[] = {0.95, 0.7, 0.35, 0.24};
#define LEVELS (int)(sizeof levels / sizeof *levels)

/* --- variety ---------------------------------------------------------------------------------- */

/* The mean distance of the pictures from..count - 1 to their nearest other of all; and among them.
 */
static void measure(const float *const *at, int from, int count, int channels, double *ret_near,
                    double *ret_spread)
{
    double near = 0, spread = 0;
    int pairs = 0;
    for (int i = from; i < count; i++) {
        double least = INFINITY;
        for (int k = 0; k < count; k++) {
            if (k == i)
                continue;
            const double distance = kiln_low_distance(at[i], at[k], channels);
            least = distance < least ? distance : least;
            if (k > i) {
                spread += distance;
                pairs++;
            }
        }
        near += least;
    }
    *ret_near = near / (count - from);
    *ret_spread = pairs ? spread / pairs : NAN;
}

void kiln_teleport_vary(const float *donors, const float *drawn, int channels,
                        struct kiln_teleport_varied *ret)
{
    const size_t one = (size_t)channels * KILN_LOW_CELLS * KILN_LOW_CELLS;
    const float *at[KILN_TELEPORT_DONORS_MAX * (1 + KILN_TELEPORT_USES_MAX)];
    for (int p = 0; p < KILN_TELEPORT_POOLS; p++)
        for (int u = 0; u < KILN_TELEPORT_USES; u++) {
            const int pool = (int)kiln_teleport_donors[p], uses = (int)kiln_teleport_uses[u];
            int count = 0;
            for (int d = 0; d < pool; d++)
                at[count++] = donors + (size_t)d * one;
            for (int use = 0; use < uses; use++)
                for (int d = 0; d < pool; d++)
                    at[count++] = drawn + (size_t)(use * KILN_TELEPORT_DONORS_MAX + d) * one;
            measure(at, pool, count, channels, &ret->near[p][u], &ret->spread[p][u]);
        }
}

void kiln_teleport_vary_full(const float *full, int channels, struct kiln_teleport_varied *ret)
{
    const size_t one = (size_t)channels * KILN_LOW_CELLS * KILN_LOW_CELLS;
    const int all = KILN_TELEPORT_DONORS_MAX * (1 + KILN_TELEPORT_USES_MAX);
    const float *at[KILN_TELEPORT_DONORS_MAX * (1 + KILN_TELEPORT_USES_MAX)];
    double unused, spread;
    for (int i = 0; i < all; i++)
        at[i] = full + (size_t)i * one;
    measure(at, 0, all, channels, &unused, &spread);
    for (int p = 0; p < KILN_TELEPORT_POOLS; p++)
        for (int u = 0; u < KILN_TELEPORT_USES; u++) {
            const int block = (int)(kiln_teleport_donors[p] * (1 + kiln_teleport_uses[u]));
            double sum = 0, near;
            for (int b = 0; b < all / block; b++) {
                measure(at + b * block, 0, block, channels, &near, &unused);
                sum += near;
            }
            ret->near[p][u] = sum / (all / block);
            ret->spread[p][u] = spread; /* a mean over pairs is the same in a part */
        }
}

/* --- the rows --------------------------------------------------------------------------------- */

bool kiln_teleport_holds(const struct kiln_teleport_finding *found, char why[KILN_FIGURE_WHY])
{
    why[0] = '\0';
    if (found->pairs < KILN_TELEPORT_PAIRS_MIN) {
        snprintf(why, KILN_FIGURE_WHY, "%zu %s too few to tell", found->pairs,
                 found->pairs == 1 ? "pair is" : "pairs are");
        return false;
    }
    bool good = kiln_figure_share_within("attributes", found->attributes, found->asked,
                                         KILN_CARD_LOSS_ATTRIBUTES, why);
    good = kiln_figure_share_within("whole prompts", found->whole, found->pictures,
                                    KILN_CARD_LOSS_WHOLE, why) &&
           good;
    return (!found->with_lora || kiln_figure_share_within("style", found->style, found->pictures,
                                                          KILN_CARD_LOSS_STYLE, why)) &&
           good;
}

struct candidate {
    const struct kiln_teleport_finding *found;
    uint32_t donors, uses;
    double variety;
    int level; /* of levels that the variety reaches; LEVELS: none */
};

int kiln_teleport_level(double variety)
{
    int level = 0;
    while (level < LEVELS && variety < levels[level])
        level++;
    return level;
}

/* Whether row a does all that row b does. */
static bool covers(const struct candidate *a, const struct candidate *b)
{
    return a->found->class == b->found->class && a->found->size.width == b->found->size.width &&
           a->found->size.height == b->found->size.height && a->found->depth >= b->found->depth &&
           a->level <= b->level && a->donors <= b->donors && a->uses >= b->uses;
}

/* The variety that a row may name; NaN where it is not known. */
static double least(struct kiln_estimate near)
{
    return near.value - near.error;
}

/* Below all levels only a job minds nothing that says alike 100, for which donors and uses do not
 * count: one donor, used once, stands for all of these. */
static size_t add_candidates(const struct kiln_teleport_finding *found, struct candidate *out)
{
    size_t count = 0;
    for (int p = 0; p < KILN_TELEPORT_POOLS; p++)
        for (int u = 0; u < KILN_TELEPORT_USES; u++) {
            const struct kiln_estimate near = found->near[p][u];
            const double sure = least(near);
            const int level = isnan(sure) ? LEVELS : kiln_teleport_level(sure);
            if (isnan(near.value) || (level == LEVELS && (p > 0 || u > 0)))
                continue;
            out[count++] = (struct candidate){found, kiln_teleport_donors[p], kiln_teleport_uses[u],
                                              fmin(fmax(isnan(sure) ? 0 : sure, 0), 1.99), level};
        }
    return count;
}

/* Of rows that cover each other the first stays. */
static bool is_covered(const struct candidate *all, size_t count, size_t at)
{
    for (size_t i = 0; i < count; i++)
        if (i != at && covers(&all[i], &all[at]) && (!covers(&all[at], &all[i]) || i < at))
            return true;
    return false;
}

/* Rounded so that the row says no more than was measured. */
static double rounded(double value, bool up, int digits)
{
    const double unit = pow(10, digits);
    return (up ? ceil(value * unit - 1e-9) : floor(value * unit + 1e-9)) / unit;
}

static void size_text(struct kiln_picture_size size, char out[24])
{
    snprintf(out, 24, "%ux%u", size.width, size.height);
}

/* Points lost, of one in `count`. */
static double loss_of(struct kiln_estimate difference, double count)
{
    return rounded(kiln_figure_share_error(difference, count) - 100 * difference.value, true, 2);
}

static bool same_kind(const struct kiln_teleport_finding *a, const struct kiln_teleport_finding *b)
{
    return a->class == b->class && a->depth == b->depth && a->size.width == b->size.width &&
           a->size.height == b->size.height;
}

/* Makes of a finding the worst of it and one of another number format: what loses the most, leaves
 * the least variety, and the widest bounds. */
static void worsen(struct kiln_teleport_finding *to, const struct kiln_teleport_finding *other)
{
    if (loss_of(other->attributes, other->asked) > loss_of(to->attributes, to->asked)) {
        to->attributes = other->attributes;
        to->asked = other->asked;
    }
    if (loss_of(other->whole, other->pictures) > loss_of(to->whole, to->pictures)) {
        to->whole = other->whole;
        to->pictures = other->pictures;
    }
    for (int p = 0; p < KILN_TELEPORT_POOLS; p++)
        for (int u = 0; u < KILN_TELEPORT_USES; u++)
            if (!isnan(least(to->near[p][u])) &&
                !(least(other->near[p][u]) >= least(to->near[p][u])))
                to->near[p][u] = other->near[p][u];
    const bool both = to->change[1] > 0 && other->change[1] > 0;
    to->change[0] = both ? fmin(to->change[0], other->change[0]) : NAN;
    to->change[1] = both ? fmax(to->change[1], other->change[1]) : NAN;
}

static json_t *row_json(const struct candidate *row)
{
    char size[24];
    size_text(row->found->size, size);
    const double *change = row->found->change;
    json_t *ret = json_pack(
        "{s:s, s:I, s:I, s:I, s:f, s:[f, f], s:[s]}", "class",
        kiln_reuse_class_name(row->found->class), "depth", (json_int_t)row->found->depth, "donors",
        (json_int_t)row->donors, "uses", (json_int_t)row->uses, "variety",
        rounded(row->variety, false, 3), "loss", loss_of(row->found->attributes, row->found->asked),
        loss_of(row->found->whole, row->found->pictures), "for", size);
    if (ret && change[1] > 0)
        json_object_set_new(
            ret, "change",
            json_pack("[f, f]", rounded(change[0], false, 4), rounded(change[1], true, 4)));
    return ret;
}

static json_t *why_not(const struct kiln_teleport_finding *found, const char *why)
{
    char size[24];
    size_text(found->size, size);
    return json_sprintf("%s, skip %u at %s, %s: %s", kiln_reuse_class_name(found->class),
                        found->depth, size, found->dtype, why);
}

/* Whether finding `at`, the first of its kind, holds in every number format; *ret: the worst of
 * them.  Appends to the list where it does not. */
static bool holds_in_all(const struct kiln_teleport_finding *found, size_t count, size_t at,
                         struct kiln_teleport_finding *ret, json_t *not_offered)
{
    char why[KILN_FIGURE_WHY];
    bool all = true;
    *ret = found[at];
    for (size_t i = at; i < count; i++) {
        if (!same_kind(&found[i], &found[at]))
            continue;
        if (!kiln_teleport_holds(&found[i], why)) {
            all = false;
            json_array_append_new(not_offered, why_not(&found[i], why));
        } else if (i > at) {
            worsen(ret, &found[i]);
        }
    }
    return all;
}

static bool is_first(const struct kiln_teleport_finding *found, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (same_kind(&found[i], &found[at]))
            return false;
    return true;
}

int kiln_teleport_rows(const struct kiln_teleport_finding *found, size_t count, json_t **ret_rows,
                       json_t **ret_not_offered, struct kiln_error *err)
{
    json_t *rows = json_array(), *not_offered = json_array();
    struct candidate *all =
        calloc(count * KILN_TELEPORT_POOLS * KILN_TELEPORT_USES + 1, sizeof *all);
    struct kiln_teleport_finding *worst = calloc(count + 1, sizeof *worst);
    size_t all_count = 0;
    bool good = rows && not_offered && all && worst;
    for (size_t i = 0; i < count && good; i++) {
        if (!is_first(found, i) || !holds_in_all(found, count, i, &worst[i], not_offered))
            continue;
        const size_t more = add_candidates(&worst[i], all + all_count);
        if (more == 0)
            good = json_array_append_new(not_offered,
                                         why_not(&found[i], "variety: not measured")) == 0;
        all_count += more;
    }
    for (size_t i = 0; i < all_count && good; i++)
        if (!is_covered(all, all_count, i))
            good = json_array_append_new(rows, row_json(&all[i])) == 0;
    free(all);
    free(worst);
    int code = 0;
    if (!good)
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory for the results");
    else if (json_array_size(rows) > KILN_CARD_REUSE_ROWS)
        code = kiln_fail(err, KILN_FULL,
                         "%zu rows would be offered, and " KILN_MODEL_CARD
                         " has room for %d; measure fewer sizes at once",
                         json_array_size(rows), KILN_CARD_REUSE_ROWS);
    if (code) {
        json_decref(rows);
        json_decref(not_offered);
        return code;
    }
    *ret_rows = rows;
    *ret_not_offered = not_offered;
    return 0;
}
