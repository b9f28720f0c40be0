/* tensor.h - tensors of LibTorch for C: everything the model code knows about the library.
 *
 * A tensor is a handle that lives in a scope; freeing the scope frees its tensors.  Every
 * operation puts its result into the scope it is given and never changes its operands, except
 * where its comment says so.  Errors are sticky: the first one stays in the scope, later
 * operations do nothing and return NULL, so that model code reads like mathematics and asks
 * once, at the end, with kt_scope_check().  No exception crosses this line.
 *
 * A scope has a device; operands must be on it.  Scopes are for one thread at a time.
 *
 * Quantised rows are one tensor, too: KT_E4M3, a matrix whose every row has an fp32 factor beside
 * it.  Matrix products take them on either side; kt_to() makes plain numbers of them again.
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
/* device: KT_CPU or a CUDA index.  For CUDA this loads libkiln_cuda.so from beside this library
 * and tries the device; KILN_DEVICE with the reason if that fails. */
int kt_device_open(int device, struct kiln_error *err) KILN_MUST_CHECK;
/* Bytes in tensors of a CUDA device and bytes taken from it for them; false for the CPU. */
bool kt_device_memory(int device, size_t *ret_used, size_t *ret_held);
/* Gives back what no tensor uses, once no thread is recording a graph; not in a recording. */
void kt_device_trim(int device);
void kt_threads_set(int threads); /* of the calling thread's operations; 0 = all cores */
bool kt_cpu_likes_bf16(void);     /* AMX or AVX512-BF16: bf16 is the faster arithmetic */
/* Whether products of quantised rows are a device's own: CUDA from compute capability 8.9 on.
 * Elsewhere they are computed from the plain numbers.  The device is open. */
bool kt_device_likes_e4m3(int device);

/* --- scopes -------------------------------------------------------------------------------- */
struct kt_scope *kt_scope_new(int device);
/* A scope inside another: takes over its device, and hands its error to it when freed. */
struct kt_scope *kt_scope_child(struct kt_scope *parent);
void kt_scope_free(struct kt_scope *s); /* accepts NULL */
int kt_scope_check(const struct kt_scope *s, struct kiln_error *err) KILN_MUST_CHECK;
/* Sets the sticky error unless there is one: for model code that finds a contradiction. */
void kt_scope_fail(struct kt_scope *s, const struct kiln_error *err);
/* Returns when the device has done all that was asked of it: operations on a GPU only start.  s has
 * failed if it is lost, or silent for too long (kt_patience). */
void kt_wait(struct kt_scope *s);
kt kt_keep(struct kt_scope *to, kt x);  /* a second handle on x, in another scope */
void kt_drop(struct kt_scope *s, kt x); /* frees the handle x early; accepts NULL */
/* x, a handle of s, as a tensor whose memory s alone holds, and which may so be changed: x itself,
 * or a copy that takes its place where another handle or a view is left. */
kt kt_take(struct kt_scope *s, kt x);

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
/* Changes target: takes over the values of x, which has its shape, in target's dtype; a target of
 * quantised rows takes them over quantised. */
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
kt kt_silu(struct kt_scope *s, kt x);
kt kt_relu(struct kt_scope *s, kt x);
kt kt_tanh(struct kt_scope *s, kt x);
/* x times weight [N,K], plus bias if there is one.  A quantised weight wants quantised rows: those
 * that x holds, or made of it here.  With a plain weight, x is taken as plain numbers. */
kt kt_linear(struct kt_scope *s, kt x, kt weight, kt bias);
/* Rows of the table, which may be in host memory whatever the scope's device. */
kt kt_embedding(struct kt_scope *s, kt table, const int32_t *ids, size_t count);

/* --- the model's own steps (kernels/) ------------------------------------------------------ */
/* How a pass leaves rows for the product that takes them: plain or quantised, and with memory for
 * some columns behind each row, where there is a kernel for that (low_rank.h).  down: what
 * kt_beside is going to be asked for, NULL for nothing; lent for the call.  A pass may make it and
 * put it into the room, which its result remembers. */
