/* low_rank.h - pairs of low rank beside a matrix or merged into it (Hu et al. 2021,
 * arXiv:2106.09685):
 *
 *     y = x weight^T + (x down^T) up^T          weight [N,K], down [R,K], up [N,R]
 *
 * Added behind the large product, the second one reads and writes y once more.  Where weight and up
 * lie side by side in memory, and x down^T behind the rows of x, one product with R more columns is
 * both: matrices and rows are given room for that.
 *
 * Quantised rows have one factor for all their columns, those in the room too: up[n] is put in
 * codes by the factor of the weight's row n, and x down^T by that of the row of x.  Rows with room
 * leave it codes 16 times as large as their own, rows without none (KILN_E4M3_BESIDE_MAX in
 * kernels/fp8.h); kernels/low_rank_codes.h says how the two share what there is of codes.  What is
 * beyond 448 all the same becomes 448: of a set that moves a product by more than the product
 * itself, and, where otherwise x down^T were cut, in rows of the weight that are far smaller than
 * the others.
 */
#ifndef KILN_LOW_RANK_H
#define KILN_LOW_RANK_H

#include "pipeline/torch/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- beside --------------------------------------------------------------------------------- */
/* Changes y [rows,N]: += low up^T, for low [rows,R]; plain numbers. */
void kt_add_product(struct kt_scope *s, kt y, kt low, kt up);

/* Changes both [N,K+R], a weight with R columns more (kt_widened): they become up.  Where it is
 * quantised, codes [R,K], quantised rows, become what goes with it, down (on a GPU of pairs in
 * bf16); else it is NULL. */
void kt_put_beside(struct kt_scope *s, kt both, kt codes, kt up, kt down);
/* x [rows,K] and, behind each row, x down^T: [rows,K+R], to be multiplied with weight and up side
 * by side, [N,K+R].  Rows of x that have room for R columns (struct kt_form) get it there, and the
 * result is a view; others are copied.  Where the pass that made x has put it there already (the
 * form's down), nothing is left to do: in between neither x nor down is written to.  x and down are
 * both plain or both quantised. */
kt kt_beside(struct kt_scope *s, kt x, kt down);

/* --- room: memory that belongs to a matrix, or to rows that a pass has made in that form ------ */
/* Changes x: its values move to memory with so many columns behind each row.  Views of x stay where
 * it was. */
void kt_make_room(struct kt_scope *s, kt x, int64_t columns);
/* How many columns there are, and x with the first of them, whose values are unknown: a view. */
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
