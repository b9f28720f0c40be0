/* norms.c - rms_norm over rows of tokens. */
#include <cuda_runtime_api.h>
#include <math.h>

#include "kernels/rows/quantise.h"
#include "kernels/rows/rms_norm.h"
#include "kernels/tails.h"
#include "tests/gpu/kernels/rows.h"

struct rms_case {
    struct twins set;
    struct twin *x, *gain, *add, *y, *next_gain, *next, *codes, *scales;
    int64_t rows, n;
    int form;
};

static float within_2(struct test_random *random)
{
    return (float)test_random_below(random, 1 << 22) / (float)(1 << 20) - 2;
}

/* Of values within 2, or a place. */
static struct twin *add_tailed(struct twins *set, const char *what, int64_t rows, int64_t n,
                               struct test_random *random)
{
    struct twin *t = twins_add(set, what, (size_t)(rows * KILN_TAILED(n)) * 2);
    float values[KILN_ROW_MAX];
    for (int64_t row = 0; random && row < rows; row++) {
        for (int64_t i = 0; i < n; i++)
            values[i] = within_2(random);
        kiln_pack_tailed(values, n, (uint16_t *)(void *)t->host + row * KILN_TAILED(n));
    }
    return t;
}

static struct twin *add_gain(struct twins *set, const char *what, int64_t n,
                             struct test_random *random)
{
    struct twin *t = twins_add(set, what, (size_t)n * 4);
    if (random)
        fill_f32(t, random, 2);
    return t;
}

/* A place or operand of the residual stream. */
static struct twin *add_stream(struct rms_case *c, const char *what, struct test_random *random)
{
    if (c->form & TAILS)
        return add_tailed(&c->set, what, c->rows, c->n, random);
    return twins_add_bf16(&c->set, what, c->rows * c->n, random, 2);
}

/* Tails are not off 16 bytes, nor of every width, nor of a last result in codes or with room. */
static bool is_form(int64_t n, int form)
{
    const bool ends_in_tails = form & ADD && !(form & NEXT);
    if (!(form & TAILS))
        return true;
    return n % KILN_TAILS_MULTIPLE == 0 && !(form & (UNALIGNED | ODD_ROOM)) &&
           !(ends_in_tails && form & (QUANTISED | ROOM)) &&
           (form & ADD || !(form & (IN_PLACE | NEXT)));
}

static void make_rms(struct rms_case *c, struct test_random *random)
{
    const int64_t n = c->n, all = c->rows * n;
    const bool alone = c->form & ALONE && c->form & QUANTISED;
    c->set.shift = c->form & UNALIGNED ? 4 : 0;
    c->x =
        c->form & ADD ? twins_add_bf16(&c->set, "x", all, random, 2) : add_stream(c, "x", random);
    c->gain = add_gain(&c->set, "gain", n, random);
    c->add = c->form & ADD ? add_stream(c, "add", random) : NULL;
    if (!alone || c->form & NEXT)
        c->y = c->form & IN_PLACE                 ? (c->add ? c->add : c->x)
               : c->form & ADD && c->form & TAILS ? add_stream(c, "y", NULL)
               : c->form & NEXT                   ? twins_add_bf16(&c->set, "y", all, NULL, 0)
                                                  : add_last(&c->set, "y", c->rows, n, c->form);
    if (c->form & NEXT) {
        c->next_gain = add_gain(&c->set, "next_gain", n, random);
        c->next = alone ? NULL : add_last(&c->set, "next", c->rows, n, c->form);
    }
    if (c->form & QUANTISED) {
        c->codes = add_codes(&c->set, c->rows, n, c->form);
        c->scales = twins_add(&c->set, "row_scale", (size_t)c->rows * 4);
    }
}

static struct kiln_rms_norm rms_args(const struct rms_case *c, bool device)
{
    return (struct kiln_rms_norm){.x = twin_side(c->x, device),
                                  .gain = twin_side(c->gain, device),
                                  .add = twin_side(c->add, device),
                                  .y = twin_side(c->y, device),
                                  .n = c->n,
                                  .eps = 1e-5f,
                                  .format = KILN_BF16,
                                  .tails = c->form & TAILS,
                                  .next_gain = twin_side(c->next_gain, device),
                                  .next = twin_side(c->next, device),
                                  .pitch = pitch_of(c->n, c->form),
                                  .quantised = twin_side(c->codes, device),
                                  .row_scale = twin_side(c->scales, device),
                                  .code_max = code_max_of(c->form)};
}