struct kt_form {
    bool e4m3;
    int64_t room;
    kt down;
};
#define KT_PLAIN ((struct kt_form){.e4m3 = false})

/* [rows,n] as e4m3, each row with its own factor: its largest value becomes 448. */
kt kt_quantise_rows(struct kt_scope *s, kt x);
/* Rows [rows,n] as a residual stream has them: in bf16 with four more bits of each value
 * (kernels/tails.h), which are columns behind the n; x itself in other formats, or where n is not
 * for tails.  Such rows may be cut, joined and copied as they are; the norms below take them. */
kt kt_with_tails(struct kt_scope *s, kt x);
/* RMS(x) * gain[n] for the n columns of x, or those of rows with tails.  A gain is fp32 and has all
 * in it that a norm is multiplied with; the result has x's dtype and is rounded once. */
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
/* Less its mean, over its deviation, times scale, [n] in fp32; x with tails or without. */
kt kt_layer_norm_scale(struct kt_scope *s, kt x, double eps, kt scale);
/* [rows,2n] -> silu(first half) * second half */
kt kt_swiglu(struct kt_scope *s, kt gate_up, struct kt_form form);
/* That of x weight^T, for x [rows,k] of several items and weight [2n,k]; in one pass where a GPU
 * has a kernel for it and the rows are many.  Frees the handle x as soon as it has been read: what
 * comes is wide. */
kt kt_linear_swiglu(struct kt_scope *s, kt x, kt weight, int items, struct kt_form form);

/* Self-attention from packed rows [rows, (heads + 2*kv_heads)*head_dim]: per-head RMS norm of q
 * and k (weights may be NULL), rotation by angles, softmax(q k^T / sqrt(head_dim)) v.
 * Uses qkv up: on a GPU its q and k are normed and rotated where they lie.
 * cos, sin: [rows of an item, head_dim/2] fp32, or NULL for none.
 * interleaved: pairs are (2i, 2i+1), else (i, i + head_dim/2).
 * Returns [rows, heads*head_dim] in the form that is asked for; `narrow`: where that is quantised,
 * its own two products are of e4m3, too, where a GPU has that, and one factor is that of all rows
 * of an item. */
struct kt_attention_args {
    kt qkv, q_norm, k_norm, cos, sin;
    int heads, kv_heads, head_dim;
    bool interleaved, causal;
    bool narrow;
    struct kt_form form;
    double eps;
    /* Of one length and with the same angles, one behind the other: attention stays within items,
     * and an item's result has the bits that it has alone.  0 is 1. */
    int items;
    /* NULL: items are as above.  Else they are of several lengths, where kt_packs();
     * attention is causal and stays within items.  First come those that have a block of rows of
     * their own: rows of each block, which the item begins; what is behind it is nobody's.  Then
     * those with starts, [items + 1] KT_I32: the first row of each, which may be empty, and the end
     * of the last. */
    kt starts;
    const int64_t *blocks;
    size_t block_count;
    int64_t longest; /* of those with starts none has more rows; beyond that it changes nothing */
};
kt kt_attention(struct kt_scope *s, const struct kt_attention_args *args);

/* Whether rows of several items can go through attention together, in bf16 on the scope's device.
 */
bool kt_packs(const struct kt_scope *s, int head_dim);
/* x weight^T + bias, block by block: how a GPU sums depends on the number of rows, so that a row
 * has the same bits in every block of one size, whatever is in the others.  Large blocks in front
 * go together where that has been seen to give the same bits.  Quantised weights and rows as in
 * kt_linear. */
struct kt_block_linear {
    kt x, weight, bias;    /* bias may be NULL */
    kt into;               /* NULL, or changed: the product is added to it */
    const int64_t *blocks; /* rows of each, together those of x; NULL: as many of each */
    size_t count;
};
kt kt_linear_blocks(struct kt_scope *s, const struct kt_block_linear *args);
/* The same for items of as many rows each; of one, kt_linear. */
kt kt_linear_items(struct kt_scope *s, kt x, kt weight, kt bias, int items);

