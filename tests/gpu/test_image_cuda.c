/* test_image_cuda.c - pictures on cuda:0 in bf16, beside fp32: every operation, the autoencoder.
 *
 * Operands are the same numbers on both sides.  bf16 keeps 8 bits: a single rounding of the result
 * is a relative error of about 1.7e-3, as a vector.
 */
#include <math.h>

#include "pipeline/model/vae_parts.h"
#include "pipeline/torch/load.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/image_rig.h"

#define ONE_ROUNDING 3e-3

/* A scope on the CPU and one on the GPU. */
struct sides {
    struct kt_scope *s[2];
};
static const enum kt_dtype dtype_of[2] = {KT_F32, KT_BF16};

static struct sides open_sides(void)
{
    struct kiln_error err;
    if (kt_device_open(0, &err))
        fail_msg("%s", err.text);
    return (struct sides){{kt_scope_new(KT_CPU), kt_scope_new(0)}};
}

static void close_sides(struct sides *t)
{
    kt_scope_free(t->s[0]);
    kt_scope_free(t->s[1]);
}

/* Prints and checks how far the GPU's result is from the CPU's. */
static void compare(struct sides *t, const char *what, const kt x[2], double limit)
{
    size_t count[2];
    float *v[2];
    for (int i = 0; i < 2; i++)
        v[i] = rig_floats(t->s[i], x[i], &count[i]);
    assert_int_equal(count[0], count[1]);
    double error = rig_relative(v[1], v[0], count[0]);
    printf("%-44s relative %.2e\n", what, error);
    free(v[0]);
    free(v[1]);
    if (!(error <= limit))
        fail_msg("%s: relative error %g, limit %g", what, error, limit);
}

/* --- operations ------------------------------------------------------------------------------- */

static const struct conv_case {
    const char *what;
    int64_t in, out, height, width, kernel;
    int stride, before, after;
    bool bias, add;
} convs[] = {
    {"3x3, 64 to 64, bias", 64, 64, 24, 40, 3, 1, 1, 1, true, false},
    {"3x3, 512 to 512, bias, residual", 512, 512, 32, 32, 3, 1, 1, 1, true, true},
    {"3x3, 128 to 128, bias, residual", 128, 128, 96, 80, 3, 1, 1, 1, true, true},
    {"3x3, 16 to 512, bias", 16, 512, 16, 24, 3, 1, 1, 1, true, false},
    {"3x3, 128 to 3, bias", 128, 3, 40, 56, 3, 1, 1, 1, true, false},
    {"3x3, 3 to 128, bias", 3, 128, 40, 56, 3, 1, 1, 1, true, false},
    {"1x1, 256 to 128, bias", 256, 128, 30, 22, 1, 1, 0, 0, true, false},
    {"3x3, 128 to 128, stride 2, zeros behind", 128, 128, 32, 48, 3, 2, 0, 1, true, false},
    {"3x3, 32 to 32, nothing added", 32, 32, 8, 8, 3, 1, 1, 1, false, false},
    {"3x3, 40 to 24, residual alone", 40, 24, 9, 7, 3, 1, 1, 1, false, true},
};

static kt convolve(struct kt_scope *s, enum kt_dtype dtype, const struct conv_case *c)
{
    const int64_t oh = (c->height + c->before + c->after - c->kernel) / c->stride + 1;
    const int64_t ow = (c->width + c->before + c->after - c->kernel) / c->stride + 1;
    const double gain = 1 / sqrt((double)(c->in * c->kernel * c->kernel));
    const int64_t picture[] = {1, c->in, c->height, c->width}, sum[] = {1, c->out, oh, ow};
    const int64_t weight[] = {c->out, c->in, c->kernel, c->kernel};
    struct kt_conv_args args = {.x = rig_values(s, dtype, 1, 1, 4, picture),
                                .weight = rig_values(s, dtype, 2, gain, 4, weight),
                                .stride = c->stride,
                                .pad_before = c->before,
                                .pad_after = c->after};
    if (c->bias)
        args.bias = rig_values(s, dtype, 3, 1, 1, &c->out);
    if (c->add)
        args.add = rig_values(s, dtype, 4, 1, 4, sum);
    return kt_conv2d(s, &args);
}

