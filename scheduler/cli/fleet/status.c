/* status.c - `kiln status` and `kiln workers`: one look at the fleet, in lines or as JSON. */
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/control.h"
#include "scheduler/cli/fleet/snapshot.h"

#define GROUPS_SHOWN 20
#define BACKLOG_SHOWN 40

/* The largest first; a fleet with thousands of LoRA sets has thousands of groups. */
static void print_groups(const struct kiln_snapshot *look)
{
    size_t i, total = json_array_size(look->groups);
    json_t *group;
    /* What the numbers leave of a narrow terminal; the name of a group is then cut in its middle.
     */
    int room = look->cli->columns == 0 || look->cli->columns >= 80 ? 44 : look->cli->columns - 35;
    room = room > 20 ? room : 20;
    json_array_foreach(look->groups, i, group)
    {
        if (i == GROUPS_SHOWN) {
            printf("  and %zu groups more\n", total - i);
            break;
        }
        struct kiln_text name = {0};
        kiln_text_cell(&name, look->cli->columns,
                       json_string_value(json_object_get(group, "group")), room);
        kiln_print_fit(look->cli, KILN_CUT, "  %s  %8lld queued %6lld assigned", name.at,
                       (long long)json_integer_value(json_object_get(group, "queued")),
                       (long long)json_integer_value(json_object_get(group, "assigned")));
        kiln_text_release(&name);
    }
}

static void print_look(const struct kiln_snapshot *look)
{
    char text[KILN_COUNTS_TEXT_MAX];
    kiln_print_fit(look->cli, 4, "pool %s: %s", kiln_pool(look->cli),
                   kiln_counts_text(&look->counts, text, sizeof text));
    kiln_troubles_print(look->cli, &look->troubles);
    size_t i;
    json_t *pause;
    json_array_foreach(look->pauses, i, pause)
    {
        kiln_print_fit(look->cli, 8, "paused: %s",
                       json_string_value(json_object_get(pause, "text")));
    }
    if (look->intake)
        printf("%llu %s wait in the intake stream\n", (unsigned long long)look->intake,
               look->intake == 1 ? "entry" : "entries");
    if (look->bus.code)
        puts("unavailable while Redis is down: live workers, the length of the intake stream");
    else
        kiln_roster_print(look->cli, &look->roster, false);
    if (json_array_size(look->groups))
        puts("groups:");
    print_groups(look);
}

/* --- status --groups: as the leader sees them, the largest first -------------------------------
 */

static long long integer(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

static void print_backlog(const struct kiln_cli *cli, const json_t *answer)
{
    const json_t *groups = json_object_get(answer, "groups"), *group;
    long long total = integer(answer, "groups_total");
    size_t i;
    printf("%lld jobs queued in %lld groups, %lld of them in backoff; %s of GPU time for %lld "
           "workers\n",
           integer(answer, "waiting"), total, integer(answer, "sleeping"),
           KILN_SECONDS(json_number_value(json_object_get(answer, "backlog_s"))),
           integer(answer, "workers"));
    if (integer(answer, "holds") > 0)
        puts("paused jobs are not counted; `kiln status` lists the pauses");
    if (total > 0)
        printf("  GPU-seconds    queued  holders  size\n");
    json_array_foreach(groups, i, group)
    {
        if (i == BACKLOG_SHOWN)
            break;
        const char *loras = json_string_value(json_object_get(group, "loras"));
        const char *model = json_string_value(json_object_get(group, "model"));
        const char *mode = json_string_value(json_object_get(group, "mode"));
        bool exact = !mode || strcmp(mode, kiln_mode_shown("")) == 0;
        char skipped[32] = "";
        if (integer(group, "skip") > 0)
            snprintf(skipped, sizeof skipped, ", %lld skipped", integer(group, "skip"));
        kiln_print_fit(cli, KILN_CUT,
                       "  %11.1f  %8lld  %7lld  %5lldx%-5lld %2lld steps%s  %s%s%s%s%s",
                       json_number_value(json_object_get(group, "backlog_s")),
                       integer(group, "queued"), integer(group, "holders"), integer(group, "width"),
                       integer(group, "height"), integer(group, "steps"), skipped,
                       loras && loras[0] ? loras : "no LoRA", exact ? "" : ", ", exact ? "" : mode,
                       model && model[0] ? ", model " : "", model ? model : "");
    }
    if (total > BACKLOG_SHOWN)
        printf("  and %lld groups more\n", total - BACKLOG_SHOWN);
}

static int status_groups(struct kiln_cli *cli)
{
    struct kiln_error err;
    json_t *answer;
    if (kiln_query(cli, (struct kiln_control){0}, &answer, &err))
        return kiln_report(cli, &err);
    if (!answer) {
        kiln_say(cli,
                 "no scheduler of pool %s answered within two seconds; `kiln doctor` checks "
                 "whether one leads",
                 kiln_pool(cli));
        return EX_TEMPFAIL;
    }
    if (cli->json)
        return kiln_print_json(cli, answer);
    print_backlog(cli, answer);
    json_decref(answer);
    return 0;
}

/* --- the verbs ---------------------------------------------------------------------------------
 */

int kiln_verb_status(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct kiln_snapshot look;
    int status = 0;
    if (kiln_arg(args, "groups"))
        return status_groups(cli);
    if (kiln_snapshot_take_known(cli, &look, &err))
        return kiln_report(cli, &err);
    if (cli->json)
        status = kiln_print_json(cli, kiln_snapshot_json(&look));
    else
        print_look(&look);
    if (look.bus.code)
        status = kiln_report(cli, &look.bus);
    kiln_snapshot_release(&look);
    return status;
}

static int print_json_lines(struct kiln_cli *cli, const struct kiln_roster *roster)
{
    json_t *list = kiln_roster_json(roster, true), *worker;
    size_t i;
    int status = 0;
    json_array_foreach(list, i, worker)
    {
        if (status == 0)
            status = kiln_print_json(cli, json_incref(worker));
    }
    json_decref(list);
    return status;
}

/* With --json, lines of workers alone.  A row says what its worker reports; what else is in the
 * way, and what to do, goes to stderr. */
int kiln_verb_workers(struct kiln_cli *cli, const struct kiln_args *args)
{
    (void)args;
    struct kiln_error err;
    struct kiln_snapshot look;
    int status = 0;
    if (kiln_snapshot_take_known(cli, &look, &err))
        return kiln_report(cli, &err);
    if (look.bus.code)
        status = kiln_report(cli, &look.bus);
    else if (cli->json)
        status = print_json_lines(cli, &look.roster);
    else
        kiln_roster_print(cli, &look.roster, true);
    if (look.bus.code == 0 && look.roster.count == 0)
        kiln_say(cli, "no worker of pool %s was ever seen", kiln_pool(cli));
    if (look.bus.code == 0)
        kiln_troubles_remark(cli, &look.troubles);
    kiln_snapshot_release(&look);
    return status;
}
