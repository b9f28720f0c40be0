/* gc_look.c - lists the store and writes what no row claims into the manifest.
 *
 * Only the prefixes that Kiln writes are listed, and only keys of its own form are judged: a bucket
 * may hold other things.  The ledger is asked about a page of keys at a time.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/upkeep/gc.h"
#include "schemas/clock.h"

#define PAGE 1000

struct look {
    struct kiln_gc *gc;
    struct kiln_error err; /* the walk hands on codes alone */
    int64_t newest_s;      /* what changed later is too young */
    size_t count;
    struct kiln_found found[PAGE];
    uint64_t bytes[PAGE];
    char keys[PAGE][KILN_OBJECT_KEY_MAX + 1];
};

static int write_orphan(struct look *look, size_t i, enum kiln_claim claim)
{
    struct kiln_gc *gc = look->gc;
    gc->orphans++;
    gc->orphan_bytes += look->bytes[i];
    gc->unknown += claim == KILN_CLAIM_UNKNOWN;
    if (fprintf(gc->manifest, "%" PRIu64 " %" PRIu64 " %s\n", look->found[i].job, look->bytes[i],
                look->keys[i]) < 0)
        return kiln_fail(&look->err, errno == ENOSPC ? KILN_FULL : KILN_IO,
                         "write the manifest of orphans: %s", strerror(errno));
    return 0;
}

/* Asks the ledger about the page in hand. */
static int judge_page(struct look *look)
{
    struct kiln_gc *gc = look->gc;
    enum kiln_claim claims[PAGE];
    if (look->count == 0)
        return 0;
    int rc = kiln_ledger_claims(gc->ledger, look->found, look->count, claims, &look->err);
    for (size_t i = 0; i < look->count && rc == 0; i++) {
        gc->named += claims[i] == KILN_CLAIM_ROW;
        gc->live += claims[i] == KILN_CLAIM_LIVE;
        if (claims[i] == KILN_CLAIM_NONE || claims[i] == KILN_CLAIM_UNKNOWN)
            rc = write_orphan(look, i, claims[i]);
    }
    look->count = 0;
    kiln_bar_draw(&gc->bar, 0, gc->listed, 0, 0, kiln_now_s());
    return rc;
}

static int note_object(void *arg, const char *key, uint64_t size, int64_t modified_s)
{
    struct look *look = arg;
    uint64_t job;
    look->gc->listed++;
    if (strlen(key) > KILN_OBJECT_KEY_MAX || !kiln_found_job(key, &job)) {
        look->gc->foreign++;
        return 0;
    }
    if (look->gc->grace_s > 0 && modified_s > look->newest_s) { /* servers round up, too */
        look->gc->young++;
        return 0;
    }
    size_t i = look->count++;
    snprintf(look->keys[i], sizeof look->keys[i], "%s", key);
    look->found[i] = (struct kiln_found){look->keys[i], job};
    look->bytes[i] = size;
    return look->count == PAGE ? judge_page(look) : 0;
}

int kiln_gc_look(struct kiln_gc *gc, struct kiln_error *err)
{
    static const char *const prefixes[] = {"images/", "latents/", "probe/"};
    struct look *look = malloc(sizeof *look);
    if (!look)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a page of objects");
    look->gc = gc;
    look->err = (struct kiln_error){0};
    look->newest_s = kiln_wall_ms() / 1000 - gc->grace_s;
    look->count = 0;
    int rc = 0;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && rc == 0; i++)
        rc = kiln_store_list(gc->store, prefixes[i], note_object, look, err);
    if (rc == 0)
        rc = judge_page(look);
    if (rc && look->err.code)
        *err = look->err;
    free(look);
    if (rc == 0 && fflush(gc->manifest) != 0)
        rc = kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO,
                       "write the manifest of orphans: %s", strerror(errno));
    return rc;
}

int kiln_gc_read(struct kiln_gc *gc, kiln_gc_each *each, void *arg, struct kiln_error *err)
{
    char line[KILN_OBJECT_KEY_MAX + 64];
    int rc = 0;
    rewind(gc->manifest);
    while (rc == 0 && fgets(line, sizeof line, gc->manifest)) {
        char *at = line;
        uint64_t job = strtoull(at, &at, 10), bytes = strtoull(at, &at, 10);
        at += *at == ' ';
        at[strcspn(at, "\n")] = '\0';
        rc = each(arg, job, bytes, at, err);
    }
    if (rc == 0 && ferror(gc->manifest))
        rc = kiln_fail(err, KILN_IO, "read the manifest of orphans: %s", strerror(errno));
    return rc;
}
