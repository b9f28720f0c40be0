/* pictures.c - the kernels of the decoder's side: group norm, bytes, smaller sizes. */
#include <math.h>
#include <string.h>

#include "kernels/attention/softmax.h"
#include "kernels/pictures/downscale.h"
#include "kernels/pictures/group_norm_silu.h"
#include "kernels/pictures/rgb8.h"
#include "tests/gpu/kernels/twin.h"

enum { IN_PLACE = 1, SILU = 2, UNALIGNED = 4, LIFTED = 8 };

/* --- group_norm ------------------------------------------------------------------------------- */

struct norm_case {
    struct twins set;
    struct twin *x, *weight, *bias, *x_bias, *y, *workspace;
    int64_t items, pixels;
    int channels, groups, form;
};

static void make_norm(struct norm_case *c, struct test_random *random, float offset)
{
    const size_t bytes = (size_t)(c->items * c->pixels * c->channels) * 2;
    c->set.shift = c->form & UNALIGNED ? 16 + 2 : 0;
    c->x = twins_add(&c->set, "x", bytes);
    c->weight = twins_add(&c->set, "weight", (size_t)c->channels * 2);
    c->bias = twins_add(&c->set, "bias", (size_t)c->channels * 2);
    c->x_bias = twins_add(&c->set, "x_bias", (size_t)c->channels * 2);
    c->y = c->form & IN_PLACE ? c->x : twins_add(&c->set, "y", bytes);
    fill_bf16(c->x, random, 2);
    for (int64_t i = 0; offset != 0 && i < (int64_t)bytes / 2; i++)
        kiln_store(c->x->host, i, kiln_load(c->x->host, i, KILN_BF16) + offset, KILN_BF16);
    fill_bf16(c->weight, random, 2);
    fill_bf16(c->bias, random, 1);
    fill_bf16(c->x_bias, random, 1);
}

static struct kiln_group_norm norm_args(const struct norm_case *c, bool device, int64_t item)
{
    const size_t at = (size_t)(item * c->pixels * c->channels) * 2;
    return (struct kiln_group_norm){.x = (char *)twin_side(c->x, device) + at,
                                    .weight = twin_side(c->weight, device),
                                    .bias = twin_side(c->bias, device),
                                    .x_bias =
                                        c->form & LIFTED ? twin_side(c->x_bias, device) : NULL,
                                    .y = (char *)twin_side(c->y, device) + at,
                                    .pixels = c->pixels,
                                    .channels = c->channels,
                                    .groups = c->groups,
                                    .eps = 1e-6f,
                                    .silu = (c->form & SILU) != 0,
                                    .format = KILN_BF16};
}

/* The reference, which takes one picture at a time. */
static void norm_on_host(const struct norm_case *c)
{
    double sums[2 * KILN_NORM_CHANNELS_MAX];
    for (int64_t item = 0; item < c->items; item++) {
        const struct kiln_group_norm host = norm_args(c, false, item);
        memset(sums, 0, sizeof sums);
        kiln_group_norm_sums_ref(&host, 0, c->pixels, sums);
        kiln_group_norm_apply_ref(&host, sums, 0, c->pixels);
    }
}

static void check_norm(int64_t items, int64_t pixels, int channels, int groups, int form,
                       float offset)
{
    struct norm_case c = {
        .items = items, .pixels = pixels, .channels = channels, .groups = groups, .form = form};
    struct test_random random = {(uint64_t)(pixels + channels)};
    struct kiln_error err;
    describe("%lld x %lld pixels, %d channels in %d groups, form %d, about %g", (long long)items,
             (long long)pixels, channels, groups, form, (double)offset);
    make_norm(&c, &random, offset);
    const struct kiln_group_norm device = norm_args(&c, true, 0);
    /* The workspace has its own set: it is never unaligned, and holds nothing to compare. */
    struct twins work = {0};
    struct twin *workspace =
        twins_add(&work, "workspace", kiln_group_norm_workspace(&device, items));
    twins_push(&c.set);
    twins_push(&work);
    const struct kiln_group_norm args = norm_args(&c, true, 0);
    if (launched(kiln_group_norm_launch(&args, items, workspace->device, NULL, &err), &err)) {
        norm_on_host(&c);
        twins_pull(&c.set);
        twins_pull(&work);
        compare_bf16(c.y, 2, 2);
    }
    twins_free(&work);
    twins_free(&c.set);
}

