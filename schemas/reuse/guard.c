/* guard.c - see guard.h.
 *
 * Three ways to a yes: equal prompts, equal canonical forms, or equal statements.  Statements are
 * compared as things with relations if both prompts were understood word by word, else as sequences
 * of words in which the donor may only add adjectives to known nouns.
 */
#include "schemas/reuse/guard.h"

#include <stdio.h>
#include <string.h>

#include "schemas/reuse/reading.h"
#include "schemas/text/utf8.h"

enum { STYLES_MAX = 32, SHOWN_MAX = 40, LOOKED_AT = 16 };

/* --- styles, as a set ------------------------------------------------------------------------ */

static uint32_t styles_of(const struct kiln_facts *facts, const struct kiln_token **ret)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < facts->tokens.count; i++)
        if (facts->tokens.at[i].class == KILN_SENSE_STYLE) {
            if (count == STYLES_MAX)
                return STYLES_MAX + 1;
            ret[count++] = &facts->tokens.at[i];
        }
    return count;
}

static bool same_styles(const struct kiln_facts *a, const struct kiln_facts *b)
{
    const struct kiln_token *of_a[STYLES_MAX], *of_b[STYLES_MAX];
    uint32_t count = styles_of(a, of_a), used = 0;
    if (count != styles_of(b, of_b) || count > STYLES_MAX)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = 0;
        while (j < count && (used & 1u << j || !kiln_token_equal(of_a[i], of_b[j])))
            j++;
        if (j == count)
            return false;
        used |= 1u << j;
    }
    return true;
}

/* --- sequences of words ---------------------------------------------------------------------- */

struct walk {
    const struct kiln_facts *facts;
    uint32_t at;
};

static const struct kiln_token *token_at(const struct kiln_facts *facts, uint32_t i)
{
    return i < facts->count ? facts->items[i].token : NULL;
}

static uint32_t attributes_from(const struct kiln_facts *facts, uint32_t i)
{
    uint32_t end = i;
    while (token_at(facts, end) && kiln_attribute(token_at(facts, end)))
        end++;
    return end;
}

/* Whether what stands at i is a known noun and not the first half of a longer one. */
static bool noun_alone(const struct kiln_facts *facts, uint32_t i)
{
    const struct kiln_token *noun = token_at(facts, i), *next = token_at(facts, i + 1);
    if (!noun || !kiln_known_noun(noun))
        return false;
    return !next || next->class == KILN_SENSE_PREPOSITION || next->class == KILN_SENSE_RELATION ||
           next->class == KILN_SENSE_ZONE || next->class == KILN_SENSE_POSITION ||
           next->class == KILN_SENSE_SETTING;
}

/* Whether the donor may add words to the attributes [from, end): they belong to one known noun, and
 * not to "red and ...". */
static bool may_add(const struct kiln_facts *donor, uint32_t from, uint32_t end)
{
    if (donor->negated || donor->pointing || !noun_alone(donor, end))
        return false;
    for (uint32_t i = from; i <= end; i++)
        if (token_at(donor, i)->capital) /* may be a name: "Yellow River" */
            return false;
    return !(from >= 2 && !token_at(donor, from - 1) && token_at(donor, from - 2) &&
             kiln_attribute(token_at(donor, from - 2)));
}

/* The attributes before one noun: the target's in their order within the donor's. */
static bool attributes_serve(struct walk *target, struct walk *donor, bool *more)
{
    uint32_t t_end = attributes_from(target->facts, target->at);
    uint32_t d_end = attributes_from(donor->facts, donor->at), t = target->at, added = 0;
    unsigned stated[KILN_SENSE_CLASS_COUNT] = {0}, extra[KILN_SENSE_CLASS_COUNT] = {0};
    for (uint32_t i = target->at; i < t_end; i++)
        stated[token_at(target->facts, i)->class]++;
    for (uint32_t d = donor->at; d < d_end; d++) {
        const struct kiln_token *said = token_at(donor->facts, d);
        if (t < t_end && kiln_token_serves(said, token_at(target->facts, t), more)) {
            t++;
            continue;
        }
        const struct kiln_token *next = token_at(donor->facts, d + 1);
        if (said->class == KILN_SENSE_MATERIAL ||
            (said->class == KILN_SENSE_SHADE && !(next && next->class == KILN_SENSE_COLOUR)))
            return false;
        extra[said->class]++;
        added++;
    }
    if (t < t_end || (added && !may_add(donor->facts, donor->at, d_end)))
        return false;
    for (int class = KILN_SENSE_COLOUR; class <= KILN_SENSE_SIZE; class ++)
        if (class != KILN_SENSE_SHADE && extra[class] && (stated[class] || extra[class] > 1))
            return false;
    *more = *more || added;
    target->at = t_end;
    donor->at = d_end;
    return true;
}

