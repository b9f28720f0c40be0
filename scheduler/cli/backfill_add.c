/* backfill_add.c - `kiln backfill add`: reads the prompts, counts what they make, keeps the order.
 *
 * Lines are checked here as the scheduler will read them, and kept as they were given: a template
 * of a million prompts is one line.  A refused line refuses the order, since what would be missing
 * from every pass should be known before the first.  The order goes in without its lines and is
 * asleep until the last of them is there, so an addition that was cut off draws nothing.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/backfill.h"
#include "scheduler/cli/duration.h"
#include "scheduler/cli/enqueue_context.h"
#include "scheduler/cli/hold.h"
#include "scheduler/cli/input_jobs.h"
#include "scheduler/cli/input_value.h"
#include "scheduler/cli/orders.h"
#include "scheduler/cli/since.h"
#include "scheduler/window.h"
#include "schemas/expand.h"
#include "schemas/names.h"
#include "storage/ledger.h"
#include "storage/ledger_backfill.h"

#define MARK_DEFAULT 100
#define PASS_JOBS_MAX ((uint64_t)KILN_BATCH_JOBS_MAX)
#define PAGE_LINES 1000
#define PAGE_BYTES (4 * 1024 * 1024)
#define REFUSALS_TOLD 20

struct addition {
    struct kiln_cli *cli;
    struct kiln_order_spec spec;
    const char *sets[KILN_GIVEN_MAX + 1];
    size_t set_count;
    struct kiln_enqueue_context context;
    struct kiln_expand *expand;
    struct kiln_order_line *lines;
    size_t line_count, line_room;
    uint64_t refused;
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
        return kiln_usage(cli, "--rate is '%.40s'; jobs an hour are needed, as in 30/h", text);
    if (rate == 0)
        return kiln_usage(cli, "--rate 0 would never draw anything; `kiln backfill pause` stops an "
                               "order for a while");
    *ret = rate;
    return 0;
}

/* A count of jobs, a date in UTC, or a span from now on. */
static int read_until(struct kiln_cli *cli, const char *text, struct kiln_order_spec *spec)
{
    int64_t now_ms = kiln_wall_ms(), span_s;
    if (!text)
        return 0;
    if (text[0] && strspn(text, "0123456789") == strlen(text)) {
        spec->until_jobs = strlen(text) <= 10 ? strtoull(text, NULL, 10) : 0;
        if (spec->until_jobs == 0)
            return kiln_usage(cli, "--until %.40s: a count from 1 to 9999999999 is needed", text);
        return 0;
    }
    if (kiln_duration_parse(text, &span_s)) {
        spec->until_ms = now_ms + span_s * 1000;
        return 0;
    }
    if (!kiln_since_parse(text, now_ms, &spec->until_ms))
        return kiln_usage(
            cli,
            "--until is '%.40s'; a number of jobs, a date or time in UTC (2026-12-24, "
            "2026-12-24T18:00) or a span from now on (7d) is needed",
            text);
    if (spec->until_ms <= now_ms)
        return kiln_usage(cli, "--until %.40s is over already", text);
    return 0;
}

static int read_mark(struct kiln_cli *cli, const struct kiln_args *args,
                     struct kiln_order_spec *spec)
{
    long mark;
    double hour = ceil(spec->rate); /* with a rate: what an hour may bring */
    long fallback = spec->rate > 0 ? (long)fmin(fmax(hour, 1), 1e6) : MARK_DEFAULT;
    int status = kiln_arg_int(cli, args, "low-water", 1, 1000000, fallback, &mark);
    spec->mark = (uint64_t)mark;
    return status;
}

static int read_window(struct kiln_cli *cli, const char *text, struct kiln_order_spec *spec)
{
    struct kiln_window window = {-1, -1};
    struct kiln_error err;
    if (text && kiln_window_parse(text, &window, &err))
        return kiln_usage(cli, "--window: %s", err.text);
    spec->window_from = window.from;
    spec->window_to = window.to;
    return 0;
}

static int read_seeds(struct kiln_cli *cli, const char *text, bool *ret_fixed)
{
    *ret_fixed = text && strcmp(text, "fixed") == 0;
    if (text && !*ret_fixed && strcmp(text, "fresh") != 0)
        return kiln_usage(cli,
                          "--seed-policy %.40s: it is fresh (new seeds in every pass) or "
                          "fixed (one pass with the seeds of the lines)",
                          text);
    return 0;
}

