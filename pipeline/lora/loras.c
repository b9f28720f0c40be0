/* loras.c - loads one set at a time, in one of three ways; see loras.h. */
#include "pipeline/lora/loras.h"

#include <stdlib.h>

#include "pipeline/lora/merge.h"
#include "pipeline/torch/load.h"

/* Device memory that merged copies of the weights leave for pictures. */
#define MERGE_RESERVE ((size_t)8 << 30)

struct kiln_loras {
    int device;
    enum kiln_lora_mode mode;
    struct kiln_lora_merge *merge;
    struct kiln_lora_cache *cache;
    struct kiln_lora_cache *own_cache; /* the same; NULL if it is another one's */
    struct kiln_lora_slots *slots;
    struct kiln_lora_stack now; /* in the slots */
    bool by_files;              /* the present set is loaded through merge */
    bool quantised;             /* some weight is; files cannot be merged into it */
    int arrangement, files_merged;
    enum diffusionz_lora_from from;
};

/* Takes over own, which is NULL if cache is lent. */
static struct kiln_loras *make(const struct kiln_param_table *params, int device,
                               struct kiln_lora_cache *cache, struct kiln_lora_cache *own,
                               const struct kiln_lora_plain *plain)
{
    struct kiln_loras *l = calloc(1, sizeof *l);
    if (!l) {
        kiln_lora_cache_free(own);
        return NULL;
    }
    l->device = device;
    l->cache = cache;
    l->own_cache = own;
    l->merge = kiln_lora_merge_new(params, device);
    l->slots = kiln_lora_slots_new(params, device, plain);
    for (size_t i = 0; i < params->count; i++)
        l->quantised = l->quantised || kt_dtype_of(*params->items[i].slot) == KT_E4M3;
    if (l->merge && l->cache && l->slots)
        return l;
    kiln_loras_free(l);
    return NULL;
}

struct kiln_loras *kiln_loras_new(const struct kiln_param_table *params, int device,
                                  enum kt_dtype dtype, const struct kiln_lora_plain *plain)
{
    struct kiln_lora_cache *own = kiln_lora_cache_new(
        params, device, dtype == KT_F32 ? KT_F32 : KT_BF16, KILN_LORA_CACHE_BYTES);
    return make(params, device, own, own, plain);
}

/* An image names matrices by their places, which depend on the shape of the model alone. */
struct kiln_loras *kiln_loras_new_beside(struct kiln_loras *first,
                                         const struct kiln_param_table *params,
                                         const struct kiln_lora_plain *plain)
{
    return make(params, first->device, first->cache, NULL, plain);
}

void kiln_loras_free(struct kiln_loras *l)
{
    if (!l)
        return;
    kiln_lora_cache_free(l->own_cache);
    kiln_lora_merge_free(l->merge);
    kiln_lora_slots_free(l->slots);
    kiln_lora_stack_release(&l->now);
    free(l);
}

/* --- through the slots ------------------------------------------------------------------------ */

static void clear_slots(struct kiln_loras *l)
{
    kiln_lora_slots_clear(l->slots);
    kiln_lora_stack_release(&l->now);
    l->arrangement = 0;
}

/* Merged if the mode or free memory lets it; else beside the weights. */
static int put(struct kiln_loras *l, const struct kiln_lora_image *image, struct kiln_error *err)
{
    const size_t missing = kiln_lora_slots_missing(l->slots);
    const bool choose = l->mode == KILN_LORA_AUTO && missing > 0;
    bool merged = missing != SIZE_MAX && l->mode != KILN_LORA_BESIDE;
    struct kt_memory memory;
    if (merged && choose)
        merged = kt_memory_of(l->device, &memory) &&
                 memory.total - memory.taken + memory.held - memory.used > missing + MERGE_RESERVE;
    int code = kiln_lora_slots_load(l->slots, image, merged, err);
    if (code == KILN_NO_MEMORY && merged && l->mode == KILN_LORA_AUTO) {
        merged = false;
        code = kiln_lora_slots_load(l->slots, image, merged, err);
    }
    l->arrangement = code ? 0 : merged ? -1 : (int)image->layout.rank;
    return code;
}

