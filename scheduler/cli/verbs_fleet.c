/* verbs_fleet.c - rows of the verbs that run a fleet: what may run, and the upkeep of its stores.
 */
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/verb_tables.h"

static const struct kiln_option pause_options[] = {
    {"all", NULL, "all jobs of the pool (the default)"},
    {"backfill", NULL, "all jobs of priority -10: backfills, cached latents"},
    {"tenant", "T", "all jobs of this tenant"},
    {"group", "G", "SIZE/STEPS/LORAS as in `kiln status`; * matches any: 1024x1024, */*/ink:0.8"},
    {"reason", "TEXT", "stored with the pause; `kiln why` and `kiln status` show it"},
    {NULL, NULL, NULL}};
static const struct kiln_option pause_yes[] = {{"yes", NULL, "of all jobs: do not ask"},
                                               {NULL, NULL, NULL}};
static const struct kiln_option backfill_options[] = {
    {"prompts", "FILE", "a file of prompts, as for enqueue"},
    {"template", "TEXT", "one prompt; {a|b} are choices"},
    {"loras", "L", "none, auto or name:scale+...; the same as --set loras=L"},
    {"set", "KEY=VALUE", "set this key of every job; may be repeated"},
    {"rate", "N/h", "enqueue at most N jobs an hour"},
    {"low-water", "N", "keep at most N jobs queued or assigned (100, or an hour of --rate)"},
    {"until", "END",
     "end after a number of jobs, at a date in UTC, or after a span: 5000, 2026-12-24, 7d"},
    {"window", "HOURS", "run only in these hours, by the scheduler's local time: 22:00-06:00"},
    {"seed-policy", "P",
     "fresh: new seeds in every pass; fixed: one pass with the given seeds (fresh)"},
    {"dry-run", NULL, "only read the prompts and count their jobs"},
    {"reason", "TEXT", "pause, resume: stored with it"},
    {"yes", NULL, "rm: do not ask"},
    {NULL, NULL, NULL}};
static const struct kiln_option cache_options[] = {
    {"prompts", "FILE", "a file of prompts, as for enqueue"},
    {"template", "TEXT", "one prompt; {a|b} are choices"},
    {"from-history", NULL, "build: the prompts of the ledger whose donors would save the most"},
    {"top", "N", "with --from-history: how many prompts (100)"},
    {"donors", "K", "with --from-history: donors of each, including stored ones (8)"},
    {"alike", "A", "with --from-history: alike of future jobs, 0 to 100 (0)"},
    {"sigmas", "LIST", "store the states nearest to these sigmas (0: the finished latent)"},
    {"loras", "L", "none or name:scale+...; the same as --set loras=L"},
    {"set", "KEY=VALUE", "set this key of every job; may be repeated"},
    {"half", NULL, "latents of the small size that coarse runs of these jobs use"},
    {"most", "N", "refuse prompts that name more latents than this (100000)"},
    {"limit", "N", "the name of --most in older releases"},
    {"dry-run", NULL, "build: only count what is missing; prune: only list what would go"},
    {"budget", "BYTES", "of prune: keep so much, such as 500GB (cache_budget_gb)"},
    {"grace", "SPAN", "of prune: keep latents younger than this (1d)"},
    {"yes", NULL, "of prune: do not ask"},
    {"timeout", "S", "of warm: stop waiting after this many seconds (60)"},
    {"full", NULL, "of verify: read each latent, compare its SHA-256, decode it"},
    {NULL, NULL, NULL}};
static const struct kiln_option quota_options[] = {
    {"queued", "N", "the most queued jobs, or none for no limit"},
    {"gpu-seconds-day", "S", "the most GPU-seconds in a day (UTC), or none for no limit"},
    {"reuse", "off|auto|none", "whether runs may begin from stored latents; none: as for '*'"},
    {"yes", NULL, "rm: do not ask"},
    {NULL, NULL, NULL}};
static const struct kiln_option drain_options[] = {
    {"all", NULL, "every worker of the pool"},
    {"wait", NULL, "wait until they have ended"},
    {"timeout", "S", "with --wait: stop waiting after this many seconds, exit code 75 (600)"},
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
    {"fix", NULL,
     "fix what is safe to fix: orphaned assignments, settings open to others, old sockets"},
    {NULL, NULL, NULL}};
static const struct kiln_option migrate_options[] = {
    {"dry-run", NULL, "only say what would change"},
    {"roles", NULL, "make database roles with only the rights that each part needs"},
    {"secrets", "DIR", "with --roles: also passwords, Redis users and a settings file for each"},
    {"acl", "FILE", "with --secrets: put the Redis users into this ACL file, do not print them"},
    {NULL, NULL, NULL}};

