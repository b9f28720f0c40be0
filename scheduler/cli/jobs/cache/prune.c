/* prune.c - `kiln cache prune`: evicts final latents until all stored latents fit a budget of
 * bytes.
 *
 * Latents that saved the least device time per byte go first; among equals, the oldest.  A new
 * latent has saved nothing yet, so it has a grace period.  Latents that jobs start from or that
 * favourites need stay.  Files with intermediate states stay too, because a user asked for them.
 *
 * Rows go first, a page in a transaction, then their objects: objects of an interrupted run are
 * orphans, which `kiln gc` removes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include "scheduler/cli/core/output/removal.h"
#include "scheduler/cli/core/times.h"
#include "scheduler/cli/jobs/cache/cache.h"
#include "schemas/room.h"
#include "storage/ledger/ledger.h"

#define GRACE_S 86400

struct candidate {
    uint64_t job, bytes;
    double worth; /* seconds saved a byte */
};

struct prune {
    struct kiln_cli *cli;
    struct kiln_ledger *ledger;
    struct kiln_store *store;
    uint64_t budget;
    int64_t grace_s;
    bool dry_run, yes;
    struct candidate *candidates;
    size_t count, room;
    uint64_t latents, bytes; /* all that is stored */
    uint64_t young, states;  /* latents that stay for this reason */
    uint64_t needed;
    uint64_t evicted, evicted_bytes;
    struct kiln_bar bar;
    struct kiln_removal removal;
};

/* --- what there is ---------------------------------------------------------------------------- */

static int take_latent(void *arg, const struct kiln_latent_worth *row, struct kiln_error *err)
{
    struct prune *prune = arg;
    prune->latents++;
    prune->bytes += row->bytes;
    if (!row->final || row->age_s < prune->grace_s) {
        *(row->final ? &prune->young : &prune->states) += 1;
        return 0;
    }
    struct candidate *at =
        kiln_room(prune->candidates, prune->count, &prune->room, sizeof *at);
    if (!at)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a list of latents");
    prune->candidates = at;
    prune->candidates[prune->count++] = (struct candidate){
        row->job, row->bytes, row->bytes ? row->seconds / (double)row->bytes : 0};
    return 0;
}

static int by_worth(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    const int order = (x->worth > y->worth) - (x->worth < y->worth);
    return order ? order : (x->job > y->job) - (x->job < y->job);
}

static int list_all(struct prune *prune, struct kiln_error *err)
{
    uint64_t cursor = 0;
    int rc = 0;
    for (bool more = true; more && rc == 0;)
        rc = kiln_ledger_latent_worths(prune->ledger, kiln_pool(prune->cli), &cursor, take_latent,
                                       prune, &more, err);
    if (rc == 0 && prune->count > 0)
        qsort(prune->candidates, prune->count, sizeof *prune->candidates, by_worth);
    return rc;
}

/* --- eviction --------------------------------------------------------------------------------- */

static uint64_t excess(const struct prune *prune)
{
    const uint64_t left = prune->bytes - prune->evicted_bytes;
    return left > prune->budget ? left - prune->budget : 0;
}

static int take_evicted(void *arg, uint64_t job, const char *key, uint64_t bytes,
                        struct kiln_error *err)
{
    struct prune *prune = arg;
    prune->evicted++;
    prune->evicted_bytes += bytes;
    if (!prune->dry_run)
        return kiln_removal_add(&prune->removal, job, bytes, key, err);
    if (!prune->cli->json)
        printf("%12" PRIu64 " %s\n", bytes, key);
    return kiln_stdout_ok() ? 0 : kiln_fail(err, KILN_CANCELLED, "the reader of the list has gone");
}

/* The next candidates, no more of them than the excess asks for.  *at moves on. */
static int evict_page(struct prune *prune, size_t *at, struct kiln_error *err)
{
    uint64_t jobs[KILN_EVICT_MAX], bytes = 0;
    const uint64_t before = prune->evicted, wanted = excess(prune);
    size_t n = 0;
    for (; n < KILN_EVICT_MAX && *at < prune->count && bytes < wanted; n++, ++*at) {
        jobs[n] = prune->candidates[*at].job;
        bytes += prune->candidates[*at].bytes;
    }
    int rc = kiln_ledger_evict_latents(prune->ledger, kiln_pool(prune->cli), jobs, n,
                                       prune->dry_run, take_evicted, prune, err);
    prune->needed += rc == 0 ? n - (prune->evicted - before) : 0;
    return rc == 0 && !prune->dry_run ? kiln_removal_flush(&prune->removal, err) : rc;
}

