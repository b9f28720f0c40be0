/* figures.h - values with their errors, in tables and as JSON; limits of losses; what was measured,
 * where and when.
 */
#ifndef KILN_MEASURED_FIGURES_H
#define KILN_MEASURED_FIGURES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
/* The same of a difference of shares, 0..1, where below 0 is a loss.  The error counts as that of
 * one of `count` pictures or attributes at least. */
bool kiln_figure_share_within(const char *what, struct kiln_estimate difference, double count,
                              double limit, char why[KILN_FIGURE_WHY]);

/* The day, and the device by name and by class (worker/state/device_class.h). */
struct kiln_measured_at {
    char date[16], device[24], device_class[64];
};
void kiln_measured_now(int32_t device, struct kiln_measured_at *ret);

/* The command line as it was typed, but without the paths of this machine: options of `local`
 * (ended by NULL) are left out with their values, and other files are named without their folder.
 */
void kiln_measured_command(const char *verb, const char *const *local, int argc, char **argv,
                           char *out, size_t size);

#endif
