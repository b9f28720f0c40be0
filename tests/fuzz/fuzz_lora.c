/* fuzz_lora.c - any bytes as a LoRA file for a model of a few modules: refused, or pairs whose
 * matrices lie inside it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pipeline/lora/file/lora.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct kiln_lora_module modules[] = {
    {"layers.0.attention.to_q", 2, 2},          {"layers.0.attention.to_k", 2, 2},
    {"layers.0.attention.to_v", 2, 2},          {"layers.0.attention.to_out.0", 2, 2},
    {"layers.0.feed_forward.w1", 3, 2},         {"layers.0.adaLN_modulation.0", 8, 2},
    {"context_refiner.0.attention.to_q", 2, 2}, {"all_x_embedder.2-1", 2, 4},
};
#define COUNT (sizeof modules / sizeof *modules)

static size_t read_matrix(const void *matrix, int64_t rows, int64_t cols, enum kiln_st_dtype dtype)
{
    size_t sum = 0, bytes = (size_t)(rows * cols) * kiln_st_dtype_size(dtype);
    for (size_t i = 0; i < bytes; i++)
        sum += ((const uint8_t *)matrix)[i];
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64];
    struct kiln_lora_file *f;
    struct kiln_error err;
    size_t sum = 0;
    if (!path[0])
        snprintf(path, sizeof path, "/tmp/fuzz-lora-%d.safetensors", (int)getpid());
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        abort();
    int rc = kiln_lora_open(path, modules, COUNT, &f, &err);
    unlink(path);
    if (rc)
        return 0;
    for (size_t i = 0; i < kiln_lora_count(f); i++) {
        const struct kiln_lora_pair *p = kiln_lora_at(f, i);
        sum += read_matrix(p->a, p->rank, modules[p->module].cols, p->a_dtype);
        sum += read_matrix(p->b, modules[p->module].rows, p->rank, p->b_dtype);
    }
    kiln_lora_close(f);
    return sum == SIZE_MAX;
}
