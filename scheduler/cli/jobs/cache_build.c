/* cache_build.c - `kiln cache build`: counts, tells, and orders what is missing.
 *
 * The prompts are read twice.  The first time only to count: how many latents they name, which of
 * them are stored or on their way.  That is told before anything is ordered, and more than --limit
 * refuse the whole.  The second time what is missing is ordered, a page at a time; each page is
 * looked up again, so the same command again, after it was interrupted or the prompts have grown,
 * goes on where it stopped, and two of them at once order nothing twice.
 *
 * The jobs go straight into the ledger under their identity, as those of the intake would, and as
 * there no tenant gets more of them waiting than its quota lets: a page is of one tenant.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/jobs/cache.h"
#include "scheduler/cli/jobs/enqueue/prompts.h"
#include "scheduler/cli/jobs/enqueue/seen.h"
#include "schemas/digest.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/queue/quota.h"
#include "storage/ledger/read/cache.h"

#define PAGE 500

struct build {
    struct kiln_cli *cli;
    struct kiln_ledger *ledger;
    struct kiln_prompts prompts;
    long limit;
    bool dry_run, ordering; /* ordering: the second reading */
    struct kiln_seen seen;  /* identities met in this reading */
    /* the page in hand */
    struct kiln_new_job *jobs;     /* [PAGE] */
    struct kiln_cache_want *wants; /* [PAGE] */
    size_t count;
    /* of the first reading; a prompt that stands there twice is named twice and wanted once */
    uint64_t named, wanted, stored, waiting, failed, missing;
    /* of the second */
    uint64_t ordered, beyond;
    char full[KILN_NAME_MAX + 1]; /* a tenant that was beyond its quota */
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

/* --- a page ----------------------------------------------------------------------------------- */
static void count_page(struct build *build, const struct kiln_cache_found *found)
{
    for (size_t i = 0; i < build->count; i++) {
        enum kiln_cache_state state = found[i].state;
        build->stored += state == KILN_CACHE_STORED;
        build->waiting += state == KILN_CACHE_WAITING;
        build->failed += state == KILN_CACHE_FAILED;
        build->missing += state == KILN_CACHE_ABSENT || state == KILN_CACHE_LOST;
    }
}

