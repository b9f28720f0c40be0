/* verbs_fleet.c - rows of the verbs of those who run a fleet: who may have what, and when; what is
 * kept, and whether it is well. */
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/verb_tables.h"

static const struct kiln_option hold_options[] = {
    {"all", NULL, "everything of the pool, as when nothing is named"},
    {"backfill", NULL, "all jobs of priority -10, standing orders among them"},
    {"tenant", "T", "a tenant's jobs"},
    {"group", "G", "SIZE/STEPS/LORAS as `kiln status` shows it; * is any: 1024x1024, */*/ink:0.8"},
    {"reason", "TEXT", "kept with it, and told to whoever asks why"},
    {NULL, NULL, NULL}};
static const struct kiln_option backfill_options[] = {
    {"prompts", "FILE", "job lines, text or CSV, as for enqueue"},
    {"template", "TEXT", "one prompt; {a|b} are choices"},
    {"loras", "L", "none or name:scale+...; the same as --set loras=L"},
    {"set", "KEY=VALUE", "give every job this key; may be repeated"},
    {"rate", "N/h", "at most so many an hour"},
    {"low-water", "N", "never more than N waiting or running (100; with a rate, an hour of it)"},
    {"until", "END",
     "a number of jobs, a date in UTC, or a span from now on: 5000, 2026-12-24, 7d"},
    {"window", "HOURS", "only then: 22:00-06:00, by the scheduler's clock and time zone"},
    {"seed-policy", "P", "fresh: new seeds in every pass; fixed: one pass, its seeds (fresh)"},
    {"dry-run", NULL, "only read and count the prompts"},
    {"reason", "TEXT", "pause, resume: kept with it"},
    {"yes", NULL, "rm: do not ask"},
    {NULL, NULL, NULL}};
static const struct kiln_option cache_options[] = {
    {"prompts", "FILE", "job lines, text or CSV, as for enqueue"},
    {"template", "TEXT", "one prompt; {a|b} are choices"},
    {"sigmas", "LIST", "the states nearest to these noise levels (0: the finished latent)"},
    {"loras", "L", "none or name:scale+...; the same as --set loras=L"},
    {"set", "KEY=VALUE", "give every job this key; may be repeated"},
    {"limit", "N", "refuse prompts that name more latents (100000)"},
    {"dry-run", NULL, "only look what is missing"},
    {NULL, NULL, NULL}};
static const struct kiln_option quota_options[] = {
    {"queued", "N", "jobs that may wait at once, or none for any number"},
    {"gpu-seconds-day", "S", "GPU-seconds of a day (UTC), or none for any number"},
    {"yes", NULL, "rm: do not ask"},
    {NULL, NULL, NULL}};
static const struct kiln_option drain_options[] = {
    {"all", NULL, "every worker of the pool"},
    {"wait", NULL, "until they have ended"},
    {"timeout", "S", "with --wait: give up after so many seconds with exit code 75 (600)"},
    {"yes", NULL, "with --all: do not ask"},
    {NULL, NULL, NULL}};
static const struct kiln_option gc_options[] = {
    {"dry-run", NULL, "only list what would go"},
    {"grace", "SPAN", "leave objects and cancelled jobs younger than this (1d; 36h, 30m, 90s)"},
    {"older-than", "SPAN", "also pictures and cached latents older than this, but for favourites"},
    {"yes", NULL, "do not ask"},
    {NULL, NULL, NULL}};
static const struct kiln_option backup_options[] = {{"out", "DIR", "a new directory for it"},
                                                    {NULL, NULL, NULL}};
static const struct kiln_option restore_options[] = {
    {"yes", NULL, "replace a ledger that has jobs in it, without asking"},
    {"check", NULL, "change nothing: only compare the backup with the store"},
    {"hashes", NULL, "fetch every object and compare its bytes too"},
    {"stall", "SPAN", "give up when nothing moves for so long (1h): the longest index to build"},
    {NULL, NULL, NULL}};
static const struct kiln_option doctor_options[] = {
    {"full", NULL, "compare every object of the ledger with the store, not a sample"},
    {"fix", NULL, "mend what is safe to mend: orphaned leases, files open to others, left sockets"},
    {NULL, NULL, NULL}};
static const struct kiln_option migrate_options[] = {
    {"dry-run", NULL, "only say what would be done"},
    {"roles", NULL, "make database roles that may do what each part needs, and no more"},
    {"secrets", "DIR", "with --roles: passwords, Redis users and a settings file for each role"},
    {NULL, NULL, NULL}};

const struct kiln_verb kiln_verbs_fleet[] = {
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
     .more = "What workers hold is still drawn.  A tenant or a group may be paused before it has\n"
             "jobs; a name that nothing answers to yet is told of, with the nearest ones.  The last\n"
             "word of several people counts; each is told of the other, and exits with 1 if it was\n"
             "overruled at once.",
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
             "a tenant (--set tenant) let only a part be ordered; run it again later.\n"
             "Models and LoRAs count as they are now: by the files that the newest latents of the pool\n"
             "were drawn with.  A file exchanged under its name is seen with the first latent drawn\n"
             "with it; older latents, which do not say their LoRA files, count\n"
             "as drawn with the present ones.",
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
    {.name = NULL},
};
