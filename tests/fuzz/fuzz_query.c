/* fuzz_query.c - any bytes as a search: the tsquery is balanced, and holds nothing but quoted words
 * and operators of ours. */
#include <stdlib.h>
#include <string.h>

#include "schemas/words/query.h"
#include "schemas/words/words.h"
#include "tests/fuzz/fuzz.h"

/* Outside of quotes there are these characters only; no word holds a quote. */
static void check(const char *tsquery)
{
    bool quoted = false;
    int depth = 0;
    for (const char *at = tsquery; *at; at++) {
        if (*at == '\'')
            quoted = !quoted;
        else if (!quoted) {
            fuzz_require(strchr(" ()!&<->:*", *at) != NULL);
            depth += (*at == '(') - (*at == ')');
            fuzz_require(depth == 0 || depth == 1);
        } else {
            fuzz_require(strchr("\\()!&|<>:* ", *at) == NULL);
        }
    }
    fuzz_require(!quoted && depth == 0);
}

static void count(void *arg, const struct kiln_word *word)
{
    fuzz_require(word->len > 0 && word->len <= KILN_WORD_MAX);
    ++*(uint32_t *)arg;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kiln_query query;
    struct kiln_error err = {0};
    char *folded = NULL, *tsquery = NULL;
    size_t len;
    uint32_t position = 0, words = 0;
    if (kiln_words_fold((const char *)data, size, &folded, &len, &err) == 0) {
        kiln_words_each(folded, len, &position, count, &words);
        fuzz_require(position == words);
        free(folded);
    }
    char *text = strndup((const char *)data, size);
    if (text && kiln_query_parse(text, &query, &err) == 0) {
        fuzz_require(query.count >= 1 && query.count <= KILN_QUERY_WORDS_MAX);
        if (kiln_query_tsquery(&query, &tsquery, &err) == 0)
            check(tsquery);
        free(tsquery);
        kiln_query_release(&query);
    } else {
        fuzz_require(!text || err.text[0]);
    }
    free(text);
    return 0;
}