static void group_norm(void)
{
    static const struct {
        int64_t items, pixels;
        int channels, groups;
    } shapes[] = {{1, 1, 4, 2},      {1, 7, 8, 8},      {2, 63, 6, 3},    {1, 64, 32, 8},
                  {2, 65, 32, 32},   {1, 300, 96, 4},   {3, 129, 5, 1},   {1, 1000, 128, 32},
                  {2, 256, 512, 32}, {1, 33, 4096, 32}, {1, 40, 2056, 1}, {1, 4099, 24, 3}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int form = 0; form < 16; form++)
            check_norm(shapes[i].items, shapes[i].pixels, shapes[i].channels, shapes[i].groups,
                       form, 0);
    check_norm(1, 5000, 128, 32, 0, 100);
    check_norm(2, 3000, 64, 32, SILU, -40);
}

/* Both sides of every limit: maps that go by slices of 32 channels, what of a slice is in
 * registers, how much there is of it, and blocks that take more than one tile. */
static void group_norm_limits(void)
{
    static const struct {
        int64_t items, pixels;
        int channels, groups;
    } shapes[] = {{3, 5, 32, 1},      {2, 6, 64, 2},    {2, 767, 64, 64}, {1, 768, 96, 3},
                  {1, 769, 96, 6},    {1, 700, 96, 2},  {1, 700, 40, 5},  {1, 3072, 64, 2},
                  {1, 3073, 64, 2},   {2, 6144, 32, 4}, {1, 6145, 32, 8}, {1, 3100, 256, 32},
                  {1, 140000, 32, 8}, {2, 24000, 8, 2}, {1, 131073, 8, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_norm(shapes[i].items, shapes[i].pixels, shapes[i].channels, shapes[i].groups, 0, 3);
        check_norm(shapes[i].items, shapes[i].pixels, shapes[i].channels, shapes[i].groups,
                   SILU | IN_PLACE, -1);
    }
    check_norm(1, 770, 64, 8, UNALIGNED | SILU, 0);
    check_norm(1, 23808, 256, 32, SILU | IN_PLACE, 1);
    check_norm(1, 23809, 256, 32, SILU | IN_PLACE, 1);
}

/* One picture in three parts, the middle one long, about its first pixel. */
static void check_norm_parts(int64_t pixels, int channels, int groups, int form, float offset)
{
    struct norm_case c = {
        .items = 1, .pixels = pixels, .channels = channels, .groups = groups, .form = form};
    struct test_random random = {(uint64_t)(pixels + channels)};
    struct kiln_error err;
    describe("%lld pixels in parts, %d channels in %d groups, form %d, about %g", (long long)pixels,
             channels, groups, form, (double)offset);
    make_norm(&c, &random, offset);
    struct kiln_group_norm args = norm_args(&c, false, 0);
    struct twins work = {0};
    struct twin *workspace = twins_add(&work, "workspace", kiln_group_norm_workspace(&args, 1));
    struct twin *sums = twins_add(&work, "sums", (size_t)channels * 2 * sizeof(double));
    struct twin *origin = twins_add(&work, "origin", (size_t)channels * 2);
    memcpy(origin->host, c.x->host, (size_t)channels * 2);
    memset(sums->host, 0, (size_t)channels * 2 * sizeof(double));
    twins_push(&c.set);
    twins_push(&work);
    const int64_t cuts[] = {0, pixels / 9, pixels - pixels / 5, pixels};
    bool ok = true;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; ok && i < 3; i++) {
            const size_t at = (size_t)(cuts[i] * channels) * 2;
            args = norm_args(&c, true, 0);
            args.x = (const char *)args.x + at, args.y = (char *)args.y + at;
            args.origin = origin->device;
            ok = launched((pass ? kiln_group_norm_part_launch : kiln_group_norm_add_launch)(
                              &args, cuts[i + 1] - cuts[i], (double *)(void *)sums->device,
                              workspace->device, NULL, &err),
                          &err);
        }
    if (ok) {
        norm_on_host(&c);
        twins_pull(&c.set);
        twins_pull(&work);
        compare_bf16(c.y, 2, 2);
    }
    twins_free(&work);
    twins_free(&c.set);
}

static void group_norm_in_parts(void)
{
    static const struct {
        int64_t pixels;
        int channels, groups;
    } shapes[] = {{1, 4, 2}, {12, 8, 8}, {300, 96, 4}, {1000, 128, 32}, {4099, 24, 3}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int form = 0; form < 16; form++)
            check_norm_parts(shapes[i].pixels, shapes[i].channels, shapes[i].groups, form, 0);
    check_norm_parts(5000, 128, 32, SILU, 100);
}

