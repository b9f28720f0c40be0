/* runs.c - renders by a run of a table; see coarse.h. */
#include <stdlib.h>

#include "kernels/pictures/latent_enlarge.h"
#include "worker/bench/coarse/coarse.h"
#include "worker/engine/batch_mode.h"

int kiln_coarse_model(struct kiln_coarse *bench, int32_t dtype, struct kiln_error *err)
{
    const DiffusionZOptions options = {.model_path = bench->options.model,
                                       .device_id = bench->options.device,
                                       .dtype = dtype,
                                       .threads = bench->options.threads};
    return kiln_pictures_model(&bench->pictures, &options, err);
}

static int run_batch(struct kiln_coarse *bench, const DiffusionZBatch *batch,
                     DiffusionZOutput *outputs, double *steps_s, double *decode_s,
                     struct kiln_error *err)
{
    DiffusionZTimes times;
    int code = kiln_pictures_render(&bench->pictures, batch, outputs, &times, err);
    if (code)
        return code;
    if (steps_s)
        *steps_s += times.denoise_ms / 1e3;
    if (decode_s && !batch->skip_decode)
        *decode_s += times.decode_ms / 1e3;
    return 0;
}

/* The final latent of a small picture at the large size, malloc'd, as start of the item. */
static int enlarge(const struct kiln_coarse_table *table, const DiffusionZOutput *small,
                   DiffusionZItem *item, struct kiln_error *err)
{
    const int factor = (int)table->small.height / small->latent_height; /* pixels a value */
    const int height = (int)table->size.height / factor, width = (int)table->size.width / factor;
    float *to = calloc((size_t)small->latent_channels * (size_t)height * (size_t)width, sizeof *to);
    if (!to)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to enlarge a latent");
    kiln_latent_enlarge_ref(&(struct kiln_latent_enlarge){.clean = small->latent,
                                                          .noise = to,
                                                          .x = to,
                                                          .channels = small->latent_channels,
                                                          .height = small->latent_height,
                                                          .width = small->latent_width,
                                                          .out_height = height,
                                                          .out_width = width});
    item->start_latent = to;
    return 0;
}

/* Exact small pictures, whose latents are enlarged and rendered on. */
static int render_enlarged(struct kiln_coarse *bench, const struct kiln_coarse_table *table,
                           const DiffusionZBatch *batch, DiffusionZItem *items,
                           DiffusionZOutput *outputs, double *steps_s, double *decode_s,
                           struct kiln_error *err)
{
    DiffusionZBatch small = *batch;
    small.start = DIFFUSIONZ_FROM_NOISE;
    small.width = (int32_t)table->small.width;
    small.height = (int32_t)table->small.height;
    small.skip_decode = 1;
    int code = run_batch(bench, &small, outputs, steps_s, NULL, err);
    for (int i = 0; i < batch->item_count && code == 0; i++)
        code = enlarge(table, &outputs[i], &items[i], err);
    diffusionz_release_outputs(outputs, batch->item_count);
    code = code ? code : run_batch(bench, batch, outputs, steps_s, decode_s, err);
    for (int i = 0; i < batch->item_count; i++) {
        free((float *)items[i].start_latent);
        items[i].start_latent = NULL;
    }
    return code;
}

int kiln_coarse_render(struct kiln_coarse *bench, const struct kiln_coarse_table *table,
                       const struct kiln_coarse_run *run, DiffusionZItem *items, int count,
                       DiffusionZOutput *outputs, double *ret_steps_s, double *ret_decode_s,
                       struct kiln_error *err)
{
    const struct kiln_coarse_options *o = &bench->options;
    const struct kiln_picture_size size = kiln_coarse_size_of(table, run);
    DiffusionZBatch batch = {
        .items = items,
        .item_count = count,
        .width = (int32_t)size.width,
        .height = (int32_t)size.height,
        .num_steps = run->steps,
        .loras = table->lora < 0 ? NULL : &o->loras[table->lora],
        .lora_count = table->lora >= 0,
    };
    if (ret_steps_s)
        *ret_steps_s = 0;
    if (ret_decode_s)
        *ret_decode_s = 0;
    if (!kiln_batch_set_mode(&batch, &run->mode, o->small, (size_t)o->small_count))
        return kiln_fail(err, KILN_INTERNAL, "no small size for %dx%d", batch.width, batch.height);
    if (run->kind == KILN_RUN_ENLARGE)
        return render_enlarged(bench, table, &batch, items, outputs, ret_steps_s, ret_decode_s,
                               err);
    return run_batch(bench, &batch, outputs, ret_steps_s, ret_decode_s, err);
}
