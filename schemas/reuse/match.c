/* match.c - the things of one prompt paired with those of another: every pairing is tried, of at
 * most KILN_THINGS_MAX things. */
#include <string.h>

#include "schemas/reuse/reading.h"

static bool both(const struct kiln_token *a, const struct kiln_token *b)
{
    return a && b ? kiln_token_equal(a, b) : a == b;
}

static unsigned count_class(const struct kiln_thing *thing, int class)
{
    unsigned count = 0;
    for (int i = 0; i < thing->said_count; i++)
        count += thing->said[i]->class == class;
    return count;
}

/* All that is said of the target's thing is said of the donor's.  The donor may add a colour or a
 * size only where the target's thing has none, and nothing to what may be a name or
 * is in no list: a hot dog is no dog. */
static bool said_serves(const struct kiln_thing *target, const struct kiln_thing *donor, bool *more)
{
    bool used[KILN_THING_WORDS_MAX] = {false};
    for (int i = 0; i < target->said_count; i++) {
        int d = 0;
        while (d < donor->said_count &&
               (used[d] || !kiln_token_serves(donor->said[d], target->said[i], more)))
            d++;
        if (d == donor->said_count)
            return false;
        used[d] = true;
    }
    unsigned colours = count_class(target, KILN_SENSE_COLOUR);
    unsigned sizes = count_class(target, KILN_SENSE_SIZE);
    if (count_class(donor, KILN_SENSE_COLOUR) != colours &&
        (colours || count_class(donor, KILN_SENSE_COLOUR) > 1))
        return false;
    if (count_class(donor, KILN_SENSE_SIZE) != sizes &&
        (sizes || count_class(donor, KILN_SENSE_SIZE) > 1))
        return false;
    /* Two colours of one thing: which shade is whose is not known. */
    if (colours > 1 && (donor->said_count != target->said_count))
        return false;
    if (count_class(donor, KILN_SENSE_MATERIAL) != count_class(target, KILN_SENSE_MATERIAL))
        return false;
    if (donor->said_count == target->said_count)
        return true;
    if (!kiln_known_noun(donor->noun))
        return false;
    /* A shade makes a colour more exact; a light house is not light in colour. */
    if (count_class(donor, KILN_SENSE_SHADE) != count_class(target, KILN_SENSE_SHADE) &&
        !count_class(donor, KILN_SENSE_COLOUR))
        return false;
    for (int d = 0; d < donor->said_count; d++)
        if (donor->said[d]->capital || donor->noun->capital) /* may be a name: "Yellow River" */
            return false;
    return *more = true;
}

static bool thing_serves(const struct kiln_thing *target, const struct kiln_thing *donor,
                         bool *more)
{
    if (!both(target->number, donor->number) || !kiln_token_serves(donor->noun, target->noun, more))
        return false;
    if (target->zone && !both(target->zone, donor->zone))
        return false;
    *more = *more || (!target->zone && donor->zone);
    return said_serves(target, donor, more);
}

static bool has_relation(const struct kiln_facts *facts, int a, const char *kind, int b)
{
    for (int i = 0; i < facts->relation_count; i++)
        if (facts->relations[i].a == a && facts->relations[i].b == b &&
            strcmp(facts->relations[i].kind, kind) == 0)
            return true;
    return false;
}

/* order[i]: the donor's thing for the target's i-th. */
static bool relations_agree(const struct kiln_facts *target, const struct kiln_facts *donor,
                            const int *order)
{
    for (int i = 0; i < target->relation_count; i++) {
        const struct kiln_thing_relation *said = &target->relations[i];
        if (!has_relation(donor, order[said->a], said->kind, order[said->b]))
            return false;
    }
    return true;
}

static bool pair_from(const struct kiln_facts *target, const struct kiln_facts *donor, int i,
                      unsigned used, int *order, bool *more)
{
    if (i == target->thing_count)
        return relations_agree(target, donor, order);
    for (int d = 0; d < donor->thing_count; d++) {
        bool says_more = *more;
        if (used & 1u << d || !thing_serves(&target->things[i], &donor->things[d], &says_more))
            continue;
        order[i] = d;
        if (pair_from(target, donor, i + 1, used | 1u << d, order, &says_more)) {
            *more = says_more;
            return true;
        }
    }
    return false;
}

/* "beach" and "on the beach" are one background. */
static bool same_ground(const struct kiln_token *a, const struct kiln_token *b)
{
    if (a->class != KILN_SENSE_SETTING || b->class != KILN_SENSE_SETTING)
        return kiln_token_equal(a, b);
    return (a->sense->wider ? a->sense->wider : a->sense->meaning) ==
           (b->sense->wider ? b->sense->wider : b->sense->meaning);
}

bool kiln_things_match(const struct kiln_facts *target, const struct kiln_facts *donor,
                       bool *ret_more)
{
    int order[KILN_THINGS_MAX] = {0};
    bool more = false;
    if (target->thing_count != donor->thing_count ||
        target->relation_count != donor->relation_count ||
        target->ground_count != donor->ground_count) /* silence may mean plain white */
        return false;
    for (int i = 0; i < target->ground_count; i++)
        if (!same_ground(target->ground[i], donor->ground[i]))
            return false;
    if (!pair_from(target, donor, 0, 0, order, &more))
        return false;
    *ret_more = more;
    return true;
}