static void group_norm_refuses(void)
{
    struct kiln_error err;
    float memory[64] = {0};
    struct kiln_group_norm args = {.x = memory,
                                   .weight = memory,
                                   .bias = memory,
                                   .y = memory,
                                   .pixels = 1,
                                   .channels = 6,
                                   .groups = 4,
                                   .format = KILN_BF16};
    refused(kiln_group_norm_launch(&args, 1, memory, NULL, &err), KILN_BAD_INPUT, &err);
    args.groups = 3;
    refused(kiln_group_norm_launch(&args, 0, memory, NULL, &err), KILN_OK, &err);
    refused(kiln_group_norm_launch(&args, 1, NULL, NULL, &err), KILN_BAD_INPUT, &err);
    double sums[12];
    refused(kiln_group_norm_add_launch(&args, 1, sums, memory, NULL, &err), KILN_BAD_INPUT, &err);
    args.origin = memory;
    refused(kiln_group_norm_part_launch(&args, 2, sums, memory, NULL, &err), KILN_BAD_INPUT, &err);
    refused(kiln_group_norm_part_launch(&args, 1, NULL, memory, NULL, &err), KILN_BAD_INPUT, &err);
    refused(kiln_group_norm_add_launch(&args, 0, sums, memory, NULL, &err), KILN_OK, &err);
    args.format = KILN_F32;
    refused(kiln_group_norm_launch(&args, 1, memory, NULL, &err), KILN_UNSUPPORTED, &err);
    args.format = KILN_BF16;
    args.groups = 1, args.channels = KILN_NORM_CHANNELS_MAX + 1;
    refused(kiln_group_norm_launch(&args, 1, memory, NULL, &err), KILN_UNSUPPORTED, &err);
}

/* --- rgb8 ------------------------------------------------------------------------------------- */

enum rgb8_values { IN_RANGE, WITH_ENDS, LAST_NOT_FINITE, NO_MARK };

static void check_rgb8(int64_t pixels, int channels, enum kiln_float format, size_t shift,
                       enum rgb8_values values)
{
    struct twins set = {.shift = shift};
    struct test_random random = {(uint64_t)pixels};
    struct kiln_error err;
    describe("%lld pixels of %d channels, format %d, values %d", (long long)pixels, channels,
             (int)format, (int)values);
    const int64_t count = pixels * channels;
    struct twin *x = twins_add(&set, "x", (size_t)(count * kiln_float_size(format)));
    struct twin *rgb = twins_add(&set, "rgb", (size_t)pixels * 3);
    struct twin *bad = values == NO_MARK ? NULL : twins_add(&set, "bad", 4);
    if (format == KILN_BF16)
        fill_bf16(x, &random, 1.2f);
    else
        fill_f32(x, &random, 1.2f);
    static const float ends[] = {-1, 1, 0, INFINITY, -INFINITY, NAN, 1.0f / 255, -0.99607843f};
    for (int64_t i = 0; i < 8 && i < count && (values == WITH_ENDS || !bad); i++)
        kiln_store(x->host, i, ends[i], format);
    for (int64_t i = 0; i < pixels && channels > 3; i++) /* which nobody looks at */
        kiln_store(x->host, i * channels + 3, NAN, format);
    if (values == LAST_NOT_FINITE)
        kiln_store(x->host, (pixels - 1) * channels + 2, INFINITY, format);
    twins_push(&set);
    struct kiln_rgb8 args[2];
    for (int side = 0; side < 2; side++)
        args[side] = (struct kiln_rgb8){.x = twin_side(x, side),
                                        .rgb = twin_side(rgb, side),
                                        .bad = twin_side(bad, side),
                                        .pixels = pixels,
                                        .channels = channels,
                                        .format = format};
    if (launched(kiln_rgb8_launch(&args[1], NULL, &err), &err)) {
        kiln_rgb8_ref(&args[0]);
        twins_pull(&set);
        compare_bytes(rgb, 0, 0);
        if (bad)
            compare_bytes(bad, 0, 0);
    }
    twins_free(&set);
}

static void rgb8(void)
{
    static const int64_t sizes[] = {1, 5, 6, 16, 17, 1000, 64 * 64};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int channels = 3; channels < 9; channels += 5)
            for (size_t shift = 0; shift < 8; shift += 4)
                for (enum rgb8_values values = IN_RANGE; values <= NO_MARK; values++) {
                    check_rgb8(sizes[i], channels, KILN_BF16, shift, values);
                    check_rgb8(sizes[i], channels, KILN_F32, shift, values);
                }
}

/* --- softmax: of the decoder's attention -------------------------------------------------------
 */