static void convolutions(void **state)
{
    (void)state;
    int failed = 0;
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++) {
        struct sides t = open_sides();
        size_t count[2];
        float *v[2];
        for (int k = 0; k < 2; k++)
            v[k] = rig_floats(t.s[k], convolve(t.s[k], dtype_of[k], &convs[i]), &count[k]);
        double error = rig_relative(v[1], v[0], count[0]);
        printf("convolution %-44s relative %.2e\n", convs[i].what, error);
        failed += !(count[0] == count[1] && error <= ONE_ROUNDING);
        free(v[0]);
        free(v[1]);
        close_sides(&t);
    }
    assert_int_equal(failed, 0);
}

/* A result in memory that was there, half of a wider picture's, is the result in its own. */
static void a_convolution_into_a_place(void **state)
{
    (void)state;
    struct sides t = open_sides();
    struct kt_scope *s = t.s[1];
    static const int64_t channels[] = {64, 12}; /* cuDNN writes there itself, or has to be copied */
    for (size_t i = 0; i < 2; i++) {
        const int64_t out = channels[i], sum[] = {1, out, 40, 24};
        struct kt_conv_args args = {
            .x = rig_values(s, KT_BF16, 1, 1, 4, (int64_t[]){1, 64, 40, 24}),
            .weight = rig_values(s, KT_BF16, 2, 0.04, 4, (int64_t[]){out, 64, 3, 3}),
            .bias = rig_values(s, KT_BF16, 3, 1, 1, &out),
            .stride = 1,
            .pad_before = 1,
            .pad_after = 1,
            .add = rig_values(s, KT_BF16, 4, 1, 4, sum)};
        kt want = kt_conv2d(s, &args), wide = kt_picture(s, KT_BF16, 2 * out, 40, 24);
        args.into = kt_narrow(s, kt_pictures_in(s, wide, out), 0, 1, 1);
        kt got = kt_conv2d(s, &args);
        rig_expect_same(s, got, want);
        rig_expect_same(s, args.into, want);
    }
    close_sides(&t);
}

static void group_norms(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = {{1, 512, 16, 24}, {1, 128, 61, 33}, {1, 96, 5, 7}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int silu = 0; silu < 2; silu++) {
            struct sides t = open_sides();
            kt y[2];
            for (int k = 0; k < 2; k++) {
                kt x = rig_values(t.s[k], dtype_of[k], 1, 2, 4, shapes[i]);
                kt w = rig_values(t.s[k], dtype_of[k], 2, 1, 1, &shapes[i][1]);
                kt b = rig_values(t.s[k], dtype_of[k], 3, 1, 1, &shapes[i][1]);
                const struct kt_norm n = {w, b, silu ? b : NULL, 32, 1e-6, silu != 0};
                y[k] = kt_group_norm(t.s[k], x, &n);
                kt over =
                    kt_rows_image(t.s[k], kt_image_rows(t.s[k], x), shapes[i][2], shapes[i][3]);
                kt_group_norm_over(t.s[k], over, &n);
                rig_expect_same(t.s[k], over, y[k]);
            }
            compare(&t, silu ? "group norm and SiLU" : "group norm", y, 2 * ONE_ROUNDING);
            close_sides(&t);
        }
}

