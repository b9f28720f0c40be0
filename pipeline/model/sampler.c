/* sampler.c - schedule, guidance and Euler step; see sampler.h. */
#include "pipeline/model/sampler.h"

#include <math.h>
#include <string.h>

#include "pipeline/model/transformer_parts.h"

/* Of the first `steps` sigmas, which the last stride leaves for 0. */
static void finish(struct kiln_schedule *schedule, const struct kiln_sampler_config *config,
                   int steps)
{
    const float train = (float)config->train_steps;
    schedule->steps = steps;
    schedule->sigmas[steps] = 0.0f;
    for (int i = 0; i < steps; i++) {
        schedule->times[i] = (1000.0f - schedule->sigmas[i] * train) / 1000.0f;
        schedule->strides[i] = schedule->sigmas[i + 1] - schedule->sigmas[i];
    }
}

/* Rounded to float where the reference is, so that the sigmas are the same. */
void kiln_schedule_fill(struct kiln_schedule *schedule, const struct kiln_sampler_config *config,
                        int steps)
{
    float last = (float)(1.0 / steps);
    float stride = steps > 1 ? (last - 1.0f) / (float)(steps - 1) : 0.0f;
    float shift = (float)config->shift;
    for (int i = 0; i < steps; i++) {
        /* Counted from the nearer end, as linspace does. */
        float s = i < steps / 2 || steps == 1 ? 1.0f + stride * (float)i
                                              : last - stride * (float)(steps - 1 - i);
        schedule->sigmas[i] = shift * s / (1.0f + (shift - 1.0f) * s);
    }
    finish(schedule, config, steps);
}

void kiln_schedule_list(struct kiln_schedule *schedule, const struct kiln_sampler_config *config,
                        const double *sigmas, int steps)
{
    for (int i = 0; i < steps; i++)
        schedule->sigmas[i] = (float)sigmas[i];
    finish(schedule, config, steps);
}

void kiln_schedule_cut(struct kiln_schedule *schedule, const struct kiln_sampler_config *config,
                       int steps)
{
    finish(schedule, config, steps);
}

void kiln_schedule_part(struct kiln_schedule *schedule, int first, int count)
{
    const size_t size = sizeof *schedule->sigmas * (size_t)count;
    memmove(schedule->sigmas, schedule->sigmas + first, size + sizeof *schedule->sigmas);
    memmove(schedule->times, schedule->times + first, size);
    memmove(schedule->strides, schedule->strides + first, size);
    schedule->steps = count;
}

void kiln_schedule_skip(struct kiln_schedule *schedule, const struct kiln_sampler_config *config,
                        int steps)
{
    const int left = schedule->steps - steps;
    memmove(schedule->sigmas, schedule->sigmas + steps, (size_t)left * sizeof *schedule->sigmas);
    finish(schedule, config, left);
}

void kiln_schedule_from(struct kiln_schedule *schedule, const struct kiln_sampler_config *config,
                        double sigma)
{
    int above = 1; /* a sigma above the first takes its place */
    while (above < schedule->steps && (double)schedule->sigmas[above] > sigma - KILN_SIGMA_MARGIN)
        above++;
    const int below = schedule->steps - above;
    memmove(schedule->sigmas + 1, schedule->sigmas + above,
            (size_t)below * sizeof *schedule->sigmas);
    schedule->sigmas[0] = (float)sigma;
    finish(schedule, config, below + 1);
}

void kiln_schedule_even(struct kiln_schedule *schedule, const struct kiln_sampler_config *config,
                        double sigma, int steps)
{
    const double shift = config->shift, begin = sigma / (shift - (shift - 1) * sigma);
    for (int i = 0; i < steps; i++) {
        const double u = begin * (steps - i) / steps;
        schedule->sigmas[i] = (float)(shift * u / (1 + (shift - 1) * u));
    }
    schedule->sigmas[0] = (float)sigma;
    finish(schedule, config, steps);
}

struct kiln_renewal kiln_renewal_of(double share, double next)
{
    const double noisy = next * sqrt(1 - share), keep = 1 - next + noisy;
    return (struct kiln_renewal){noisy / keep, keep, next * sqrt(share)};
}

void kiln_schedule_renew(struct kiln_schedule *schedule, double share)
{
    for (int i = 0; i < schedule->steps && share > 0; i++) {
        const double next = (double)schedule->sigmas[i + 1];
        schedule->strides[i] =
            (float)(kiln_renewal_of(share, next).to - (double)schedule->sigmas[i]);
    }
}

void kiln_sampler_step(const struct kiln_transformer *t, struct kt_scope *s,
                       const struct kiln_step *args)
{
    struct kt_scope *inner = kt_scope_child(s);
    struct kiln_forward forward = args->forward;
    struct kt_euler_step euler = {.latent = forward.latent,
                                  .with = kiln_transformer_run(t, inner, &forward),
                                  .stride = args->stride,
                                  .bad = args->bad,
                                  .patch = t->config.patch};
    if (args->negative) {
        forward.caption = args->negative;
        forward.rope = args->negative_rope;
        euler.without = kiln_transformer_run(t, inner, &forward);
        euler.guidance = args->guidance;
    }
    kt_euler_step(inner, &euler);
    kt_scope_free(inner);
}
