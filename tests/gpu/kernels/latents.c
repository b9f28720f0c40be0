/* latents.c - the kernels of the sampler's side: the last norm, patches and steps, mixes. */
#include <math.h>

#include "kernels/pictures/latent_enlarge.h"
#include "kernels/pictures/latent_mix.h"
#include "kernels/pictures/patches.h"
#include "kernels/rows/layer_norm.h"
#include "kernels/tails.h"
#include "tests/gpu/kernels/twin.h"

/* fp32 results: a product and a sum that one side may round once instead of twice. */
#define F32_SHARE 1e-6

/* --- layer_norm ------------------------------------------------------------------------------- */

/* TAILS: of x, with tails that any bits make. */
enum { IN_PLACE = 1, UNALIGNED = 2, TAILS = 4 };

static void check_layer_norm(int64_t rows, int64_t n, int form, float offset)
{
    const int64_t pitch = form & TAILS ? KILN_TAILED(n) : n;
    if (form & TAILS && (form & (IN_PLACE | UNALIGNED) || n % KILN_TAILS_MULTIPLE))
        return;
    struct twins set = {.shift = form & UNALIGNED ? 4 : 0};
    struct test_random random = {(uint64_t)n};
    struct kiln_error err;
    describe("%lld rows of %lld about %g, form %d", (long long)rows, (long long)n, (double)offset,
             form);
    struct twin *x = twins_add(&set, "x", (size_t)(rows * pitch) * 2);
    struct twin *scale = twins_add(&set, "scale", (size_t)n * 4);
    struct twin *y = form & IN_PLACE ? x : twins_add(&set, "y", (size_t)(rows * n) * 2);
    fill_bf16(x, &random, 2);
    fill_f32(scale, &random, 2);
    for (int64_t i = 0; i < rows * n; i++) {
        const int64_t at = i / n * pitch + i % n;
        kiln_store(x->host, at, kiln_load(x->host, at, KILN_BF16) + offset, KILN_BF16);
    }
    twins_push(&set);
    struct kiln_layer_norm args[2];
    for (int side = 0; side < 2; side++)
        args[side] = (struct kiln_layer_norm){.x = twin_side(x, side),
                                              .scale = twin_side(scale, side),
                                              .y = twin_side(y, side),
                                              .n = n,
                                              .eps = 1e-6f,
                                              .format = KILN_BF16,
                                              .tails = form & TAILS};
    if (launched(kiln_layer_norm_launch(&args[1], rows, NULL, &err), &err)) {
        kiln_layer_norm_ref(&args[0], 0, rows);
        twins_pull(&set);
        compare_bf16(y, 1, 1);
    }
    twins_free(&set);
}

static void layer_norm(void)
{
    static const int64_t widths[] = {2,    3,    8,    17,   64,   192,  193,  1024,
                                     1032, 3072, 3080, 3840, 3841, 4096, 4104, 16384};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (int form = 0; form < 8; form++)
            check_layer_norm(3, widths[i], form, 0);
    check_layer_norm(3, 3840, 0, 50);
    check_layer_norm(3, 3840, TAILS, 50);
}

static void layer_norm_refuses(void)
{
    struct kiln_error err;
    _Alignas(16) float memory[8] = {0};
    struct kiln_layer_norm args = {
        .x = memory, .scale = memory, .y = memory, .n = 8, .format = KILN_BF16, .tails = true};
    refused(kiln_layer_norm_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err); /* in place */
    args.y = memory + 1;
    refused(kiln_layer_norm_launch(&args, 1, NULL, &err), KILN_UNSUPPORTED, &err);
    args.y = memory + 4, args.n = 12;
    refused(kiln_layer_norm_launch(&args, 1, NULL, &err), KILN_UNSUPPORTED, &err);
    args.tails = false, args.scale = NULL;
    refused(kiln_layer_norm_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
}

/* --- patches and steps ------------------------------------------------------------------------ */

static const struct kiln_patches shapes[] = {
    {.items = 1, .channels = 16, .height = 4, .width = 6, .patch = 2},
    {.items = 3, .channels = 16, .height = 8, .width = 2, .patch = 2},
    {.items = 2, .channels = 8, .height = 10, .width = 34, .patch = 2},
    {.items = 2, .channels = 3, .height = 6, .width = 9, .patch = 3},
    {.items = 1, .channels = 16, .height = 5, .width = 7, .patch = 1},
    {.items = 2, .channels = 24, .height = 6, .width = 10, .patch = 2},
    {.items = 2, .channels = 12, .height = 16, .width = 16, .patch = 2},
    {.items = 1, .channels = 16, .height = 64, .width = 48, .patch = 2},
};

/* As many as in the tokens. */
static int64_t values_of(const struct kiln_patches *s)
{
    return s->items * s->channels * s->height * s->width;
}

static int64_t lines_of(const struct kiln_patches *s)
{
    return s->items * s->height / s->patch;
}

static void describe_patches(const struct kiln_patches *s)
{
    describe("%lld latents of %d x %d x %d, patches of %d", (long long)s->items, s->channels,
             s->height, s->width, s->patch);
}

static void patchify(void)
{
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++) {
        struct kiln_patches shape = shapes[i / 2];
        struct twins set = {.shift = i % 2 ? 4 : 0};
        struct test_random random = {i};
        struct kiln_error err;
        describe_patches(&shape);
        shape.format = KILN_BF16;
        struct twin *latent = twins_add(&set, "latent", (size_t)values_of(&shape) * 4);
        struct twin *tokens = twins_add(&set, "tokens", (size_t)values_of(&shape) * 2);
        fill_f32(latent, &random, 3);
        twins_push(&set);
        const struct kiln_patchify host = {shape, (const float *)twin_side(latent, false),
                                           tokens->host};
        const struct kiln_patchify device = {shape, (const float *)twin_side(latent, true),
                                             tokens->device};
        if (launched(kiln_patchify_launch(&device, NULL, &err), &err)) {
            kiln_patchify_ref(&host, 0, lines_of(&shape));
            twins_pull(&set);
            compare_bytes(tokens, 0, 0);
            compare_untouched(latent);
        }
        twins_free(&set);
    }
}

