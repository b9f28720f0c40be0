/* kind.h - what each kind of embedder provides.  Private to pipeline/embed. */
#ifndef KILN_EMBED_KIND_H
#define KILN_EMBED_KIND_H

#include "pipeline/embed/embedder.h"

struct kiln_embed_layout;

/* The first member of the struct of each kind. */
struct kiln_embedder {
    const struct kiln_embed_kind *kind;
    struct kiln_embed_info info;
};

struct kiln_embed_kind {
    /* Rows of texts that are valid UTF-8 and within the bounds, prefixes included; embedder.c
     * normalises them and checks that they are finite.  A row of zeros: no evidence. */
    int (*embed)(const struct kiln_embedder *e, enum kiln_embed_use use,
                 const struct kiln_embed_text *texts, size_t n, float *rows,
                 struct kiln_error *err);
    void (*close)(struct kiln_embedder *e);
    /* The row of one text, as embed gives it, and features of its tokens (embedder.h); NULL: there
     * are none. */
    int (*tokens)(const struct kiln_embedder *e, enum kiln_embed_use use,
                  const struct kiln_embed_text *text, float *row, float *features,
                  size_t features_max, size_t *ret_count, struct kiln_error *err);
};

int kiln_static_open(const struct kiln_embed_layout *layout, struct kiln_embedder **ret,
                     struct kiln_error *err) KILN_MUST_CHECK;
int kiln_bert_open(const struct kiln_embed_layout *layout, struct kiln_embedder **ret,
                   struct kiln_error *err) KILN_MUST_CHECK;

#endif