/* Two that sum in another order round to 20 bits that are one unit apart at most. */
static void compare_tailed(const struct twin *t, int64_t rows, int64_t n)
{
    static float got[KILN_ROW_MAX], want[KILN_ROW_MAX];
    int64_t other = 0;
    for (int64_t row = 0; row < rows; row++) {
        kiln_unpack_tailed((const uint16_t *)(const void *)t->back + row * KILN_TAILED(n), n, got);
        kiln_unpack_tailed((const uint16_t *)(const void *)t->host + row * KILN_TAILED(n), n, want);
        for (int64_t i = 0; i < n; i++) {
            other += got[i] != want[i];
            if (fabsf(got[i] - want[i]) <= fabsf(want[i]) / 2048 + 1e-5f)
                continue;
            complain("%s: value %lld of row %lld is %.9g, not %.9g", t->what, (long long)i,
                     (long long)row, (double)got[i], (double)want[i]);
            return;
        }
    }
    if (other > 16 + rows * n / 20)
        complain("%s: %lld of %lld values differ", t->what, (long long)other,
                 (long long)(rows * n));
}

static void check_rms(int64_t rows, int64_t n, int form)
{
    struct rms_case c = {.rows = rows, .n = n, .form = form};
    struct test_random random = {(uint64_t)(n * 128 + form)};
    struct kiln_error err;
    if (!is_form(n, form))
        return;
    describe("%lld rows of %lld, form %d", (long long)rows, (long long)n, form);
    make_rms(&c, &random);
    twins_push(&c.set);
    const struct kiln_rms_norm host = rms_args(&c, false), device = rms_args(&c, true);
    if (launched(kiln_rms_norm_launch(&device, rows, NULL, &err), &err)) {
        kiln_rms_norm_ref(&host, 0, rows);
        twins_pull(&c.set);
        /* A value is at most 2 * 2 * sqrt(n) here, near 4 mostly: 8 covers a cancelled sum. */
        if (c.y && form & ADD && form & TAILS)
            compare_tailed(c.y, rows, n);
        else if (c.y)
            compare_bf16(c.y, 1, 8);
        if (c.next)
            compare_bf16(c.next, 2, 8);
        if (c.codes)
            compare_e4m3(c.codes, c.scales, all_of(1, n, form), 2, 8);
        compare_untouched(c.gain);
    }
    twins_free(&c.set);
}

static void rms_norm(void)
{
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const int64_t n = widths[i];
        /* All forms where rows are short; every fifth, which meets each bit, where they are long.
         */
        for (int form = (int)i % 5; form < 128; form += n < 200 ? 1 : 5)
            check_rms(n < 200 ? 5 : 2, n, form);
    }
}

static int64_t processors(void)
{
    int device = 0, count = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
        complain("the device does not say how many multiprocessors it has");
    return count;
}

/* So many rows that blocks take several in turn, where the device has so many at once; and so many
 * that every block has one again. */
static int64_t rows_in_turn(void)
{
    return processors() * 11 + 1;
}
static int64_t rows_of_many(void)
{
    return processors() * 46 + 1;
}

static void rms_norm_of_many_rows(void)
{
    /* Around the widths that are taken in turn; each form that is, and those next to them. */
    static const int64_t turn_widths[] = {3072, 3080, 3840, 4096, 4104};
    static const int forms[] = {QUANTISED | ALONE,
                                QUANTISED | IN_PLACE,
                                QUANTISED | ADD | NEXT | IN_PLACE | ALONE,
                                QUANTISED | TAILS | ADD | NEXT,
                                TAILS,
                                TAILS | ADD | NEXT | IN_PLACE,
                                ADD | NEXT,
                                QUANTISED | NEXT | ALONE,
                                QUANTISED | ADD | NEXT | UNALIGNED};
    for (size_t i = 0; i < sizeof turn_widths / sizeof *turn_widths; i++)
        for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
            if (k < 7 || turn_widths[i] == 3840)
                check_rms(rows_in_turn(), turn_widths[i], forms[k]);
    check_rms(rows_of_many(), 3080, ADD | NEXT | QUANTISED | ALONE);
    check_rms(rows_of_many(), 4096, ADD | NEXT | IN_PLACE);
    check_rms(rows_of_many(), 3840, TAILS | ADD | NEXT | IN_PLACE);
    check_rms(rows_of_many(), 3840, 0);
    check_rms(rows_in_turn(), 2560, QUANTISED);
    check_rms(rows_of_many(), 2560, 0);
}