static bool sequences_serve(const struct kiln_facts *target, const struct kiln_facts *donor,
                            bool *more)
{
    struct walk t = {target, 0}, d = {donor, 0};
    bool strict = target->negated || donor->negated || target->pointing || donor->pointing;
    while (t.at < target->count || d.at < donor->count) {
        if (!attributes_serve(&t, &d, more))
            return false;
        if (t.at == target->count || d.at == donor->count)
            break;
        const struct kiln_item *a = &target->items[t.at++], *b = &donor->items[d.at++];
        if (!a->token != !b->token)
            return false;
        if (a->token && !kiln_token_serves(b->token, a->token, more))
            return false;
        /* ";" ends what "no" and "it" reach; where nothing reaches, it is a comma. */
        bool colons =
            !a->token && (a->before == KILN_BREAK_COLON) != (b->before == KILN_BREAK_COLON);
        if (colons || (!a->token && strict && a->before != b->before))
            return false;
    }
    return t.at == target->count && d.at == donor->count;
}

/* --- reasons --------------------------------------------------------------------------------- */

static void show(const struct kiln_token *token, char out[SHOWN_MAX + 1])
{
    char whole[SHOWN_MAX * 2];
    if (!token) {
        kiln_utf8_copy(out, SHOWN_MAX + 1, "none");
        return;
    }
    size_t len = token->len < sizeof whole - 1 ? token->len : sizeof whole - 1;
    len = kiln_utf8_whole(token->text, len);
    memcpy(whole, token->text, len);
    whole[len] = '\0';
    kiln_utf8_clean(whole, len);
    kiln_utf8_copy(out, SHOWN_MAX + 1, whole);
}

typedef bool wanted(const struct kiln_token *token, int class);

static bool of_class(const struct kiln_token *token, int class)
{
    return token->class == class;
}

static bool quoted(const struct kiln_token *token, int class)
{
    (void)class;
    return token->kind == KILN_SPLIT_QUOTE;
}

/* The first of a's tokens that b has no equal for; looks at the first few alone. */
static const struct kiln_token *missing(const struct kiln_facts *a, const struct kiln_facts *b,
                                        wanted *is, int class)
{
    uint32_t looked = 0;
    bool used[LOOKED_AT] = {false};
    for (uint32_t i = 0; i < a->tokens.count && looked < LOOKED_AT; i++) {
        const struct kiln_token *token = &a->tokens.at[i];
        if (!is(token, class))
            continue;
        looked++;
        uint32_t others = 0, j = 0;
        bool found = false, narrower;
        for (; j < b->tokens.count && others < LOOKED_AT && !found; j++) {
            const struct kiln_token *other = &b->tokens.at[j];
            if (!is(other, class))
                continue;
            found = !used[others] && kiln_token_serves(other, token, &narrower);
            used[others] = used[others] || found;
            others++;
        }
        if (!found)
            return token;
    }
    return NULL;
}

static bool explain(const struct kiln_facts *target, const struct kiln_facts *donor, wanted *is,
                    int class, const char *what, char reason[KILN_REUSE_REASON_MAX])
{
    char ours[SHOWN_MAX + 1], theirs[SHOWN_MAX + 1];
    const struct kiln_token *a = missing(target, donor, is, class);
    const struct kiln_token *b = missing(donor, target, is, class);
    if (!a && !b)
        return false;
    show(a, ours);
    show(b, theirs);
    snprintf(reason, KILN_REUSE_REASON_MAX, "the %s differ: %s, %s", what, ours, theirs);
    return true;
}

