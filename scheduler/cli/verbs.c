/* verbs.c - the table of verbs: one row a verb, in the order `kiln help` shows them.
 *
 * A verb's options stand above the table; settings are options of every verb and are not repeated
 * here.  A name that is also a setting would never reach its verb (tests/cli/test_args.c holds
 * this).
 */
#include "scheduler/cli/verbs.h"

#include <string.h>

#include "scheduler/cli/cli.h"
#include "scheduler/cli/enqueue.h"

#define DIR_OPTION                                                                                 \
    {                                                                                              \
        "dir", "DIR", "where the stack lives (.kiln)"                                              \
    }
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
#define LOOK_OPTIONS                                                                               \
    {"note", "TEXT", "a sentence above the pictures of the page"},                                 \
        {"sheet", "FILE.webp", "a contact sheet of the pictures"},                                 \
    {                                                                                              \
        "columns", "N", "square pictures in a row of the sheet (6)"                                \
    }
#define END                                                                                        \
    {                                                                                              \
        NULL, NULL, NULL                                                                           \
    }

static const struct kiln_option up_options[] = {
    DIR_OPTION, {"workers", "N", "how many workers (as before; at first one a device)"}, END};
static const struct kiln_option down_options[] = {
    DIR_OPTION, {"daemons", NULL, "scheduler and workers alone: Redis and Postgres go on"}, END};
static const struct kiln_option worker_options[] = {
    DIR_OPTION,
    {"workers", "N", "start: how many, going round the devices (one a device)"},
    {"crashes", "N", "start: give a worker up after so many crashes (5) ..."},
    {"within", "SPAN", "start: ... in this time (5m)"},
    {"log-mb", "N", "start: turn logs that are longer (16); four old ones are kept"},
    {"all", NULL, "stop: every worker of this machine"},
    {"yes", NULL, "stop --all: do not ask"},
    {"no-wait", NULL, "start, stop: do not wait until it is so"},
    {"lines", "N", "logs: how many at first (40)"},
    {"follow", NULL, "logs: go on with what comes, until Ctrl-C"},
    END};
static const struct kiln_option wait_options[] = {
    {"timeout", "S", "give up after so many seconds with exit code 75"}, END};
static const struct kiln_option status_options[] = {
    {"groups", NULL, "only the groups: backlog in GPU-seconds, jobs, workers that have the set"},
    END};
static const struct kiln_option watch_options[] = {
    {"interval", "S", "seconds between two looks (1)"}, END};
static const struct kiln_option jobs_options[] = {
    BATCH_OPTION,
    {"state", "STATE", "queued, assigned, done, failed or cancelled"},
    {"limit", "N", "stop after so many"},
    END};
static const struct kiln_option batches_options[] = {
    {"active", NULL, "only those with something left to do"},
    {"limit", "N", "stop after so many"},
    END};
static const struct kiln_option batch_options[] = {
    {"force", NULL, "rm: cancel what still waits or runs, then remove"},
    {"yes", NULL, "rm: do not ask"},
    END};
static const struct kiln_option usage_options[] = {
    {"by", "WHAT", "tenant, day or tenant,day (tenant)"}, SINCE_OPTION, END};
static const struct kiln_option errors_options[] = {ONLY_BATCH_OPTION, SINCE_OPTION, END};
static const struct kiln_option events_options[] = {
    {"follow", NULL, "go on with what comes, until Ctrl-C"},
    ONLY_BATCH_OPTION,
    {"job", "JOB", "only this job"},
    SINCE_OPTION,
    END};
static const struct kiln_option move_options[] = {BATCH_OPTION, END};
static const struct kiln_option cancel_options[] = {
    BATCH_OPTION, {"yes", NULL, "a batch: do not ask"}, END};
static const struct kiln_option hold_options[] = {
    {"all", NULL, "everything of the pool, as when nothing is named"},
    {"backfill", NULL, "all jobs of priority -10, standing orders among them"},
    {"tenant", "T", "a tenant's jobs"},
    {"group", "G", "SIZE/STEPS/LORAS as `kiln status` shows it; * is any: 1024x1024, */*/ink:0.8"},
    {"reason", "TEXT", "kept with it, and told to whoever asks why"},
    END};
