/* judge.h - the judge: a small network that detects the objects in a picture of the sketch world.
 *
 * It is trained on drawings of scripts/train only (train_judge.py) and has never seen a generated
 * picture, so that its findings are a measurement.  A picture is scaled until its shorter side is
 * `side` of labels.json, 256 in the network that ships.  For every eighth pixel the network gives
 * the probability that an object has its centre there, and the object's shape, colour and size; for
 * the whole picture it gives background and style:
 *
 *     stem (3x3, strides 2 1 2 1 2) - body (residuals, dilated) -+- local 1x1: heat, shape, ...
 *                                                                +- mean, max - whole: two linear
 *
 * Batch norms are folded into the convolutions by scripts/train/export_judge.py.
 */
#ifndef KILN_JUDGE_H
#define KILN_JUDGE_H

#include <stdint.h>

#include "pipeline/bench/labels.h"
#include "schemas/error.h"

struct kiln_judge;

/* Loads dir/judge.safetensors and dir/labels.json; device as in kt_device_open. */
int kiln_judge_open(const char *dir, int device, struct kiln_judge **ret,
                    struct kiln_error *err) KILN_MUST_CHECK;
void kiln_judge_close(struct kiln_judge *judge); /* accepts NULL */

/* Borrowed until close. */
const struct kiln_judge_labels *kiln_judge_labels(const struct kiln_judge *judge);

/* Detects what is in a picture, rgb: [height][width][3].  Sides of 16 to 4096 pixels, none longer
 * than 16 times the other, else KILN_BAD_INPUT. */
int kiln_judge_look(struct kiln_judge *judge, const uint8_t *rgb, int width, int height,
                    struct kiln_seen *ret, struct kiln_error *err) KILN_MUST_CHECK;

#endif