static void rms_norm_with_room(void)
{
    static const int64_t roomy_widths[] = {1, 17, 192, 193, 1024, 1032, 3840, 10240};
    static const int forms[] = {0,
                                ADD | QUANTISED,
                                QUANTISED | ALONE | LOW,
                                NEXT | IN_PLACE,
                                ADD | NEXT,
                                TAILS | ADD | NEXT,
                                ADD | NEXT | QUANTISED | IN_PLACE,
                                ADD | NEXT | QUANTISED | ALONE | LOW};
    for (size_t i = 0; i < sizeof roomy_widths / sizeof *roomy_widths; i++)
        for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
            check_rms(3, roomy_widths[i], forms[k] | ROOM);
            check_rms(3, roomy_widths[i], forms[k] | ODD_ROOM);
        }
    check_rms(rows_in_turn(), 3840, ROOM);
    check_rms(rows_in_turn(), 3840, TAILS | ADD | NEXT | IN_PLACE | ROOM);
    check_rms(rows_in_turn(), 3840, QUANTISED | ALONE | ROOM | LOW);
    check_rms(rows_in_turn(), 3840, ADD | NEXT | QUANTISED | ALONE | ROOM | LOW);
    check_rms(rows_of_many(), 3840, TAILS | ADD | NEXT | ROOM);
    check_rms(rows_of_many(), 3840, ROOM);
    check_rms(rows_of_many(), 3840, ADD | NEXT | IN_PLACE | ROOM);
    check_rms(rows_of_many(), 3840, ADD | NEXT | QUANTISED | ALONE | ROOM | LOW);
}

/* What the device left is wanted from now on, and has to be written again. */
static void want_again(struct twin *t)
{
    if (!t)
        return;
    memcpy(t->host, t->back, t->bytes);
    if (cudaMemset(t->device, 0x55, t->bytes) != cudaSuccess)
        complain("%s: no memset", t->what);
}

static void want_all_again(const struct rms_case *c)
{
    want_again(c->y), want_again(c->next), want_again(c->codes), want_again(c->scales);
}

static void compare_all(const struct rms_case *c)
{
    struct twin *const results[] = {c->y, c->next, c->codes, c->scales};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i])
            compare_bytes(results[i], 0, 0);
}

/* Quantised in the same pass or by another: other kernels, and not a bit of difference. */
static void check_passes_agree(int64_t rows, int64_t n, int form)
{
    struct rms_case c = {.rows = rows, .n = n, .form = form | QUANTISED};
    struct test_random random = {(uint64_t)(n * 128 + form)};
    struct kiln_error err;
    describe("two passes, %lld rows of %lld, form %d", (long long)rows, (long long)n, form);
    make_rms(&c, &random);
    twins_push(&c.set);
    struct kiln_rms_norm args = rms_args(&c, true);
    const struct kiln_quantise quantise = {.x = args.next ? args.next : args.y,
                                           .quantised = args.quantised,
                                           .row_scale = args.row_scale,
                                           .n = n,
                                           .format = KILN_BF16};
    if (launched(kiln_rms_norm_launch(&args, rows, NULL, &err), &err)) {
        twins_pull(&c.set);
        want_all_again(&c);
        args.quantised = NULL;
        if (launched(kiln_rms_norm_launch(&args, rows, NULL, &err), &err) &&
            launched(kiln_quantise_launch(&quantise, rows, NULL, &err), &err)) {
            twins_pull(&c.set);
            compare_all(&c);
        }
    }
    twins_free(&c.set);
}

static void rms_norm_in_one_pass_or_two(void)
{
    static const int forms[] = {0, ADD | NEXT, TAILS | ADD | NEXT, ADD};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        check_passes_agree(rows_in_turn(), 3840, forms[i]);
        check_passes_agree(2, 3104, forms[i]);
    }
}

