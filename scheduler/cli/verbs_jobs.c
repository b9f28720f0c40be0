/* verbs_jobs.c - rows of the verbs about existing jobs, batches and pictures. */
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/verb_tables.h"

/* What the word BATCH says too; for a batch whose name is a number, where a job could be meant. */
#define BATCH_OPTION                                                                               \
    {                                                                                              \
        "batch", "BATCH", "this batch, also one whose name is a number"                            \
    }
#define SINCE_OPTION                                                                               \
    {                                                                                              \
        "since", "WHEN",                                                                           \
            "only since a date or time (UTC unless it has a zone), or for a span: 2026-11-21, "    \
            "90m, 7d"                                                                              \
    }

#define LIMIT_OPTION                                                                               \
    {                                                                                              \
        "limit", "N", "at most so many lines"                                                      \
    }

static const struct kiln_option jobs_options[] = {
    BATCH_OPTION,
    {"state", "STATE", "queued, assigned, done, failed or cancelled"},
    LIMIT_OPTION,
    {NULL, NULL, NULL}};
static const struct kiln_option batches_options[] = {
    {"active", NULL, "only batches with queued or assigned jobs, or still coming in"},
    LIMIT_OPTION,
    {NULL, NULL, NULL}};
static const struct kiln_option batch_options[] = {
    {"force", NULL, "rm: cancel queued and assigned jobs, then remove"},
    {"yes", NULL, "rm: do not ask"},
    {NULL, NULL, NULL}};
static const struct kiln_option usage_options[] = {
    {"by", "WHAT", "one line a tenant, a day, or both: tenant,day (tenant)"},
    SINCE_OPTION,
    LIMIT_OPTION,
    {NULL, NULL, NULL}};
static const struct kiln_option errors_options[] = {
    BATCH_OPTION, SINCE_OPTION, LIMIT_OPTION, {NULL, NULL, NULL}};
static const struct kiln_option events_options[] = {
    {"follow", NULL, "keep printing new events until Ctrl-C"},
    BATCH_OPTION,
    {"job", "JOB", "this job"},
    SINCE_OPTION,
    LIMIT_OPTION,
    {NULL, NULL, NULL}};
static const struct kiln_option move_options[] = {BATCH_OPTION, {NULL, NULL, NULL}};
static const struct kiln_option cancel_options[] = {
    BATCH_OPTION, {"yes", NULL, "of a batch: do not ask"}, {NULL, NULL, NULL}};
static const struct kiln_option export_options[] = {
    {"out", "DIR", "a new or empty directory, or one that this batch was exported to"},
    {"html", NULL, "also write the gallery page index.html"},
    {"latents", NULL, "also download the latent files"},
    {"format", "F", "of full-size pictures: webp, png or jpeg (webp); openai: also answers.jsonl"},
    {"partial", NULL, "an unfinished batch is no error"},
    {"all", NULL, "also jobs whose lines are gone from the batch's file"},
    KILN_LOOK_OPTIONS,
    {NULL, NULL, NULL}};
static const struct kiln_option redraw_options[] = {
    {"count", "N", "N variations, with new seeds"},
    {"alike", "A", "how alike: 0 is a new picture, 100 nearly the same one (variations: 50)"},
    {"strength", "X", "instead: the share of the steps to run, above 0 to 1, as in a job line"},
    {"steps", "N", "steps to run (enlarging: 3; else what is left of the job's schedule)"},
    {"prompt", "TEXT",
     "edit: another prompt, in the style of the job, by difference if it was exact"},
    {"set", "KEY=VALUE", "set this key of every redraw, such as loras; may be repeated"},
    {"batch", "NAME", "name of the batch (made from what is asked); it gets only new jobs"},
    {"dry-run", NULL, "print the jobs and their estimated cost; send nothing"},
    {"strict", NULL, "send nothing if any job is refused"},
    {"no-wait", NULL, "do not wait for the scheduler's receipt"},
    {NULL, NULL, NULL}};
static const struct kiln_option favourite_options[] = {
    BATCH_OPTION, LIMIT_OPTION, {"yes", NULL, "rm of a batch: do not ask"}, {NULL, NULL, NULL}};

