/* score.c - pairs asked objects with seen ones, and counts; see score.h.
 *
 * With at most six objects on either side every pairing is tried.  Among equally good pairings the
 * first one counts.  Their order is that of Python's itertools.permutations over the seen objects
 * and "nothing", cut to six, so that both implementations report the same table.
 */
#include "pipeline/bench/score.h"

#include <math.h>
#include <string.h>

#define SLOTS_MAX 6

const char *const kiln_attribute_names[KILN_ATTRIBUTES] = {
    [KILN_SHAPE] = "shape",       [KILN_COLOUR] = "colour",     [KILN_SIZE] = "size",
    [KILN_POSITION] = "position", [KILN_RELATION] = "relation", [KILN_BACKGROUND] = "background",
    [KILN_COUNT] = "count",
};

const struct kiln_label_list kiln_zones = {
    9,
    {"top left", "top", "top right", "left", "centre", "right", "bottom left", "bottom",
     "bottom right"},
};

/* A search in progress: the seen object for each asked one so far. */
struct pairing {
    const struct kiln_judge_labels *labels;
    const struct kiln_asked *asked;
    const struct kiln_seen_thing *slots[SLOTS_MAX]; /* NULL: nothing */
    int slot_count;
    bool taken[SLOTS_MAX];
    const struct kiln_seen_thing *found[KILN_ASKED_THINGS_MAX];
    struct kiln_score best;
    int best_right;
};

static void note(struct kiln_score *score, enum kiln_attribute attribute, bool right)
{
    score->right[attribute] += right;
    score->asked[attribute]++;
}

static int zone_of(const struct kiln_judge_labels *labels, const struct kiln_seen_thing *thing)
{
    int col = thing->x < labels->zone_low ? 0 : thing->x > labels->zone_high ? 2 : 1;
    int row = thing->y < labels->zone_low ? 0 : thing->y > labels->zone_high ? 2 : 1;
    return row * 3 + col;
}

static void score_thing(const struct pairing *p, int i, struct kiln_score *score)
{
    const struct kiln_seen_thing *got = p->found[i];
    int shape = p->asked->things[i].shape, colour = p->asked->things[i].colour;
    int size = p->asked->things[i].size, zone = p->asked->things[i].zone;
    if (shape != KILN_NOT_ASKED)
        note(score, KILN_SHAPE, got && got->shape == shape);
    if (colour != KILN_NOT_ASKED)
        note(score, KILN_COLOUR, got && got->colour == colour);
    if (size != KILN_NOT_ASKED)
        note(score, KILN_SIZE, got && got->size == size);
    if (zone != KILN_NOT_ASKED)
        note(score, KILN_POSITION, got && zone_of(p->labels, got) == zone);
}

/* Scores a complete pairing; keeps it if it beats all earlier ones. */
static void score_pairing(struct pairing *p)
{
    struct kiln_score score = {0};
    int right = 0;
    for (int i = 0; i < p->asked->thing_count; i++)
        score_thing(p, i, &score);
    for (int i = 0; i < p->asked->relation_count; i++) {
        const struct kiln_seen_thing *a = p->found[p->asked->relations[i].a];
        const struct kiln_seen_thing *b = p->found[p->asked->relations[i].b];
        bool above = p->asked->relations[i].above;
        double gap = a && b ? (above ? b->y - a->y : b->x - a->x) : 0;
        note(&score, KILN_RELATION, a && b && gap > p->labels->relation_gap);
    }
    for (int i = 0; i < KILN_ATTRIBUTES; i++)
        right += score.right[i];
    if (right > p->best_right) {
        p->best_right = right;
        p->best = score;
    }
}

static void pair_from(struct pairing *p, int i)
{
    if (i == p->asked->thing_count) {
        score_pairing(p);
        return;
    }
    for (int k = 0; k < p->slot_count; k++) {
        if (p->taken[k])
            continue;
        p->taken[k] = true;
        p->found[i] = p->slots[k];
        pair_from(p, i + 1);
        p->taken[k] = false;
    }
}

/* A plain background has one colour, stripes and checks have two, sceneries none. */
static bool background_right(const struct kiln_asked *asked, const struct kiln_seen *seen)
{
    if (seen->background != asked->background)
        return false;
    if (asked->second != KILN_NOT_ASKED)
        return (seen->first == asked->first && seen->second == asked->second) ||
               (seen->first == asked->second && seen->second == asked->first);
    return asked->first == KILN_NOT_ASKED || seen->first == asked->first;
}

void kiln_judge_score(const struct kiln_judge_labels *labels, const struct kiln_asked *asked,
                      const struct kiln_seen *seen, struct kiln_score *ret)
{
    struct pairing p = {.labels = labels, .asked = asked, .best_right = -1};
    int slots = seen->count + asked->thing_count;
    p.slot_count = slots < SLOTS_MAX ? slots : SLOTS_MAX;
    for (int i = 0; i < p.slot_count && i < seen->count; i++)
        p.slots[i] = &seen->things[i];
    pair_from(&p, 0);
    if (asked->count)
        note(&p.best, KILN_COUNT, seen->count == asked->thing_count);
    if (asked->background != KILN_NOT_ASKED)
        note(&p.best, KILN_BACKGROUND, background_right(asked, seen));
    *ret = p.best;
}

bool kiln_score_whole(const struct kiln_score *score)
{
    return memcmp(score->right, score->asked, sizeof score->right) == 0;
}

void kiln_tally_add(struct kiln_tally *tally, const struct kiln_score *score)
{
    tally->pictures++;
    tally->whole += kiln_score_whole(score);
    for (int i = 0; i < KILN_ATTRIBUTES; i++) {
        tally->right[i] += score->right[i];
        tally->asked[i] += score->asked[i];
    }
}

double kiln_tally_rate(const struct kiln_tally *tally)
{
    int64_t right = 0, asked = 0;
    for (int i = 0; i < KILN_ATTRIBUTES; i++) {
        right += tally->right[i];
        asked += tally->asked[i];
    }
    return asked ? (double)right / (double)asked : NAN;
}