/* The args from a row on. */
static struct kiln_rms_norm rms_from(const struct kiln_rms_norm *args, int64_t row)
{
    struct kiln_rms_norm a = *args;
    const int64_t at = row * a.n, in_stream = a.tails ? row * KILN_TAILED(a.n) : at;
    a.x = (const uint16_t *)a.x + (a.add ? at : in_stream);
    a.y = a.y ? (uint16_t *)a.y + (a.add ? in_stream : at) : NULL;
    a.add = a.add ? (const uint16_t *)a.add + in_stream : NULL;
    a.next = a.next ? (uint16_t *)a.next + at : NULL;
    a.quantised = a.quantised ? a.quantised + at : NULL;
    a.row_scale = a.row_scale ? a.row_scale + row : NULL;
    return a;
}

/* All rows at once, each by a block of its own, or so few that they are taken in turn. */
static void check_rows_agree(int64_t n, int form)
{
    const int64_t slice = rows_in_turn();
    struct rms_case c = {.rows = rows_of_many(), .n = n, .form = form};
    struct test_random random = {(uint64_t)(n * 128 + form)};
    struct kiln_error err;
    describe("%lld rows of %lld and fewer at once, form %d", (long long)c.rows, (long long)n, form);
    make_rms(&c, &random);
    twins_push(&c.set);
    const struct kiln_rms_norm args = rms_args(&c, true);
    if (launched(kiln_rms_norm_launch(&args, c.rows, NULL, &err), &err)) {
        twins_pull(&c.set);
        want_all_again(&c);
        for (int64_t row = 0; row < c.rows; row += slice) {
            const struct kiln_rms_norm some = rms_from(&args, row);
            const int64_t left = c.rows - row;
            launched(kiln_rms_norm_launch(&some, left < slice ? left : slice, NULL, &err), &err);
        }
        twins_pull(&c.set);
        compare_all(&c);
    }
    twins_free(&c.set);
}

static void rms_norm_of_rows_in_company(void)
{
    check_rows_agree(3840, ADD | NEXT | QUANTISED);
    check_rows_agree(3080, ADD | NEXT);
    check_rows_agree(3840, TAILS | ADD | NEXT);
    check_rows_agree(3840, 0);
}

static void rms_norm_of_zeros_and_nan(void)
{
    struct kiln_error err;
    struct rms_case c = {.rows = 3, .n = 64, .form = QUANTISED};
    make_rms(&c, NULL);
    describe("a row of zeros, one with an infinity, one with a NaN");
    for (int i = 0; i < 64; i++)
        ((float *)(void *)c.gain->host)[i] = 1;
    ((uint16_t *)c.x->host)[64 + 5] = 0x7f80;
    ((uint16_t *)c.x->host)[128 + 7] = 0x7fc0;
    twins_push(&c.set);
    const struct kiln_rms_norm host = rms_args(&c, false), device = rms_args(&c, true);
    if (launched(kiln_rms_norm_launch(&device, 3, NULL, &err), &err)) {
        kiln_rms_norm_ref(&host, 0, 3);
        twins_pull(&c.set);
        compare_bf16(c.y, 1, 0);
        compare_e4m3(c.codes, c.scales, 64, 1, 0);
    }
    twins_free(&c.set);
}

