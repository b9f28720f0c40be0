/* test_ops_cuda.c - the transformer's operations on cuda:0 in bf16, beside the CPU.
 *
 *     test_ops_cuda [PART]     only the groups whose name contains PART
 *
 * Against the CPU in bf16, which rounds at the same places, where an operation goes value by value;
 * against fp32 where it sums products.  Small odd shapes, the demo model's, and those of
 * Z-Image-Turbo at 1024 px; fp32 on the GPU is the reference where the CPU would take too long.
 * Exit 0: all agree; 1: some do not; 69: there is no usable GPU.
 */
#include <math.h>
#include <stdio.h>

#include "pipeline/torch/low_rank.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/ops_rig.h"

#define ONE_ROUNDING 3e-3 /* of a result to bf16, as a vector: 1.7e-3 and some room */

static const struct shape {
    int64_t rows, n;
} shapes[] = {{5, 1}, {3, 7}, {7, 193}, {33, 240}, {160, 1000}, {1152, 3840}, {4224, 3840}};
#define EACH_SHAPE(p)                                                                              \
    for (const struct shape *p = shapes; p < shapes + sizeof shapes / sizeof *shapes; p++)

/* --- norms ------------------------------------------------------------------------------------ */

/* A vector of n values as blocks have it: cut out of one long row, off its start. */
static kt gain(struct kt_scope *s, uint64_t seed, int64_t n)
{
    return kt_narrow(s, operand(s, KT_F32, seed, 1, 1, 3 * n), 1, n, n);
}

/* Rows of the residual stream, with tails where they can have them. */
static kt stream(struct kt_scope *s, const struct shape *p, bool tails)
{
    kt x = operand(s, KT_BF16, 1, 4, p->rows, p->n);
    return tails ? kt_with_tails(s, x) : x;
}

static kt norm(struct kt_scope *s, const struct shape *p, bool tails, struct kt_form form)
{
    return kt_rms_norm(s, stream(s, p, tails), gain(s, 2, p->n), 1e-5, form);
}

/* Quantised rows: their numbers against those of the CPU, and against the rows unquantised. */
static void check_codes(struct sides *s, const char *what, kt got, kt want)
{
    kt plain = kt_to(s->gpu, got, KT_F32), reference = kt_to(s->cpu, want, KT_F32);
    check_relative(s, what, plain, reference, 1e-2);
}

/* Rows that are to have room have it. */
static void check_room(kt got, struct kt_form form)
{
    verdict(kt_room(got) == form.room, part("room"), kt_room(got) == form.room ? "yes" : "no");
}

static void rms_norm(void)
{
    EACH_SHAPE(p)
    for (int form = 0; form < 4; form++) {
        struct sides s = sides_open();
        const bool tails = form & 1;
        const struct kt_form as = {.e4m3 = form & 2, .room = form & 2 ? form % 2 * 128 : 64};
        LABEL("rms_norm %lldx%lld%s%s", (long long)p->rows, (long long)p->n, tails ? " tails" : "",
              as.e4m3 ? " e4m3" : "");
        kt got = norm(s.gpu, p, tails, as), want = norm(s.cpu, p, tails, as);
        check_room(got, as);
        if (as.e4m3)
            check_codes(&s, label, got, want);
        else
            check_rounded(&s, label, got, want, 3, 1);
        sides_close(&s, label);
    }
}

enum { TAILS = 1, NEXT = 2, CODES = 4, ROOM = 8 };

static void residual(struct kt_scope *s, const struct shape *p, int form, kt ret[2])
{
    struct kt_residual_norm a = {.x = stream(s, p, form & TAILS),
                                 .y = operand(s, KT_BF16, 2, 64, p->rows, p->n),
                                 .gain = gain(s, 4, p->n),
                                 .eps = 1e-5};
    if (form & NEXT) {
        a.next_gain = gain(s, 6, p->n);
        a.next_form = (struct kt_form){.e4m3 = form & CODES, .room = form & ROOM ? 128 : 0};
    }
    kt_add_rms_norm(s, &a, &ret[0], &ret[1]);
}

