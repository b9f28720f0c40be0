/* qkv_e4m3_ref.c - see qkv_e4m3.h. */
#include "kernels/attention/qkv_e4m3.h"

#include <stddef.h>

#include "kernels/attention/qkv_rope.h"
#include "kernels/fp8.h"

/* The head that starts `at` values into qkv, as qkv_rope makes it of a row that is this head. */
static void code_head(const struct kiln_qkv_e4m3 *a, int64_t row, int64_t at, const void *norm)
{
    uint16_t turned[KILN_HEAD_DIM_MAX];
    const int64_t angles = row * (a->head_dim / 2);
    const struct kiln_qkv_rope head = {.qkv = (const uint16_t *)a->qkv + at,
                                       .q_norm = norm,
                                       .cos = a->cos ? a->cos + angles : NULL,
                                       .sin = a->sin ? a->sin + angles : NULL,
                                       .q = turned,
                                       .rows = 1,
                                       .heads = 1,
                                       .head_dim = a->head_dim,
                                       .interleaved = a->interleaved,
                                       .eps = a->eps,
                                       .format = KILN_BF16};
    kiln_qkv_rope_ref(&head, 0, 1);
    for (int i = 0; i < a->head_dim; i++)
        a->codes[at + i] = kiln_to_e4m3(kiln_from_bf16(turned[i]));
}

void kiln_qkv_e4m3_ref(const struct kiln_qkv_e4m3 *args)
{
    const int64_t d = args->head_dim, h = args->heads, g = args->kv_heads;
    const int64_t width = (h + 2 * g) * d, v = (h + g) * d;
    float top = KILN_E4M3_FLOOR;
    for (int64_t row = 0; row < args->rows; row++)
        for (int64_t i = v; i < width; i++)
            top = fmaxf(top, fabsf(kiln_load(args->qkv, row * width + i, KILN_BF16)));
    const float inverse = KILN_E4M3_MAX / top;
    const float code_max = args->code_max ? args->code_max : KILN_E4M3_MAX;
    for (int64_t row = 0; row < args->rows; row++) {
        for (int64_t i = 0; i < h + g; i++)
            code_head(args, row, row * width + i * d, i < h ? args->q_norm : args->k_norm);
        for (int64_t i = row * width + v; i < (row + 1) * width; i++)
            args->codes[i] = kiln_to_e4m3(kiln_load(args->qkv, i, KILN_BF16) * inverse);
        args->scale[row] = top / code_max;
        *args->to_codes = code_max / top * (code_max / KILN_E4M3_MAX);
    }
}
