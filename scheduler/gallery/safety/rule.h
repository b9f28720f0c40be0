/* rule.h - whole words of a prompt that make its pictures "unsure".
 *
 * A list has an entry a line: a word, or words that follow each other.  Words are those of
 * schemas/words: brought to one form (NFKC, case folded), so "NUDE" and "ｎｕｄｅ" are nude, and
 * compared as a whole, so "peacock" and "skill" hold nothing.  Scripts without spaces are compared
 * by pairs of characters, and an entry of two or more is found anywhere in a run.  "#" begins a
 * comment, "[en]" says for readers which language follows.
 *
 * The rule looks at what was asked for, not at the picture: it never says that a picture is clear.
 */
#ifndef KILN_GALLERY_RULE_H
#define KILN_GALLERY_RULE_H

#include <stdbool.h>
#include <stddef.h>

#include "schemas/error.h"

#define KILN_RULE_FILE_MAX (256 * 1024) /* bytes of a list */
#define KILN_RULE_ENTRY_MAX 8           /* words of an entry */

struct kiln_rule;

/* setting: "builtin" for the list of this folder (words.txt), "none" for an empty one, or a file.
 * KILN_CONFIG names the file and the line. */
int kiln_rule_open(const char *setting, struct kiln_rule **ret,
                   struct kiln_error *err) KILN_MUST_CHECK;
/* A list in memory; name: of the file, for messages.  Source: see kiln_rule_source. */
int kiln_rule_parse(const char *name, const char *text, size_t len, struct kiln_rule **ret,
                    struct kiln_error *err) KILN_MUST_CHECK;
void kiln_rule_free(struct kiln_rule *rule); /* accepts NULL */

/* "rule:1" for the list that is built in, "rule:none" for an empty one, else "rule:" and eight
 * digits of a hash of the list.  Borrowed. */
const char *kiln_rule_source(const struct kiln_rule *rule);
size_t kiln_rule_entries(const struct kiln_rule *rule);

/* Whether the prompt has an entry of the list; a prompt that is not UTF-8 has none. */
bool kiln_rule_matches(const struct kiln_rule *rule, const char *prompt);

#endif
