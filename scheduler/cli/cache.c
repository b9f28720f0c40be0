/* cache.c - `kiln cache build|stat`: latents without pictures, for later runs to begin from.
 *
 * Building looks first and orders only what is missing, a page of prompts at a time, so the same
 * command again, after it was interrupted or the prompts have grown, goes on where it stopped.  The
 * jobs go straight into the ledger under their identity, as those of the intake would.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/listing.h"
#include "scheduler/cli/prompts.h"
#include "scheduler/cli/records.h"
#include "scheduler/cli/verbs.h"
#include "schemas/digest.h"
#include "storage/ledger.h"
#include "storage/ledger_cache.h"

#define PAGE 500

struct build {
    struct kiln_cli *cli;
    struct kiln_ledger *ledger;
    struct kiln_prompts prompts;
    char sigmas[256];
    bool dry_run;
    /* the page in hand */
    struct kiln_new_job *jobs;     /* [PAGE] */
    struct kiln_cache_want *wants; /* [PAGE] */
    size_t count;
    /* so far */
    uint64_t wanted, stored, waiting, failed, ordered;
};

/* --- one latent ------------------------------------------------------------------------------- */
static void release_page(struct build *build)
{
    for (size_t i = 0; i < build->count; i++)
        kiln_job_release(&build->jobs[i].job);
    build->count = 0;
}

/* What makes it the same latent: all that the picture depends on, and the states that are kept.
 * Without a named seed any will do, and the identity chooses one. */
static void identify(struct kiln_cache_want *want, struct kiln_job *job)
{
    char hash[65], set[KILN_LORA_SET_MAX], sigmas[KILN_SIGMAS_TEXT_MAX], hex[33];
    char text[KILN_LORA_SET_MAX + KILN_SIGMAS_TEXT_MAX + KILN_NAME_MAX + 256];
    uint8_t digest[KILN_SHA256_SIZE];
    kiln_prompt_hash(job->prompt, job->negative_prompt, hash);
    kiln_lora_set_text(job->loras, job->lora_count, set, sizeof set);
    kiln_sigmas_text(job->sigmas, job->sigma_count, sigmas, sizeof sigmas);
    int len = snprintf(text, sizeof text, "kiln latent\n%s\n%ux%u\n%u\n%g\n%s\n%s\n%d\n%s\n%llu",
                       job->model, job->width, job->height, job->steps, job->guidance, set, sigmas,
                       (int)job->latents, hash, want->any_seed ? 0 : (unsigned long long)job->seed);
    kiln_sha256(text, (size_t)len, digest);
    kiln_hex(digest, 16, hex);
    snprintf(want->key, sizeof want->key, "l%s:%s", want->any_seed ? "" : "s", hex);
    for (int i = 0; want->any_seed && i < 8; i++)
        job->seed = job->seed << 8 | digest[i];
    job->seed = want->any_seed ? job->seed & INT64_MAX : job->seed;
}

/* Jobs of the page that are to be ordered are moved to its front; returns how many. */
static size_t sort_out(struct build *build, const struct kiln_cache_found *found)
{
    size_t kept = 0;
    for (size_t i = 0; i < build->count; i++) {
        struct kiln_cache_want *want = &build->wants[i];
        enum kiln_cache_state state = found[i].state;
        build->stored += state == KILN_CACHE_STORED;
        build->waiting += state == KILN_CACHE_WAITING;
        build->failed += state == KILN_CACHE_FAILED;
        if (state != KILN_CACHE_ABSENT && state != KILN_CACHE_LOST)
            continue;
        if (state == KILN_CACHE_LOST) { /* a job of its own, once for each that was lost */
            size_t len = strlen(want->key);
            snprintf(want->key + len, sizeof want->key - len, ":%llu",
                     (unsigned long long)found[i].job);
        }
        struct kiln_new_job job = build->jobs[i];
        struct kiln_cache_want moved = *want;
        build->jobs[i] = build->jobs[kept];
        build->wants[i] = build->wants[kept];
        build->jobs[kept] = job;
        build->wants[kept++] = moved;
    }
    for (size_t i = 0; i < build->count; i++) {
        build->jobs[i].key = build->wants[i].key;
        build->wants[i].job = &build->jobs[i].job;
    }
    return kept;
}