static void rms_norm_refuses(void)
{
    struct kiln_error err;
    _Alignas(16) float memory[8] = {0};
    struct kiln_rms_norm args = {
        .x = memory, .gain = memory, .y = memory, .n = 4, .format = KILN_BF16};
    refused(kiln_rms_norm_launch(&args, 0, NULL, &err), KILN_OK, &err);
    args.pitch = 4;
    refused(kiln_rms_norm_launch(&args, 0, NULL, &err), KILN_OK, &err);
    args.pitch = 3;
    refused(kiln_rms_norm_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
    args.pitch = 8; /* in the place of x */
    refused(kiln_rms_norm_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
    args.next_gain = memory + 2,
    args.next = memory + 2; /* of the next norm, and y stays where x is */
    refused(kiln_rms_norm_launch(&args, 0, NULL, &err), KILN_OK, &err);
    args.next_gain = NULL, args.next = NULL;
    args.x = memory + 2, args.add = memory;
    refused(kiln_rms_norm_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
    args.x = memory, args.add = NULL, args.pitch = 0;
    refused(kiln_rms_norm_launch(&args, -1, NULL, &err), KILN_BAD_INPUT, &err);
    refused(kiln_rms_norm_launch(&args, (int64_t)1 << 40, NULL, &err), KILN_UNSUPPORTED, &err);
    args.n = KILN_ROW_MAX + 1;
    refused(kiln_rms_norm_launch(&args, 1, NULL, &err), KILN_UNSUPPORTED, &err);
    args.n = 4, args.tails = true;
    refused(kiln_rms_norm_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err); /* in place */
    args.x = memory + 4;
    refused(kiln_rms_norm_launch(&args, 1, NULL, &err), KILN_UNSUPPORTED, &err);
    args.n = 8, args.x = memory + 2;
    refused(kiln_rms_norm_launch(&args, 1, NULL, &err), KILN_UNSUPPORTED, &err);
    args.n = 4;
    args.next_gain = memory + 2, args.next = memory + 2;
    refused(kiln_rms_norm_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
    args.next_gain = NULL, args.next = NULL;
    args.x = memory + 1, args.add = memory + 2, args.pitch = 8;
    refused(kiln_rms_norm_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
    args.pitch = 0, args.quantised = (uint8_t *)memory, args.row_scale = memory;
    refused(kiln_rms_norm_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
    args.quantised = NULL, args.row_scale = NULL;
    args.x = memory, args.add = NULL, args.tails = false;
    args.format = KILN_F32;
    refused(kiln_rms_norm_launch(&args, 1, NULL, &err), KILN_UNSUPPORTED, &err);
    args.format = KILN_BF16;
    args.y = NULL;
    refused(kiln_rms_norm_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
    args.quantised = (uint8_t *)memory;
    refused(kiln_rms_norm_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
    args.row_scale = memory, args.code_max = 449;
    refused(kiln_rms_norm_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
    args.code_max = -1;
    refused(kiln_rms_norm_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
}

/* What is no number stays none in the four more bits, whatever the bits of it are. */
static void rms_norm_of_nan_in_tails(void)
{
    enum { ROWS = 4, N = 64 };
    struct kiln_error err;
    struct test_random random = {3};
    struct rms_case c = {.rows = ROWS, .n = N, .form = TAILS | ADD | NEXT};
    float got[N];
    make_rms(&c, &random);
    describe("a stream with an infinity, with NaN of two kinds; a term with NaN");
    uint16_t *stream = (uint16_t *)(void *)c.add->host;
    stream[5] = 0x7f80;
    ((uint8_t *)(stream + N))[2] &= 0x0f;
    stream[KILN_TAILED(N) + 5] = 0x7fff;
    ((uint8_t *)(stream + KILN_TAILED(N) + N))[2] = 0xff;
    stream[2 * KILN_TAILED(N) + 5] = 0xffff;
    ((uint16_t *)(void *)c.x->host)[3 * N + 5] = 0x7fff;
    twins_push(&c.set);
    const struct kiln_rms_norm host = rms_args(&c, false), device = rms_args(&c, true);
    if (launched(kiln_rms_norm_launch(&device, ROWS, NULL, &err), &err)) {
        kiln_rms_norm_ref(&host, 0, ROWS);
        twins_pull(&c.set);
        for (int side = 0; side < 2; side++)
            for (int64_t row = 0; row < ROWS; row++) {
                const unsigned char *from = side ? c.y->back : c.y->host;
                kiln_unpack_tailed((const uint16_t *)(const void *)from + row * KILN_TAILED(N), N,
                                   got);
                if (row == 0 ? !isinf(got[5]) : !isnan(got[5]))
                    complain("row %lld: %g on the %s", (long long)row, (double)got[5],
                             side ? "device" : "host");
            }
        compare_bf16(c.next, 2, 8);
    }
    twins_free(&c.set);
}

const struct kernel_test norm_tests[] = {
    {"rms_norm", rms_norm},
    {"rms_norm_of_many_rows", rms_norm_of_many_rows},
    {"rms_norm_with_room", rms_norm_with_room},
    {"rms_norm_in_one_pass_or_two", rms_norm_in_one_pass_or_two},
    {"rms_norm_of_rows_in_company", rms_norm_of_rows_in_company},
    {"rms_norm_of_zeros_and_nan", rms_norm_of_zeros_and_nan},
    {"rms_norm_of_nan_in_tails", rms_norm_of_nan_in_tails},
    {"rms_norm_refuses", rms_norm_refuses},
    {NULL, NULL},
};