/* --loras is a --set of its own; who names a priority has not understood what backfill is. */
static int read_sets(struct addition *addition, const struct kiln_args *args, char *loras,
                     size_t size)
{
    for (int i = 0; i < args->given_count; i++) {
        const char *name = args->given[i].option->name, *value = args->given[i].value;
        if (strcmp(name, "loras") == 0) {
            snprintf(loras, size, "loras=%s", value);
            value = loras;
        } else if (strcmp(name, "set") != 0) {
            continue;
        }
        if (strncmp(value, "priority=", 9) == 0 || strncmp(value, "max_wait_s=", 11) == 0)
            return kiln_usage(addition->cli,
                              "--set %.40s: a standing order goes when nobody else wants the GPUs; "
                              "it has no priority and promises nothing",
                              value);
        addition->sets[addition->set_count++] = value;
    }
    return 0;
}

static int read_options(struct addition *addition, const struct kiln_args *args, const char *name,
                        char *loras, size_t size)
{
    struct kiln_cli *cli = addition->cli;
    struct kiln_order_spec *spec = &addition->spec;
    if (!kiln_name_valid(name, strlen(name), KILN_NAME_MAX))
        return kiln_usage(cli, "'%.80s' is no name of a standing order: at most %d " KILN_NAME_RULE,
                          name, KILN_NAME_MAX);
    if (!kiln_arg(args, "prompts") == !kiln_arg(args, "template"))
        return kiln_usage(cli, "name the prompts: --prompts FILE or --template TEXT");
    snprintf(spec->name, sizeof spec->name, "%s", name);
    kiln_who(spec->who, sizeof spec->who);
    addition->dry_run = kiln_arg(args, "dry-run") != NULL;
    int status = read_rate(cli, kiln_arg(args, "rate"), &spec->rate);
    if (status == 0)
        status = read_until(cli, kiln_arg(args, "until"), spec);
    if (status == 0)
        status = read_mark(cli, args, spec);
    if (status == 0)
        status = read_window(cli, kiln_arg(args, "window"), spec);
    if (status == 0)
        status = read_seeds(cli, kiln_arg(args, "seed-policy"), &spec->seed_fixed);
    return status ? status : read_sets(addition, args, loras, size);
}

/* --- lines ------------------------------------------------------------------------------------ */
/* KILN_BAD_INPUT refuses the line. */
static int take_line(struct addition *addition, const char *text, size_t len,
                     struct kiln_error *err)
{
    int rc = kiln_expand_begin(addition->expand, text, len, &addition->context.job, err);
    if (rc)
        return rc;
    if (addition->line_count == KILN_BACKFILL_LINES_MAX)
        return kiln_fail(err, KILN_FULL, "a standing order has %d prompts at most; make two of it",
                         KILN_BACKFILL_LINES_MAX);
    if (addition->line_count == addition->line_room) {
        size_t room = addition->line_room ? addition->line_room * 2 : 256;
        struct kiln_order_line *grown = realloc(addition->lines, room * sizeof *grown);
        if (!grown)
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for the prompts");
        addition->lines = grown;
        addition->line_room = room;
    }
    char *copy = strndup(text, len);
    if (!copy)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the prompts");
    uint64_t jobs = kiln_expand_count(addition->expand);
    addition->lines[addition->line_count++] =
        (struct kiln_order_line){.first = addition->spec.pass_jobs, .jobs = jobs, .line = copy};
    addition->spec.pass_jobs += jobs;
    return 0;
}

static void refuse(struct addition *addition, const char *file, uint64_t line,
                   const struct kiln_error *err)
{
    if (addition->refused++ < REFUSALS_TOLD)
        fprintf(stderr, "%s:%llu: %s\n", file, (unsigned long long)line, err->text);
}

static int read_file(struct addition *addition, const char *file, struct kiln_error *err)
{
    struct kiln_input *input = NULL;
    const char *text = "";
    int rc = kiln_input_open(file, KILN_FORMAT_AUTO, false, &input, err);
    while (rc == 0 && text) {
        size_t len;
        uint64_t line;
        rc = kiln_input_next(input, &text, &len, &line, err);
        if (rc == 0 && text)
            rc = take_line(addition, text, len, err);
        if (rc == KILN_BAD_INPUT) {
            refuse(addition, kiln_input_name(input), line, err);
            text = "";
            rc = 0;
        }
    }
    kiln_input_close(input);
    return rc;
}

