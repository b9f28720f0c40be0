/* tensor.h - LibTorch's tensors for C: everything that model code knows about the library.
 *
 * A tensor is a handle that lives in a scope; freeing the scope frees its tensors.  Every operation
 * puts its result into the scope it is given.  It changes its operands only where its comment says
 * "Changes".  Errors are sticky: the first one stays in the scope, and later operations do nothing
 * and return NULL.  So model code reads like mathematics and checks once, at the end, with
 * kt_scope_check().  No C++ exception leaves this header's functions.
 *
 * A scope has a device, on which its operands must be.  One thread at a time uses a scope.
 *
 * Quantised rows are one tensor: KT_E4M3, a matrix with one fp32 factor for each row.  Products
 * take them on either side; kt_to() makes plain numbers of them again.
 */
#ifndef KILN_TENSOR_H
#define KILN_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kt_dtype { KT_F32, KT_BF16, KT_F16, KT_U8, KT_I64, KT_I32, KT_E4M3 };
#define KT_CPU (-1)

struct kt_scope;
typedef struct kt_tensor *kt;

/* --- process and device ------------------------------------------------------------------- */
/* device: KT_CPU or a CUDA index.  For CUDA this loads libkiln_cuda.so from this library's folder
 * and tests the device; KILN_DEVICE with the reason if that fails. */
int kt_device_open(int device, struct kiln_error *err) KILN_MUST_CHECK;
/* Bytes in tensors on a CUDA device, and bytes that LibTorch has allocated for them; false for the
 * CPU. */
bool kt_device_memory(int device, size_t *ret_used, size_t *ret_held);
/* Returns unused memory to the device, after any recording of a graph; not while recording. */
void kt_device_trim(int device);
void kt_threads_set(int threads); /* of the calling thread's operations; 0 = all cores */
/* AMX or AVX512-BF16, and oneDNN may use it: bf16 is the faster arithmetic. */
bool kt_cpu_likes_bf16(void);
/* LibTorch's version and what this processor's operations are made of, as one line of text. */
void kt_describe(char *text, size_t size);
/* Whether the device multiplies quantised rows: CUDA from compute capability 8.9 on.  Elsewhere
 * they are dequantised first.  The device is open. */
bool kt_device_likes_e4m3(int device);

/* --- scopes -------------------------------------------------------------------------------- */
struct kt_scope *kt_scope_new(int device);
/* A scope inside another, on its device; passes its error to the parent when freed. */
struct kt_scope *kt_scope_child(struct kt_scope *parent);
void kt_scope_free(struct kt_scope *s); /* accepts NULL */
int kt_scope_check(const struct kt_scope *s, struct kiln_error *err) KILN_MUST_CHECK;
/* Sets the sticky error unless there is one: for model code that finds a contradiction. */
void kt_scope_fail(struct kt_scope *s, const struct kiln_error *err);
/* Waits for all work that is queued on the device.  Fails s if the device is lost, or silent for
 * too long (kt_wait_limit). */
void kt_wait(struct kt_scope *s);
kt kt_keep(struct kt_scope *to, kt x);  /* a second handle on x, in another scope */
void kt_drop(struct kt_scope *s, kt x); /* frees the handle x early; accepts NULL */
/* Makes a handle of s safe to change: x itself if nothing else uses its memory, else a copy in its
 * place. */
kt kt_unshare(struct kt_scope *s, kt x);

/* --- shape --------------------------------------------------------------------------------- */
int64_t kt_size(kt x, int dim); /* -1 counts from the end; 0 for NULL */
enum kt_dtype kt_dtype_of(kt x);

/* --- in and out ---------------------------------------------------------------------------- */
/* A copy of host memory, converted to dtype, on the scope's device. */
kt kt_from_host(struct kt_scope *s, const void *data, enum kt_dtype from, enum kt_dtype dtype,
                int ndim, const int64_t *shape);
/* Copies a tensor of exactly count values to host memory as float. */
void kt_to_host_f32(struct kt_scope *s, kt x, float *out, size_t count);
/* What torch.randn(shape, generator=torch.Generator("cpu").manual_seed(seed)) gives, fp32. */
kt kt_randn(struct kt_scope *s, uint64_t seed, int ndim, const int64_t *shape);
bool kt_all_finite(struct kt_scope *s, kt x);

