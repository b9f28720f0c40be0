/* backfill_add.c - `kiln backfill add`: reads the prompts, counts their jobs, stores the backfill.
 *
 * Lines are checked here as the scheduler will read them, and stored as given: a template of a
 * million prompts is one line.  The backfill is inactive until its last line is stored, so an
 * addition that was cut off renders nothing.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/core/times.h"
#include "scheduler/cli/fleet/backfill.h"
#include "scheduler/cli/fleet/pause.h"
#include "scheduler/cli/jobs/enqueue/prompts.h"
#include "scheduler/intake/window.h"
#include "schemas/clock.h"
#include "schemas/names.h"
#include "schemas/room.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/queue/backfill.h"

#define MARK_DEFAULT 100
#define PASS_JOBS_MAX ((uint64_t)KILN_BATCH_JOBS_MAX)
#define PAGE_LINES 1000
#define PAGE_BYTES (4 * 1024 * 1024)

struct addition {
    struct kiln_cli *cli;
    struct kiln_backfill_spec spec;
    struct kiln_prompts prompts;
    struct kiln_backfill_line *lines;
    size_t line_count, line_room;
    bool dry_run;
};

/* --- options ---------------------------------------------------------------------------------- */
/* "30/h": a number above 0 of jobs an hour. */
static int read_rate(struct kiln_cli *cli, const char *text, double *ret)
{
    char *end;
    if (!text)
        return 0;
    double rate = text[0] >= '0' && text[0] <= '9' ? strtod(text, &end) : -1;
    if (rate < 0 || strcmp(end, "/h") != 0 || !isfinite(rate) || rate > 1e9)
        return kiln_usage(cli, "--rate '%.40s' is not a number of jobs an hour, such as 30/h",
                          text);
    if (rate == 0)
        return kiln_usage(cli,
                          "--rate 0 would never render anything; use `kiln backfill pause` to stop "
                          "for a while");
    *ret = rate;
    return 0;
}

/* A count of jobs, a date in UTC, or a span from now on. */
static int read_until(struct kiln_cli *cli, const char *text, struct kiln_backfill_spec *spec)
{
    int64_t now_ms = kiln_wall_ms(), span_s;
    if (!text)
        return 0;
    if (text[0] && strspn(text, "0123456789") == strlen(text)) {
        spec->until_jobs = strlen(text) <= 10 ? strtoull(text, NULL, 10) : 0;
        if (spec->until_jobs == 0)
            return kiln_usage(cli, "--until %.40s is not a number of jobs from 1 to 9999999999",
                              text);
        return 0;
    }
    if (kiln_duration_parse(text, &span_s)) {
        spec->until_ms = now_ms + span_s * 1000;
        return 0;
    }
    if (!kiln_moment_parse(text, now_ms, &spec->until_ms))
        return kiln_usage(
            cli,
            "--until '%.40s' is not a number of jobs, a date or time in UTC (2026-12-24, "
            "2026-12-24T18:00), nor a span from now on (7d)",
            text);
    if (spec->until_ms <= now_ms)
        return kiln_usage(cli, "--until %.40s is in the past", text);
    return 0;
}

static int read_sets(struct addition *addition, const struct kiln_args *args)
{
    struct kiln_prompts *prompts = &addition->prompts;
    kiln_prompts_sets(prompts, args);
    for (size_t i = 0; i < prompts->set_count; i++) {
        const struct kiln_set *set = &prompts->sets[i];
        if (strcmp(set->option, "set") == 0 && (strncmp(set->value, "priority=", 9) == 0 ||
                                                strncmp(set->value, "max_wait_s=", 11) == 0))
            return kiln_usage(addition->cli,
                              "--set %.40s: a backfill has the lowest priority and no deadline",
                              set->value);
    }
    return 0;
}

static int read_options(struct addition *addition, const struct kiln_args *args, const char *name)
{
    struct kiln_cli *cli = addition->cli;
    struct kiln_backfill_spec *spec = &addition->spec;
    const char *hours = kiln_arg(args, "window"), *seeds = kiln_arg(args, "seed-policy");
    struct kiln_window window = {-1, -1};
    struct kiln_error err;
    if (!kiln_name_valid(name, strlen(name), KILN_NAME_MAX))
        return kiln_usage(cli, "'%.80s' is not a backfill's name: at most %d " KILN_NAME_RULE, name,
                          KILN_NAME_MAX);
    snprintf(spec->name, sizeof spec->name, "%s", name);
    kiln_user_name(spec->who, sizeof spec->who);
    addition->dry_run = kiln_arg(args, "dry-run") != NULL;
    int status = kiln_prompts_check(cli, args);
    if (status == 0)
        status = read_rate(cli, kiln_arg(args, "rate"), &spec->rate);
    if (status == 0)
        status = read_until(cli, kiln_arg(args, "until"), spec);
    long mark, hour = (long)fmin(fmax(ceil(spec->rate), 1), 1e6); /* what an hour may bring */
    if (status == 0)
        status = kiln_arg_int(cli, args, "low-water", 1, 1000000,
                              spec->rate > 0 ? hour : MARK_DEFAULT, &mark);
    if (status)
        return status;
    spec->mark = (uint64_t)mark;
    if (hours && kiln_window_parse(hours, &window, &err))
        return kiln_usage(cli, "--window: %s", err.text);
    spec->window_from = window.from;
    spec->window_to = window.to;
    spec->seed_fixed = seeds && strcmp(seeds, "fixed") == 0;
    if (seeds && !spec->seed_fixed && strcmp(seeds, "fresh") != 0)
        return kiln_usage(cli,
                          "--seed-policy %.40s is neither fresh (new seeds in every pass) nor "
                          "fixed (one pass with the seeds of the job lines)",
                          seeds);
    return read_sets(addition, args);
}

