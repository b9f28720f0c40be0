/* trace.c - a line is cut into cells, each cell is read by the reader of its column.
 *
 * Cells may be quoted, but hold names and numbers, so that a quote inside one is always a mistake.
 * A record has as many cells as the header: a guess about a short one would shift its cells.
 */
#include "scheduler/sim/trace.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/job.h"
#include "schemas/names.h"
#include "schemas/room.h"

#define SIDE_MAX 16384 /* traces come from other systems too; their pictures need not fit Kiln */
#define STEPS_MAX 1000
#define ARRIVAL_MAX_S 4e9 /* clocks that count from 1970 are welcome */
#define SERVICE_MAX_S (30.0 * 24 * 3600)
#define SET_NAMES_MAX 16

enum column {
    ARRIVAL,
    TENANT,
    WIDTH,
    HEIGHT,
    STEPS,
    MODE,
    LORAS,
    PRIORITY,
    MAX_WAIT,
    SERVICE,
    COLUMNS
};
static const char *const column_names[COLUMNS] = {"arrival_s",  "tenant",   "width", "height",
                                                  "steps",      "mode",     "loras", "priority",
                                                  "max_wait_s", "service_s"};

struct kiln_trace_layout {
    enum column columns[COLUMNS];
    uint32_t count; /* 0 before the header */
};

/* One cell, and where it stands for messages. */
struct cell {
    const char *at;
    size_t len;
    const char *name; /* of the input */
    uint64_t line;
    size_t column; /* in bytes, from 1 */
    const char *title;
};

/* A job while its cells are read. */
struct record {
    struct kiln_trace_job job;
    struct kiln_trace_shape shape;
    struct cell tenant, loras;
};

struct kiln_trace *kiln_trace_new(const char *name)
{
    struct kiln_trace *trace = calloc(1, sizeof *trace);
    if (!trace)
        return NULL;
    trace->name = strdup(name);
    trace->layout = calloc(1, sizeof *trace->layout);
    if (!trace->name || !trace->layout) {
        kiln_trace_free(trace);
        return NULL;
    }
    return trace;
}

void kiln_trace_free(struct kiln_trace *trace)
{
    if (!trace)
        return;
    kiln_intern_release(&trace->tenants);
    kiln_intern_release(&trace->sets);
    kiln_intern_release(&trace->shapes);
    free(trace->jobs);
    free(trace->layout);
    free(trace->name);
    free(trace);
}

struct kiln_trace_shape kiln_trace_shape(const struct kiln_trace *trace, uint32_t shape)
{
    struct kiln_trace_shape ret;
    memcpy(&ret, kiln_intern_text(&trace->shapes, shape), sizeof ret);
    return ret;
}

const char *kiln_trace_mode(const struct kiln_trace *trace, uint32_t shape)
{
    return kiln_intern_text(&trace->shapes, shape) + offsetof(struct kiln_trace_shape, mode);
}

/* --- cells ----------------------------------------------------------------------------------- */
static int refuse(const struct cell *cell, struct kiln_error *err, const char *what)
{
    int shown = (int)(cell->len < 40 ? cell->len : 40);
    return kiln_fail(err, KILN_BAD_INPUT, "%s:%llu:%zu: %s%s\"%.*s\" %s", cell->name,
                     (unsigned long long)cell->line, cell->column, cell->title ? cell->title : "",
                     cell->title ? ": " : "", shown, cell->at, what);
}

