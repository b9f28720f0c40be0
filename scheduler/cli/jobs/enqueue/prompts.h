/* prompts.h - prompts as the verbs `backfill add` and `cache build` take them: --prompts FILE or
 * --template TEXT, with --set KEY=VALUE, --loras and --sigmas.
 *
 * Each line is checked as the scheduler will read it.  Unlike with enqueue, one refused line
 * refuses all: the jobs of these verbs keep coming for long, so they must be right from the start.
 */
#ifndef KILN_CLI_PROMPTS_H
#define KILN_CLI_PROMPTS_H

#include "scheduler/cli/core/cli.h"
#include "scheduler/cli/jobs/enqueue/context.h"
#include "schemas/job/expand.h"

/* The --set options of the command line, and those that a verb adds. */
#define KILN_PROMPT_SETS_MAX (KILN_GIVEN_MAX + 4)

struct kiln_input;

struct kiln_prompts {
    struct kiln_set sets[KILN_PROMPT_SETS_MAX];
    size_t set_count;
    struct kiln_enqueue_context context;
    struct kiln_expand *expand;
    const char *file, *template; /* one of them NULL; borrowed */
    struct kiln_input *input;    /* of the file */
    bool read;                   /* once or more */
    uint64_t lines, refused;     /* of the last reading */
};

/* Adds the options --set, --loras and --sigmas to `sets`. */
void kiln_prompts_sets(struct kiln_prompts *prompts, const struct kiln_args *args);
/* Exactly one of --prompts and --template was given; 0 or an exit status. */
int kiln_prompts_check(struct kiln_cli *cli, const struct kiln_args *args);

/* Opens what args name; `sets` are filled by then. */
int kiln_prompts_open(struct kiln_cli *cli, const struct kiln_args *args,
                      struct kiln_prompts *prompts, struct kiln_error *err) KILN_MUST_CHECK;
/* As kiln_report, but an error in an option of the command line is one of usage. */
int kiln_prompts_report(const struct kiln_cli *cli, const struct kiln_prompts *prompts,
                        const struct kiln_error *err);
/* A good line; prompts->expand holds the jobs it makes. */
typedef int kiln_each_prompt(void *arg, const char *text, size_t len, struct kiln_error *err);
/* Reads all of them, from the beginning at every call.  KILN_BAD_INPUT: lines were refused (the
 * first are printed on stderr) or there are none. */
int kiln_prompts_each(struct kiln_prompts *prompts, kiln_each_prompt *each, void *arg,
                      struct kiln_error *err) KILN_MUST_CHECK;
void kiln_prompts_release(struct kiln_prompts *prompts);

#endif
