/* steps_list.h - the steps themselves.  Private to steps.c and steps_read.c. */
#ifndef KILN_EMBED_STEPS_LIST_H
#define KILN_EMBED_STEPS_LIST_H

#include "pipeline/embed/tokens/charsmap.h"
#include "pipeline/embed/tokens/steps.h"

#define KILN_EMBED_PATTERN_MAX 64 /* bytes of a pattern and of what replaces it */

enum kiln_normaliser_type {
    KILN_NORMALISER_BERT,
    KILN_NORMALISER_CHARSMAP,
    KILN_NORMALISER_LOWERCASE,
    KILN_NORMALISER_REPLACE,    /* a literal text */
    KILN_NORMALISER_SPACES,     /* the regular expression \s+ */
    KILN_NORMALISER_TWO_SPACES, /* the regular expression " {2,}" */
    KILN_NORMALISER_STRIP
};

struct kiln_normaliser {
    enum kiln_normaliser_type type;
    bool clean, ideographs, strip_accents, lowercase; /* BERT */
    bool left, right;                                 /* STRIP */
    struct kiln_charsmap *map;                        /* CHARSMAP, owned */
    char pattern[KILN_EMBED_PATTERN_MAX], content[KILN_EMBED_PATTERN_MAX];
    size_t pattern_len, content_len;
};

enum kiln_splitter_type { KILN_SPLITTER_BERT, KILN_SPLITTER_SPACES, KILN_SPLITTER_METASPACE };

struct kiln_splitter {
    enum kiln_splitter_type type;
    bool prepend, split; /* METASPACE */
};

struct kiln_steps {
    struct kiln_normaliser normalisers[KILN_EMBED_STEPS_MAX];
    struct kiln_splitter splitters[KILN_EMBED_STEPS_MAX];
    size_t normaliser_count, splitter_count;
};

#endif
