/* canonical.c - see canonical.h.
 *
 * A prompt is a row of tags between commas and stops; a sentence is one tag.  Tags are sorted where
 * each stands for itself.  Whoever reads "cat, striped, dog" hangs the stripes on the cat, so a tag
 * that may belong to its neighbour keeps all tags in their order.
 */
#include "schemas/reuse/canonical.h"

#include <stdlib.h>
#include <string.h>

enum tag_kind {
    TAG_EMPTY,  /* fillers and quality words only */
    TAG_SCENE,  /* style, background: of the whole picture */
    TAG_THING,  /* a known noun with what is said of it */
    TAG_OWNER,  /* the same; it may own parts */
    TAG_PART,   /* the same; it may belong to another tag */
    TAG_UNSURE, /* an unknown word */
    TAG_BOUND   /* belongs to its neighbours for certain */
};

struct tag {
    uint32_t from, to; /* tokens */
    uint8_t before;
    enum tag_kind kind;
    size_t text, len; /* in the text of all tags */
};

static bool says_nothing(const struct kiln_token *token)
{
    return token->class == KILN_SENSE_FILLER && !token->cased;
}

static enum tag_kind tag_kind(const struct kiln_tokens *tokens, const struct tag *tag)
{
    enum tag_kind noun = TAG_EMPTY;
    bool unsure = false, said = false;
    const struct kiln_token *first = NULL, *last = NULL;
    for (uint32_t i = tag->from; i < tag->to; i++) {
        const struct kiln_token *token = &tokens->at[i];
        if (says_nothing(token))
            continue;
        first = first ? first : token;
        last = token;
        switch (token->class) {
        case KILN_SENSE_QUALITY:
            unsure = unsure || token->cased; /* "MASTERPIECE" may say something */
            break;
        case KILN_SENSE_ARTICLE:
            break;
        case KILN_SENSE_COLOUR:
        case KILN_SENSE_SIZE:
        case KILN_SENSE_DETAIL:
        case KILN_SENSE_NUMBER:
        case KILN_SENSE_ZONE:
            said = true;
            break;
        case KILN_SENSE_STYLE:
        case KILN_SENSE_SETTING:
        case KILN_SENSE_BACKDROP:
            noun = noun == TAG_EMPTY ? TAG_SCENE : noun;
            break;
        case KILN_SENSE_THING:
            noun = noun <= TAG_SCENE ? TAG_THING : noun;
            break;
        case KILN_SENSE_BEING:
            noun = TAG_OWNER;
            break;
        case KILN_SENSE_PART:
            noun = noun <= TAG_THING ? TAG_PART : noun;
            break;
        case KILN_SENSE_PREPOSITION:
        case KILN_SENSE_RELATION:
        case KILN_SENSE_AND:
        case KILN_SENSE_POSITION:
            said = true; /* within a tag it joins what is there; at its edge see below */
            break;
        case KILN_SENSE_NEGATION:
        case KILN_SENSE_PRONOUN:
        case KILN_SENSE_ORDER:
            return TAG_BOUND;
        default:
            unsure = true;
        }
    }
    if (!first)
        return TAG_EMPTY;
    for (int edge = 0; edge < 2; edge++) {
        int class = (edge ? last : first)->class;
        if (class == KILN_SENSE_PREPOSITION || class == KILN_SENSE_RELATION ||
            class == KILN_SENSE_AND || class == KILN_SENSE_POSITION)
            return TAG_BOUND;
    }
    if (unsure)
        return TAG_UNSURE;
    return noun == TAG_EMPTY && said ? TAG_BOUND : noun;
}

/* Whether the tags say the same in any order. */
static bool order_says_nothing(const struct tag *tags, uint32_t count)
{
    uint32_t things = 0, owners = 0, parts = 0, unsure = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (tags[i].kind == TAG_BOUND || (i && tags[i].before != KILN_BREAK_COMMA))
            return false;
        things += tags[i].kind != TAG_SCENE;
        owners += tags[i].kind == TAG_OWNER || tags[i].kind == TAG_THING;
        parts += tags[i].kind == TAG_PART;
        unsure += tags[i].kind == TAG_UNSURE;
    }
    return things <= 2 || (unsure == 0 && (parts == 0 || owners <= 1));
}

