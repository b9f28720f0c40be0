/* sampler.c - schedule, guidance and Euler step; see sampler.h. */
#include "pipeline/model/sampler.h"

#include "pipeline/model/transformer_parts.h"

/* Rounded to float where the reference is, so that the sigmas are the same. */
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
    for (int i = 0; i < steps; i++)
        schedule->strides[i] = schedule->sigmas[i + 1] - schedule->sigmas[i];
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