struct step_case {
    struct twins set;
    struct twin *with, *without, *stride, *latent, *bad;
};

static struct kiln_euler_step step_args(const struct step_case *c, const struct kiln_patches *shape,
                                        bool device)
{
    return (struct kiln_euler_step){.shape = *shape,
                                    .with = twin_side(c->with, device),
                                    .without = twin_side(c->without, device),
                                    .guidance = 3.5f,
                                    .stride = twin_side(c->stride, device),
                                    .latent = twin_side(c->latent, device),
                                    .bad = twin_side(c->bad, device)};
}

static void check_step(struct kiln_patches shape, int form)
{
    struct step_case c = {.set = {.shift = form & 1 ? 4 : 0}};
    struct test_random random = {(uint64_t)form};
    struct kiln_error err;
    describe_patches(&shape);
    shape.format = KILN_BF16;
    c.with = twins_add(&c.set, "with", (size_t)values_of(&shape) * 2);
    c.without = form & 2 ? twins_add(&c.set, "without", (size_t)values_of(&shape) * 2) : NULL;
    c.stride = twins_add(&c.set, "stride", (size_t)shape.items * 4);
    c.latent = twins_add(&c.set, "latent", (size_t)values_of(&shape) * 4);
    c.bad = form & 4 ? twins_add(&c.set, "bad", (size_t)shape.items * 4) : NULL;
    fill_bf16(c.with, &random, 3);
    if (c.without)
        fill_bf16(c.without, &random, 3);
    fill_f32(c.stride, &random, 1);
    fill_f32(c.latent, &random, 3);
    if (form & 8) /* the last value of the last item */
        kiln_store(c.latent->host, values_of(&shape) - 1, form & 1 ? INFINITY : NAN, KILN_F32);
    twins_push(&c.set);
    const struct kiln_euler_step host = step_args(&c, &shape, false);
    const struct kiln_euler_step device = step_args(&c, &shape, true);
    if (launched(kiln_euler_step_launch(&device, NULL, &err), &err)) {
        kiln_euler_step_ref(&host, 0, lines_of(&shape));
        twins_pull(&c.set);
        compare_f32(c.latent, F32_SHARE, 40);
        if (c.bad)
            compare_bytes(c.bad, 0, 0);
        compare_untouched(c.with);
    }
    twins_free(&c.set);
}

static void euler_step(void)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int form = 0; form < 16; form++)
            check_step(shapes[i], form);
}

