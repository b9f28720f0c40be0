/* verbs_work.c - rows of the verbs from starting a stack to a finished batch. */
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/jobs/enqueue/enqueue.h"
#include "scheduler/cli/stack/guard.h"
#include "scheduler/cli/verb_tables.h"

#define DIR_OPTION                                                                                 \
    {                                                                                              \
        "dir", "DIR", "the directory of the stack (that of --config or KILN_CONFIG, else .kiln)"   \
    }

static const struct kiln_option up_options[] = {
    DIR_OPTION,
    {"workers", "N", "number of workers (unchanged; first one a device); 0: they run elsewhere"},
    {"gallery", "PORT", "the web gallery at this port or the next free one; 0: any (9480)"},
    {"no-gallery", NULL, "no web gallery, this time and later"},
    {NULL, NULL, NULL}};
static const struct kiln_option down_options[] = {
    DIR_OPTION,
    {"daemons", NULL, "stop only scheduler and workers; Redis and Postgres keep running"},
    {NULL, NULL, NULL}};
static const struct kiln_option worker_options[] = {
    DIR_OPTION,
    {"workers", "N",
     "start: total number of workers, assigned to the devices in turn (one a device)"},
    {"crashes", "N", "start: give a worker up after N crashes (5) ..."},
    {"within", "SPAN", "start: ... within this time (5m)"},
    {"log-mb", "N", "start: rotate logs larger than N MB (16); four old ones are kept"},
    {"all", NULL, "stop: every worker of this machine"},
    {"yes", NULL, "stop --all: do not ask"},
    {"no-wait", NULL, "start, stop: do not wait until it has happened"},
    {"lines", "N", "logs: the last N lines (40)"},
    {"follow", NULL, "logs: print new lines until Ctrl-C"},
    {NULL, NULL, NULL}};
static const struct kiln_option enqueue_options[] = {
    {"on-done", "URL", "when the batch has ended, the scheduler sends a POST to URL"},
    {NULL, NULL, NULL}};
static const struct kiln_option wait_options[] = {
    {"timeout", "S", "stop waiting after this many seconds, exit code 75"},
    {"on-done", "CMD", "run this by /bin/sh -c when the batch has ended"},
    {NULL, NULL, NULL}};
static const struct kiln_option status_options[] = {
    {"groups", NULL, "only the groups: backlog in GPU-seconds, jobs, holders of the LoRA set"},
    {NULL, NULL, NULL}};
static const struct kiln_option watch_options[] = {
    {"interval", "S", "seconds between two updates (1)"}, {NULL, NULL, NULL}};
static const struct kiln_option run_options[] = {
    {"out", "DIR", "the directory of the gallery"},
    DIR_OPTION,
    {"workers", "N", "number of workers of the private stack"},
    {"all", NULL, "also jobs whose lines are gone from the batch's file"},
    {"on-done", "URL|CMD", "when the batch has ended, POST to URL, or run CMD by /bin/sh -c"},
    KILN_LOOK_OPTIONS,
    {NULL, NULL, NULL}};

