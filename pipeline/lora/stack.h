/* stack.h - the identity of a LoRA set: which LoRAs, at which strengths, from which state of their
 * files. */
#ifndef KILN_LORA_STACK_H
#define KILN_LORA_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#include "schemas/error.h"
#include "schemas/limits.h"

/* The set of a job, the model's own, and one more from diffusionz_load_lora. */
#define KILN_LORA_STACK_MAX (KILN_LORAS_MAX + KILN_STEP_LORAS_MAX + 1)

struct kiln_lora_use {
    const char *path; /* a safetensors file; lent for the call */
    float weight;
};

/* One LoRA, with enough to notice that its file was replaced under the same name. */
struct kiln_lora_file_state {
    char *path;
    float weight;
    struct timespec changed;
    off_t size;
};

struct kiln_lora_stack {
    struct kiln_lora_file_state loras[KILN_LORA_STACK_MAX];
    size_t count;
};

/* Reads the state of the files.  KILN_BAD_INPUT for too many LoRAs, no path or a weight that is not
 * finite; KILN_NOT_FOUND or KILN_IO for a file.  *ret is empty on failure. */
int kiln_lora_stack_read(const struct kiln_lora_use *uses, size_t count,
                         struct kiln_lora_stack *ret, struct kiln_error *err) KILN_MUST_CHECK;
/* *ret is empty on failure. */
int kiln_lora_stack_copy(const struct kiln_lora_stack *from, struct kiln_lora_stack *ret,
                         struct kiln_error *err) KILN_MUST_CHECK;
void kiln_lora_stack_release(struct kiln_lora_stack *stack);

bool kiln_lora_stack_same(const struct kiln_lora_stack *a, const struct kiln_lora_stack *b);

#endif
