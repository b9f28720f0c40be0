/* gallery.h - pictures in the ledger for tests of the gallery, made by SQL. */
#ifndef KILN_TEST_GALLERY_H
#define KILN_TEST_GALLERY_H

#include <stdint.h>

#include "tests/support/stack.h"

/* A done job with a picture and its three objects, in pool "p" and batch "b"; NULL and 0 stand for
 * the usual.  Returns the job. */
struct kiln_test_shown {
    const char *prompt, *pool, *batch, *tenant, *model, *lora, *style, *mode, *custom_id;
    const char *level;      /* SQL: "NULL", "2" */
    const char *created;    /* SQL: "now() - interval '2 days'" */
    const char *objects;    /* SQL: "'full','512'"; NULL: all three */
    unsigned width, height; /* 256 x 256 */
    unsigned long long seed;
};
uint64_t kiln_test_shown(struct kiln_test_stack *stack, const struct kiln_test_shown *picture);

/* 60,000 pictures of tenant "eve" in batch "many", ten seconds apart: "thing", every third "round",
 * every hundredth "odd", every 20,000th "rare". */
#define KILN_TEST_MANY 60000
void kiln_test_many_shown(struct kiln_test_stack *stack);

#endif
