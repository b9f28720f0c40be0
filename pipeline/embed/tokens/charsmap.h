/* charsmap.h - SentencePiece's precompiled character map, such as nmt_nfkc: which characters and
 * short sequences are replaced by which text.
 *
 * Layout (sentencepiece's normalizer.cc): u32 little-endian size of a double-array trie, the trie
 * (u32 units of Darts-clone), then NUL-terminated replacements; the trie's values are offsets into
 * these.  The map is applied as Hugging Face's tokenizers does it, which differs from
 * SentencePiece: a grapheme cluster below 6 bytes is replaced as a whole by the *shortest* match
 * at its start, and all else character by character.
 */
#ifndef KILN_EMBED_CHARSMAP_H
#define KILN_EMBED_CHARSMAP_H

#include <stddef.h>

#include "schemas/error.h"
#include "schemas/text/text.h"

#define KILN_CHARSMAP_BYTES_MAX (4 * 1024 * 1024)

struct kiln_charsmap;

/* base64: as tokenizer.json has it.  KILN_CORRUPT for a damaged one; `what` names it in errors. */
int kiln_charsmap_new(const char *base64, size_t len, const char *what, struct kiln_charsmap **ret,
                      struct kiln_error *err) KILN_MUST_CHECK;
void kiln_charsmap_free(struct kiln_charsmap *m); /* accepts NULL */

/* Appends the mapped text to out; text is valid UTF-8. */
void kiln_charsmap_apply(const struct kiln_charsmap *m, const char *text, size_t len,
                         struct kiln_text *out);

#endif
