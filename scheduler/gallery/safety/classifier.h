/* classifier.h - what an image classifier says of a picture, as a level of safety.
 *
 * A checkpoint has labels ("normal", "nsfw"); each stands for a level, by its name or by the
 * setting gallery_classifier_levels.  The share of a level is the sum of its labels and of those of
 * higher levels.  The level of a picture is the highest whose share reaches the setting
 * gallery_classifier_certain; if none does, but what is marked in all is not certainly absent
 * either, "unsure"; else "clear", which means that this classifier found nothing.
 *
 * Classifiers err in both directions, on drawings and rendered pictures above all; Kiln ships none
 * and says nothing of how often one is right.
 */
#ifndef KILN_GALLERY_CLASSIFIER_H
#define KILN_GALLERY_CLASSIFIER_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/config/config.h"
#include "schemas/error.h"
#include "storage/ledger/gallery/gallery.h"

struct kiln_safety_classifier;

struct kiln_classified {
    int level;    /* enum kiln_safety_level */
    double score; /* 0 .. 1: the share of all labels above "clear" */
};

/* Opens the checkpoint of the setting gallery_classifier; library as in kiln_classifier_open.
 * KILN_CONFIG: no checkpoint is set, or a label stands for no level; it is named. */
int kiln_safety_classifier_open(const struct kiln_config *config, const char *library,
                                struct kiln_safety_classifier **ret,
                                struct kiln_error *err) KILN_MUST_CHECK;
void kiln_safety_classifier_close(struct kiln_safety_classifier *c); /* accepts NULL */

/* "model:NAME:DIGITS": the directory's name, and a hash of the checkpoint and of the settings that
 * decide on levels, so that a picture is looked at again after a change of either.  Borrowed. */
const char *kiln_safety_classifier_source(const struct kiln_safety_classifier *c);

/* file: a WebP, as Kiln stores pictures. */
int kiln_safety_classify(struct kiln_safety_classifier *c, const void *file, size_t size,
                         struct kiln_classified *ret, struct kiln_error *err) KILN_MUST_CHECK;

/* The level of each label.  setting: "label=level, label=level", for labels that have none by name,
 * or another one.  KILN_CONFIG names the label. */
int kiln_safety_levels_of(const char *const *label, int labels, const char *setting, int *level,
                          struct kiln_error *err) KILN_MUST_CHECK;

/* What shares [labels] of labels with these levels say. */
struct kiln_classified kiln_safety_decide(const double *share, const int *level, int labels,
                                          double certain);

#endif
