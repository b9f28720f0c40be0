/* gc_orphans.c - finds the orphans of the store, and removes them in groups.
 *
 * Finding lists only the prefixes that Kiln writes, and considers only keys of Kiln's form: a
 * bucket may contain other things.  It asks the ledger about a page of keys at a time.
 *
 * Removing locks the jobs of a group (storage/ledger/upkeep/garbage.h), so that no job can claim
 * its objects meanwhile.  A group is one request to S3, so the locks are short.  A store that does
 * not answer, or refuses a whole group, ends the run.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/upkeep/gc.h"
#include "schemas/clock.h"

#define PAGE 1000

struct search {
    struct kiln_gc *gc;
    struct kiln_error err; /* kiln_store_list returns only codes */
    int64_t newest_s;      /* objects that changed later are too young */
    size_t count;
    struct kiln_found found[PAGE];
    uint64_t bytes[PAGE];
    char keys[PAGE][KILN_OBJECT_KEY_MAX + 1];
};

static int write_orphan(struct search *search, size_t i, enum kiln_claim claim)
{
    struct kiln_gc *gc = search->gc;
    gc->orphans++;
    gc->orphan_bytes += search->bytes[i];
    gc->unknown += claim == KILN_CLAIM_UNKNOWN;
    if (fprintf(gc->manifest, "%" PRIu64 " %" PRIu64 " %s\n", search->found[i].job,
                search->bytes[i], search->keys[i]) < 0)
        return kiln_fail(&search->err, errno == ENOSPC ? KILN_FULL : KILN_IO,
                         "write the manifest of orphans: %s", strerror(errno));
    return 0;
}

/* Asks the ledger about the page. */
static int check_page(struct search *search)
{
    struct kiln_gc *gc = search->gc;
    enum kiln_claim claims[PAGE];
    if (search->count == 0)
        return 0;
    int rc = kiln_ledger_claims(gc->ledger, search->found, search->count, claims, &search->err);
    for (size_t i = 0; i < search->count && rc == 0; i++) {
        gc->named += claims[i] == KILN_CLAIM_ROW;
        gc->live += claims[i] == KILN_CLAIM_LIVE;
        if (claims[i] == KILN_CLAIM_NONE || claims[i] == KILN_CLAIM_UNKNOWN)
            rc = write_orphan(search, i, claims[i]);
    }
    search->count = 0;
    kiln_bar_draw(&gc->bar, 0, gc->listed, 0, 0, kiln_now_s());
    return rc;
}

static int note_object(void *arg, const char *key, uint64_t size, int64_t modified_s)
{
    struct search *search = arg;
    uint64_t job;
    search->gc->listed++;
    if (strlen(key) > KILN_OBJECT_KEY_MAX || !kiln_found_job(key, &job)) {
        search->gc->foreign++;
        return 0;
    }
    if (search->gc->grace_s > 0 && modified_s > search->newest_s) { /* servers round up, too */
        search->gc->young++;
        return 0;
    }
    size_t i = search->count++;
    snprintf(search->keys[i], sizeof search->keys[i], "%s", key);
    search->found[i] = (struct kiln_found){search->keys[i], job};
    search->bytes[i] = size;
    return search->count == PAGE ? check_page(search) : 0;
}

int kiln_gc_find_orphans(struct kiln_gc *gc, struct kiln_error *err)
{
    static const char *const prefixes[] = {"images/", "latents/", "probe/"};
    struct search *search = malloc(sizeof *search);
    if (!search)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a page of objects");
    search->gc = gc;
    search->err = (struct kiln_error){0};
    search->newest_s = kiln_wall_ms() / 1000 - gc->grace_s;
    search->count = 0;
    int rc = 0;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && rc == 0; i++)
        rc = kiln_store_list(gc->store, prefixes[i], note_object, search, err);
    if (rc == 0)
        rc = check_page(search);
    if (rc && search->err.code)
        *err = search->err;
    free(search);
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

/* --- removing --------------------------------------------------------------------------------- */

/* Whether the next group would fail too. */
static bool is_hopeless(int code)
{
    return kiln_code_retry(code) == KILN_RETRY_LATER || code == KILN_CONFIG;
}

/* Counts the results of the objects at[0..n); the code to stop with, 0 to continue. */
static int account(struct kiln_gc_group *group, const size_t *at, size_t n)
{
    struct kiln_gc *gc = group->gc;
    size_t failed = 0;
    int stop = 0;
    for (size_t i = 0; i < n; i++) {
        int code = group->deletions[i].code;
        gc->removed += code == 0;
        gc->removed_bytes += code == 0 ? group->bytes[at[i]] : 0;
        failed += code != 0;
        stop = is_hopeless(code) ? code : stop;
    }
    gc->failed += failed;
    group->decided = n;
    kiln_bar_draw(&gc->bar, group->total, gc->removed, gc->failed, 0, kiln_now_s());
    return failed == n ? group->deletions[0].code : stop;
}

static int remove_unclaimed(void *arg, const size_t *at, size_t n, struct kiln_error *err)
{
    struct kiln_gc_group *group = arg;
    struct kiln_error refusal;
    for (size_t i = 0; i < n; i++)
        group->deletions[i] = (struct kiln_deletion){.key = group->keys[at[i]]};
    int rc = kiln_store_delete_many(group->gc->store, group->deletions, n, &refusal);
    int stop = account(group, at, n);
    if (rc && !group->gc->failure.code)
        group->gc->failure = refusal;
    return stop ? kiln_fail(err, stop, "%s", refusal.text) : 0;
}

int kiln_gc_remove(struct kiln_gc_group *group, struct kiln_error *err)
{
    int rc = 0;
    group->decided = 0;
    if (group->count)
        rc = kiln_ledger_with_unclaimed(group->gc->ledger, group->found, group->count,
                                        remove_unclaimed, group, err);
    if (rc == 0)
        group->gc->spared += group->count - group->decided;
    group->count = 0;
    return rc;
}

int kiln_gc_add(void *arg, uint64_t job, uint64_t bytes, const char *key, struct kiln_error *err)
{
    struct kiln_gc_group *group = arg;
    size_t i = group->count++;
    snprintf(group->keys[i], sizeof group->keys[i], "%s", key);
    group->found[i] = (struct kiln_found){group->keys[i], job};
    group->bytes[i] = bytes;
    return group->count == KILN_GC_GROUP ? kiln_gc_remove(group, err) : 0;
}
