/* sampler.h - the noise levels of a run: flow matching, Euler steps, a static shift.
 *
 * With s = 1 - i/n for step i of n, sigma_i = shift*s / (1 + (shift-1)*s); the last level is 0.
 * One step moves the latent from sigma_i to sigma_{i+1} along the velocity, which is minus the
 * transformer's output:  x += (sigma_{i+1} - sigma_i) * (-output).
 */
#ifndef KILN_SAMPLER_H
#define KILN_SAMPLER_H

#include "pipeline/model_config.h"
#include "pipeline/torch/tensor.h"
#include "schemas/limits.h"

struct kiln_schedule {
    int steps;
    float sigmas[KILN_STEPS_MAX + 1]; /* sigmas[steps] is 0 */
    float times[KILN_STEPS_MAX];      /* model time: 0 is noise, 1 is clean */
};

/* steps within 1 .. KILN_STEPS_MAX. */
void kiln_schedule_fill(struct kiln_schedule *schedule, const struct kiln_sampler_config *config,
                        int steps);

/* The latent after step i. */
kt kiln_euler_step(struct kt_scope *s, const struct kiln_schedule *schedule, int step, kt latent,
                   kt output);

/* Classifier-free guidance: with + scale * (with - without). */
kt kiln_guide(struct kt_scope *s, kt with, kt without, double scale);

#endif