/* --- layout -------------------------------------------------------------------------------- */
kt kt_to(struct kt_scope *s, kt x, enum kt_dtype dtype);
kt kt_copy(struct kt_scope *s, kt x); /* own memory */
kt kt_zeros(struct kt_scope *s, enum kt_dtype dtype, int ndim, const int64_t *shape);
/* Changes target: copies the values of x, of the same shape, converted to target's dtype, which may
 * be quantised rows. */
void kt_copy_into(struct kt_scope *s, kt target, kt x);
kt kt_reshape(struct kt_scope *s, kt x, int ndim, const int64_t *shape);
kt kt_permute(struct kt_scope *s, kt x, int ndim, const int *order); /* contiguous again */
kt kt_narrow(struct kt_scope *s, kt x, int dim, int64_t start, int64_t length); /* a view */
kt kt_cat(struct kt_scope *s, const kt *xs, size_t count, int dim);
kt kt_repeat_rows(struct kt_scope *s, kt row, int64_t rows); /* [1,n] -> [rows,n] */

/* --- arithmetic ---------------------------------------------------------------------------- */
kt kt_add(struct kt_scope *s, kt x, kt y);      /* broadcasts */
kt kt_multiply(struct kt_scope *s, kt x, kt y); /* broadcasts */
kt kt_affine(struct kt_scope *s, kt x, double scale, double shift);
/* The standard deviation of each column of x [rows,n] about its mean, over all rows: [1,n], fp32.
 */
kt kt_column_deviation(struct kt_scope *s, kt x);
kt kt_silu(struct kt_scope *s, kt x);
kt kt_relu(struct kt_scope *s, kt x);
kt kt_tanh(struct kt_scope *s, kt x);
kt kt_gelu(struct kt_scope *s, kt x); /* x Phi(x), not its approximation by tanh */
/* x weight^T + bias for weight [N,K]; bias may be NULL.  With a quantised weight, x is quantised
 * here unless it is already; with a plain one, x is dequantised. */
kt kt_linear(struct kt_scope *s, kt x, kt weight, kt bias);
/* Rows of the table, which may be in host memory on any device. */
kt kt_embedding(struct kt_scope *s, kt table, const int32_t *ids, size_t count);

/* --- the model's own steps (kernels/) ------------------------------------------------------ */
/* The form in which a pass writes rows for the next product: plain or quantised, and with room for
 * columns behind each row where there is a kernel for that (low_rank.h).  down: the LoRA factor of
 * the kt_beside that follows, or NULL; lent for the call.  A pass may compute x down^T into the
 * room itself; its result remembers that. */
struct kt_form {
    bool e4m3;
    int64_t room;
    kt down;
};
#define KT_PLAIN ((struct kt_form){.e4m3 = false})

/* [rows,n] as e4m3; each row's factor maps its largest value to 448. */
kt kt_quantise_rows(struct kt_scope *s, kt x);
/* Rows [rows,n] of a residual stream: in bf16 with tails, four more bits of each value in columns
 * behind the n (kernels/tails.h).  x itself in other formats, or if n does not suit tails.  Rows
 * with tails may be cut, joined and copied between rows; the norms below read them. */
kt kt_with_tails(struct kt_scope *s, kt x);
/* RMS(x) * gain[n] for the n columns of x, with tails or without.  The gain, in fp32, is the
 * product of everything that scales the norm; the result has x's dtype and is rounded once. */
kt kt_rms_norm(struct kt_scope *s, kt x, kt gain, double eps, struct kt_form form);

/* The end of a sublayer and the start of the next one:
 *     *ret_x    = x + RMS(y) * gain
 *     *ret_next = RMS(*ret_x) * next_gain        NULL where next_gain is NULL
 * x and *ret_x with tails or without, y without. */
struct kt_residual_norm {
    kt x, y, gain, next_gain;
    double eps;
    struct kt_form next_form;
};
void kt_add_rms_norm(struct kt_scope *s, const struct kt_residual_norm *args, kt *ret_x,
                     kt *ret_next);
/* (x - mean) / deviation * scale[n], the scale in fp32; x with tails or without. */
kt kt_layer_norm_scale(struct kt_scope *s, kt x, double eps, kt scale);
/* [rows,2n] -> silu(first half) * second half */
kt kt_swiglu(struct kt_scope *s, kt gate_up, struct kt_form form);
/* kt_swiglu of x weight^T, for x [rows,k] of several items and weight [2n,k]; in one pass where a
 * GPU has a kernel for it and there are many rows.  Frees the handle x once it is read, because the
 * product is wide. */
