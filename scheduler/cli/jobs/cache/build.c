/* build.c - `kiln cache build`: counts the latents that prompts name and enqueues the missing ones.
 *
 * It reads the prompts twice.  The first pass only counts: latents named, stored, on their way.  It
 * prints these counts before it enqueues anything, and refuses more latents than --most.  The
 * second pass enqueues the missing ones, page by page, and looks each page up again.  So the same
 * command continues after an interruption, and two at a time enqueue nothing twice.
 *
 * The jobs go straight into the ledger with their keys, as those of the intake do.  Quotas hold
 * here too; therefore the jobs of a page belong to one tenant.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/jobs/cache/cache.h"
#include "scheduler/cli/jobs/cache/history.h"
#include "scheduler/cli/jobs/enqueue/digest_map.h"
#include "scheduler/cli/jobs/enqueue/prompts.h"
#include "schemas/digest.h"
#include "storage/formats/card/model_card.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/queue/quota.h"
#include "storage/ledger/read/cache.h"

#define PAGE 500
#define LATENTS_MAX 100000 /* the default of --most: more are probably a mistake */

struct build {
    struct kiln_cli *cli;
    struct kiln_ledger *ledger;
    struct kiln_prompts prompts;
    bool from_history; /* the prompts are those of history */
    struct kiln_history_wish wish;
    struct kiln_history history;
    long limit;
    bool half; /* of the small size, which card says */
    struct kiln_model_card card;
    bool dry_run, enqueuing;     /* enqueuing: the second pass */
    struct kiln_digest_map keys; /* those met in this pass */
    /* the page being filled */
    struct kiln_new_job *jobs;     /* [PAGE] */
    struct kiln_cache_want *wants; /* [PAGE] */
    size_t count;
    /* the first pass: a prompt that occurs twice is named twice and wanted once */
    uint64_t named, wanted, stored, waiting, failed, missing;
    /* the second pass */ uint64_t enqueued, beyond;
    char full[KILN_NAME_MAX + 1]; /* a tenant whose quota is used up */
};

/* --- one latent ------------------------------------------------------------------------------- */
static void release_page(struct build *build)
{
    for (size_t i = 0; i < build->count; i++)
        kiln_job_release(&build->jobs[i].job);
    build->count = 0;
}

/* These jobs skip the intake, so its check of LoRAs is made here. */
static int pin_loras(struct build *build, struct kiln_job *job, struct kiln_error *err)
{
    struct kiln_enqueue_context *context = &build->prompts.context;
    int rc = job->lora_count ? kiln_enqueue_context_registry(context, err) : 0;
    return rc ? rc : kiln_lora_pin(&context->registry, job, err);
}

/* The key of a latent: a hash of everything that the latent depends on, and of the states to keep.
 * Without a seed in the job line any seed will do; then the hash chooses it. */