static const struct kiln_option backfill_options[] = {
    {"prompts", "FILE", "job lines, text or CSV, as for enqueue"},
    {"template", "TEXT", "one prompt; {a|b} are choices"},
    {"loras", "L", "auto, none or name:scale+...; the same as --set loras=L"},
    {"set", "KEY=VALUE", "give every job this key; may be repeated"},
    {"rate", "N/h", "at most so many an hour"},
    {"low-water", "N", "never more than N waiting or running (100; with a rate, an hour of it)"},
    {"until", "END", "a number of jobs, a date in UTC, or a span from now on: 5000, 2026-12-24, 7d"},
    {"window", "HOURS", "only then: 22:00-06:00, by the scheduler's clock and time zone"},
    {"seed-policy", "P", "fresh: new seeds in every pass; fixed: one pass, its seeds (fresh)"},
    {"dry-run", NULL, "only read and count the prompts"},
    {"reason", "TEXT", "pause, resume: kept with it"},
    {"yes", NULL, "rm: do not ask"},
    END};
static const struct kiln_option cache_options[] = {
    {"prompts", "FILE", "job lines, text or CSV, as for enqueue"},
    {"template", "TEXT", "one prompt; {a|b} are choices"},
    {"sigmas", "LIST", "the states nearest to these noise levels (0: the finished latent)"},
    {"loras", "L", "auto, none or name:scale+...; the same as --set loras=L"},
    {"set", "KEY=VALUE", "give every job this key; may be repeated"},
    {"limit", "N", "refuse prompts that name more latents (100000)"},
    {"dry-run", NULL, "only look what is missing"},
    END};
static const struct kiln_option quota_options[] = {
    {"queued", "N", "jobs that may wait at once, or none for any number"},
    {"gpu-seconds-day", "S", "GPU-seconds of a day (UTC), or none for any number"},
    {"yes", NULL, "rm: do not ask"},
    END};
static const struct kiln_option drain_options[] = {
    {"all", NULL, "every worker of the pool"},
    {"wait", NULL, "until they have ended"},
    {"timeout", "S", "with --wait: give up after so many seconds with exit code 75 (600)"},
    {"yes", NULL, "with --all: do not ask"},
    END};
static const struct kiln_option run_options[] = {{"out", "DIR", "where the gallery goes"},
                                                 DIR_OPTION,
                                                 {"workers", "N", "workers of the stack"},
                                                 LOOK_OPTIONS,
                                                 END};
static const struct kiln_option export_options[] = {
    {"out", "DIR", "where it goes; may exist, only what is missing is fetched"},
    {"html", NULL, "an index.html to look at"},
    {"latents", NULL, "the latent files too"},
    LOOK_OPTIONS,
    END};
static const struct kiln_option bench_options[] = {
    {"lines", "N", "jobs to send (enqueue 500000, queue 100000 and a tenth end to end)"},
    {"jobs", "N",
     "queue: at scale, through simulated workers; restart: jobs that wait (100000); recovery: "
     "workers to kill (8); fleet: pictures a device (48)"},
    {"workers", "N", "simulated workers of queue --jobs (64)"},
    {"devices", "LIST", "fleet: how many devices, one worker each (1,2)"},
    {"sizes", "LIST", "fleet: sizes that take turns (512x512,768x512)"},
    {"loras", "LIST", "fleet: LoRAs that take turns; an empty name is none (none)"},
    {"step-ms", "MS", "fleet: what a step of a batch takes on the test card (10)"},
    END};
static const struct kiln_option sim_options[] = {
    {"trace", "FILE.csv", "the jobs; - is stdin"},
    {"workers", "N", "equal workers (8)"},
    {"policy", "NAME", "kiln, fifo or affinity (kiln)"},
    {"window", "W", "how many waiting jobs affinity looks ahead (32)"},
    {"lora-switch-s", "S", "seconds to change a worker's LoRA set (1)"},
    {"base-s", "S", "seconds of a 1024x1024 picture of 8 steps without a service_s (1)"},
    {"noise", "SHARE", "standard deviation of a picture's time over its mean (0)"},
    {"seed", "N", "of the noise (0)"},
    {"schedule", "FILE", "write what every job got: worker, start, end, as CSV"},
    END};
