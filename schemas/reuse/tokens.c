/* tokens.c - see tokens.h. */
#include "schemas/reuse/tokens.h"

#include <stdlib.h>
#include <string.h>

enum { PHRASE_WORDS = 12 };

static size_t end_of(const struct kiln_split_word *word)
{
    return (size_t)word->start + word->len;
}

/* The longest phrase of the lists that begins with word i: how many words, or 0. */
static unsigned longest(const struct kiln_reuse_words *words, const struct kiln_split *split,
                        uint32_t i, const struct kiln_sense **ret)
{
    const struct kiln_split_word *first = &split->at[i];
    unsigned most = 0;
    const struct kiln_sense *one =
        kiln_sense_find(words, split->text + first->start, first->len, &most);
    if (first->kind == KILN_SPLIT_QUOTE)
        return 0;
    most = most > PHRASE_WORDS ? PHRASE_WORDS : most;
    unsigned reach = 1;
    while (reach < most && i + reach < split->count && !split->at[i + reach].before &&
           split->at[i + reach].kind != KILN_SPLIT_QUOTE)
        reach++;
    for (; reach > 1; reach--) {
        size_t len = end_of(&split->at[i + reach - 1]) - first->start;
        if ((*ret = kiln_sense_find(words, split->text + first->start, len, NULL)) != NULL)
            return reach;
    }
    *ret = one;
    return one ? 1 : 0;
}

/* Requests at the beginning of a sentence and frames behind a place are fillers; elsewhere they are
 * words as any: "draw a horse", but "a horse show". */
static void settle(struct kiln_tokens *tokens)
{
    bool start = true;
    for (uint32_t i = 0; i < tokens->count; i++) {
        struct kiln_token *token = &tokens->at[i];
        const struct kiln_token *next = i + 1 < tokens->count ? token + 1 : NULL;
        start = start || token->before;
        bool empty = token->class == KILN_SENSE_FILLER;
        if (token->class == KILN_SENSE_REQUEST) {
            empty = start && next && (!next->before || next->before == KILN_BREAK_COLON);
            if (token->kind == KILN_SPLIT_HAN) /* the word for "draw" begins others */
                empty = empty &&
                        (next->class == KILN_SENSE_ARTICLE || next->class == KILN_SENSE_NUMBER);
        } else if (token->class == KILN_SENSE_FRAME) {
            empty = i && token[-1].class == KILN_SENSE_ZONE;
        }
        if (token->class == KILN_SENSE_REQUEST || token->class == KILN_SENSE_FRAME) {
            token->class = empty ? KILN_SENSE_FILLER : KILN_SENSE_OPAQUE;
            token->sense = empty ? token->sense : NULL;
        }
        start = start && empty;
    }
}

/* Which tokens have capitals that count: all but the one that begins a sentence, in front of which
 * words may stand that say nothing. */
static void mark_case(struct kiln_tokens *tokens)
{
    bool start = true;
    for (uint32_t i = 0; i < tokens->count; i++) {
        struct kiln_token *token = &tokens->at[i];
        start = start || token->before >= KILN_BREAK_COLON;
        for (uint32_t w = 0; w < token->words; w++) {
            const struct kiln_split_word *word = &tokens->split.at[token->word + w];
            token->cased = token->cased || word->capitals || (word->capital && (w || !start));
        }
        start = start && (token->class == KILN_SENSE_FILLER || token->class == KILN_SENSE_QUALITY);
    }
}

int kiln_tokens_read(const struct kiln_reuse_words *words, const char *prompt,
                     struct kiln_tokens *ret, struct kiln_error *err)
{
    struct kiln_tokens out = {.prompt = prompt};
    int code = kiln_split_prompt(prompt, strlen(prompt), &out.split, err);
    if (code)
        return code;
    out.at = malloc((out.split.count + 1) * sizeof *out.at);
    if (!out.at) {
        kiln_split_release(&out.split);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a prompt");
    }
    for (uint32_t i = 0; i < out.split.count;) {
        const struct kiln_split_word *first = &out.split.at[i];
        struct kiln_token *token = &out.at[out.count++];
        const struct kiln_sense *sense = NULL;
        unsigned taken = longest(words, &out.split, i, &sense);
        const struct kiln_split_word *last = first + (taken ? taken - 1 : 0);
        *token = (struct kiln_token){.text = out.split.text + first->start,
                                     .sense = sense,
                                     .len = (uint32_t)(end_of(last) - first->start),
                                     .class = sense ? (uint8_t)sense->class : KILN_SENSE_OPAQUE,
                                     .before = first->before,
                                     .kind = first->kind,
                                     .capital = first->capital,
                                     .word = i,
                                     .words = (uint8_t)(taken ? taken : 1)};
        if (!sense && first->kind == KILN_SPLIT_NUMBER)
            token->class = KILN_SENSE_NUMBER;
        i += taken ? taken : 1;
    }
    settle(&out);
    mark_case(&out);
    *ret = out;
    return 0;
}

void kiln_tokens_release(struct kiln_tokens *tokens)
{
    free(tokens->at);
    kiln_split_release(&tokens->split);
    *tokens = (struct kiln_tokens){0};
}

void kiln_token_typed(const struct kiln_tokens *tokens, const struct kiln_token *token,
                      struct kiln_text *out)
{
    for (uint32_t w = 0; w < token->words; w++) {
        const struct kiln_split_word *word = &tokens->split.at[token->word + w];
        kiln_text_puts(out, w ? " " : "");
        kiln_text_add(out, tokens->prompt + word->from, word->size);
    }
}

const char *kiln_token_meaning(const struct kiln_token *token, size_t *ret_len)
{
    *ret_len = token->sense ? strlen(token->sense->meaning) : token->len;
    return token->sense ? token->sense->meaning : token->text;
}

bool kiln_token_equal(const struct kiln_token *a, const struct kiln_token *b)
{
    if (a->sense || b->sense)
        return a->sense && b->sense && a->sense->meaning == b->sense->meaning &&
               a->sense->plural == b->sense->plural;
    return a->len == b->len && (a->kind == KILN_SPLIT_QUOTE) == (b->kind == KILN_SPLIT_QUOTE) &&
           memcmp(a->text, b->text, a->len) == 0;
}
