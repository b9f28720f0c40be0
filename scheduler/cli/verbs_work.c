/* verbs_work.c - rows of the verbs from a stack to a batch that has ended: started, fed, waited
 * for, looked at. */
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/jobs/enqueue/enqueue.h"
#include "scheduler/cli/verb_tables.h"

#define DIR_OPTION                                                                                 \
    {                                                                                              \
        "dir", "DIR", "where the stack lives (.kiln)"                                              \
    }

static const struct kiln_option up_options[] = {
    DIR_OPTION,
    {"workers", "N", "how many workers (as before; at first one a device); 0: they run elsewhere"},
    {NULL, NULL, NULL}};
static const struct kiln_option down_options[] = {
    DIR_OPTION,
    {"daemons", NULL, "scheduler and workers alone: Redis and Postgres go on"},
    {NULL, NULL, NULL}};
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
    {NULL, NULL, NULL}};
static const struct kiln_option wait_options[] = {
    {"timeout", "S", "stop waiting after so many seconds, with exit code 75"}, {NULL, NULL, NULL}};
static const struct kiln_option status_options[] = {
    {"groups", NULL, "only the groups: backlog in GPU-seconds, jobs, workers that have the set"},
    {NULL, NULL, NULL}};
static const struct kiln_option watch_options[] = {
    {"interval", "S", "seconds between two looks (1)"}, {NULL, NULL, NULL}};
static const struct kiln_option run_options[] = {
    {"out", "DIR", "the directory of the gallery"},
    DIR_OPTION,
    {"workers", "N", "how many workers the private stack has"},
    KILN_LOOK_OPTIONS,
    {NULL, NULL, NULL}};

const struct kiln_verb kiln_verbs_work[] = {
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
     .summary = "do everything in one command: up, enqueue, wait, export",
     .examples = "kiln run prompts.jsonl --out gallery\n"
                 "kiln run prompts.txt --out gallery --model /models/turbo --set steps=8",
     .more = "Uses the stack or fleet of the settings, or starts a private stack in ./.kiln.  "
             "Repeat the\n"
             "command to continue where it stopped.  Prints the path of index.html.",
     .options = run_options,
     .also = kiln_enqueue_options,
     .settings = KILN_SETTINGS_BARE,
     .run = kiln_verb_run},
    {.name = "enqueue",
     .args = "FILE|- [--batch NAME] [--set KEY=VALUE]... [--dry-run] [--strict] [--no-wait]",
     .summary = "send the jobs of a file to the queue",
     .examples = "kiln enqueue prompts.jsonl               prints the name of the batch\n"
                 "kiln enqueue prompts.txt --set size=16:9 --set steps=8\n"
                 "kiln enqueue sweep.csv --batch sweep-1   again: adds only new jobs\n"
                 "kiln enqueue prompts.jsonl --dry-run     the jobs and their estimated cost",
     .more =
         "FILE is JSON lines, plain text (a prompt a line, # comments) or CSV with a header of "
         "job\n"
         "keys.  A prompt may have choices: \"a {red|blue} car\" makes two jobs.  A refused line "
         "is\n"
         "printed as FILE:LINE: reason; the others are sent, and the exit code is 65.",
     .options = kiln_enqueue_options,
     .run = kiln_verb_enqueue},
    {.name = "wait",
     .args = "BATCH [--timeout S]",
     .summary = "wait until a batch has ended",
     .examples = "kiln wait sketches && kiln export sketches --out gallery",
     .more =
         "Exit code 0: all done; 1: some failed or were cancelled; 75: timed out.  If no live "
         "worker\n"
         "can render the queued jobs, or all are paused, stderr says so and the wait continues.",
     .options = wait_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_wait},
    {.name = "watch",
     .args = "[BATCH]",
     .summary = "a live view of the fleet, or of a batch until it has ended",
     .examples =
         "kiln watch                       the fleet, full screen; q quits\n"
         "kiln watch sketches              until it has ended; the exit code is that of wait\n"
         "kiln watch | ts                  elsewhere: a line a change, --json a line a look",
     .more =
         "Keys: q quits, tab and the arrows scroll workers, groups and failures, space holds the\n"
         "screen, + and - change the interval.  80x24 is enough; NO_COLOR is heeded.",
     .options = watch_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_watch},
    {.name = "status",
     .args = "[--groups]",
     .summary = "jobs by state, live workers, groups that wait",
     .examples = "kiln status --json\n"
                 "kiln status --groups    what waits in GPU-seconds, as the scheduler sees it",
     .more = "When Redis does not answer, it tells what the ledger knows and ends with 69 or 75; "
             "in --json\n"
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
     .examples =
         "kiln worker start --device cuda:0,cuda:1    one a GPU, as HOST-cuda0, HOST-cuda1\n"
         "kiln worker ls                              who runs, who was given up and why\n"
         "kiln worker logs HOST-cuda0 --follow\n"
         "kiln worker stop --all --yes                each finishes its batch first",
     .more =
         "A guard outlives the shell.  It starts what crashes again after 1, 2, 4, ... 60 s and\n"
         "gives up what crashes too often, or with wrong settings; start takes it up again.\n"
         "Where systemd runs and has kiln-worker@.service, all four go through it (0, cuda:0 and\n"
         "HOST-gpu0 name one unit), unless --dir or a crew here says otherwise.",
     .options = worker_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_worker},
    {.name = NULL},
};
