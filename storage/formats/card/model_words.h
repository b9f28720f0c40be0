/* model_words.h - words.txt, the word lists of a model: what it was taught to take for the same.
 *
 * The file is beside kiln.json, in the format of schemas/reuse/words.txt.  A model without one is
 * compared by the built-in lists alone.
 */
#ifndef KILN_MODEL_WORDS_H
#define KILN_MODEL_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/error.h"
#include "schemas/reuse/lexicon.h"

#define KILN_MODEL_WORDS "words.txt" /* in the model's directory */

/* Which version of the file is there; all zero: none. */
struct kiln_words_version {
    int64_t size, changed_ns;
    uint64_t file; /* its inode */
};
/* One stat.  A file that cannot be read has a version too. */
struct kiln_words_version kiln_model_words_version(const char *dir);

/* The built-in lists and those of dir/words.txt, if there is one (*ret_own).  KILN_CONFIG for a
 * file that cannot be read or is not valid; the error names it and the line. */
int kiln_model_words_read(const char *dir, struct kiln_reuse_words **ret, bool *ret_own,
                          struct kiln_error *err) KILN_MUST_CHECK;
/* The same for warnings: NULL for a model without a valid file, which costs one stat if there is
 * none. */
struct kiln_reuse_words *kiln_model_words_own(const char *dir);

#endif
