/* test_halves_cuda.c - on a GPU, a batch that is begun before the one ahead of it is finished: the
 * same bits, whatever comes between them. */
#include "tests/gpu/gpu.h"
#include "tests/support/halves.h"

#define STEPS 8

static const int32_t raised = 1;
static const int32_t smaller[] = {256};
static const DiffusionZItem items[4] = {
    {.prompt = "two red stars above a blue circle at sunset", .seed = 1},
    {.prompt = "a yellow ring", .seed = 2},
    {.prompt = "", .seed = 3},
    {.prompt = "a green heart", .seed = 4, .cancel = &raised},
};

static const char *lora(const char *name)
{
    static char paths[2][4096 + 64];
    static int turn;
    char *path = paths[turn++ % 2];
    snprintf(path, sizeof paths[0], "%s/loras/%s.safetensors", sketch(), name);
    return path;
}

/* Twice: shapes that are drawn for the first time and recorded, and then replayed. */
static void the_same_in_halves(void **state)
{
    const int dtype = *(const int *)*state;
    const DiffusionZLora neon = {lora("neon"), 0.8f}, pixel = {lora("pixel"), 1.0f};
    const DiffusionZBatch plain = {
        .items = items, .item_count = 4, .width = 256, .height = 256, .num_steps = STEPS};
    DiffusionZBatch batches[14];
    for (int i = 0; i < 14; i++)
        batches[i] = plain;
    for (int i = 0; i < 14; i += 7) {
        batches[i + 1].loras = &neon;
        batches[i + 1].lora_count = 1;
        batches[i + 2].width = 512;
        batches[i + 2].smaller = smaller;
        batches[i + 2].smaller_count = 1;
        batches[i + 3].num_steps = 4;
        batches[i + 3].keep_trajectory = 1;
        batches[i + 4].skip_decode = 1;
        batches[i + 5].loras = &pixel;
        batches[i + 5].lora_count = 1;
        batches[i + 6].guidance_scale = 3;
        batches[i + 6].item_count = 2;
    }
    DiffusionZContext *ctx = open_model(sketch(), 0, dtype);
    halves_compare(ctx, batches, 14);
    diffusionz_free(ctx);
}

/* One picture a batch: the end of a batch is met as often as can be.  No time counts twice. */
static void the_clock_counts_overlapping_batches_once(void **state)
{
    const int dtype = *(const int *)*state;
    DiffusionZBatch batches[64];
    for (int i = 0; i < 64; i++)
        batches[i] = (DiffusionZBatch){.items = &items[i % 3],
                                       .item_count = 1,
                                       .width = 512,
                                       .height = 512,
                                       .num_steps = STEPS};
    DiffusionZContext *ctx = open_model(sketch(), 0, dtype);
    struct halves_time time = halves_compare(ctx, batches, 64);
    printf("64 batches of one picture of 512 px in halves: %.1f ms, idle %.2f %%\n", time.wall_ms,
           100 * (1 - time.device_ms / time.wall_ms));
    assert_true(time.device_ms <= time.wall_ms * 1.01);
    diffusionz_free(ctx);
}

int main(void)
{
    static int bf16 = DIFFUSIONZ_BF16, fp32 = DIFFUSIONZ_FP32, fp8 = DIFFUSIONZ_FP8;
    const struct CMUnitTest tests[] = {
        {"the_same_in_halves_bf16", the_same_in_halves, NULL, NULL, &bf16},
        {"the_same_in_halves_fp32", the_same_in_halves, NULL, NULL, &fp32},
        {"the_same_in_halves_fp8", the_same_in_halves, NULL, NULL, &fp8},
        {"overlapping_batches_bf16", the_clock_counts_overlapping_batches_once, NULL, NULL, &bf16},
    };
    need_gpu();
    return cmocka_run_group_tests_name("halves_cuda", tests, NULL, NULL);
}
