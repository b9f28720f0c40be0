/* fuzz_embedder.c - a directory of a text embedder: the first byte chooses the file that is
 * replaced by the rest: config.json, modules.json, 1_Pooling/config.json or model.safetensors of a
 * good checkpoint.  What opens must give rows that are finite, of length 1 or zero. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/embed/embedder.h"
#include "storage/formats/regular.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SOURCE "tests/golden/embed/multilingual-e5-tiny"

static const char *const files[] = {"config.json", "modules.json", "1_Pooling/config.json",
                                    "model.safetensors", "tokenizer.json"};
enum { REPLACED = 4, FILES = 5 };

static char dir[64];

static void write_file(const char *name, const void *bytes, size_t size)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        abort();
}

static void copy_file(const char *name)
{
    char path[160], *bytes;
    size_t size;
    struct kiln_error err;
    snprintf(path, sizeof path, SOURCE "/%s", name);
    if (kiln_regular_read(path, 64 << 20, &bytes, &size, &err)) {
        fprintf(stderr, "run in the root of the source tree: %s\n", err.text);
        exit(1);
    }
    write_file(name, bytes, size);
    free(bytes);
}

static void check_row(const float *row, size_t dims)
{
    double sum = 0;
    for (size_t i = 0; i < dims; i++)
        sum += (double)row[i] * row[i];
    if (sum != 0 && !(fabs(sum - 1) < 1e-3))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int last = -1;
    struct kiln_embedder *e;
    struct kiln_error err;
    char pooling[96];
    if (size == 0)
        return 0;
    if (!dir[0]) {
        snprintf(dir, sizeof dir, "/tmp/fuzz-embedder-%d", (int)getpid());
        snprintf(pooling, sizeof pooling, "%s/1_Pooling", dir);
        if (mkdir(dir, 0700) != 0 || mkdir(pooling, 0700) != 0)
            abort();
        for (int i = 0; i < FILES; i++)
            copy_file(files[i]);
    }
    const int chosen = data[0] % REPLACED;
    if (last >= 0 && last != chosen)
        copy_file(files[last]);
    last = chosen;
    write_file(files[chosen], data + 1, size - 1);
    if (kiln_embedder_open(dir, NULL, &e, &err) == 0) {
        const size_t dims = kiln_embedder_info(e)->dims;
        const struct kiln_embed_text texts[] = {{"a red star", 10}, {"", 0}};
        float *rows = malloc(2 * dims * sizeof *rows);
        if (rows && kiln_embedder_embed(e, KILN_EMBED_QUERY, texts, 2, rows, &err) == 0) {
            check_row(rows, dims);
            check_row(rows + dims, dims);
        }
        free(rows);
        kiln_embedder_close(e);
    }
    return 0;
}
