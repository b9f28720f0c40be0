/* quota.c - `kiln quota set|ls|rm`: how much a tenant may have waiting, and use in a day, and
 * whether its runs may begin from stored latents. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/pause.h"
#include "schemas/names.h"
#include "schemas/room.h"
#include "storage/ledger/queue/quota.h"

#define SET_MAX 1000000000

/* --- set -------------------------------------------------------------------------------------- */
/* A number of at least `least`, or "none"; fallback when the option was not given. */
static int read_limit(struct kiln_cli *cli, const struct kiln_args *args, const char *name,
                      double least, double fallback, double *ret)
{
    const char *text = kiln_arg(args, name);
    char *end;
    *ret = fallback;
    if (!text)
        return 0;
    if (strcmp(text, "none") == 0) {
        *ret = -1;
        return 0;
    }
    *ret = text[0] >= '0' && text[0] <= '9' ? strtod(text, &end) : -1;
    if (*ret < least || *ret > SET_MAX || *end)
        return kiln_usage(cli, "--%s '%.40s' is neither a number from %g to %d nor none", name,
                          text, least, SET_MAX);
    return 0;
}

/* off, auto or none; unchanged when the option was not given. */
static int read_teleport(struct kiln_cli *cli, const struct kiln_args *args,
                         enum kiln_teleport *teleport)
{
    const char *text = kiln_arg(args, "reuse");
    if (!text)
        return 0;
    if (strcmp(text, "none") == 0)
        *teleport = KILN_TELEPORT_OLD;
    else if (strcmp(text, "off") == 0)
        *teleport = KILN_TELEPORT_OFF;
    else if (strcmp(text, "auto") == 0)
        *teleport = KILN_TELEPORT_AUTO;
    else
        return kiln_usage(cli, "--reuse '%.40s' is neither off, auto nor none", text);
    return 0;
}

/* NULL: the quota does not say. */
static const char *teleport_name(const struct kiln_quota *quota)
{
    return quota->teleport == KILN_TELEPORT_OLD ? NULL : kiln_teleport_name(quota->teleport);
}

static int find_quota(void *arg, const struct kiln_quota *quota, struct kiln_error *err)
{
    struct kiln_quota *found = arg;
    (void)err;
    if (strcmp(quota->tenant, found->tenant) == 0)
        *found = *quota;
    return 0;
}

/* A limit that is not named is unchanged. */
static int set(struct kiln_cli *cli, struct kiln_ledger *ledger, const struct kiln_args *args,
               const char *tenant)
{
    struct kiln_quota quota = {.queued = -1, .gpu_s_day = -1};
    struct kiln_error err;
    double queued;
    snprintf(quota.tenant, sizeof quota.tenant, "%s", tenant);
    if (kiln_ledger_quotas(ledger, kiln_pool(cli), find_quota, &quota, &err))
        return kiln_report(cli, &err);
    int status = read_limit(cli, args, "queued", 0, (double)quota.queued, &queued);
    if (status == 0)
        status = read_limit(cli, args, "gpu-seconds-day", 1, quota.gpu_s_day, &quota.gpu_s_day);
    if (status == 0)
        status = read_teleport(cli, args, &quota.teleport);
    if (status)
        return status;
    quota.queued = (int64_t)queued;
    if ((double)quota.queued != queued)
        return kiln_usage(cli, "--queued '%.40s' is not a whole number", kiln_arg(args, "queued"));
    kiln_user_name(quota.who, sizeof quota.who);
    if (kiln_ledger_quota_set(ledger, kiln_pool(cli), &quota, &err))
        return kiln_report(cli, &err);
    kiln_say(cli, "takes effect within seconds");
    if (!kiln_quota_limits(&quota) && strcmp(tenant, KILN_TENANT_ANY) != 0)
        kiln_say(cli, "tenant '%s' has no limits of its own: those of '*' apply", tenant);
    if (!cli->json)
        return 0;
    json_t *jobs = quota.queued >= 0 ? json_integer(quota.queued) : json_null();
    json_t *seconds = quota.gpu_s_day >= 0 ? json_real(quota.gpu_s_day) : json_null();
    return kiln_print_json(cli, json_pack("{s:s, s:o, s:o, s:s?}", "tenant", tenant, "queued", jobs,
                                          "gpu_seconds_day", seconds, "teleport",
                                          teleport_name(&quota)));
}

/* --- ls --------------------------------------------------------------------------------------- */
struct rows {
    struct kiln_listing listing;
    struct kiln_ledger *ledger;
    struct kiln_quota *at;
    size_t count, room;
    struct kiln_day_row day; /* of the current tenant */
};

static int keep_quota(void *arg, const struct kiln_quota *quota, struct kiln_error *err)
{
    struct rows *rows = arg;
    struct kiln_quota *at = kiln_room(rows->at, rows->count, &rows->room, sizeof *at);
    if (!at)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the quotas");
    rows->at = at;
    rows->at[rows->count++] = *quota;
    return 0;
}

static int find_day(void *arg, const struct kiln_day_row *day, struct kiln_error *err)
{
    struct kiln_day_row *found = arg;
    (void)err;
    if (strcmp(day->tenant, found->tenant) == 0)
        *found = *day;
    return 0;
}