const struct kiln_verb kiln_verbs_fleet[] = {
    {.name = "drain",
     .args = "WORKER|--all [--yes] [--wait [--timeout S]]",
     .summary = "let a worker finish its batch and end",
     .examples = "kiln drain gpu0\nkiln drain --all --yes --wait && echo safe to switch off",
     .options = drain_options,
     .words = {0, 1},
     .run = kiln_verb_drain},
    {.name = "pause",
     .args = "--all [--yes]|--backfill|--tenant T|--group G [--reason TEXT]",
     .summary = "stop assigning matching jobs until `kiln resume`",
     .examples = "kiln pause --tenant ann --reason 'invoice 17'\n"
                 "kiln pause --group '*/*/ink:0.8'",
     .more = "Jobs that are already assigned still run.  A tenant or group can be paused before "
             "it has jobs; kiln warns about an unknown name and suggests the nearest ones.  If "
             "two people give opposite commands at once, the later one wins; both are told, and "
             "the other command exits with 1.",
     .options = pause_options,
     .also = pause_yes,
     .run = kiln_verb_pause},
    {.name = "resume",
     .args = "[--all|--backfill|--tenant T|--group G]",
     .summary = "end a pause",
     .examples = "kiln resume --tenant ann",
     .options = pause_options,
     .run = kiln_verb_pause},
    {.name = "quota",
     .args = "set TENANT [--queued N] [--gpu-seconds-day S] [--reuse off|auto|none] | ls | "
             "rm TENANT [--yes]",
     .summary = "limit a tenant's queued jobs and GPU-seconds a day, and its use of stored latents",
     .examples =
         "kiln quota set ann --queued 10000 --gpu-seconds-day 3600\n"
         "kiln quota set '*' --queued 1000     every tenant without a quota of its own\n"
         "kiln quota set '*' --reuse off    no run of the pool begins from a stored latent\n"
         "kiln quota ls",
     .more = "Jobs above the limit of queued jobs are refused.  A tenant that has used its "
             "GPU-seconds is paused until midnight (UTC), and `kiln why` says so.  Backfills are "
             "limited by their low-water marks.  --reuse off applies whatever a job line asks "
             "for; --reuse auto exempts a tenant from the '*' that turns it off.  A tenant whose "
             "quota has only --reuse keeps the limits of '*'.",
     .options = quota_options,
     .words = {1, 2},
     .run = kiln_verb_quota},
    {.name = "backfill",
     .args = "add NAME --prompts FILE|--template TEXT ... | ls | show|pause|resume|rm NAME",
     .summary = "keep a list of prompts queued at the lowest priority",
     .examples = "kiln backfill add seasons --prompts seasons.txt --window 22:00-06:00\n"
                 "kiln backfill add cats --template 'a {red|black} cat' --rate 60/h --until 5000\n"
                 "kiln backfill ls --json | jq -r 'select(.state == \"failed\") | .error'\n"
                 "kiln backfill rm cats --yes",
     .more = "The scheduler tops up each backfill to its low-water mark, at the lowest priority, "
             "from the ledger; no client has to run.  The jobs belong to batch backfill-NAME.  "
             "No prompt gets the same seed twice.  A backfill that is removed and added again "
             "under its name continues in that batch and renders the jobs that its removal "
             "cancelled.  Windows use the scheduler's local time, also past midnight and when "
             "the clocks change.",
     .options = backfill_options,
     .words = {1, 2},
     .run = kiln_verb_backfill},
    {.name = "cache",
     .args =
         "build --prompts FILE|--template TEXT|--from-history [--sigmas LIST|--half] ... | stat | "
         "warm [--timeout S] | verify [--full] | why JOB | "
         "prune [--budget BYTES] [--dry-run] [--yes]",
     .summary = "store latents without pictures, for later runs to start from",
     .examples = "kiln cache build --prompts popular.txt --set size=1024x1024\n"
                 "kiln cache build --prompts popular.txt --sigmas 0.9,0.75\n"
                 "kiln cache build --prompts popular.txt --set size=1024x1024 --half\n"
                 "kiln cache build --from-history --top 50 --alike 50 --dry-run\n"
                 "kiln cache stat\n"
                 "kiln cache warm                  before jobs that should find what is stored\n"
                 "kiln cache verify --full         reads every latent that a run may begin from\n"
                 "kiln cache why 17                from which latent job 17 would begin, and why\n"
                 "kiln cache prune --budget 500GB  evicts what saved the least a byte",
     .more =
         "build first counts the latents that the prompts name: stored, on their way, "
         "missing.  Then it enqueues only the missing ones, in batch latent-cache at the "
         "lowest priority (see --set priority).  Repeat the command to continue after an "
         "interruption.  A latent is identified by model, size, LoRA set and prompt, and by "
         "its seed if the job line has one.  Exit code 75: a tenant's quota (--set tenant) "
         "allowed only a part; repeat it later.  A latent counts as stored only if it was "
         "rendered with the current files of its model and LoRAs: those that the newest "
         "latents of the pool name.  So a replaced file counts from the first latent "
         "rendered with it.  Latents that name no LoRA files count as current.\n"
         "build --from-history takes the prompts that the newest pictures repeat, and estimates "
         "from the model's teleport table what more donors would save if each prompt is "
         "rendered as often again.  --dry-run lists them with the GPU-seconds that they would "
         "save and take to make.  Full runs leave donors as well, at no cost.  It makes no latents "
         "of "
         "other sigmas or of half size: name the prompts for these.\n"
         "build --half makes latents of the small size, at a quarter of the cost and the bytes.  "
         "Only jobs that are rendered coarse first begin from them, where the model's teleport "
         "table has rows of small donors.\n"
         "warm has the leading scheduler read the latents from which runs may begin, and waits "
         "until all that are stored now are in its memory.  Otherwise it reads them when a job "
         "first asks for one.  Exit codes: 1, the model has no table of teleport; 69, the "
         "scheduler is too old; 75, not within --timeout.\n"
         "verify checks the latents from which other runs may begin: that they are in the "
         "store, of the right size.  Exit code 1: some are not.  why looks a job up as the "
         "scheduler would now, by the model's kiln.json and words.txt in the directory of the "
         "setting model, and says why other prompts do not serve.\n"
         "prune evicts final latents until all stored latents fit the budget: first those that "
         "saved the fewest GPU-seconds a byte, of these the oldest.  It keeps young ones, those "
         "that queued or assigned jobs begin from, those of a favourite picture's prompt, and "
         "files with other states.  Pictures stay.  You may interrupt and repeat it.",
     .options = cache_options,
     .words = {1, 2},
     .run = kiln_verb_cache},
    {.name = "gc",
     .args = "[--dry-run] [--grace SPAN] [--older-than SPAN --yes]",
     .summary = "remove unreferenced objects, and rows of cancelled jobs",
     .examples = "kiln gc --dry-run                what would be removed\n"
                 "kiln gc --older-than 90d --yes   also old pictures and old cached latents",
     .more = "Objects of queued and assigned jobs always stay.  You may interrupt and repeat it.\n"
             "--older-than removes a picture and its latent if both the picture and its batch "
             "are that old, and a latent of `kiln cache build` if it is that old.  Pictures "
             "marked by `kiln favourite` stay, with the cached latents of the same prompt, "
             "model, size and LoRA set.",
     .options = gc_options,
     .run = kiln_verb_gc},
    {.name = "backup",
     .args = "--out DIR",
     .summary = "write the ledger and a list of its objects to a directory",
     .examples = "kiln backup --out /backup/kiln-2026-11-21",
     .more = "The fleet keeps running.  Objects are not copied: copy the store after the backup; "
             "objects are immutable, so a later copy contains everything listed.  Needs pg_dump.",
     .options = backup_options,
     .words = {0, 0},
     .run = kiln_verb_backup},
    {.name = "restore",
     .args = "DIR [--yes] [--check] [--hashes]",
     .summary = "replace the ledger by a backup, and name objects missing from the store",
     .examples = "kiln restore /backup/kiln-2026-11-21\n"
                 "kiln restore /backup/kiln-2026-11-21 --check   is the store still complete?",
     .more = "Stop all schedulers and workers first (a private stack: `kiln down --daemons`).  It "
             "replaces the whole ledger or, if anything fails, nothing.  Exit code 1: objects are "
             "missing or differ.",
     .options = restore_options,
     .words = {1, 1},
     .run = kiln_verb_restore},
    {.name = "migrate",
     .args = "[--dry-run] [--roles [--secrets DIR [--acl FILE]]]",
     .summary = "create or upgrade the tables of the ledger; make users with few rights",
     .examples = "kiln migrate --dry-run\n"
                 "kiln migrate --roles --secrets /etc/kiln/secrets",
     .more = "The roles are kiln_scheduler, kiln_worker, kiln_operator (the verbs that change "
             "rows), kiln_reader and kiln_gallery; in Redis also kiln_producer, which may only "
             "enqueue.  The units read DIR/ROLE.env over /etc/kiln/kiln.conf; start a program by "
             "hand with --config DIR/ROLE.conf.  The files belong to the owner of DIR.  "
             "Repeated, it keeps the passwords in DIR and the other lines of FILE.  A Redis that "
             "has an ACL file saves the users by itself.",
     .options = migrate_options,
     .words = {0, 0},
     .run = kiln_verb_migrate},
    {.name = "doctor",
     .args = "[--full] [--fix]",
     .summary = "check settings, servers, rights, store, model, GPU and leases, and say what to do",
     .examples = "kiln doctor --json\n"
                 "kiln doctor --full    check every object of the ledger, not a sample\n"
                 "kiln doctor --fix     requeue jobs that no worker has, close settings that "
                 "others can read",
     .more = "Exit code 1: something keeps jobs from running, or is lost.",
     .options = doctor_options,
     .settings = KILN_SETTINGS_LENIENT,
     .words = {0, 0},
     .run = kiln_verb_doctor},
    {.name = NULL},
};