/* --- lines ------------------------------------------------------------------------------------ */
static int keep_line(void *arg, const char *text, size_t len, struct kiln_error *err)
{
    struct addition *addition = arg;
    if (addition->line_count == KILN_BACKFILL_LINES_MAX)
        return kiln_fail(err, KILN_FULL, "a backfill has at most %d prompts; add a second one",
                         KILN_BACKFILL_LINES_MAX);
    struct kiln_backfill_line *lines =
        kiln_room(addition->lines, addition->line_count, &addition->line_room, sizeof *lines);
    char *copy = lines ? strndup(text, len) : NULL;
    addition->lines = lines ? lines : addition->lines;
    if (!copy)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the prompts");
    uint64_t jobs = kiln_expand_count(addition->prompts.expand);
    addition->lines[addition->line_count++] =
        (struct kiln_backfill_line){.first = addition->spec.pass_jobs, .jobs = jobs, .line = copy};
    addition->spec.pass_jobs += jobs;
    return 0;
}

static int read_lines(struct addition *addition, const struct kiln_args *args,
                      struct kiln_error *err)
{
    int rc = kiln_prompts_open(addition->cli, args, &addition->prompts, err);
    if (rc == 0)
        rc = kiln_prompts_each(&addition->prompts, keep_line, addition, err);
    if (rc)
        return rc;
    unsigned long long jobs = addition->spec.pass_jobs;
    kiln_say(addition->cli, "one pass: %zu prompt%s, %llu job%s", addition->line_count,
             addition->line_count == 1 ? "" : "s", jobs, jobs == 1 ? "" : "s");
    if (addition->spec.pass_jobs > PASS_JOBS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "the prompts make %llu jobs a pass, the limit is %llu; use smaller "
                         "templates, or a second backfill",
                         jobs, (unsigned long long)PASS_JOBS_MAX);
    return 0;
}

/* --- keeping ---------------------------------------------------------------------------------- */
static int keep(struct addition *addition, struct kiln_error *err)
{
    struct kiln_cli *cli = addition->cli;
    struct kiln_backfill_spec *spec = &addition->spec;
    struct kiln_ledger *ledger = NULL;
    struct kiln_error ignored;
    bool left;
    uint64_t id = 0;
    const struct kiln_enqueue_context *context = &addition->prompts.context;
    spec->overrides = context->overrides ? context->overrides : "";
    spec->width = context->job.width;
    spec->height = context->job.height;
    int rc = kiln_open_ledger(cli, &ledger, err);
    if (rc == 0)
        rc = kiln_ledger_backfill_add(ledger, kiln_pool(cli), spec, &id, err);
    if (rc == 0) {
        for (size_t at = 0; at < addition->line_count && rc == 0;) {
            size_t count = 0, bytes = 0;
            while (at + count < addition->line_count && count < PAGE_LINES && bytes < PAGE_BYTES)
                bytes += strlen(addition->lines[at + count++].line);
            rc = kiln_ledger_backfill_lines(ledger, id, addition->lines + at, count, err);
            at += count;
        }
        if (rc && kiln_ledger_backfill_remove(ledger, kiln_pool(cli), spec->name, &left, &ignored))
            kiln_warn(cli,
                      "only a part of the backfill is in the ledger, and it renders nothing; "
                      "remove it with "
                      "`kiln backfill rm %s`",
                      spec->name);
    }
    kiln_ledger_close(ledger);
    return rc;
}

static int print_result(const struct addition *addition)
{
    const struct kiln_backfill_spec *spec = &addition->spec;
    char batch[KILN_BATCH_NAME_MAX + 1];
    snprintf(batch, sizeof batch, KILN_BACKFILL_BATCH "%s", spec->name);
    if (addition->cli->json)
        return kiln_print_json(
            addition->cli, json_pack("{s:s, s:s, s:I, s:I, s:I, s:b}", "order", spec->name, "batch",
                                     batch, "prompts", (json_int_t)addition->line_count,
                                     "pass_jobs", (json_int_t)spec->pass_jobs, "mark",
                                     (json_int_t)spec->mark, "dry_run", (int)addition->dry_run));
    if (!addition->dry_run)
        printf("%s\n", spec->name);
    return 0;
}

int kiln_backfill_add(struct kiln_cli *cli, const struct kiln_args *args, const char *name)
{
    struct kiln_error err;
    struct addition *addition = calloc(1, sizeof *addition);
    if (!addition) {
        kiln_fail(&err, KILN_NO_MEMORY, "no memory for a backfill");
        return kiln_report(cli, &err);
    }
    addition->cli = cli;
    int status = read_options(addition, args, name);
    if (status == 0) {
        int rc = read_lines(addition, args, &err);
        if (rc == 0 && !addition->dry_run)
            rc = keep(addition, &err);
        status = rc ? kiln_prompts_report(cli, &addition->prompts, &err) : print_result(addition);
    }
    for (size_t i = 0; i < addition->line_count; i++)
        free((char *)addition->lines[i].line);
    free(addition->lines);
    kiln_prompts_release(&addition->prompts);
    free(addition);
    return status;
}
