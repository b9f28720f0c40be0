/* enqueue.h - a job file into the intake stream: the verb `enqueue`, and the same for `run`.
 *
 *     file --input_jobs--> job line --expand--> jobs --enqueue.c--> stream --> receipt
 *
 * A refused line is printed as FILE:LINE: reason, and the others are sent.  With strict the whole
 * file is checked first, and nothing is sent if any line is refused.
 */
#ifndef KILN_ENQUEUE_H
#define KILN_ENQUEUE_H

#include "scheduler/cli/core/cli.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/jobs/enqueue/input_jobs.h"
#include "scheduler/cli/jobs/enqueue/input_value.h"
#include "scheduler/cli/jobs/enqueue/plan.h"
#include "schemas/limits.h"

#define KILN_REFUSALS_KEPT 10000 /* all are counted and printed; so many are kept for --json */
#define KILN_RECEIPT_WAIT_S 30

/* Job lines that a verb has made, each from a job of the ledger. */
struct kiln_made_lines {
    const char *text;
    size_t len;
    const uint64_t *jobs; /* of each line, for messages: "job 17: reason" */
};

/* A job that is in the stream, in the order of the lines; copy counts those of one line. */
typedef void kiln_each_sent(void *arg, uint64_t line, uint64_t copy, const struct kiln_job *job,
                            const char *key);

struct kiln_enqueue_request {
    const char *file;         /* "-" is standard input */
    struct kiln_input *input; /* opened in place of file "-", and closed here; or NULL */
    bool no_files;            /* init_image and init_mask are no paths of this machine */
    kiln_each_sent *sent;     /* NULL: nobody asks */
    /* While there is no receipt, every KILN_TROUBLE_LOOK_MS; NULL: nothing to do meanwhile. */
    void (*unanswered)(void *arg, const char *batch);
    void *arg;                          /* of both */
    const struct kiln_made_lines *made; /* job lines in memory, in place of a file; or NULL */
    const char *batch;                  /* NULL: that of the file (identity.h), or a new name */
    const struct kiln_set *sets;        /* borrowed */
    size_t set_count;
    enum kiln_format format;
    const char *on_done; /* the URL to tell that the batch has ended; NULL: none */
    bool dry_run, strict, no_wait;
    bool allow_empty; /* prompts of nothing but blanks too */
    uint32_t wait_s;  /* for the receipt; 0: KILN_RECEIPT_WAIT_S */
};

struct kiln_refusal {
    uint64_t line; /* 0: not known */
    char *error;
};

#define KILN_MODELS_KEPT 4 /* each once, the first of them */

struct kiln_enqueue_result {
    char batch[KILN_BATCH_NAME_MAX + 1];
    uint64_t sent;  /* jobs in the stream */
    bool safe;      /* all of them, and the end of the call: Redis has said so */
    bool receipted; /* the counts below come from the scheduler */
    uint64_t accepted, duplicate;
    uint64_t gone;                 /* jobs of the batch that the file no longer has */
    bool compared;                 /* dry_run: the counts above are what the ledger would say */
    uint64_t refused;              /* lines here, and jobs there */
    struct kiln_refusal *refusals; /* [refusal_count], the first of them */
    size_t refusal_count;
    struct kiln_plan plan;                            /* dry_run */
    char models[KILN_MODELS_KEPT][KILN_NAME_MAX + 1]; /* [model_count] that jobs name */
    size_t model_count;
    /* As kiln_input_passed_over, if any line was taken; without models where --set names one. */
    char passed_over[KILN_PASSED_OVER_MAX];
    struct kiln_error error; /* what ended it, as far as stderr would say; code 0: nothing */
};

/* Enqueues, prints what went wrong on stderr, and returns the exit status.  *result is filled as
 * far as it went; the caller releases it in any case. */
int kiln_enqueue(struct kiln_cli *cli, const struct kiln_enqueue_request *request,
                 struct kiln_enqueue_result *result);
void kiln_enqueue_release(struct kiln_enqueue_result *result);

/* The options of the verb but --on-done, which is not the same for all, ended by a NULL name, and
 * their reading into a request; file is not touched. sets has room for KILN_GIVEN_MAX.  0 or an
 * exit status. */
extern const struct kiln_option kiln_enqueue_options[];
int kiln_enqueue_read_args(struct kiln_cli *cli, const struct kiln_args *args,
                           struct kiln_set *sets, struct kiln_enqueue_request *ret);
/* The name of the batch on stdout, or with --json the result.  0 or an exit status. */
int kiln_enqueue_print(const struct kiln_cli *cli, const struct kiln_enqueue_result *result);
/* The plan of a dry run on stdout, a table or with --json an object.  0 or an exit status. */
int kiln_enqueue_print_plan(const struct kiln_cli *cli, const struct kiln_enqueue_result *result);

#endif