kt kt_linear_swiglu(struct kt_scope *s, kt x, kt weight, int items, struct kt_form form);

/* Self-attention from packed rows [rows, (heads + 2*kv_heads)*head_dim]: per-head RMS norm of q
 * and k (weights may be NULL), rotation by angles, softmax(q k^T / sqrt(head_dim)) v.
 * Changes qkv: on a GPU its q and k are normed and rotated in place.
 * cos, sin: [rows of an item, head_dim/2] fp32, or NULL for none.
 * interleaved: pairs are (2i, 2i+1), else (i, i + head_dim/2).
 * Returns [rows, heads*head_dim] in the given form.  narrow: if the form is quantised and the GPU
 * can, the two products are in e4m3 as well, and all rows of an item share one factor. */
struct kt_attention_args {
    kt qkv, q_norm, k_norm, cos, sin;
    int heads, kv_heads, head_dim;
    bool interleaved, causal;
    bool narrow;
    struct kt_form form;
    double eps;
    /* Items of one length with the same angles, one after the other.  Attention stays within items,
     * and an item's result has the bits that it has alone.  0 is 1. */
    int items;
    /* Or items of several lengths, if starts is not NULL; needs kt_packs(); causal, within items.
     * First come items with a block of their own: blocks[i] rows, which the item begins; the rest
     * is unused.  Then items with starts, [items + 1] KT_I32: the first row of each, which may be
     * empty, and the end of the last. */
    kt starts;
    const int64_t *blocks;
    size_t block_count;
    int64_t longest; /* no item with a start has more rows; any such bound will do */
};
kt kt_attention(struct kt_scope *s, const struct kt_attention_args *args);

/* Whether attention takes rows of several items together, in bf16 on the scope's device. */
bool kt_packs(const struct kt_scope *s, int head_dim);
/* x weight^T + bias, block by block.  The order in which a GPU sums depends on the number of rows,
 * so a row has the same bits in every block of one size, whatever the other blocks hold.  The large
 * blocks in front are joined if that was found to give the same bits.  Quantised as in kt_linear.
 */
struct kt_block_linear {
    kt x, weight, bias;    /* bias may be NULL */
    kt into;               /* NULL, or changed: += the product */
    const int64_t *blocks; /* rows of each, in all those of x; NULL: equal blocks */
    size_t count;
};
kt kt_linear_blocks(struct kt_scope *s, const struct kt_block_linear *args);
/* The same for items of equal length; kt_linear for one. */
kt kt_linear_items(struct kt_scope *s, kt x, kt weight, kt bias, int items);

/* The start of a run: (1 - sigma) * clean + sigma * noise, both fp32, clean [C,h,w], noise [C,H,W].
 * A clean latent of another size is enlarged first (kernels/pictures/latent_enlarge.h). */
kt kt_noised(struct kt_scope *s, kt clean, kt noise, double sigma);
/* Of count clean latents, 1 to 5, fp32 and of one shape: their weighted sum; and what lies t of the
 * way along the arc from one to another (kernels/pictures/latent_mix.h). */
kt kt_mixed(struct kt_scope *s, const kt *clean, const double *weights, int count);
kt kt_slerp(struct kt_scope *s, kt a, kt b, double t);
/* The root mean square of x - y as a share of that of y, for fp32 of one shape: [1]. */
kt kt_relative_difference(struct kt_scope *s, kt x, kt y);
/* Latent [C,H,W] in fp32 to token rows [H/p * W/p, p*p*C]: patches line by line, the values of a
 * patch by line, column, channel.  Several items, [items,C,H,W], follow one another. */
kt kt_patchify(struct kt_scope *s, kt latent, int patch, enum kt_dtype dtype);
/* The sampler's Euler step.  Changes latent: += stride * -(with + guidance * (with - without)),
 * summed in fp32; sets an item's bad to 1 if one of its values is then not finite. */
struct kt_euler_step {
    kt latent;        /* [C,H,W] or [items,C,H,W] fp32, dense */
    kt with, without; /* token rows of the model's output; without NULL: no guidance */
    kt stride;        /* [items] fp32 on the device: next sigma minus this one */
    kt bad;           /* [items] KT_I32, or NULL */
    double guidance;
    int patch;
};
void kt_euler_step(struct kt_scope *s, const struct kt_euler_step *args);