/* Jobs of the page that are to be ordered are moved to its front; returns how many. */
static size_t sort_out(struct build *build, const struct kiln_cache_found *found)
{
    size_t kept = 0;
    for (size_t i = 0; i < build->count; i++) {
        struct kiln_cache_want *want = &build->wants[i];
        if (found[i].state != KILN_CACHE_ABSENT && found[i].state != KILN_CACHE_LOST)
            continue;
        if (found[i].state == KILN_CACHE_LOST) { /* a job of its own, once for each that was lost */
            size_t len = strlen(want->key);
            snprintf(want->key + len, sizeof want->key - len, ":%" PRIu64, found[i].job);
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

/* Leaves as many jobs as the tenant of the page may have waiting now. */
static int mind_quota(struct build *build, size_t *count, struct kiln_error *err)
{
    const char *tenant = build->jobs[0].job.tenant;
    int64_t limit;
    uint64_t waiting;
    int rc =
        kiln_ledger_quota_of(build->ledger, kiln_pool(build->cli), tenant, &limit, &waiting, err);
    if (rc || limit < 0 || waiting + *count <= (uint64_t)limit)
        return rc;
    size_t room = waiting < (uint64_t)limit ? (size_t)((uint64_t)limit - waiting) : 0;
    build->beyond += *count - room;
    snprintf(build->full, sizeof build->full, "%s", tenant);
    *count = room;
    return 0;
}

static int order(struct build *build, size_t count, struct kiln_error *err)
{
    const char *keys[PAGE], *pool = kiln_pool(build->cli);
    int64_t indexes[PAGE];
    uint64_t inserted = 0;
    int rc = mind_quota(build, &count, err);
    if (rc || count == 0)
        return rc;
    for (size_t i = 0; i < count; i++)
        keys[i] = build->jobs[i].key;
    rc = kiln_ledger_number(build->ledger, pool, KILN_CACHE_BATCH, keys, NULL, count, indexes, err);
    for (size_t i = 0; i < count && rc == 0; i++) {
        if (indexes[i] < 0)
            return kiln_fail(err, KILN_FULL, KILN_BATCH_FULL, KILN_CACHE_BATCH, UINT32_MAX);
        build->jobs[i].job.index = (uint32_t)indexes[i];
    }
    if (rc == 0)
        rc = kiln_ledger_insert_jobs(build->ledger, pool, build->jobs, count, &inserted, err);
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
    if (rc == 0 && !build->ordering) {
        count_page(build, found);
    } else if (rc == 0) {
        size_t missing = sort_out(build, found);
        rc = missing ? order(build, missing, err) : 0;
    }
    release_page(build);
    return rc;
}

/* --- a line ----------------------------------------------------------------------------------- */
/* Adds the job, which is taken over, unless the prompts have named that latent before. */
static int take_latent(struct build *build, struct kiln_job *job, bool any_seed,
                       struct kiln_error *err)
{
    struct kiln_cache_want want = {.any_seed = any_seed};
    uint8_t digest[KILN_SHA256_SIZE];
    int rc = 0;
    identify(&want, job);
    kiln_sha256(want.key, strlen(want.key), digest);
    uint32_t *known = kiln_seen_number(&build->seen, digest);
    if (!known)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for the names of latents");
    if (rc || *known) {
        kiln_job_release(job);
        return rc;
    }
    *known = 1;
    build->wanted += !build->ordering;
    if (build->count > 0 && strcmp(build->jobs[0].job.tenant, job->tenant) != 0)
        rc = flush(build, err);
    struct kiln_cache_want *place = &build->wants[build->count];
    struct kiln_new_job *new = &build->jobs[build->count++];
    *place = want;
    *new = (struct kiln_new_job){.job = *job, .token = "", .key = place->key};
    place->job = &new->job;
    return rc == 0 && build->count == PAGE ? flush(build, err) : rc;
}

/* Beyond the limit the numbers are only added up: a template may make millions. */
static int take_line(void *arg, const char *text, size_t len, struct kiln_error *err)
{
    struct build *build = arg;
    const struct kiln_expand *expand = build->prompts.expand;
    uint64_t count = kiln_expand_count(expand);
    int rc = 0;
    (void)text, (void)len;
    build->named += build->ordering ? 0 : count;
    if (build->named > (uint64_t)build->limit)
        return 0;
    for (uint64_t which = 0; which < count && rc == 0; which++) {
        struct kiln_job job;
        rc = kiln_expand_job(expand, which, &job, err);
        if (rc)
            break;
        free(job.batch);
        job.batch = strdup(KILN_CACHE_BATCH);
        if (job.batch)
            rc = take_latent(build, &job, !kiln_expand_has_seed(expand), err);
        else
            rc = (kiln_job_release(&job), kiln_fail(err, KILN_NO_MEMORY, "no memory for a job"));
    }
    return rc;
}

/* --- the whole -------------------------------------------------------------------------------- */
/* What is wanted and what is there of it, and whether that is too much. */
static int say_plan(const struct build *build, struct kiln_error *err)
{
    struct kiln_cli *cli = build->cli;
    if (build->named > (uint64_t)build->limit)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%" PRIu64 " prompts name %" PRIu64 " latents, %ld are allowed: make the "
                         "templates smaller, or raise --limit (at most %d)",
                         build->prompts.lines, build->named, build->limit, KILN_BATCH_JOBS_MAX);
    if (build->failed)
        kiln_warn(cli,
                  "%" PRIu64 " have failed before; `kiln retry --batch " KILN_CACHE_BATCH "` tries "
                  "them again",
                  build->failed);
    kiln_say(cli,
             "latents wanted: %" PRIu64 "; stored: %" PRIu64 "; on their way: %" PRIu64
             "; missing: %" PRIu64,
             build->wanted, build->stored, build->waiting, build->missing);
    return 0;
}

/* All may be stored though nothing was ever ordered: pictures leave latents too. */
static int find_batch(const struct build *build, bool *ret_exists, struct kiln_error *err)
{
    uint64_t id;
    int rc = kiln_ledger_batch_id(build->ledger, kiln_pool(build->cli), KILN_CACHE_BATCH, &id, err);
    *ret_exists = rc == 0;
    return rc == KILN_NOT_FOUND ? 0 : rc;
}

static int print_result(const struct build *build)
{
    struct kiln_cli *cli = build->cli;
    struct kiln_error err;
    bool exists;
    if (find_batch(build, &exists, &err))
        return kiln_report(cli, &err);
    if (build->beyond)
        kiln_warn(cli,
                  "%" PRIu64 " were not ordered: tenant '%s' has as many jobs waiting as its quota "
                  "lets (`kiln quota ls`); run it again when some are built",
                  build->beyond, build->full);
    if (build->stored == build->wanted)
        kiln_say(cli, "everything is stored already");
    else if (!build->dry_run)
        kiln_say(cli, "ordered now: %" PRIu64, build->ordered);
    if (!cli->json && !build->dry_run && exists)
        printf("%s\n", KILN_CACHE_BATCH);
    int status = build->beyond ? EX_TEMPFAIL : 0;
    if (!cli->json)
        return status;
    int printed = kiln_print_json(
        cli, json_pack("{s:s?, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "batch",
                       exists ? KILN_CACHE_BATCH : NULL, "wanted", (json_int_t)build->wanted,
                       "stored", (json_int_t)build->stored, "waiting", (json_int_t)build->waiting,
                       "failed", (json_int_t)build->failed, "missing", (json_int_t)build->missing,
                       "ordered", (json_int_t)build->ordered, "beyond_quota",
                       (json_int_t)build->beyond, "dry_run", (int)build->dry_run));
    return status ? status : printed;
}

static int read_all(struct build *build, struct kiln_error *err)
{
    int rc = kiln_prompts_each(&build->prompts, take_line, build, err);
    if (rc == 0)
        rc = flush(build, err);
    kiln_seen_release(&build->seen);
    return rc;
}

/* The words of the command come last, so that they may say otherwise. */
static void choose_sets(struct build *build, const struct kiln_args *args)
{
    struct kiln_prompts *prompts = &build->prompts;
    prompts->sets[prompts->set_count++] = (struct kiln_set){"set", "kind=latent-cache"};
    prompts->sets[prompts->set_count++] = (struct kiln_set){"set", "priority=-10"};
    kiln_prompts_sets(prompts, args);
}

static int build_latents(struct build *build, const struct kiln_args *args, struct kiln_error *err)
{
    choose_sets(build, args);
    int rc = kiln_open_ledger(build->cli, &build->ledger, err);
    if (rc == 0)
        rc = kiln_prompts_open(build->cli, args, &build->prompts, err);
    if (rc == 0)
        rc = read_all(build, err);
    if (rc == 0)
        rc = say_plan(build, err);
    build->ordering = true;
    if (rc == 0 && !build->dry_run && build->missing > 0)
        rc = read_all(build, err);
    return rc;
}

static void release(struct build *build)
{
    release_page(build);
    kiln_seen_release(&build->seen);
    kiln_prompts_release(&build->prompts);
    kiln_ledger_close(build->ledger);
    free(build->jobs);
    free(build->wants);
    free(build);
}

int kiln_cache_build(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct build *build = calloc(1, sizeof *build);
    if (build) {
        build->jobs = calloc(PAGE, sizeof *build->jobs);
        build->wants = calloc(PAGE, sizeof *build->wants);
    }
    if (!build || !build->jobs || !build->wants) {
        if (build)
            release(build);
        kiln_fail(&err, KILN_NO_MEMORY, "no memory for a page of jobs");
        return kiln_report(cli, &err);
    }
    build->cli = cli;
    build->dry_run = kiln_arg(args, "dry-run") != NULL;
    int status = kiln_prompts_check(cli, args);
    if (status == 0)
        status = kiln_arg_int(cli, args, "limit", 1, KILN_BATCH_JOBS_MAX, KILN_CACHE_BUILD_LIMIT,
                              &build->limit);
    if (status == 0)
        status = build_latents(build, args, &err) ? kiln_prompts_report(cli, &build->prompts, &err)
                                                  : print_result(build);
    release(build);
    return status;
}