/* Without the picture between them on the GPU, with it on the CPU; twice the same bits. */
static void upsampling_and_its_convolution(void **state)
{
    (void)state;
    static const int64_t cases[][4] = {{512, 512, 16, 24}, {256, 256, 64, 40}, {72, 40, 9, 13},
                                       {64, 64, 1, 1},     {64, 128, 1, 3},    {20, 12, 5, 7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t in = cases[i][0], picture[] = {1, in, cases[i][2], cases[i][3]};
        const int64_t shape[] = {cases[i][1], in, 3, 3};
        struct sides t = open_sides();
        kt y[2];
        for (int k = 0; k < 2; k++) {
            kt x = rig_values(t.s[k], dtype_of[k], 1, 1, 4, picture);
            kt weight = rig_values(t.s[k], dtype_of[k], 2, 0.33 / sqrt((double)in), 4, shape);
            const struct kiln_vae_layer l = {.weight =
                                                 k ? kt_upsample_weight(t.s[k], weight) : weight};
            kt again = k ? kt_upsample_conv2d(t.s[k], x, l.weight) : NULL;
            y[k] = kiln_vae_upsample(t.s[k], x, &l);
            if (again)
                rig_expect_same(t.s[k], again, y[k]);
        }
        compare(&t, "upsampling and a 3x3 convolution", y, ONE_ROUNDING);
        close_sides(&t);
    }
}

/* How kt_rgb8() marks a picture of k's side, as it is or made one without numbers. */
static float mark_of(const struct sides *t, int k, kt picture, bool finite)
{
    size_t count;
    kt bad = kt_zeros(t->s[k], KT_I32, 1, (int64_t[]){1});
    (void)kt_rgb8(t->s[k], finite ? picture : kt_affine(t->s[k], picture, INFINITY, 0), bad);
    float *mark = rig_floats(t->s[k], bad, &count), first = mark[0];
    free(mark);
    return first;
}

/* Out of the last convolution's own memory, which has five channels nobody sees. */
static void bytes_of_a_picture(void **state)
{
    (void)state;
    struct sides t = open_sides();
    kt y[2];
    for (int k = 0; k < 2; k++) {
        kt picture = convolve(t.s[k], dtype_of[k], &convs[4]);
        y[k] = kt_rgb8(t.s[k], picture, NULL);
        assert_true(mark_of(&t, k, picture, true) == 0 && mark_of(&t, k, picture, false) == 1);
    }
    size_t count[2], off = 0;
    float *v[2];
    for (int k = 0; k < 2; k++)
        v[k] = rig_floats(t.s[k], y[k], &count[k]);
    assert_int_equal(count[0], count[1]);
    assert_int_equal(count[0], 3 * convs[4].height * convs[4].width);
    for (size_t i = 0; i < count[0]; i++)
        off += !(fabsf(v[0][i] - v[1][i]) <= 1);
    printf("bytes: %zu of %zu differ by more than a level\n", off, count[0]);
    assert_int_equal(off, 0);
    free(v[0]);
    free(v[1]);
    close_sides(&t);
}

/* The bits of the CPU where a picture enters; a sample where it leaves. */
static void encoders_ends(void **state)
{
    (void)state;
    enum { HEIGHT = 64, WIDTH = 48 };
    struct sides t = open_sides();
    static uint8_t rgb[HEIGHT * WIDTH * 3];
    size_t count[2];
    float *v[2];
    kt sample[2];
    for (size_t i = 0; i < sizeof rgb; i++)
        rgb[i] = (uint8_t)(i * 7);
    for (int k = 0; k < 2; k++) {
        kt bytes = kt_from_host(t.s[k], rgb, KT_U8, KT_U8, 1, (int64_t[]){sizeof rgb});
        v[k] = rig_floats(t.s[k], kt_of_rgb8(t.s[k], bytes, HEIGHT, WIDTH), &count[k]);
        kt moments = kt_affine(t.s[k], kt_randn(t.s[k], 2, 4, (int64_t[]){1, 32, 8, 6}), 9, 0);
        sample[k] = kt_gaussian(t.s[k], moments, kt_randn(t.s[k], 3, 3, (int64_t[]){16, 8, 6}));
    }
    assert_int_equal(count[0], count[1]);
    assert_memory_equal(v[0], v[1], count[0] * sizeof *v[0]);
    free(v[0]);
    free(v[1]);
    compare(&t, "a sample of a latent", sample, 1e-6);
    close_sides(&t);
}

static void attention(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{300, 512}, {4096, 512}, {1024, 128}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct sides t = open_sides();
        const int64_t packed[2] = {shapes[i][0], 3 * shapes[i][1]};
        char what[64];
        kt y[2];
        for (int k = 0; k < 2; k++) {
            const struct kt_attention_args args = {
                .qkv = rig_values(t.s[k], dtype_of[k], 1, 2, 2, packed),
                .heads = 1,
                .kv_heads = 1,
                .head_dim = (int)shapes[i][1]};
            y[k] = kt_attention(t.s[k], &args);
        }
        snprintf(what, sizeof what, "attention, %d rows, one head of %d", (int)shapes[i][0],
                 (int)shapes[i][1]);
        compare(&t, what, y, 2 * ONE_ROUNDING);
        close_sides(&t);
    }
}

/* --- the autoencoder -------------------------------------------------------------------------- */

static kt latent_of(struct kt_scope *s, int64_t channels, int64_t height, int64_t width)
{
    return kt_randn(s, 11, 3, (int64_t[]){channels, height, width});
}

