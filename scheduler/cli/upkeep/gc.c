/* gc.c - `kiln gc`: removes objects and rows that are no longer needed.
 *
 * Three steps, each of which may be interrupted and repeated:
 *
 *     --older-than   rows of old pictures and of old cached latents in a transaction, then their
 *                    objects: an object without a row is an orphan, a row without its object never
 *                    exists
 *     cancelled      rows of jobs that were cancelled longer ago than the grace period
 *     orphans        objects that no row references or can reference (gc_orphans.c)
 *
 * Orphans are removed without a question.  Two things need an answer on a terminal, or --yes: old
 * pictures; and orphans where the ledger has no object of the store, or mostly jobs that it never
 * had: then ledger and store probably do not belong together.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/core/confirm.h"
#include "scheduler/cli/core/times.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/upkeep/gc.h"
#include "storage/ledger/ledger.h"

#define GRACE_LEAST_S 86400
#define GRACE_HOLDS 4       /* times the longest attempt */
#define ORPHANS_NORMAL 1000 /* so many need no question */

struct collection {
    struct kiln_gc gc;
    struct kiln_gc_group group;
    bool yes, listing; /* listing: a JSON array of keys is open on stdout */
    int64_t older_s;   /* -1: pictures are kept */
    uint64_t pictures, latents, old_objects, old_bytes, cancelled, printed;
};

/* Several times what the slowest attempt takes from its first object to its commit. */
static int64_t default_grace_s(const struct kiln_config *config)
{
    double longest = kiln_config_number(config, KILN_KEY_HOLD_S) +
                     kiln_config_number(config, KILN_KEY_DRAIN_S) +
                     kiln_config_number(config, KILN_KEY_LEASE_S);
    int64_t grace = (int64_t)(GRACE_HOLDS * longest);
    return grace > GRACE_LEAST_S ? grace : GRACE_LEAST_S;
}

/* --- listing ---------------------------------------------------------------------------------- */

/* A line an object, or an element of the array that print_result closes. */
static int list_key(void *arg, uint64_t job, uint64_t bytes, const char *key,
                    struct kiln_error *err)
{
    struct collection *c = arg;
    (void)job;
    if (c->gc.cli->json)
        printf("%s{\"key\":\"%s\",\"bytes\":%llu}", c->printed ? "," : "", key,
               (unsigned long long)bytes);
    else
        printf("%12llu %s\n", (unsigned long long)bytes, key);
    c->printed++;
    return kiln_stdout_ok() ? 0 : kiln_fail(err, KILN_CANCELLED, "the reader of the list has gone");
}

/* --- the three steps -------------------------------------------------------------------------- */

static int remove_dropped(void *arg, uint64_t job, const char *key, uint64_t bytes,
                          struct kiln_error *err)
{
    struct collection *c = arg;
    c->old_objects++;
    c->old_bytes += bytes;
    return c->gc.dry_run ? list_key(c, job, bytes, key, err)
                         : kiln_gc_add(&c->group, job, bytes, key, err);
}

typedef int drop_page(struct kiln_ledger *ledger, const struct kiln_drop *what, uint64_t *cursor,
                      uint64_t *ret_jobs, bool *ret_more, struct kiln_error *err);

/* Objects that cannot be removed now are orphans from now on, found like all others. */
static int drop_old(struct collection *c, drop_page *drop, const char *title, uint64_t *dropped,
                    struct kiln_error *err)
{
    struct kiln_gc *gc = &c->gc;
    const struct kiln_drop what = {.pool = kiln_pool(gc->cli),
                                   .age_s = c->older_s,
                                   .dry_run = gc->dry_run,
                                   .each = remove_dropped,
                                   .arg = c};
    uint64_t cursor = 0, jobs = 0;
    bool more = true;
    int rc = 0;
    kiln_bar_init(&gc->bar, gc->cli, title);
    while (more && rc == 0) {
        rc = drop(gc->ledger, &what, &cursor, &jobs, &more, err);
        *dropped += jobs;
        if (rc == 0)
            rc = kiln_gc_remove(&c->group, err);
    }
    kiln_bar_end(&gc->bar);
    return rc;
}

