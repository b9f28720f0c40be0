/* prompts.c - see prompts.h. */
#include "scheduler/cli/jobs/enqueue/prompts.h"

#include <stdio.h>
#include <string.h>

#include "scheduler/cli/jobs/enqueue/input_jobs.h"

#define REFUSALS_TOLD 20

void kiln_prompts_sets(struct kiln_prompts *prompts, const struct kiln_args *args)
{
    for (int i = 0; i < args->given_count; i++) {
        const char *name = args->given[i].option->name;
        if (strcmp(name, "set") == 0 || strcmp(name, "loras") == 0 || strcmp(name, "sigmas") == 0)
            prompts->sets[prompts->set_count++] = (struct kiln_set){name, args->given[i].value};
    }
}

int kiln_prompts_check(struct kiln_cli *cli, const struct kiln_args *args)
{
    if (!kiln_arg(args, "prompts") == !kiln_arg(args, "template"))
        return kiln_usage(cli, "name the prompts: --prompts FILE or --template TEXT");
    return 0;
}

struct reading {
    struct kiln_prompts *prompts;
    kiln_each_prompt *each;
    void *arg;
};

/* Failures of each are not those of the line. */
static int take_line(struct reading *reading, const char *name, uint64_t line, const char *text,
                     size_t len, struct kiln_error *err)
{
    struct kiln_prompts *prompts = reading->prompts;
    int rc = kiln_expand_begin(prompts->expand, text, len, &prompts->context.job, err);
    if (rc == KILN_BAD_INPUT) {
        if (prompts->refused++ < REFUSALS_TOLD)
            fprintf(stderr, "%s:%llu: %s\n", name, (unsigned long long)line, err->text);
        return 0;
    }
    prompts->lines += rc == 0;
    return rc ? rc : reading->each(reading->arg, text, len, err);
}

static int read_file(struct reading *reading, struct kiln_error *err)
{
    struct kiln_input *input = reading->prompts->input;
    const char *text = "";
    int rc = reading->prompts->read ? kiln_input_rewind(input, err) : 0;
    while (rc == 0 && text) {
        size_t len;
        uint64_t line;
        rc = kiln_input_next(input, &text, &len, &line, err);
        if (rc == KILN_BAD_INPUT) {
            if (reading->prompts->refused++ < REFUSALS_TOLD)
                fprintf(stderr, "%s:%llu: %s\n", kiln_input_name(input), (unsigned long long)line,
                        err->text);
            text = "";
            rc = 0;
        } else if (rc == 0 && text) {
            rc = take_line(reading, kiln_input_name(input), line, text, len, err);
        }
    }
    return rc;
}

int kiln_prompts_open(struct kiln_cli *cli, const struct kiln_args *args,
                      struct kiln_prompts *prompts, struct kiln_error *err)
{
    prompts->file = kiln_arg(args, "prompts");
    prompts->template = kiln_arg(args, "template");
    int rc = kiln_enqueue_context_open(cli->config, prompts->sets, prompts->set_count, false,
                                       &prompts->context, err);
    prompts->expand = kiln_expand_new();
    if (rc == 0 && !prompts->expand)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory to read the prompts");
    if (rc == 0 && prompts->file)
        rc = kiln_input_open(prompts->file, KILN_FORMAT_AUTO, true, &prompts->input, err);
    return rc;
}

int kiln_prompts_report(const struct kiln_cli *cli, const struct kiln_prompts *prompts,
                        const struct kiln_error *err)
{
    return prompts->context.sets_wrong ? kiln_usage(cli, "%s", err->text) : kiln_report(cli, err);
}

int kiln_prompts_each(struct kiln_prompts *prompts, kiln_each_prompt *each, void *arg,
                      struct kiln_error *err)
{
    struct reading reading = {prompts, each, arg};
    struct kiln_text line = {0};
    int rc;
    prompts->lines = prompts->refused = 0;
    if (prompts->file) {
        rc = read_file(&reading, err);
    } else {
        kiln_text_puts(&line, "{");
        kiln_input_member(KILN_JOB_KEY_PROMPT, prompts->template, strlen(prompts->template), &line);
        kiln_text_puts(&line, "}");
        rc = line.failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for the template")
                         : take_line(&reading, "template", 1, line.at, line.len, err);
        kiln_text_release(&line);
    }
    prompts->read = true;
    if (rc == 0 && prompts->refused)
        rc =
            kiln_fail(err, KILN_BAD_INPUT, "%s refused; correct the prompts and repeat the command",
                      KILN_COUNT(prompts->refused, "line"));
    if (rc == 0 && prompts->lines == 0)
        rc = kiln_fail(err, KILN_BAD_INPUT, "%s contains no prompts",
                       prompts->file ? prompts->file : "the template");
    return rc;
}

void kiln_prompts_release(struct kiln_prompts *prompts)
{
    kiln_input_close(prompts->input);
    kiln_expand_free(prompts->expand);
    kiln_enqueue_context_release(&prompts->context);
}
