/* rate.c - see rate.h. */
#include "scheduler/gallery/safety/rate.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/gallery/safety/rule.h"
#include "schemas/telemetry/metrics.h"
#include "storage/ledger/gallery/gallery.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/safety/unrated.h"
#include "storage/ledger/safety/verdict.h"

#define PAGE 500

struct kiln_rater {
    const struct kiln_config *config;
    struct kiln_rule *rule;
    struct kiln_ledger *ledger; /* NULL: not opened yet */
    bool begun;                 /* `below` is of the ledger */
    uint64_t below;             /* pictures of jobs below this one are left */
    _Atomic uint64_t looked_at, marked;
    _Atomic bool complete;
};

int kiln_rater_new(const struct kiln_config *config, struct kiln_rater **ret,
                   struct kiln_error *err)
{
    struct kiln_rater *rater = calloc(1, sizeof *rater);
    if (!rater)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for levels of safety");
    rater->config = config;
    int rc = kiln_rule_open(kiln_config_text(config, KILN_KEY_GALLERY_RULE), &rater->rule, err);
    if (rc) {
        kiln_rater_free(rater);
        return rc;
    }
    *ret = rater;
    return 0;
}

void kiln_rater_free(struct kiln_rater *rater)
{
    if (!rater)
        return;
    kiln_ledger_close(rater->ledger);
    kiln_rule_free(rater->rule);
    free(rater);
}

/* --- a page ----------------------------------------------------------------------------------- */

/* The opinions of a page that are not recorded yet. */
struct opinions {
    const struct kiln_rule *rule;
    struct opinion {
        uint64_t job;
        int level;
        char pool[KILN_NAME_MAX + 1];
    } * at;
    size_t count;
};

/* The rule finds something, or nothing: then it has no opinion, and takes back what it said. */
static int note(void *arg, const struct kiln_rule_picture *picture, struct kiln_error *err)
{
    struct opinions *opinions = arg;
    const char *source = kiln_rule_source(opinions->rule);
    bool found = kiln_rule_matches(opinions->rule, picture->prompt);
    bool said = picture->said_by && picture->said == KILN_SAFETY_UNSURE;
    (void)err;
    if (found ? said && strcmp(picture->said_by, source) == 0 : !said)
        return 0;
    struct opinion *opinion = &opinions->at[opinions->count++];
    opinion->job = picture->job;
    opinion->level = found ? KILN_SAFETY_UNSURE : KILN_SAFETY_UNCHECKED;
    snprintf(opinion->pool, sizeof opinion->pool, "%s", picture->pool);
    return 0;
}

/* A picture that is gone meanwhile needs none. */
static int record(struct kiln_rater *rater, const struct opinions *opinions, struct kiln_error *err)
{
    int rc = 0, level;
    for (size_t i = 0; i < opinions->count && rc == 0; i++) {
        const struct opinion *opinion = &opinions->at[i];
        const struct kiln_verdict verdict = {.job = opinion->job,
                                             .level = opinion->level,
                                             .rank = KILN_VERDICT_RULE,
                                             .source = kiln_rule_source(rater->rule)};
        rc = kiln_ledger_judge(rater->ledger, opinion->pool, &verdict, &level, err);
        rc = rc == KILN_NOT_FOUND ? 0 : rc;
        if (rc == 0 && opinion->level == KILN_SAFETY_UNSURE)
            atomic_fetch_add(&rater->marked, 1);
    }
    return rc;
}

static int open_ledger(struct kiln_rater *rater, struct kiln_error *err)
{
    return rater->ledger ? 0 : kiln_ledger_open(rater->config, "kiln-gallery", &rater->ledger, err);
}

int kiln_rater_written(void *arg, const uint64_t *jobs, size_t count, struct kiln_error *err)
{
    struct kiln_rater *rater = arg;
    struct opinions opinions = {.rule = rater->rule, .at = calloc(count, sizeof *opinions.at)};
    if (!opinions.at)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for levels of safety");
    int rc = open_ledger(rater, err);
    rc = rc ? rc : kiln_ledger_rule_pictures(rater->ledger, jobs, count, note, &opinions, err);
    rc = rc ? rc : record(rater, &opinions, err);
    free(opinions.at);
    if (rc == 0)
        atomic_fetch_add(&rater->looked_at, count);
    return rc ? kiln_fail_in(err, "the rule about prompts") : 0;
}

/* --- what was there before -------------------------------------------------------------------- */

static int step(struct kiln_rater *rater, struct kiln_error *err)
{
    const char *source = kiln_rule_source(rater->rule);
    uint64_t jobs[PAGE];
    uint32_t count = 0;
    int rc = open_ledger(rater, err);
    if (rc == 0 && !rater->begun)
        rc = kiln_ledger_rule_begin(rater->ledger, source, &rater->below, err);
    rater->begun = rc == 0;
    if (rc || rater->below == 0)
        return rc;
    rc = kiln_ledger_rule_next(rater->ledger, rater->below, PAGE, jobs, &count, err);
    if (rc == 0 && count > 0)
        rc = kiln_rater_written(rater, jobs, count, err);
    uint64_t below = count < PAGE ? 0 : jobs[count - 1];
    rc = rc ? rc : kiln_ledger_rule_reached(rater->ledger, source, below, err);
    if (rc == 0)
        rater->below = below;
    return rc;
}

int kiln_rater_step(struct kiln_rater *rater, bool replaced, bool *ret_more, struct kiln_error *err)
{
    rater->begun = rater->begun && !replaced;
    int rc = step(rater, err);
    atomic_store(&rater->complete, rc == 0 && rater->below == 0);
    if (rc)
        rater->begun = false;
    *ret_more = rc == 0 && rater->below > 0;
    return rc;
}

void kiln_rater_gauges(struct kiln_rater *rater, struct kiln_text *text)
{
    kiln_metric_single(text, "kiln_gallery_rule_prompts_total", "counter",
                       "Pictures whose prompt the rule has looked at in this process.",
                       (double)atomic_load(&rater->looked_at));
    kiln_metric_single(text, "kiln_gallery_rule_marked_total", "counter",
                       "Pictures that the rule about prompts has marked as unsure.",
                       (double)atomic_load(&rater->marked));
    kiln_metric_single(text, "kiln_gallery_rule_complete", "gauge",
                       "1 if the rule about prompts has looked at every picture.",
                       atomic_load(&rater->complete));
}