/* --- a page ----------------------------------------------------------------------------------- */
static int order(struct build *build, size_t count, struct kiln_error *err)
{
    const char *keys[PAGE];
    uint32_t indexes[PAGE];
    uint64_t inserted = 0;
    for (size_t i = 0; i < count; i++)
        keys[i] = build->jobs[i].key;
    int rc = kiln_ledger_number(build->ledger, kiln_pool(build->cli), KILN_CACHE_BATCH, keys, count,
                                indexes, err);
    for (size_t i = 0; i < count && rc == 0; i++)
        build->jobs[i].job.index = indexes[i];
    if (rc == 0)
        rc = kiln_ledger_insert_jobs(build->ledger, kiln_pool(build->cli), build->jobs, count,
                                     &inserted, err);
    build->ordered += inserted;
    return rc;
}

static int flush(struct build *build, struct kiln_error *err)
{
    struct kiln_cache_found found[PAGE];
    if (build->count == 0)
        return 0;
    int rc = kiln_ledger_cache_look(build->ledger, kiln_pool(build->cli), build->wants,
                                    build->count, found, err);
    size_t missing = rc ? 0 : sort_out(build, found);
    if (rc == 0 && missing > 0 && build->dry_run)
        build->ordered += missing;
    else if (rc == 0 && missing > 0)
        rc = order(build, missing, err);
    release_page(build);
    return rc;
}

static int take_line(void *arg, const char *text, size_t len, struct kiln_error *err)
{
    struct build *build = arg;
    const struct kiln_expand *expand = build->prompts.expand;
    uint64_t count = kiln_expand_count(expand);
    bool any_seed = !kiln_expand_has_seed(expand);
    int rc = 0;
    (void)text, (void)len;
    for (uint64_t which = 0; which < count && rc == 0; which++) {
        struct kiln_new_job *new = &build->jobs[build->count];
        struct kiln_cache_want *want = &build->wants[build->count];
        *new = (struct kiln_new_job){.token = "", .key = want->key};
        rc = kiln_expand_job(expand, which, &new->job, err);
        if (rc)
            return rc;
        free(new->job.batch);
        new->job.batch = strdup(KILN_CACHE_BATCH);
        *want = (struct kiln_cache_want){.job = &new->job, .any_seed = any_seed};
        identify(want, &new->job);
        build->count++;
        build->wanted++;
        if (!new->job.batch)
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for a job");
        if (build->count == PAGE)
            rc = flush(build, err);
    }
    return rc;
}

/* --- build ------------------------------------------------------------------------------------ */
static int print_build(const struct build *build)
{
    struct kiln_cli *cli = build->cli;
    if (build->failed)
        kiln_warn(cli,
                  "%llu have failed before; `kiln retry --batch " KILN_CACHE_BATCH "` tries "
                  "them again",
                  (unsigned long long)build->failed);
    kiln_say(cli, "latents wanted: %llu; stored: %llu; on their way: %llu; %s: %llu",
             (unsigned long long)build->wanted, (unsigned long long)build->stored,
             (unsigned long long)build->waiting, build->dry_run ? "missing" : "ordered now",
             (unsigned long long)build->ordered);
    if (!cli->json && !build->dry_run)
        printf("%s\n", KILN_CACHE_BATCH);
    if (!cli->json)
        return 0;
    return kiln_print_json(
        cli, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:b}", "batch", KILN_CACHE_BATCH, "wanted",
                       (json_int_t)build->wanted, "stored", (json_int_t)build->stored, "waiting",
                       (json_int_t)build->waiting, "failed", (json_int_t)build->failed, "ordered",
                       (json_int_t)build->ordered, "dry_run", (int)build->dry_run));
}

/* The words of the command come last, so that they may say otherwise. */
static void choose_sets(struct build *build, const struct kiln_args *args)
{
    struct kiln_prompts *prompts = &build->prompts;
    const char *sigmas = kiln_arg(args, "sigmas");
    prompts->sets[prompts->set_count++] = "kind=latent-cache";
    prompts->sets[prompts->set_count++] = "priority=-10";
    kiln_prompts_sets(prompts, args);
    if (sigmas) {
        snprintf(build->sigmas, sizeof build->sigmas, "sigmas=%s", sigmas);
        prompts->sets[prompts->set_count++] = build->sigmas;
    }
}