static int print_quota(struct rows *rows, const struct kiln_quota *quota, struct kiln_error *err)
{
    struct kiln_day_row day = {.used_s = 0};
    struct kiln_text *line = &rows->listing.line;
    char queued[32] = "-", seconds[32] = "-";
    uint64_t waiting = 0;
    const char *pool = kiln_pool(rows->listing.cli);
    snprintf(day.tenant, sizeof day.tenant, "%s", quota->tenant);
    int rc = kiln_ledger_waiting_of(rows->ledger, pool, quota->tenant, &waiting, err);
    if (rc == 0)
        rc = kiln_ledger_day(rows->ledger, pool, find_day, &day, err);
    if (rc)
        return rc;
    if (rows->listing.cli->json) {
        kiln_json_put(line, quota->queued >= 0 ? "{tenant:s queued:u" : "{tenant:s queued:n",
                      quota->tenant, (uint64_t)quota->queued);
        kiln_json_put(line, quota->gpu_s_day >= 0 ? "gpu_seconds_day:d" : "gpu_seconds_day:n",
                      quota->gpu_s_day);
        kiln_json_put(line, "teleport:s waiting:u gpu_seconds_today:d held:b who:s at:t}\n",
                      teleport_name(quota), waiting, day.used_s, day.held, quota->who,
                      quota->at_ms);
        return kiln_listing_put(&rows->listing, err);
    }
    if (quota->queued >= 0)
        snprintf(queued, sizeof queued, "%lld", (long long)quota->queued);
    if (quota->gpu_s_day >= 0)
        snprintf(seconds, sizeof seconds, "%.1f", quota->gpu_s_day);
    kiln_text_cell(line, rows->listing.cli->columns, quota->tenant, 20);
    kiln_text_printf(line, " %9llu of %-9s %11.1f of %-11s %-8s %s\n", (unsigned long long)waiting,
                     queued, day.used_s, seconds,
                     quota->teleport == KILN_TELEPORT_OLD ? "-" : teleport_name(quota),
                     day.held ? "paused" : "");
    return kiln_listing_put(&rows->listing, err);
}

static int list(struct kiln_cli *cli, struct kiln_ledger *ledger)
{
    struct rows rows = {.listing = {.cli = cli, .none = "no quotas"}, .ledger = ledger};
    struct kiln_error err;
    int rc = kiln_ledger_quotas(ledger, kiln_pool(cli), keep_quota, &rows, &err);
    kiln_listing_head(&rows.listing, "%-20s %9s of %-9s %11s of %-11s %-8s", "TENANT", "WAITING",
                      "QUOTA", "SECONDS", "A DAY", "TELEPORT");
    for (size_t i = 0; i < rows.count && rc == 0; i++)
        rc = print_quota(&rows, &rows.at[i], &err);
    free(rows.at);
    return kiln_listing_end(&rows.listing, rc, &err);
}

/* --- rm --------------------------------------------------------------------------------------- */
static int add_name(void *arg, const struct kiln_quota *quota, struct kiln_error *err)
{
    return kiln_suggest_add(arg, quota->tenant, err);
}

static int remove_quota(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *tenant,
                        bool yes)
{
    struct kiln_suggest near = {0};
    struct kiln_error err;
    char question[KILN_NAME_MAX + 80];
    snprintf(question, sizeof question, "The quota of tenant %s will be removed.", tenant);
    int rc = kiln_ledger_quotas(ledger, kiln_pool(cli), add_name, &near, &err);
    if (rc == 0 && !kiln_suggest_has(&near, tenant))
        rc = kiln_suggest_refuse(&near, 0, "quota of a tenant", tenant, &err);
    kiln_suggest_release(&near);
    if (rc == 0 && !kiln_confirm(cli, yes, question))
        return EX_USAGE;
    if (rc == 0)
        rc = kiln_ledger_quota_remove(ledger, kiln_pool(cli), tenant, &err);
    if (rc)
        return kiln_report(cli, &err);
    kiln_say(cli, "Removed the quota of tenant %s", tenant);
    return cli->json ? kiln_print_json(cli, json_pack("{s:s}", "removed", tenant)) : 0;
}

int kiln_verb_quota(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct kiln_ledger *ledger = NULL;
    const char *what = args->rest[0], *tenant = args->rest_count == 2 ? args->rest[1] : NULL;
    bool put = strcmp(what, "set") == 0, ls = strcmp(what, "ls") == 0;
    if (!put && !ls && strcmp(what, "rm") != 0)
        return kiln_usage(cli, "unknown subcommand '%.40s'; use set, ls or rm", what);
    if (ls == (tenant != NULL))
        return kiln_usage(cli, ls ? "`quota ls` takes no name: it lists all quotas"
                                  : "name the tenant, or '*' for all without a quota of their own");
    bool yes = kiln_arg(args, "yes") != NULL, limits = args->given_count > (yes ? 1 : 0);
    if (put != limits)
        return kiln_usage(cli,
                          put ? "give a limit: --queued N, --gpu-seconds-day S or --reuse off"
                              : "--queued, --gpu-seconds-day and --reuse are only for `quota set`");
    if (tenant && strcmp(tenant, KILN_TENANT_ANY) != 0 &&
        !kiln_name_valid(tenant, strlen(tenant), KILN_NAME_MAX))
        return kiln_usage(cli, "'%.80s' is not a tenant's name: " KILN_NAME_RULE, tenant);
    if (put && kiln_name_reserved(tenant))
        return kiln_usage(cli, "'%s' is not a tenant's name: " KILN_NAMES_RESERVED, tenant);
    enum kiln_teleport unused; /* a wrong word is told before a server is asked */
    int status = put ? read_teleport(cli, args, &unused) : 0;
    if (status)
        return status;
    if (ls ? kiln_open_reader(cli, &ledger, &err) : kiln_open_ledger(cli, &ledger, &err))
        return kiln_report(cli, &err);
    status = put  ? set(cli, ledger, args, tenant)
             : ls ? list(cli, ledger)
                  : remove_quota(cli, ledger, tenant, yes);
    kiln_ledger_close(ledger);
    return status;
}