static const struct kiln_option gc_options[] = {
    {"dry-run", NULL, "only list what would go"},
    {"grace", "SPAN", "leave objects and cancelled jobs younger than this (1d; 36h, 30m, 90s)"},
    {"older-than", "SPAN", "also pictures and cached latents older than this, but for favourites"},
    {"yes", NULL, "do not ask"},
    END};
static const struct kiln_option favourite_options[] = {
    {"batch", "NAME", "all pictures of a batch; ls: only those of it"}, END};
static const struct kiln_option backup_options[] = {{"out", "DIR", "a new directory for it"}, END};
static const struct kiln_option restore_options[] = {
    {"yes", NULL, "replace a ledger that has jobs in it, without asking"},
    {"check", NULL, "change nothing: only compare the backup with the store"},
    {"hashes", NULL, "fetch every object and compare its bytes too"},
    {"stall", "SPAN", "give up when nothing moves for so long (1h): the longest index to build"},
    END};
static const struct kiln_option doctor_options[] = {
    {"full", NULL, "compare every object of the ledger with the store, not a sample"},
    {"fix", NULL, "mend what is safe to mend: orphaned leases, files open to others"},
    END};
static const struct kiln_option migrate_options[] = {
    {"dry-run", NULL, "only say what would be done"},
    {"roles", NULL, "make database roles that may do what each part needs, and no more"},
    {"secrets", "DIR", "with --roles: passwords, Redis users and a settings file for each role"},
    END};