static void add_rms_norm(void)
{
    static const int forms[] = {
        0, TAILS, NEXT, NEXT | TAILS | ROOM, NEXT | CODES, NEXT | TAILS | CODES | ROOM};
    EACH_SHAPE(p)
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct sides s = sides_open();
        const int form = forms[i];
        kt got[2], want[2];
        residual(s.gpu, p, form, got);
        residual(s.cpu, p, form, want);
        LABEL("add_rms_norm %lldx%lld%s%s%s", (long long)p->rows, (long long)p->n,
              form & TAILS ? " tails" : "", form & NEXT ? " +next" : "",
              form & CODES ? " e4m3" : "");
        verdict(kt_size(got[0], 1) == kt_size(want[0], 1), part("columns"), "as the CPU's");
        for (int side = 0; side < 2; side++) {
            kt *sum = side ? got : want; /* whose upper parts are cut, one unit apart at most */
            sum[0] = kt_narrow(side ? s.gpu : s.cpu, sum[0], 1, 0, p->n);
        }
        check_rounded(&s, label, got[0], want[0], 3, 4);
        if (form & NEXT)
            check_room(got[1], (struct kt_form){.room = form & ROOM ? 128 : 0});
        if (form & CODES)
            check_codes(&s, part("next"), got[1], want[1]);
        else if (form & NEXT)
            check_rounded(&s, part("next"), got[1], want[1], 8, 2);
        sides_close(&s, label);
    }
}

static void layer_norm(void)
{
    EACH_SHAPE(p)
    {
        for (int tails = 0; tails < 2; tails++) {
            struct sides s = sides_open();
            LABEL("layer_norm %lldx%lld%s", (long long)p->rows, (long long)p->n,
                  tails ? " tails" : "");
            kt y[2];
            for (int side = 0; side < 2; side++) {
                struct kt_scope *at = side ? s.gpu : s.cpu;
                y[side] = kt_layer_norm_scale(at, stream(at, p, tails), 1e-6, gain(at, 2, p->n));
            }
            check_relative(&s, label, y[1], y[0], 2 * ONE_ROUNDING);
            sides_close(&s, label);
        }
    }
}

static void swiglu(void)
{
    static const struct shape gates[] = {{3, 7}, {33, 640}, {160, 1001}, {4224, 10240}};
    for (int i = 0; i < 8; i++) {
        const struct shape *p = &gates[i / 2];
        const struct kt_form as = {.e4m3 = i % 2, .room = i % 4 == 1 ? 128 : 64};
        struct sides s = sides_open();
        LABEL("swiglu %lldx%lld%s", (long long)p->rows, (long long)p->n, as.e4m3 ? " e4m3" : "");
        kt got = kt_swiglu(s.gpu, operand(s.gpu, KT_BF16, 1, 4, p->rows, 2 * p->n), as);
        kt want = kt_swiglu(s.cpu, operand(s.cpu, KT_BF16, 1, 4, p->rows, 2 * p->n), as);
        check_room(got, as);
        if (as.e4m3)
            check_codes(&s, label, got, want);
        else
            check_rounded(&s, label, got, want, 2, 1);
        sides_close(&s, label);
    }
}

/* --- products --------------------------------------------------------------------------------- */

static const struct product {
    int64_t m, k, n;
    bool bias;
} products[] = {{5, 48, 32, true},          {37, 240, 720, false},     {160, 640, 240, false},
                {1152, 3840, 11520, false}, {4224, 3840, 3840, false}, {4224, 3840, 20480, false},
                {4224, 10240, 3840, false}, {4096, 3840, 64, true},    {64, 2560, 6144, false},
                {3, 33, 17, true}};
#define EACH_PRODUCT(p)                                                                            \
    for (const struct product *p = products; p < products + sizeof products / sizeof *products; p++)

enum form { PLAIN, E4M3, OF_CODES }; /* the last: quantised numbers, multiplied as plain ones */