const struct kiln_verb kiln_verbs_work[] = {
    {.name = "up",
     .args = "[--dir .kiln] [--workers N] [--device cpu|cuda:all|cuda:0,cuda:1] [--model DIR] "
             "[--store URL] [--gallery PORT|--no-gallery]",
     .summary = "start a private stack: Redis, Postgres, scheduler, workers, web gallery",
     .examples = "kiln up                                  in ./.kiln, one worker on the CPU\n"
                 "kiln up --workers 2 --model /models/turbo\n"
                 "kiln up --device cuda:all                one worker a GPU",
     .more = "Repeat it to start again what has died, or to change a setting.  A guard restarts "
             "workers that die.  Settings given as flags are stored in DIR/kiln.conf; prints the "
             "path of that file.",
     .options = up_options,
     .settings = KILN_SETTINGS_BARE,
     .words = {0, 0},
     .run = kiln_verb_up},
    {.name = "down",
     .args = "[--dir .kiln] [--daemons]",
     .summary = "stop the private stack; its data stays",
     .examples = "kiln down --dir /srv/kiln                or --config /srv/kiln/kiln.conf\n"
                 "kiln down --daemons                      for `kiln restore`, then `kiln up`",
     .options = down_options,
     .settings = KILN_SETTINGS_BARE,
     .words = {0, 0},
     .run = kiln_verb_down},
    {.name = "run",
     .args = "FILE --out DIR [enqueue options]",
     .summary = "do everything in one command: up, enqueue, wait, export",
     .examples = "kiln run prompts.jsonl --out gallery\n"
                 "kiln run prompts.txt --out gallery --model /models/turbo --set steps=8",
     .more = "Uses the stack or fleet of the settings, or starts a private stack in ./.kiln.  "
             "Repeat the command to continue where it stopped, or after an edit of FILE: only "
             "changed lines are rendered, all others keep their pictures.  Prints the path of "
             "index.html.",
     .options = run_options,
     .also = kiln_enqueue_options,
     .settings = KILN_SETTINGS_BARE,
     .words = {1, 1},
     .run = kiln_verb_run},
    {.name = "enqueue",
     .args = "FILE|- [--batch NAME] [--set KEY=VALUE]... [--dry-run] [--strict] [--no-wait]",
     .summary = "send the jobs of a file to the queue",
     .examples = "kiln enqueue prompts.jsonl               prints the name of the batch\n"
                 "kiln enqueue prompts.txt --set size=16:9 --set steps=8\n"
                 "kiln enqueue sweep.csv --batch sweep-1   again, or edited: adds only new jobs\n"
                 "kiln enqueue prompts.jsonl --dry-run     the jobs and their estimated cost\n"
                 "kiln enqueue prompts.txt --on-done https://ci.example.org/kiln",
     .more = "FILE is JSON lines, plain text (a prompt a line, # comments), CSV with a header "
             "of job keys, or a batch file of OpenAI (/v1/images/generations; `kiln export "
             "--format openai` writes the answers).  A prompt may have choices: \"a {red|blue} "
             "car\" makes two jobs.  A "
             "refused line is printed as FILE:LINE: reason; the others are sent, and the exit "
             "code is 65.  The batch is named after the file, a job is known by its content: "
             "sent again, an edited file adds what is new, and jobs that it no longer has are "
             "left out of exports.\n"
             "--on-done URL: when the batch has ended, the scheduler sends a signed POST to URL "
             "and retries for up to a day.  Its host must be in webhook_hosts, here and in the "
             "scheduler's settings.",
     .options = enqueue_options,
     .also = kiln_enqueue_options,
     .words = {1, 1},
     .run = kiln_verb_enqueue},
    {.name = "wait",
     .args = "BATCH [--timeout S] [--on-done CMD]",
     .summary = "wait until a batch has ended",
     .examples = "kiln wait sketches && kiln export sketches --out gallery\n"
                 "kiln wait sketches --on-done 'notify-send \"$KILN_BATCH: $KILN_DONE done\"'",
     .more = "Exit code 0: all done; 1: some failed, were cancelled or refused; 75: timed out.  "
             "If no live worker can render the queued jobs, or all are paused, stderr says so and "
             "the wait continues.  CMD has KILN_BATCH, KILN_DONE, KILN_FAILED and KILN_CANCELLED.  "
             "Jobs that the batch's file no longer has do not count.  CMD's output goes to stderr. "
             " If CMD fails, its exit code is returned.",
     .options = wait_options,
     .words = {1, 1},
     .run = kiln_verb_wait},
    {.name = "watch",
     .args = "[BATCH]",
     .summary = "show the fleet live, or a batch until it has ended",
     .examples =
         "kiln watch                       the fleet, full screen; q quits\n"
         "kiln watch sketches              until it has ended; the exit code is that of wait\n"
         "kiln watch | ts                  not on a terminal: one line for each change",
     .more = "Keys: q quits, tab and the arrows scroll workers, groups and failures, space stops "
             "the updates, + and - change the interval.  80x24 is enough; NO_COLOR switches "
             "colours off.\n"
             "--json prints one line for each update.",
     .options = watch_options,
     .words = {0, 1},
     .run = kiln_verb_watch},
    {.name = "status",
     .args = "[--groups]",
     .summary = "show jobs by state, live workers and queued groups",
     .examples = "kiln status --json\n"
                 "kiln status --groups    the backlog in GPU-seconds, from the scheduler",
     .more = "If Redis does not answer, it prints what the ledger knows and exits with 69 or 75; "
             "--json then has null for workers and intake.",
     .options = status_options,
     .words = {0, 0},
     .run = kiln_verb_status},
    {.name = "workers",
     .args = "",
     .summary = "list all workers, also lost ones",
     .examples = "kiln workers",
     .words = {0, 0},
     .run = kiln_verb_workers},
    {.name = "worker",
     .args = "start [NAME...] | stop NAME...|--all [--yes] | ls | logs NAME [--follow]",
     .summary = "run workers on this machine and restart them when they die",
     .examples =
         "kiln worker start --device cuda:0,cuda:1    one a GPU: HOST-gpu0, HOST-gpu1\n"
         "kiln worker ls                              what runs, and why a worker was given up\n"
         "kiln worker logs HOST-gpu0 --follow\n"
         "kiln worker stop --all --yes                each finishes its batch first",
     .more = "A guard keeps running after the shell exits.  It restarts workers that crash, "
             "after 1, 2, 4, ... 60 s.  It gives up a worker that crashes too often or has wrong "
             "settings; `worker start` tries it again.  Where systemd runs kiln-worker@.service, "
             "all four subcommands use systemd (0, cuda:0 and HOST-gpu0 name one unit), unless "
             "--dir or a stack says otherwise.",
     .options = worker_options,
     .words = {1, KILN_GUARD_MAX},
     .run = kiln_verb_worker},
    {.name = NULL},
};