/* Takes over stack. */
static int set_in_slots(struct kiln_loras *l, struct kiln_lora_stack *stack, bool *ret_changed,
                        struct kiln_error *err)
{
    const struct kiln_lora_image *image = NULL;
    struct kiln_error ignored;
    bool changed, ready = stack->count && kiln_lora_cache_ready(l->cache, stack);
    int code = stack->count ? kiln_lora_cache_acquire(l->cache, stack, &image, err) : 0;
    if (code) {
        kiln_lora_stack_release(stack);
        return code;
    }
    if (l->by_files && kiln_lora_merge_set(l->merge, NULL, 0, &changed, &ignored) == 0)
        l->by_files = false;
    *ret_changed = true;
    clear_slots(l);
    if (!image)
        return 0;
    l->from = ready ? DIFFUSIONZ_LORA_READY : DIFFUSIONZ_LORA_READ;
    code = put(l, image, err);
    kiln_lora_cache_release(l->cache, image);
    if (code)
        kiln_lora_stack_release(stack);
    else
        l->now = *stack;
    return code;
}

/* --- through the files ------------------------------------------------------------------------ */

/* Merges from the files, as on the CPU.  Each set has copies, and so an arrangement, of its own.  A
 * set in the slots is unloaded first, since copies are made from pristine weights; it is loaded
 * again if the files are no good. */
static int set_by_files(struct kiln_loras *l, const struct kiln_lora_use *uses, size_t count,
                        bool *ret_changed, struct kiln_error *err)
{
    struct kiln_lora_stack before = l->now;
    struct kiln_error ignored;
    bool changed = false;
    l->now.count = 0;
    if (before.count > 0) {
        clear_slots(l);
        *ret_changed = true;
    }
    int code = kiln_lora_merge_set(l->merge, uses, count, &changed, err);
    *ret_changed = *ret_changed || changed;
    if (code) {
        if (before.count > 0)
            (void)!set_in_slots(l, &before, ret_changed, &ignored);
        return code;
    }
    kiln_lora_stack_release(&before);
    if (changed && count)
        l->from = DIFFUSIONZ_LORA_READ;
    if (changed)
        l->arrangement = count ? --l->files_merged - 1 : 0;
    l->by_files = count > 0;
    return 0;
}

/* --- either ----------------------------------------------------------------------------------- */

void kiln_loras_mode(struct kiln_loras *l, enum kiln_lora_mode mode)
{
    struct kiln_error ignored;
    bool changed;
    (void)!kiln_loras_set(l, NULL, 0, &changed, &ignored);
    l->mode = mode;
}

int kiln_loras_set(struct kiln_loras *l, const struct kiln_lora_use *uses, size_t count,
                   bool *ret_changed, struct kiln_error *err)
{
    struct kiln_lora_stack stack;
    *ret_changed = false;
    l->from = DIFFUSIONZ_LORA_KEPT;
    if (l->mode == KILN_LORA_FILES || (l->mode == KILN_LORA_AUTO && l->device == KT_CPU))
        return set_by_files(l, uses, count, ret_changed, err);
    int code = kiln_lora_stack_read(uses, count, &stack, err);
    if (code)
        return code;
    if (!l->by_files && kiln_lora_stack_same(&stack, &l->now)) {
        kiln_lora_stack_release(&stack);
        return 0;
    }
    code = set_in_slots(l, &stack, ret_changed, err);
    /* Ranks too high for slots; or an unsupported file, whose error is then the same. */
    if (code == KILN_UNSUPPORTED && !l->quantised)
        code = set_by_files(l, uses, count, ret_changed, err);
    return code;
}

enum diffusionz_lora_from kiln_loras_source(const struct kiln_loras *l)
{
    return l->from;
}

void kiln_loras_prefetch(struct kiln_loras *l, const struct kiln_lora_use *uses, size_t count)
{
    if (l->mode == KILN_LORA_MERGED || l->mode == KILN_LORA_BESIDE || l->device != KT_CPU)
        kiln_lora_cache_prefetch(l->cache, uses, count);
}

bool kiln_loras_beside(const struct kiln_loras *l)
{
    return l->arrangement > 0;
}

int kiln_loras_arrangement(const struct kiln_loras *l)
{
    /* Once weights have moved, "no LoRAs" is a new arrangement. */
    return l->arrangement ? l->arrangement : kiln_lora_slots_moved(l->slots);
}
