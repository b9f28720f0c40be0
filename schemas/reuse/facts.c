/* facts.c - see facts.h: from tokens to the sequence of words that count. */
#include "schemas/reuse/facts.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/reuse/canonical.h"
#include "schemas/reuse/reading.h"

/* Words with a capital within a sentence are names: kept to the letter, whatever the lists say of
 * them.  Where half of all words have one, they may be: then `capital` remains, and the guard lets
 * nobody add or leave out such a word.  A capital at the beginning of a sentence says nothing. */
static void mark_names(struct kiln_tokens *tokens)
{
    uint32_t words = 0, capitals = 0;
    for (uint32_t i = 0; i < tokens->count; i++) {
        const struct kiln_token *token = &tokens->at[i];
        if (token->kind != KILN_SPLIT_WORD || token->class == KILN_SENSE_ARTICLE)
            continue;
        words++;
        capitals += token->capital;
    }
    bool start = true;
    for (uint32_t i = 0; i < tokens->count; i++) {
        struct kiln_token *token = &tokens->at[i];
        start = start || token->before >= KILN_BREAK_COLON;
        if (token->class == KILN_SENSE_FILLER || token->class == KILN_SENSE_ARTICLE)
            continue;
        if (!start && token->capital && capitals * 2 < words) {
            token->sense = NULL;
            token->class = KILN_SENSE_NAME;
        }
        token->capital = token->capital && !start;
        start = false;
    }
}

static bool is_word(const struct kiln_token *token, const char *meaning)
{
    return token->sense && strcmp(token->sense->meaning, meaning) == 0;
}

/* "a red plus": a word that joins nothing is a noun, the plus sign where the lists have one. */
static void mark_nouns(const struct kiln_reuse_words *words, struct kiln_tokens *tokens)
{
    for (uint32_t i = 0; i < tokens->count; i++) {
        struct kiln_token *token = &tokens->at[i];
        bool plus = token->len == 4 && memcmp(token->text, "plus", 4) == 0;
        bool alone = i + 1 == tokens->count || tokens->at[i + 1].before ||
                     (plus && (i == 0 || token->before));
        int last = i && !token->before ? tokens->at[i - 1].class : KILN_SENSE_OPAQUE;
        if (token->class != KILN_SENSE_AND || token->kind != KILN_SPLIT_WORD ||
            !(alone || last == KILN_SENSE_ARTICLE || last == KILN_SENSE_NUMBER ||
              (last == KILN_SENSE_COLOUR && plus) || last == KILN_SENSE_SIZE))
            continue;
        token->sense = plus ? kiln_sense_find(words, "plus sign", 9, NULL) : NULL;
        token->class = token->sense ? (uint8_t)token->sense->class : KILN_SENSE_OPAQUE;
    }
}

/* "don't", "wouldn't" and their like. */
static void mark_negations(struct kiln_tokens *tokens)
{
    for (uint32_t i = 0; i < tokens->count; i++) {
        struct kiln_token *token = &tokens->at[i];
        if (token->class == KILN_SENSE_OPAQUE && token->len > 3 &&
            memcmp(token->text + token->len - 3, "n't", 3) == 0)
            token->class = KILN_SENSE_NEGATION;
    }
}

/* Every token of the tag from i on is of these classes; *ret_end is where the tag ends. */
static bool tag_is(const struct kiln_tokens *tokens, uint32_t i, int wanted, uint32_t *ret_end)
{
    bool all = true, found = false;
    do {
        int class = tokens->at[i].class;
        found = found || class == wanted;
        all = all && (class == wanted || class == KILN_SENSE_QUALITY ||
                      class == KILN_SENSE_FILLER || class == KILN_SENSE_ARTICLE);
        i++;
    } while (i < tokens->count && !tokens->at[i].before);
    *ret_end = i;
    return all && found;
}

/* Before a number or "one" that may be an article there is no noun that it could belong to, as in
 * "Area 1". */
static bool begins(const struct kiln_tokens *tokens, uint32_t i)
{
    if (i == 0 || tokens->at[i].before)
        return true;
    int class = tokens->at[i - 1].class;
    return class == KILN_SENSE_FILLER || class == KILN_SENSE_AND || class == KILN_SENSE_ARTICLE ||
           class == KILN_SENSE_PREPOSITION || class == KILN_SENSE_RELATION ||
           class == KILN_SENSE_POSITION || class == KILN_SENSE_ZONE;
}

