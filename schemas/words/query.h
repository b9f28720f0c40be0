/* query.h - what people type into a search box, as a tsquery of Postgres.
 *
 *     red star        both words                   "red star"   next to each other
 *     -blue           without the word             -"red star"  without the phrase
 *     gre*            words that begin with gre    gre          the same for the last word, unless
 *                                                               a space follows
 *
 * Names such as "neon-punk" or "job_12" are phrases of their parts.  A tsquery is built only of
 * quoted words of letters and digits: nothing of the input is syntax.
 */
#ifndef KILN_QUERY_H
#define KILN_QUERY_H

#include <stdbool.h>
#include <stddef.h>

#include "schemas/error.h"

#define KILN_QUERY_BYTES_MAX 256
#define KILN_QUERY_WORDS_MAX 16 /* in phrases, too; a run without spaces is one */
#define KILN_PREFIX_MIN 2       /* bytes before a * */

struct kiln_query_term {
    const char *text; /* in the folded text */
    size_t len;
    bool minus, quoted, prefix;
};

struct kiln_query {
    char *folded; /* owned */
    struct kiln_query_term terms[KILN_QUERY_WORDS_MAX];
    size_t count;
};

/* KILN_BAD_INPUT: not UTF-8, too long, or nothing to search for.  Release it. */
int kiln_query_parse(const char *text, struct kiln_query *ret,
                     struct kiln_error *err) KILN_MUST_CHECK;
void kiln_query_release(struct kiln_query *query);
/* Whether the words say exactly what is wanted, by quotes or a minus: then only pictures that match
 * them are right, and none that mean something similar.  False also for what cannot be parsed. */
bool kiln_query_is_exact(const char *text);

/* The tsquery, malloc'd; each word is there as kiln_words_each has it. */
int kiln_query_tsquery(const struct kiln_query *query, char **ret,
                       struct kiln_error *err) KILN_MUST_CHECK;

#endif
