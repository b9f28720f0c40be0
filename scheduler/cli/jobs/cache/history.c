/* history.c - see history.h.
 *
 * The seeds of a prompt's donors are a fixed sequence, derived from its hash.  New donors take the
 * first of them that no stored latent has.  So a repeated command names the same donors while they
 * are on their way, and replaces those that were evicted.
 */
#include "scheduler/cli/jobs/cache/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cache/rule.h"
#include "schemas/room.h"
#include "storage/ledger/ledger.h"

struct choosing {
    const struct kiln_history_wish *wish;
    struct kiln_model_card card;
    struct kiln_job job; /* like those to come, but for its size */
    struct kiln_history *history;
};

/* --- choosing --------------------------------------------------------------------------------- */

/* Steps at full size that a pool saves of so many runs. */
static double saved_steps(const struct choosing *choosing, uint32_t donors, uint64_t runs)
{
    const struct kiln_job *job = &choosing->job;
    const double own = kiln_reuse_own_forwards(&choosing->card, job);
    struct kiln_reuse_pool pool = {
        .class = KILN_REUSE_SAME_PROMPT, .donors = donors, .exact = true}; /* as they are built */
    double saved = 0;
    for (uint64_t left = donors > 0 ? runs : 0; left > 0; pool.uses++) {
        const struct kiln_reuse_start start = kiln_reuse_start(&choosing->card, job, &pool);
        const bool endless = kiln_reuse_floor(job->alike) <= 0; /* uses do not count */
        const uint64_t hits = endless || left < donors ? left : donors;
        if (start.mean_forwards >= own)
            break;
        saved += (double)hits * (own - start.mean_forwards);
        left -= hits;
    }
    return saved;
}

static bool has_seed(const struct kiln_popular_row *row, uint64_t seed)
{
    for (uint32_t i = 0; i < row->donors; i++)
        if (row->seeds[i] == seed)
            return true;
    return false;
}

static void choose_seeds(const struct kiln_popular_row *row, struct kiln_history_pick *pick)
{
    char key[96];
    for (uint32_t i = 0, found = 0; found < pick->new_count; i++) {
        snprintf(key, sizeof key, "%s %u", row->prompt_hash, i);
        const uint64_t seed = kiln_seed_derive(KILN_CACHE_BATCH, key);
        if (!has_seed(row, seed))
            pick->seeds[found++] = seed;
    }
}

static int take_popular(void *arg, const struct kiln_popular_row *row, struct kiln_error *err)
{
    struct choosing *choosing = arg;
    struct kiln_history *history = choosing->history;
    const uint32_t wanted = choosing->wish->donors;
    struct kiln_history_pick pick = {.job = row->job,
                                     .width = row->width,
                                     .height = row->height,
                                     .steps = choosing->job.steps,
                                     .pictures = row->pictures,
                                     .donors = row->donors};
    if (row->donors >= wanted ||
        (row->model_hash[0] && choosing->card.reuse.model[0] &&
         strcmp(row->model_hash, choosing->card.reuse.model) != 0))
        return 0;
    choosing->job.width = row->width;
    choosing->job.height = row->height;
    pick.new_count = wanted - row->donors;
    pick.saved_s = row->step_s * (saved_steps(choosing, wanted, row->pictures) -
                                  saved_steps(choosing, row->donors, row->pictures));
    pick.cost_s = row->step_s * pick.new_count * choosing->job.steps;
    if (pick.saved_s <= 0)
        return 0;
    choose_seeds(row, &pick);
    struct kiln_history_pick *at =
        kiln_room(history->picks, history->count, &history->room, sizeof *at);
    if (!at)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the prompts of the history");
    history->picks = at;
    history->picks[history->count++] = pick;
    return 0;
}

static int by_saved(const void *a, const void *b)
{
    const struct kiln_history_pick *x = a, *y = b;
    const int order = (x->saved_s < y->saved_s) - (x->saved_s > y->saved_s);
    return order ? order : (x->job > y->job) - (x->job < y->job);
}

