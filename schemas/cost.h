/* cost.h - one learned cost, as the scheduler keeps it and the ledger stores it.
 *
 * The numbers of the kinds are stored: they never change their meaning, new ones are added at the
 * end.  A field that a kind does not use is "" or 0; a device is a class of hardware ("" = any).
 */
#ifndef KILN_COST_H
#define KILN_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/job.h"

enum kiln_cost_kind {
    KILN_COST_BATCH = 0,     /* seconds of one batch of `jobs` */
    KILN_COST_SIZE = 1,      /* seconds of one picture of this size, in batches of any number */
    KILN_COST_SPEED = 2,     /* seconds a TFLOP of the model */
    KILN_COST_LOAD_COLD = 3, /* seconds to load a LoRA set that the worker never had */
    KILN_COST_LOAD_WARM = 4, /* ... that it had before: the file is in its memory */
    KILN_COST_CAPTURE = 5,   /* seconds more that the first batch of a size takes */
    KILN_COST_FETCH = 6,     /* seconds to fetch one LoRA file from the store */
};
#define KILN_COST_KINDS 7

struct kiln_cost_row {
    enum kiln_cost_kind kind;
    char model[KILN_NAME_MAX + 1]; /* "" = the pool's */
    char device[KILN_NAME_MAX + 1];
    char lora_set[KILN_LORA_SET_MAX]; /* of kinds BATCH and SIZE: the mode; with coarse=auto and
                                         LoRAs their set */
    uint32_t width, height, steps, jobs;
    bool guided;
    double mean, spread; /* the estimate, and how far values usually lie from it */
    uint32_t samples;
};

#endif
