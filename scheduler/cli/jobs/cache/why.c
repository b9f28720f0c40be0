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

static void take_pool(void *arg, const struct kiln_donor_kind *kind,
                      const struct kiln_reuse_pool *pool, uint32_t depth, const char *refusal)
{
    struct why *why = arg;
    char class[80];
    int len = snprintf(class, sizeof class, "%s", kiln_reuse_class_name(pool->class));
    if (!why->cli->json && pool->small)
        snprintf(class + len, sizeof class - (size_t)len, ", small size %ux%u", kind->width,
                 kind->height);
    else if (!why->cli->json && kind->coarse)
        snprintf(class + len, sizeof class - (size_t)len, ", rendered coarse first");
    if (why->cli->json)
        json_array_append_new(why->pools,
                              json_pack("{s:s, s:b, s:b, s:i, s:i, s:i, s:s?}", "class", class,
                                        "coarse", (int)kind->coarse, "small", (int)pool->small,
                                        "donors", (int)pool->donors, "uses", (int)pool->uses,
                                        "steps", (int)depth, "reason", refusal));
    else if (depth > 0)
        printf("  %s: %s, the least used began %s; %u of %u steps may be skipped\n", class,
               KILN_COUNT(pool->donors, "donor"), KILN_COUNT(pool->uses, "picture"), depth,
               why->job->steps);
    else if (pool->donors > 0)
        printf("  %s: %s, %s\n", class, KILN_COUNT(pool->donors, "donor"), refusal);
    else
        printf("  %s: %s\n", class, refusal);
}

static int print(const struct why *why, const struct kiln_donor *found, const char *silent)
{
    const struct kiln_job *job = why->job;
    if (why->cli->json)
        return kiln_print_json(
            why->cli,
            json_pack("{s:I, s:s?, s:O, s:O, s:I, s:s?, s:i, s:b}", "job", (json_int_t)job->id,
                      "reason", silent, "pools", why->pools, "compared", why->compared, "donor",
                      (json_int_t)found->job, "donor_class",
                      found->job ? kiln_reuse_class_name((enum kiln_reuse_class)found->hit) : NULL,
                      "steps", (int)found->step, "coarse", (int)found->coarse));
    if (why->more)
        printf("  and %s that may not be used\n", KILN_COUNT(why->more, "other prompt"));
    if (found->job)
        printf("now it would begin from the latent of job %" PRIu64 " (%s) and save %u of %u "
               "steps%s\n",
               found->job, kiln_reuse_class_name((enum kiln_reuse_class)found->hit), found->step,
               job->steps, found->coarse ? ", small ones of its coarse run" : "");
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
    char saving[64];
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
               kiln_reuse_saving(row->start_sigma, row->own_forwards, row->forwards, saving,
                                 sizeof saving));
    else if (!why->cli->json && had->job)
        printf("rendered in full, not from the latent of job %" PRIu64 " (fallback: %s)\n",
               had->job, row->fallback);
    const struct kiln_donor found = kiln_cache_look(why->cache, &row->job, &watch, &silent, &look);
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
