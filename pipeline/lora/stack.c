/* stack.c - reads and compares the state of a set's files; see stack.h. */
#include "pipeline/lora/stack.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int read_state(const struct kiln_lora_use *use, struct kiln_lora_file_state *ret,
                      struct kiln_error *err)
{
    struct stat st;
    if (!use->path || !*use->path)
        return kiln_fail(err, KILN_BAD_INPUT, "a LoRA without a path");
    if (!isfinite(use->weight))
        return kiln_fail(err, KILN_BAD_INPUT, "LoRA %s: the weight is not a finite number",
                         use->path);
    if (stat(use->path, &st) != 0)
        return errno == ENOENT
                   ? kiln_fail(err, KILN_NOT_FOUND,
                               "LoRA %s: no such file; it is the path of a .safetensors file",
                               use->path)
                   : kiln_fail(err, KILN_IO, "LoRA %s: %s", use->path, strerror(errno));
    *ret = (struct kiln_lora_file_state){.path = strdup(use->path),
                                         .weight = use->weight,
                                         .changed = st.st_mtim,
                                         .size = st.st_size};
    if (!ret->path)
        return kiln_fail(err, KILN_NO_MEMORY, "LoRA %s: no memory", use->path);
    return 0;
}

int kiln_lora_stack_read(const struct kiln_lora_use *uses, size_t count,
                         struct kiln_lora_stack *ret, struct kiln_error *err)
{
    int code = 0;
    *ret = (struct kiln_lora_stack){.count = 0};
    if (count > KILN_LORA_STACK_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "%zu LoRAs at once; at most %d are possible", count,
                         KILN_LORA_STACK_MAX);
    for (size_t i = 0; !code && i < count; i++) {
        code = read_state(&uses[i], &ret->loras[i], err);
        ret->count += code == 0;
    }
    if (code)
        kiln_lora_stack_release(ret);
    return code;
}

int kiln_lora_stack_copy(const struct kiln_lora_stack *from, struct kiln_lora_stack *ret,
                         struct kiln_error *err)
{
    *ret = (struct kiln_lora_stack){.count = 0};
    for (; ret->count < from->count; ret->count++) {
        struct kiln_lora_file_state *lora = &ret->loras[ret->count];
        *lora = from->loras[ret->count];
        if (!(lora->path = strdup(lora->path))) {
            kiln_lora_stack_release(ret);
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for the names of LoRAs");
        }
    }
    return 0;
}

void kiln_lora_stack_release(struct kiln_lora_stack *stack)
{
    for (size_t i = 0; i < stack->count; i++)
        free(stack->loras[i].path);
    *stack = (struct kiln_lora_stack){.count = 0};
}

bool kiln_lora_stack_same(const struct kiln_lora_stack *a, const struct kiln_lora_stack *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct kiln_lora_file_state *x = &a->loras[i], *y = &b->loras[i];
        if (strcmp(x->path, y->path) != 0 || x->weight != y->weight || x->size != y->size ||
            x->changed.tv_sec != y->changed.tv_sec || x->changed.tv_nsec != y->changed.tv_nsec)
            return false;
    }
    return true;
}