/* "one", "1" and "a single" before a known noun are an article; elsewhere "one" points at
 * something. Of a part there may be several: "a cat with one ear". */
static bool one_is_article(const struct kiln_tokens *tokens, uint32_t i)
{
    if (!begins(tokens, i) || !(is_word(&tokens->at[i], "one") || is_word(&tokens->at[i], "1")) ||
        i + 1 == tokens->count || tokens->at[i + 1].before ||
        (tokens->at[i + 1].sense && tokens->at[i + 1].sense->plural))
        return false;
    int class = tokens->at[i + 1].class;
    return class == KILN_SENSE_COLOUR || class == KILN_SENSE_SIZE || class == KILN_SENSE_SHADE ||
           class == KILN_SENSE_THING || class == KILN_SENSE_BEING;
}

static void add_break(struct kiln_facts *facts, uint8_t which)
{
    if (facts->count == 0)
        return;
    struct kiln_item *last = &facts->items[facts->count - 1];
    if (last->token)
        facts->items[facts->count++] = (struct kiln_item){NULL, which};
    else if (last->before < which)
        last->before = which;
}

/* An article behind "and", or behind a colour and a comma, begins another thing: "a red and a white
 * cat" are two, and so are "a teacher and a mother". */
static bool article_counts(const struct kiln_facts *facts, uint32_t i)
{
    uint32_t n = facts->count;
    if (n < 2 || facts->items[n - 1].token)
        return false;
    return facts->tokens.at[i - 1].class == KILN_SENSE_AND ||
           kiln_attribute(facts->items[n - 2].token);
}

static void add_token(struct kiln_facts *facts, uint32_t i)
{
    const struct kiln_tokens *tokens = &facts->tokens;
    const struct kiln_token *token = &tokens->at[i];
    switch (token->class) {
    case KILN_SENSE_FILLER:
        return;
    case KILN_SENSE_AND:
        add_break(facts, KILN_BREAK_COMMA);
        return;
    case KILN_SENSE_ARTICLE:
        if (!article_counts(facts, i))
            return;
        break;
    case KILN_SENSE_NUMBER:
        if (one_is_article(tokens, i) && !article_counts(facts, i))
            return;
        break;
    case KILN_SENSE_PRONOUN:
        if (one_is_article(tokens, i) && !article_counts(facts, i))
            return;
        facts->pointing = true;
        break;
    case KILN_SENSE_ORDER:
        facts->pointing = true;
        break;
    default:
        break;
    }
    facts->items[facts->count++] = (struct kiln_item){token, 0};
}

/* A style at the beginning that leads to what it shows: "a watercolour of". */
static uint32_t leading_style(const struct kiln_tokens *tokens)
{
    uint32_t i = 0;
    bool style = false;
    for (; i < tokens->count && (i == 0 || !tokens->at[i].before); i++) {
        int class = tokens->at[i].class;
        if (style && is_word(&tokens->at[i], "of"))
            return i + 1;
        style = style || class == KILN_SENSE_STYLE;
        if (class != KILN_SENSE_STYLE && class != KILN_SENSE_FILLER &&
            class != KILN_SENSE_ARTICLE && class != KILN_SENSE_QUALITY)
            break;
    }
    return 0;
}

static void collect(struct kiln_facts *facts)
{
    const struct kiln_tokens *tokens = &facts->tokens;
    uint32_t i = 0, end;
    for (; i < tokens->count; i++)
        facts->negated = facts->negated || tokens->at[i].class == KILN_SENSE_NEGATION;
    /* Styles are compared as a set (guard.c), but "no photo, cartoon" must stay in its order. */
    i = facts->negated ? 0 : leading_style(tokens);
    while (i < tokens->count) {
        if (tokens->at[i].before)
            add_break(facts, tokens->at[i].before);
        bool tag = i == 0 || tokens->at[i].before;
        if (tag && (tag_is(tokens, i, KILN_SENSE_QUALITY, &end) ||
                    (!facts->negated && tag_is(tokens, i, KILN_SENSE_STYLE, &end)))) {
            i = end;
            continue;
        }
        add_token(facts, i++);
    }
    while (facts->count && !facts->items[facts->count - 1].token)
        facts->count--;
}

