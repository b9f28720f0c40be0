/* fuzz_safetensors.c - any bytes as a safetensors file: refused, or tensors that lie inside it. */
#include <stdint.h>
#include <stdlib.h>

#include "storage/formats/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kiln_error err;
    struct kiln_st *st;
    if (kiln_st_open_memory(data, size, "fuzz", &st, &err))
        return 0;
    size_t sum = 0;
    for (size_t i = 0; i < kiln_st_count(st); i++) {
        const struct kiln_st_tensor *t = kiln_st_at(st, i);
        if (kiln_st_find(st, t->name) != t)
            abort();
        for (size_t k = 0; k < t->size; k++)
            sum += ((const uint8_t *)t->data)[k];
    }
    (void)kiln_st_metadata(st, "format");
    kiln_st_close(st);
    return sum == SIZE_MAX;
}
