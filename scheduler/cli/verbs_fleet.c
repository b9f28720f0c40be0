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
    {"prompts", "FILE", "a file of prompts, as for enqueue"},
    {"template", "TEXT", "one prompt; {a|b} are choices"},
    {"loras", "L", "none or name:scale+...; the same as --set loras=L"},
    {"set", "KEY=VALUE", "set this key of every job; may be repeated"},
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
    {"prompts", "FILE", "a file of prompts, as for enqueue"},
    {"template", "TEXT", "one prompt; {a|b} are choices"},
    {"sigmas", "LIST", "store the states nearest to these sigmas (0: the finished latent)"},
    {"loras", "L", "none or name:scale+...; the same as --set loras=L"},
    {"set", "KEY=VALUE", "set this key of every job; may be repeated"},
    {"limit", "N", "refuse prompts that name more latents than this (100000)"},
    {"dry-run", NULL, "only count what is missing"},
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
    {"dry-run", NULL, "only list what would be removed"},
    {"grace", "SPAN", "keep objects and cancelled jobs younger than this (1d; 36h, 30m, 90s)"},
    {"older-than", "SPAN",
     "also remove pictures and cached latents older than this, except favourites"},
    {"yes", NULL, "do not ask"},
    {NULL, NULL, NULL}};
static const struct kiln_option backup_options[] = {
    {"out", "DIR", "the new directory of the backup"}, {NULL, NULL, NULL}};
static const struct kiln_option restore_options[] = {
    {"yes", NULL, "replace a ledger that has jobs, without asking"},
    {"check", NULL, "change nothing, only compare the backup with the store"},
    {"hashes", NULL, "also download every object and compare its bytes"},
    {"stall", "SPAN", "stop after so long without progress (1h); building an index takes long"},
    {NULL, NULL, NULL}};
static const struct kiln_option doctor_options[] = {
    {"full", NULL, "check every object of the ledger in the store, not a sample"},
    {"fix", NULL, "fix what is safe to fix: orphaned assignments, settings open to others, old sockets"},
    {NULL, NULL, NULL}};
