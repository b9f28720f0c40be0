/* lora_rig.h - latents drawn under sets of LoRAs that are put in place in one way or another, and
 * how far two of them are apart: shared by the tests on the CPU and on a GPU.
 */
#ifndef KILN_TEST_LORA_RIG_H
#define KILN_TEST_LORA_RIG_H

#include "pipeline/engine/engine.h"

/* A model in dir: pipeline/models/sketch, tests/golden/models/plain.  Fails the test if there is
 * an error, as all of these do. */
struct kiln_engine *lora_rig_open(const char *dir, int device, int dtype);

struct lora_draw {
    const char *prompt; /* NULL: "a red circle" */
    int side, steps;
    enum kiln_lora_mode mode;
    DiffusionZLora loras[KILN_LORAS_MAX];
    int lora_count;
    const DiffusionZStepLora *step_loras; /* beside these, each in its steps */
    int step_lora_count;
};

/* The final latent; *ret_count values, freed by the caller. */
float *lora_rig_draw(struct kiln_engine *e, const struct lora_draw *draw, size_t *ret_count);

/* |a - b| / |b| and the cosine between them. */
struct lora_gap {
    double relative, cosine;
};
struct lora_gap lora_rig_gap(const float *a, const float *b, size_t count);

/* Draws in two modes, and without LoRAs, and prints one line.  *ret_effect: how far the set moves
 * the latent at all. */
struct lora_gap lora_rig_compare(struct kiln_engine *e, struct lora_draw draw,
                                 enum kiln_lora_mode mode, enum kiln_lora_mode other,
                                 double *ret_effect);

/* switches times another set of the two, or none, in place of the one before; then the bare latent
 * is what it was before, bit for bit.  Returns the milliseconds of one switch. */
double lora_rig_switch(struct kiln_engine *e, const struct lora_draw *a, const struct lora_draw *b,
                       int switches);

#endif
