/* groups.c - the groups with their backlog in GPU-seconds, the largest first. */
#include "scheduler/cli/fleet/groups.h"

#include <stdio.h>
#include <sysexits.h>

#include "scheduler/cli/fleet/ask.h"

#define GROUPS_SHOWN 40

static long long whole(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

static void print_group(const json_t *group)
{
    const char *loras = json_string_value(json_object_get(group, "loras"));
    const char *model = json_string_value(json_object_get(group, "model"));
    printf("  %11.1f  %8lld  %7lld  %5lldx%-5lld %2lld steps  %s%s%s\n",
           json_number_value(json_object_get(group, "backlog_s")), whole(group, "queued"),
           whole(group, "holders"), whole(group, "width"), whole(group, "height"),
           whole(group, "steps"), loras && loras[0] ? loras : "no LoRA",
           model && model[0] ? ", model " : "", model ? model : "");
}

static void print_groups(const json_t *answer)
{
    const json_t *groups = json_object_get(answer, "groups"), *group;
    char backlog[32];
    long long total = whole(answer, "groups_total");
    size_t i;
    printf(
        "%lld jobs wait in %lld groups, %lld of them back off; %s of GPU time for %lld workers\n",
        whole(answer, "waiting"), total, whole(answer, "sleeping"),
        kiln_seconds_text(json_number_value(json_object_get(answer, "backlog_s")), backlog,
                          sizeof backlog),
        whole(answer, "workers"));
    if (whole(answer, "holds") > 0)
        puts("what is held back is not among them: `kiln status` says what is");
    if (total > 0)
        printf("  GPU-seconds    queued  holders  size\n");
    json_array_foreach(groups, i, group)
    {
        if (i == GROUPS_SHOWN)
            break;
        print_group(group);
    }
    if (total > GROUPS_SHOWN)
        printf("  and %lld groups more\n", total - GROUPS_SHOWN);
}

int kiln_status_groups(struct kiln_cli *cli)
{
    struct kiln_error err;
    json_t *answer;
    if (kiln_ask(cli, 0, &answer, &err))
        return kiln_report(cli, &err);
    if (!answer) {
        kiln_say(cli,
                 "no scheduler of pool %s has answered within two seconds: does one lead? "
                 "`kiln doctor`",
                 kiln_pool(cli));
        return EX_TEMPFAIL;
    }
    if (cli->json)
        return kiln_print_json(cli, answer);
    print_groups(answer);
    json_decref(answer);
    return 0;
}
