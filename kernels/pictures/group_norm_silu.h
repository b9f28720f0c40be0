/* group_norm_silu.h - GroupNorm of a picture, followed by SiLU, channels last.
 *
 *     y = silu( (x - mean) / sqrt(variance + eps) * weight + bias ),  per group of channels
 * Two passes: sums by channel, then one read and one write; a GPU with clusters of blocks reads
 * small maps once.  Sums are taken about the first pixel, so that a large common offset costs no
 * precision, and end in fp64.  A picture may come in parts: first all are summed, then each is
 * normed. group_norm_silu_ref.c is the definition.
 */
#ifndef KILN_GROUP_NORM_SILU_H
#define KILN_GROUP_NORM_SILU_H

#include <stddef.h>

#include "kernels/floats.h"
#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_NORM_CHANNELS_MAX 4096

struct kiln_group_norm {
    const void *x;             /* [pixels][channels] */
    const void *weight, *bias; /* [channels] */
    const void *origin;        /* [channels], what sums are taken about; NULL: x's first pixel */
    const void *x_bias;        /* [channels], added to x first; NULL: nothing */
    void *y;                   /* [pixels][channels]; may be x, also where that is the origin */
    int64_t pixels;            /* of the whole picture */
    int channels, groups;      /* channels: a multiple of groups, at most the bound above */
    float eps;
    int silu; /* 0: the norm alone */
    enum kiln_float format;
};

/* Adds the pixels [begin, end) to sums[2][channels], zeroed by the caller; partial sums of
 * several threads are added up by it. */
void kiln_group_norm_sums_ref(const struct kiln_group_norm *args, int64_t begin, int64_t end,
                              double *sums);
/* Writes the pixels [begin, end) from the sums over all of them.  Where y is x and that is done in
 * several calls, the origin is given: the first call takes x's first pixel away. */
void kiln_group_norm_apply_ref(const struct kiln_group_norm *args, const double *sums,
                               int64_t begin, int64_t end);

/* Bytes of device memory that a launch over so many pictures of this shape works in. */
size_t kiln_group_norm_workspace(const struct kiln_group_norm *args, int64_t items);
/* [items][pixels][channels] on the device, bf16, each picture with its own statistics; the promises
 * of stream.h.  workspace: on 16 bytes; two launches at once need one each.  Sums are in the
 * same order on every device: shape and alignment say which. */
int kiln_group_norm_launch(const struct kiln_group_norm *args, int64_t items, void *workspace,
                           kiln_stream stream, struct kiln_error *err) KILN_MUST_CHECK;

/* A part of one picture: x and y are its `count` pixels, origin is that of all parts.  The first
 * adds it to sums[2][channels] on the device, zeroed by the caller before the first part; the
 * second norms it, from the sums of all parts.  The workspace is that of a launch over one picture.
 */
int kiln_group_norm_add_launch(const struct kiln_group_norm *args, int64_t count, double *sums,
                               void *workspace, kiln_stream stream,
                               struct kiln_error *err) KILN_MUST_CHECK;
int kiln_group_norm_part_launch(const struct kiln_group_norm *args, int64_t count, double *sums,
                                void *workspace, kiln_stream stream,
                                struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
