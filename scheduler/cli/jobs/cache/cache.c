/* cache.c - `kiln cache`: its subcommands, and `kiln cache stat`, which counts the stored latents
 * and what was saved by them. */
#include "scheduler/cli/jobs/cache/cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/core/verbs.h"
#include "schemas/reuse/class.h"
#include "storage/formats/pictures/pdq.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/cache.h"

static int list_row(void *arg, const struct kiln_cache_row *row, struct kiln_error *err)
{
    struct kiln_listing *listing = arg;
    struct kiln_text *line = &listing->line;
    if (listing->cli->json)
        kiln_json_put(line,
                      "{model:s model_hash:s width:i height:i loras:s latents:u prompts:u states:u "
                      "bytes:u gpu_seconds:d built:u}\n",
                      row->model, row->model_hash, row->width, row->height, row->lora_set,
                      row->latents, row->prompts, row->states, row->bytes, row->gpu_seconds,
                      row->built);
    else {
        kiln_text_cell(line, listing->cli->columns, row->model[0] ? row->model : "-", 14);
        kiln_text_printf(line, " %4ux%-4u ", row->width, row->height);
        kiln_text_cell(line, listing->cli->columns, row->lora_set[0] ? row->lora_set : "-", 14);
        kiln_text_printf(line, " %7" PRIu64 " %7" PRIu64 " %7" PRIu64 " %7" PRIu64 " %7s\n",
                         row->latents, row->built, row->prompts, row->states,
                         KILN_BYTES(row->bytes));
    }
    return kiln_listing_put(listing, err);
}

/* Runs that the cache let begin from a stored latent, a line each class and depth. */
static int list_hits(void *arg, const struct kiln_hits_row *row, struct kiln_error *err)
{
    struct kiln_listing *listing = arg;
    const char *class = kiln_reuse_class_name((enum kiln_reuse_class)row->hit);
    if (listing->cli->json) {
        kiln_json_put(&listing->line,
                      "{class:s mode:s fallback:s pictures:u steps_saved:d gpu_seconds_saved:d}\n",
                      class, row->mode[0] ? row->mode : NULL,
                      row->fallback[0] ? row->fallback : NULL, row->pictures, row->steps,
                      row->seconds);
        return kiln_listing_put(listing, err);
    }
    if (row->fallback[0])
        kiln_say(listing->cli, "%s, %s: rendered in full (fallback: %s)",
                 KILN_COUNT(row->pictures, "picture"), class, row->fallback);
    else
        kiln_say(listing->cli, "%s, %s, %s: %g steps and %.1f GPU-seconds saved",
                 KILN_COUNT(row->pictures, "picture"), class, row->mode, row->steps, row->seconds);
    return 0;
}

/* One line, where any picture could begin from a stored latent. */
static int list_variety(struct kiln_listing *listing, struct kiln_ledger *ledger,
                        struct kiln_error *err)
{
    struct kiln_variety seen;
    int rc = kiln_ledger_variety(ledger, kiln_pool(listing->cli), KILN_PDQ_NEAR,
                                 KILN_PDQ_QUALITY_MIN, &seen, err);
    if (rc || seen.pictures == 0)
        return rc;
    const double variety = 1 - (double)seen.near / (double)(seen.compared ? seen.compared : 1);
    if (listing->cli->json) {
        kiln_json_put(&listing->line,
                      "{newest_pictures:u reused:u donors:u most_of_one_donor:u compared:u "
                      "near_copies:u ",
                      seen.pictures, seen.reused, seen.donors, seen.most, seen.compared, seen.near);
        kiln_json_put(&listing->line, seen.compared ? "variety:d}\n" : "variety:n}\n", variety);
        return kiln_listing_put(listing, err);
    }
    kiln_say(listing->cli,
             "variety: %" PRIu64 " of the newest %s with teleport \"auto\" began from %s, "
             "at most %" PRIu64 " from the same one",
             seen.reused, KILN_COUNT(seen.pictures, "picture"),
             KILN_COUNT(seen.donors, "stored latent"), seen.most);
    if (seen.compared)
        kiln_say(listing->cli,
                 "variety: %.2f; %" PRIu64 " of %" PRIu64
                 " compared look nearly like the picture of their donor",
                 variety, seen.near, seen.compared);
    return 0;
}

static int stat_cache(struct kiln_cli *cli)
{
    struct kiln_listing listing = {.cli = cli, .none = "no cached latents"};
    struct kiln_ledger *ledger = NULL;
    struct kiln_error err;
    int rc = kiln_open_reader(cli, &ledger, &err);
    kiln_listing_head(&listing, "%-14s %9s %-14s %7s %7s %7s %7s %7s", "MODEL", "SIZE", "LORAS",
                      "LATENTS", "BUILT", "PROMPTS", "STATES", "BYTES");
    if (rc == 0)
        rc = kiln_ledger_cache(ledger, kiln_pool(cli), list_row, &listing, &err);
    if (rc == 0)
        rc = kiln_ledger_hits(ledger, kiln_pool(cli), list_hits, &listing, &err);
    if (rc == 0)
        rc = list_variety(&listing, ledger, &err);
    kiln_ledger_close(ledger);
    return kiln_listing_end(&listing, rc, &err);
}

/* A subcommand with the options that it takes, with spaces. */
struct subcommand {
    const char *name, *options;
};

int kiln_verb_cache(struct kiln_cli *cli, const struct kiln_args *args)
{
    static const struct subcommand subcommands[] = {
        {"build",
         " prompts template sigmas loras set half most limit dry-run from-history top donors "
         "alike "},
        {"stat", " "},
        {"warm", " timeout "},
        {"verify", " full "},
        {"why", " "},
        {"prune", " budget grace dry-run yes "}};
    enum { BUILD, STAT, WARM, VERIFY, WHY, PRUNE, COUNT };
    const char *name = args->rest[0];
    char what[32];
    int which = 0;
    while (which < COUNT && strcmp(name, subcommands[which].name) != 0)
        which++;
    if (which == COUNT)
        return kiln_usage(cli,
                          "unknown subcommand '%.40s'; use build, stat, warm, verify, why or "
                          "prune",
                          name);
    if (which == WHY && args->rest_count < 2)
        return kiln_usage(cli, "`cache why` needs a JOB");
    if (which != WHY && args->rest_count > 1)
        return kiln_usage(cli, "`cache %s` takes no '%.40s'", name, args->rest[1]);
    snprintf(what, sizeof what, "cache %s", name);
    int status = kiln_args_only(cli, args, subcommands[which].options, what);
    if (status)
        return status;
    switch (which) {
    case BUILD:
        return kiln_latents_build(cli, args);
    case WARM:
        return kiln_latents_warm(cli, args);
    case VERIFY:
        return kiln_latents_verify(cli, kiln_arg(args, "full") != NULL);
    case WHY:
        return kiln_latents_why(cli, args->rest[1]);
    case PRUNE:
        return kiln_latents_prune(cli, args);
    default:
        return stat_cache(cli);
    }
}
