/* stack.h - which LoRAs, at which strengths, from which state of their files: what tells one
 * set from another.
 */
#ifndef KILN_LORA_STACK_H
#define KILN_LORA_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#include "schemas/error.h"
#include "schemas/limits.h"

/* The set of a job, and one more that lies under all calls of a context. */
#define KILN_LORA_STACK_MAX (KILN_LORAS_MAX + 1)

struct kiln_lora_use {
    const char *path; /* a safetensors file; lent for the call */
    float weight;
};

/* One use, with enough to see that a file was exchanged under the same name. */
struct kiln_lora_seen {
    char *path;
    float weight;
    struct timespec changed;
    off_t size;
};

struct kiln_lora_stack {
    struct kiln_lora_seen loras[KILN_LORA_STACK_MAX];
    size_t count;
};

/* Looks at the files.  KILN_BAD_INPUT for too many, no path or a weight that is no number,
 * KILN_NOT_FOUND or KILN_IO for a file; *ret is then empty. */
int kiln_lora_stack_look(const struct kiln_lora_use *uses, size_t count,
                         struct kiln_lora_stack *ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_lora_stack_release(struct kiln_lora_stack *stack);

bool kiln_lora_stack_same(const struct kiln_lora_stack *a, const struct kiln_lora_stack *b);

#endif