/* Of a product of codes with fast accumulation.  The tensor cores add 32 products at a time to a
 * sum of which they keep 14 bits.  The rest is cut off, half a unit on average and always towards
 * the same side, so that these errors add up as numbers do and not as noise. */
static double fast_sums(int64_t k)
{
    return ONE_ROUNDING + (double)k / 32 / (1 << 14);
}

static kt product(struct kt_scope *s, const struct product *p, enum kt_dtype dtype, enum form form)
{
    kt x = operand(s, dtype, 1, 1, p->m, p->k), w = operand(s, dtype, 2, 0.03125, p->n, p->k);
    if (form != PLAIN)
        x = kt_quantise_rows(s, x), w = kt_quantise_rows(s, w);
    if (form == OF_CODES)
        x = kt_to(s, x, dtype), w = kt_to(s, w, dtype);
    return kt_linear(s, x, w, p->bias ? operand(s, dtype, 3, 1, p->n, 0) : NULL);
}

static void linear(void)
{
    EACH_PRODUCT(p)
    for (enum form form = PLAIN; form <= E4M3; form++) {
        struct sides s = sides_open(), one = {s.gpu, s.gpu};
        LABEL("linear %lldx%lldx%lld%s%s", (long long)p->m, (long long)p->k, (long long)p->n,
              p->bias ? " bias" : "", form == E4M3 ? " e4m3" : "");
        kt got = product(s.gpu, p, KT_BF16, form);
        /* Both operands rounded to 4 bits: 2.6e-2 each. */
        check_relative(&one, label, got, product(s.gpu, p, KT_F32, PLAIN),
                       form == E4M3 ? 5e-2 : ONE_ROUNDING);
        if (form == E4M3)
            check_relative(&one, part("of the codes"), got, product(s.gpu, p, KT_F32, OF_CODES),
                           fast_sums(p->k));
        check_same(&s, part("again"), product(s.gpu, p, KT_BF16, form), got);
        sides_close(&s, label);
    }
}

static void quantise(void)
{
    EACH_SHAPE(p)
    {
        struct sides s = sides_open();
        LABEL("quantise_rows %lldx%lld", (long long)p->rows, (long long)p->n);
        kt got = kt_quantise_rows(s.gpu, operand(s.gpu, KT_BF16, 1, 64, p->rows, p->n));
        kt want = kt_quantise_rows(s.cpu, operand(s.cpu, KT_BF16, 1, 64, p->rows, p->n));
        check_relative(&s, label, kt_to(s.gpu, got, KT_F32), kt_to(s.cpu, want, KT_F32), 1e-6);
        sides_close(&s, label);
    }
}

/* What a product of low rank leaves of y, which is the right part of wider rows where there is a
 * gap: those. */
static kt with_low_rank(struct kt_scope *s, enum kt_dtype dtype, int64_t rank, int64_t gap)
{
    kt rows = operand(s, dtype, 1, 1, 1152, gap + 3840);
    kt lora = kt_linear(s, operand(s, dtype, 2, 1, 1152, 3840),
                        operand(s, dtype, 3, 0.03125, rank, 3840), NULL);
    kt_add_product(s, gap ? kt_narrow(s, rows, 1, gap, 3840) : rows, lora,
                   operand(s, dtype, 4, 0.25, 3840, rank));
    return rows;
}

static void low_rank(void)
{
    static const int64_t ranks[] = {1, 48, 768}, gaps[] = {0, 4};
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < 2; k++) {
            struct sides s = sides_open();
            LABEL("add_product 1152x3840, rank %lld, gap %lld", (long long)ranks[i],
                  (long long)gaps[k]);
            check_relative(&s, label, with_low_rank(s.gpu, KT_BF16, ranks[i], gaps[k]),
                           with_low_rank(s.cpu, KT_F32, ranks[i], gaps[k]), 2 * ONE_ROUNDING);
            sides_close(&s, label);
        }
}

