/* tokenizer_files.h - the checked contents of a tokenizer's files.  Private to tokenizer.c. */
#ifndef KILN_TOKENIZER_FILES_H
#define KILN_TOKENIZER_FILES_H

#include <jansson.h>
#include <stdbool.h>

#include "schemas/error.h"

#define KILN_VOCAB_MAX (1 << 20) /* entries, merges, and the largest id */
#define KILN_ADDED_MAX 1024      /* added tokens */

struct kiln_tokenizer_files {
    char *path;          /* the file that names the vocabulary, for errors */
    json_t *vocab;       /* {"string": id} */
    json_t *merges;      /* ["a b", ...] or [["a", "b"], ...] */
    json_t *added;       /* [{"id", "content", "normalized", ...}, ...] */
    const char *pattern; /* of the split; in roots, or the built-in one */
    bool nfc, bytes;     /* bytes: a ByteLevel step follows the split */
    json_t *roots;       /* owns what the others point into */
};

/* Release also after a failure. */
int kiln_tokenizer_files_read(const char *dir, struct kiln_tokenizer_files *ret,
                              struct kiln_error *err) KILN_MUST_CHECK;
void kiln_tokenizer_files_release(struct kiln_tokenizer_files *f);

#endif
