/* fuzz_subwords.c - the first byte chooses: an even one makes the rest a tokenizer.json of a text
 * embedder, an odd one a text for good tokenizers, whose ids must be in their range. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/embed/tokens/subwords.h"
#include "schemas/text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode(const struct kiln_subwords *s, const char *text, size_t size, size_t max)
{
    const struct kiln_subwords_info *info = kiln_subwords_info(s);
    struct kiln_ids ids = {0};
    struct kiln_error err;
    if (kiln_subwords_encode(s, text, size, true, max, &ids, &err) == 0) {
        if (max < SIZE_MAX && ids.count > max + info->special_count)
            abort();
        for (size_t i = 0; i < ids.count; i++)
            if (ids.at[i] < 0 || ids.at[i] > info->max_id)
                abort();
    }
    free(ids.at);
}

static void try_text(const char *text, size_t size)
{
    static const char *const files[] = {"tests/golden/embed/minilm/tokenizer.json",
                                        "tests/golden/embed/multilingual-e5-tiny/tokenizer.json"};
    static struct kiln_subwords *open[2];
    struct kiln_error err;
    if (!kiln_utf8_valid(text, size, NULL))
        return;
    for (int i = 0; i < 2; i++) {
        if (!open[i] && kiln_subwords_open(files[i], &open[i], &err)) {
            fprintf(stderr, "run in the root of the source tree: %s\n", err.text);
            exit(1);
        }
        encode(open[i], text, size, SIZE_MAX);
        encode(open[i], text, size, 3);
    }
}

static void try_file(const uint8_t *text, size_t size)
{
    static const char sample[] = "it's  a\r\n red circle, 12 [SEP] \xe4\xb8\x80 e\xcc\x81 \xc2\xbd";
    static char path[96];
    struct kiln_subwords *s;
    struct kiln_error err;
    if (!path[0])
        snprintf(path, sizeof path, "/tmp/fuzz-subwords-%d.json", (int)getpid());
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(text, 1, size, file) != size || fclose(file) != 0)
        abort();
    if (kiln_subwords_open(path, &s, &err) == 0) {
        encode(s, sample, sizeof sample - 1, SIZE_MAX);
        kiln_subwords_free(s);
    }
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] % 2)
        try_text((const char *)data + 1, size - 1);
    else if (size > 0)
        try_file(data + 1, size - 1);
    return 0;
}
