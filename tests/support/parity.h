/* parity.h - every stage of the pipeline against what diffusers computed on the same models.
 *
 * One test a case of tests/golden/cases.json (its README names the tensors).  Each prints a line
 * a stage with the largest error as a share of the largest reference value, and the error of the
 * whole stage relative to it, so that the log is the parity table.  Token ids, noise and schedule
 * are the same on every device.
 */
#ifndef KILN_TEST_PARITY_H
#define KILN_TEST_PARITY_H

#include "pipeline/diffusionz_batch.h"

#define PARITY_PIXEL_SHARE 0.999 /* of the picture's values that must be within `levels` */

struct parity {
    int device;   /* KT_CPU or a CUDA index */
    int dtype;    /* enum diffusionz_dtype */
    double stage;   /* limit of both errors of a stage and of the final latent */
    double encoder; /* the same of the autoencoder's encoder, from a picture to a latent */
    int levels;     /* of 255 */
};

/* Runs the cases as a cmocka group; the number of those that failed. */
int parity_run(const char *group, const struct parity *asked);

#endif