/* --- pictures: [1,C,H,W], channels last in memory ------------------------------------------- */
struct kt_conv_args {
    kt x, weight, bias;
    int stride;
    int dilation;              /* 0 is 1 */
    int pad_before, pad_after; /* zeros around height and width */
    kt add;                    /* NULL, or added to the result */
    kt into;                   /* NULL, or changed: receives the result; not x, not add */
};
/* A weight in the memory order of convolutions, channels last.  The loader calls it once; otherwise
 * each convolution would reorder the weight itself. */
kt kt_conv_weight(struct kt_scope *s, kt weight);
kt kt_conv2d(struct kt_scope *s, const struct kt_conv_args *args);
struct kt_norm {
    kt weight, bias; /* [C] */
    kt x_bias;       /* [C], added to every pixel first; NULL: nothing */
    int groups;
    double eps;
    bool silu; /* SiLU after the norm */
};
kt kt_group_norm(struct kt_scope *s, kt x, const struct kt_norm *n);
/* The same in place: changes x, and needs no memory for a second picture. */
void kt_group_norm_over(struct kt_scope *s, kt x, const struct kt_norm *n);
/* The same for a picture in strips of rows: first add every strip to the sums, then norm each. */
struct kt_strip_norm {
    struct kt_norm norm;
    int64_t pixels;  /* of the whole picture */
    kt origin, sums; /* made by kt_strip_norm_start() */
};
/* Zero sums, taken about the first pixel of x, a strip of the picture. */
void kt_strip_norm_start(struct kt_scope *s, struct kt_strip_norm *n, kt x);
void kt_strip_norm_add(struct kt_scope *s, const struct kt_strip_norm *n, kt strip);
kt kt_strip_norm(struct kt_scope *s, const struct kt_strip_norm *n, kt strip);
kt kt_upsample2(struct kt_scope *s, kt x); /* nearest, twice the size */
/* kt_upsample2 and a 3x3 convolution as one convolution of x: only four of the nine taps meet
 * different pixels of x, so taps are summed beforehand.  kt_upsample_weight makes the weight
 * [C,K,4,4] from the 3x3 one, [K,C,3,3]; summed in fp32, rounded once. */
kt kt_upsample_weight(struct kt_scope *s, kt weight);
kt kt_upsample_conv2d(struct kt_scope *s, kt x, kt weight);
/* To another size, by area averaging or bilinear. */
kt kt_resize(struct kt_scope *s, kt x, int64_t height, int64_t width, bool area);
kt kt_mean_max(struct kt_scope *s, kt x); /* over all pixels: [1, 2C], means before maxima */
/* A new picture; values unknown. */
kt kt_picture(struct kt_scope *s, enum kt_dtype dtype, int64_t channels, int64_t height,
              int64_t width);
/* The memory of x as several pictures of fewer channels, a view [C/channels,channels,H,W]: for
 * results that may overwrite x. */
kt kt_pictures_in(struct kt_scope *s, kt x, int64_t channels);
kt kt_image_rows(struct kt_scope *s, kt x); /* [1,C,H,W] -> [H*W,C] */
kt kt_rows_image(struct kt_scope *s, kt x, int64_t height, int64_t width); /* and back */
/* [1,3,H,W] in -1..1 to H*W*3 interleaved bytes, rounded as round(clamp(x/2 + 0.5) * 255).  bad,
 * [1] KT_I32 or NULL, is set to 1 if a value of x is not finite. */
kt kt_rgb8(struct kt_scope *s, kt x, kt bad);
/* Such bytes, KT_U8, to [1,3,H,W] fp32 in -1..1: 2 (x / 255) - 1, each operation rounded, with the
 * bits of VaeImageProcessor.preprocess of diffusers. */
kt kt_of_rgb8(struct kt_scope *s, kt rgb, int64_t height, int64_t width);
/* An encoder's [1,2C,h,w], mean before log-variance, to a sample [C,h,w] in fp32: mean + exp(v / 2)
 * * noise with v the log-variance, at least -30 and at most 20, as in DiagonalGaussianDistribution
 * of diffusers.  noise: [C,h,w] fp32, or NULL for the mean. */
kt kt_gaussian(struct kt_scope *s, kt moments, kt noise);
/* Such bytes to those of a smaller picture, on the same device; kernels/pictures/downscale.h. */
struct kt_downscale {
    uint32_t width, height, out_width, out_height; /* out sides <= source sides, > 0 */
};
kt kt_downscale(struct kt_scope *s, kt rgb, const struct kt_downscale *to);

#ifdef __cplusplus
}
#endif
#endif
