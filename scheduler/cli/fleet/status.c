/* status.c - `kiln status` and `kiln workers`: one look at the fleet, in lines or as JSON. */
#include <stdio.h>

#include "scheduler/cli/core/shown.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/groups.h"
#include "scheduler/cli/fleet/look.h"

#define GROUPS_SHOWN 20

/* The largest first; a fleet with thousands of LoRA sets has thousands of groups. */
static void print_groups(const struct kiln_look *look)
{
    size_t i, total = json_array_size(look->groups);
    json_t *group;
    json_array_foreach(look->groups, i, group)
    {
        if (i == GROUPS_SHOWN) {
            printf("  and %zu groups more\n", total - i);
            break;
        }
        printf("  %-28s  %8lld queued %6lld assigned\n",
               json_string_value(json_object_get(group, "group")),
               (long long)json_integer_value(json_object_get(group, "queued")),
               (long long)json_integer_value(json_object_get(group, "assigned")));
    }
}

static void print_look(const struct kiln_look *look)
{
    printf("pool %s: ", kiln_pool(look->cli));
    kiln_counts_print(&look->counts);
    if (!look->led)
        puts("no scheduler leads this pool: nothing is handed out");
    size_t i;
    json_t *hold;
    json_array_foreach(look->holds, i, hold)
    {
        fputs("held: ", stdout);
        kiln_print_shown(json_string_value(json_object_get(hold, "text")));
        putchar('\n');
    }
    if (look->intake)
        printf("%llu lines wait in the intake stream\n", (unsigned long long)look->intake);
    if (look->bus.code)
        puts("not known, since Redis would tell: live workers, lines in the intake stream");
    else if (look->roster.live == 0)
        puts("no worker is alive");
    else
        kiln_roster_print(look->cli, &look->roster, false);
    if (json_array_size(look->groups))
        puts("groups:");
    print_groups(look);
}

int kiln_verb_status(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    struct kiln_error err;
    struct kiln_look look;
    int status = kiln_args_parse(cli, argc, argv, 0, 0, &args);
    if (status)
        return status;
    if (kiln_arg(&args, "groups"))
        return kiln_status_groups(cli);
    if (kiln_look_known(cli, &look, &err))
        return kiln_report(cli, &err);
    if (cli->json)
        status = kiln_print_json(cli, kiln_look_json(&look));
    else
        print_look(&look);
    if (look.bus.code)
        status = kiln_report(cli, &look.bus);
    kiln_look_release(&look);
    return status;
}

int kiln_verb_workers(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    struct kiln_error err;
    struct kiln_roster roster;
    int status = kiln_args_parse(cli, argc, argv, 0, 0, &args);
    if (status)
        return status;
    if (kiln_roster_load(cli, &roster, &err))
        return kiln_report(cli, &err);
    if (cli->json)
        status = kiln_print_json(cli, kiln_roster_json(&roster, true));
    else
        kiln_roster_print(cli, &roster, true);
    kiln_roster_release(&roster);
    return status;
}