int kiln_history_choose(const struct kiln_cli *cli, struct kiln_ledger *ledger,
                        const struct kiln_history_wish *wish, struct kiln_history *ret,
                        struct kiln_error *err)
{
    struct choosing choosing = {.wish = wish, .history = ret};
    struct kiln_job_context usual = {0};
    const char *dir = kiln_config_text(cli->config, KILN_KEY_MODEL);
    int rc = kiln_model_card_read(dir, &choosing.card, err);
    if (rc == 0 && choosing.card.reuse.row_count == 0)
        rc = kiln_fail(err, KILN_CONFIG,
                       "%s/" KILN_MODEL_CARD
                       " has no table of teleport, or cannot be read from here: nothing would be "
                       "saved",
                       dir);
    if (rc == 0)
        rc = kiln_job_context_modes(&usual, cli->config, err);
    if (rc)
        return rc;
    choosing.job = (struct kiln_job){.kind = KILN_KIND_IMAGE,
                                     .teleport = KILN_TELEPORT_AUTO,
                                     .steps = choosing.card.reuse.steps,
                                     .alike = wish->alike,
                                     .mode = usual.coarse};
    rc = kiln_ledger_popular(ledger, kiln_pool(cli), choosing.card.reuse.steps, wish->top,
                             wish->donors, choosing.job.mode.kind != KILN_MODE_EXACT, take_popular,
                             &choosing, err);
    if (rc || ret->count == 0)
        return rc;
    qsort(ret->picks, ret->count, sizeof *ret->picks, by_saved);
    ret->count = ret->count < wish->top ? ret->count : wish->top;
    for (size_t i = 0; i < ret->count; i++) {
        ret->saved_s += ret->picks[i].saved_s;
        ret->cost_s += ret->picks[i].cost_s;
    }
    return 0;
}

/* --- the lines of what was chosen ------------------------------------------------------------- */

/* A prompt, copied: what is done with its lines asks the ledger, too. */
struct prompt {
    char *text, *negative, *model;
};

static void release_prompt(struct prompt *prompt)
{
    free(prompt->text);
    free(prompt->negative);
    free(prompt->model);
}

static int copy_prompt(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    struct prompt *prompt = arg;
    prompt->text = strdup(row->job.prompt);
    prompt->negative = strdup(row->job.negative_prompt ? row->job.negative_prompt : "");
    prompt->model = strdup(row->job.model ? row->job.model : "");
    return prompt->text && prompt->negative && prompt->model
               ? 0
               : kiln_fail(err, KILN_NO_MEMORY, "no memory for a prompt");
}

/* Gives the lines of one prompt.  *ret_refused: the first one was; so will its other seeds be. */
static int give_lines(const struct kiln_history_pick *pick, const struct prompt *prompt,
                      struct kiln_prompts *prompts, kiln_each_prompt *each, void *arg,
                      bool *ret_refused, struct kiln_error *err)
{
    char tenant[] = "default";
    struct kiln_job job = {.prompt = prompt->text,
                           .negative_prompt = prompt->negative,
                           .model = prompt->model,
                           .tenant = tenant,
                           .width = pick->width,
                           .height = pick->height,
                           .steps = pick->steps,
                           .latents = KILN_LATENTS_FINAL};
    int rc = 0;
    for (uint32_t i = 0; i < pick->new_count && rc == 0; i++) {
        struct kiln_text line = {0};
        job.seed = pick->seeds[i];
        kiln_job_line_write(&job, true, &line);
        rc = line.failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for a line")
                         : kiln_expand_begin(prompts->expand, line.at, line.len,
                                             &prompts->context.job, err);
        *ret_refused = rc == KILN_BAD_INPUT;
        prompts->lines += rc == 0;
        if (rc == 0)
            rc = each(arg, line.at, line.len, err);
        kiln_text_release(&line);
    }
    return rc;
}

int kiln_history_each(const struct kiln_history *history, const struct kiln_cli *cli,
                      struct kiln_ledger *ledger, struct kiln_prompts *prompts,
                      kiln_each_prompt *each, void *arg, struct kiln_error *err)
{
    int rc = 0;
    prompts->lines = 0;
    for (size_t i = 0; i < history->count && rc == 0; i++) {
        const struct kiln_history_pick *pick = &history->picks[i];
        struct prompt prompt = {0};
        bool refused = false;
        rc = kiln_ledger_job(ledger, kiln_pool(cli), pick->job, copy_prompt, &prompt, err);
        const bool gone = rc == KILN_NOT_FOUND;
        if (rc == 0)
            rc = give_lines(pick, &prompt, prompts, each, arg, &refused, err);
        if (gone || refused) {
            kiln_warn(cli, "the prompt of job %" PRIu64 " is left out: %s", pick->job, err->text);
            rc = 0;
        }
        release_prompt(&prompt);
    }
    return rc;
}

void kiln_history_print(const struct kiln_history *history)
{
    for (size_t i = 0; i < history->count; i++) {
        const struct kiln_history_pick *pick = &history->picks[i];
        printf("prompt of job %" PRIu64 ", %ux%u: %s, %s stored, %u to make in %.1f GPU-seconds, "
               "expected to save %.1f\n",
               pick->job, pick->width, pick->height, KILN_COUNT(pick->pictures, "picture"),
               KILN_COUNT(pick->donors, "donor"), pick->new_count, pick->cost_s, pick->saved_s);
    }
}

void kiln_history_release(struct kiln_history *history)
{
    free(history->picks);
    *history = (struct kiln_history){0};
}