static int drop_cancelled(struct collection *c, struct kiln_error *err)
{
    struct kiln_gc *gc = &c->gc;
    uint64_t cursor = 0, dropped = 0;
    bool more = true;
    int rc = 0;
    while (more && rc == 0) {
        rc = kiln_ledger_drop_cancelled(gc->ledger, kiln_pool(gc->cli), gc->grace_s, gc->dry_run,
                                        &cursor, &dropped, &more, err);
        c->cancelled += rc == 0 ? dropped : 0;
    }
    return rc;
}

/* Whether the store seems to belong to another ledger. */
static bool is_foreign(const struct kiln_gc *gc)
{
    return gc->orphans > ORPHANS_NORMAL &&
           (gc->named + gc->live == 0 || gc->unknown > gc->orphans / 2);
}

static int remove_orphans(struct collection *c, struct kiln_error *err)
{
    struct kiln_gc *gc = &c->gc;
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
        return kiln_gc_read(gc, list_key, c, err);
    }
    if (is_foreign(gc) && !kiln_confirm(c->gc.cli, c->yes, question))
        return kiln_fail(err, KILN_CONFIG, "no orphan was removed");
    kiln_bar_init(&gc->bar, gc->cli, "removing orphans");
    c->group.total = gc->orphans + gc->removed;
    int rc = kiln_gc_read(gc, kiln_gc_add, &c->group, err);
    if (rc == 0)
        rc = kiln_gc_remove(&c->group, err);
    kiln_bar_end(&gc->bar);
    return rc;
}

static int collect(struct collection *c, struct kiln_error *err)
{
    struct kiln_gc *gc = &c->gc;
    int rc = 0;
    if (c->older_s >= 0)
        rc = drop_old(c, kiln_ledger_drop_pictures, "removing old pictures", &c->pictures, err);
    if (rc == 0 && c->older_s >= 0)
        rc = drop_old(c, kiln_ledger_drop_latents, "removing old latents", &c->latents, err);
    if (rc == 0)
        rc = drop_cancelled(c, err);
    if (rc)
        return rc;
    kiln_bar_init(&gc->bar, gc->cli, "listing the store");
    rc = kiln_gc_find_orphans(gc, err);
    kiln_bar_end(&gc->bar);
    return rc ? rc : remove_orphans(c, err);
}

/* --- the verb --------------------------------------------------------------------------------- */

static void say_result(const struct collection *c)
{
    const struct kiln_gc *gc = &c->gc;
    const char *would = gc->dry_run ? "would remove" : "removed";
    if (c->older_s >= 0)
        kiln_say(gc->cli, "%s %s and %s (%s, %s)", would, KILN_COUNT(c->pictures, "old picture"),
                 KILN_COUNT(c->latents, "old cached latent"), KILN_COUNT(c->old_objects, "object"),
                 KILN_BYTES(c->old_bytes));
    if (c->cancelled)
        kiln_say(gc->cli, "%s the rows of %s", would, KILN_COUNT(c->cancelled, "cancelled job"));
    kiln_say(gc->cli,
             "%s in the store: %" PRIu64 " referenced, %" PRIu64
             " of queued or assigned jobs, %" PRIu64 " younger than the grace period, %" PRIu64
             " not from Kiln, %s",
             KILN_COUNT(gc->listed, "object"), gc->named, gc->live, gc->young, gc->foreign,
             KILN_COUNT(gc->orphans, "orphan"));
    if (gc->spared || gc->failed)
        kiln_say(gc->cli, "%s kept because a job needs it now, %" PRIu64 " refused by the store",
                 KILN_COUNT(gc->spared, "orphan"), gc->failed);
    uint64_t objects = gc->dry_run ? gc->orphans : gc->removed;
    double size = (double)(gc->dry_run ? gc->orphan_bytes : gc->removed_bytes);
    kiln_say(gc->cli, "%s %s (%s)", would, KILN_COUNT(objects, "orphan"), KILN_BYTES(size));
}

