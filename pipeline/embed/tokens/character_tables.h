/* character_tables.h - ranges of code points, sorted, as scripts/embed_tables.py found them.
 * Private to characters.c.
 */
#ifndef KILN_EMBED_CHARACTER_TABLES_H
#define KILN_EMBED_CHARACTER_TABLES_H

#include <stddef.h>
#include <stdint.h>

struct kiln_char_range {
    uint32_t first, last;
};

extern const struct kiln_char_range kiln_chars_dropped[], kiln_chars_mark[], kiln_chars_ideograph[],
    kiln_chars_punctuation[], kiln_chars_space[];
extern const size_t kiln_chars_dropped_count, kiln_chars_mark_count, kiln_chars_ideograph_count,
    kiln_chars_punctuation_count, kiln_chars_space_count;

#endif