static void sketch_decodes_as_on_the_cpu(void **state)
{
    (void)state;
    struct sides t = open_sides();
    struct kiln_model_config config;
    struct kiln_error err;
    char dir[4200];
    size_t count[2];
    float *v[2];
    if (kiln_model_config_read(sketch(), &config, &err))
        fail_msg("%s", err.text);
    snprintf(dir, sizeof dir, "%s/vae", sketch());
    for (int k = 0; k < 2; k++) {
        struct kiln_vae *vae = NULL;
        if (kiln_vae_load(dir, &config.vae, t.s[k], dtype_of[k], &vae, &err))
            fail_msg("%s", err.text);
        kt latent = latent_of(t.s[k], config.vae.latent_channels, 32, 40);
        v[k] = rig_floats(t.s[k], kiln_vae_decode(vae, t.s[k], latent), &count[k]);
        kiln_vae_free(vae);
    }
    assert_int_equal(count[0], count[1]);
    double db = rig_psnr(v[1], v[0], count[0]);
    printf("sketch: decode in bf16 at %.1f dB of fp32 on the CPU\n", db);
    assert_true(db >= 35);
    free(v[0]);
    free(v[1]);
    close_sides(&t);
}

/* bf16 through Kiln's kernels against fp32 through LibTorch's operators, both on the GPU. */
static void full_size_is_near_fp32(void **state)
{
    (void)state;
    struct sides t = open_sides();
    const struct kiln_vae_config config = rig_vae_config();
    struct kiln_vae *vae = rig_vae(t.s[1], &config), *wide = rig_vae_wide(t.s[1], vae);
    struct kt_scope *s = kt_scope_child(t.s[1]);
    kt latent = latent_of(s, config.latent_channels, 40, 32);
    size_t count;
    float *got = rig_floats(s, kiln_vae_decode(vae, s, latent), &count);
    float *again = rig_floats(s, kiln_vae_decode(vae, s, latent), &count);
    float *want = rig_floats(s, kiln_vae_decode(wide, s, latent), &count);
    double error = rig_relative(got, want, count);
    printf("full size: decode in bf16, relative error %.2e\n", error);
    assert_memory_equal(got, again, count * sizeof *got);
    free(got);
    free(again);
    free(want);
    kt picture = kt_tanh(s, kt_randn(s, 5, 4, (int64_t[]){1, 3, 256, 192}));
    got = rig_floats(s, kiln_vae_encode(vae, s, picture), &count);
    want = rig_floats(s, kiln_vae_encode(wide, s, picture), &count);
    double encoded = rig_relative(got, want, count);
    printf("full size: encode in bf16, relative error %.2e\n", encoded);
    free(got);
    free(want);
    kt_scope_free(s);
    kiln_vae_free(vae);
    kiln_vae_free(wide);
    close_sides(&t);
    assert_true(error <= 3e-2);
    assert_true(encoded <= 3e-2);
}

#define SEAMLESS_DB 45.0 /* that nobody sees where a strip ended */

/* Prints and checks how far a picture in strips is from the same in one piece. */
static void compare_strips(const struct kiln_vae *vae, struct kt_scope *scope, int64_t height,
                           int64_t width, double limit)
{
    struct kt_scope *s = kt_scope_child(scope);
    kt latent = latent_of(s, rig_vae_config().latent_channels, height, width);
    size_t count;
    kt whole = kiln_vae_decode(vae, s, latent);
    kt strips = kiln_vae_decode_strips(vae, s, latent, KILN_VAE_STRIP_ROWS);
    float *want = rig_floats(s, whole, &count), *got = rig_floats(s, strips, &count);
    double error = rig_relative(got, want, count), db = rig_psnr_of_bytes(s, strips, whole);
    printf("full size, latent %lld x %lld in strips: relative error %.2e, limit %.0e; PSNR %.1f "
           "dB\n",
           (long long)height, (long long)width, error, limit, db);
    free(got);
    free(want);
    kt_scope_free(s);
    assert_true(error <= limit);
    assert_true(db >= SEAMLESS_DB);
}

/* But for roundings, where cuDNN has another kernel for another height. */
static void strips_have_no_seams(void **state)
{
    (void)state;
    struct sides t = open_sides();
    const struct kiln_vae_config config = rig_vae_config();
    struct kiln_vae *vae = rig_vae(t.s[1], &config), *wide = rig_vae_wide(t.s[1], vae);
    compare_strips(vae, t.s[1], 128, 128, 6e-3);
    compare_strips(vae, t.s[1], 41, 27, 6e-3);
    compare_strips(wide, t.s[1], 41, 27, 1e-4);
    kiln_vae_free(vae);
    kiln_vae_free(wide);
    close_sides(&t);
}

