/* layout.c - computes offsets, and writes pairs to them; see layout.h. */
#include "pipeline/lora/layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/floats.h"

#define ALIGN 256 /* of every matrix, in bytes: fastest for matrix products */

int64_t kiln_lora_class(int64_t rank)
{
    if (rank <= 64)
        return rank < 16 ? 16 : (rank + 15) / 16 * 16;
    int64_t class = 128;
    while (class < rank)
        class *= 2;
    return class <= KILN_LORA_BESIDE_RANK_MAX ? class : 0;
}

/* --- offsets ---------------------------------------------------------------------------------- */

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

int kiln_lora_layout_init(struct kiln_lora_layout *l, const struct kiln_param_table *params,
                          int64_t rank, enum kt_dtype dtype, struct kiln_error *err)
{
    const size_t n = params->count + 1, value_size = dtype == KT_F32 ? 4 : 2;
    *l = (struct kiln_lora_layout){.rank = rank,
                                   .dtype = dtype,
                                   .places = calloc(n, sizeof *l->places),
                                   .place_of = calloc(n, sizeof *l->place_of),
                                   .part_of = calloc(n, sizeof *l->part_of),
                                   .params = params};
    if (!l->places || !l->place_of || !l->part_of) {
        kiln_lora_layout_release(l);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the layout of LoRAs");
    }
    for (size_t i = 0; i < params->count; i++) {
        const struct kiln_param *p = &params->items[i];
        size_t at = l->count;
        while (at > 0 && l->places[at - 1].slot != p->slot)
            at--;
        at = at > 0 ? at - 1 : l->count++;
        struct kiln_lora_place *place = &l->places[l->place_of[i] = at];
        l->part_of[i] = place->rank / rank;
        *place = (struct kiln_lora_place){.slot = p->slot,
                                          .layer = p->layer,
                                          .rows = place->rows + p->rows,
                                          .cols = p->cols,
                                          .rank = place->rank + rank};
    }
    for (size_t i = 0; i < l->count; i++) {
        struct kiln_lora_place *p = &l->places[i];
        p->down = l->bytes;
        p->up = p->down + aligned((size_t)(p->rank * p->cols) * value_size);
        l->bytes = p->up + aligned((size_t)(p->rows * p->rank) * value_size);
    }
    return 0;
}

void kiln_lora_layout_release(struct kiln_lora_layout *l)
{
    free(l->places);
    free(l->place_of);
    free(l->part_of);
    *l = (struct kiln_lora_layout){.count = 0};
}

/* --- files ------------------------------------------------------------------------------------ */

int kiln_lora_files_open(struct kiln_lora_files *files, const struct kiln_lora_stack *stack,
                         const struct kiln_param_table *params, struct kiln_error *err)
{
    *files = (struct kiln_lora_files){.stack = stack};
    struct kiln_lora_module *modules = calloc(params->count + 1, sizeof *modules);
    int64_t *ranks = calloc(params->count + 1, sizeof *ranks);
    int code = modules && ranks ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory to open LoRAs");
    for (size_t i = 0; !code && i < params->count; i++)
        modules[i] = (struct kiln_lora_module){.name = params->items[i].name,
                                               .rows = params->items[i].rows,
                                               .cols = params->items[i].cols};
    for (size_t i = 0; !code && i < stack->count; i++) {
        code = kiln_lora_open(stack->loras[i].path, modules, params->count, &files->at[i], err);
        for (size_t k = 0; !code && k < kiln_lora_count(files->at[i]); k++) {
            const struct kiln_lora_pair *pair = kiln_lora_at(files->at[i], k);
            int64_t rank = ranks[pair->module] += pair->rank;
            files->rank = rank > files->rank ? rank : files->rank;
        }
    }
    free(modules);
    free(ranks);
    if (code)
        kiln_lora_files_close(files);
    return code;
}

void kiln_lora_files_close(struct kiln_lora_files *files)
{
    for (size_t i = 0; i < KILN_LORA_STACK_MAX; i++)
        kiln_lora_close(files->at[i]);
    *files = (struct kiln_lora_files){.stack = NULL};
}

