/* fuzz_tokenizer.c - the first byte chooses: an even one makes the rest a tokenizer.json, an odd
 * one a text for a good tokenizer (tests/golden/models/plain), whose ids must be in its range. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/text/tokenizer.h"
#include "schemas/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode(const struct kiln_tokenizer *t, const uint8_t *text, size_t size, bool raw)
{
    int32_t *ids;
    size_t count;
    struct kiln_error err;
    if (kiln_tokenizer_encode(t, (const char *)text, size, raw, &ids, &count, &err))
        return;
    if (count > KILN_TOKENS_MAX)
        abort();
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] > kiln_tokenizer_max_id(t))
            abort();
    free(ids);
}

static void try_text(const uint8_t *text, size_t size)
{
    static struct kiln_tokenizer *t;
    struct kiln_error err;
    if (!t && kiln_tokenizer_open("tests/golden/models/plain/tokenizer", &t, &err)) {
        fprintf(stderr, "run in the root of the source tree: %s\n", err.text);
        exit(1);
    }
    encode(t, text, size, true);
    encode(t, text, size, false);
}

static void try_file(const uint8_t *text, size_t size)
{
    static char dir[64], path[96];
    struct kiln_tokenizer *t;
    struct kiln_error err;
    if (!dir[0]) {
        snprintf(dir, sizeof dir, "/tmp/fuzz-tokenizer-%d", (int)getpid());
        snprintf(path, sizeof path, "%s/tokenizer.json", dir);
        if (mkdir(dir, 0700) != 0)
            abort();
    }
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(text, 1, size, file) != size || fclose(file) != 0)
        abort();
    if (kiln_tokenizer_open(dir, &t, &err) == 0) {
        static const uint8_t sample[] = "it's  a\r\n red circle, 12 <|im_end|> \xe4\xb8\x80";
        encode(t, sample, sizeof sample - 1, false);
        kiln_tokenizer_free(t);
    }
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] % 2)
        try_text(data + 1, size - 1);
    else if (size > 0)
        try_file(data + 1, size - 1);
    return 0;
}
