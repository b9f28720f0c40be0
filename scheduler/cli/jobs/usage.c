/* usage.c - `kiln usage`: jobs, pictures, GPU-seconds and bytes by tenant and by day (UTC).
 * GPU-seconds are those of finished pictures (text, denoise, decode), not of failed attempts.
 * Seconds saved are those of steps that a stored latent made unnecessary, at the measured pace of
 * the steps that the same run took. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/core/times.h"
#include "scheduler/cli/core/verbs.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/ops.h"

struct usage {
    struct kiln_listing listing;
    unsigned by;
};

static int list_usage(void *arg, const struct kiln_usage_row *row, struct kiln_error *err)
{
    struct usage *usage = arg;
    struct kiln_text *line = &usage->listing.line;
    if (usage->listing.cli->json) {
        kiln_json_put(line, "{jobs:u pictures:u gpu_seconds:d gpu_seconds_saved:d bytes:u",
                      row->jobs, row->pictures, row->gpu_seconds, row->seconds_saved, row->bytes);
        if (usage->by & KILN_USAGE_TENANT)
            kiln_json_put(line, "tenant:s", row->tenant);
        if (usage->by & KILN_USAGE_DAY)
            kiln_json_put(line, "day:s", row->day);
        kiln_text_puts(line, "}\n");
    } else {
        if (usage->by & KILN_USAGE_DAY)
            kiln_text_printf(line, "%-11s", row->day);
        if (usage->by & KILN_USAGE_TENANT)
            kiln_text_cell(line, usage->listing.cli->columns, row->tenant, 20);
        kiln_text_printf(line, "%10" PRIu64 " %10" PRIu64 " %14.1f %9.1f %10s\n", row->jobs,
                         row->pictures, row->gpu_seconds, row->seconds_saved,
                         KILN_BYTES(row->bytes));
    }
    return kiln_listing_put(&usage->listing, err);
}

/* "tenant", "day" or both in any order; tenant by default. */
static int parse_by(struct kiln_cli *cli, const char *text, unsigned *ret)
{
    *ret = text ? 0 : KILN_USAGE_TENANT;
    for (const char *at = text; at;) {
        size_t len = strcspn(at, ",");
        if (len == 6 && strncmp(at, "tenant", len) == 0)
            *ret |= KILN_USAGE_TENANT;
        else if (len == 3 && strncmp(at, "day", len) == 0)
            *ret |= KILN_USAGE_DAY;
        else
            return kiln_usage(cli, "--by %s: use tenant, day or tenant,day", text);
        at = at[len] ? at + len + 1 : NULL;
    }
    return 0;
}

int kiln_verb_usage(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct kiln_ledger *ledger = NULL;
    struct usage usage = {.listing = {.cli = cli, .none = "no finished jobs"}};
    int64_t since_ms = 0;
    int status = kiln_arg_since(cli, args, 0, &since_ms);
    if (status == 0)
        status = kiln_arg_limit(cli, args, &usage.listing.left);
    if (status == 0)
        status = parse_by(cli, kiln_arg(args, "by"), &usage.by);
    if (status)
        return status;
    int rc = kiln_open_reader(cli, &ledger, &err);
    kiln_listing_head(&usage.listing, "%s%s%10s %10s %14s %9s %10s",
                      usage.by & KILN_USAGE_DAY ? "DAY        " : "",
                      usage.by & KILN_USAGE_TENANT ? "TENANT              " : "", "JOBS",
                      "PICTURES", "GPU-SECONDS", "SAVED", "STORED");
    if (rc == 0)
        rc =
            kiln_ledger_usage(ledger, kiln_pool(cli), since_ms, usage.by, list_usage, &usage, &err);
    kiln_ledger_close(ledger);
    return kiln_listing_end(&usage.listing, rc, &err);
}