/* One JSON object; after a dry run it begins with the listed keys. */
static int print_json(const struct collection *c)
{
    const struct kiln_gc *gc = &c->gc;
    json_t *result = json_pack(
        "{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
        "dry_run", (int)gc->dry_run, "grace_s", (json_int_t)gc->grace_s, "listed",
        (json_int_t)gc->listed, "named", (json_int_t)gc->named, "live", (json_int_t)gc->live,
        "young", (json_int_t)gc->young, "foreign", (json_int_t)gc->foreign, "orphans",
        (json_int_t)gc->orphans, "orphan_bytes", (json_int_t)gc->orphan_bytes, "cancelled_jobs",
        (json_int_t)c->cancelled, "pictures", (json_int_t)c->pictures, "latents",
        (json_int_t)c->latents, "old_bytes", (json_int_t)c->old_bytes, "removed",
        (json_int_t)gc->removed, "removed_bytes", (json_int_t)gc->removed_bytes, "spared",
        (json_int_t)gc->spared, "failed", (json_int_t)gc->failed);
    if (!c->listing)
        return kiln_print_json(gc->cli, result);
    char *text = result ? json_dumps(result, JSON_COMPACT) : NULL;
    json_decref(result);
    printf("],%s\n", text ? text + 1 : "}");
    free(text);
    return text && kiln_stdout_ok() ? 0 : EX_IOERR;
}

/* Options into *c.  0 or an exit status. */
static int read_options(struct kiln_cli *cli, int argc, char **argv, struct collection *c)
{
    struct kiln_args args;
    int64_t grace_s = default_grace_s(cli->config);
    int status = kiln_args_parse(cli, argc, argv, 0, 0, &args);
    if (status == 0)
        status = kiln_arg_duration(cli, &args, "grace", grace_s, &c->gc.grace_s);
    if (status == 0)
        status = kiln_arg_duration(cli, &args, "older-than", -1, &c->older_s);
    if (status)
        return status;
    c->gc.cli = cli;
    c->gc.dry_run = kiln_arg(&args, "dry-run") != NULL;
    c->yes = kiln_arg(&args, "yes") != NULL;
    c->group.gc = &c->gc;
    char question[160];
    snprintf(question, sizeof question,
             "Pictures and cached latents older than %s will be removed for good.",
             kiln_arg(&args, "older-than"));
    if (c->older_s >= 0 && !c->gc.dry_run && !kiln_confirm(c->gc.cli, c->yes, question))
        return EX_USAGE;
    return 0;
}

int kiln_verb_gc(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_error err = {0};
    struct collection *c = calloc(1, sizeof *c);
    if (!c) {
        kiln_fail(&err, KILN_NO_MEMORY, "no memory");
        return kiln_report(cli, &err);
    }
    int rc = 0, status = read_options(cli, argc, argv, c);
    if (status == 0) {
        rc = kiln_open_ledger(cli, &c->gc.ledger, &err);
        if (rc == 0)
            rc = kiln_store_open(cli->config, &c->gc.store, &err);
        if (rc == 0 && !(c->gc.manifest = tmpfile()))
            rc = kiln_fail(&err, KILN_IO, "make a temporary file: %s", strerror(errno));
    }
    if (status == 0 && rc == 0) {
        c->listing = cli->json && c->gc.dry_run;
        if (c->listing)
            fputs("{\"objects\":[", stdout);
        rc = collect(c, &err);
        if (rc == 0 && c->gc.failure.code)
            rc = kiln_fail(&err, c->gc.failure.code, "%s", c->gc.failure.text);
        if (rc == KILN_CANCELLED)
            rc = 0;
        say_result(c);
        if (cli->json)
            status = print_json(c);
    }
    if (rc)
        status = kiln_report(cli, &err);
    if (c->gc.manifest)
        fclose(c->gc.manifest);
    kiln_store_close(c->gc.store);
    kiln_ledger_close(c->gc.ledger);
    free(c);
    return status;
}