static int evict(struct prune *prune, struct kiln_error *err)
{
    size_t at = 0;
    int rc = 0;
    kiln_bar_init(&prune->bar, prune->cli, "evicting latents");
    while (rc == 0 && excess(prune) > 0 && at < prune->count)
        rc = evict_page(prune, &at, err);
    kiln_bar_end(&prune->bar);
    return rc;
}

/* --- the verb --------------------------------------------------------------------------------- */

static int print_result(const struct prune *prune)
{
    struct kiln_cli *cli = prune->cli;
    const uint64_t over = excess(prune);
    kiln_say(cli, "%s, %s; budget %s: %s %s (%s)", KILN_COUNT(prune->latents, "stored latent"),
             KILN_BYTES(prune->bytes), KILN_BYTES(prune->budget),
             prune->dry_run ? "would evict" : "evicted", KILN_COUNT(prune->evicted, "latent"),
             KILN_BYTES(prune->evicted_bytes));
    if (over > 0)
        kiln_warn(cli,
                  "%s over the budget: of the remaining latents, %" PRIu64
                  " are needed by jobs or favourites, %" PRIu64
                  " are younger than the grace period, and %" PRIu64 " have intermediate states",
                  KILN_BYTES(over), prune->needed, prune->young, prune->states);
    if (prune->removal.failed || prune->removal.spared)
        kiln_warn(cli, "%s left to `kiln gc`",
                  KILN_COUNT(prune->removal.failed + prune->removal.spared, "object"));
    if (!cli->json)
        return 0;
    return kiln_print_json(
        cli, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "budget",
                       (json_int_t)prune->budget, "latents", (json_int_t)prune->latents, "bytes",
                       (json_int_t)prune->bytes, "evicted", (json_int_t)prune->evicted,
                       "evicted_bytes", (json_int_t)prune->evicted_bytes, "needed",
                       (json_int_t)prune->needed, "young", (json_int_t)prune->young, "states",
                       (json_int_t)prune->states, "over", (json_int_t)over, "removed",
                       (json_int_t)prune->removal.removed, "dry_run", (int)prune->dry_run));
}

static int read_options(struct prune *prune, const struct kiln_args *args)
{
    struct kiln_cli *cli = prune->cli;
    const double budget_gb = kiln_config_number(cli->config, KILN_KEY_CACHE_BUDGET_GB);
    int status = kiln_arg_duration(cli, args, "grace", GRACE_S, &prune->grace_s);
    prune->budget = (uint64_t)(budget_gb * 1e9);
    status = status ? status : kiln_arg_bytes(cli, args, "budget", &prune->budget);
    if (status == 0 && !kiln_arg(args, "budget") && budget_gb <= 0)
        return kiln_usage(cli, "`cache prune` needs --budget BYTES, or the setting "
                               "cache_budget_gb");
    prune->dry_run = kiln_arg(args, "dry-run") != NULL;
    prune->yes = kiln_arg(args, "yes") != NULL;
    return status;
}

static bool agreed(const struct prune *prune)
{
    char question[200];
    snprintf(question, sizeof question,
             "Stored latents (%s of %s) will be removed for good, to fit %s.",
             KILN_BYTES(excess(prune)), KILN_BYTES(prune->bytes), KILN_BYTES(prune->budget));
    return prune->dry_run || excess(prune) == 0 || prune->count == 0 ||
           kiln_confirm(prune->cli, prune->yes, question);
}

int kiln_latents_prune(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err = {0};
    struct prune *prune = calloc(1, sizeof *prune);
    if (!prune) {
        kiln_fail(&err, KILN_NO_MEMORY, "no memory");
        return kiln_report(cli, &err);
    }
    prune->cli = cli;
    int rc = 0, status = read_options(prune, args);
    if (status == 0) {
        rc = kiln_open_ledger(cli, &prune->ledger, &err);
        rc = rc ? rc : kiln_store_open(cli->config, &prune->store, &err);
        rc = rc ? rc : list_all(prune, &err);
    }
    prune->removal.ledger = prune->ledger;
    prune->removal.store = prune->store;
    prune->removal.bar = &prune->bar;
    if (status == 0 && rc == 0 && !agreed(prune))
        status = EX_USAGE;
    if (status == 0 && rc == 0) {
        rc = evict(prune, &err);
        if (rc == 0 && prune->removal.failure.code)
            rc = kiln_fail(&err, prune->removal.failure.code, "%s", prune->removal.failure.text);
        if (rc == KILN_CANCELLED)
            rc = 0;
        status = print_result(prune);
    }
    if (rc)
        status = kiln_report(cli, &err);
    kiln_store_close(prune->store);
    kiln_ledger_close(prune->ledger);
    free(prune->candidates);
    free(prune);
    return status;
}
