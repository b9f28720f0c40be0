/* gate.c - see gate.h. */
#include "worker/bench/teleport/gate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/random.h"

#define STEPS 600
#define RATE 0.03
#define DECAY 1e-3
#define SEED 33

/* All weights of a gate as one list. */
enum { WEIGHTS = KILN_GATE_HIDDEN * (KILN_GATE_FEATURES + 1) + KILN_GATE_FEATURES + 1 };

static double *weight(struct kiln_gate *gate, size_t i)
{
    const size_t in = (size_t)KILN_GATE_HIDDEN * KILN_GATE_FEATURES;
    if (i < in)
        return &gate->in[i / KILN_GATE_FEATURES][i % KILN_GATE_FEATURES];
    i -= in;
    if (i < KILN_GATE_HIDDEN)
        return &gate->in_bias[i];
    i -= KILN_GATE_HIDDEN;
    return i < KILN_GATE_FEATURES ? &gate->out[i] : &gate->out_bias;
}

static double logistic(double z)
{
    return 1 / (1 + exp(-z));
}

static void scaled(const struct kiln_gate *gate, const double *features, double *ret)
{
    for (int f = 0; f < gate->features; f++)
        ret[f] = (features[f] - gate->mean[f]) / gate->deviation[f];
}

/* The value before the logistic function; hidden receives the units of the layer. */
static double score(const struct kiln_gate *gate, const double *x, double *hidden)
{
    double z = gate->out_bias;
    for (int h = 0; h < gate->hidden; h++) {
        double sum = gate->in_bias[h];
        for (int f = 0; f < gate->features; f++)
            sum += gate->in[h][f] * x[f];
        hidden[h] = tanh(sum);
        z += gate->out[h] * hidden[h];
    }
    for (int f = 0; f < gate->features && gate->hidden == 0; f++)
        z += gate->out[f] * x[f];
    return z;
}

static void scale(struct kiln_gate *gate, const struct kiln_gate_examples *e)
{
    for (int f = 0; f < gate->features; f++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < e->count; i++)
            sum += e->features[i][f];
        const double mean = sum / (double)e->count;
        for (size_t i = 0; i < e->count; i++)
            squares += (e->features[i][f] - mean) * (e->features[i][f] - mean);
        const double deviation = sqrt(squares / (double)e->count);
        gate->mean[f] = mean;
        gate->deviation[f] = deviation > 1e-9 ? deviation : 1; /* the same for all: no evidence */
    }
}

/* Adds the slope of the mean cross entropy, of one example. */
static void add_slope(const struct kiln_gate *gate, const double *features, double right,
                      double share, struct kiln_gate *slope)
{
    double x[KILN_GATE_FEATURES], hidden[KILN_GATE_HIDDEN];
    scaled(gate, features, x);
    const double g = (logistic(score(gate, x, hidden)) - right) * share;
    slope->out_bias += g;
    for (int f = 0; f < gate->features && gate->hidden == 0; f++)
        slope->out[f] += g * x[f];
    for (int h = 0; h < gate->hidden; h++) {
        const double back = g * gate->out[h] * (1 - hidden[h] * hidden[h]);
        slope->out[h] += g * hidden[h];
        slope->in_bias[h] += back;
        for (int f = 0; f < gate->features; f++)
            slope->in[h][f] += back * x[f];
    }
}

/* Small weights in the hidden layer, so that its units differ. */
static void start(struct kiln_gate *gate)
{
    uint64_t state = SEED;
    for (int h = 0; h < gate->hidden; h++) {
        for (int f = 0; f < gate->features; f++)
            gate->in[h][f] = kiln_random_share(&state) - 0.5;
        gate->out[h] = kiln_random_share(&state) - 0.5;
    }
}

int kiln_gate_fit(const struct kiln_gate_examples *examples, int features, int hidden,
                  struct kiln_gate *ret, struct kiln_error *err)
{
    if (examples->count < 2)
        return kiln_fail(err, KILN_BAD_INPUT, "%zu examples are too few to fit a gate",
                         examples->count);
    struct kiln_gate gate = {.features = features, .hidden = hidden, .slope = 1};
    double *moments = calloc(2 * WEIGHTS, sizeof *moments);
    if (!moments)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to fit a gate");
    scale(&gate, examples);
    start(&gate);
    for (int step = 1; step <= STEPS; step++) {
        struct kiln_gate slope = {0};
        for (size_t i = 0; i < examples->count; i++)
            add_slope(&gate, examples->features[i], examples->right[i],
                      1.0 / (double)examples->count, &slope);
        for (size_t i = 0; i < WEIGHTS; i++) {
            double *w = weight(&gate, i), *first = &moments[2 * i], *second = first + 1;
            const double g = *weight(&slope, i) + DECAY * *w;
            *first = 0.9 * *first + 0.1 * g;
            *second = 0.999 * *second + 0.001 * g * g;
            *w -= RATE * (*first / (1 - pow(0.9, step))) /
                  (sqrt(*second / (1 - pow(0.999, step))) + 1e-8);
        }
    }
    free(moments);
    *ret = gate;
    return 0;
}

void kiln_gate_calibrate(struct kiln_gate *gate, const struct kiln_gate_examples *e)
{
    double right = 0, slope = 1, shift = 0;
    for (size_t i = 0; i < e->count; i++)
        right += e->right[i];
    if (right <= 0 || right >= (double)e->count)
        return;
    /* Newton's method on two numbers, with the targets of the paper, which keep them finite. */
    const double high = (right + 1) / (right + 2), low = 1 / ((double)e->count - right + 2);
    for (int step = 0; step < 50; step++) {
        double g[2] = {0, 0}, h[3] = {1e-9, 0, 1e-9};
        for (size_t i = 0; i < e->count; i++) {
            double x[KILN_GATE_FEATURES], hidden[KILN_GATE_HIDDEN];
            scaled(gate, e->features[i], x);
            const double z = score(gate, x, hidden), p = logistic(slope * z + shift);
            const double off = p - (low + (high - low) * e->right[i]), w = p * (1 - p);
            g[0] += off * z;
            g[1] += off;
            h[0] += w * z * z;
            h[1] += w * z;
            h[2] += w;
        }
        const double area = h[0] * h[2] - h[1] * h[1];
        if (!(area > 1e-12))
            break;
        slope -= (h[2] * g[0] - h[1] * g[1]) / area;
        shift -= (h[0] * g[1] - h[1] * g[0]) / area;
    }
    if (isfinite(slope) && isfinite(shift) && slope > 0) {
        gate->slope = slope;
        gate->shift = shift;
    }
}

double kiln_gate_probability(const struct kiln_gate *gate,
                             const double features[KILN_GATE_FEATURES])
{
    double x[KILN_GATE_FEATURES], hidden[KILN_GATE_HIDDEN];
    scaled(gate, features, x);
    return logistic(gate->slope * score(gate, x, hidden) + gate->shift);
}