const struct kiln_verb kiln_verbs_jobs[] = {
    {.name = "jobs",
     .args = "[BATCH] [--state S] [--limit N]",
     .summary = "list jobs, one a line",
     .examples = "kiln jobs sketches --state failed\n"
                 "kiln jobs --json | jq 'select(.width > 1024)'",
     .more = "Of one batch the lines have the prompts; (gone): the batch's file no longer has this "
             "line.",
     .options = jobs_options,
     .words = {0, 1},
     .run = kiln_verb_jobs},
    {.name = "show",
     .args = "JOB|BATCH",
     .summary = "show everything about a job, or the counts of a batch",
     .examples = "kiln show 17\nkiln show 17 --json | jq -r '.images[].key'",
     .words = {1, 1},
     .run = kiln_verb_show},
    {.name = "why",
     .args = "JOB|BATCH",
     .summary = "say why a job waits, or where it is; what stands in the way of a batch",
     .examples = "kiln why 17\nkiln why sketches",
     .options = move_options,
     .words = {0, 1},
     .run = kiln_verb_why},
    {.name = "batches",
     .args = "[--active] [--limit N]",
     .summary = "list batches, the newest first: tenants, counts, times, rate",
     .examples = "kiln batches --active\n"
                 "kiln batches --json | jq -r 'select(.jobs.failed > 0) | .batch'",
     .options = batches_options,
     .words = {0, 0},
     .run = kiln_verb_batches},
    {.name = "batch",
     .args = "show BATCH | rename BATCH NAME | rm BATCH [--force] [--yes]",
     .summary = "show, rename or remove a batch",
     .examples = "kiln batch show sketches\n"
                 "kiln batch rename sketches sketches-2026\n"
                 "kiln batch rm sketches --yes     its rows; `kiln gc` then removes its objects",
     .more = "rm removes a batch that has ended, or with --force any batch.  Without a terminal "
             "it needs --yes.  The cost of the batch stays in `kiln usage`.  `kiln batches` lists "
             "all batches.",
     .options = batch_options,
     .words = {2, 3},
     .run = kiln_verb_batch},
    {.name = "usage",
     .args = "[--by tenant|day|tenant,day] [--since WHEN]",
     .summary = "sum up jobs, pictures, GPU-seconds and bytes by tenant and day",
     .examples = "kiln usage --by tenant,day --since 7d",
     .more = "GPU-seconds are those of finished pictures and of cached latents; days are UTC.  "
             "Saved are the seconds of steps that a stored latent made unnecessary, at the "
             "measured pace of the steps that the same run took.",
     .options = usage_options,
     .words = {0, 0},
     .run = kiln_verb_usage},
    {.name = "errors",
     .args = "[BATCH] [--since WHEN]",
     .summary = "list failed jobs by cause, with an example and what to do next",
     .examples = "kiln errors --since 24h",
     .options = errors_options,
     .words = {0, 1},
     .run = kiln_verb_errors},
    {.name = "events",
     .args = "[JOB|BATCH] [--follow] [--since WHEN]",
     .summary = "list every change of every job, or follow them",
     .examples = "kiln events --follow --json | jq 'select(.to == \"failed\")'\n"
                 "kiln events 17",
     .more = "Without a job, a batch or --since it lists the last hour.",
     .options = events_options,
     .words = {0, 1},
     .run = kiln_verb_events},
    {.name = "cancel",
     .args = "JOB...|BATCH [--yes]",
     .summary = "cancel queued and assigned jobs",
     .examples = "kiln cancel 17 18\nkiln cancel sketches --yes",
     .more = "A number is a job.  A batch is cancelled after a question; without a terminal it "
             "needs --yes.\n"
             "Until the next release, `cancel --batch NAME` in a script only warns and goes on.",
     .options = cancel_options,
     .words = {0, KILN_WORDS_MAX},
     .run = kiln_verb_cancel},
    {.name = "retry",
     .args = "JOB...|BATCH",
     .summary = "queue failed and cancelled jobs again",
     .examples = "kiln retry 17 18\nkiln retry sketches",
     .options = move_options,
     .words = {0, KILN_WORDS_MAX},
     .run = kiln_verb_cancel},
    {.name = "styles",
     .args = "",
     .summary = "list the styles that a job line may name, and the words of each",
     .examples = "kiln styles",
     .more = "Built-in ones, and those of the file of the setting `styles`.",
     .run = kiln_verb_styles},
    {.name = "loras",
     .args = "",
     .summary = "list the LoRAs that a job line may name",
     .examples = "kiln loras --json | jq -r .lora",
     .more = "The files NAME.safetensors of lora_dir or, without one, of MODEL/loras on this "
             "machine, and the LoRAs of the registry (kiln lora ls).",
     .run = kiln_verb_loras},
    {.name = "models",
     .args = "",
     .summary = "list the models that live workers have",
     .examples = "kiln models",
     .run = kiln_verb_models},
    {.name = "export",
     .args = "BATCH --out DIR [--html] [--sheet FILE.webp [--columns N]]",
     .summary = "download the pictures of a batch, with results.jsonl and a gallery page",
     .examples = "kiln export sketches --out gallery --html --sheet sketches.webp",
     .more =
         "Objects that are missing from the store or damaged there are named and left out; "
         "then the exit code is 65, and results.jsonl lists them as \"damaged\".  DIR is "
         "new, empty or of an earlier export of the batch, whose stale pictures are removed.  "
         "An unfinished batch exports what is there and ends with 75.  Jobs stand in the order in "
         "which their lines were first sent: lines that are added or edited come last.  Pictures "
         "carry prompt and seed in the form that A1111, ComfyUI and Civitai read, unless the "
         "setting embed_metadata is off.\n"
         "--format openai writes the answer file of an OpenAI batch: one line for each "
         "custom_id whose jobs have ended, with the paths of its pictures.  A request that "
         "enqueue refused has none.",
     .options = export_options,
     .words = {1, 1},
     .run = kiln_verb_export},
    {.name = "redraw",
     .args = "JOB... [--size S] [--count N] [--alike A] [--steps N] [--prompt TEXT]",
     .summary = "enlarge, vary or edit finished pictures, from their latents",
     .examples =
         "kiln redraw 17 23 --size 2x              twice the side, in three steps\n"
         "kiln redraw 17 --count 8 --alike 80      eight variations close to job 17\n"
         "kiln redraw 17 --prompt \"a blue star\"    an edit: the rest of the picture stays\n"
         "kiln favourite ls --json | jq .job | xargs kiln redraw --size 1024x1024",
     .more = "--size: \"2x\" (1x to 4x of the job's side), or as in a job line; the shape stays.  "
             "A redraw keeps prompt, style, LoRAs and seed of its job; variation n has the seed "
             "plus n.  The result is a batch of ordinary jobs, each with its job as `parent`.  "
             "The same call again adds nothing.  A job that has no latent of the pool's model is "
             "named and left out; the exit code is then 65.",
     .options = redraw_options,
     .words = {1, KILN_WORDS_MAX},
     .run = kiln_verb_redraw},
    {.name = "favourite",
     .spelling = "favorite",
     .args = "add JOB...|BATCH | rm JOB...|BATCH [--yes] | ls [BATCH]",
     .summary = "mark pictures that `kiln gc --older-than` keeps, with their latents",
     .examples = "kiln favourite add 17 23\nkiln favourite ls --json | jq -r .key",
     .options = favourite_options,
     .words = {1, KILN_WORDS_MAX},
     .run = kiln_verb_favourite},
    {.name = "vote",
     .spelling = "rate",
     .args = "up|down|none JOB...",
     .summary = "mark pictures as good or bad; `kiln lora learn` reads these votes",
     .examples = "kiln vote up 17 23\nkiln vote none 17     takes a vote back",
     .more = "A vote is the picture's, not a person's, and the gallery's buttons set the same one.",
     .words = {2, KILN_WORDS_MAX},
     .run = kiln_verb_vote},
    {.name = NULL},
};
