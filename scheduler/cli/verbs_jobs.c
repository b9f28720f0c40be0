/* verbs_jobs.c - rows of the verbs about jobs, batches and pictures that there are. */
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/verb_tables.h"

#define BATCH_OPTION                                                                               \
    {                                                                                              \
        "batch", "NAME", "all jobs of a batch"                                                     \
    }
#define ONLY_BATCH_OPTION                                                                          \
    {                                                                                              \
        "batch", "B", "only jobs of this batch"                                                    \
    }
#define SINCE_OPTION                                                                               \
    {                                                                                              \
        "since", "WHEN", "a date or time in UTC, or how long ago: 2026-11-21, 90m, 7d"             \
    }

static const struct kiln_option jobs_options[] = {
    BATCH_OPTION,
    {"state", "STATE", "queued, assigned, done, failed or cancelled"},
    {"limit", "N", "stop after so many"},
    {NULL, NULL, NULL}};
static const struct kiln_option batches_options[] = {
    {"active", NULL, "only those with something left to do"},
    {"limit", "N", "stop after so many"},
    {NULL, NULL, NULL}};
static const struct kiln_option batch_options[] = {
    {"force", NULL, "rm: cancel what still waits or runs, then remove"},
    {"yes", NULL, "rm: do not ask"},
    {NULL, NULL, NULL}};
static const struct kiln_option usage_options[] = {
    {"by", "WHAT", "tenant, day or tenant,day (tenant)"}, SINCE_OPTION, {NULL, NULL, NULL}};
static const struct kiln_option errors_options[] = {
    ONLY_BATCH_OPTION, SINCE_OPTION, {NULL, NULL, NULL}};
static const struct kiln_option events_options[] = {
    {"follow", NULL, "go on with what comes, until Ctrl-C"},
    ONLY_BATCH_OPTION,
    {"job", "JOB", "only this job"},
    SINCE_OPTION,
    {NULL, NULL, NULL}};
static const struct kiln_option move_options[] = {BATCH_OPTION, {NULL, NULL, NULL}};
static const struct kiln_option cancel_options[] = {
    BATCH_OPTION, {"yes", NULL, "a batch: do not ask"}, {NULL, NULL, NULL}};
static const struct kiln_option export_options[] = {
    {"out", "DIR", "where it goes; may exist, only what is missing is fetched"},
    {"html", NULL, "an index.html to look at"},
    {"latents", NULL, "the latent files too"},
    KILN_LOOK_OPTIONS,
    {NULL, NULL, NULL}};
static const struct kiln_option favourite_options[] = {
    {"batch", "NAME", "all pictures of a batch; ls: only those of it"}, {NULL, NULL, NULL}};

const struct kiln_verb kiln_verbs_jobs[] = {
    {.name = "jobs",
     .args = "[--batch B] [--state S]",
     .summary = "one line a job",
     .examples = "kiln jobs --batch sketches --state failed\n"
                 "kiln jobs --json | jq 'select(.width > 1024)'",
     .options = jobs_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_jobs},
    {.name = "show",
     .args = "JOB|BATCH",
     .summary = "the whole record of a job, or where a batch stands",
     .examples = "kiln show 17\nkiln show 17 --json | jq -r '.images[].key'",
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_show},
    {.name = "why",
     .args = "JOB",
     .summary = "why a job waits, or where it is",
     .examples = "kiln why 17",
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_why},
    {.name = "batches",
     .args = "[--active] [--limit N]",
     .summary = "one line a batch: whose, how far, how fast; the newest first",
     .examples = "kiln batches --active\n"
                 "kiln batches --json | jq -r 'select(.jobs.failed > 0) | .batch'",
     .options = batches_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_batches},
    {.name = "batch",
     .args = "show BATCH | rename BATCH NAME | rm BATCH [--force] [--yes]",
     .summary = "look at, rename or remove a batch",
     .examples = "kiln batch show sketches\n"
                 "kiln batch rename sketches sketches-2026\n"
                 "kiln batch rm sketches --yes     its rows go, `kiln gc` then takes its files",
     .more = "rm takes a batch that has ended, or with --force any.  It asks, or needs --yes where\n"
             "nobody can be asked.  What the batch cost stays in `kiln usage`.",
     .options = batch_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_batch},
    {.name = "usage",
     .args = "[--by tenant|day|tenant,day] [--since WHEN]",
     .summary = "jobs, pictures, GPU-seconds and bytes by tenant and day",
     .examples = "kiln usage --by tenant,day --since 7d",
     .more = "GPU-seconds are those of finished pictures and of cached latents; days are UTC.",
     .options = usage_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_usage},
    {.name = "errors",
     .args = "[--batch B] [--since WHEN]",
     .summary = "failed jobs by cause, an example of each, what to do",
     .examples = "kiln errors --since 24h",
     .options = errors_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_errors},
    {.name = "events",
     .args = "[--follow] [--batch B|--job JOB] [--since WHEN]",
     .summary = "every move of a job, as a listing or as they come",
     .examples = "kiln events --follow --json | jq 'select(.to == \"failed\")'\n"
                 "kiln events --job 17",
     .more = "Without a job, a batch or a time: those of the last hour.",
     .options = events_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_events},
    {.name = "cancel",
     .args = "JOB|--batch B [--yes]",
     .summary = "stop jobs that wait or run",
     .examples = "kiln cancel 17\nkiln cancel --batch sketches",
     .options = cancel_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_cancel},
    {.name = "retry",
     .args = "JOB|--batch B",
     .summary = "queue failed and cancelled jobs again",
     .examples = "kiln retry --batch sketches",
     .options = move_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_retry},
    {.name = "export",
     .args = "BATCH --out DIR [--html] [--sheet FILE.webp [--columns N]]",
     .summary = "a batch's pictures, results.jsonl and a page to look at",
     .examples = "kiln export sketches --out gallery --html --sheet sketches.webp",
     .more = "Objects that the store has lost or damaged are named and left out; the rest comes, and the\n"
             "exit code is 65.  Their lines of results.jsonl name them under \"damaged\".",
     .options = export_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_export},
    {.name = "favourite",
     .args = "add|rm JOB...|--batch B, or ls [--batch B]",
     .summary = "pictures that `kiln gc --older-than` leaves alone, with their latents",
     .examples = "kiln favourite add 17 23\nkiln favourite ls --json | jq -r .key",
     .options = favourite_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_favourite},
    {.name = NULL},
};
