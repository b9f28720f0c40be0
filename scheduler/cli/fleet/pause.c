/* pause.c - `kiln pause` and `kiln resume`.
 *
 * The pause is in the ledger before the scheduler is notified, and the scheduler also reads it
 * there, so none is lost.  If two people give opposite commands at once, the later one wins, and
 * its output shows the state before.  The earlier one reads the ledger again after a moment and
 * says who overruled it.
 */
#include "scheduler/cli/fleet/pause.h"
#include "scheduler/cli/fleet/trouble.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/control.h"
#include "scheduler/pauses.h"
#include "schemas/limits.h"
#include "schemas/names.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/queue/quota.h"
#include "storage/ledger/read/read.h"

#define SECOND_LOOK_S 0.3
#define OVERRULED 1

void kiln_user_name(char *out, size_t size)
{
    char host[65] = "?";
    const struct passwd *entry = getpwuid(geteuid());
    gethostname(host, sizeof host - 1);
    snprintf(out, size, "%s@%s", entry ? entry->pw_name : "?", host);
}

/* --- known names ------------------------------------------------------------------- */
struct known {
    struct kiln_suggest near;
    enum kiln_pause_scope scope;
    const char *name;
    bool of_held; /* the near ones are those that are held, not those that have jobs */
    bool answers; /* a job falls under it, or it is held */
};

static int add_held(void *arg, const struct kiln_pause *pause, struct kiln_error *err)
{
    struct known *known = arg;
    if (!pause->held || pause->scope != known->scope)
        return 0;
    if (strcmp(pause->name, known->name) == 0)
        known->answers = true;
    else if (known->of_held)
        return kiln_suggest_add(&known->near, pause->name, err);
    return 0;
}

static int add_tenant(void *arg, const char *name, struct kiln_error *err)
{
    struct known *known = arg;
    known->answers = known->answers || strcmp(name, known->name) == 0;
    return kiln_suggest_add(&known->near, name, err);
}

static int add_quota(void *arg, const struct kiln_quota *quota, struct kiln_error *err)
{
    struct known *known = arg;
    (void)err;
    known->answers = known->answers || strcmp(quota->tenant, known->name) == 0;
    return 0;
}

static int add_group(void *arg, const struct kiln_group_row *group, struct kiln_error *err)
{
    struct known *known = arg;
    char name[KILN_PAUSE_NAME_MAX + 1];
    const struct kiln_policy_job job = {.model = group->model,
                                        .lora_set = group->lora_set,
                                        .width = group->width,
                                        .height = group->height,
                                        .steps = group->steps,
                                        .mode = group->mode};
    known->answers = known->answers || kiln_group_matches(known->name, &job);
    kiln_group_of(&job, name, sizeof name);
    return kiln_suggest_add(&known->near, name, err);
}

/* Warns of a name that may be a typing mistake.  A pause may come before its jobs, and a script
 * must not race with the last of them, so an unknown name is paused as well.  Whoever resumes a
 * name that is not paused may have meant another one, which stays paused. */
static int warn_of_name(struct kiln_cli *cli, struct kiln_ledger *ledger,
                        enum kiln_pause_scope scope, const char *name, bool held,
                        struct kiln_error *err)
{
    struct known known = {.scope = scope, .name = name, .of_held = !held};
    const char *pool = kiln_pool(cli);
    char list[KILN_SUGGEST_LIST_MAX];
    bool tenant = scope == KILN_SCOPE_TENANT;
    if (!tenant && scope != KILN_SCOPE_GROUP)
        return 0;
    int rc = kiln_ledger_pauses(ledger, pool, true, add_held, &known, err);
    if (rc == 0 && held && tenant)
        rc = kiln_ledger_tenants(ledger, pool, add_tenant, &known, err);
    if (rc == 0 && held && tenant)
        rc = kiln_ledger_quotas(ledger, pool, add_quota, &known, err);
    if (rc == 0 && held && !tenant)
        rc = kiln_ledger_groups(ledger, pool, add_group, &known, err);
    if (rc == 0 && !known.answers) {
        bool any = kiln_suggest_list(&known.near, name, list, sizeof list);
        if (held)
            kiln_warn(cli, "%s '%s' has no %s%s%s", tenant ? "tenant" : "group", name,
                      tenant ? "jobs yet" : "queued or assigned jobs yet", any ? "; " : "", list);
        else if (any)
            kiln_warn(cli, "'%s' is not paused; of the paused names %s", name, list);
    }
    kiln_suggest_release(&known.near);
    return rc;
}