/* With what is no number in it. */
static void make_spoilt_room(struct kt_scope *s, kt x, int64_t columns)
{
    kt_make_room(s, x, columns);
    kt behind = kt_narrow(s, kt_widened(s, x, columns), 1, kt_size(x, 1), columns);
    kt_copy_into(s, behind, kt_affine(s, behind, 0, NAN));
}

/* One product for both, of rows with room and of rows without, beside the weight's alone and the
 * low-rank one behind it. */
static void beside(void)
{
    static const struct {
        int64_t rows, n, out, rank;
    } cases[] = {{7, 64, 96, 16}, {300, 3840, 1536, 48}, {1152, 3840, 3840, 144}, {33, 240, 96, 5}};
    for (int i = 0; i < 8; i++) {
        const int64_t rows = cases[i / 2].rows, n = cases[i / 2].n, out = cases[i / 2].out;
        const int64_t rank = cases[i / 2].rank;
        const bool room = i % 2;
        struct sides s = sides_open();
        LABEL("beside %lldx%lldx%lld, rank %lld%s", (long long)rows, (long long)n, (long long)out,
              (long long)rank, room ? ", room" : "");
        kt y[2];
        for (int side = 0; side < 2; side++) {
            struct kt_scope *at = side ? s.gpu : s.cpu;
            const enum kt_dtype dtype = side && rows > 7 ? KT_BF16 : KT_F32;
            kt x = operand(at, dtype, 1, 1, rows, n);
            kt weight = operand(at, dtype, 2, 0.0625, out, n);
            make_spoilt_room(at, weight, rank + 16);
            kt down = operand(at, dtype, 3, 0.03125, rank, n);
            kt up = operand(at, dtype, 4, 0.25, out, rank), wide = kt_widened(at, weight, rank);
            kt_put_beside(at, wide, NULL, up, down);
            y[side] = kt_linear(at, x, weight, NULL);
            if (side && room)
                make_spoilt_room(at, x, rank + 16);
            if (side)
                y[side] = kt_linear(at, kt_beside(at, x, down), wide, NULL);
            else
                kt_add_product(at, y[side], kt_linear(at, x, down, NULL), up);
        }
        check_relative(&s, label, y[1], y[0], 2 * ONE_ROUNDING);
        sides_close(&s, label);
    }
}

/* The same in codes: what is added to the product is off as codes are, and without it not a bit
 * changes where a weight has moved.  Rows without room have no larger codes free either: they get
 * less. */
static void beside_codes(void)
{
    static const struct {
        int64_t rows, n, out, rank;
    } cases[] = {{17, 256, 96, 16},      {300, 3840, 1536, 48}, {1152, 3840, 3840, 16},
                 {1152, 10240, 960, 80}, {4224, 3840, 960, 48}, {4224, 3840, 960, 192}};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const int64_t rows = cases[i / 2].rows, n = cases[i / 2].n, out = cases[i / 2].out;
        const int64_t rank = cases[i / 2].rank, room = i % 2 ? (rank + 127) / 128 * 128 : 0;
        struct sides s = sides_open(), gpu = {s.gpu, s.gpu};
        LABEL("beside, in codes %lldx%lldx%lld, rank %lld%s", (long long)rows, (long long)n,
              (long long)out, (long long)rank, room ? ", room" : "");
        const struct kt_form as = {.e4m3 = true, .room = room};
        kt x = kt_rms_norm(s.gpu, operand(s.gpu, KT_BF16, 1, 4, rows, n),
                           operand(s.gpu, KT_F32, 2, 1, n, 0), 1e-5, as);
        kt down = operand(s.gpu, KT_BF16, 3, 0.03125, rank, n);
        kt up = operand(s.gpu, KT_BF16, 4, room ? 0.25 : 0.03125, out, rank);
        kt codes = kt_quantise_rows(s.gpu, down);
        kt weight = kt_quantise_rows(s.gpu, operand(s.gpu, KT_BF16, 5, 0.0625, out, n));
        kt alone = kt_linear(s.gpu, x, weight, NULL);
        kt_make_room(s.gpu, weight, (rank + 127) / 128 * 128);
        check_same(&s, part("moved"), kt_linear(s.gpu, x, weight, NULL), alone);
        kt both = kt_widened(s.gpu, weight, rank);
        kt_put_beside(s.gpu, both, codes, up, down);
        kt y = kt_linear(s.gpu, kt_beside(s.gpu, x, codes), both, NULL);
        kt added = kt_add(s.gpu, kt_to(s.gpu, y, KT_F32),
                          kt_affine(s.gpu, kt_to(s.gpu, alone, KT_F32), -1, 0));
        kt lora = kt_linear(s.gpu, kt_to(s.gpu, x, KT_F32), kt_to(s.gpu, down, KT_F32), NULL);
        check_room(x, as);
        check_relative(&gpu, label, added, kt_linear(s.gpu, lora, kt_to(s.gpu, up, KT_F32), NULL),
                       0.08);
        sides_close(&s, label);
    }
}

