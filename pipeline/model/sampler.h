/* sampler.h - the sigmas of a run and its Euler steps: flow matching with a static shift.
 *
 * Schedule: with s = 1 - i/n for step i of n, sigma_i = shift*s / (1 + (shift-1)*s); the last is 0.
 * A step moves the latent along the velocity, which is minus the transformer's output:
 *     x += (sigma_{i+1} - sigma_i) * (-output)
 * With guidance, output = with + scale * (with - without); `without` is that of the negative
 * prompt. kt_euler_step (kernels/pictures/patches.h) is the arithmetic.  A stored latent names the
 * schedule "euler steps=N" (worker/stages/encode.c).
 */
#ifndef KILN_SAMPLER_H
#define KILN_SAMPLER_H

#include "pipeline/model/config.h"
#include "pipeline/model/transformer.h"
#include "schemas/limits.h"

struct kiln_schedule {
    int steps;
    float sigmas[KILN_STEPS_MAX + 1]; /* sigmas[steps] is 0 */
    float times[KILN_STEPS_MAX];      /* model time: 0 is noise, 1 is clean */
    float strides[KILN_STEPS_MAX];    /* sigmas[i+1] - sigmas[i] */
};

/* steps within 1 .. KILN_STEPS_MAX. */
void kiln_schedule_fill(struct kiln_schedule *schedule, const struct kiln_sampler_config *config,
                        int steps);

/* These sigmas, which fall and begin near 1, in place of the scheduler's. */
void kiln_schedule_list(struct kiln_schedule *schedule, const struct kiln_sampler_config *config,
                        const double *sigmas, int steps);

/* Only the first `steps` of them; the last strides to 0 at once. */
void kiln_schedule_cut(struct kiln_schedule *schedule, const struct kiln_sampler_config *config,
                       int steps);
/* Steps first .. first + count - 1 of them, without a change: the last strides to the next. */
void kiln_schedule_part(struct kiln_schedule *schedule, int first, int count);
/* Without the first `steps`, which are fewer than all. */
void kiln_schedule_skip(struct kiln_schedule *schedule, const struct kiln_sampler_config *config,
                        int steps);
/* From sigma in (0, 1] on: that sigma, then the schedule's below it.  One that is not lower by more
 * than KILN_SIGMA_MARGIN counts as the same, since sigmas of jobs have four decimals. */
#define KILN_SIGMA_MARGIN 1e-4
void kiln_schedule_from(struct kiln_schedule *schedule, const struct kiln_sampler_config *config,
                        double sigma);
/* `steps` sigmas from sigma in (0, 1] on, as a schedule that begins there: their s are evenly
 * spaced down to 0. */
void kiln_schedule_even(struct kiln_schedule *schedule, const struct kiln_sampler_config *config,
                        double sigma, int steps);

/* A step that replaces a share r, 0 .. 1, of its noise (UCGM-S, arXiv 2505.07447).  With the
 * velocity v and normal noise e, it goes from x at sigma s to the next sigma s' by
 *
 *     clean = x - s v,   noisy = x + (1 - s) v
 *     x' = (1 - s') clean + s' (sqrt(1 - r) noisy + sqrt(r) e)
 *
 * That is an Euler step to the sigma `to`, whose state y becomes x' = keep * y + add * e.  Without
 * a share it is the Euler step to s'; the last step, to 0, has no noise to replace. */
struct kiln_renewal {
    double to, keep, add;
};
struct kiln_renewal kiln_renewal_of(double share, double next);
/* Makes the strides of a schedule those of such steps. */
void kiln_schedule_renew(struct kiln_schedule *schedule, double share);

/* A step reads only buffers, so that one graph serves every step of a schedule. */
struct kiln_step {
    struct kiln_forward forward; /* its latent is changed */
    kt negative;                 /* caption of the negative prompt; NULL: no guidance */
    struct kiln_rope negative_rope;
    double guidance;
    kt stride; /* [items] fp32, of the schedule's strides */
    kt bad;    /* [items] KT_I32, set to 1 where an item's latent is not finite afterwards */
};
void kiln_sampler_step(const struct kiln_transformer *t, struct kt_scope *s,
                       const struct kiln_step *args);

#endif
