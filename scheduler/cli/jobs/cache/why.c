/* why.c - `kiln cache why JOB`: from which donor a run of the job would begin now, and why not from
 * others.
 *
 * It reads all donors of the ledger and the model's files as the leading scheduler does, and looks
 * the job up by the same code.  So it tells what the scheduler would find now, not what it found
 * when it assigned the job: uses of jobs in flight are not counted yet, and the latent of a job
 * that is done is a donor too.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cache/cache.h"
#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/jobs/cache/cache.h"
#include "storage/ledger/ledger.h"

#define SHOWN 12 /* prompts that were compared and may not be used */

struct why {
    struct kiln_cli *cli;
    struct kiln_cache *cache;
    struct kiln_ledger *ledger;
    const struct kiln_job *job;
    json_t *pools, *compared;
    struct kiln_reuse_start best; /* of the pools so far */
    int shown, more, status;
};

static void take_prompt(void *arg, const char *prompt, enum kiln_reuse_class class,
                        const char *reason)
{
    struct why *why = arg;
    if (why->cli->json) {
        json_array_append_new(why->compared,
                              json_pack("{s:s, s:s, s:s}", "prompt", prompt, "class",
                                        kiln_reuse_class_name(class), "reason", reason));
        return;
    }
    if (class == KILN_REUSE_NONE && why->shown++ >= SHOWN) {
        why->more++;
        return;
    }
    struct kiln_text text = {0};
    kiln_text_safe(&text, prompt);
    printf("  \"%s\": %s%s%s\n", text.at ? text.at : "", kiln_reuse_class_name(class),
           reason[0] ? ", " : "", reason);
    kiln_text_release(&text);
}

/* What a run from there costs less than the job's own mode, in steps at full size. */
static double saved(const struct why *why, const struct kiln_reuse_start *start)
{
    return start->row ? kiln_mode_forwards(&start->own, why->job->steps) - start->forwards : 0;
}

/* "6 of 8 steps", "1 of 4 small steps (0.25 of 3 full ones)". */
static const char *steps_text(const struct why *why, const struct kiln_reuse_start *start,
                              char out[KILN_MODE_SAVING_MAX])
{
    const struct kiln_mode mode = kiln_mode_begun_at(&start->own, start->row->depth, start->coarse);
    return kiln_mode_saved_steps(&mode, kiln_mode_forwards(&start->own, why->job->steps),
                                 start->forwards, out, KILN_MODE_SAVING_MAX);
}

static void take_pool(void *arg, const struct kiln_donor_kind *kind,
                      const struct kiln_reuse_pool *pool, const struct kiln_reuse_start *start,
                      const char *refusal)
{
    struct why *why = arg;
    char which[48] = "", steps[KILN_MODE_SAVING_MAX];
    const char *class = kiln_reuse_class_name(pool->class);
    /* The search takes the first of the least cost. */
    if (start->row && (!why->best.row || start->forwards < why->best.forwards))
        why->best = *start;
    if (pool->small)
        snprintf(which, sizeof which, ", small size %ux%u", kind->width, kind->height);
    else if (why->job->mode.kind != KILN_MODE_EXACT)
        snprintf(which, sizeof which, ", rendered %s", kind->coarse ? "coarse first" : "exactly");
    if (why->cli->json)
        json_array_append_new(
            why->pools,
            json_pack("{s:s, s:b, s:b, s:i, s:i, s:i, s:b, s:f, s:s?}", "class", class, "coarse",
                      (int)kind->coarse, "small", (int)pool->small, "donors", (int)pool->donors,
                      "uses", (int)pool->uses, "steps", (int)(start->row ? start->row->depth : 0),
                      "small_steps", (int)start->coarse, "steps_saved", saved(why, start), "reason",
                      refusal));
    else if (start->row)
        printf("  %s%s: %s, the least used began %s; a run saves %s\n", class, which,
               KILN_COUNT(pool->donors, "donor"), KILN_COUNT(pool->uses, "picture"),
               steps_text(why, start, steps));
    else if (pool->donors > 0)
        printf("  %s%s: %s, %s\n", class, which, KILN_COUNT(pool->donors, "donor"), refusal);
    else
        printf("  %s%s: %s\n", class, which, refusal);
}

static int print(const struct why *why, const struct kiln_donor *found, const char *silent)
{
    const struct kiln_job *job = why->job;
    char steps[KILN_MODE_SAVING_MAX];
    if (why->cli->json)
        return kiln_print_json(
            why->cli,
            json_pack("{s:I, s:s?, s:O, s:O, s:I, s:s?, s:i, s:b, s:f}", "job", (json_int_t)job->id,
                      "reason", silent, "pools", why->pools, "compared", why->compared, "donor",
                      (json_int_t)found->job, "donor_class",
                      found->job ? kiln_reuse_class_name((enum kiln_reuse_class)found->hit) : NULL,
                      "steps", (int)found->step, "coarse", (int)found->coarse, "steps_saved",
                      saved(why, &why->best)));
    if (why->more)
        printf("  and %s that may not be used\n", KILN_COUNT(why->more, "other prompt"));
    if (found->job)
        printf("now it would begin from the latent of job %" PRIu64 " (%s) and save %s\n",
               found->job, kiln_reuse_class_name((enum kiln_reuse_class)found->hit),
               steps_text(why, &why->best, steps));
    else if (silent)
        printf("it runs in full: %s\n", silent);
    else
        printf("now it would run in full\n");
    return 0;
}

static int explain(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    struct why *why = arg;
    const struct kiln_search_watch watch = {take_prompt, take_pool, why};
    const struct kiln_donor *had = &row->job.donor;
    char saving[KILN_MODE_SAVING_MAX], why_not[128];
    const char *silent;
    struct kiln_reuse_look look;
    /* All donors: not for a job that does not exist. */
    int code = kiln_cache_load(why->cache, why->ledger, kiln_pool(why->cli), err);
    if (code)
        return code;
    why->job = &row->job;
    if (!why->cli->json && kiln_row_reused(row))
        printf("it began from the latent of job %" PRIu64 " (%s) %s\n", had->job,
               kiln_reuse_class_name((enum kiln_reuse_class)had->hit),
               kiln_mode_saving(row->rendered_mode, row->start_sigma, row->own_forwards,
                                row->forwards, saving, sizeof saving));
    else if (!why->cli->json && had->job)
        printf("the latent of job %" PRIu64 " was chosen, but it %s; the run began from noise\n",
               had->job,
               kiln_reuse_fallback(row->fallback, kiln_row_wasted(row), why_not, sizeof why_not));
    const struct kiln_donor found =
        kiln_cache_look(why->cache, &row->job, false, &watch, &silent, &look);
    why->status = print(why, &found, silent);
    return 0;
}

int kiln_latents_why(struct kiln_cli *cli, const char *job)
{
    struct kiln_error err;
    uint64_t id;
    int status = kiln_arg_job(cli, job, &id);
    if (status)
        return status;
    struct why why = {.cli = cli, .pools = json_array(), .compared = json_array()};
    int code = kiln_open_reader(cli, &why.ledger, &err);
    code = code ? code : kiln_cache_open(cli->config, &why.cache, &err);
    code = code ? code : kiln_ledger_job(why.ledger, kiln_pool(cli), id, explain, &why, &err);
    kiln_cache_close(why.cache);
    kiln_ledger_close(why.ledger);
    json_decref(why.pools);
    json_decref(why.compared);
    return code ? kiln_report(cli, &err) : why.status;
}