/* --- setting it --------------------------------------------------------------------------------
 */
struct search {
    const struct kiln_pause *mine;
    struct kiln_pause found;
};

static int find_mine(void *arg, const struct kiln_pause *pause, struct kiln_error *err)
{
    struct search *search = arg;
    (void)err;
    if (pause->scope == search->mine->scope && strcmp(pause->name, search->mine->name) == 0)
        search->found = *pause;
    return 0;
}

static void say_result(const struct kiln_cli *cli, const struct kiln_pause *mine,
                       const struct kiln_pause *before, const struct kiln_pause *now)
{
    static const char *const words[KILN_SCOPE_COUNT] = {
        "everything", "all backfill",   "backfill ",    "tenant ",
        "group ",     "the window of ", "the quota of "};
    char what[KILN_PAUSE_NAME_MAX + 32], at[64];
    snprintf(what, sizeof what, "%s%s", words[mine->scope], mine->name); /* "tenant bob" */
    kiln_time_text(before->at_ms, at, sizeof at);
    const char *was = before->held ? "paused" : "resumed";
    if (before->who[0] && before->held == mine->held)
        kiln_say(cli, "%s was already %s at %s by %s", what, was, at, before->who);
    else if (before->who[0])
        kiln_say(cli, "%s %s (%s at %s by %s)", mine->held ? "Paused" : "Resumed", what, was, at,
                 before->who);
    else if (mine->held)
        kiln_say(cli, "Paused %s; jobs that are already assigned still run", what);
    else
        kiln_say(cli, "there was no pause of %s", what);
    if (now->held != mine->held)
        kiln_warn(cli, "%s %s %s at the same time; the later command wins: it is %s", now->who,
                  now->held ? "paused" : "resumed", what, now->held ? "paused" : "not paused");
}

/* Repeating a pause keeps its first author, time and reason, unless it brings a new reason;
 * resuming what was never paused writes nothing.  The second look sees an opposite command in
 * between. */
static int record_unless_there(struct kiln_cli *cli, struct kiln_ledger *ledger,
                               const struct kiln_pause *mine, bool reasoned,
                               struct kiln_pause *ret_before, struct kiln_error *err)
{
    struct search search = {.mine = mine};
    int rc =
        reasoned ? 0 : kiln_ledger_pauses(ledger, kiln_pool(cli), true, find_mine, &search, err);
    *ret_before = search.found;
    bool there = search.found.held == mine->held && (search.found.who[0] || !reasoned);
    return rc || there ? rc : kiln_ledger_pause(ledger, kiln_pool(cli), mine, ret_before, err);
}

int kiln_pause_set(struct kiln_cli *cli, struct kiln_ledger *ledger, enum kiln_pause_scope scope,
                   const char *name, bool held, const char *reason)
{
    struct kiln_pause mine = {.scope = scope, .held = held}, before;
    struct kiln_control wake = {.kind = KILN_CONTROL_WAKE};
    struct kiln_error err;
    snprintf(mine.name, sizeof mine.name, "%s", name);
    snprintf(mine.reason, sizeof mine.reason, "%s", reason ? reason : "");
    kiln_user_name(mine.who, sizeof mine.who);
    int rc = record_unless_there(cli, ledger, &mine, reason != NULL, &before, &err);
    if (rc)
        return kiln_report(cli, &err);
    kiln_control_notify(cli, &wake);
    kiln_sleep_s(SECOND_LOOK_S);
    struct search search = {.mine = &mine, .found = mine};
    rc = kiln_ledger_pauses(ledger, kiln_pool(cli), true, find_mine, &search, &err);
    if (rc)
        return kiln_report(cli, &err);
    say_result(cli, &mine, &before, &search.found);
    int status = 0;
    if (cli->json) {
        char at[64];
        kiln_time_text(before.at_ms, at, sizeof at);
        json_t *was = before.who[0] ? json_pack("{s:b, s:s, s:s}", "held", (int)before.held, "who",
                                                before.who, "at", at)
                                    : json_null();
        status = kiln_print_json(cli, json_pack("{s:s, s:s, s:b, s:s, s:o}", "scope",
                                                kiln_scope_name(scope), "name", mine.name, "held",
                                                (int)search.found.held, "who", search.found.who,
                                                "before", was));
    }
    return status ? status : search.found.held != held ? OVERRULED : 0;
}

