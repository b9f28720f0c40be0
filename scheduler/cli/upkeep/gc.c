/* gc.c - `kiln gc`: removes objects and rows that are no longer needed.
 *
 * Three steps, each of which may be interrupted and repeated:
 *
 *     --older-than   rows of old pictures and of old cached latents in a transaction, then their
 *                    objects: an object without a row is an orphan, a row without its object never
 *                    exists
 *     cancelled      rows of jobs that were cancelled longer ago than the grace period
 *     orphans        objects that no row references or can reference
 *
 * Finding orphans writes a manifest, an unnamed file with one line an orphan, in order of keys.  So
 * memory is that of one page however large the store is, and nothing is removed before its amount
 * is known.  It lists only the prefixes that Kiln writes, and considers only keys of Kiln's form: a
 * bucket may contain other things.
 *
 * Removing reads the manifest and asks the ledger again for each key, a group at a time, while the
 * jobs of the group are locked (storage/ledger/upkeep/garbage.h).  A group is one request to S3, so
 * the locks are short.  Orphans that are left after an interruption wait for the next run.
 *
 * Orphans are removed without a question.  Two things need an answer on a terminal, or --yes: old
 * pictures; and orphans where the ledger has no object of the store, or mostly jobs that it never
 * had: then ledger and store probably do not belong together.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/core/output/removal.h"
#include "scheduler/cli/core/times.h"
#include "scheduler/cli/core/verbs.h"
#include "schemas/clock.h"
#include "schemas/job/inputs.h"
#include "schemas/limits.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/upkeep/garbage.h"
#include "storage/objects/store.h"

#define GRACE_LEAST_S 86400
#define GRACE_ATTEMPTS 4    /* times the longest from an attempt's first object to its commit */
#define ORPHANS_NORMAL 1000 /* so many need no question */

#define PAGE 1000

struct gc {
    struct kiln_cli *cli;
    struct kiln_ledger *ledger;
    struct kiln_store *store;
    int64_t grace_s, older_s;   /* older_s -1: old pictures are kept */
    bool dry_run, yes, listing; /* listing: a JSON array of keys is open on stdout */
    FILE *manifest;
    struct kiln_bar bar;
    /* What was found: objects by kind. */
    uint64_t listed, named, live, young, foreign;
    uint64_t orphans, orphan_bytes;
    uint64_t unknown; /* orphans of jobs that this ledger never had */
    /* What was removed. */
    uint64_t pictures, latents, old_objects, old_bytes, cancelled, printed;
    struct kiln_removal removal;
};

typedef int use_orphan(struct gc *gc, uint64_t job, uint64_t bytes, const char *key,
                       struct kiln_error *err);

/* --- finding orphans -------------------------------------------------------------------------- */

struct search {
    struct gc *gc;
    struct kiln_error err; /* kiln_store_list returns only codes */
    int64_t newest_s;      /* objects that changed later are too young */
    size_t count;
    struct kiln_found found[PAGE];
    uint64_t bytes[PAGE];
    char keys[PAGE][KILN_OBJECT_KEY_MAX + 1];
};