static const struct kiln_option migrate_options[] = {
    {"dry-run", NULL, "only say what would change"},
    {"roles", NULL, "make database roles with only the rights that each part needs"},
    {"secrets", "DIR", "with --roles: also passwords, Redis users and a settings file for each"},
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
     .more =
         "What workers hold is still drawn.  A tenant or a group may be paused before it has\n"
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
     .more =
         "Jobs beyond the first are refused when they come, with the reason; a tenant that has\n"
         "used up the second waits until midnight (UTC), and `kiln why` says so.  Standing orders\n"
         "are bounded by their marks.",
     .options = quota_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_quota},
    {.name = "backfill",
     .args = "add NAME --prompts FILE|--template TEXT ... | ls | show|pause|resume|rm NAME",
     .summary = "standing orders: prompts that are drawn when nobody else wants the GPUs",
     .examples = "kiln backfill add seasons --prompts seasons.txt --window 22:00-06:00\n"
                 "kiln backfill add cats --template 'a {red|black} cat' --rate 60/h --until 5000\n"
                 "kiln backfill ls --json | jq -r 'select(.state == \"failed\") | .error'\n"
                 "kiln backfill rm cats --yes",
     .more =
         "The scheduler keeps each order topped up to its mark, at the lowest priority, from the\n"
         "ledger: nobody has to be there.  Its jobs are those of batch backfill-NAME; no prompt\n"
         "has the same seed twice; an order given again under its name goes on with that batch "
         "and\n"
         "draws what its removal cancelled.  A window over midnight, and one on a day when the "
         "clocks\n"
         "change, is what the scheduler's wall clock says.",
     .options = backfill_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_backfill},
    {.name = "cache",
     .args = "build --prompts FILE|--template TEXT [--sigmas LIST] ... | stat",
     .summary = "store latents without pictures, for later runs to start from",
     .examples = "kiln cache build --prompts popular.txt --set size=1024x1024\n"
                 "kiln cache build --prompts popular.txt --sigmas 0.9,0.75\n"
                 "kiln cache stat",
     .more =
         "build first counts the latents that the prompts name: stored, on their way, missing.  "
         "Then\n"
         "it enqueues only the missing ones, in batch latent-cache at the lowest priority (see\n"
         "--set priority).  Repeat the command to continue after an interruption.  A latent is\n"
         "identified by model, size, LoRA set and prompt, and by its seed if the job line has "
         "one.\n"
         "Exit code 75: a tenant's quota (--set tenant) allowed only a part; repeat it later.\n"
         "A latent counts as stored only if it was rendered with the current files of its model "
         "and\n"
         "LoRAs: those that the newest latents of the pool name.  So a replaced file counts from "
         "the\n"
         "first latent rendered with it.  Latents that name no LoRA files count as current.",
     .options = cache_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_cache},
    {.name = "gc",
     .args = "[--dry-run] [--grace SPAN] [--older-than SPAN --yes]",
     .summary = "remove unreferenced objects, and rows of cancelled jobs",
     .examples = "kiln gc --dry-run                what would be removed\n"
                 "kiln gc --older-than 90d --yes   also old pictures and old cached latents",
     .more = "Objects of queued and assigned jobs always stay.  You may interrupt and repeat it.\n"
             "--older-than removes a picture and its latent if both the picture and its batch are "
             "that\n"
             "old, and a latent of `kiln cache build` if it is that old.  Pictures marked by\n"
             "`kiln favourite` stay, with the cached latents of the same prompt, model, size and\n"
             "LoRA set.",
     .options = gc_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_gc},
    {.name = "backup",
     .args = "--out DIR",
     .summary = "write the ledger and a list of its objects to a directory",
     .examples = "kiln backup --out /backup/kiln-2026-11-21",
     .more = "The fleet keeps running.  Objects are not copied: copy the store after the backup; "
             "objects\n"
             "are immutable, so a later copy contains everything listed.  Needs pg_dump.",
     .options = backup_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_backup},
    {.name = "restore",
     .args = "DIR [--yes] [--check] [--hashes]",
     .summary = "replace the ledger by a backup, and name objects missing from the store",
     .examples = "kiln restore /backup/kiln-2026-11-21\n"
                 "kiln restore /backup/kiln-2026-11-21 --check   is the store still complete?",
     .more = "Stop all schedulers and workers first.  It replaces the whole ledger or, if anything "
             "fails,\n"
             "nothing.  Exit code 1: objects are missing or differ.",
     .options = restore_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_restore},
    {.name = "migrate",
     .args = "[--dry-run] [--roles [--secrets DIR]]",
     .summary = "create or upgrade the tables of the ledger; make users with few rights",
     .examples = "kiln migrate --dry-run\n"
                 "kiln migrate --roles --secrets /etc/kiln/secrets >> /etc/redis/users.acl",
     .more =
         "The roles are kiln_scheduler, kiln_worker, kiln_operator (the verbs that change rows) "
         "and\n"
         "kiln_reader; in Redis also kiln_producer, which may only enqueue.  Start each part with\n"
         "--config DIR/ROLE.conf.  Repeated, it keeps the passwords in DIR.",
     .options = migrate_options,
     .settings = KILN_SETTINGS_FILE,
     .run = kiln_verb_migrate},
    {.name = "doctor",
     .args = "[--full] [--fix]",
     .summary = "check settings, servers, rights, store, model, GPU and leases, and say what to do",
     .examples = "kiln doctor --json\n"
                 "kiln doctor --full    check every object of the ledger, not a sample\n"
                 "kiln doctor --fix     requeue jobs that no worker has, close settings that others can read",
     .more = "Exit code 1: something keeps jobs from running, or is lost.",
     .options = doctor_options,
     .settings = KILN_SETTINGS_LENIENT,
     .run = kiln_verb_doctor},
    {.name = NULL},
};