static void make_key(struct kiln_cache_want *want, struct kiln_job *job)
{
    char hash[65], set[KILN_LORA_SET_MAX], sigmas[KILN_SIGMAS_TEXT_MAX], hex[33];
    char text[KILN_LORA_SET_MAX + KILN_SIGMAS_TEXT_MAX + KILN_NAME_MAX + 256];
    uint8_t digest[KILN_SHA256_SIZE];
    kiln_prompt_hash(kiln_job_drawn(job), job->negative_prompt, hash);
    kiln_lora_set_key(job->loras, job->lora_count, set, sizeof set);
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

/* Moves the missing latents to the front of the page; returns how many. */
static size_t select_missing(struct build *build, const struct kiln_cache_found *found)
{
    size_t kept = 0;
    for (size_t i = 0; i < build->count; i++) {
        struct kiln_cache_want *want = &build->wants[i];
        if (found[i].state != KILN_CACHE_ABSENT && found[i].state != KILN_CACHE_LOST)
            continue;
        if (found[i].state == KILN_CACHE_LOST) { /* a new key for each lost latent */
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

/* Lowers *count to the jobs that the tenant of the page may still enqueue. */
static int apply_quota(struct build *build, size_t *count, struct kiln_error *err)
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

static int enqueue(struct build *build, size_t count, struct kiln_error *err)
{
    const char *keys[PAGE], *pool = kiln_pool(build->cli);
    int64_t indexes[PAGE];
    uint64_t inserted = 0;
    int rc = apply_quota(build, &count, err);
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
    build->enqueued += inserted;
    return rc;
}

static int flush(struct build *build, struct kiln_error *err)
{
    struct kiln_cache_found found[PAGE];
    if (build->count == 0)
        return 0;
    int rc = kiln_ledger_cache_look(build->ledger, kiln_pool(build->cli), build->wants,
                                    build->count, found, err);
    for (size_t i = 0; rc == 0 && !build->enqueuing && i < build->count; i++) {
        enum kiln_cache_state state = found[i].state;
        build->stored += state == KILN_CACHE_STORED;
        build->waiting += state == KILN_CACHE_WAITING;
        build->failed += state == KILN_CACHE_FAILED;
        build->missing += state == KILN_CACHE_ABSENT || state == KILN_CACHE_LOST;
    }
    if (rc == 0 && build->enqueuing) {
        size_t missing = select_missing(build, found);
        rc = missing ? enqueue(build, missing, err) : 0;
    }
    release_page(build);
    return rc;
}

/* --- a line ----------------------------------------------------------------------------------- */
/* Takes the job, and adds it to the page unless the prompts have named its latent before. */
static int take_latent(struct build *build, struct kiln_job *job, bool any_seed,
                       struct kiln_error *err)
{
    struct kiln_cache_want want = {.any_seed = any_seed};
    uint8_t digest[KILN_SHA256_SIZE];
    if (job->mode.kind == KILN_MODE_COARSE_AUTO) /* "where it helps", and not here */
        job->mode.kind = KILN_MODE_EXACT;
    if (job->mode.kind != KILN_MODE_EXACT || job->mode.variety > 0) {
        kiln_job_release(job);
        return kiln_fail(err, KILN_BAD_INPUT,
                         "the cache holds latents of exact runs: leave out coarse, variety and "
                         "starts");
    }
    int rc = pin_loras(build, job, err);
    if (rc) {
        kiln_job_release(job);
        return rc;
    }
    make_key(&want, job);
    kiln_sha256(want.key, strlen(want.key), digest);
    uint32_t *known = kiln_digest_map_at(&build->keys, digest);
    if (!known)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for the keys of latents");
    if (rc || *known) {
        kiln_job_release(job);
        return rc;
    }
    *known = 1;
    build->wanted += !build->enqueuing;
    if (build->count > 0 && strcmp(build->jobs[0].job.tenant, job->tenant) != 0)
        rc = flush(build, err);
    struct kiln_cache_want *place = &build->wants[build->count];
    struct kiln_new_job *new = &build->jobs[build->count++];
    *place = want;
    *new = (struct kiln_new_job){.job = *job, .token = "", .key = place->key};
    place->job = &new->job;
    return rc == 0 && build->count == PAGE ? flush(build, err) : rc;
}

/* Gives the job the small size of coarse runs of its own. */
static int halve(const struct build *build, struct kiln_job *job, struct kiln_error *err)
{
    struct kiln_picture_size small;
    if (!kiln_coarse_size((struct kiln_picture_size){job->width, job->height},
                          build->card.coarse_sizes, build->card.coarse_size_count, &small))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "--half: coarse runs of %ux%u have no small size in " KILN_MODEL_CARD
                         " of the model",
                         job->width, job->height);
    job->width = small.width;
    job->height = small.height;
    return 0;
}

/* The key of a latent names its LoRAs, and the router chooses only later.  An option overrides all
 * lines. */
static int refuse_auto(struct build *build, struct kiln_error *err)
{
    struct kiln_prompts *prompts = &build->prompts;
    const char *option = NULL;
    for (size_t i = 0; i < prompts->set_count; i++)
        if (strcmp(prompts->sets[i].option, "loras") == 0 ||
            strncmp(prompts->sets[i].value, "loras=", 6) == 0)
            option = prompts->sets[i].option;
    prompts->context.sets_wrong = option != NULL;
    return kiln_fail(err, KILN_BAD_INPUT,
                     "%s%s%sthe latent cache needs the names of LoRAs, and loras is \"auto\"",
                     option ? "--" : "", option ? option : "", option ? ": " : "");
}

/* Beyond the limit it only counts: a template can make millions of jobs. */
static int take_line(void *arg, const char *text, size_t len, struct kiln_error *err)
{
    struct build *build = arg;
    const struct kiln_expand *expand = build->prompts.expand;
    uint64_t count = kiln_expand_count(expand);
    int rc = 0;
    (void)text, (void)len;
    build->named += build->enqueuing ? 0 : count;
    if (build->named > (uint64_t)build->limit)
        return 0;
    for (uint64_t which = 0; which < count && rc == 0; which++) {
        struct kiln_job job;
        rc = kiln_expand_job(expand, which, &job, err);
        if (rc)
            break;
        if (job.lora_auto) {
            kiln_job_release(&job);
            return refuse_auto(build, err);
        }
        rc = build->half ? halve(build, &job, err) : 0;
        free(job.batch);
        job.batch = strdup(KILN_CACHE_BATCH);
        if (rc == 0 && !job.batch)
            rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for a job");
        if (rc == 0)
            rc = take_latent(build, &job, !kiln_expand_has_seed(expand), err);
        else
            kiln_job_release(&job);
    }
    return rc;
}

/* --- the whole -------------------------------------------------------------------------------- */
/* Prints the counts of the first pass; an error if they exceed the limit. */
static int check_plan(const struct build *build, struct kiln_error *err)
{
    struct kiln_cli *cli = build->cli;
    if (build->named > (uint64_t)build->limit)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s name %" PRIu64
                         " latents, more than --most %ld: shorten the templates, "
                         "or raise --most (at most %d)",
                         KILN_COUNT(build->prompts.lines, "prompt"), build->named, build->limit,
                         KILN_BATCH_JOBS_MAX);
    if (build->failed)
        kiln_warn(cli, "%s failed before; to retry: kiln retry " KILN_CACHE_BATCH,
                  KILN_COUNT(build->failed, "latent"));
    if (build->from_history && build->history.count == 0)
        kiln_say(cli, "more donors would save nothing for the prompts of the history");
    else if (build->from_history)
        kiln_say(
            cli,
            "donors for %s of the history: expected to save %.1f GPU-seconds if each prompt is "
            "rendered as often again; making them takes %.1f",
            KILN_COUNT(build->history.count, "prompt"), build->history.saved_s,
            build->history.cost_s);
    if (build->history.cost_s > build->history.saved_s)
        kiln_warn(cli, "these donors take more GPU time to make than they are expected to save");
    if (build->from_history && build->dry_run && !cli->json)
        kiln_history_print(&build->history);
    kiln_say(cli, "%s: %" PRIu64 " stored, %" PRIu64 " on their way, %" PRIu64 " missing",
             KILN_COUNT(build->wanted, "latent"), build->stored, build->waiting, build->missing);
    return 0;
}

static int print_result(const struct build *build)
{
    struct kiln_cli *cli = build->cli;
    struct kiln_error err;
    uint64_t id;
    /* The batch may not exist although all latents do: pictures leave latents too. */
    int rc = kiln_ledger_batch_id(build->ledger, kiln_pool(cli), KILN_CACHE_BATCH, &id, &err);
    bool exists = rc == 0;
    if (rc && rc != KILN_NOT_FOUND)
        return kiln_report(cli, &err);
    if (build->beyond)
        kiln_warn(
            cli,
            "%s not enqueued: tenant '%s' has reached its limit of waiting jobs (`kiln quota ls`); "
            "repeat the command when some have finished",
            KILN_COUNT(build->beyond, "latent"), build->full);
    if (build->wanted > 0 && build->stored == build->wanted)
        kiln_say(cli, "all latents are stored");
    else if (!build->dry_run)
        kiln_say(cli, "%s enqueued",
                 build->enqueued ? KILN_COUNT(build->enqueued, "job") : "no jobs");
    if (!cli->json && !build->dry_run && exists)
        printf("%s\n", KILN_CACHE_BATCH);
    int status = build->beyond ? EX_TEMPFAIL : 0;
    if (!cli->json)
        return status;
    json_t *result = json_pack(
        "{s:s?, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "batch", exists ? KILN_CACHE_BATCH : NULL,
        "wanted", (json_int_t)build->wanted, "stored", (json_int_t)build->stored, "waiting",
        (json_int_t)build->waiting, "failed", (json_int_t)build->failed, "missing",
        (json_int_t)build->missing, "ordered", (json_int_t)build->enqueued, "beyond_quota",
        (json_int_t)build->beyond, "dry_run", (int)build->dry_run);
    if (build->from_history) {
        json_object_set_new(result, "prompts", json_integer((json_int_t)build->history.count));
        json_object_set_new(result, "gpu_seconds_saved", json_real(build->history.saved_s));
        json_object_set_new(result, "gpu_seconds_cost", json_real(build->history.cost_s));
    }
    int printed = kiln_print_json(cli, result);
    return status ? status : printed;
}

static int read_all(struct build *build, struct kiln_error *err)
{
    int rc = build->from_history ? kiln_history_each(&build->history, build->cli, build->ledger,
                                                     &build->prompts, take_line, build, err)
                                 : kiln_prompts_each(&build->prompts, take_line, build, err);
    if (rc == 0)
        rc = flush(build, err);
    kiln_digest_map_release(&build->keys);
    return rc;
}

static int build_latents(struct build *build, const struct kiln_args *args, struct kiln_error *err)
{
    struct kiln_prompts *prompts = &build->prompts;
    prompts->sets[prompts->set_count++] = (struct kiln_set){"set", "kind=latent-cache"};
    prompts->sets[prompts->set_count++] = (struct kiln_set){"set", "priority=-10"};
    kiln_prompts_sets(prompts, args); /* these come last and so override the two above */
    int rc = kiln_open_reader(build->cli, &build->ledger, err);
    if (rc == 0 && build->half)
        rc = kiln_model_card_read(kiln_config_text(build->cli->config, KILN_KEY_MODEL),
                                  &build->card, err);
    if (rc == 0)
        rc = kiln_prompts_open(build->cli, args, prompts, err);
    if (rc == 0 && build->from_history)
        rc = kiln_history_choose(build->cli, build->ledger, &build->wish, &build->history, err);
    if (rc == 0)
        rc = read_all(build, err);
    if (rc == 0)
        rc = check_plan(build, err);
    build->enqueuing = true;
    if (rc || build->dry_run || build->missing == 0)
        return rc;
    kiln_ledger_close(build->ledger);
    build->ledger = NULL;
    rc = kiln_open_ledger(build->cli, &build->ledger, err); /* from here on it writes */
    return rc ? rc : read_all(build, err);
}

static void release(struct build *build)
{
    release_page(build);
    kiln_digest_map_release(&build->keys);
    kiln_prompts_release(&build->prompts);
    kiln_history_release(&build->history);
    kiln_ledger_close(build->ledger);
    free(build->jobs);
    free(build->wants);
    free(build);
}

/* --from-history with --top, --donors and --alike, or a source of prompts. */
static int read_source(struct build *build, const struct kiln_args *args)
{
    static const char *const others[] = {"prompts", "template", "sigmas", "loras"};
    static const char *const own[] = {"top", "donors", "alike"};
    struct kiln_cli *cli = build->cli;
    long top, donors, alike;
    build->from_history = kiln_arg(args, "from-history") != NULL;
    for (size_t i = 0; i < sizeof own / sizeof *own && !build->from_history; i++)
        if (kiln_arg(args, own[i]))
            return kiln_usage(cli, "--%s is only for --from-history", own[i]);
    if (!build->from_history)
        return kiln_prompts_check(cli, args);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (kiln_arg(args, others[i]))
            return kiln_usage(cli, "--from-history takes no --%s", others[i]);
    if (build->half)
        return kiln_usage(cli, "--from-history makes donors of the pictures' own size; for small "
                               "ones list the prompts: --prompts FILE --half");
    int status = kiln_arg_int(cli, args, "top", 1, KILN_HISTORY_TOP_MAX, 100, &top);
    if (status == 0)
        status = kiln_arg_int(cli, args, "donors", 1, KILN_POPULAR_SEEDS, 8, &donors);
    if (status == 0)
        status = kiln_arg_int(cli, args, "alike", 0, KILN_ALIKE_MAX, 0, &alike);
    if (status == 0)
        build->wish = (struct kiln_history_wish){(uint32_t)top, (uint32_t)donors, (uint32_t)alike};
    return status;
}

int kiln_latents_build(struct kiln_cli *cli, const struct kiln_args *args)
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
    build->half = kiln_arg(args, "half") != NULL;
    int status = read_source(build, args);
    if (status == 0)
        status = kiln_arg_int(cli, args, kiln_arg(args, "most") ? "most" : "limit", 1,
                              KILN_BATCH_JOBS_MAX, LATENTS_MAX, &build->limit);
    if (status == 0)
        status = build_latents(build, args, &err) ? kiln_prompts_report(cli, &build->prompts, &err)
                                                  : print_result(build);
    release(build);
    return status;
}