/* Rows of noise with so many columns more, in rows that have room for them and further ones. */
static kt widened(struct kt_scope *s, uint64_t seed, double size, int64_t rows, int64_t n,
                  int64_t columns)
{
    kt x = operand(s, KT_BF16, seed, size, rows, n);
    make_spoilt_room(s, x, columns + 16);
    kt wide = kt_widened(s, x, columns);
    kt_copy_into(s, kt_narrow(s, wide, 1, n, columns),
                 operand(s, KT_BF16, seed + 1, size, rows, columns));
    return wide;
}

/* A gate within its product has the bits of the two one after the other.  From 2,048 rows on it has
 * a kernel of its own on some cards; tiles of 128 rows are of an even number and an odd one. */
static void linear_swiglu(void)
{
    static const struct {
        int64_t rows, k, columns, n;
    } cases[] = {{37, 240, 16, 96},       {1152, 3840, 48, 10240}, {2048, 3840, 16, 10240},
                 {2100, 3840, 48, 10240}, {4225, 3840, 16, 5128},  {4224, 3840, 16, 10240},
                 {9216, 3840, 16, 10240}};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const int64_t rows = cases[i / 2].rows, k = cases[i / 2].k, n = cases[i / 2].n;
        const int64_t columns = i % 2 ? cases[i / 2].columns : 0;
        const struct kt_form as = {.room = i % 2 ? 64 : 0};
        struct sides s = sides_open();
        LABEL("linear_swiglu %lldx%lldx%lld, %lld columns more", (long long)rows, (long long)k,
              (long long)n, (long long)columns);
        kt x = columns ? widened(s.gpu, 1, 1, rows, k, columns)
                       : operand(s.gpu, KT_BF16, 1, 1, rows, k);
        kt weight = columns ? widened(s.gpu, 3, 0.03125, 2 * n, k, columns)
                            : operand(s.gpu, KT_BF16, 3, 0.03125, 2 * n, k);
        kt want = kt_swiglu(s.gpu, kt_linear(s.gpu, x, weight, NULL), as);
        kt again = kt_linear_swiglu(s.gpu, kt_keep(s.gpu, x), weight, 1, as);
        kt got = kt_linear_swiglu(s.gpu, x, weight, 1, as);
        check_room(got, as);
        check_same(&s, label, got, want);
        check_same(&s, part("again"), again, got);
        sides_close(&s, label);
    }
}

/* With a set beside the product that takes what is gated: the rows have the same bits, and behind
 * them is what the set's own kernel gives, but for the order of its sums. */