/* --- the verbs -------------------------------------------------------------------------------- */
/* One of the four at most, everything if none is named; the name of a group made whole. */
static int read_scope(struct kiln_cli *cli, const struct kiln_args *args,
                      enum kiln_pause_scope *ret_scope, char *name, size_t size)
{
    const char *tenant = kiln_arg(args, "tenant"), *group = kiln_arg(args, "group");
    bool all = kiln_arg(args, "all") != NULL, backfill = kiln_arg(args, "backfill") != NULL;
    struct kiln_error err;
    if (all + backfill + (tenant != NULL) + (group != NULL) > 1)
        return kiln_usage(cli, "give only one of --all, --backfill, --tenant T and --group G");
    *ret_scope = backfill ? KILN_SCOPE_BACKFILL
                 : tenant ? KILN_SCOPE_TENANT
                 : group  ? KILN_SCOPE_GROUP
                          : KILN_SCOPE_ALL;
    if (tenant && !kiln_name_valid(tenant, strlen(tenant), KILN_NAME_MAX))
        return kiln_usage(cli, "'%.80s' is not a tenant's name: " KILN_NAME_RULE, tenant);
    snprintf(name, size, "%s", tenant ? tenant : "");
    if (group && kiln_group_name(group, name, size, &err))
        return kiln_usage(cli, "%s", err.text);
    return 0;
}

/* --- those of people -------------------------------------------------------------------------- */
#define KEPT_MAX 5 /* pauses that a resume names */

struct kept {
    struct kiln_cli *cli;
    int count;
};

static void say_kept(void *arg, const char *text)
{
    struct kept *kept = arg;
    if (kept->count++ < KEPT_MAX)
        kiln_say(kept->cli, "still paused: %s", text);
}

/* What a resume does not end. */
static int say_rest(struct kiln_cli *cli, struct kiln_ledger *ledger, struct kiln_error *err)
{
    struct kept kept = {.cli = cli};
    int rc = kiln_troubles_pauses(cli, ledger, true, say_kept, &kept, err);
    if (rc == 0 && kept.count > KEPT_MAX)
        kiln_say(cli, "      and %d more; `kiln status` lists them", kept.count - KEPT_MAX);
    return rc;
}

int kiln_verb_pause(struct kiln_cli *cli, const struct kiln_args *args)
{
    bool held = strcmp(cli->verb->name, "pause") == 0; /* else resume */
    struct kiln_error err;
    struct kiln_ledger *ledger = NULL;
    enum kiln_pause_scope scope = KILN_SCOPE_ALL;
    char name[KILN_PAUSE_NAME_MAX + 1];
    int status = read_scope(cli, args, &scope, name, sizeof name);
    if (status)
        return status;
    char question[KILN_NAME_MAX + 80];
    snprintf(question, sizeof question, "No job of pool %s will be assigned until `kiln resume`.",
             kiln_pool(cli));
    if (held && scope == KILN_SCOPE_ALL &&
        !kiln_confirm(cli, kiln_arg(args, "yes") != NULL, question))
        return EX_USAGE;
    int rc = kiln_open_ledger(cli, &ledger, &err);
    if (rc == 0)
        rc = warn_of_name(cli, ledger, scope, name, held, &err);
    status = rc ? kiln_report(cli, &err)
                : kiln_pause_set(cli, ledger, scope, name, held, kiln_arg(args, "reason"));
    if (status == 0 && !held && say_rest(cli, ledger, &err))
        status = kiln_report(cli, &err);
    kiln_ledger_close(ledger);
    return status;
}

/* --- as JSON ---------------------------------------------------------------------------------- */
static int add_pause(void *arg, const struct kiln_pause *pause, struct kiln_error *err)
{
    char at[64], until[64], text[KILN_PAUSE_NAME_MAX + 512];
    (void)err;
    kiln_pause_text(pause, text, sizeof text);
    json_array_append_new(
        arg,
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s?, s:s}", "scope", kiln_scope_name(pause->scope),
                  "name", pause->name, "who", pause->who, "at",
                  kiln_time_text(pause->at_ms, at, sizeof at), "reason", pause->reason, "until",
                  pause->until_ms ? kiln_time_text(pause->until_ms, until, sizeof until) : NULL,
                  "text", text));
    return 0;
}

json_t *kiln_pauses_json(struct kiln_cli *cli, struct kiln_ledger *ledger, struct kiln_error *err)
{
    json_t *list = json_array();
    if (kiln_ledger_pauses(ledger, kiln_pool(cli), false, add_pause, list, err)) {
        json_decref(list);
        return NULL;
    }
    return list;
}
