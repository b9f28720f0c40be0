/* pictures.c - see pictures.h. */
#include "worker/bench/pictures.h"

#include <stdio.h>
#include <string.h>

int kiln_pictures_identify(struct kiln_pictures *p, const char *model, struct kiln_error *err)
{
    p->model = model;
    kiln_model_name(model, p->name, sizeof p->name);
    const int code = kiln_model_hash(model, p->hash, err);
    return code ? code : kiln_model_card_read(model, &p->card, err);
}

int kiln_pictures_model(struct kiln_pictures *p, const DiffusionZOptions *options,
                        struct kiln_error *err)
{
    if (p->context && p->dtype == options->dtype)
        return 0;
    diffusionz_free(p->context);
    p->context = NULL;
    p->device = options->device_id;
    p->dtype = options->dtype;
    int code = options->model_path ? kiln_pictures_identify(p, options->model_path, err) : 0;
    if (code)
        return code;
    code = diffusionz_open(options, &p->context);
    return code ? kiln_fail(err, code, "%s", diffusionz_last_error()) : 0;
}

int kiln_pictures_judge(struct kiln_pictures *p, const char *dir, int32_t device,
                        struct kiln_error *err)
{
    int code = kiln_judge_open(dir, device, &p->judge, err);
    if (code == 0)
        p->labels = kiln_judge_labels(p->judge);
    return code;
}

void kiln_pictures_close(struct kiln_pictures *p)
{
    kiln_judge_close(p->judge);
    diffusionz_free(p->context);
    *p = (struct kiln_pictures){0};
}

int kiln_pictures_style(const struct kiln_pictures *p, const char *name, char suffix[64])
{
    const int style = kiln_label_find(&p->labels->styles, name);
    suffix[0] = '\0';
    if (style > 0)
        snprintf(suffix, 64, ", %s style", name);
    return style;
}

int kiln_pictures_batch(int32_t device)
{
    return device < 0 ? 1 : KILN_PICTURES_BATCH;
}

int kiln_pictures_render(struct kiln_pictures *p, const DiffusionZBatch *batch,
                         DiffusionZOutput *outputs, DiffusionZTimes *times, struct kiln_error *err)
{
    DiffusionZTimes unused;
    DiffusionZBatch own = *batch;
    int code = kiln_batch_set_steps(&own, &p->card, p->model, &p->steps, err);
    if (code)
        return code;
    code = diffusionz_run_batch(p->context, &own, outputs, times ? times : &unused);
    if (code)
        return kiln_fail(err, code, "%s", diffusionz_last_error());
    for (int32_t i = 0; i < batch->item_count; i++)
        if (outputs[i].error_code)
            return kiln_fail(err, outputs[i].error_code, "\"%.60s\": %s", batch->items[i].prompt,
                             outputs[i].error_msg ? outputs[i].error_msg : "the picture failed");
    return 0;
}

int kiln_pictures_look(struct kiln_pictures *p, const struct kiln_asked *asked, const uint8_t *rgb,
                       int32_t width, int32_t height, struct kiln_seen *ret_seen,
                       struct kiln_score *ret_score, struct kiln_error *err)
{
    int code = kiln_judge_look(p->judge, rgb, width, height, ret_seen, err);
    if (code == 0)
        kiln_judge_score(p->labels, asked, ret_seen, ret_score);
    return code;
}