/* Spreadsheets put blanks around cells; they are no part of a name or a number. */
static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The next cell of the line [*at, end); *at ends behind its comma, or NULL behind the last one. */
static int next_cell(struct cell *cell, const char *start, const char **at, const char *end,
                     struct kiln_error *err)
{
    const char *from = *at, *stop = from;
    for (bool quoted = false; stop < end && (quoted || *stop != ','); stop++)
        quoted ^= *stop == '"';
    *at = stop < end ? stop + 1 : NULL;
    while (from < stop && blank(*from))
        from++;
    while (stop > from && blank(stop[-1]))
        stop--;
    cell->at = from;
    cell->len = (size_t)(stop - from);
    cell->column = (size_t)(from - start) + 1;
    if (!memchr(cell->at, '"', cell->len))
        return 0;
    if (cell->len < 2 || *from != '"' || stop[-1] != '"' || memchr(from + 1, '"', cell->len - 2))
        return refuse(cell, err, "has a quote out of place");
    cell->at++, cell->column++;
    cell->len -= 2;
    return 0;
}

/* A decimal number in [min, max]. */
static int read_number(const struct cell *cell, double min, double max, double *ret,
                       struct kiln_error *err)
{
    char text[64], *end = text, what[80];
    bool sane = cell->len < sizeof text;
    if (sane) {
        memcpy(text, cell->at, cell->len);
        text[cell->len] = '\0';
        /* strtod reads hexadecimal, "inf" and "nan" as well */
        sane = strspn(text, "+-.0123456789eE") == cell->len;
    }
    double value = sane ? strtod(text, &end) : NAN;
    if (sane && end == text + cell->len && value >= min && value <= max) {
        *ret = value;
        return 0;
    }
    snprintf(what, sizeof what, "is not a number from %.10g to %.10g", min, max);
    return refuse(cell, err, what);
}

static int read_seconds(const struct cell *cell, double max_s, int64_t *ret_ns,
                        struct kiln_error *err)
{
    double value;
    int rc = read_number(cell, 0, max_s, &value, err);
    if (rc == 0)
        *ret_ns = (int64_t)llround(value * 1e9);
    return rc;
}

static int read_whole(const struct cell *cell, int min, int max, int *ret, struct kiln_error *err)
{
    double value;
    int rc = read_number(cell, min, max, &value, err);
    if (rc)
        return rc;
    if (value != floor(value))
        return refuse(cell, err, "is not a whole number");
    *ret = (int)value;
    return 0;
}

static int read_mode(const struct cell *cell, struct kiln_trace_shape *shape,
                     struct kiln_error *err)
{
    char text[KILN_MODE_MAX] = {0};
    struct kiln_mode mode;
    if (cell->len < sizeof text)
        memcpy(text, cell->at, cell->len);
    if (strcmp(text, kiln_mode_shown("")) == 0)
        text[0] = '\0';
    if (cell->len >= sizeof text || memchr(cell->at, '\0', cell->len) ||
        !kiln_mode_parse(text, &mode))
        return refuse(cell, err, "is not a mode, such as exact, coarse=4+3 or start=3");
    memset(shape->mode, 0, sizeof shape->mode); /* shapes are compared byte by byte */
    memcpy(shape->mode, text, strlen(text));
    return 0;
}

static int read_cell(const struct cell *cell, enum column column, struct record *record,
                     struct kiln_error *err)
{
    struct kiln_trace_job *job = &record->job;
    int value = 0, rc = 0;
    switch (column) {
    case ARRIVAL:
        return read_seconds(cell, ARRIVAL_MAX_S, &job->arrival_ns, err);
    case TENANT:
        record->tenant = *cell;
        return kiln_name_valid(cell->at, cell->len, KILN_NAME_MAX)
                   ? 0
                   : refuse(cell, err, "is not a name: " KILN_NAME_RULE);
    case WIDTH:
    case HEIGHT:
        rc = read_whole(cell, 1, SIDE_MAX, &value, err);
        *(column == WIDTH ? &record->shape.width : &record->shape.height) = (uint32_t)value;
        return rc;
    case STEPS:
        rc = read_whole(cell, 1, STEPS_MAX, &value, err);
        record->shape.steps = (uint32_t)value;
        return rc;
    case MODE:
        return read_mode(cell, &record->shape, err);
    case LORAS:
        record->loras = *cell;
        return 0;
    case PRIORITY:
        rc = read_whole(cell, -KILN_PRIORITY_MAX, KILN_PRIORITY_MAX, &value, err);
        job->priority = (int8_t)value;
        return rc;
    case MAX_WAIT:
        return read_seconds(cell, KILN_MAX_WAIT_S_MAX, &job->max_wait_ns, err);
    case SERVICE:
        /* A bound of no work has no ratio, and 0 stands for "by the cost model" in the record. */
        rc = read_seconds(cell, SERVICE_MAX_S, &job->service_ns, err);
        return rc == 0 && job->service_ns == 0
                   ? refuse(cell, err, "is not a time to render a picture in")
                   : rc;
    case COLUMNS:
        break;
    }
    return 0;
}

