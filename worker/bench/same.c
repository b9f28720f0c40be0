/* same.c - whether a picture has the same bits alone and in a batch; see engine.h.
 *
 * As in a queue, the prompts of a batch differ in length and seed.
 */
#include <stdlib.h>
#include <string.h>

#include "schemas/limits.h"
#include "worker/bench/engine.h"

#define PROMPT_MAX 512
#define WORDS_MORE 13 /* from one prompt to the next */

struct pictures {
    char prompts[KILN_ASSIGN_MAX][PROMPT_MAX];
    DiffusionZItem items[KILN_ASSIGN_MAX];
    DiffusionZOutput together[KILN_ASSIGN_MAX];
};

/* Renders `count` items; the failure of an item is the failure of the call. */
static int render(DiffusionZContext *ctx, const struct kiln_stage_case *args,
                  const DiffusionZItem *items, int count, DiffusionZOutput *outputs,
                  struct kiln_error *err)
{
    DiffusionZBatch batch = {.items = items, .item_count = count};
    kiln_stage_batch(args, &batch);
    int code = diffusionz_run_batch(ctx, &batch, outputs, NULL);
    if (code)
        return kiln_fail(err, code, "%s", diffusionz_last_error());
    for (int i = 0; i < count && !code; i++)
        if (outputs[i].error_code)
            code = kiln_fail(err, outputs[i].error_code, "%s",
                             outputs[i].error_msg ? outputs[i].error_msg : "an item failed");
    if (code)
        diffusionz_release_outputs(outputs, count);
    return code;
}

static int compare_alone(DiffusionZContext *ctx, const struct kiln_stage_case *args,
                         struct pictures *p, int index, struct kiln_error *err)
{
    DiffusionZOutput alone;
    int code = render(ctx, args, &p->items[index], 1, &alone, err);
    if (code)
        return code;
    const DiffusionZOutput *b = &p->together[index];
    const size_t pixels = (size_t)args->width * (size_t)args->height * 3;
    const size_t values =
        (size_t)b->latent_channels * (size_t)b->latent_height * (size_t)b->latent_width;
    if (memcmp(alone.latent, b->latent, values * sizeof *b->latent) != 0 ||
        memcmp(alone.rgb, b->rgb, pixels) != 0)
        code = kiln_fail(err, KILN_INTERNAL,
                         "picture %d of %d at %dx%d has other bits in the batch than alone",
                         index + 1, args->item_count, args->width, args->height);
    diffusionz_release_outputs(&alone, 1);
    return code;
}

int kiln_bench_same(DiffusionZContext *ctx, const struct kiln_stage_case *args,
                    struct kiln_error *err)
{
    const int count = args->item_count;
    struct pictures *p = calloc(1, sizeof *p);
    if (!p)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for %d pictures", count);
    for (int i = 0; i < count; i++) {
        int words = 1 + i * WORDS_MORE % (PROMPT_MAX / 2 - 1);
        for (int k = 0; k < words; k++) {
            p->prompts[i][2 * k] = (char)('a' + (i + k) % 26);
            p->prompts[i][2 * k + 1] = k + 1 < words ? ' ' : '\0';
        }
        p->items[i] = (DiffusionZItem){.prompt = p->prompts[i], .seed = (uint64_t)i + 1};
    }
    int code = render(ctx, args, p->items, count, p->together, err);
    if (!code) {
        for (int i = 0; i < count && !code; i++)
            code = compare_alone(ctx, args, p, i, err);
        diffusionz_release_outputs(p->together, count);
    }
    free(p);
    return code;
}
