/* fuzz_s3_xml.c - any bytes as an answer of an S3 server: no overrun, keys never empty, and what is
 * taken as a whole page says whether more follows. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "storage/objects/s3/xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int each(void *arg, const struct kiln_s3_entry *entry)
{
    size_t len = strlen(entry->key);
    if (len == 0 || len >= sizeof entry->key)
        abort();
    *(size_t *)arg += len;
    return 0;
}

static int each_refusal(void *arg, const struct kiln_s3_refusal *refusal)
{
    if (!refusal->key[0] || !refusal->code[0])
        abort();
    *(size_t *)arg += strlen(refusal->message);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t sum = 0;
    struct kiln_s3_page page;
    struct kiln_s3_error error;
    struct kiln_error err = {0};
    if (kiln_s3_parse_list((const char *)data, size, each, &sum, &page, &err) == 0) {
        if (page.truncated && !page.token[0])
            abort();
    } else if (!err.text[0]) {
        abort();
    }
    if (kiln_s3_parse_deleted((const char *)data, size, each_refusal, &sum, &err) && !err.text[0])
        abort();
    kiln_s3_parse_error((const char *)data, size, &error);
    if (strlen(error.code) >= sizeof error.code || strlen(error.message) >= sizeof error.message)
        abort();
    return 0;
}
