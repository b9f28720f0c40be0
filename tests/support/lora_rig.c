/* lora_rig.c - latents under sets of LoRAs; see lora_rig.h. */
#include "tests/support/lora_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/clock.h"

struct kiln_engine *lora_rig_open(const char *dir, int device, int dtype)
{
    const DiffusionZOptions options = {.model_path = dir, .device_id = device, .dtype = dtype};
    struct kiln_engine *engine;
    struct kiln_error err;
    if (kiln_engine_open(&options, false, &engine, &err))
        fail_msg("%s", err.text);
    return engine;
}

float *lora_rig_draw(struct kiln_engine *e, const struct lora_draw *draw, size_t *ret_count)
{
    const DiffusionZItem item = {.prompt = draw->prompt ? draw->prompt : "a red circle", .seed = 3};
    const DiffusionZBatch batch = {.items = &item,
                                   .item_count = 1,
                                   .width = draw->side,
                                   .height = draw->side,
                                   .num_steps = draw->steps,
                                   .loras = draw->loras,
                                   .lora_count = draw->lora_count,
                                   .step_loras = draw->step_loras,
                                   .step_lora_count = draw->step_lora_count,
                                   .skip_decode = 1};
    DiffusionZOutput out;
    struct kiln_error err;
    kiln_loras_mode(e->sets[0].loras, draw->mode);
    if (kiln_engine_run(e, &batch, NULL, &out, NULL, &err))
        fail_msg("%s", err.text);
    if (out.error_code)
        fail_msg("%s", out.error_msg);
    *ret_count = (size_t)out.latent_channels * (size_t)out.latent_height * (size_t)out.latent_width;
    float *latent = out.latent;
    out.latent = NULL;
    diffusionz_release_outputs(&out, 1);
    return latent;
}

struct lora_gap lora_rig_gap(const float *a, const float *b, size_t count)
{
    double aa = 0, bb = 0, ab = 0, dd = 0;
    for (size_t i = 0; i < count; i++) {
        double x = (double)a[i], y = (double)b[i];
        aa += x * x;
        bb += y * y;
        ab += x * y;
        dd += (x - y) * (x - y);
    }
    return (struct lora_gap){sqrt(dd / bb), ab / sqrt(aa * bb)};
}

static const char *const mode_names[] = {"auto", "files", "merged", "beside"};

struct lora_gap lora_rig_compare(struct kiln_engine *e, struct lora_draw draw,
                                 enum kiln_lora_mode mode, enum kiln_lora_mode other,
                                 double *ret_effect)
{
    size_t n;
    draw.mode = mode;
    float *got = lora_rig_draw(e, &draw, &n);
    draw.mode = other;
    float *want = lora_rig_draw(e, &draw, &n);
    const int count = draw.lora_count;
    draw.lora_count = 0;
    float *bare = lora_rig_draw(e, &draw, &n);
    struct lora_gap gap = lora_rig_gap(got, want, n);
    *ret_effect = lora_rig_gap(want, bare, n).relative;
    const char *slash = strrchr(draw.loras[0].path, '/');
    printf("%-26s %d, %s beside %s: relative %.2e, cosine %.8f; the set moves it by %.2e\n",
           slash ? slash + 1 : draw.loras[0].path, count, mode_names[mode], mode_names[other],
           gap.relative, gap.cosine, *ret_effect);
    free(got);
    free(want);
    free(bare);
    return gap;
}

static size_t uses_of(const struct lora_draw *draw, struct kiln_lora_use *uses)
{
    for (int i = 0; i < draw->lora_count; i++)
        uses[i] = (struct kiln_lora_use){draw->loras[i].path, draw->loras[i].weight};
    return (size_t)draw->lora_count;
}

double lora_rig_switch(struct kiln_engine *e, const struct lora_draw *a, const struct lora_draw *b,
                       int switches)
{
    const struct lora_draw none = {.side = a->side, .steps = a->steps, .mode = a->mode};
    const struct lora_draw *const turn[3] = {a, b, &none};
    struct kiln_lora_use uses[KILN_LORAS_MAX];
    struct kiln_error err;
    size_t n;
    float *before = lora_rig_draw(e, &none, &n);
    double start = kiln_monotonic_ms();
    for (int i = 0; i < switches; i++) {
        const struct lora_draw *next = turn[i % 3];
        if (kiln_engine_loras(&e->sets[0], uses, uses_of(next, uses), &err))
            fail_msg("switch %d: %s", i, err.text);
    }
    struct kt_scope *s = kt_scope_new(e->device);
    kt_wait(s);
    kt_scope_free(s);
    double each = (kiln_monotonic_ms() - start) / switches;
    float *after = lora_rig_draw(e, &none, &n);
    assert_memory_equal(before, after, n * sizeof *before);
    free(before);
    free(after);
    return each;
}