/* A picture that gets narrower in its own memory, beside one that has all the memory there is: the
 * same bits but for what cuDNN makes of another height. */
static void a_wide_picture_gets_narrower_in_its_own_memory(void **state)
{
    (void)state;
    struct sides t = open_sides();
    const struct kiln_vae_config config = rig_vae_config();
    struct kiln_vae *vae = rig_vae(t.s[1], &config);
    const struct kiln_vae_residual *r = &vae->decoder.levels[config.levels - 1].residuals[0];
    const int64_t height = 300, width = 200, channels = config.channels[1];
    struct kt_scope *s = kt_scope_child(t.s[1]);
    size_t count;
    assert_true(kiln_vae_halves(r, channels));
    kt rows = rig_values(s, KT_BF16, 1, 1, 2, (int64_t[]){height * width, channels});
    kt x = kt_rows_image(s, rows, height, width), h = kt_copy(s, x);
    kt_drop(s, rows);
    kiln_vae_norm_over(vae, s, h, &r->norm1);
    h = kiln_vae_conv(s, h, &r->conv1, 1, NULL);
    kiln_vae_norm_over(vae, s, h, &r->norm2);
    kt sum = kiln_vae_conv(s, x, &r->shortcut, 0, NULL);
    float *want = rig_floats(s, kiln_vae_conv(s, h, &r->conv2, 1, sum), &count);
    kt got = kiln_vae_halving_residual(vae, s, r, kt_unshare(s, x), KILN_VAE_WIDE_ROWS);
    float *values = rig_floats(s, got, &count);
    double error = rig_relative(values, want, count);
    printf("a residual in its operand's memory: relative error %.2e\n", error);
    free(values);
    free(want);
    kt_scope_free(s);
    kiln_vae_free(vae);
    close_sides(&t);
    assert_true(error <= ONE_ROUNDING);
}

/* What a decode of side x side takes beside the weights, in tensors and of the device. */
static void expect_bounded(const struct kiln_vae *vae, struct kt_scope *scope, int64_t side,
                           size_t used_most, size_t held_most)
{
    struct kt_scope *s = kt_scope_child(scope);
    kt latent = latent_of(s, rig_vae_config().latent_channels, side / 8, side / 8);
    struct kt_memory m;
    kt_wait(s);
    kt_device_trim(0);
    kt_memory_reset_peak(0);
    assert_true(kt_memory_of(0, &m));
    const size_t before = m.used, held = m.held;
    (void)kt_rgb8(s, kiln_vae_decode(vae, s, latent), NULL);
    kt_wait(s);
    rig_check(s);
    assert_true(kt_memory_of(0, &m));
    printf("decode of %lld x %lld: %.2f GB in tensors at the peak, %.2f GB held\n", (long long)side,
           (long long)side, (double)(m.peak_used - before) / 1e9,
           (double)(m.peak_held - held) / 1e9);
    kt_scope_free(s);
    assert_true(m.peak_used - before <= used_most);
    assert_true(m.peak_held - held <= held_most);
}

/* The piece that is asked for first counts as used for a moment: 48 MiB more than is needed.  What
 * is held beside it are workspaces. */
static void a_large_decode_is_bounded(void **state)
{
    (void)state;
    struct sides t = open_sides();
    const struct kiln_vae_config config = rig_vae_config();
    struct kiln_vae *vae = rig_vae(t.s[1], &config);
    expect_bounded(vae, t.s[1], 1024, (size_t)900 << 20, (size_t)1000 << 20);
    expect_bounded(vae, t.s[1], 2048, (size_t)3500 << 20, (size_t)3800 << 20);
    kiln_vae_free(vae);
    close_sides(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions),
        cmocka_unit_test(a_convolution_into_a_place),
        cmocka_unit_test(group_norms),
        cmocka_unit_test(upsampling_and_its_convolution),
        cmocka_unit_test(bytes_of_a_picture),
        cmocka_unit_test(encoders_ends),
        cmocka_unit_test(attention),
        cmocka_unit_test(sketch_decodes_as_on_the_cpu),
        cmocka_unit_test(full_size_is_near_fp32),
        cmocka_unit_test(strips_have_no_seams),
        cmocka_unit_test(a_wide_picture_gets_narrower_in_its_own_memory),
        cmocka_unit_test(a_large_decode_is_bounded),
    };
    need_gpu();
    return cmocka_run_group_tests_name("image_cuda", tests, NULL, NULL);
}
