/* history.h - `kiln cache build --from-history`: which prompts of the ledger deserve more donors.
 *
 * The newest pictures stand for those to come: each prompt is expected to be rendered once more as
 * often as they have it.  What a pool of donors would save of that follows from the model's table
 * (scheduler/cache/rule.h) and from the measured pace of these pictures.  Only runs that may begin
 * from stored latents count: without LoRAs and guidance, of the table's number of steps.
 */
#ifndef KILN_CLI_CACHE_HISTORY_H
#define KILN_CLI_CACHE_HISTORY_H

#include "scheduler/cli/jobs/enqueue/prompts.h"
#include "storage/ledger/read/cache.h"

#define KILN_HISTORY_TOP_MAX 10000

struct kiln_history_wish {
    uint32_t top, donors; /* so many prompts, and donors of each: 1 .. KILN_POPULAR_SEEDS */
    uint32_t alike;       /* of the jobs to come */
};

/* A prompt whose pool gets more donors. */
struct kiln_history_pick {
    uint64_t job; /* the newest picture with the prompt */
    uint32_t width, height, steps;
    uint64_t pictures; /* with it in the history */
    uint32_t donors;   /* stored */
    uint32_t new_count;
    uint64_t seeds[KILN_POPULAR_SEEDS]; /* [new_count] of the donors to make */
    double saved_s, cost_s; /* GPU-seconds: saved by the new ones, and what they take to make */
};

struct kiln_history {
    struct kiln_history_pick *picks; /* by falling saved_s */
    size_t count, room;
    double saved_s, cost_s; /* of all */
};

/* Chooses them; zeroed before.  KILN_CONFIG: the model has no table of teleport, so nothing would
 * be saved. */
int kiln_history_choose(const struct kiln_cli *cli, struct kiln_ledger *ledger,
                        const struct kiln_history_wish *wish, struct kiln_history *ret,
                        struct kiln_error *err) KILN_MUST_CHECK;
/* The job lines of the donors to make, one each, as kiln_prompts_each gives those of a file.  A
 * prompt that has gone since, or is refused by now, is left out with a warning. */
int kiln_history_each(const struct kiln_history *history, const struct kiln_cli *cli,
                      struct kiln_ledger *ledger, struct kiln_prompts *prompts,
                      kiln_each_prompt *each, void *arg, struct kiln_error *err) KILN_MUST_CHECK;
/* A line for each prompt, on stdout. */
void kiln_history_print(const struct kiln_history *history);
void kiln_history_release(struct kiln_history *history);

#endif