static void linear_swiglu_beside(void)
{
    static const struct {
        int64_t rows, k, n, rank;
    } cases[] = {{37, 240, 128, 16},      {1152, 3840, 10240, 16}, {4225, 3840, 5128, 16},
                 {4224, 3840, 10240, 16}, {4300, 3840, 10240, 16}, {2048, 240, 640, 16},
                 {2048, 3840, 10240, 32}, {2100, 3840, 10240, 48}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t rows = cases[i].rows, k = cases[i].k, n = cases[i].n, rank = cases[i].rank;
        struct sides s = sides_open();
        LABEL("linear_swiglu %lldx%lldx%lld, rank %lld behind", (long long)rows, (long long)k,
              (long long)n, (long long)rank);
        kt x = operand(s.gpu, KT_BF16, 1, 1, rows, k);
        kt weight = operand(s.gpu, KT_BF16, 3, 0.03125, 2 * n, k);
        kt down = operand(s.gpu, KT_BF16, 4, 0.0625, rank, n);
        const struct kt_form plain = {.room = 64}, as = {.room = 64, .down = down};
        kt want = kt_linear_swiglu(s.gpu, kt_keep(s.gpu, x), weight, 1, plain);
        kt got = kt_linear_swiglu(s.gpu, x, weight, 1, as);
        check_room(got, as);
        check_same(&s, label, got, want);
        kt lora[2] = {kt_beside(s.gpu, got, down), kt_beside(s.gpu, want, down)};
        for (int side = 0; side < 2; side++)
            lora[side] = kt_narrow(s.gpu, lora[side], 1, n, rank);
        check_relative(&s, part("lora"), lora[0], lora[1], ONE_ROUNDING);
        kt other = operand(s.gpu, KT_BF16, 5, 0.0625, rank, n), first = kt_copy(s.gpu, lora[1]);
        kt of_other = kt_narrow(s.gpu, kt_beside(s.gpu, got, other), 1, n, rank);
        check_same(&s, part("another set's"), of_other,
                   kt_narrow(s.gpu, kt_beside(s.gpu, want, other), 1, n, rank));
        kt_beside(s.gpu, got, down);
        check_same(&s, part("the first again"), lora[0], first);
        sides_close(&s, label);
    }
}

/* --- latents ---------------------------------------------------------------------------------- */

/* A latent [C,H,W] in fp32. */
static kt latent_of(struct kt_scope *s, int64_t c, int64_t h, int64_t w)
{
    return kt_reshape(s, operand(s, KT_F32, 1, 1, c, h * w), 3, (int64_t[]){c, h, w});
}

static void patches(void)
{
    static const int64_t sizes[][3] = {{16, 128, 128}, {16, 90, 160}, {4, 6, 10}, {3, 2, 2}};
    for (int i = 0; i < 8; i++) {
        const int64_t *z = sizes[i / 2], rows = z[1] / 2 * (z[2] / 2);
        const bool guided = i % 2;
        struct sides s = sides_open();
        kt tokens[2], moved[2], bad[2];
        for (int side = 0; side < 2; side++) {
            struct kt_scope *at = side ? s.gpu : s.cpu;
            tokens[side] = kt_patchify(at, latent_of(at, z[0], z[1], z[2]), 2, KT_BF16);
            moved[side] = latent_of(at, z[0], z[1], z[2]);
            bad[side] = kt_zeros(at, KT_I32, 1, (int64_t[]){1});
            const struct kt_euler_step step = {
                .latent = moved[side],
                .with = operand(at, KT_BF16, 2, 1, rows, z[0] * 4),
                .without = guided ? operand(at, KT_BF16, 3, 1, rows, z[0] * 4) : NULL,
                .stride = kt_from_host(at, &(float){-0.0625f}, KT_F32, KT_F32, 1, (int64_t[]){1}),
                .bad = bad[side],
                .guidance = 3.5,
                .patch = 2};
            kt_euler_step(at, &step);
        }
        LABEL("patchify %lldx%lldx%lld", (long long)z[0], (long long)z[1], (long long)z[2]);
        check_rounded(&s, label, tokens[1], tokens[0], 0, 0);
        LABEL("euler_step %lldx%lldx%lld%s", (long long)z[0], (long long)z[1], (long long)z[2],
              guided ? " guided" : "");
        check_relative(&s, label, moved[1], moved[0], 1e-6);
        check_rounded(&s, part("mark"), bad[1], bad[0], 0, 0);
        sides_close(&s, label);
    }
}