/* --- values ----------------------------------------------------------------------------------- */

/* The format to convert to, and the largest value so far. */
struct conversion {
    enum kiln_float format;
    float peak;
};

KILN_INLINE void convert_as(struct conversion *to_format, const uint8_t *from,
                            enum kiln_st_dtype dtype, int64_t count, float scale, void *to)
{
    float peak = to_format->peak;
    for (int64_t i = 0; i < count; i++) {
        float value;
        uint16_t half;
        if (dtype == KILN_ST_F32) {
            memcpy(&value, from + 4 * i, sizeof value);
        } else {
            memcpy(&half, from + 2 * i, sizeof half);
            value = dtype == KILN_ST_BF16 ? kiln_from_bf16(half) : kiln_from_half(half);
        }
        value *= scale;
        peak = fabsf(value) > peak ? fabsf(value) : peak;
        kiln_store(to, i, value, to_format->format);
    }
    to_format->peak = peak;
}

/* count values times scale; the loop is compiled once a format. */
static void convert(struct conversion *to_format, const void *from, enum kiln_st_dtype dtype,
                    int64_t count, float scale, void *to)
{
    if (dtype == KILN_ST_F32)
        convert_as(to_format, from, KILN_ST_F32, count, scale, to);
    else if (dtype == KILN_ST_BF16)
        convert_as(to_format, from, KILN_ST_BF16, count, scale, to);
    else
        convert_as(to_format, from, KILN_ST_F16, count, scale, to);
}

/* --- pairs ------------------------------------------------------------------------------------ */

/* Writes one pair at `offset` within its module's rank.  Returns whether its products are finite:
 * by the largest values of both, and by the factor of up, since an infinite factor turns zeros into
 * NaN, which the largest value does not show. */
static bool put_pair(const struct kiln_lora_layout *l, const struct kiln_lora_pair *pair,
                     int64_t offset, float strength, uint8_t *memory)
{
    const struct kiln_lora_place *place = &l->places[l->place_of[pair->module]];
    const struct kiln_param *param = &l->params->items[pair->module];
    const float factor = strength * (float)pair->scale;
    int64_t first = l->part_of[pair->module] * l->rank + offset;
    struct conversion down = {.format = l->dtype == KT_F32 ? KILN_F32 : KILN_BF16}, up = down;
    const int64_t size = kiln_float_size(down.format);
    convert(&down, pair->a, pair->a_dtype, pair->rank * param->cols, 1,
            memory + place->down + first * place->cols * size);
    const uint8_t *from = pair->b;
    uint8_t *to = memory + place->up + (param->row * place->rank + first) * size;
    for (int64_t row = 0; row < param->rows; row++) {
        convert(&up, from, pair->b_dtype, pair->rank, factor, to);
        from += (size_t)pair->rank * kiln_st_dtype_size(pair->b_dtype);
        to += place->rank * size;
    }
    return isfinite(factor) && isfinite(down.peak * up.peak * (float)pair->rank);
}

int kiln_lora_layout_fill(const struct kiln_lora_layout *l, const struct kiln_lora_files *files,
                          void *memory, bool *touched, struct kiln_error *err)
{
    int64_t *used = calloc(l->params->count + 1, sizeof *used); /* of each module's rank */
    if (!used)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the ranks of LoRAs");
    memset(memory, 0, l->bytes);
    memset(touched, 0, l->count * sizeof *touched);
    int code = 0;
    for (size_t i = 0; !code && i < files->stack->count; i++) {
        for (size_t k = 0; !code && k < kiln_lora_count(files->at[i]); k++) {
            const struct kiln_lora_pair *pair = kiln_lora_at(files->at[i], k);
            if (!put_pair(l, pair, used[pair->module], files->stack->loras[i].weight, memory))
                code = kiln_fail(err, KILN_CORRUPT,
                                 "LoRA %s: it makes weights that are not finite numbers",
                                 files->stack->loras[i].path);
            used[pair->module] += pair->rank;
            touched[l->place_of[pair->module]] = true;
        }
        code = code ? code : kiln_lora_check(files->at[i], err);
    }
    free(used);
    return code;
}
