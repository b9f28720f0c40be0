/* cost_model.h - how long a batch and a switch take, learned while running.
 *
 * Before anything is measured a batch costs its floating-point operations (the formula below,
 * fitted to Z-Image) divided by an assumed speed.  Each finished assignment then corrects the
 * exact row (model, size, steps, mode, guidance, jobs, device class), the seconds a picture of its
 * size takes, and the speed of the model, each for its device class and for the fleet.  An estimate
 * takes the most exact row there is, so a batch never seen is scaled from what is known: other
 * batch sizes, other classes of device, other sizes.
 *
 *     tokens = w/16 * h/16 + 128
 *     TFLOP  = forwards * (0.0113 * tokens + 4.9e-7 * tokens^2) * (2 with guidance) + 1e-5 * w * h
 *     forwards: the steps of an exact run; of another mode kiln_mode_forwards (schemas/job/mode.h)
 *
 * Switching to a LoRA set is of three kinds: nothing if it is resident, warm if this worker had
 * it before, cold otherwise.  Each file that is not on the worker's disk is fetched from the store
 * first.  The first batch of a size on a worker costs a capture more.
 *
 * The estimator of a row is a mean with exponential forgetting whose new values are clipped to
 * three usual deviations around it (Huber's rule), the deviation being estimated the same way.
 * Each further outlier on the same side doubles the allowance, so one strange value moves a row by
 * little, and the row follows a real change of level within a few values.
 *
 * Pure: no clock, no I/O, one thread, no allocation after _new.  When the table is full the row
 * that was corrected longest ago makes room.
 */
#ifndef KILN_COST_MODEL_H
#define KILN_COST_MODEL_H

#include <stdint.h>

#include "schemas/cost.h"
#include "schemas/error.h"

struct kiln_cost_model;

struct kiln_cost_shape {
    const char *model; /* "" = the pool's model */
    uint32_t width, height, steps;
    double guidance;
    uint32_t jobs;        /* of the batch */
    const char *device;   /* class; NULL or "" = the fleet's mean */
    const char *mode;     /* its text; NULL or "" = exact */
    const char *lora_set; /* NULL or "" = none; counts only with coarse=auto, which is another mode
                             with some sets */
};

enum kiln_switch_kind { KILN_SWITCH_RESIDENT, KILN_SWITCH_WARM, KILN_SWITCH_COLD };

struct kiln_cost_load {
    const char *model, *lora_set;
    const char *device; /* NULL or "" = any */
    enum kiln_switch_kind kind;
    uint32_t fetches; /* files that come from the store first */
};

struct kiln_cost_model *kiln_cost_model_new(uint32_t rows_max); /* NULL: no memory */
void kiln_cost_model_free(struct kiln_cost_model *costs);       /* accepts NULL */

/* --- estimates ------------------------------------------------------------------------------- */
/* Floating-point operations of one batch, in TFLOP. */
double kiln_cost_tflop(const struct kiln_cost_shape *shape);
/* Seconds of compute of one batch. */
double kiln_cost_compute(const struct kiln_cost_model *costs, const struct kiln_cost_shape *shape);
/* How often exactly this batch was measured; *ret_s is then its time. */
uint32_t kiln_cost_measured(const struct kiln_cost_model *costs,
                            const struct kiln_cost_shape *shape, double *ret_s);
/* Seconds that the first batch of this size costs more. */
double kiln_cost_capture(const struct kiln_cost_model *costs, const struct kiln_cost_shape *shape);
/* Seconds to fetch and load; a cold load that was never measured is the model's usual one. */
double kiln_cost_load(const struct kiln_cost_model *costs, const struct kiln_cost_load *load);
/* The same for a worker nothing is known of: cold, on any device. */
double kiln_cost_switch(const struct kiln_cost_model *costs, const char *model,
                        const char *lora_set);
/* Speed of a device class with this model, 1 being the fleet's mean. */
double kiln_cost_speed(const struct kiln_cost_model *costs, const char *model, const char *device);

/* --- learning -------------------------------------------------------------------------------- */
/* What was measured.  Values that cannot be (negative, not finite, beyond a day) are ignored. */
void kiln_cost_learn_compute(struct kiln_cost_model *costs, const struct kiln_cost_shape *shape,
                             double seconds);
void kiln_cost_learn_capture(struct kiln_cost_model *costs, const struct kiln_cost_shape *shape,
                             double seconds);
void kiln_cost_learn_load(struct kiln_cost_model *costs, const struct kiln_cost_load *load,
                          double seconds);
void kiln_cost_learn_fetch(struct kiln_cost_model *costs, double seconds); /* of one file */
void kiln_cost_learn_switch(struct kiln_cost_model *costs, const char *model, const char *lora_set,
                            double seconds); /* cold, on any device */

/* --- keeping --------------------------------------------------------------------------------- */
/* Grows with every correction. */
uint64_t kiln_cost_turn(const struct kiln_cost_model *costs);
/* The row corrected next after that turn, and its turn; false: none.  Walking from 0 with the
 * returned turn visits every row once. */
bool kiln_cost_changed(const struct kiln_cost_model *costs, uint64_t *turn,
                       struct kiln_cost_row *ret);
/* Takes a row as it was kept, replacing what is known; false if it makes no sense. */
bool kiln_cost_restore(struct kiln_cost_model *costs, const struct kiln_cost_row *row);

#endif