/* --- LoRA sets: "b+a" and "a+b" are one ------------------------------------------------------- */
struct part {
    const char *at;
    size_t len;
};

static int compare_parts(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    int order = memcmp(x->at, y->at, x->len < y->len ? x->len : y->len);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* The names of a cell, in its order. */
static int split_set(const struct cell *cell, struct part *parts, uint32_t *ret_count,
                     struct kiln_error *err)
{
    const char *at = cell->at, *end = cell->at + cell->len;
    uint32_t count = 0;
    while (cell->len > 0) {
        const char *plus = memchr(at, '+', (size_t)(end - at));
        struct part part = {at, (size_t)((plus ? plus : end) - at)};
        if (!kiln_name_valid(part.at, part.len, KILN_NAME_MAX))
            return refuse(cell, err, "is not a list of names joined by '+': " KILN_NAME_RULE);
        if (count == SET_NAMES_MAX)
            return refuse(cell, err, "names too many LoRAs");
        parts[count++] = part;
        if (!plus)
            break;
        at = plus + 1;
    }
    *ret_count = count;
    return 0;
}

static int intern_set(struct kiln_trace *trace, const struct cell *cell, uint32_t *ret,
                      struct kiln_error *err)
{
    struct part parts[SET_NAMES_MAX];
    char text[KILN_LORA_SET_MAX];
    uint32_t count = 0;
    size_t len = 0;
    int rc = split_set(cell, parts, &count, err);
    if (rc)
        return rc;
    if (count == 1 && parts[0].len == strlen("none") && memcmp(parts[0].at, "none", 4) == 0)
        count = 0; /* the word for it in job lines */
    if (cell->len >= sizeof text)
        return refuse(cell, err, "is too long for a LoRA set");
    if (count > 1)
        qsort(parts, count, sizeof *parts, compare_parts);
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 && compare_parts(&parts[i - 1], &parts[i]) == 0)
            return refuse(cell, err, "names a LoRA twice");
        if (i > 0)
            text[len++] = '+';
        memcpy(text + len, parts[i].at, parts[i].len);
        len += parts[i].len;
    }
    *ret = kiln_intern(&trace->sets, text, len);
    return 0;
}

/* --- records --------------------------------------------------------------------------------- */
/* Names and sizes become numbers here, so that a job is 48 bytes however long its names are. */
static int append(struct kiln_trace *trace, struct record *record, struct kiln_error *err)
{
    struct kiln_trace_job *job = &record->job;
    if (trace->count == KILN_BATCH_JOBS_MAX)
        return kiln_fail(err, KILN_FULL, "%s holds more than %d jobs", trace->name,
                         KILN_BATCH_JOBS_MAX);
    struct kiln_trace_job *jobs = kiln_room(trace->jobs, trace->count, &trace->room, sizeof *jobs);
    if (!jobs)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for more than %u jobs", trace->count);
    trace->jobs = jobs;
    job->tenant = kiln_intern(&trace->tenants, record->tenant.at, record->tenant.len);
    job->shape = kiln_intern(&trace->shapes, &record->shape, sizeof record->shape);
    int rc = intern_set(trace, &record->loras, &job->set, err);
    if (rc)
        return rc;
    if (job->tenant == KILN_NONE || job->shape == KILN_NONE || job->set == KILN_NONE)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the names of %s", trace->name);
    trace->jobs[trace->count++] = *job;
    return 0;
}