const struct kiln_verb kiln_verbs[] = {
    {.name = "up",
     .args = "[--dir .kiln] [--workers N] [--device cpu|cuda:all|cuda:0,cuda:1] [--model DIR] "
             "[--store URL]",
     .summary = "start a private stack: Redis, Postgres, scheduler, workers",
     .examples = "kiln up                                  in ./.kiln, one worker on the CPU\n"
                 "kiln up --workers 2 --model /models/turbo\n"
                 "kiln up --device cuda:all                one worker a GPU",
     .more =
         "Run again, it starts what has died and changes what you name.  Settings given as flags\n"
         "are kept in DIR/kiln.conf.  Prints the path of that file.",
     .options = up_options,
     .settings = KILN_SETTINGS_BARE,
     .run = kiln_verb_up},
    {.name = "down",
     .args = "[--dir .kiln] [--daemons]",
     .summary = "stop it; the data stays",
     .examples = "kiln down --dir /srv/kiln\n"
                 "kiln down --daemons                      for `kiln restore`, then `kiln up`",
     .options = down_options,
     .settings = KILN_SETTINGS_BARE,
     .run = kiln_verb_down},
    {.name = "run",
     .args = "FILE --out DIR [enqueue options]",
     .summary = "everything: up, enqueue, wait, export",
     .examples = "kiln run prompts.jsonl --out gallery\n"
                 "kiln run prompts.txt --out gallery --model /models/turbo --set steps=8",
     .more =
         "Uses the stack or fleet of the settings, or starts one in ./.kiln.  The same command\n"
         "again goes on where it stopped.  Prints the path of index.html.",
     .options = run_options,
     .also = kiln_enqueue_options,
     .settings = KILN_SETTINGS_BARE,
     .run = kiln_verb_run},
    {.name = "enqueue",
     .args = "FILE|- [--batch NAME] [--set KEY=VALUE]... [--dry-run] [--strict] [--no-wait]",
     .summary = "send a file of jobs to the queue",
     .examples = "kiln enqueue prompts.jsonl               prints the name of the batch\n"
                 "kiln enqueue prompts.txt --set size=16:9 --set steps=8\n"
                 "kiln enqueue sweep.csv --batch sweep-1   again: adds only what is new\n"
                 "kiln enqueue prompts.jsonl --dry-run     what it would make, and what it costs",
     .more = "FILE is JSON lines, plain text (a prompt a line, # comments) or CSV with a header of "
             "job\n"
             "keys.  Prompts may hold choices: \"a {red|blue} car\" is two jobs.  Refused lines "
             "are told\n"
             "as FILE:LINE: reason, and the exit code is 65.",
     .options = kiln_enqueue_options,
     .run = kiln_verb_enqueue},
    {.name = "wait",
     .args = "BATCH [--timeout S]",
     .summary = "wait until a batch has ended",
     .examples = "kiln wait sketches && kiln export sketches --out gallery",
     .more = "Exit code 0: all done; 1: some failed or were cancelled; 75: the time was up.  Where no live\n"
             "worker can draw what waits, stderr says what is missing, and the wait goes on.",
     .options = wait_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_wait},
    {.name = "watch",
     .args = "[BATCH]",
     .summary = "a live view of the fleet, or of a batch until it has ended",
     .examples = "kiln watch                       the fleet, full screen; q quits\n"
                 "kiln watch sketches              until it has ended; the exit code is that of wait\n"
                 "kiln watch | ts                  elsewhere: a line a change, --json a line a look",
     .more = "Keys: q quits, tab and the arrows scroll workers, groups and failures, space holds the\n"
             "screen, + and - change the interval.  80x24 is enough; NO_COLOR is heeded.",
     .options = watch_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_watch},
    {.name = "status",
     .args = "[--groups]",
     .summary = "jobs by state, live workers, groups that wait",
     .examples = "kiln status --json\n"
                 "kiln status --groups    what waits in GPU-seconds, as the scheduler sees it",
     .more = "When Redis does not answer, it tells what the ledger knows and ends with 69 or 75; in --json\n"
             "workers and intake are null then.",
     .options = status_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_status},
    {.name = "workers",
     .args = "",
     .summary = "every worker, also those that are gone",
     .examples = "kiln workers",
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_workers},
    {.name = "worker",
     .args = "start [NAME...] | stop NAME...|--all [--yes] | ls | logs NAME [--follow]",
     .summary = "workers of this machine, started again when they die",
     .examples = "kiln worker start --device cuda:0,cuda:1    one a GPU, as HOST-cuda0, HOST-cuda1\n"
                 "kiln worker ls                              who runs, who was given up and why\n"
                 "kiln worker logs HOST-cuda0 --follow\n"
                 "kiln worker stop --all --yes                each finishes its batch first",
     .more = "A guard outlives the shell.  It starts what crashes again after 1, 2, 4, ... 60 s and\n"
             "gives up what crashes too often, or with wrong settings; start takes it up again.\n"
             "Where systemd runs and has kiln-worker@.service, all four go through it (0, cuda:0 and\n"
             "HOST-gpu0 name one unit), unless --dir or a crew here says otherwise.",
     .options = worker_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_worker},
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
    {.name = "drain",
     .args = "WORKER|--all [--yes] [--wait [--timeout S]]",
     .summary = "let a worker finish its batch and end",
     .examples = "kiln drain worker-0\nkiln drain --all --wait && echo safe to switch off",
     .options = drain_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_drain},
    {.name = "pause",
     .args = "[--all|--backfill|--tenant T|--group G] [--reason TEXT]",
     .summary = "hand out no more of it until `kiln resume`; nothing is lost",
     .examples = "kiln pause --tenant ann --reason 'invoice 17'\n"
                 "kiln pause --group '*/*/ink:0.8'",
     .more = "What workers hold is still drawn.  The last word of several people counts; each is\n"
             "told of the other, and exits with 1 if it was overruled at once.",
     .options = hold_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_pause},
    {.name = "resume",
     .args = "[--all|--backfill|--tenant T|--group G]",
     .summary = "let what was paused go on",
     .examples = "kiln resume --tenant ann",
     .options = hold_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_resume},
    {.name = "quota",
     .args = "set TENANT [--queued N] [--gpu-seconds-day S] | ls | rm TENANT [--yes]",
     .summary = "how much a tenant may have waiting, and use of the GPUs in a day",
     .examples = "kiln quota set ann --queued 10000 --gpu-seconds-day 3600\n"
                 "kiln quota set '*' --queued 1000     everybody who has no quota of their own\n"
                 "kiln quota ls",
     .more = "Jobs beyond the first are refused when they come, with the reason; a tenant that has\n"
             "used up the second waits until midnight (UTC), and `kiln why` says so.  Standing orders\n"
             "are bounded by their marks.",
     .options = quota_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_quota},
    {.name = "backfill",
     .args = "add NAME --prompts FILE|--template TEXT ... | ls | show|pause|resume|rm NAME",
     .summary = "standing orders: prompts that are drawn when nobody else wants the GPUs",
     .examples =
         "kiln backfill add seasons --prompts seasons.txt --window 22:00-06:00\n"
         "kiln backfill add cats --template 'a {red|black} cat' --rate 60/h --until 5000\n"
         "kiln backfill ls --json | jq -r 'select(.state == \"failed\") | .error'\n"
         "kiln backfill rm cats --yes",
     .more = "The scheduler keeps each order topped up to its mark, at the lowest priority, from the\n"
             "ledger: nobody has to be there.  Its jobs are those of batch backfill-NAME; no prompt\n"
             "has the same seed twice; an order given again under its name goes on with that batch and\n"
             "draws what its removal cancelled.  A window over midnight, and one on a day when the clocks\n"
             "change, is what the scheduler's wall clock says.",
     .options = backfill_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_backfill},
    {.name = "cache",
     .args = "build --prompts FILE|--template TEXT [--sigmas LIST] ... | stat",
     .summary = "latents without pictures, for later runs to begin from",
     .examples = "kiln cache build --prompts popular.txt --set size=1024x1024\n"
                 "kiln cache build --prompts popular.txt --sigmas 0.9,0.75\n"
                 "kiln cache stat",
     .more = "A latent is found by model, size, LoRA set and prompt, and by its seed where a line\n"
             "names one; what is stored or on its way is not ordered again, so the same command goes\n"
             "on where it stopped.  Before that it tells how many there are.  Its jobs are backfill,\n"
             "unless --set priority says otherwise, of batch latent-cache.  Exit code 75: the quota of\n"
             "a tenant (--set tenant) let only a part be ordered; run it again later.",
     .options = cache_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_cache},
    {.name = "gc",
     .args = "[--dry-run] [--grace SPAN] [--older-than SPAN --yes]",
     .summary = "remove objects that no row names, and rows of cancelled jobs",
     .examples = "kiln gc --dry-run                what would go, and how much it is\n"
                 "kiln gc --older-than 90d --yes   pictures of old batches and old latents too",
     .more = "Objects of jobs that wait or run are never touched.  It may be interrupted at any\n"
             "moment; run again, it goes on.  With --older-than a picture goes when it and its batch\n"
             "are as old, with its latent, and a latent of `kiln cache build` by its own age; what\n"
             "`kiln favourite` has marked stays, with the cached latents of its prompt, model, size\n"
             "and LoRA set.",
     .options = gc_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_gc},
    {.name = "backup",
     .args = "--out DIR",
     .summary = "the ledger and the list of its objects, from one snapshot",
     .examples = "kiln backup --out /backup/kiln-2026-11-21",
     .more =
         "The fleet goes on meanwhile.  Objects are not copied: they never change, so any later\n"
         "copy of the store goes with it.  Needs pg_dump.",
     .options = backup_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_backup},
    {.name = "restore",
     .args = "DIR [--yes] [--check] [--hashes]",
     .summary = "make a backup the ledger again, name objects that the store lacks",
     .examples = "kiln restore /backup/kiln-2026-11-21\n"
                 "kiln restore /backup/kiln-2026-11-21 --check   is the store still complete?",
     .more =
         "Schedulers and workers must have ended.  It replaces the whole ledger or, if anything\n"
         "fails, nothing.  Exit code 1: objects are missing or have other bytes.",
     .options = restore_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_restore},
    {.name = "migrate",
     .args = "[--dry-run] [--roles [--secrets DIR]]",
     .summary = "bring the ledger's schema to this version; make users of least rights",
     .examples = "kiln migrate --dry-run\n"
                 "kiln migrate --roles --secrets /etc/kiln/secrets >> /etc/redis/users.acl",
     .more = "The roles are kiln_scheduler, kiln_worker, kiln_operator (the verbs that change rows) and\n"
             "kiln_reader; in Redis also kiln_producer, who may only enqueue.  DIR/ROLE.conf is what\n"
             "each is started with.  Run again, it keeps the passwords in DIR.",
     .options = migrate_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_migrate},
    {.name = "doctor",
     .args = "[--full] [--fix]",
     .summary = "look at settings, servers, rights, store, model, GPU, leases; say what to do",
     .examples = "kiln doctor --json\n"
                 "kiln doctor --full    every object of the ledger, not a sample\n"
                 "kiln doctor --fix     give back what no worker holds, close files to others",
     .more = "Exit code 1: something keeps jobs from running, or is lost.",
     .options = doctor_options,
     .settings = KILN_SETTINGS_LENIENT,
     .run = kiln_verb_doctor},
    {.name = "sim",
     .args = "--trace FILE.csv [--workers N] [--policy kiln|fifo|affinity]",
     .summary = "what the policy makes of a trace, under virtual time",
     .examples = "kiln sim --trace day.csv --workers 64 --lora-switch-s 0.3\n"
                 "kiln sim --trace day.csv --policy affinity --window 32 --json",
     .more =
         "Columns of the trace, all optional: arrival_s, tenant, width, height, steps, loras "
         "(a+b),\n"
         "priority, max_wait_s, service_s (seconds of compute; empty: by the size, see --base-s).\n"
         "A worker begins with nothing loaded; loading another LoRA set, or none, is a switch.\n"
         "Waiting ends when the compute of the job's own picture starts.",
     .options = sim_options,
     .settings = KILN_SETTINGS_LENIENT,
     .run = kiln_verb_sim},
    {.name = "bench",
     .args = "enqueue|queue|restart|recovery|policy|fleet|quality|engine [--lines N] [--jobs N] "
             "[--workers N] [--devices LIST]",
     .summary = "measure the queue on private servers, the quality of the pictures, or the engine",
     .examples =
         "kiln bench enqueue               lines a second into Redis\n"
         "kiln bench queue                 jobs a second into Postgres, and through a worker\n"
         "kiln bench queue --jobs 1000000  the same at scale: 64 simulated workers, memory, "
         "tables\n"
         "kiln bench restart               until a new scheduler gives out the first of 100000 "
         "jobs\n"
         "kiln bench recovery              until the job of a killed worker is with another\n"
         "kiln bench policy                what a decision costs with 1000000 jobs and 1000 "
         "workers\n"
         "kiln bench fleet --device cuda:all --model DIR --devices 1,2,4\n"
         "                                 what more GPUs are worth, and how idle they are\n"
         "kiln bench quality               how much of what prompts say is in the pictures\n"
         "kiln bench engine --device cuda:0    the engine, stage by stage",
     .more =
         "`kiln bench quality --help` and `kiln bench engine --help` show the options of those\n"
         "(kiln-worker does them).",
     .options = bench_options,
     .untouched = (const char *const[]){"quality", "engine", NULL},
     .settings = KILN_SETTINGS_BARE,
     .run = kiln_verb_bench},
    {.name = "render",
     .args = "[--model DIR] --prompt TEXT ... --out FILE.webp",
     .summary = "one picture, no queue (kiln-worker does it)",
     .examples = "kiln render --prompt 'a red star' --seed 7 --out star.webp",
     .more = "`kiln render --help` shows all options.",
     .settings = KILN_SETTINGS_NONE,
     .run = kiln_verb_render},
    {.name = "tokenize",
     .args = "--model DIR [--raw]",
     .summary = "token ids of JSON strings on stdin (kiln-worker does it)",
     .settings = KILN_SETTINGS_NONE,
     .run = kiln_verb_render},
    {.name = "help",
     .args = "[VERB|config]",
     .summary = "this overview, one verb, or the settings",
     .examples =
         "kiln help run\nkiln help config        every setting, its value and where it came from",
     .settings = KILN_SETTINGS_LENIENT,
     .run = kiln_verb_help},
    {.name = NULL},
};

const struct kiln_verb *kiln_verb_find(const char *name)
{
    for (const struct kiln_verb *verb = kiln_verbs; verb->name; verb++)
        if (strcmp(verb->name, name) == 0)
            return verb;
    return NULL;
}
