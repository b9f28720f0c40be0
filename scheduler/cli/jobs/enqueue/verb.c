/* verb.c - the command line of `enqueue` and `run`, and what they print of a sent file. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/jobs/enqueue/enqueue.h"
#include "storage/formats/pictures/picture_write.h"

const struct kiln_option kiln_enqueue_options[] = {
    {"batch", "NAME", "name of the batch (the file's name); repeating it adds only new jobs"},
    {"set", "KEY=VALUE", "set this key of every job, overriding its line; may be repeated"},
    {"format", "FORMAT", "jsonl, text or csv (by the file's name or first byte)"},
    {"dry-run", NULL, "print the jobs and their estimated cost; send nothing"},
    {"strict", NULL, "send nothing if any line is refused"},
    {"allow-empty", NULL, "also take lines with an empty prompt"},
    {"no-wait", NULL, "do not wait for the scheduler's receipt"},
    {NULL, NULL, NULL},
};

int kiln_enqueue_read_args(struct kiln_cli *cli, const struct kiln_args *args,
                           struct kiln_set *sets, struct kiln_enqueue_request *ret)
{
    const char *format = kiln_arg(args, "format");
    *ret = (struct kiln_enqueue_request){.batch = kiln_arg(args, "batch"),
                                         .sets = sets,
                                         .dry_run = kiln_arg(args, "dry-run") != NULL,
                                         .strict = kiln_arg(args, "strict") != NULL,
                                         .allow_empty = kiln_arg(args, "allow-empty") != NULL,
                                         .no_wait = kiln_arg(args, "no-wait") != NULL,
                                         .on_done = kiln_arg(args, "on-done")};
    for (int i = 0; i < args->given_count; i++)
        if (strcmp(args->given[i].option->name, "set") == 0)
            sets[ret->set_count++] = (struct kiln_set){"set", args->given[i].value};
    int known = format ? kiln_format_by_name(format) : KILN_FORMAT_AUTO;
    if (known < 0 && (strcmp(format, "openai") == 0 || kiln_picture_format_by_name(format) >= 0))
        return kiln_usage(cli,
                          "--format here is that of FILE: jsonl, text or csv; `kiln export BATCH "
                          "--format %s` writes such files",
                          format);
    if (known < 0)
        return kiln_usage(cli, "--format %.32s: use jsonl, text or csv", format);
    ret->format = (enum kiln_format)known;
    return 0;
}

static json_t *refusals_json(const struct kiln_enqueue_result *result)
{
    json_t *list = json_array();
    for (size_t i = 0; i < result->refusal_count; i++) {
        const struct kiln_refusal *refusal = &result->refusals[i];
        json_t *line = refusal->line ? json_integer((json_int_t)refusal->line) : json_null();
        json_array_append_new(
            list, json_pack("{s:o, s:o}", "line", line, "error",
                            json_stringn_nocheck(refusal->error, strlen(refusal->error))));
    }
    return list;
}

static json_t *count_json(bool known, uint64_t count)
{
    return known ? json_integer((json_int_t)count) : json_null();
}

int kiln_enqueue_print(const struct kiln_cli *cli, const struct kiln_enqueue_result *result)
{
    if (!cli->json) {
        if (result->sent > 0)
            printf("%s\n", result->batch);
        return 0;
    }
    bool counted = result->receipted || result->sent == 0;
    json_t *batch = result->sent > 0 ? json_string(result->batch) : json_null();
    return kiln_print_json(cli, json_pack("{s:o, s:o, s:o, s:o, s:o}", "batch", batch, "accepted",
                                          count_json(counted, result->accepted), "duplicate",
                                          count_json(counted, result->duplicate), "gone",
                                          json_integer((json_int_t)result->gone), "refused",
                                          refusals_json(result)));
}

int kiln_enqueue_print_plan(const struct kiln_cli *cli, const struct kiln_enqueue_result *result)
{
    if (!cli->json) {
        kiln_plan_print(cli, &result->plan);
        if (result->compared)
            printf("batch %s: %" PRIu64 " new (about %s), %" PRIu64 " unchanged, %" PRIu64
                   " gone from the file\n",
                   result->batch, result->accepted, KILN_SECONDS(result->plan.new_gpu_seconds),
                   result->duplicate, result->gone);
        return 0;
    }
    json_t *plan = kiln_plan_json(&result->plan);
    if (plan) {
        json_object_set_new(plan, "batch", json_string(result->batch));
        json_object_set_new(plan, "new", count_json(result->compared, result->accepted));
        json_object_set_new(plan, "unchanged", count_json(result->compared, result->duplicate));
        json_object_set_new(plan, "gone", count_json(result->compared, result->gone));
        json_object_set_new(plan, "refused", refusals_json(result));
    }
    return kiln_print_json(cli, plan);
}
