/* hits.c - see hits.h. */
#include "scheduler/sim/hits.h"

#include <math.h>
#include <stdlib.h>

#include "scheduler/policy/cost_model.h"
#include "schemas/limits.h"

/* Apart from the draws of the noise (sim.c), so that it is the same with and without hits. */
enum { DRAW_HIT = 2, DRAW_DEPTH = 3 };

/* The finaliser of SplitMix64. */
double kiln_sim_uniform(uint64_t seed, uint64_t item, uint64_t draw)
{
    uint64_t z = (seed + (draw >> 1) * 0xd1b54a32d192ed03u) * 0x9e3779b97f4a7c15u + item * 2 +
                 (draw & 1) + 1;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z = (z + seed) * 0x9e3779b97f4a7c15u;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

bool kiln_sim_depths_parse(const char *text, struct kiln_sim_hit_model *ret)
{
    char *end;
    ret->depth_count = 0;
    for (;;) {
        if (ret->depth_count == KILN_SIM_DEPTHS_MAX || *text < '1' || *text > '9')
            return false;
        const unsigned long skip = strtoul(text, &end, 10);
        double weight = 1;
        if (*end == ':') {
            text = end + 1;
            weight = strtod(text, &end);
            if (end == text || *text == ' ' || !isfinite(weight) || weight <= 0)
                return false;
        }
        if (skip >= KILN_STEPS_MAX || (*end && *end != ','))
            return false;
        ret->depths[ret->depth_count].skip = (uint32_t)skip;
        ret->depths[ret->depth_count++].weight = weight;
        if (!*end)
            return true;
        text = end + 1;
    }
}

bool kiln_sim_may_hit(const struct kiln_trace *trace, uint32_t job)
{
    const struct kiln_trace_job *row = &trace->jobs[job];
    struct kiln_mode mode;
    return kiln_intern_text(&trace->sets, row->set)[0] == '\0' &&
           kiln_mode_parse(kiln_trace_mode(trace, row->shape), &mode) && !kiln_mode_starts(&mode) &&
           mode.variety == 0;
}

static double tflop(struct kiln_trace_shape shape, const char *mode)
{
    const struct kiln_cost_shape cost = {.model = "",
                                         .width = shape.width,
                                         .height = shape.height,
                                         .steps = shape.steps,
                                         .jobs = 1,
                                         .mode = mode};
    return kiln_cost_tflop(&cost);
}

struct kiln_mode kiln_sim_hit_mode(struct kiln_trace_shape shape, uint32_t skip)
{
    struct kiln_mode own;
    if (!kiln_mode_parse(shape.mode, &own))
        own = (struct kiln_mode){.kind = KILN_MODE_EXACT};
    if (skip == 0)
        return own;
    return kiln_mode_begun_at(&own, skip, own.kind == KILN_MODE_COARSE && skip < own.small);
}

double kiln_sim_left(struct kiln_trace_shape shape, uint32_t skip)
{
    const struct kiln_mode late = kiln_sim_hit_mode(shape, skip);
    char text[KILN_MODE_MAX];
    if (skip == 0)
        return 1;
    kiln_mode_text(&late, text);
    return tflop(shape, text) / tflop(shape, shape.mode);
}

uint32_t kiln_sim_skip(const struct kiln_trace *trace, const struct kiln_sim_hit_model *model,
                       uint64_t seed, uint32_t job)
{
    const struct kiln_trace_shape shape = kiln_trace_shape(trace, trace->jobs[job].shape);
    double sum = 0;
    if (model->share <= 0 || !kiln_sim_may_hit(trace, job) ||
        kiln_sim_uniform(seed, job, DRAW_HIT) >= model->share)
        return 0;
    for (uint32_t i = 0; i < model->depth_count; i++)
        sum += model->depths[i].weight;
    double at = kiln_sim_uniform(seed, job, DRAW_DEPTH) * sum;
    uint32_t i = 0;
    while (i + 1 < model->depth_count && (at -= model->depths[i].weight) >= 0)
        i++;
    const uint32_t skip = model->depths[i].skip;
    return skip < shape.steps && kiln_sim_left(shape, skip) < 1 ? skip : 0;
}
