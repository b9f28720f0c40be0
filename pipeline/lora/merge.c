/* merge.c - merged copies beside pristine weights; see merge.h. */
#include "pipeline/lora/merge.h"

#include <stdlib.h>

#include "pipeline/lora/layout.h"
#include "pipeline/torch/low_rank.h"

/* One touched matrix. */
struct swap {
    kt *slot;
    kt pristine, merged;
};

/* A set of LoRAs, merged: the copies live in scope. */
struct merged_set {
    struct kiln_lora_stack loras;
    struct kt_scope *scope;
    struct swap *swaps;
    size_t swap_count;
};

struct kiln_lora_merge {
    const struct kiln_param_table *params;

    int device;
    struct merged_set set;
};

struct kiln_lora_merge *kiln_lora_merge_new(const struct kiln_param_table *params, int device)
{
    struct kiln_lora_merge *m = calloc(1, sizeof *m);
    if (m)
        *m = (struct kiln_lora_merge){.params = params, .device = device};
    return m;
}

static void restore(const struct merged_set *set)
{
    for (size_t i = 0; i < set->swap_count; i++)
        *set->swaps[i].slot = set->swaps[i].pristine;
}

static void release(struct merged_set *set)
{
    kiln_lora_stack_release(&set->loras);
    free(set->swaps);
    kt_scope_free(set->scope);
    *set = (struct merged_set){.scope = NULL};
}

void kiln_lora_merge_free(struct kiln_lora_merge *m)
{
    if (!m)
        return;
    restore(&m->set);
    release(&m->set);

    free(m);
}

/* The new set's copy of the matrix in slot, made at the first call. */
static kt copy_of(const struct kiln_lora_merge *m, struct merged_set *set, kt *slot)
{
    for (size_t i = 0; i < set->swap_count; i++)
        if (set->swaps[i].slot == slot)
            return set->swaps[i].merged;
    struct swap *swap = &set->swaps[set->swap_count++];
    *swap = (struct swap){.slot = slot, .pristine = *slot};
    for (size_t i = 0; i < m->set.swap_count; i++) /* the slot may hold the set before */
        if (m->set.swaps[i].slot == slot)
            swap->pristine = m->set.swaps[i].pristine;
    return swap->merged = kt_copy(set->scope, swap->pristine);
}

static enum kt_dtype dtype_of(enum kiln_st_dtype dtype)
{
    return dtype == KILN_ST_F16 ? KT_F16 : dtype == KILN_ST_BF16 ? KT_BF16 : KT_F32;
}

/* Adds one pair to the copy of its matrix. */
static void add_pair(const struct kiln_lora_merge *m, struct merged_set *set,
                     const struct kiln_lora_pair *pair, float strength)
{
    const struct kiln_param *param = &m->params->items[pair->module];
    kt target = copy_of(m, set, param->slot);
    struct kt_scope *inner = kt_scope_child(set->scope);
    kt down = kt_from_host(inner, pair->a, dtype_of(pair->a_dtype), KT_F32, 2,
                           (int64_t[]){pair->rank, param->cols});
    kt up = kt_from_host(inner, pair->b, dtype_of(pair->b_dtype), KT_F32, 2,
                         (int64_t[]){param->rows, pair->rank});
    kt_add_low_rank(inner, target, param->row, up, down, strength * pair->scale);
    kt_scope_free(inner);
}

/* Weights that are not finite would damage every later picture. */
static int build(const struct kiln_lora_merge *m, struct merged_set *set, struct kiln_error *err)
{
    struct kiln_lora_files files;
    set->scope = kt_scope_new(m->device);
    set->swaps = calloc(m->params->count + 1, sizeof *set->swaps);
    if (!set->scope || !set->swaps)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to merge LoRAs");
    int code = kiln_lora_files_open(&files, &set->loras, m->params, err);
    if (code)
        return code;
    for (size_t i = 0; !code && i < set->loras.count; i++) {
        for (size_t k = 0; k < kiln_lora_count(files.at[i]); k++)
            add_pair(m, set, kiln_lora_at(files.at[i], k), set->loras.loras[i].weight);
        code = kiln_lora_check(files.at[i], err);
        code = code ? code : kt_scope_check(set->scope, err);
    }
    kiln_lora_files_close(&files);
    for (size_t i = 0; !code && i < set->swap_count; i++)
        if (!kt_all_finite(set->scope, set->swaps[i].merged))
            return kiln_fail(err, KILN_CORRUPT,
                             "LoRA %s: it makes weights that are not finite numbers",
                             set->loras.loras[set->loras.count - 1].path);
    return code ? code : kt_scope_check(set->scope, err);
}

int kiln_lora_merge_set(struct kiln_lora_merge *m, const struct kiln_lora_use *uses, size_t count,
                        bool *ret_changed, struct kiln_error *err)
{
    struct merged_set set = {.scope = NULL};
    int code = kiln_lora_stack_read(uses, count, &set.loras, err);
    const bool same = !code && kiln_lora_stack_same(&set.loras, &m->set.loras);
    *ret_changed = false;
    if (!code && !same && count > 0)
        code = build(m, &set, err);
    if (code || same) {
        release(&set);
        return code;
    }
    restore(&m->set);
    release(&m->set);
    m->set = set;
    for (size_t i = 0; i < set.swap_count; i++)
        *set.swaps[i].slot = set.swaps[i].merged;
    *ret_changed = true;
    return 0;
}
