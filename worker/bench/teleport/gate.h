/* gate.h - a learned gate: the probability that a run from a stored latent comes out right, from
 * features of the two prompts.
 *
 * Pure.  A gate is a logistic function of the features, or one of a hidden layer of tanh units;
 * features are brought to mean 0 and deviation 1 first.  It is fitted by Adam on the cross entropy
 * with a small weight decay, all examples in every step, from a fixed seed: the same examples give
 * the same gate.  What it says is then calibrated on examples that it has not seen (Platt, Advances
 * in Large Margin Classifiers, 1999): p = 1 / (1 + exp(-(slope * z + shift))).
 */
#ifndef KILN_TELEPORT_GATE_H
#define KILN_TELEPORT_GATE_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define KILN_GATE_FEATURES 16 /* at most */
#define KILN_GATE_HIDDEN 16   /* at most */

struct kiln_gate {
    int features, hidden; /* hidden 0: logistic */
    double mean[KILN_GATE_FEATURES], deviation[KILN_GATE_FEATURES];
    double in[KILN_GATE_HIDDEN][KILN_GATE_FEATURES], in_bias[KILN_GATE_HIDDEN];
    double out[KILN_GATE_FEATURES], out_bias; /* [hidden], or [features] without a hidden layer */
    double slope, shift;                      /* of the calibration; 1 and 0 before */
};

struct kiln_gate_examples {
    const double (*features)[KILN_GATE_FEATURES];
    const double *right; /* 0 .. 1, how much of each came out right */
    size_t count;
};

/* KILN_BAD_INPUT for fewer than two examples; KILN_NO_MEMORY. */
int kiln_gate_fit(const struct kiln_gate_examples *examples, int features, int hidden,
                  struct kiln_gate *ret, struct kiln_error *err) KILN_MUST_CHECK;
/* Sets slope and shift.  Examples that are all right, or all wrong, change nothing. */
void kiln_gate_calibrate(struct kiln_gate *gate, const struct kiln_gate_examples *examples);
double kiln_gate_probability(const struct kiln_gate *gate,
                             const double features[KILN_GATE_FEATURES]);

#endif
