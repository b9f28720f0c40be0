/* cache.c - `kiln cache build|stat`: latents without pictures, for later runs to begin from. */
#include "scheduler/cli/jobs/cache.h"

#include <stdio.h>
#include <string.h>

#include "scheduler/cli/core/output/listing.h"
#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/core/verbs.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/cache.h"

static int list_row(void *arg, const struct kiln_cache_row *row, struct kiln_error *err)
{
    struct kiln_listing *listing = arg;
    struct kiln_text *line = &listing->line;
    char bytes[32];
    if (listing->cli->json) {
        kiln_text_puts(line, "{\"model\":");
        kiln_text_json(line, row->model, strlen(row->model));
        kiln_json_member_text(line, "model_hash", row->model_hash);
        kiln_json_member_u64(line, "width", row->width);
        kiln_json_member_u64(line, "height", row->height);
        kiln_json_member_text(line, "loras", row->lora_set);
        kiln_json_member_u64(line, "latents", row->latents);
        kiln_json_member_u64(line, "prompts", row->prompts);
        kiln_json_member_u64(line, "states", row->states);
        kiln_json_member_u64(line, "bytes", row->bytes);
        kiln_json_member_double(line, "gpu_seconds", row->gpu_seconds);
        kiln_text_puts(line, "}\n");
    } else {
        kiln_text_printf(line, "%-16s %4ux%-4u %-24s %10llu %10llu %10llu %10s\n",
                         row->model[0] ? row->model : "-", row->width, row->height,
                         row->lora_set[0] ? row->lora_set : "-", (unsigned long long)row->latents,
                         (unsigned long long)row->prompts, (unsigned long long)row->states,
                         kiln_bytes_text((double)row->bytes, bytes, sizeof bytes));
    }
    return kiln_listing_put(listing, err);
}

static int stat_cache(struct kiln_cli *cli)
{
    struct kiln_listing listing = {.cli = cli};
    struct kiln_ledger *ledger = NULL;
    struct kiln_error err;
    int rc = kiln_open_reader(cli, &ledger, &err);
    if (rc == 0 && cli->tty_out && !cli->json)
        printf("%-16s %9s %-24s %10s %10s %10s %10s\n", "MODEL", "SIZE", "LORAS", "LATENTS",
               "PROMPTS", "STATES", "BYTES");
    if (rc == 0)
        rc = kiln_ledger_cache(ledger, kiln_pool(cli), list_row, &listing, &err);
    kiln_ledger_close(ledger);
    return kiln_listing_end(&listing, rc, &err);
}

int kiln_verb_cache(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    int status = kiln_args_parse(cli, argc, argv, 1, 1, &args);
    if (status)
        return status;
    if (strcmp(args.rest[0], "build") == 0)
        return kiln_cache_build(cli, &args);
    if (strcmp(args.rest[0], "stat") != 0)
        return kiln_usage(cli, "'%.40s' is nothing to do with the cache; there are build and stat",
                          args.rest[0]);
    if (args.given_count > 0)
        return kiln_usage(cli, "--%s is for `cache build`", args.given[0].option->name);
    return stat_cache(cli);
}
