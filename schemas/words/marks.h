/* marks.h - which parts of a prompt do not ask for what they name: quoted text, what a sentence
 * denies, and syntax of other programs.
 *
 *     a cat, not pixel art, holding a sign that says "neon" <lora:x:1>
 *            NNNNNNNNNNNNN                            QQQQQQ SSSSSSSSSS
 *
 * Quoted: between quotation marks of any script (not of "'neon' is the look"), and what follows
 * "says", "reads", "titled", 写着 ... to the end of the clause.  Negated: the noun phrase behind
 * "not", "no", "without", "instead of", "than", 不要 ...: to the end of the clause, a preposition,
 * "but", "and make", or four words (eight characters of Chinese).  "Not drawn with ink" denies ink,
 * "replace the neon with clay" and "less neon, more clay" neon alone. "Neon is not wanted" and
 * "neon-free" deny what is before them.  "not only", "nothing but" and "more than just" deny
 * nothing.  Syntax: <lora:name:1>, the weight in "(word:1.2)", addresses of the web. These are
 * rules of thumb: no grammar is parsed.
 */
#ifndef KILN_MARKS_H
#define KILN_MARKS_H

#include <stddef.h>

enum kiln_mark { KILN_MARK_NONE, KILN_MARK_NEGATED, KILN_MARK_QUOTED, KILN_MARK_SYNTAX };

/* Sets marks[0..len), one enum kiln_mark a byte of a text that kiln_words_fold made.  A later kind
 * of the enum wins over an earlier one. */
void kiln_words_marks(const char *folded, size_t len, unsigned char *marks);

#endif
