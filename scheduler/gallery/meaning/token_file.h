/* token_file.h - the tokens of prompts on the gallery's own disk: an unnamed temporary file, so
 * that a search reads those of a thousand prompts in about a millisecond, from the page cache.
 *
 * The file only grows, and is gone when the last holder drops it or the process ends, however it
 * does.  It is in TMPDIR, or where that is in memory or takes no file, in /var/tmp.  One thread
 * adds; any thread reads what was added before.
 */
#ifndef KILN_GALLERY_TOKEN_FILE_H
#define KILN_GALLERY_TOKEN_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define KILN_TOKEN_FILE_SPARE (1024L << 20) /* bytes of the disk that stay free */
#define KILN_TOKENS_SIZE_MAX ((1u << 20) - 1)

struct kiln_token_file;
typedef uint64_t kiln_token_place; /* of the tokens of one prompt; 0 is none */

struct kiln_token_bytes { /* zero-initialised; the holder frees `at` */
    uint8_t *at;
    size_t size, room;
};

/* Held by the caller.  KILN_IO: neither directory will do. */
int kiln_token_file_new(struct kiln_token_file **ret, struct kiln_error *err) KILN_MUST_CHECK;
/* One more holder, who must drop it. */
struct kiln_token_file *kiln_token_file_hold(struct kiln_token_file *file);
void kiln_token_file_drop(struct kiln_token_file *file); /* accepts NULL */

/* size 0 is a prompt without tokens.  KILN_IO: the disk is full, up to what stays free, or there
 * are more than KILN_TOKENS_SIZE_MAX bytes; the file stays as it was. */
int kiln_token_file_add(struct kiln_token_file *file, const uint8_t *tokens, size_t size,
                        kiln_token_place *ret, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_token_file_read(const struct kiln_token_file *file, kiln_token_place place,
                         struct kiln_token_bytes *ret, struct kiln_error *err) KILN_MUST_CHECK;

#endif
