/* embedded.h - files that are built into the programs (scripts/embed.sh makes the C from them). */
#ifndef KILN_EMBEDDED_H
#define KILN_EMBEDDED_H

#include <stddef.h>

struct kiln_embedded {
    const char *name; /* base name; NULL ends the array */
    const char *text; /* the bytes, followed by a NUL that size does not count */
    size_t size;
};

extern const struct kiln_embedded kiln_embedded_sql[];    /* schemas/sql, in version order */
extern const struct kiln_embedded kiln_embedded_roles[];  /* schemas/roles.sql */
extern const struct kiln_embedded kiln_embedded_styles[]; /* schemas/styles.json */
extern const struct kiln_embedded kiln_embedded_reuse[];  /* schemas/reuse/words.txt */
extern const struct kiln_embedded kiln_embedded_job[];    /* schemas/job.schema.json */
extern const struct kiln_embedded kiln_embedded_page[];   /* of scheduler/gallery/parts */
extern const struct kiln_embedded kiln_embedded_sheet[];  /* worker/bench/coarse/page */
extern const struct kiln_embedded kiln_embedded_lexicon[]; /* of scheduler/router: two lists */
extern const struct kiln_embedded
    kiln_embedded_gallery[]; /* of scheduler/gallery/safety; openapi.json */

#endif
