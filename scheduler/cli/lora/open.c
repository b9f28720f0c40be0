/* open.c - see open.h. */
#include "scheduler/cli/lora/open.h"

#include <stdlib.h>

#include "scheduler/router/lora_file.h"
#include "schemas/digest.h"
#include "storage/formats/user_file.h"

int kiln_loras_open(const char *path, struct kiln_lexicon **lexicon, struct kiln_router **ret,
                    struct kiln_error *err)
{
    char *text = NULL;
    size_t len = 0, count = 0;
    uint8_t hash[KILN_SHA256_SIZE];
    struct kiln_router_lora *loras = NULL;
    struct kiln_lexicon *words = NULL;
    int rc = kiln_user_file_read(path, KILN_LORA_FILE_MAX, &text, &len, err);
    rc = rc ? rc : kiln_lora_file_read(text, len, path, &loras, &count, err);
    if (rc) {
        free(text);
        return rc;
    }
    kiln_sha256(text, len, hash);
    free(text);
    const uint64_t version = (uint64_t)hash[0] << 24 | hash[1] << 16 | hash[2] << 8 | hash[3];
    rc = kiln_lexicon_new(&words, err);
    if (rc) {
        for (size_t i = 0; i < count; i++)
            kiln_router_lora_release(&loras[i]);
        free(loras);
        return rc;
    }
    rc = kiln_router_build(loras, count, version, words, ret, err);
    if (rc) {
        kiln_lexicon_free(words);
        return rc;
    }
    *lexicon = words;
    return 0;
}
