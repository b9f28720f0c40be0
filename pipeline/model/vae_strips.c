/* vae_strips.c - the levels at full size in strips of rows, the decoder's last one and the
 * encoder's first; see vae.h. At 2048 px in bf16 a picture of 128 channels is 1.1 GB.  In one piece
 * the last level has five of them at its peak.  In strips it has two, and the picture at half the
 * size:
 *
 *     half - grow -+- shortcut -----------------------(+)- x ...   kept: half, skip, h
 *                  +- norm - conv - h - norm - conv ---^
 * A 3x3 convolution needs a row above and a row below, so a strip's window has one more row on
 * either side, and results at edges of the window that are not edges of the picture are discarded.
 * A norm needs sums over the whole picture, which are taken while its strips are made.  The operand
 * of the first residual is upsampled twice, once for the sums and the shortcut and once for the
 * first convolution, rather than kept at twice the width.  The result of a residual overwrites its
 * shortcut strip by strip.
 *
 * All windows have one height, so that a GPU needs one plan for each convolution.
 */
#include "pipeline/model/vae_parts.h"

struct level {
    const struct kiln_vae *vae;
    kt half; /* the picture at half the size */
    const struct kiln_vae_layer *resample;
    int64_t height, width, rows;
};

/* Rows to be made, and the rows that they are made from. */
struct window {
    int64_t at, count;  /* made */
    int64_t from, rows; /* seen */
};

