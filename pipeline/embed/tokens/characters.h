/* characters.h - the character classes and mappings that tokenizers use.
 *
 * The reference, Hugging Face's tokenizers, has tables of Unicode 8 and 9 for classes and
 * decompositions and of Unicode 17 for lower case. Ids must equal the reference's, so these
 * functions follow its tables and do not depend on the version of utf8proc.
 */
#ifndef KILN_EMBED_CHARACTERS_H
#define KILN_EMBED_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KILN_DECOMPOSED_MAX 8 /* code points of one character */

/* The code point of valid UTF-8 at text and its length in bytes. */
size_t kiln_char_next(const char *text, uint32_t *ret);

bool kiln_char_space(uint32_t code); /* White_Space */
bool kiln_char_dropped(
    uint32_t code); /* NUL, U+FFFD, control and format characters but tab, LF, CR */
bool kiln_char_ideograph(uint32_t code);   /* of BERT's ranges, which leave out kana and hangul */
bool kiln_char_mark(uint32_t code);        /* non-spacing mark */
bool kiln_char_punctuation(uint32_t code); /* category P or an ASCII symbol */

/* Lower case: 1 or 2 code points. */
size_t kiln_char_lower(uint32_t code, uint32_t out[2]);
/* Canonical decomposition (NFD) of one character, marks in their order within it. */
size_t kiln_char_decompose(uint32_t code, uint32_t out[KILN_DECOMPOSED_MAX]);

#endif
