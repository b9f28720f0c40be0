/* known.c - see known.h. */
#include "schemas/reuse/known.h"

#include <stdio.h>
#include <string.h>

#include "schemas/reuse/tokens.h"

/* Of a noun of several words the last counts as well: a "perfect square" is a square. */
static bool is_own(const struct kiln_reuse_words *words, const struct kiln_token *token)
{
    const char *end = token->text + token->len;
    const char *space = memrchr(token->text, ' ', token->len);
    const char *last = space ? space + 1 : token->text;
    const struct kiln_sense *sense = kiln_sense_find(words, last, (size_t)(end - last), NULL);
    return token->sense->own || (sense && sense->own);
}

static bool is_unknown(const struct kiln_reuse_words *words, const struct kiln_token *token)
{
    const bool noun = token->class == KILN_SENSE_THING || token->class == KILN_SENSE_BEING ||
                      token->class == KILN_SENSE_PART;
    return noun && token->sense && token->kind != KILN_SPLIT_QUOTE && !is_own(words, token);
}

static bool says_nothing(int class)
{
    return class == KILN_SENSE_FILLER || class == KILN_SENSE_REQUEST || class == KILN_SENSE_FRAME ||
           class == KILN_SENSE_QUALITY || class == KILN_SENSE_ARTICLE ||
           class == KILN_SENSE_BACKDROP || class == KILN_SENSE_POSITION ||
           class == KILN_SENSE_ORDER;
}

int kiln_reuse_has_own(const struct kiln_reuse_words *words, const char *text, bool *ret,
                       struct kiln_error *err)
{
    struct kiln_tokens tokens;
    *ret = false;
    int code = kiln_tokens_read(words, text, &tokens, err);
    if (code)
        return code;
    for (uint32_t i = 0; i < tokens.count && !*ret; i++)
        *ret =
            tokens.at[i].sense && is_own(words, &tokens.at[i]) && !says_nothing(tokens.at[i].class);
    kiln_tokens_release(&tokens);
    return 0;
}

int kiln_reuse_unknown_noun(const struct kiln_reuse_words *words, const char *prompt,
                            char ret[KILN_NOUN_MAX], struct kiln_error *err)
{
    struct kiln_tokens tokens;
    ret[0] = '\0';
    int code = kiln_tokens_read(words, prompt, &tokens, err);
    if (code)
        return code;
    for (uint32_t i = 0; i < tokens.count && !ret[0]; i++)
        if (is_unknown(words, &tokens.at[i]))
            snprintf(ret, KILN_NOUN_MAX, "%.*s", (int)tokens.at[i].len, tokens.at[i].text);
    kiln_tokens_release(&tokens);
    return 0;
}