static int64_t at_least(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct window window_at(const struct level *l, int64_t at)
{
    struct window w = {.at = at, .count = at_most(l->rows, l->height - at)};
    w.rows = at_most(l->rows + 2, l->height);
    w.from = at_least(0, at_most(at - 1, l->height - w.rows));
    return w;
}

static kt rows_of(struct kt_scope *s, kt x, int64_t from, int64_t count)
{
    return kt_narrow(s, x, 2, from, count);
}

/* The rows of a window's result that are made. */
static kt made(struct kt_scope *s, const struct window *w, kt y)
{
    return rows_of(s, y, w->at - w->from, w->count);
}

static kt new_picture(const struct level *l, struct kt_scope *s, int64_t channels)
{
    return kt_picture(s, l->vae->dtype, channels, l->height, l->width);
}

static struct kt_strip_norm norm_of(const struct level *l, const struct kiln_vae_layer *n)
{
    return (struct kt_strip_norm){.norm = kiln_vae_norm(l->vae, n, true),
                                  .pixels = l->height * l->width};
}

/* Adds a strip to the sums, which live in `keep` and start with the first strip. */
static void sum_up(struct kt_scope *keep, struct kt_scope *s, struct kt_strip_norm *n, kt strip)
{
    if (!n->sums && strip) /* else s has failed */
        kt_strip_norm_start(keep, n, strip);
    kt_strip_norm_add(s, n, strip);
}

/* A window of the upsampled picture: from half as many rows, plus one on either side for the
 * convolution. */
static kt grow(const struct level *l, struct kt_scope *s, const struct window *w)
{
    int64_t rows = at_most(w->rows / 2 + 1, l->height / 2);
    int64_t from = at_least(0, at_most((w->from - 1) / 2, l->height / 2 - rows));
    kt y = kiln_vae_upsample(s, rows_of(s, l->half, from, rows), l->resample);
    return rows_of(s, y, w->from - 2 * from, w->rows);
}

/* Norm (unless NULL) and convolution of a picture, window by window, into `into`, plus `add` unless
 * that is NULL; also takes the sums of the next norm.  x: the picture, or NULL to upsample it. */
struct pass {
    kt x, into, add;
    const struct kt_strip_norm *norm;
    const struct kiln_vae_layer *conv;
    struct kt_strip_norm *next; /* or NULL */
};

static void run_pass(const struct level *l, struct kt_scope *s, const struct pass *p)
{
    for (int64_t at = 0; at < l->height; at += l->rows) {
        const struct window w = window_at(l, at);
        struct kt_scope *inner = kt_scope_child(s);
        kt x = p->x ? rows_of(inner, p->x, w.from, w.rows) : grow(l, inner, &w);
        kt normed = p->norm ? kt_strip_norm(inner, p->norm, x) : x;
        /* Rows of `add` that are overwritten already only affect discarded rows. */
        kt add = p->add ? rows_of(inner, p->add, w.from, w.rows) : NULL;
        kt y = made(inner, &w, kiln_vae_conv(inner, normed, p->conv, 1, add));
        kt_copy_into(inner, rows_of(inner, p->into, w.at, w.count), y);
        if (p->next)
            sum_up(s, inner, p->next, y);
        kt_scope_free(inner);
    }
}

/* The first residual's shortcut; also takes the sums of its first norm. */
static void start(const struct level *l, struct kt_scope *s, const struct kiln_vae_residual *r,
                  kt skip, struct kt_strip_norm *norm)
{
    for (int64_t at = 0; at < l->height; at += l->rows) {
        const struct window w = window_at(l, at);
        struct kt_scope *inner = kt_scope_child(s);
        kt x = made(inner, &w, grow(l, inner, &w));
        sum_up(s, inner, norm, x);
        if (r->shortcut.weight)
            x = kiln_vae_conv(inner, x, &r->shortcut, 0, NULL);
        kt_copy_into(inner, rows_of(inner, skip, w.at, w.count), x);
        kt_scope_free(inner);
    }
}

/* --- a residual in the memory of its operand ---------------------------------------------------
 * At 1024 px in bf16 the last upsampling gives a picture of 256 channels, 537 MB, and the residual
 * behind it reduces it to 128 channels.  The steps, and the memory of each:
 *
 *     x                      | shortcut     skip is made of x as it is
 *     normed x               | skip         in place
 *     h, window by window    | skip         into the front of x, behind the rows that are read
 *     normed h | conv of h + skip | skip    into the rest of x
 *     (let go)               | result       over the shortcut, so that x can go
 *
 * 805 MB and a window's result of 34, where operand, shortcut and h would be 1,074.
 */

bool kiln_vae_halves(const struct kiln_vae_residual *r, int64_t channels)
{
    const int64_t out = kt_size(r->conv1.weight, 0);
    return r->shortcut.weight && out > 0 && channels % out == 0 && channels / out >= 2;
}

kt kiln_vae_halving_residual(const struct kiln_vae *vae, struct kt_scope *s,
                             const struct kiln_vae_residual *r, kt x, int rows)
{
    const struct level l = {vae, NULL, NULL, kt_size(x, 2), kt_size(x, 3), rows};
    struct kt_scope *inner = kt_scope_child(s);
    kt sum = kiln_vae_conv(s, x, &r->shortcut, 0, NULL);
    kiln_vae_norm_over(vae, inner, x, &r->norm1);
    kt places = kt_pictures_in(inner, x, kt_size(r->conv1.weight, 0));
    kt h = kt_narrow(inner, places, 0, 0, 1);
    /* h is the front of x's own memory.  Its rows are at most half as long as those of x, so writes
     * end before the row above the next window.  The last window may start further up and read
     * overwritten rows; their results are discarded. */
    run_pass(&l, inner, &(struct pass){.x = x, .into = h, .conv = &r->conv1});
    kiln_vae_norm_over(vae, inner, h, &r->norm2);
    const struct kt_conv_args last = {.x = h,
                                      .weight = r->conv2.weight,
                                      .bias = r->conv2.bias,
                                      .stride = 1,
                                      .pad_before = 1,
                                      .pad_after = 1,
                                      .add = sum,
                                      .into = kt_narrow(inner, places, 0, 1, 1)};
    kt_copy_into(inner, sum, kt_conv2d(inner, &last));
    kt_scope_free(inner);
    kt_drop(s, x);
    return sum;
}

/* --- the last level --------------------------------------------------------------------------- */

kt kiln_vae_last_level(const struct kiln_vae *vae, struct kt_scope *s, kt x, int rows)
{
    const struct kiln_vae_half *half = &vae->decoder;
    const struct kiln_vae_level *level = &half->levels[vae->config.levels - 1];
    const struct level l = {vae,
                            x,
                            &half->levels[vae->config.levels - 2].resample,
                            2 * kt_size(x, 2),
                            2 * kt_size(x, 3),
                            rows};
    const int64_t channels = kt_size(level->residuals[0].conv1.weight, 0);
    kt sum = new_picture(&l, s, channels), h = new_picture(&l, s, channels);
    struct kt_strip_norm norm = norm_of(&l, &level->residuals[0].norm1);
    start(&l, s, &level->residuals[0], sum, &norm);
    for (int i = 0; i < level->count; i++) {
        const struct kiln_vae_residual *r = &level->residuals[i];
        const bool last = i + 1 == level->count;
        struct kt_strip_norm inner = norm_of(&l, &r->norm2);
        struct kt_strip_norm next = norm_of(&l, last ? &half->norm_out : &r[1].norm1);
        run_pass(&l, s, &(struct pass){i ? sum : NULL, h, NULL, &norm, &r->conv1, &inner});
        run_pass(&l, s, &(struct pass){h, sum, sum, &inner, &r->conv2, &next});
        norm = next;
        if (i == 0)
            kt_drop(s, x);
    }
    kt_drop(s, h);
    kt picture = new_picture(&l, s, vae->config.image_channels);
    run_pass(&l, s, &(struct pass){sum, picture, NULL, &norm, &half->out, NULL});
    return picture;
}

/* --- the encoder's first level ------------------------------------------------------------------
 * It keeps its width, so its residuals have no shortcut but x itself.  Its downsampling runs in
 * strips as well: a convolution that pads on two sides only copies its operand. */

/* A strip of the result reads twice as many rows and one more, which at the bottom is zeros. */
static kt shrink(const struct level *l, struct kt_scope *s, kt x,
                 const struct kiln_vae_layer *halve)
{
    const struct level half = {l->vae, NULL, NULL, l->height / 2, l->width / 2, l->rows / 2};
    kt y = new_picture(&half, s, kt_size(halve->weight, 0));
    for (int64_t at = 0; at < half.height; at += half.rows) {
        const int64_t count = at_most(half.rows, half.height - at);
        struct kt_scope *inner = kt_scope_child(s);
        const struct kt_conv_args args = {
            .x = rows_of(inner, x, 2 * at, at_most(2 * count + 1, l->height - 2 * at)),
            .weight = halve->weight,
            .bias = halve->bias,
            .stride = 2,
            .pad_after = 1};
        kt_copy_into(inner, rows_of(inner, y, at, count), kt_conv2d(inner, &args));
        kt_scope_free(inner);
    }
    kt_drop(s, x);
    return y;
}

kt kiln_vae_first_level(const struct kiln_vae *vae, struct kt_scope *s, kt picture, int rows)
{
    const struct kiln_vae_half *half = &vae->encoder;
    const struct kiln_vae_level *level = &half->levels[0];
    const struct level l = {vae, NULL, NULL, kt_size(picture, 2), kt_size(picture, 3), rows};
    const int64_t channels = kt_size(half->in.weight, 0);
    kt x = new_picture(&l, s, channels), h = new_picture(&l, s, channels);
    struct kt_strip_norm norm = norm_of(&l, &level->residuals[0].norm1);
    run_pass(&l, s, &(struct pass){picture, x, NULL, NULL, &half->in, &norm});
    for (int i = 0; i < level->count; i++) {
        const struct kiln_vae_residual *r = &level->residuals[i];
        const bool last = i + 1 == level->count;
        struct kt_strip_norm inner = norm_of(&l, &r->norm2), next = {0};
        if (!last)
            next = norm_of(&l, &r[1].norm1);
        run_pass(&l, s, &(struct pass){x, h, NULL, &norm, &r->conv1, &inner});
        run_pass(&l, s, &(struct pass){h, x, x, &inner, &r->conv2, last ? NULL : &next});
        norm = next;
    }
    kt_drop(s, h);
    return level->resample.weight ? shrink(&l, s, x, &level->resample) : x;
}