static void check_softmax(int64_t rows, int64_t n, float scale, size_t shift)
{
    struct twins set = {.shift = shift};
    struct test_random random = {(uint64_t)(rows + n)};
    struct kiln_error err;
    describe("%lld rows of %lld scores, times %g", (long long)rows, (long long)n, (double)scale);
    struct twin *scores = twins_add(&set, "scores", (size_t)(rows * n) * 4);
    struct twin *y = twins_add(&set, "y", (size_t)(rows * n) * 2);
    fill_f32(scores, &random, 20);
    twins_push(&set);
    struct kiln_softmax args[2];
    for (int side = 0; side < 2; side++)
        args[side] = (struct kiln_softmax){.scores = twin_side(scores, side),
                                           .y = twin_side(y, side),
                                           .n = n,
                                           .format = KILN_BF16,
                                           .scale = scale};
    if (launched(kiln_softmax_launch(&args[1], rows, NULL, &err), &err)) {
        twins_pull(&set);
        compare_untouched(scores);
        kiln_softmax_ref(&args[0], 0, rows);
        compare_bf16(y, 1, 1e-3f / (float)n);
    }
    twins_free(&set);
}

static void softmax(void)
{
    /* Around the longest row that is held in registers, and around what fills its threads. */
    static const int64_t sizes[][2] = {{1, 1},    {3, 7},    {2, 64},    {5, 513},  {5, 1020},
                                       {3, 2048}, {3, 4100}, {2, 16384}, {2, 16388}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t shift = 0; shift < 8; shift += 4) {
            check_softmax(sizes[i][0], sizes[i][1], 0, shift);
            check_softmax(sizes[i][0], sizes[i][1], 0.04419417f, shift);
        }
    struct kiln_error err;
    float memory[4] = {0};
    struct kiln_softmax args = {.scores = memory, .y = memory, .n = 0, .format = KILN_BF16};
    refused(kiln_softmax_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
    args.n = 4, args.format = KILN_F32;
    refused(kiln_softmax_launch(&args, 1, NULL, &err), KILN_UNSUPPORTED, &err);
}

/* --- downscale -------------------------------------------------------------------------------- */

static void check_downscale(const uint32_t s[4])
{
    struct twins set = {.shift = (size_t)(s[0] % 3)};
    struct test_random random = {s[0] * 7 + s[2]};
    struct kiln_error err;
    const uint16_t *light_of;
    const uint8_t *stored_of;
    describe("a picture of %u x %u to %u x %u", s[0], s[1], s[2], s[3]);
    const size_t from = (size_t)s[0] * s[1] * 3, to = (size_t)s[2] * s[3] * 3;
    struct twin *src = twins_add(&set, "src", from);
    struct twin *dst = twins_add(&set, "dst", to);
    struct twins tables = {0};
    struct twin *light = twins_add(&tables, "light", 256 * sizeof *light_of);
    struct twin *stored = twins_add(&tables, "stored", 65536);
    kiln_downscale_tables(&light_of, &stored_of);
    memcpy(light->host, light_of, light->bytes);
    memcpy(stored->host, stored_of, stored->bytes);
    test_random_fill(&random, src->host, src->bytes);
    twins_push(&set);
    twins_push(&tables);
    const struct kiln_downscale args = {.src = src->device,
                                        .dst = dst->device,
                                        .width = s[0],
                                        .height = s[1],
                                        .out_width = s[2],
                                        .out_height = s[3],
                                        .light = (const uint16_t *)(const void *)light->device,
                                        .stored = stored->device};
    if (launched(kiln_downscale_launch(&args, NULL, &err), &err)) {
        kiln_downscale_ref(src->host, s[0], s[1], dst->host, s[2], s[3]);
        twins_pull(&set);
        twins_pull(&tables);
        compare_bytes(dst, 0, 0);
        compare_untouched(src);
    }
    twins_free(&set);
    twins_free(&tables);
}

static void downscale(void)
{
    static const uint32_t sizes[][4] = {
        {64, 64, 32, 32},  {64, 48, 32, 24},  {64, 64, 16, 16}, {63, 41, 32, 21},
        {65, 33, 64, 32},  {7, 5, 3, 2},      {1, 40, 1, 7},    {40, 1, 7, 1},
        {1, 1, 1, 1},      {97, 101, 1, 1},   {17, 13, 17, 5},  {17, 13, 17, 13},
        {134, 77, 51, 29}, {3, 3, 2, 2},      {2, 2, 1, 1},     {128, 2, 64, 1},
        {250, 3, 249, 2},  {89, 144, 55, 89}, {16, 16, 15, 16}, {128, 128, 32, 32}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_downscale(sizes[i]);
}

const struct kernel_test picture_tests[] = {
    {"group_norm", group_norm},
    {"group_norm_limits", group_norm_limits},
    {"group_norm_in_parts", group_norm_in_parts},
    {"group_norm_refuses", group_norm_refuses},
    {"rgb8", rgb8},
    {"softmax", softmax},
    {"downscale", downscale},
    {NULL, NULL},
};
