/* cost_model.h - how long a batch and a switch take, learned while running.
 *
 * Before anything is measured a batch costs its floating-point operations (the formula below,
 * fitted to Z-Image) divided by an assumed speed.  Each finished assignment then corrects two
 * things: the exact row (model, size, steps, guidance, jobs) and the speed of its model, so that
 * a size never seen is scaled by what is known of others.  Switch costs are learned a LoRA set at
 * a time, with the model's mean for sets never loaded.
 *
 *     tokens = w/16 * h/16 + 128
 *     TFLOP  = steps * (0.0113 * tokens + 4.9e-7 * tokens^2) * (2 with guidance) + 1e-5 * w * h
 *
 * Pure: no clock, no I/O, one thread, no allocation after _new.  When the table is full the row
 * that was corrected longest ago makes room.
 */
#ifndef KILN_COST_MODEL_H
#define KILN_COST_MODEL_H

#include <stdint.h>

#include "schemas/error.h"

struct kiln_cost_model;

struct kiln_cost_shape {
    const char *model; /* "" = the pool's model */
    uint32_t width, height, steps;
    double guidance;
    uint32_t jobs; /* of the batch */
};

struct kiln_cost_model *kiln_cost_model_new(uint32_t rows_max); /* NULL: no memory */
void kiln_cost_model_free(struct kiln_cost_model *costs);       /* accepts NULL */

/* Floating-point operations of one batch, in TFLOP. */
double kiln_cost_tflop(const struct kiln_cost_shape *shape);
/* Seconds of compute of one batch. */
double kiln_cost_compute(const struct kiln_cost_model *costs, const struct kiln_cost_shape *shape);
/* Seconds to change a worker of this model to this LoRA set. */
double kiln_cost_switch(const struct kiln_cost_model *costs, const char *model,
                        const char *lora_set);

/* A measured batch or switch.  Values that cannot be (negative, not finite, beyond a day) are
 * ignored; one outlier moves a row by at most a factor of two. */
void kiln_cost_learn_compute(struct kiln_cost_model *costs, const struct kiln_cost_shape *shape,
                             double seconds);
void kiln_cost_learn_switch(struct kiln_cost_model *costs, const char *model, const char *lora_set,
                            double seconds);

#endif