static int read_record(struct kiln_trace *trace, uint64_t number, const char *text, size_t len,
                       struct kiln_error *err)
{
    const struct kiln_trace_layout *layout = trace->layout;
    struct record record = {.job.line = (uint32_t)number,
                            .shape = {.width = KILN_SIDE_DEFAULT,
                                      .height = KILN_SIDE_DEFAULT,
                                      .steps = KILN_STEPS_DEFAULT},
                            .tenant = {.at = "default", .len = strlen("default")},
                            .loras = {.at = ""}};
    struct cell cell = {.name = trace->name, .line = number};
    const char *at = text;
    uint32_t count = 0;
    for (; at; count++) {
        cell.title = count < layout->count ? column_names[layout->columns[count]] : NULL;
        int rc = next_cell(&cell, text, &at, text + len, err);
        if (rc == 0 && cell.len > 0 && cell.title)
            rc = read_cell(&cell, layout->columns[count], &record, err);
        if (rc)
            return rc;
    }
    if (count != layout->count)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s:%llu:%zu: the record has %u cell%s, the header %u", trace->name,
                         (unsigned long long)number, cell.column, count, count == 1 ? "" : "s",
                         layout->count);
    return append(trace, &record, err);
}

static int read_header(struct kiln_trace *trace, uint64_t number, const char *text, size_t len,
                       struct kiln_error *err)
{
    struct kiln_trace_layout *layout = trace->layout;
    struct cell cell = {.name = trace->name, .line = number};
    for (const char *at = text; at;) {
        int rc = next_cell(&cell, text, &at, text + len, err);
        if (rc)
            return rc;
        uint32_t column = 0;
        while (column < COLUMNS && (strlen(column_names[column]) != cell.len ||
                                    memcmp(column_names[column], cell.at, cell.len) != 0))
            column++;
        if (column == COLUMNS) {
            char what[96];
            snprintf(
                what, sizeof what,
                "is not a column of a trace; did you mean %s?  The first line names the columns",
                kiln_closest(cell.at, cell.len, column_names, COLUMNS));
            return refuse(&cell, err, what);
        }
        for (uint32_t i = 0; i < layout->count; i++)
            if (layout->columns[i] == (enum column)column)
                return refuse(&cell, err, "is a column that was named before");
        layout->columns[layout->count++] = (enum column)column;
    }
    return 0;
}

int kiln_trace_line(struct kiln_trace *trace, uint64_t number, const char *text, size_t len,
                    struct kiln_error *err)
{
    size_t blanks = 0;
    while (blanks < len && blank(text[blanks]))
        blanks++;
    if (blanks == len)
        return 0;
    return trace->layout->count ? read_record(trace, number, text, len, err)
                                : read_header(trace, number, text, len, err);
}

static int compare_jobs(const void *a, const void *b)
{
    const struct kiln_trace_job *x = a, *y = b;
    if (x->arrival_ns != y->arrival_ns)
        return x->arrival_ns < y->arrival_ns ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
}

int kiln_trace_end(struct kiln_trace *trace, struct kiln_error *err)
{
    if (trace->count == 0)
        return kiln_fail(err, KILN_BAD_INPUT, "%s holds no jobs", trace->name);
    /* Lines are told apart by their number, so that any qsort gives the same order. */
    qsort(trace->jobs, trace->count, sizeof *trace->jobs, compare_jobs);
    int64_t first_ns = trace->jobs[0].arrival_ns;
    for (uint32_t i = 0; i < trace->count; i++)
        trace->jobs[i].arrival_ns -= first_ns;
    return 0;
}
