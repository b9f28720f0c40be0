/* score.h - compares what a prompt asks for with what the judge found.
 *
 * A prompt asks for objects (shape, colour, size, place), for relations between them, for their
 * number and for a background, but only for what its words state.  Each stated attribute is right
 * or wrong under the pairing of asked and seen objects that makes the most of them right.
 * scripts/train/judge_net.py has the same arithmetic in Python.
 */
#ifndef KILN_JUDGE_SCORE_H
#define KILN_JUDGE_SCORE_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/bench/labels.h"

#define KILN_ASKED_THINGS_MAX 6
#define KILN_ASKED_RELATIONS_MAX 16
#define KILN_NOT_ASKED (-1)

enum kiln_attribute {
    KILN_SHAPE,
    KILN_COLOUR,
    KILN_SIZE,
    KILN_POSITION,
    KILN_RELATION,
    KILN_BACKGROUND,
    KILN_COUNT,
    KILN_ATTRIBUTES
};
extern const char *const kiln_attribute_names[KILN_ATTRIBUTES]; /* "shape", ... */

/* Nine places: row * 3 + column, "top left" first. */
extern const struct kiln_label_list kiln_zones;

/* Positions in the lists of the labels, or KILN_NOT_ASKED. */
struct kiln_asked {
    int thing_count, relation_count;
    struct {
        int shape, colour, size, zone;
    } things[KILN_ASKED_THINGS_MAX];
    struct {
        int a, b; /* positions in things: a is left of b, or above it */
        bool above;
    } relations[KILN_ASKED_RELATIONS_MAX];
    int background, first, second; /* second: of stripes and checks; their order says nothing */
    bool count;                    /* the number of objects is asked for as well */
};

struct kiln_score {
    int right[KILN_ATTRIBUTES], asked[KILN_ATTRIBUTES];
};

void kiln_judge_score(const struct kiln_judge_labels *labels, const struct kiln_asked *asked,
                      const struct kiln_seen *seen, struct kiln_score *ret);

/* Whether every stated attribute is right. */
bool kiln_score_whole(const struct kiln_score *score);

/* The sum over many pictures. */
struct kiln_tally {
    int64_t pictures, whole;
    int64_t right[KILN_ATTRIBUTES], asked[KILN_ATTRIBUTES];
};
void kiln_tally_add(struct kiln_tally *tally, const struct kiln_score *score);
double kiln_tally_rate(const struct kiln_tally *tally); /* of all attributes, 0..1; NaN of none */

#endif