static void say(const struct kiln_tokens *tokens, struct tag *tag, struct kiln_text *all)
{
    tag->text = all->len;
    for (uint32_t i = tag->from; i < tag->to; i++) {
        const struct kiln_token *token = &tokens->at[i];
        if (says_nothing(token))
            continue;
        if (all->len > tag->text)
            kiln_text_puts(all, " ");
        if (token->cased)
            kiln_token_typed(tokens, token, all);
        else if (token->kind == KILN_SPLIT_QUOTE) /* escaped, so that no text can forge its end */
            kiln_text_json_least(all, token->text, token->len);
        else
            kiln_text_add(all, token->text, token->len);
    }
    tag->len = all->len - tag->text;
}

static int by_text(const void *a, const void *b, void *all)
{
    const struct tag *x = a, *y = b;
    const char *text = ((const struct kiln_text *)all)->at;
    int order = memcmp(text + x->text, text + y->text, x->len < y->len ? x->len : y->len);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

static uint32_t cut(const struct kiln_tokens *tokens, struct tag *tags)
{
    uint32_t count = 0;
    uint8_t before = KILN_BREAK_NONE;
    for (uint32_t i = 0; i < tokens->count;) {
        struct tag *tag = &tags[count];
        *tag = (struct tag){.from = i, .before = tokens->at[i].before};
        do
            i++;
        while (i < tokens->count && !tokens->at[i].before);
        tag->to = i;
        tag->kind = tag_kind(tokens, tag);
        if (tag->before < before)
            tag->before = before;
        before = tag->kind == TAG_EMPTY ? tag->before : KILN_BREAK_NONE;
        count += tag->kind != TAG_EMPTY;
    }
    return count;
}

static void join(const struct tag *tags, uint32_t count, bool sorted, const struct kiln_text *all,
                 struct kiln_text *out)
{
    static const char *const breaks[] = {" ", ", ", ": ", ". "};
    for (uint32_t i = 0; i < count; i++) {
        if (i)
            kiln_text_puts(out, sorted ? ", " : breaks[tags[i].before]);
        kiln_text_add(out, all->at + tags[i].text, tags[i].len);
    }
}

int kiln_canonical_tokens(const struct kiln_tokens *tokens, struct kiln_text *out,
                          uint8_t ret_hash[KILN_SHA256_SIZE], struct kiln_error *err)
{
    struct kiln_text all = {0}, form = {0};
    int code = 0;
    struct tag *tags = malloc((tokens->count + 1) * sizeof *tags);
    if (tags) {
        uint32_t count = cut(tokens, tags);
        for (uint32_t i = 0; i < count; i++)
            say(tokens, &tags[i], &all);
        bool sorted = order_says_nothing(tags, count);
        if (sorted && !all.failed)
            qsort_r(tags, count, sizeof *tags, by_text, &all);
        if (!all.failed)
            join(tags, count, sorted, &all, &form);
    }
    if (!tags || all.failed || form.failed) {
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory for a prompt");
    } else {
        if (ret_hash)
            kiln_sha256(form.at ? form.at : "", form.len, ret_hash);
        if (out)
            kiln_text_add(out, form.at ? form.at : "", form.len);
    }
    free(tags);
    kiln_text_release(&all);
    kiln_text_release(&form);
    return code;
}

int kiln_canonical_prompt(const struct kiln_reuse_words *words, const char *prompt,
                          struct kiln_text *out, uint8_t ret_hash[KILN_SHA256_SIZE],
                          struct kiln_error *err)
{
    struct kiln_tokens tokens;
    int code = kiln_tokens_read(words, prompt, &tokens, err);
    if (code)
        return code;
    code = kiln_canonical_tokens(&tokens, out, ret_hash, err);
    kiln_tokens_release(&tokens);
    return code;
}