static void starts(void)
{
    static const int64_t sizes[][3] = {{64, 64, 16}, {128, 128, 16}, {45, 80, 16}, {8, 24, 3}};
    for (int i = 0; i < 4; i++) {
        const int64_t *z = sizes[i], c = z[2];
        struct sides s = sides_open();
        kt x[2];
        for (int side = 0; side < 2; side++) {
            struct kt_scope *at = side ? s.gpu : s.cpu;
            x[side] = kt_noised(at, latent_of(at, c, 64, 64), latent_of(at, c, z[0], z[1]), 0.75);
        }
        LABEL("noised %lldx64x64 to %lldx%lld", (long long)c, (long long)z[0], (long long)z[1]);
        check_relative(&s, label, x[1], x[0], 1e-6);
        sides_close(&s, label);
    }
}

/* Latents that have a picture in common, as donors of one prompt do. */
static kt donor(struct kt_scope *s, kt common, uint64_t seed, const int64_t *z)
{
    kt own = operand(s, KT_F32, seed, 1, z[2], z[0] * z[1]);
    return kt_add(s, common, kt_reshape(s, own, 3, (int64_t[]){z[2], z[0], z[1]}));
}

static void combined(void)
{
    static const int64_t sizes[][3] = {{64, 64, 16}, {128, 128, 16}, {45, 80, 16}, {3, 5, 3}};
    static const double weights[3] = {0.5, 0.3, 0.2};
    for (int i = 0; i < 4; i++) {
        const int64_t *z = sizes[i];
        struct sides s = sides_open();
        kt mixed[2], arc[2], change[2];
        for (int side = 0; side < 2; side++) {
            struct kt_scope *at = side ? s.gpu : s.cpu;
            kt common = latent_of(at, z[2], z[0], z[1]);
            const kt all[3] = {donor(at, common, 5, z), donor(at, common, 6, z), common};
            mixed[side] = kt_mixed(at, all, weights, 3);
            arc[side] = kt_slerp(at, all[0], all[1], 0.25);
            change[side] = kt_relative_difference(at, all[0], all[1]);
        }
        LABEL("combined %lldx%lldx%lld", (long long)z[2], (long long)z[0], (long long)z[1]);
        check_relative(&s, part("mean"), mixed[1], mixed[0], 1e-6);
        check_relative(&s, part("arc"), arc[1], arc[0], 1e-6);
        check_relative(&s, part("difference"), change[1], change[0], 1e-5);
        sides_close(&s, label);
    }
}

static void marks(void)
{
    struct sides s = sides_open();
    float mark = 0;
    const struct kt_euler_step step = {
        .latent = latent_of(s.gpu, 16, 8, 8),
        .with = kt_affine(s.gpu, operand(s.gpu, KT_BF16, 2, 1, 16, 64), INFINITY, 0),
        .stride = kt_from_host(s.gpu, &(float){-0.1f}, KT_F32, KT_F32, 1, (int64_t[]){1}),
        .bad = kt_zeros(s.gpu, KT_I32, 1, (int64_t[]){1}),
        .patch = 2};
    kt_euler_step(s.gpu, &step);
    kt_to_host_f32(s.gpu, step.bad, &mark, 1);
    verdict(mark == 1, "euler_step marks what is not finite", mark == 1 ? "marked" : "not marked");
    sides_close(&s, "euler_step marks what is not finite");
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {{"rms_norm", rms_norm},
                                          {"add_rms_norm", add_rms_norm},
                                          {"layer_norm", layer_norm},
                                          {"swiglu", swiglu},
                                          {"quantise_rows", quantise},
                                          {"linear", linear},
                                          {"low_rank", low_rank},
                                          {"beside", beside},
                                          {"beside, in codes", beside_codes},
                                          {"linear_swiglu", linear_swiglu},
                                          {"linear_swiglu beside", linear_swiglu_beside},
                                          {"patches", patches},
                                          {"starts", starts},
                                          {"combined", combined},
                                          {"non-finite marks", marks}};
    need_gpu();
    return run_groups(groups, sizeof groups / sizeof *groups, argc > 1 ? argv[1] : "") > 0;
}
