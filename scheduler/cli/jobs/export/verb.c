/* verb.c - the verb `export`: its options, and what it says. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "scheduler/cli/core/output/crosstab.h"
#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/jobs/export/export.h"
#include "scheduler/cli/jobs/export/sheet.h"
#include "storage/formats/pictures/picture_write.h"

int kiln_export_status(const struct kiln_cli *cli, const struct kiln_export *export)
{
    if (export->gone)
        kiln_say(cli, "left out %s that the file no longer has (--all exports them too)",
                 KILN_COUNT(export->gone, "job"));
    if (export->damaged == 0)
        return 0;
    kiln_warn(cli, "left out %s of %s%s, missing from %s or damaged there",
              KILN_COUNT(export->damaged, "object"), export->source ? "" : "batch ", export->batch,
              kiln_config_text(cli->config, KILN_KEY_STORE));
    kiln_say(cli,
             "      results.jsonl lists them as \"damaged\"; copy them back from a copy of the "
             "store, under the same keys, and export again");
    return kiln_code_exit(KILN_CORRUPT);
}

/* "X,Y": two keys of a crosstab. */
static int read_grid(struct kiln_cli *cli, const char *text, struct kiln_export *export)
{
    if (!text)
        return 0;
    char x[32];
    const size_t len = strcspn(text, ",");
    snprintf(x, sizeof x, "%.*s", (int)(len < sizeof x ? len : sizeof x - 1), text);
    export->grid = true;
    export->x = kiln_crosstab_key(x);
    export->y = text[len] ? kiln_crosstab_key(text + len + 1) : -1;
    if (export->x < 0 || export->y < 0 || export->x == export->y)
        return kiln_usage(cli,
                          "--grid is \"%s\"; it must be two of " KILN_CROSSTAB_ALLOWED ", as in "
                          "steps,seed",
                          text);
    return 0;
}

/* "x.webp" is meant to be a picture; a directory that has such a name, or "x.webp/", is one. */
static bool names_a_picture(const char *path)
{
    struct stat st;
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    return dot && dot[1] &&
           (kiln_picture_format_by_name(dot + 1) >= 0 || kiln_picture_format_of_path(path) < 0) &&
           !(stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

int kiln_export_args(struct kiln_cli *cli, const struct kiln_args *args, struct kiln_export *export)
{
    long columns;
    export->sheet = kiln_arg(args, "sheet");
    export->force = kiln_arg(args, "force") != NULL;
    export->all = kiln_arg(args, "all") != NULL;
    int status =
        kiln_arg_int(cli, args, "columns", 1, KILN_SHEET_COLUMNS_MAX, KILN_SHEET_COLUMNS, &columns);
    if (status)
        return status;
    if (export->out && names_a_picture(export->out))
        return kiln_usage(cli,
                          "--out %.64s names a picture, and an export is a directory: use --out "
                          "DIR, or --sheet FILE for one picture of all",
                          export->out);
    if (export->sheet && kiln_picture_format_of_path(export->sheet) < 0)
        return kiln_usage(cli, "--sheet %.64s: a picture's name ends with .webp, .png or .jpg",
                          export->sheet);
    if (!export->sheet && kiln_arg(args, "columns"))
        return kiln_usage(cli, "--columns needs a contact sheet: add --sheet FILE");
    export->columns = (int)columns;
    export->note = kiln_arg(args, "note");
    if (export->note && !export->html)
        return kiln_usage(cli, "--note needs a page: add --html");
    return read_grid(cli, kiln_arg(args, "grid"), export);
}

/* Jobs that the export has no picture of yet. */
static uint64_t unfinished(const struct kiln_export *export)
{
    return export->states.at[KILN_JOB_QUEUED] + export->states.at[KILN_JOB_ASSIGNED];
}

/* Scripts must not take a part for the whole. */
static int check_ended(const struct kiln_cli *cli, const struct kiln_export *export)
{
    uint64_t jobs = unfinished(export);
    if (jobs == 0 && export->whole)
        return 0;
    if (jobs)
        kiln_warn(cli,
                  "batch %s has %s not finished; what is there was exported.  `kiln wait %s`, then "
                  "export again, or add --partial",
                  export->batch, KILN_COUNT(jobs, "job"), export->batch);
    else
        kiln_warn(cli,
                  "batch %s is still being sent; what is there was exported.  `kiln wait %s`, then "
                  "export again, or add --partial",
                  export->batch, export->batch);
    return EX_TEMPFAIL;
}

int kiln_export_format(struct kiln_cli *cli, const struct kiln_args *args,
                       struct kiln_export *export)
{
    const char *format = kiln_arg(args, "format");
    export->answers = format && strcmp(format, "openai") == 0;
    if (export->answers) /* with the pictures as they are stored */
        format = NULL;
    int known = format ? kiln_picture_format_by_name(format) : (int)KILN_PICTURE_WEBP;
    if (known < 0)
        return kiln_usage(cli, "--format %.32s: use webp, png, jpeg or openai", format);
    export->format = (enum kiln_picture_format)known;
    return 0;
}

int kiln_export_verb(struct kiln_cli *cli, struct kiln_export *export)
{
    struct kiln_error err;
    if (kiln_export_batch(cli, export, &err))
        return kiln_report(cli, &err);
    kiln_say(cli, "%s, %s; %s downloaded, %" PRIu64 " already there",
             KILN_COUNT(export->jobs, "job"), KILN_COUNT(export->pictures, "picture"),
             KILN_COUNT(export->fetched, "file"), export->kept);
    int status = kiln_export_status(cli, export);
    if (status == 0 && !export->source && !export->partial)
        status = check_ended(cli, export);
    if (cli->json) {
        int printed = kiln_print_json(
            cli,
            json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
                      export->source ? "search" : "batch", export->batch, "out", export->out,
                      "jobs", (json_int_t) export->jobs, "pictures", (json_int_t) export->pictures,
                      "fetched", (json_int_t) export->fetched, "kept", (json_int_t) export->kept,
                      "damaged", (json_int_t) export->damaged, "gone", (json_int_t) export->gone,
                      "removed", (json_int_t) export->removed, "unfinished",
                      (json_int_t)unfinished(export)));
        return status ? status : printed;
    }
    printf("%s/%s\n", export->out,
           export->answers ? "answers.jsonl"
           : export->html  ? "index.html"
                           : "results.jsonl");
    return status;
}

int kiln_verb_export(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_export export = {.batch = args->rest[0],
                                 .out = kiln_arg(args, "out"),
                                 .html = kiln_arg(args, "html") != NULL,
                                 .latents = kiln_arg(args, "latents") != NULL};
    export.partial = kiln_arg(args, "partial") != NULL;
    if (!export.out)
        return kiln_usage(cli, "--out DIR is missing");
    int status = kiln_export_format(cli, args, &export);
    status = status ? status : kiln_export_args(cli, args, &export);
    return status ? status : kiln_export_verb(cli, &export);
}
