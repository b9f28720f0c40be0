/* treap.c - the treap: a search tree by key that is at the same time a heap by a hash.
 *
 * Equal hashes may fall either way; only the expected depth depends on them, never the order.
 */
#include "scheduler/policy/treap.h"

/* Mixes the slot number (the finaliser of MurmurHash3): the heap order of the treap. */
static uint32_t weight(uint32_t slot)
{
    uint32_t h = slot + 0x9e3779b9u;
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    return h ^ (h >> 16);
}

static bool before(const struct kiln_treap_node *nodes, uint32_t a, uint32_t b)
{
    if (nodes[a].hi != nodes[b].hi)
        return nodes[a].hi < nodes[b].hi;
    if (nodes[a].lo != nodes[b].lo)
        return nodes[a].lo < nodes[b].lo;
    return a < b;
}

uint32_t kiln_treap_count(const struct kiln_treap_node *nodes, uint32_t root)
{
    return root == KILN_NONE ? 0 : nodes[root].count;
}

static void recount(struct kiln_treap_node *nodes, uint32_t root)
{
    nodes[root].count =
        1 + kiln_treap_count(nodes, nodes[root].left) + kiln_treap_count(nodes, nodes[root].right);
}

/* Parts the tree into what comes before the slot and what comes after it. */
static void split(struct kiln_treap_node *nodes, uint32_t root, uint32_t slot, uint32_t *ret_low,
                  uint32_t *ret_high)
{
    if (root == KILN_NONE) {
        *ret_low = *ret_high = KILN_NONE;
        return;
    }
    if (before(nodes, root, slot)) {
        *ret_low = root;
        split(nodes, nodes[root].right, slot, &nodes[root].right, ret_high);
    } else {
        *ret_high = root;
        split(nodes, nodes[root].left, slot, ret_low, &nodes[root].left);
    }
    recount(nodes, root);
}

/* Joins two trees; all of low comes before all of high. */
static uint32_t join(struct kiln_treap_node *nodes, uint32_t low, uint32_t high)
{
    if (low == KILN_NONE)
        return high;
    if (high == KILN_NONE)
        return low;
    if (weight(low) > weight(high)) {
        nodes[low].right = join(nodes, nodes[low].right, high);
        recount(nodes, low);
        return low;
    }
    nodes[high].left = join(nodes, low, nodes[high].left);
    recount(nodes, high);
    return high;
}

void kiln_treap_insert(struct kiln_treap_node *nodes, uint32_t *root, uint32_t slot)
{
    uint32_t *link = root;
    while (*link != KILN_NONE && weight(*link) >= weight(slot)) {
        struct kiln_treap_node *node = &nodes[*link];
        node->count++;
        link = before(nodes, slot, *link) ? &node->left : &node->right;
    }
    split(nodes, *link, slot, &nodes[slot].left, &nodes[slot].right);
    recount(nodes, slot);
    *link = slot;
}

void kiln_treap_remove(struct kiln_treap_node *nodes, uint32_t *root, uint32_t slot)
{
    uint32_t *link = root;
    while (*link != slot) {
        struct kiln_treap_node *node = &nodes[*link];
        node->count--;
        link = before(nodes, slot, *link) ? &node->left : &node->right;
    }
    *link = join(nodes, nodes[slot].left, nodes[slot].right);
}

uint32_t kiln_treap_first(const struct kiln_treap_node *nodes, uint32_t root)
{
    if (root == KILN_NONE)
        return KILN_NONE;
    while (nodes[root].left != KILN_NONE)
        root = nodes[root].left;
    return root;
}

uint32_t kiln_treap_next(const struct kiln_treap_node *nodes, uint32_t root, uint32_t slot)
{
    uint32_t after = KILN_NONE;
    while (root != KILN_NONE) {
        if (before(nodes, slot, root)) {
            after = root;
            root = nodes[root].left;
        } else {
            root = nodes[root].right;
        }
    }
    return after;
}

uint32_t kiln_treap_after(const struct kiln_treap_node *nodes, uint32_t root, int64_t hi)
{
    uint32_t after = KILN_NONE;
    while (root != KILN_NONE) {
        if (nodes[root].hi > hi)
            after = root;
        root = nodes[root].hi > hi ? nodes[root].left : nodes[root].right;
    }
    return after;
}

uint32_t kiln_treap_rank(const struct kiln_treap_node *nodes, uint32_t root, uint32_t slot)
{
    uint32_t rank = 0;
    while (root != slot) {
        if (before(nodes, slot, root)) {
            root = nodes[root].left;
        } else {
            rank += kiln_treap_count(nodes, nodes[root].left) + 1;
            root = nodes[root].right;
        }
    }
    return rank + kiln_treap_count(nodes, nodes[slot].left);
}
