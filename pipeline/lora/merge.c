/* merge.c - merged copies beside pristine weights; see merge.h. */
#include "pipeline/lora/merge.h"

#include <stdlib.h>

#include "pipeline/lora/lora.h"
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
    struct kiln_lora_module *modules;
    int device;
    struct merged_set set;
};

struct kiln_lora_merge *kiln_lora_merge_new(const struct kiln_param_table *params, int device)
{
    struct kiln_lora_merge *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->params = params;
    m->device = device;
    m->modules = calloc(params->count ? params->count : 1, sizeof *m->modules);
    if (!m->modules) {
        free(m);
        return NULL;
    }
    for (size_t i = 0; i < params->count; i++)
        m->modules[i] = (struct kiln_lora_module){.name = params->items[i].name,
                                                  .rows = params->items[i].rows,
                                                  .cols = params->items[i].cols};
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
    free(m->modules);
    free(m);
}

/* The pristine matrix of a slot. */
static kt pristine_of(const struct kiln_lora_merge *m, kt *slot)
{
    for (size_t i = 0; i < m->set.swap_count; i++)
        if (m->set.swaps[i].slot == slot)
            return m->set.swaps[i].pristine;
    return *slot;
}

/* The new set's copy of the matrix in slot, made at the first call. */
static kt copy_of(const struct kiln_lora_merge *m, struct merged_set *set, kt *slot)
{
    for (size_t i = 0; i < set->swap_count; i++)
        if (set->swaps[i].slot == slot)
            return set->swaps[i].merged;
    kt pristine = pristine_of(m, slot);
    struct swap *swap = &set->swaps[set->swap_count++];
    *swap =
        (struct swap){.slot = slot, .pristine = pristine, .merged = kt_copy(set->scope, pristine)};
    return swap->merged;
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

static int add_file(const struct kiln_lora_merge *m, struct merged_set *set,
                    const struct kiln_lora_use *use, struct kiln_error *err)
{
    struct kiln_lora_file *file;
    int code = kiln_lora_open(use->path, m->modules, m->params->count, &file, err);
    if (code)
        return code;
    for (size_t i = 0; i < kiln_lora_count(file); i++)
        add_pair(m, set, kiln_lora_at(file, i), use->weight);
    code = kiln_lora_check(file, err);
    kiln_lora_close(file);
    return code ? code : kt_scope_check(set->scope, err);
}

/* Weights that are not finite would spoil every later picture. */
static int check_finite(const struct merged_set *set, struct kiln_error *err)
{
    for (size_t i = 0; i < set->swap_count; i++)
        if (!kt_all_finite(set->scope, set->swaps[i].merged))
            return kiln_fail(err, KILN_CORRUPT,
                             "LoRA %s: it makes weights that are not finite numbers",
                             set->loras.loras[set->loras.count - 1].path);
    return kt_scope_check(set->scope, err);
}

static int build(const struct kiln_lora_merge *m, const struct kiln_lora_use *uses, size_t count,
                 struct merged_set *set, struct kiln_error *err)
{
    int code = 0;
    set->scope = kt_scope_new(m->device);
    set->swaps = calloc(m->params->count ? m->params->count : 1, sizeof *set->swaps);
    if (!set->scope || !set->swaps)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to merge LoRAs");
    for (size_t i = 0; !code && i < count; i++)
        code = add_file(m, set, &uses[i], err);
    return code ? code : check_finite(set, err);
}

int kiln_lora_merge_set(struct kiln_lora_merge *m, const struct kiln_lora_use *uses, size_t count,
                        bool *ret_changed, struct kiln_error *err)
{
    struct merged_set set = {.scope = NULL};
    int code = kiln_lora_stack_read(uses, count, &set.loras, err);
    *ret_changed = false;
    if (!code && kiln_lora_stack_same(&set.loras, &m->set.loras)) {
        release(&set);
        return 0;
    }
    if (!code && count > 0)
        code = build(m, uses, count, &set, err);
    if (code) {
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