static void collect_capitals(struct kiln_facts *facts)
{
    for (uint32_t i = 0; i < facts->tokens.count; i++) {
        const struct kiln_token *token = &facts->tokens.at[i];
        if (!token->cased)
            continue;
        kiln_text_puts(&facts->capitals, facts->capitals.len ? " " : "");
        kiln_token_typed(&facts->tokens, token, &facts->capitals);
    }
}

int kiln_facts_read(const struct kiln_reuse_words *words, const char *prompt,
                    struct kiln_facts **ret, struct kiln_error *err)
{
    struct kiln_facts *facts = calloc(1, sizeof *facts);
    if (!facts)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the facts of a prompt");
    int code = 0;
    if (!(facts->prompt = strdup(prompt)))
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory for the facts of a prompt");
    if (code == 0)
        code = kiln_tokens_read(words, facts->prompt, &facts->tokens, err);
    if (code == 0)
        code = kiln_canonical_tokens(&facts->tokens, NULL, facts->canonical, err);
    if (code == 0) {
        collect_capitals(facts);
        /* A token and a break before it. */
        facts->items = malloc((2 * (size_t)facts->tokens.count + 1) * sizeof *facts->items);
        if (!facts->items || facts->capitals.failed)
            code = kiln_fail(err, KILN_NO_MEMORY, "no memory for the facts of a prompt");
    }
    if (code) {
        kiln_facts_free(facts);
        return code;
    }
    mark_nouns(words, &facts->tokens);
    mark_names(&facts->tokens);
    mark_negations(&facts->tokens);
    collect(facts);
    kiln_things_parse(facts);
    *ret = facts;
    return 0;
}

void kiln_facts_free(struct kiln_facts *facts)
{
    if (!facts)
        return;
    free(facts->prompt);
    free(facts->items);
    kiln_text_release(&facts->capitals);
    kiln_tokens_release(&facts->tokens);
    free(facts);
}

const uint8_t *kiln_facts_canonical(const struct kiln_facts *facts)
{
    return facts->canonical;
}

static void add_meaning(struct kiln_text *out, const struct kiln_token *token)
{
    size_t len;
    const char *meaning = kiln_token_meaning(token, &len);
    bool quote = token->kind == KILN_SPLIT_QUOTE;
    kiln_text_puts(out, quote ? "\"" : "");
    kiln_text_add(out, meaning, len);
    kiln_text_puts(out, quote ? "\"" : "");
    if (token->sense && token->sense->plural)
        kiln_text_puts(out, "+");
}

static void add_thing(const struct kiln_thing *thing, struct kiln_text *out)
{
    if (thing->number)
        add_meaning(out, thing->number);
    for (int w = 0; w < thing->said_count; w++) {
        kiln_text_puts(out, w || thing->number ? " " : "");
        add_meaning(out, thing->said[w]);
    }
    kiln_text_puts(out, thing->said_count || thing->number ? " " : "");
    add_meaning(out, thing->noun);
    if (thing->zone) {
        kiln_text_puts(out, " at ");
        add_meaning(out, thing->zone);
    }
}

void kiln_facts_text(const struct kiln_facts *facts, struct kiln_text *out)
{
    if (!facts->whole) {
        kiln_text_puts(out, "words:");
        for (uint32_t i = 0; i < facts->count; i++) {
            kiln_text_puts(out, facts->items[i].token ? " " : "");
            if (facts->items[i].token)
                add_meaning(out, facts->items[i].token);
            else
                kiln_text_puts(out, " /");
        }
    } else {
        for (int i = 0; i < facts->thing_count; i++) {
            kiln_text_puts(out, i ? "; " : "");
            add_thing(&facts->things[i], out);
        }
        for (int i = 0; i < facts->relation_count; i++)
            kiln_text_printf(out, "; %d %s %d", facts->relations[i].a + 1, facts->relations[i].kind,
                             facts->relations[i].b + 1);
        if (facts->ground_count)
            kiln_text_puts(out, "; background");
        for (int i = 0; i < facts->ground_count; i++) {
            kiln_text_puts(out, " ");
            add_meaning(out, facts->ground[i]);
        }
    }
    for (uint32_t i = 0; i < facts->tokens.count; i++)
        if (facts->tokens.at[i].class == KILN_SENSE_STYLE) {
            kiln_text_puts(out, "; style ");
            add_meaning(out, &facts->tokens.at[i]);
        }
}
