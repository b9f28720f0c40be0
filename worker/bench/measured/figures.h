/* figures.h - values with their errors, in tables and as JSON; limits of losses. */
#ifndef KILN_MEASURED_FIGURES_H
#define KILN_MEASURED_FIGURES_H

#include <jansson.h>
#include <stdbool.h>

#include "pipeline/bench/estimate.h"

/* Prints " 98.6 ± 0.5 |", times unit; a NaN is " - |".  sign: with a sign. */
void kiln_figure_print(struct kiln_estimate e, double unit, int digits, bool sign);

/* Five digits, since a card is for people too; null for a NaN. */
json_t *kiln_figure_json(double value);
/* [value, error], or null. */
json_t *kiln_figure_pair(struct kiln_estimate e);

#define KILN_FIGURE_WHY 512
/* Whether a loss with its standard error is within its limit: a test of non-inferiority at one
 * standard error (84 %, one-sided), so that a loss that is small by chance in a few pictures is not
 * enough.  In points of 100; appends to `why` what is not. */
bool kiln_figure_within(const char *what, double loss, double error, double limit,
                        char why[KILN_FIGURE_WHY]);
/* The standard error of a difference of shares in points, but that of one of `count` pictures or
 * attributes at least. */
double kiln_figure_share_error(struct kiln_estimate difference, double count);
/* kiln_figure_within of such a difference; below 0 is a loss. */
bool kiln_figure_share_within(const char *what, struct kiln_estimate difference, double count,
                              double limit, char why[KILN_FIGURE_WHY]);

#endif
