/* metrics_text.c - Prometheus' text format 0.0.4.
 *
 * Every series of a metric is there from the first page on, also at 0: a counter that appears with
 * its first error cannot be seen to rise.  The count of a histogram is summed up from the very
 * buckets that are written, so that it can never contradict them.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "schemas/telemetry/metrics_table.h"

/* The last label of every sample, so that rules can tell the pools of one Prometheus apart. */
static char pool_name[128];

void kiln_metrics_pool(const char *pool)
{
    snprintf(pool_name, sizeof pool_name, "%s", pool);
}

static void add_number(struct kiln_text *text, double value)
{
    if (isnan(value))
        kiln_text_puts(text, "NaN");
    else if (isinf(value))
        kiln_text_puts(text, value > 0 ? "+Inf" : "-Inf");
    else
        kiln_text_double(text, value);
}

/* Three bytes are special in a label's value; the names of LoRA sets come from people. */
static void add_value(struct kiln_text *text, const char *value)
{
    for (; *value; value++) {
        if (*value == '\n')
            kiln_text_puts(text, "\\n");
        else if (*value == '"' || *value == '\\')
            kiln_text_printf(text, "\\%c", *value);
        else
            kiln_text_add(text, value, 1);
    }
}

static void add_label(struct kiln_text *text, size_t before, const char *name, const char *value)
{
    kiln_text_printf(text, "%s%s=\"", before ? "," : "{", name);
    add_value(text, value);
    kiln_text_puts(text, "\"");
}

void kiln_metric_family(struct kiln_text *text, const char *name, const char *type,
                        const char *help)
{
    kiln_text_printf(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void kiln_metric_sample(struct kiln_text *text, const char *name, const char *const *labels,
                        double value)
{
    size_t count = 0;
    kiln_text_puts(text, name);
    for (; labels && labels[2 * count]; count++)
        add_label(text, count, labels[2 * count], labels[2 * count + 1]);
    if (pool_name[0])
        add_label(text, count++, "pool", pool_name);
    kiln_text_puts(text, count > 0 ? "} " : " ");
    add_number(text, value);
    kiln_text_puts(text, "\n");
}

void kiln_metric_single(struct kiln_text *text, const char *name, const char *type,
                        const char *help, double value)
{
    kiln_metric_family(text, name, type, help);
    kiln_metric_sample(text, name, NULL, value);
}

static void write_histogram(struct kiln_text *text, enum kiln_metric metric, uint32_t label)
{
    const struct kiln_metric_row *row = &kiln_metric_rows[metric];
    struct kiln_metric_histogram histogram;
    char name[96], bound[32];
    kiln_metric_histogram(metric, label, &histogram);
    /* le first: where the metric has no label of its own the list ends behind it. */
    const char *labels[] = {"le", bound, row->label,
                            row->label ? kiln_metric_label(metric, label) : NULL, NULL};
    double total = 0;
    snprintf(name, sizeof name, "%s_bucket", row->name);
    for (uint32_t i = 0; i == 0 || row->bounds[i - 1] > 0; i++) {
        total += (double)histogram.buckets[i];
        snprintf(bound, sizeof bound, row->bounds[i] > 0 ? "%g" : "+Inf", row->bounds[i]);
        kiln_metric_sample(text, name, labels, total);
    }
    snprintf(name, sizeof name, "%s_sum", row->name);
    kiln_metric_sample(text, name, labels + 2, histogram.sum);
    snprintf(name, sizeof name, "%s_count", row->name);
    kiln_metric_sample(text, name, labels + 2, total);
}

static void write_metric(struct kiln_text *text, enum kiln_metric metric)
{
    const struct kiln_metric_row *row = &kiln_metric_rows[metric];
    kiln_metric_family(text, row->name, row->bounds ? "histogram" : "counter", row->help);
    bool codes = row->label && !row->values; /* of failures, and KILN_OK is none */
    for (uint32_t label = codes ? 1 : 0; label < kiln_metric_labels(metric); label++) {
        const char *labels[] = {row->label, row->label ? kiln_metric_label(metric, label) : NULL,
                                NULL};
        if (row->bounds)
            write_histogram(text, metric, label);
        else
            kiln_metric_sample(text, row->name, labels, (double)kiln_metric_count(metric, label));
    }
}

void kiln_metrics_write(struct kiln_text *text, enum kiln_metric_of program)
{
    for (int metric = 0; metric < KILN_METRIC_COUNT; metric++)
        if (kiln_metric_rows[metric].of == KILN_METRIC_OF_BOTH ||
            kiln_metric_rows[metric].of == program)
            write_metric(text, (enum kiln_metric)metric);
}