/* Whether the same words have the same capitals, apart from those that begin a sentence. */
static bool same_capitals(const struct kiln_facts *target, const struct kiln_facts *donor,
                          char *reason)
{
    const struct kiln_text *ours = &target->capitals, *theirs = &donor->capitals;
    char shown[2][SHOWN_MAX + 1];
    if (ours->len == theirs->len && (!ours->len || memcmp(ours->at, theirs->at, ours->len) == 0))
        return true;
    if (!reason)
        return false;
    kiln_utf8_copy(shown[0], sizeof shown[0], ours->len ? ours->at : "none");
    kiln_utf8_copy(shown[1], sizeof shown[1], theirs->len ? theirs->at : "none");
    snprintf(reason, KILN_REUSE_REASON_MAX, "the words with capitals differ: %s, %s", shown[0],
             shown[1]);
    return false;
}

static void explain_none(const struct kiln_facts *target, const struct kiln_facts *donor,
                         char reason[KILN_REUSE_REASON_MAX])
{
    static const struct {
        int class;
        const char *what;
    } kinds[] = {
        {KILN_SENSE_NEGATION, "negations"},   {KILN_SENSE_NUMBER, "numbers"},
        {KILN_SENSE_NAME, "names"},           {KILN_SENSE_COLOUR, "colours"},
        {KILN_SENSE_STYLE, "styles"},         {KILN_SENSE_SETTING, "backgrounds"},
        {KILN_SENSE_BACKDROP, "backgrounds"}, {KILN_SENSE_ZONE, "places"},
        {KILN_SENSE_RELATION, "relations"},   {KILN_SENSE_THING, "things"},
        {KILN_SENSE_BEING, "things"},         {KILN_SENSE_PART, "things"},
        {KILN_SENSE_OPAQUE, "words"},         {KILN_SENSE_SIZE, "sizes"},
        {KILN_SENSE_SHADE, "shades"},         {KILN_SENSE_DETAIL, "details"},
        {KILN_SENSE_POSITION, "words"},       {KILN_SENSE_PREPOSITION, "words"},
        {KILN_SENSE_PRONOUN, "words"},        {KILN_SENSE_ORDER, "words"},
    };
    if (explain(target, donor, quoted, 0, "quoted texts", reason))
        return;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (explain(target, donor, of_class, kinds[i].class, kinds[i].what, reason))
            return;
    snprintf(reason, KILN_REUSE_REASON_MAX, "the same words are put together differently");
}

/* --- the judgement --------------------------------------------------------------------------- */

enum kiln_reuse_class kiln_reuse_compare(const struct kiln_facts *target,
                                         const struct kiln_facts *donor, char *reason)
{
    bool more = false, served = false;
    if (reason)
        reason[0] = '\0';
    if (strcmp(target->prompt, donor->prompt) == 0)
        return KILN_REUSE_SAME_PROMPT;
    if (memcmp(target->canonical, donor->canonical, sizeof target->canonical) == 0)
        return KILN_REUSE_CANONICAL;
    if (same_styles(target, donor)) {
        served = sequences_serve(target, donor, &more);
        if (!served && target->whole && donor->whole) {
            more = false;
            served = kiln_things_match(target, donor, &more);
        }
    }
    if (!served) {
        if (reason)
            explain_none(target, donor, reason);
        return KILN_REUSE_NONE;
    }
    if (!same_capitals(target, donor, reason))
        return KILN_REUSE_NONE;
    return more ? KILN_REUSE_DONOR_SAYS_MORE : KILN_REUSE_REWORDED;
}

int kiln_reuse_judge(const struct kiln_reuse_words *words, const char *target, const char *donor,
                     enum kiln_reuse_class *ret, char reason[KILN_REUSE_REASON_MAX],
                     struct kiln_error *err)
{
    struct kiln_facts *ours = NULL, *theirs = NULL;
    struct kiln_error why = {0};
    *ret = KILN_REUSE_NONE;
    reason[0] = '\0';
    if (strcmp(target, donor) == 0) {
        *ret = KILN_REUSE_SAME_PROMPT;
        return 0;
    }
    int code = kiln_facts_read(words, target, &ours, &why);
    if (code == 0)
        code = kiln_facts_read(words, donor, &theirs, &why);
    if (code == 0)
        *ret = kiln_reuse_compare(ours, theirs, reason);
    else
        kiln_utf8_copy(reason, KILN_REUSE_REASON_MAX, why.text);
    kiln_facts_free(ours);
    kiln_facts_free(theirs);
    return code == KILN_NO_MEMORY ? kiln_fail(err, code, "%s", why.text) : 0;
}
