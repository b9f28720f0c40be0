/* rows.c - gates over rows of tokens, and quantising. */
#include "tests/gpu/kernels/rows.h"
#include "kernels/rows/quantise.h"
#include "kernels/rows/swiglu.h"

/* --- swiglu ----------------------------------------------------------------------------------- */

static void check_swiglu(int64_t rows, int64_t n, int form)
{
    struct twins set = {.shift = form & UNALIGNED ? 4 : 0};
    struct test_random random = {(uint64_t)(n * 128 + form)};
    struct kiln_error err;
    describe("%lld rows of %lld, form %d", (long long)rows, (long long)n, form);
    struct twin *in = twins_add_bf16(&set, "gate_up", rows * 2 * n, &random, 8);
    struct twin *codes = form & QUANTISED ? add_codes(&set, rows, n, form) : NULL;
    struct twin *scales = codes ? twins_add(&set, "row_scale", (size_t)rows * 4) : NULL;
    struct twin *y = codes && form & ALONE ? NULL : add_last(&set, "y", rows, n, form);
    twins_push(&set);
    struct kiln_swiglu args[2];
    for (int side = 0; side < 2; side++)
        args[side] = (struct kiln_swiglu){.gate_up = twin_side(in, side),
                                          .y = twin_side(y, side),
                                          .n = n,
                                          .pitch = pitch_of(n, form),
                                          .format = KILN_BF16,
                                          .quantised = twin_side(codes, side),
                                          .row_scale = twin_side(scales, side),
                                          .code_max = code_max_of(form)};
    if (launched(kiln_swiglu_launch(&args[1], rows, NULL, &err), &err)) {
        kiln_swiglu_ref(&args[0], 0, rows);
        twins_pull(&set);
        if (y)
            compare_bf16(y, 2, 1e-3f);
        if (codes)
            compare_e4m3(codes, scales, all_of(1, n, form), 2, 1e-3f);
        compare_untouched(in);
    }
    twins_free(&set);
}

static void swiglu(void)
{
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (int k = 0; k < 6; k++)
            check_swiglu(widths[i] < 200 ? 5 : 2, widths[i],
                         (k % 3 == 0   ? 0
                          : k % 3 == 1 ? QUANTISED
                                       : QUANTISED | ALONE) |
                             (k / 3 ? UNALIGNED : 0));
}

static void swiglu_with_room(void)
{
    static const int64_t roomy_widths[] = {1, 17, 192, 193, 1024, 1032, 3841, 10240};
    for (size_t i = 0; i < sizeof roomy_widths / sizeof *roomy_widths; i++)
        for (int k = 0; k < 4; k++)
            check_swiglu(3, roomy_widths[i],
                         (k & 1 ? QUANTISED | LOW : 0) | (k & 2 ? ODD_ROOM : ROOM));
}

static void swiglu_refuses(void)
{
    struct kiln_error err;
    float memory[8] = {0};
    struct kiln_swiglu args = {
        .gate_up = memory, .y = memory + 4, .n = 4, .pitch = 4, .format = KILN_BF16};
    refused(kiln_swiglu_launch(&args, 0, NULL, &err), KILN_OK, &err);
    args.pitch = 3;
    refused(kiln_swiglu_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
    args.pitch = 0, args.y = NULL;
    refused(kiln_swiglu_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
}

static void swiglu_at_the_ends(void)
{
    static const float gates[8] = {-3e38f, -1e5f, -200, -88, -1e-30f, 200, 1e5f, 3e38f};
    struct twins set = {0};
    struct kiln_error err;
    struct twin *in = twins_add(&set, "gate_up", 32), *y = twins_add(&set, "y", 16);
    for (int i = 0; i < 8; i++) {
        kiln_store(in->host, i, gates[i], KILN_BF16);
        kiln_store(in->host, 8 + i, 1.0f, KILN_BF16);
    }
    twins_push(&set);
    const struct kiln_swiglu host = {
        .gate_up = in->host, .y = y->host, .n = 8, .format = KILN_BF16};
    const struct kiln_swiglu device = {
        .gate_up = in->device, .y = y->device, .n = 8, .format = KILN_BF16};
    if (launched(kiln_swiglu_launch(&device, 1, NULL, &err), &err)) {
        kiln_swiglu_ref(&host, 0, 1);
        twins_pull(&set);
        for (int i = 0; i < 8; i++) {
            /* Far below zero the reference keeps a remnant below 3 of a gate of 3e38; 0 is right.
             */
            const float want = kiln_load(y->host, i, KILN_BF16),
                        got = kiln_load(y->back, i, KILN_BF16);
            const float limit = gates[i] < -80 ? 3.0f : 0.01f * (want < 0 ? -want : want);
            if (!(got - want <= limit && want - got <= limit))
                complain("silu(%g) = %g, the reference has %g", (double)gates[i], (double)got,
                         (double)want);
        }
    }
    twins_free(&set);
}

/* --- quantise --------------------------------------------------------------------------------- */

static void check_quantise(int64_t rows, int64_t n, int form)
{
    struct twins set = {.shift = form & UNALIGNED ? 4 : 0};
    struct test_random random = {(uint64_t)n};
    struct kiln_error err;
    describe("%lld rows of %lld, form %d", (long long)rows, (long long)n, form);
    struct twin *x = twins_add_bf16(&set, "x", rows * n, &random, 300);
    struct twin *codes = add_codes(&set, rows, n, form);
    struct twin *scales = twins_add(&set, "row_scale", (size_t)rows * 4);
    twins_push(&set);
    struct kiln_quantise args[2];
    for (int side = 0; side < 2; side++)
        args[side] = (struct kiln_quantise){.x = twin_side(x, side),
                                            .quantised = twin_side(codes, side),
                                            .row_scale = twin_side(scales, side),
                                            .code_max = code_max_of(form),
                                            .n = n,
                                            .pitch = pitch_of(n, form),
                                            .format = KILN_BF16};
    if (launched(kiln_quantise_launch(&args[1], rows, NULL, &err), &err)) {
        kiln_quantise_ref(&args[0], 0, rows);
        twins_pull(&set);
        compare_bytes(codes, 0, 0); /* no sum, one product: the same to the bit */
        compare_bytes(scales, 0, 0);
        compare_untouched(x);
    }
    twins_free(&set);
}

static void quantise(void)
{
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        check_quantise(3, widths[i], 0);
        check_quantise(3, widths[i], UNALIGNED);
        check_quantise(3, widths[i], ROOM | LOW);
        check_quantise(3, widths[i], ODD_ROOM);
    }
}

const struct kernel_test row_tests[] = {
    {"swiglu", swiglu},
    {"swiglu_with_room", swiglu_with_room},
    {"swiglu_refuses", swiglu_refuses},
    {"swiglu_at_the_ends", swiglu_at_the_ends},
    {"quantise", quantise},
    {NULL, NULL},
};