/* Between the latent [C,H,W] in fp32 and token rows [H/p * W/p, p*p*C], which run along the lines
 * of the picture, within a row by line, column, channel.  Latents of several items, [items,C,H,W],
 * become the rows of one behind those of the other. */
kt kt_patchify(struct kt_scope *s, kt latent, int patch, enum kt_dtype dtype);
/* One Euler step.  Changes latent: += stride * -(with + guidance * (with - without)), the sums in
 * fp32, and sets an item's bad to 1 if a value of it is then not finite. */
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
    kt into;                   /* NULL, or changed: the result's memory, apart from x and add */
};
/* A weight in the order in which convolutions read it: channels last, too.  For the loader: every
 * convolution with a weight in another order puts it in order for itself. */
kt kt_conv_weight(struct kt_scope *s, kt weight);
kt kt_conv2d(struct kt_scope *s, const struct kt_conv_args *args);
struct kt_norm {
    kt weight, bias; /* [C] */
    kt lift;         /* [C], what every pixel is to be taken as more by; NULL: nothing */
    int groups;
    double eps;
    bool silu; /* behind it */
};
kt kt_group_norm(struct kt_scope *s, kt x, const struct kt_norm *n);
/* Changes x, which takes on the same values without memory for a second picture. */
void kt_group_norm_over(struct kt_scope *s, kt x, const struct kt_norm *n);
/* The same for a picture that comes in strips of rows: all of them are added to the sums, then each
 * can be normed. */
struct kt_strip_norm {
    struct kt_norm norm;
    int64_t pixels;  /* of the whole picture */
    kt origin, sums; /* made by kt_strip_norm_start() */
};
/* Sums of nothing yet, taken about the first pixel of x, which is of the picture. */
void kt_strip_norm_start(struct kt_scope *s, struct kt_strip_norm *n, kt x);
void kt_strip_norm_add(struct kt_scope *s, const struct kt_strip_norm *n, kt strip);
kt kt_strip_norm(struct kt_scope *s, const struct kt_strip_norm *n, kt strip);
kt kt_upsample2(struct kt_scope *s, kt x); /* nearest, twice the size */
/* A 3x3 convolution of what kt_upsample2() makes of x, from x alone: only four of its nine taps
 * meet different pixels of x, and the others are summed beforehand.  The weight [C,K,4,4] for it
 * comes of the 3x3 one, [K,C,3,3], summed in fp32 and rounded once. */
kt kt_upsample_weight(struct kt_scope *s, kt weight);
kt kt_upsample_conv2d(struct kt_scope *s, kt x, kt weight);
/* To another size: the mean of the area under each pixel, or between the four nearest pixels. */
kt kt_resize(struct kt_scope *s, kt x, int64_t height, int64_t width, bool area);
kt kt_mean_max(struct kt_scope *s, kt x); /* over all pixels: [1, 2C], means before maxima */
/* One whose values are unknown, to be copied into. */
kt kt_picture(struct kt_scope *s, enum kt_dtype dtype, int64_t channels, int64_t height,
              int64_t width);
/* The memory of x, rows and all, as pictures of fewer channels one behind the other, a view:
 * [C/channels,channels,H,W].  It is for results that may take the place of x. */
kt kt_pictures_in(struct kt_scope *s, kt x, int64_t channels);
kt kt_image_rows(struct kt_scope *s, kt x); /* [1,C,H,W] -> [H*W,C] */
kt kt_rows_image(struct kt_scope *s, kt x, int64_t height, int64_t width); /* and back */
/* [1,3,H,W] in -1..1 to H*W*3 interleaved bytes, rounded as round(clamp(x/2 + 0.5) * 255).  bad,
 * [1] KT_I32 or NULL, is set to 1 if a value of x is not finite. */
kt kt_rgb8(struct kt_scope *s, kt x, kt bad);
/* Such bytes to those of a smaller picture, on the device they are on; kernels/downscale.h. */
struct kt_downscale {
    uint32_t width, height, out_width, out_height; /* out sides <= source sides, > 0 */
};
kt kt_downscale(struct kt_scope *s, kt rgb, const struct kt_downscale *to);

#ifdef __cplusplus
}
#endif
#endif
