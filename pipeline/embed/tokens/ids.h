/* ids.h - a growing list of token ids. */
#ifndef KILN_EMBED_IDS_H
#define KILN_EMBED_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Zero-initialise; the caller frees `at`.  `failed` is set when memory is short, and is checked
 * once at the end. */
struct kiln_ids {
    int32_t *at;
    size_t count, room;
    bool failed;
};

static inline void kiln_ids_add(struct kiln_ids *ids, int32_t id)
{
    if (ids->count == ids->room) {
        const size_t room = ids->room ? 2 * ids->room : 64;
        int32_t *grown = realloc(ids->at, room * sizeof *grown);
        if (!grown) {
            ids->failed = true;
            return;
        }
        ids->at = grown;
        ids->room = room;
    }
    ids->at[ids->count++] = id;
}

#endif
