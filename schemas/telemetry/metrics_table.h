/* metrics_table.h - the rows of metrics.h, for the two files that count and write them. */
#ifndef KILN_METRICS_TABLE_H
#define KILN_METRICS_TABLE_H

#include "schemas/telemetry/metrics.h"

#define KILN_METRIC_LABELS_MAX 20
#define KILN_METRIC_BOUNDS_MAX 18

struct kiln_metric_row {
    const char *name, *help;
    enum kiln_metric_of of;
    const char *label;         /* NULL: none */
    const char *const *values; /* of the label, ended by NULL; NULL: names of error codes */
    const double *bounds;      /* of a histogram, ended by 0; NULL: a counter */
};
extern const struct kiln_metric_row kiln_metric_rows[KILN_METRIC_COUNT];

/* How many values the label has: 1 without a label. */
uint32_t kiln_metric_labels(enum kiln_metric metric);
const char *kiln_metric_label(enum kiln_metric metric, uint32_t label);

/* A copy of one histogram. */
struct kiln_metric_histogram {
    uint64_t
        buckets[KILN_METRIC_BOUNDS_MAX + 1]; /* not cumulative; the last one: above all bounds */
    double sum;
};
void kiln_metric_histogram(enum kiln_metric metric, uint32_t label,
                           struct kiln_metric_histogram *ret);

#endif