/* Asks the ledger about the page. */
static int check_page(struct search *search)
{
    struct gc *gc = search->gc;
    enum kiln_claim claims[PAGE];
    if (search->count == 0)
        return 0;
    int rc = kiln_ledger_claims(gc->ledger, search->found, search->count, claims, &search->err);
    for (size_t i = 0; i < search->count && rc == 0; i++) {
        gc->named += claims[i] == KILN_CLAIM_ROW;
        gc->live += claims[i] == KILN_CLAIM_LIVE;
        if (claims[i] != KILN_CLAIM_NONE && claims[i] != KILN_CLAIM_UNKNOWN)
            continue;
        gc->orphans++;
        gc->orphan_bytes += search->bytes[i];
        gc->unknown += claims[i] == KILN_CLAIM_UNKNOWN;
        if (fprintf(gc->manifest, "%" PRIu64 " %" PRIu64 " %s\n", search->found[i].job,
                    search->bytes[i], search->keys[i]) < 0)
            rc = kiln_fail(&search->err, errno == ENOSPC ? KILN_FULL : KILN_IO,
                           "write the manifest of orphans: %s", strerror(errno));
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

/* Lists the store; fills the manifest and the counts.  Objects younger than grace_s are kept. */
static int find_orphans(struct gc *gc, struct kiln_error *err)
{
    static const char *const prefixes[] = {"images/", KILN_INPUTS_PREFIX, "latents/",
                                           KILN_LORAS_PREFIX, "probe/"};
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

/* Calls each for every line of the manifest. */
static int read_manifest(struct gc *gc, use_orphan *each, struct kiln_error *err)
{
    char line[KILN_OBJECT_KEY_MAX + 64];
    int rc = 0;
    rewind(gc->manifest);
    while (rc == 0 && fgets(line, sizeof line, gc->manifest)) {
        char *at = line;
        uint64_t job = strtoull(at, &at, 10), bytes = strtoull(at, &at, 10);
        at += *at == ' ';
        at[strcspn(at, "\n")] = '\0';
        rc = each(gc, job, bytes, at, err);
    }
    if (rc == 0 && ferror(gc->manifest))
        rc = kiln_fail(err, KILN_IO, "read the manifest of orphans: %s", strerror(errno));
    return rc;
}

/* --- the three steps -------------------------------------------------------------------------- */

/* A line an object, or an element of the array that print_result closes. */
static int list_key(struct gc *gc, uint64_t job, uint64_t bytes, const char *key,
                    struct kiln_error *err)
{
    (void)job;
    if (gc->cli->json)
        printf("%s{\"key\":\"%s\",\"bytes\":%" PRIu64 "}", gc->printed++ ? "," : "", key, bytes);
    else
        printf("%12" PRIu64 " %s\n", bytes, key);
    return kiln_stdout_ok() ? 0 : kiln_fail(err, KILN_CANCELLED, "the reader of the list has gone");
}

static int remove_dropped(void *arg, uint64_t job, const char *key, uint64_t bytes,
                          struct kiln_error *err)
{
    struct gc *gc = arg;
    gc->old_objects++;
    gc->old_bytes += bytes;
    return gc->dry_run ? list_key(gc, job, bytes, key, err)
                       : kiln_removal_add(&gc->removal, job, bytes, key, err);
}

typedef int drop_page(struct kiln_ledger *ledger, const struct kiln_drop *what, uint64_t *cursor,
                      uint64_t *ret_jobs, bool *ret_more, struct kiln_error *err);

/* Objects that cannot be removed now are orphans from now on, found like all others. */
static int drop_old(struct gc *gc, drop_page *drop, const char *title, uint64_t *dropped,
                    struct kiln_error *err)
{
    const struct kiln_drop what = {.pool = kiln_pool(gc->cli),
                                   .age_s = gc->older_s,
                                   .dry_run = gc->dry_run,
                                   .each = remove_dropped,
                                   .arg = gc};
    uint64_t cursor = 0, jobs = 0;
    bool more = true;
    int rc = 0;
    kiln_bar_init(&gc->bar, gc->cli, title);
    while (more && rc == 0) {
        rc = drop(gc->ledger, &what, &cursor, &jobs, &more, err);
        *dropped += jobs;
        if (rc == 0)
            rc = kiln_removal_flush(&gc->removal, err);
    }
    kiln_bar_end(&gc->bar);
    return rc;
}

/* Whether the store seems to belong to another ledger. */
static bool is_foreign(const struct gc *gc)
{
    return gc->orphans > ORPHANS_NORMAL &&
           (gc->named + gc->live == 0 || gc->unknown > gc->orphans / 2);
}

static int remove_orphan(struct gc *gc, uint64_t job, uint64_t bytes, const char *key,
                         struct kiln_error *err)
{
    return kiln_removal_add(&gc->removal, job, bytes, key, err);
}

static int remove_orphans(struct gc *gc, struct kiln_error *err)
{
    char question[KILN_ERROR_TEXT_MAX];
    snprintf(
        question, sizeof question,
        "%" PRIu64 " of %s in %s are orphans, and %" PRIu64
        " belong to jobs that this ledger never had: perhaps it is the store of another ledger.",
        gc->orphans, KILN_COUNT(gc->orphans + gc->named + gc->live, "object"),
        kiln_store_url(gc->store), gc->unknown);
    if (gc->dry_run) {
        if (is_foreign(gc))
            kiln_warn(gc->cli, "%s", question);
        return read_manifest(gc, list_key, err);
    }
    if (is_foreign(gc) && !kiln_confirm(gc->cli, gc->yes, question))
        return kiln_fail(err, KILN_CONFIG, "no orphan was removed");
    kiln_bar_init(&gc->bar, gc->cli, "removing orphans");
    gc->removal.total = gc->orphans + gc->removal.removed;
    int rc = read_manifest(gc, remove_orphan, err);
    if (rc == 0)
        rc = kiln_removal_flush(&gc->removal, err);
    kiln_bar_end(&gc->bar);
    return rc;
}

static int collect(struct gc *gc, struct kiln_error *err)
{
    uint64_t cursor = 0, dropped = 0;
    bool more = true;
    int rc = 0;
    if (gc->older_s >= 0)
        rc = drop_old(gc, kiln_ledger_drop_pictures, "removing old pictures", &gc->pictures, err);
    if (rc == 0 && gc->older_s >= 0)
        rc = drop_old(gc, kiln_ledger_drop_latents, "removing old latents", &gc->latents, err);
    while (more && rc == 0) {
        rc = kiln_ledger_drop_cancelled(gc->ledger, kiln_pool(gc->cli), gc->grace_s, gc->dry_run,
                                        &cursor, &dropped, &more, err);
        gc->cancelled += rc == 0 ? dropped : 0;
    }
    if (rc)
        return rc;
    kiln_bar_init(&gc->bar, gc->cli, "listing the store");
    rc = find_orphans(gc, err);
    kiln_bar_end(&gc->bar);
    return rc ? rc : remove_orphans(gc, err);
}

/* --- the verb --------------------------------------------------------------------------------- */

static void say_result(const struct gc *gc)
{
    const char *would = gc->dry_run ? "would remove" : "removed";
    if (gc->older_s >= 0)
        kiln_say(gc->cli, "%s %s and %s (%s, %s)", would, KILN_COUNT(gc->pictures, "old picture"),
                 KILN_COUNT(gc->latents, "old cached latent"),
                 KILN_COUNT(gc->old_objects, "object"), KILN_BYTES(gc->old_bytes));
    if (gc->cancelled)
        kiln_say(gc->cli, "%s the rows of %s", would, KILN_COUNT(gc->cancelled, "cancelled job"));
    kiln_say(gc->cli,
             "%s in the store: %" PRIu64 " referenced, %" PRIu64
             " of queued or assigned jobs, %" PRIu64 " younger than the grace period, %" PRIu64
             " not from Kiln, %s",
             KILN_COUNT(gc->listed, "object"), gc->named, gc->live, gc->young, gc->foreign,
             KILN_COUNT(gc->orphans, "orphan"));
    if (gc->removal.spared || gc->removal.failed)
        kiln_say(gc->cli, "%s kept because a job needs it now, %" PRIu64 " refused by the store",
                 KILN_COUNT(gc->removal.spared, "orphan"), gc->removal.failed);
    uint64_t objects = gc->dry_run ? gc->orphans : gc->removal.removed;
    double size = (double)(gc->dry_run ? gc->orphan_bytes : gc->removal.removed_bytes);
    kiln_say(gc->cli, "%s %s (%s)", would, KILN_COUNT(objects, gc->dry_run ? "orphan" : "object"),
             KILN_BYTES(size));
}

/* One JSON object; after a dry run it begins with the listed keys. */
static int print_json(const struct gc *gc)
{
    json_t *result = json_pack(
        "{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
        "dry_run", (int)gc->dry_run, "grace_s", (json_int_t)gc->grace_s, "listed",
        (json_int_t)gc->listed, "named", (json_int_t)gc->named, "live", (json_int_t)gc->live,
        "young", (json_int_t)gc->young, "foreign", (json_int_t)gc->foreign, "orphans",
        (json_int_t)gc->orphans, "orphan_bytes", (json_int_t)gc->orphan_bytes, "cancelled_jobs",
        (json_int_t)gc->cancelled, "pictures", (json_int_t)gc->pictures, "latents",
        (json_int_t)gc->latents, "old_bytes", (json_int_t)gc->old_bytes, "removed",
        (json_int_t)gc->removal.removed, "removed_bytes", (json_int_t)gc->removal.removed_bytes,
        "spared", (json_int_t)gc->removal.spared, "failed", (json_int_t)gc->removal.failed);
    if (!gc->listing)
        return kiln_print_json(gc->cli, result);
    char *text = result ? json_dumps(result, KILN_JSON_PRINTED) : NULL;
    json_decref(result);
    printf("],%s\n", text ? text + 1 : "}");
    free(text);
    return text && kiln_stdout_ok() ? 0 : EX_IOERR;
}

/* Options into *gc.  0 or an exit status. */
static int read_options(struct kiln_cli *cli, const struct kiln_args *args, struct gc *gc)
{
    const struct kiln_config *config = cli->config;
    double longest_s = kiln_config_number(config, KILN_KEY_HOLD_S) +
                       kiln_config_number(config, KILN_KEY_DRAIN_S) +
                       kiln_config_number(config, KILN_KEY_LEASE_S);
    int64_t grace_s = (int64_t)(GRACE_ATTEMPTS * longest_s);
    grace_s = grace_s > GRACE_LEAST_S ? grace_s : GRACE_LEAST_S;
    int status = kiln_arg_duration(cli, args, "grace", grace_s, &gc->grace_s);
    if (status == 0)
        status = kiln_arg_duration(cli, args, "older-than", -1, &gc->older_s);
    if (status)
        return status;
    gc->cli = cli;
    gc->dry_run = kiln_arg(args, "dry-run") != NULL;
    gc->yes = kiln_arg(args, "yes") != NULL;
    char question[160];
    snprintf(question, sizeof question,
             "Pictures and cached latents older than %s will be removed for good.",
             kiln_arg(args, "older-than"));
    if (gc->older_s >= 0 && !gc->dry_run && !kiln_confirm(gc->cli, gc->yes, question))
        return EX_USAGE;
    return 0;
}

int kiln_verb_gc(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err = {0};
    struct gc *gc = calloc(1, sizeof *gc);
    if (!gc) {
        kiln_fail(&err, KILN_NO_MEMORY, "no memory");
        return kiln_report(cli, &err);
    }
    int rc = 0, status = read_options(cli, args, gc);
    if (status == 0) {
        rc = kiln_open_ledger(cli, &gc->ledger, &err);
        if (rc == 0)
            rc = kiln_store_open(cli->config, &gc->store, &err);
        gc->removal.ledger = gc->ledger;
        gc->removal.store = gc->store;
        gc->removal.bar = &gc->bar;
        if (rc == 0 && !(gc->manifest = tmpfile()))
            rc = kiln_fail(&err, KILN_IO, "make a temporary file: %s", strerror(errno));
    }
    if (status == 0 && rc == 0) {
        gc->listing = cli->json && gc->dry_run;
        if (gc->listing)
            fputs("{\"objects\":[", stdout);
        rc = collect(gc, &err);
        if (rc == 0 && gc->removal.failure.code)
            rc = kiln_fail(&err, gc->removal.failure.code, "%s", gc->removal.failure.text);
        if (rc == KILN_CANCELLED)
            rc = 0;
        say_result(gc);
        if (cli->json)
            status = print_json(gc);
    }
    if (rc)
        status = kiln_report(cli, &err);
    if (gc->manifest)
        fclose(gc->manifest);
    kiln_store_close(gc->store);
    kiln_ledger_close(gc->ledger);
    free(gc);
    return status;
}
