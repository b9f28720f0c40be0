/* sampler.c - schedule, Euler step and guidance; see sampler.h. */
#include "pipeline/sampler.h"

/* Rounded to float where the reference holds floats, so that the same levels come out. */
void kiln_schedule_fill(struct kiln_schedule *schedule, const struct kiln_sampler_config *config,
                        int steps)
{
    float last = (float)(1.0 / steps), train = (float)config->train_steps;
    float stride = steps > 1 ? (last - 1.0f) / (float)(steps - 1) : 0.0f;
    float shift = (float)config->shift;
    schedule->steps = steps;
    for (int i = 0; i < steps; i++) {
        /* Counted from the nearer end, as linspace does. */
        float s = i < steps / 2 || steps == 1 ? 1.0f + stride * (float)i
                                              : last - stride * (float)(steps - 1 - i);
        schedule->sigmas[i] = shift * s / (1.0f + (shift - 1.0f) * s);
        schedule->times[i] = (1000.0f - schedule->sigmas[i] * train) / 1000.0f;
    }
    schedule->sigmas[steps] = 0.0f;
}

kt kiln_euler_step(struct kt_scope *s, const struct kiln_schedule *schedule, int step, kt latent,
                   kt output)
{
    float stride = schedule->sigmas[step + 1] - schedule->sigmas[step];
    return kt_add_scaled(s, latent, output, -(double)stride);
}

kt kiln_guide(struct kt_scope *s, kt with, kt without, double scale)
{
    return kt_add_scaled(s, with, kt_add_scaled(s, with, without, -1.0), scale);
}
