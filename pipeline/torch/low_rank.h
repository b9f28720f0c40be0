/* low_rank.h - LoRA pairs beside a matrix or merged into it (Hu et al. 2021, arXiv:2106.09685):
 *
 *     y = x weight^T + (x down^T) up^T          weight [N,K], down [R,K], up [N,R]
 *
 * As a product of its own, the second term reads and writes y once more.  If up lies behind the
 * rows of weight in memory, and x down^T behind the rows of x, one product with R more columns
 * computes both terms.  So matrices and rows are given room for R columns.
 *
 * Quantised rows have one factor for all columns, the ones in the room too: up[n] gets codes by the
 * factor of the weight's row n, and x down^T by that of x's row.  Rows with room use 1/16 of the
 * code range for their own values, and so leave the rest to LoRA terms (KILN_E4M3_BESIDE_MAX in
 * kernels/fp8.h).  kernels/products/low_rank_codes.h says how up and down share the range.  Codes
 * saturate at 448.  That happens with a set that changes a product by more than the product itself;
 * and in weight rows far smaller than the others, where x down^T would saturate otherwise.
 */
#ifndef KILN_LOW_RANK_H
#define KILN_LOW_RANK_H

#include "pipeline/torch/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- beside --------------------------------------------------------------------------------- */
/* Changes y [rows,N]: += lora up^T, for lora [rows,R] = x down^T; plain numbers. */
void kt_add_product(struct kt_scope *s, kt y, kt lora, kt up);

/* Writes up into the last R columns of both [N,K+R], a weight with R more columns (kt_widened). For
 * a quantised weight, also writes down as quantised rows into codes [R,K] (on a GPU: pairs in bf16
 * alone); else codes is NULL. */
void kt_put_beside(struct kt_scope *s, kt both, kt codes, kt up, kt down);
/* x [rows,K] with x down^T behind each row: [rows,K+R], to be multiplied with a weight that has up
 * behind its rows, [N,K+R].  If x has room for R columns (struct kt_form), the result is a view;
 * else x is copied.  If the pass that made x has written x down^T already (the form's down),
 * nothing is computed; x and down must not have changed since.  Both are plain or both quantised.
 */
kt kt_beside(struct kt_scope *s, kt x, kt down);

/* --- room: memory behind the rows of a matrix or of activations --------------------------------
 */
/* Changes x: moves its values to memory with so many columns behind each row.  Views of x keep the
 * old memory. */
void kt_make_room(struct kt_scope *s, kt x, int64_t columns);
/* How many such columns x has; and x with the first of them, whose values are unknown, as a view.
 */
int64_t kt_room(kt x);
kt kt_widened(struct kt_scope *s, kt x, int64_t columns);

/* --- merged --------------------------------------------------------------------------------- */
/* Changes target: rows [row, row+M) of a matrix += scale * up[M,R] down[R,K], summed in fp32. */
void kt_add_low_rank(struct kt_scope *s, kt target, int64_t row, kt up, kt down, double scale);

/* Changes target [N,K]: = base + up down, rounded once; target may be quantised rows. */
void kt_merge_low_rank(struct kt_scope *s, kt target, kt base, kt up, kt down);

#ifdef __cplusplus
}
#endif

#endif
