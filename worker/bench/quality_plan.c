/* quality_plan.c - which rows the table of `kiln bench quality` has; see quality.h. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "worker/bench/quality.h"

/* The rows of the model card.  Lists are files of tests/quality. */
static const struct {
    const char *list;
    int32_t width, height;
    bool few_steps; /* a second row with few steps, unless the command line has --steps */
} standard[] = {
    {"held", 256, 256, true},   {"held", 512, 512, false},   {"three", 256, 256, false},
    {"three", 512, 512, false}, {"pairs", 256, 256, false},  {"wide", 512, 288, false},
    {"tall", 288, 512, false},  {"free60", 256, 256, false},
};
#define STANDARD_COUNT (int)(sizeof standard / sizeof *standard)
#define STEPS_FEW 4

struct plan {
    const struct kiln_quality_options *options;
    struct kiln_quality_row *rows;
    int count;
    bool full;
};

static void add(struct plan *p, const char *path, int32_t width, int32_t height, int32_t steps,
                int32_t dtype)
{
    if (p->count == KILN_QUALITY_ROWS_MAX) {
        p->full = true;
        return;
    }
    struct kiln_quality_row *row = &p->rows[p->count++];
    *row =
        (struct kiln_quality_row){.width = width, .height = height, .steps = steps, .dtype = dtype};
    snprintf(row->path, sizeof row->path, "%s", path);
    const char *slash = strrchr(path, '/'); /* "prompts" of "dir/prompts.jsonl" */
    snprintf(row->list, sizeof row->list, "%s", slash ? slash + 1 : path);
    char *dot = strrchr(row->list, '.');
    if (dot && dot != row->list)
        *dot = '\0';
}

/* One list at every size and step count of the options. */
static void add_list(struct plan *p, const char *path, int32_t dtype)
{
    const struct kiln_quality_options *o = p->options;
    for (int i = 0; i < (o->size_count ? o->size_count : 1); i++)
        for (int k = 0; k < (o->step_count ? o->step_count : 1); k++)
            add(p, path, o->size_count ? o->sizes[i].width : 0,
                o->size_count ? o->sizes[i].height : 0,
                o->step_count ? o->steps[k] : o->usual_steps, dtype);
}

static void add_standard(struct plan *p, int32_t dtype)
{
    const struct kiln_quality_options *o = p->options;
    for (int i = 0; i < STANDARD_COUNT; i++) {
        char path[sizeof p->rows->path];
        snprintf(path, sizeof path, "%.900s/%s.jsonl", o->lists, standard[i].list);
        if (access(path, R_OK) != 0)
            continue; /* an installation may lack lists; without any there is an error below */
        int32_t width = standard[i].width, height = standard[i].height;
        if (!o->step_count)
            add(p, path, width, height, o->usual_steps, dtype);
        if (!o->step_count && standard[i].few_steps && o->usual_steps > STEPS_FEW)
            add(p, path, width, height, STEPS_FEW, dtype);
        for (int k = 0; k < o->step_count; k++)
            add(p, path, width, height, o->steps[k], dtype);
    }
}

int kiln_quality_plan(const struct kiln_quality_options *options, struct kiln_quality_row *rows,
                      struct kiln_error *err)
{
    struct plan p = {.options = options, .rows = rows};
    char held[sizeof rows->path];
    snprintf(held, sizeof held, "%.900s/%s.jsonl", options->lists ? options->lists : "",
             standard[0].list);
    for (int i = 0; i < options->dtype_count; i++) {
        int32_t dtype = options->dtypes[i];
        if (options->prompts)
            add_list(&p, options->prompts, dtype);
        else if (options->size_count)
            add_list(&p, held, dtype);
        else
            add_standard(&p, dtype);
    }
    if (p.count == 0)
        kiln_fail(err, KILN_NOT_FOUND, "%s: no lists of prompts there", options->lists);
    if (p.full) {
        kiln_fail(err, KILN_BAD_INPUT, "more than %d rows", KILN_QUALITY_ROWS_MAX);
        return 0;
    }
    return p.count;
}
