/* labels.h - the words of the judge: what it can detect in a picture, and what it found.
 *
 * labels.json beside its weights lists the names in the order of the network's outputs, so that a
 * judge trained on more shapes or styles needs no new code.  All other code uses positions in these
 * lists.
 */
#ifndef KILN_JUDGE_LABELS_H
#define KILN_JUDGE_LABELS_H

#include "schemas/error.h"

#define KILN_LABELS_MAX 32
#define KILN_LABEL_MAX 24
#define KILN_JUDGE_LAYERS_MAX 16
#define KILN_SEEN_THINGS_MAX 6

struct kiln_label_list {
    int count;
    char names[KILN_LABELS_MAX][KILN_LABEL_MAX];
};

struct kiln_judge_labels {
    struct kiln_label_list shapes, colours, sizes, backgrounds, styles;
    double heat; /* a peak of the heat map above this is an object */
    double zone_low,
        zone_high;       /* left or top is below the first, right or bottom above the second */
    double relation_gap; /* least distance of "left of" and "above", as a share of a side */
    /* The network: see judge.h. */
    int side, hidden, stem_count, body_count;
    int stem_channels[KILN_JUDGE_LAYERS_MAX], stem_strides[KILN_JUDGE_LAYERS_MAX];
    int body_dilations[KILN_JUDGE_LAYERS_MAX];
};

/* What the judge found in one picture; objects by falling score. */
struct kiln_seen_thing {
    double score, x, y; /* the centre as a share of width and height */
    int shape, colour, size;
};
struct kiln_seen {
    int count;
    struct kiln_seen_thing things[KILN_SEEN_THINGS_MAX];
    int background, first, second; /* first and second: colours of the background */
    int style, style_next;         /* the likeliest, and the one after it */
};

/* Reads dir/labels.json.  KILN_NOT_FOUND without it, KILN_BAD_INPUT naming the key. */
int kiln_judge_labels_read(const char *dir, struct kiln_judge_labels *ret,
                           struct kiln_error *err) KILN_MUST_CHECK;

/* The position of a name, or -1. */
int kiln_label_find(const struct kiln_label_list *list, const char *name);

#endif