static int read_template(struct addition *addition, const char *template, struct kiln_error *err)
{
    struct kiln_text line = {0};
    kiln_text_puts(&line, "{");
    kiln_input_member(KILN_JOB_KEY_PROMPT, template, strlen(template), &line);
    kiln_text_puts(&line, "}");
    int rc = line.failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for the template")
                         : take_line(addition, line.at, line.len, err);
    if (rc == KILN_BAD_INPUT) {
        refuse(addition, "template", 1, err);
        rc = 0;
    }
    kiln_text_release(&line);
    return rc;
}

static int read_lines(struct addition *addition, const struct kiln_args *args,
                      struct kiln_error *err)
{
    const char *file = kiln_arg(args, "prompts");
    int rc = kiln_enqueue_context_open(addition->cli->config, addition->sets, addition->set_count,
                                       &addition->context, err);
    addition->expand = kiln_expand_new();
    if (rc == 0 && !addition->expand)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory to read the prompts");
    if (rc == 0)
        rc = file ? read_file(addition, file, err)
                  : read_template(addition, kiln_arg(args, "template"), err);
    if (rc)
        return rc;
    if (addition->refused)
        return kiln_fail(err, KILN_BAD_INPUT, "prompts refused: %llu; the order was not added",
                         (unsigned long long)addition->refused);
    if (addition->spec.pass_jobs == 0)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: no prompts in it", file);
    kiln_say(addition->cli, "%zu prompts make %llu jobs a pass", addition->line_count,
             (unsigned long long)addition->spec.pass_jobs);
    if (addition->spec.pass_jobs > PASS_JOBS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "the prompts make %llu jobs a pass, %llu are allowed; make the templates "
                         "smaller, or two orders of them",
                         (unsigned long long)addition->spec.pass_jobs,
                         (unsigned long long)PASS_JOBS_MAX);
    return 0;
}

/* --- keeping ---------------------------------------------------------------------------------- */
static int keep_lines(struct addition *addition, struct kiln_ledger *ledger, uint64_t id,
                      struct kiln_error *err)
{
    int rc = 0;
    for (size_t at = 0; at < addition->line_count && rc == 0;) {
        size_t count = 0, bytes = 0;
        while (at + count < addition->line_count && count < PAGE_LINES && bytes < PAGE_BYTES)
            bytes += strlen(addition->lines[at + count++].line);
        rc = kiln_ledger_order_lines(ledger, id, addition->lines + at, count, err);
        at += count;
    }
    return rc;
}

static int keep(struct addition *addition, struct kiln_error *err)
{
    struct kiln_cli *cli = addition->cli;
    struct kiln_order_spec *spec = &addition->spec;
    struct kiln_ledger *ledger = NULL;
    struct kiln_error ignored;
    uint64_t id = 0;
    spec->overrides = addition->context.overrides ? addition->context.overrides : "";
    spec->width = addition->context.job.width;
    spec->height = addition->context.job.height;
    int rc = kiln_open_ledger(cli, &ledger, err);
    if (rc == 0)
        rc = kiln_ledger_order_add(ledger, kiln_pool(cli), spec, &id, err);
    if (rc == 0) {
        rc = keep_lines(addition, ledger, id, err);
        if (rc && kiln_ledger_order_remove(ledger, kiln_pool(cli), spec->name, &ignored))
            kiln_warn(cli,
                      "half of it is in the ledger and asleep; `kiln backfill rm %s` removes "
                      "it",
                      spec->name);
    }
    kiln_ledger_close(ledger);
    return rc;
}

static int print_result(const struct addition *addition)
{
    const struct kiln_order_spec *spec = &addition->spec;
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
    char loras[1024];
    struct addition *addition = calloc(1, sizeof *addition);
    if (!addition) {
        kiln_fail(&err, KILN_NO_MEMORY, "no memory for an order");
        return kiln_report(cli, &err);
    }
    addition->cli = cli;
    int status = read_options(addition, args, name, loras, sizeof loras);
    if (status == 0) {
        int rc = read_lines(addition, args, &err);
        if (rc == 0 && !addition->dry_run)
            rc = keep(addition, &err);
        status = rc ? kiln_report(cli, &err) : print_result(addition);
    }
    for (size_t i = 0; i < addition->line_count; i++)
        free((char *)addition->lines[i].line);
    free(addition->lines);
    kiln_expand_free(addition->expand);
    kiln_enqueue_context_release(&addition->context);
    free(addition);
    return status;
}
