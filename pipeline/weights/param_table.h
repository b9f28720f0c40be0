/* param_table.h - the linear layers of a loaded model: which rows of which matrix a LoRA changes.
 */
#ifndef KILN_PARAM_TABLE_H
#define KILN_PARAM_TABLE_H

#include "pipeline/torch/tensor.h"

#define KILN_PARAM_NAME_MAX 96

struct kiln_linear_layer;

/* One linear layer of the diffusers naming: rows [row, row+rows) of the matrix in *slot. */
struct kiln_param {
    char name[KILN_PARAM_NAME_MAX]; /* "layers.0.attention.to_q" */
    kt *slot;
    struct kiln_linear_layer *layer; /* whose weight is *slot; NULL: none */
    int64_t row, rows, cols;
};
struct kiln_param_table {
    struct kiln_param *items;
    size_t count, capacity;
};

/* Copies *param; false if memory is short. */
bool kiln_param_table_add(struct kiln_param_table *params, const struct kiln_param *param);
void kiln_param_table_release(struct kiln_param_table *params);

#endif