static void patches_refuse(void)
{
    struct kiln_error err;
    float memory[4] = {0};
    struct kiln_patchify args = {
        .shape = {.items = 1, .channels = 1, .height = 2, .width = 2, .patch = 2},
        .latent = memory,
        .tokens = memory};
    refused(kiln_patchify_launch(&args, NULL, &err), KILN_UNSUPPORTED, &err);
    args.shape.format = KILN_BF16;
    args.shape.width = 3;
    refused(kiln_patchify_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
    args.shape.width = 2;
    args.shape.items = 0;
    refused(kiln_patchify_launch(&args, NULL, &err), KILN_OK, &err);
}

/* --- mixes ------------------------------------------------------------------------------------ */

static const int64_t counts[] = {1, 3, 4, 255, 1024, 1025, 40000};

static struct twin *add_f32(struct twins *set, const char *what, int64_t n,
                            struct test_random *random)
{
    struct twin *t = twins_add(set, what, (size_t)n * 4);
    if (random)
        fill_f32(t, random, 3);
    return t;
}

/* Of more values than a grid has threads. */
#define MANY 2200001

static void latent_split(void)
{
    for (size_t i = 0; i <= sizeof counts / sizeof *counts; i++)
        for (int form = 0; form < 4; form++) {
            const int64_t n = i < sizeof counts / sizeof *counts ? counts[i] : MANY;
            struct twins set = {.shift = form & 1 ? 4 : 0};
            struct test_random random = {(uint64_t)n};
            struct kiln_error err;
            describe("%lld values, form %d", (long long)n, form);
            struct twin *x = add_f32(&set, "x", n, &random), *v = add_f32(&set, "v", n, &random);
            struct twin *clean = form & 2 ? x : add_f32(&set, "clean", n, NULL);
            struct twin *noise = add_f32(&set, "noise", n, NULL);
            twins_push(&set);
            struct kiln_latent_split args[2];
            for (int side = 0; side < 2; side++)
                args[side] = (struct kiln_latent_split){.x = twin_side(x, side),
                                                        .velocity = twin_side(v, side),
                                                        .clean = twin_side(clean, side),
                                                        .noise = twin_side(noise, side),
                                                        .n = n,
                                                        .sigma = 0.9f};
            if (launched(kiln_latent_split_launch(&args[1], NULL, &err), &err)) {
                kiln_latent_split_ref(&args[0]);
                twins_pull(&set);
                compare_f32(clean, F32_SHARE, 6);
                compare_f32(noise, F32_SHARE, 6);
            }
            twins_free(&set);
        }
}

static void check_mix(int64_t n, int clean_count, int noise_count, size_t shift)
{
    struct twins set = {.shift = shift};
    struct test_random random = {(uint64_t)n};
    struct kiln_error err;
    struct kiln_latent_mix args[2] = {{.clean_count = 0}};
    describe("%lld values of %d and %d donors", (long long)n, clean_count, noise_count);
    struct twin *clean[KILN_MIX_MAX], *noise[KILN_MIX_MAX], *x = add_f32(&set, "x", n, NULL);
    for (int k = 0; k < clean_count; k++)
        clean[k] = add_f32(&set, "clean", n, &random);
    for (int k = 0; k < noise_count; k++)
        noise[k] = add_f32(&set, "noise", n, &random);
    twins_push(&set);
    for (int side = 0; side < 2; side++) {
        args[side] = (struct kiln_latent_mix){.clean_count = clean_count,
                                              .noise_count = noise_count,
                                              .x = twin_side(x, side),
                                              .n = n,
                                              .sigma = 0.6f};
        for (int k = 0; k < clean_count; k++) {
            args[side].clean[k] = twin_side(clean[k], side);
            args[side].clean_weight[k] = 0.1f + 0.2f * (float)k;
        }
        for (int k = 0; k < noise_count; k++) {
            args[side].noise[k] = twin_side(noise[k], side);
            args[side].noise_weight[k] = 0.7f - 0.3f * (float)k;
        }
    }
    if (launched(kiln_latent_mix_launch(&args[1], NULL, &err), &err)) {
        kiln_latent_mix_ref(&args[0]);
        twins_pull(&set);
        compare_f32(x, F32_SHARE, 20);
    }
    twins_free(&set);
}

static void latent_mix(void)
{
    struct kiln_error err;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int k = 0; k <= KILN_MIX_MAX; k++)
            check_mix(counts[i], k, KILN_MIX_MAX - k / 2, k % 2 ? 4 : 0);
    float memory[1] = {0};
    struct kiln_latent_mix args = {.x = memory, .n = 1, .clean_count = KILN_MIX_MAX + 1};
    describe("refusals");
    refused(kiln_latent_mix_launch(&args, NULL, &err), KILN_UNSUPPORTED, &err);
    args.clean_count = 1;
    refused(kiln_latent_mix_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
    args.clean_count = 0;
    args.sigma = NAN;
    refused(kiln_latent_mix_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
}

/* kind 0: two at random; 1: the same twice; 2: opposite; 3: one is zero. */
static void check_slerp(int64_t n, float t, int kind, size_t shift)
{
    struct twins set = {.shift = shift}, work = {0};
    struct test_random random = {(uint64_t)n + (uint64_t)kind};
    struct kiln_error err;
    describe("%lld values, t %g, kind %d", (long long)n, (double)t, kind);
    struct twin *a = add_f32(&set, "a", n, &random), *b = add_f32(&set, "b", n, &random);
    struct twin *x = kind == 1 ? a : add_f32(&set, "x", n, NULL);
    struct twin *space = twins_add(&work, "workspace", KILN_SLERP_WORKSPACE * sizeof(double));
    for (int64_t i = 0; kind && i < n; i++)
        kiln_store(b->host, i,
                   (kind == 1   ? 1.0f
                    : kind == 2 ? -1.0f
                                : 0.0f) *
                       kiln_load(a->host, i, KILN_F32),
                   KILN_F32);
    twins_push(&set);
    twins_push(&work);
    struct kiln_slerp args[2];
    for (int side = 0; side < 2; side++)
        args[side] = (struct kiln_slerp){.a = twin_side(a, side),
                                         .b = twin_side(b, side),
                                         .x = twin_side(x, side),
                                         .n = n,
                                         .t = t,
                                         .workspace = twin_side(space, side)};
    if (launched(kiln_slerp_launch(&args[1], NULL, &err), &err)) {
        kiln_slerp_ref(&args[0]);
        twins_pull(&set);
        twins_pull(&work);
        compare_f32(x, F32_SHARE, 6);
        compare_untouched(b);
    }
    twins_free(&set);
    twins_free(&work);
}

static void slerp(void)
{
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int kind = 0; kind < 4; kind++)
            check_slerp(counts[i], 0.25f * (float)(kind + 1), kind, i % 2 ? 4 : 0);
    check_slerp(4096, 0, 0, 0);
    /* The fewest parts with most values in each, a few more, the most. */
    check_slerp(262144, 0.5f, 0, 0);
    check_slerp(300001, 0.5f, 0, 0);
    check_slerp(MANY, 0.5f, 0, 0);
    check_slerp(MANY - 1, 0.5f, 0, 0);
}

/* --- starts ----------------------------------------------------------------------------------- */

/* Height and width before, then after. */
static void check_enlarge(int channels, const int size[4], int form)
{
    struct twins set = {.shift = form & 1 ? 4 : 0};
    struct test_random random = {(uint64_t)(size[0] + form)};
    struct kiln_error err;
    struct kiln_latent_enlarge args[2];
    const int64_t n = (int64_t)channels * size[2] * size[3];
    describe("%d of %d x %d to %d x %d, form %d", channels, size[0], size[1], size[2], size[3],
             form);
    struct twin *clean = add_f32(&set, "clean", (int64_t)channels * size[0] * size[1], &random);
    struct twin *noise = add_f32(&set, "noise", n, &random);
    struct twin *x = form & 2 ? noise : add_f32(&set, "x", n, NULL);
    twins_push(&set);
    for (int side = 0; side < 2; side++)
        args[side] = (struct kiln_latent_enlarge){.clean = twin_side(clean, side),
                                                  .noise = twin_side(noise, side),
                                                  .x = twin_side(x, side),
                                                  .channels = channels,
                                                  .height = size[0],
                                                  .width = size[1],
                                                  .out_height = size[2],
                                                  .out_width = size[3],
                                                  .sigma = 0.75f};
    if (launched(kiln_latent_enlarge_launch(&args[1], NULL, &err), &err)) {
        kiln_latent_enlarge_ref(&args[0]);
        twins_pull(&set);
        compare_f32(x, F32_SHARE, 12);
        compare_untouched(clean);
    }
    twins_free(&set);
}

static void latent_enlarge(void)
{
    static const int sizes[][4] = {{4, 6, 8, 12}, {5, 7, 9, 11},   {8, 8, 20, 20},
                                   {1, 1, 3, 2},  {6, 4, 6, 4},    {64, 48, 128, 96},
                                   {8, 6, 5, 4},  {32, 32, 64, 64}};
    struct kiln_error err;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int form = 0; form < 4; form++)
            check_enlarge(form % 2 ? 5 : 16, sizes[i], form);
    float memory[1] = {0};
    struct kiln_latent_enlarge args = {.clean = memory,
                                       .noise = memory,
                                       .x = memory,
                                       .channels = 1,
                                       .height = 1,
                                       .width = 1,
                                       .out_height = 1,
                                       .out_width = 0};
    describe("refusals");
    refused(kiln_latent_enlarge_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
    args.out_width = 1;
    args.sigma = 1.5f;
    refused(kiln_latent_enlarge_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
    args.sigma = 0.5f;
    args.noise = NULL;
    refused(kiln_latent_enlarge_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
}

const struct kernel_test latent_tests[] = {
    {"layer_norm", layer_norm},
    {"layer_norm_refuses", layer_norm_refuses},
    {"patchify", patchify},
    {"euler_step", euler_step},
    {"patches_refuse", patches_refuse},
    {"latent_split", latent_split},
    {"latent_mix", latent_mix},
    {"slerp", slerp},
    {"latent_enlarge", latent_enlarge},
    {NULL, NULL},
};