static int build_cache(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct build *build = calloc(1, sizeof *build);
    int rc = 0, status = kiln_prompts_check(cli, args);
    if (build) {
        build->jobs = calloc(PAGE, sizeof *build->jobs);
        build->wants = calloc(PAGE, sizeof *build->wants);
    }
    if (!build || !build->jobs || !build->wants)
        rc = kiln_fail(&err, KILN_NO_MEMORY, "no memory for a page of jobs");
    if (status == 0 && rc == 0) {
        build->cli = cli;
        build->dry_run = kiln_arg(args, "dry-run") != NULL;
        choose_sets(build, args);
        rc = kiln_open_ledger(cli, &build->ledger, &err);
        if (rc == 0)
            rc = kiln_prompts_read(cli, args, &build->prompts, take_line, build, &err);
        if (rc == 0)
            rc = flush(build, &err);
        status = rc ? kiln_report(cli, &err) : print_build(build);
    } else if (status == 0) {
        status = kiln_report(cli, &err);
    }
    if (build) {
        release_page(build);
        kiln_prompts_release(&build->prompts);
        kiln_ledger_close(build->ledger);
        free(build->jobs);
        free(build->wants);
    }
    free(build);
    return status;
}

/* --- stat ------------------------------------------------------------------------------------- */
static int list_row(void *arg, const struct kiln_cache_row *row, struct kiln_error *err)
{
    struct kiln_listing *listing = arg;
    struct kiln_text *line = &listing->line;
    char bytes[32];
    if (listing->cli->json) {
        kiln_text_puts(line, "{\"model\":");
        kiln_text_json(line, row->model, strlen(row->model));
        kiln_json_member_text(line, "model_hash", row->model_hash);
        kiln_json_member_u64(line, "width", row->width);
        kiln_json_member_u64(line, "height", row->height);
        kiln_json_member_text(line, "loras", row->lora_set);
        kiln_json_member_u64(line, "latents", row->latents);
        kiln_json_member_u64(line, "prompts", row->prompts);
        kiln_json_member_u64(line, "states", row->states);
        kiln_json_member_u64(line, "bytes", row->bytes);
        kiln_json_member_double(line, "gpu_seconds", row->gpu_seconds);
        kiln_text_puts(line, "}\n");
    } else {
        kiln_text_printf(line, "%-16s %4ux%-4u %-24s %10llu %10llu %10llu %10s\n",
                         row->model[0] ? row->model : "-", row->width, row->height,
                         row->lora_set[0] ? row->lora_set : "-", (unsigned long long)row->latents,
                         (unsigned long long)row->prompts, (unsigned long long)row->states,
                         kiln_bytes_text((double)row->bytes, bytes, sizeof bytes));
    }
    return kiln_listing_put(listing, err);
}

static int stat_cache(struct kiln_cli *cli)
{
    struct kiln_listing listing = {.cli = cli};
    struct kiln_ledger *ledger = NULL;
    struct kiln_error err;
    int rc = kiln_open_ledger(cli, &ledger, &err);
    if (rc == 0 && cli->tty_out && !cli->json)
        printf("%-16s %9s %-24s %10s %10s %10s %10s\n", "MODEL", "SIZE", "LORAS", "LATENTS",
               "PROMPTS", "STATES", "BYTES");
    if (rc == 0)
        rc = kiln_ledger_cache(ledger, kiln_pool(cli), list_row, &listing, &err);
    kiln_ledger_close(ledger);
    return kiln_listing_end(&listing, rc, &err);
}

int kiln_verb_cache(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    int status = kiln_args_parse(cli, argc, argv, 1, 1, &args);
    if (status)
        return status;
    if (strcmp(args.rest[0], "build") == 0)
        return build_cache(cli, &args);
    if (strcmp(args.rest[0], "stat") != 0)
        return kiln_usage(cli, "'%.40s' is nothing to do with the cache; there are build and stat",
                          args.rest[0]);
    if (args.given_count > 0)
        return kiln_usage(cli, "--%s is for `cache build`", args.given[0].option->name);
    return stat_cache(cli);
}
