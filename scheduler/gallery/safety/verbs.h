/* verbs.h - what `kiln gallery` does about levels of safety on the command line. */
#ifndef KILN_GALLERY_SAFETY_VERBS_H
#define KILN_GALLERY_SAFETY_VERBS_H

#include "scheduler/cli/core/cli.h"

/* review: lists what waits for a person, records what one says, shows the history of a picture. */
kiln_verb_function kiln_gallery_review_verb; /* review_verb.c */
/* classify: a classifier looks at the pictures that it has not seen. */
kiln_verb_function kiln_gallery_classify_verb; /* classify_verb.c */

#endif
