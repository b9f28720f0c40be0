/* treap.h - an ordered set of slots: a treap inside arrays that the caller owns.
 *
 * Things that are ordered live in slabs; slot i of the slab has node i here, so one thing can be
 * in several orders through several node arrays and no order ever allocates.  The order is by
 * (hi, lo, slot).  Every operation is O(log n) expected; priorities are a hash of the slot
 * number, so runs repeat exactly.
 */
#ifndef KILN_TREAP_H
#define KILN_TREAP_H

#include <stdbool.h>
#include <stdint.h>

#define KILN_NONE UINT32_MAX /* no slot; also the root of an empty order */

struct kiln_treap_node {
    int64_t hi, lo;       /* the key; fixed while the slot is in the order */
    uint32_t left, right; /* roots of the smaller and larger parts */
    uint32_t count;       /* slots in this part, itself included */
};

/* nodes[slot].hi and .lo are set by the caller; the slot is in no order of these nodes. */
void kiln_treap_insert(struct kiln_treap_node *nodes, uint32_t *root, uint32_t slot);
/* The slot is in this order. */
void kiln_treap_remove(struct kiln_treap_node *nodes, uint32_t *root, uint32_t slot);

/* The first slot, or KILN_NONE. */
uint32_t kiln_treap_first(const struct kiln_treap_node *nodes, uint32_t root);
/* The slot after this one, or KILN_NONE. */
uint32_t kiln_treap_next(const struct kiln_treap_node *nodes, uint32_t root, uint32_t slot);
/* The first slot whose hi is greater than this, or KILN_NONE. */
uint32_t kiln_treap_after(const struct kiln_treap_node *nodes, uint32_t root, int64_t hi);
/* How many slots come before this one, which is in the order. */
uint32_t kiln_treap_rank(const struct kiln_treap_node *nodes, uint32_t root, uint32_t slot);
uint32_t kiln_treap_count(const struct kiln_treap_node *nodes, uint32_t root);

#endif
