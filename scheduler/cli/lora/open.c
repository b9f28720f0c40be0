/* open.c - see open.h. */
#include "scheduler/cli/lora/open.h"

#include <stdlib.h>

#include "scheduler/router/lora_file.h"
#include "schemas/digest.h"
#include "storage/formats/user_file.h"
#include "storage/ledger/lora/lora.h"

static int build(const char *text, size_t len, const char *where, uint64_t version,
                 struct kiln_lexicon **lexicon, struct kiln_router **ret, struct kiln_error *err)
{
    struct kiln_router_lora *loras = NULL;
    struct kiln_lexicon *words = NULL;
    size_t count = 0;
    int rc = kiln_lexicon_new(&words, err);
    if (rc == 0)
        rc = kiln_lora_file_read(text, len, where, &loras, &count, err);
    if (rc == 0)
        rc = kiln_router_build(loras, count, version, words, ret, err);
    if (rc)
        kiln_lexicon_free(words);
    else
        *lexicon = words;
    return rc;
}

int kiln_loras_open(const char *path, struct kiln_lexicon **lexicon, struct kiln_router **ret,
                    struct kiln_error *err)
{
    char *text = NULL;
    size_t len = 0;
    uint8_t hash[KILN_SHA256_SIZE];
    int rc = kiln_user_file_read(path, KILN_LORA_FILE_MAX, &text, &len, err);
    if (rc)
        return rc;
    kiln_sha256(text, len, hash);
    const uint64_t version = (uint64_t)hash[0] << 24 | hash[1] << 16 | hash[2] << 8 | hash[3];
    rc = build(text, len, path, version, lexicon, ret, err);
    free(text);
    return rc;
}

int kiln_loras_open_registry(struct kiln_ledger *ledger, const char *pool, uint64_t version,
                             struct kiln_lexicon **lexicon, struct kiln_router **ret,
                             struct kiln_error *err)
{
    struct kiln_lora_list list = {0};
    bool changed;
    int rc = kiln_lora_list(ledger, pool, version, UINT64_MAX, &list, &changed, err);
    rc = rc ? rc
            : build(list.texts, list.texts_len, "the registry", list.version, lexicon, ret, err);
    kiln_lora_list_release(&list);
    return rc;
}
