/* look.c - whether a phrase in a prompt asks for a look or names a thing. */
#include "scheduler/router/index.h"
#include "schemas/words/marks.h"

/* How much a single word looks like asking for a look, thousandths. */
enum {
    FRONT = 990, /* in front of its clause */
    MODIFIES = 950,
    MODIFIES_COMMON = 700,
    LAST = 700,
    LAST_COMMON = 200,
    PLACED = 300,
    THING = KILN_THING
};
#define LIKENESS_WORDS 9 /* between what opens a likeness and the look */

/* Of words that a clause may hold beside a look: "please make it watercolor". */
#define SAY_NOTHING                                                                                \
    (KILN_WORD_SMALL | KILN_WORD_PRAISE | KILN_WORD_LOOK | KILN_WORD_MAKING | KILN_WORD_ASKING)

/* Whether the clause holds nothing else of meaning: "a fox, watercolor, masterpiece". */
static bool alone(const struct kiln_router_reader *reader, struct kiln_span span, uint32_t clause)
{
    const struct kiln_route_token *at = reader->tokens.at;
    size_t from = span.from, to = span.to;
    while (from > 0 && at[from - 1].clause == clause) {
        from--;
        if (!(classes_at(reader, from, clause) & SAY_NOTHING))
            return false;
    }
    for (; to < reader->tokens.count && at[to].clause == clause; to++)
        if (!(classes_at(reader, to, clause) & SAY_NOTHING))
            return false;
    return true;
}

/* Whether the word stands before the span, or before its article. */
static bool follows_word(const struct kiln_router_reader *reader, struct kiln_span span,
                         const char *word)
{
    size_t at = span.from;
    if (at > 0 && is_article(reader, at - 1))
        at--;
    return at > 0 && is_word(reader, at - 1, word);
}

/* "As a sticker", "like on my old game boy", "looks watery", "medium clay"; "make it clay". */
static bool is_likened_to(const struct kiln_router_reader *reader, struct kiln_span span,
                          uint32_t clause)
{
    static const char *const between[] = {"if", "though", "something", "out", "straight", "one"};
    static const char *const makes[] = {"make",   "making", "turn", "want",
                                        "render", "paint",  "draw"};
    static const char *const objects[] = {"it", "this", "that", "them", "everything", "all"};
    size_t at = span.from;
    for (unsigned back = 0; at > 0 && back < 4 &&
                            ((classes_at(reader, at - 1, clause) & KILN_WORD_SMALL) ||
                             IS_ANY(reader, at - 1, between));
         back++) {
        at--;
        if ((classes_at(reader, at, clause) & KILN_WORD_LIKENING) &&
            is_in_text(reader, at, KILN_LIKENS_IN_FRONT))
            return true;
    }
    if (at == 0 || reader->tokens.at[at - 1].clause != clause)
        return false;
    return ((classes_at(reader, at - 1, clause) & KILN_WORD_LIKENING) &&
            is_in_text(reader, at - 1, KILN_LIKENS_IN_FRONT)) ||
           (span.from > 1 && IS_ANY(reader, span.from - 1, objects) &&
            IS_ANY(reader, span.from - 2, makes));
}

/* "In chunky clay" at the end of what is wanted; "in a big arcade" is a place. */
static bool is_in_some(const struct kiln_router_reader *reader, struct kiln_span span,
                       uint32_t clause)
{
    static const char *const soils[] = {"heavy", "wet", "deep", "red", "sticky", "thick", "dried"};
    const struct kiln_route_token *at = reader->tokens.at;
    if (span.from < 2 || !is_word(reader, span.from - 2, "in") ||
        at[span.from - 2].clause != clause ||
        (classes_at(reader, span.from - 1, clause) & (KILN_WORD_SMALL | KILN_WORD_PLACE)) ||
        IS_ANY(reader, span.from - 1, soils))
        return false;
    return span.to == reader->tokens.count || at[span.to].clause != clause ||
           at[span.to].mark != at[span.from].mark;
}

/* "Drawn with neon", "a fox made from clay". */
bool kiln_router_is_made_with(const struct kiln_router_reader *reader, struct kiln_span span,
                              uint32_t clause)
{
    static const char *const with[] = {"with", "from", "by", "using", "through", "into"};
    const size_t last =
        span.from > 0 && is_article(reader, span.from - 1) ? span.from - 1 : span.from;
    if (last == 0 || !IS_ANY(reader, last - 1, with))
        return false;
    for (size_t at = span.from, back = 0; at-- > 0 && back < 4; back++)
        if (classes_at(reader, at, clause) & KILN_WORD_MAKING)
            return true;
    return false;
}

/* "Turn a fox in the snow into a sticker", however much stands between. */
static bool is_turned_into(const struct kiln_router_reader *reader, struct kiln_span span,
                           uint32_t clause)
{
    size_t at = span.from;
    if (at > 1 && !is_word(reader, at - 1, "into") && !is_article(reader, at - 1))
        at--; /* "a shiny sticker" */
    while (at > 0 && is_article(reader, at - 1))
        at--;
    return at > 0 && is_word(reader, at - 1, "into") &&
           reader->tokens.at[at - 1].clause == clause && reader->order < at - 1;
}

/* "Each is a sticker", "each one a sticker", "both as stickers". */
static bool is_each(const struct kiln_router_reader *reader, struct kiln_span span, uint32_t clause)
{
    static const char *const each[] = {"each", "both", "every", "everyone", "they", "these"};
    static const char *const is[] = {"is", "are", "be", "being", "as", "a", "an"};
    static const char *const between[] = {"one", "of", "them", "shape", "should", "must", "to"};
    size_t at = span.from;
    bool equal = false;
    for (; at > 0 && reader->tokens.at[at - 1].clause == clause; at--) {
        if (IS_ANY(reader, at - 1, each))
            return equal;
        const bool links = IS_ANY(reader, at - 1, is);
        if (!links && !IS_ANY(reader, at - 1, between))
            return false;
        equal |= links;
    }
    return false;
}

/* "A sticker set showing a fox" is drawn, "a sticker set" is bought. */
static bool is_showing(const struct kiln_router_reader *reader, struct kiln_span span)
{
    static const char *const sets[] = {"set", "sheet", "pack", "page", "series", "collection"};
    static const char *const shows[] = {"showing", "depicting", "featuring", "picturing"};
    return IS_ANY(reader, span.to, sets) && IS_ANY(reader, span.to + 1, shows);
}

/* "Make a fox and a star a sticker", "make a fox with the sea behind a sticker": behind what it
 * orders.  "Make a fox and a sticker" is no such thing. */
bool kiln_router_is_made_one(const struct kiln_router_reader *reader, struct kiln_span span,
                             uint32_t clause)
{
    const struct kiln_route_token *at = reader->tokens.at;
    if (span.from < 3 ||
        !(is_word(reader, span.from - 1, "a") || is_word(reader, span.from - 1, "an")))
        return false;
    const unsigned before = classes_at(reader, span.from - 2, clause);
    const bool scene = (before & KILN_WORD_PLACE) && span.from > 4 &&
                       is_word(reader, span.from - 4, "the") &&
                       is_word(reader, span.from - 5, "with");
    if (!(before & KILN_WORD_FIGURE) && !scene)
        return false;
    for (size_t i = span.from - 2; i-- > 0 && at[i].clause == clause;)
        if (is_word(reader, i, "make"))
            return true;
    return false;
}

/* "I want to see the pixels", "I asked for clay". */
static bool is_wanted(const struct kiln_router_reader *reader, struct kiln_span span,
                      uint32_t clause)
{
    static const char *const sees[] = {"to", "me", "us", "should", "must", "can"};
    static const char *const who[] = {"i", "we", "me", "us", "you"};
    static const char *const asks[] = {"ask", "asked", "asking"};
    size_t at = span.from;
    if (span.to < reader->tokens.count && reader->tokens.at[span.to].clause == clause &&
        reader->tokens.at[span.to].mark == reader->tokens.at[span.from].mark)
        return false;
    if (at > 0 && is_article(reader, at - 1))
        at--;
    if (at > 1 && is_word(reader, at - 1, "for") && IS_ANY(reader, at - 2, asks))
        return true;
    if (at < 2 || !is_word(reader, at - 1, "see") || !IS_ANY(reader, at - 2, sees))
        return false;
    for (size_t i = at - 1, back = 0; i-- > 0 && back < 4; back++)
        if (reader->tokens.at[i].clause == clause && IS_ANY(reader, i, who))
            return true;
    return false;
}

/* "As one of them", "like that": whether what begins at i refers to something. */
static bool refers(const struct kiln_router_reader *reader, size_t i)
{
    static const char *const likened[] = {"as", "like"};
    static const char *const numbers[] = {"one", "two", "three", "four", "some", "any"};
    static const char *const those[] = {"them", "those", "that", "these"};
    if (!IS_ANY(reader, i, likened))
        return false;
    const size_t of = i + (IS_ANY(reader, i + 1, numbers) ? 2 : 0);
    const size_t last = is_word(reader, of, "of") ? of + 1 : i + 1;
    if (!IS_ANY(reader, last, those))
        return false;
    const uint32_t clause = reader->tokens.at[last].clause;
    return last + 1 >= reader->tokens.count || reader->tokens.at[last + 1].clause != clause ||
           (classes_at(reader, last + 1, clause) & (KILN_WORD_PLACE | KILN_WORD_SMALL));
}

void kiln_router_find_orders(struct kiln_router_reader *reader)
{
    reader->order = SIZE_MAX;
    reader->referral = 0;
    for (size_t i = 0; i < reader->tokens.count; i++) {
        const struct kiln_route_token *token = &reader->tokens.at[i];
        if (token->mark != KILN_MARK_NONE)
            continue;
        if (reader->order == SIZE_MAX && (token->classes & KILN_WORD_ORDER))
            reader->order = i;
        else if (reader->order != SIZE_MAX && (token->classes & KILN_WORD_LIKENING) &&
                 refers(reader, i))
            reader->referral = i;
    }
}

/* "My kid collects stickers, so draw a fox as one of them", "I miss my Atari. Draw it like that."
 */
static bool is_referred_to(const struct kiln_router_reader *reader, struct kiln_span span,
                           uint32_t clause)
{
    return reader->referral >= span.to && reader->tokens.at[reader->referral].clause != clause;
}

/* "A clay fox", "a clay purple heart". */
static bool is_of_material(const struct kiln_router_reader *reader, struct kiln_span span,
                           uint32_t clause)
{
    size_t at = span.to;
    while (classes_at(reader, at, clause) & KILN_WORD_TINT)
        at++;
    return (classes_at(reader, span.to - 1, clause) & KILN_WORD_MATERIAL) &&
           (classes_at(reader, at, clause) & KILN_WORD_FIGURE);
}

/* Whether the phrase ends by naming a look: "pixel artwork". */
static bool names_a_look(const struct kiln_router_reader *reader, struct kiln_span span,
                         uint32_t clause)
{
    return span.to - span.from > 1 && (classes_at(reader, span.to - 1, clause) & KILN_WORD_LOOK);
}

/* "The eggs are hatching", "a chick that has just hatched", "hatching her eggs", "hatched by
 * thieves"; but "hatched by hand" is a look. */
static bool is_happening(const struct kiln_router_reader *reader, struct kiln_span span,
                         uint32_t clause)
{
    const size_t next =
        span.to < reader->tokens.count && reader->tokens.at[span.to].clause == clause
            ? span.to
            : SIZE_MAX - 1; /* no word */
    static const struct {
        const char *before, *after, *ending;
    } verbs[] = {{"is", NULL, "ing"},      {"are", NULL, "ing"},     {"was", NULL, "ing"},
                 {"were", NULL, "ing"},    {"has", NULL, "ed"},      {"have", NULL, "ed"},
                 {"had", NULL, "ed"},      {"just", NULL, "ed"},     {"newly", NULL, "ed"},
                 {"freshly", NULL, "hed"}, {"recently", NULL, "ed"}, {NULL, "egg", "hing"},
                 {NULL, "egg", "hed"},     {NULL, "eggs", "hing"},   {NULL, "chick", "hed"},
                 {NULL, "chicks", "hed"},  {NULL, "out", "hed"},     {NULL, "out", "hing"},
                 {NULL, "a", "hed"},       {NULL, "a", "hing"},      {NULL, "her", "ing"},
                 {NULL, "his", "ing"},     {NULL, "its", "ing"},     {NULL, "their", "ing"},
                 {NULL, "by", "ed"},       {NULL, "from", "ed"},     {NULL, "from", "ing"}};
    const struct kiln_route_token *token = &reader->tokens.at[span.from];
    const char *text = reader->tokens.letters + token->text;
    if (token->length < 3 || (memcmp(text + token->length - 2, "ed", 2) != 0 &&
                              memcmp(text + token->length - 3, "ing", 3) != 0))
        return false;
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        const size_t len = strlen(verbs[i].ending);
        const bool there = verbs[i].before ? is_word(reader, span.from - 1, verbs[i].before)
                                           : is_word(reader, next, verbs[i].after) &&
                                                 !is_word(reader, next + 1, "hand");
        if (there && token->length > len && text[0] != 'c' && /* "crosshatching a fox" */
            memcmp(text + token->length - len, verbs[i].ending, len) == 0)
            return true;
    }
    return false;
}

/* Whether the words from i on begin to say what it shall be like: "as if", "the way they", "you
 * would find", "like something", "straight out of". */
static bool opens_likeness(const struct kiln_router_reader *reader, size_t i, uint32_t clause)
{
    static const char *const seen[] = {"if",    "though", "tho",  "seen", "found",
                                       "drawn", "done",   "made", "used", "printed",
                                       "one",   "on",     "in"};
    static const char *const who[] = {"you", "one", "we", "used", "might", "could", "would"};
    static const char *const from[] = {"from", "off", "out", "in", "on"};
    if (is_in_text(reader, i, KILN_LIKENS_ALONE))
        return true;
    if (is_word(reader, i, "as"))
        return IS_ANY(reader, i + 1, seen);
    if (is_word(reader, i, "way"))
        return i > 0 && reader->tokens.at[i - 1].clause == clause && is_word(reader, i - 1, "the");
    if (is_in_text(reader, i, KILN_LIKENS_IF_FROM))
        return IS_ANY(reader, i + 1, from);
    if (!is_in_text(reader, i, KILN_LIKENS_IF_SEEN))
        return false;
    for (unsigned back = 0; i-- > 0 && back < 3 && reader->tokens.at[i].clause == clause; back++)
        if (IS_ANY(reader, i, who))
            return true;
    return false;
}

/* "Like something off a SNES cartridge", "the way portraits are cut on a banknote", "old Famicom
 * days, that kind of vibe": what it shall be like, with any words between but those that put other
 * things into the scene. */
static bool is_in_likeness(const struct kiln_router_reader *reader, struct kiln_span span,
                           uint32_t clause)
{
    for (size_t at = span.from, back = 0; at-- > 0 && back < LIKENESS_WORDS; back++) {
        const unsigned classes = classes_at(reader, at, clause);
        if (reader->tokens.at[at].clause != clause || (classes & KILN_WORD_BESIDE))
            break;
        if ((classes & KILN_WORD_LIKENING) && opens_likeness(reader, at, clause))
            return true;
    }
    for (size_t at = span.to; at < span.to + 3; at++) {
        const unsigned classes = classes_at(reader, at, clause);
        if (at >= reader->tokens.count || reader->tokens.at[at].clause != clause ||
            (classes & (KILN_WORD_BESIDE | KILN_WORD_PLACE)))
            break;
        if (classes & KILN_WORD_MOOD)
            return true;
    }
    return false;
}

static bool is_a_name(const struct kiln_phrase *phrase)
{
    return phrase->bare && phrase->text[0] >= 'A' && phrase->text[0] <= 'Z';
}

/* "Swap the hatching for neon": behind what is denied. */
static bool is_contrasted(const struct kiln_router_reader *reader, struct kiln_span span,
                          uint32_t clause)
{
    static const char *const links[] = {"for", "with", "but", "so", "to", "just", "only", "by"};
    size_t at = span.from;
    if (at > 0 && is_article(reader, at - 1))
        at--;
    return at > 1 && IS_ANY(reader, at - 1, links) && reader->tokens.at[at - 2].clause == clause &&
           reader->tokens.at[at - 2].mark == KILN_MARK_NEGATED;
}

/* The name of a game, a console or a maker, which the lexicon writes with a capital and a question
 * mark: "Game Boy cat", "a ship from Space Invaders", but not "a Game Boy on a table". */
static bool names_a_source(const struct kiln_router_reader *reader,
                           const struct kiln_phrase *phrase, struct kiln_span span, uint32_t clause)
{
    static const char *const from[] = {"from", "off", "of", "by", "after", "via", "type"};
    const unsigned next = classes_at(reader, span.to, clause);
    if (!is_a_name(phrase) || span.to - span.from > phrase->count)
        return false;
    const bool ends =
        span.to >= reader->tokens.count || reader->tokens.at[span.to].clause != clause;
    if (ends)
        return span.from > 0 && reader->tokens.at[span.from - 1].clause == clause &&
               (IS_ANY(reader, span.from - 1, from) ||
                (span.from > 1 && is_article(reader, span.from - 1) &&
                 IS_ANY(reader, span.from - 2, from)));
    return !(next & (KILN_WORD_PLACE | KILN_WORD_SMALL | KILN_WORD_DEVICE));
}

/* Whether what stands around the phrase says that it is a look.  "Of" behind it does, and of a
 * phrase that is a thing too "of a": "a sprite of a fox", "a bitmap of voters". */
static bool is_asked_for(const struct kiln_router_reader *reader, const struct kiln_phrase *phrase,
                         struct kiln_span span, uint32_t clause)
{
    if (((classes_at(reader, span.to, clause) & KILN_WORD_LOOK) &&
         !(phrase->bare && is_word(reader, span.to, "of") && !is_word(reader, span.to + 1, "a") &&
           !is_word(reader, span.to + 1, "an"))) ||
        reader->tokens.at[span.to - 1].likened || alone(reader, span, clause) ||
        is_of_material(reader, span, clause) || is_turned_into(reader, span, clause) ||
        is_each(reader, span, clause) || kiln_router_is_made_one(reader, span, clause) ||
        is_wanted(reader, span, clause) || is_showing(reader, span) ||
        is_referred_to(reader, span, clause) || is_contrasted(reader, span, clause) ||
        names_a_source(reader, phrase, span, clause))
        return true;
    static const char *const sides[] = {"front", "top", "side", "back", "edge", "corner"};
    /* "In Tokyo with many signs" is no look. */
    const bool loose = phrase->bare && span.to - span.from > phrase->count;
    return (span.from > 0 && reader->tokens.at[span.from - 1].clause == clause &&
            (((is_word(reader, span.from - 1, "in") ||
               (is_word(reader, span.from - 1, "of") && !IS_ANY(reader, span.from - 2, sides))) &&
              !loose) ||
             is_likened_to(reader, span, clause) ||
             kiln_router_is_made_with(reader, span, clause) || is_in_some(reader, span, clause))) ||
           is_in_likeness(reader, span, clause);
}

/* "The water colors of the sea", but not "in the watercolors of the old masters"; and "the water
 * color is blue" in two words. */
static bool is_a_property(const struct kiln_router_reader *reader, const struct kiln_phrase *phrase,
                          struct kiln_span span)
{
    if (kiln_phrase_is_compound(reader->router, phrase) && is_word(reader, span.from - 1, "the") &&
        (is_word(reader, span.to, "is") || is_word(reader, span.to, "was") ||
         is_word(reader, span.to, "turns") || is_word(reader, span.to, "at") ||
         is_word(reader, span.to, "near")))
        return true;
    return span.from > 0 && is_word(reader, span.from - 1, "the") &&
           is_word(reader, span.to, "of") && is_word(reader, span.to + 1, "the") &&
           !(span.from > 1 &&
             (is_word(reader, span.from - 2, "in") || is_word(reader, span.from - 2, "like") ||
              is_word(reader, span.from - 2, "as")));
}

/* "A cat sticker on a black background": that is where looks are. */
static bool is_on_paper(const struct kiln_router_reader *reader, struct kiln_span span,
                        uint32_t clause)
{
    static const char *const papers[] = {"background", "backdrop", "canvas",
                                         "white",      "black",    "backing"};
    for (size_t at = span.to, ahead = 0; ahead < 5; at++, ahead++) {
        if (at >= reader->tokens.count || reader->tokens.at[at].clause != clause)
            return false;
        if (IS_ANY(reader, at, papers))
            return is_word(reader, span.to, "on");
    }
    return false;
}

/* "A pen and ink book cover". */
static bool is_book_cover(const struct kiln_router_reader *reader, size_t i)
{
    static const char *const prints[] = {"cover", "illustration", "plate", "page", "art"};
    return is_word(reader, i, "book") && IS_ANY(reader, i + 1, prints);
}

/* "A hatched pot" is drawn so, "a clay pot" is none. */
static bool is_done_to(const struct kiln_router_reader *reader, size_t i)
{
    static const char *const looks[] = {"hatched", "crosshatched", "pixelated", "pixellated",
                                        "pixelized"};
    return IS_ANY(reader, i, looks);
}

/* "Neon running shoes" are neon shoes. */
static size_t kind_behind(const struct kiln_router_reader *reader, size_t i, uint32_t clause)
{
    static const char *const uses[] = {"running", "tennis", "cycling", "safety", "football"};
    return IS_ANY(reader, i, uses) && classes_at(reader, i + 1, clause) ? i + 1 : i;
}

static uint16_t look(const struct kiln_router_reader *reader, const struct kiln_phrase *phrase,
                     struct kiln_span span)
{
    const struct kiln_route_token *at = reader->tokens.at;
    const uint32_t clause = at[span.from].clause;
    const unsigned next = classes_at(reader, kind_behind(reader, span.to, clause), clause);
    const bool follows = span.from > 0 && at[span.from - 1].clause == clause;
    const bool known = kiln_lexicon_known(reader->router->lexicon, phrase->forms[0]);
    if (phrase->count == 1 && !known) /* a word made up for this LoRA */
        return KILN_LOOK;
    if (((next & KILN_WORD_THING) && !is_done_to(reader, span.to - 1) &&
         !(is_a_name(phrase) && is_word(reader, span.to, "set")) &&
         !is_book_cover(reader, span.to)) ||
        kiln_router_is_in_scene(reader, span, clause))
        return is_showing(reader, span) || (!phrase->bare && is_referred_to(reader, span, clause))
                   ? KILN_LOOK
                   : THING;
    if (follows && kiln_router_is_contained(reader, span, clause) &&
        !names_a_look(reader, span, clause) && !is_word(reader, span.to, "of"))
        return THING;
    if ((phrase->count == 1 && is_happening(reader, span, clause)) ||
        (follows && is_a_property(reader, phrase, span)))
        return THING;
    if (phrase->count > 1 || is_asked_for(reader, phrase, span, clause))
        return KILN_LOOK;
    if (!follows)
        return FRONT;
    if ((next & KILN_WORD_PLACE) && !is_on_paper(reader, span, clause))
        return PLACED;
    if (follows_word(reader, span, "but")) /* "not clay but a sticker" */
        return KILN_LOOK;
    if (span.to >= reader->tokens.count || at[span.to].clause != clause) /* "a clay", "fox clay" */
        return phrase->common && (classes_at(reader, span.from - 1, clause) & KILN_WORD_SMALL)
                   ? LAST_COMMON
                   : LAST;
    return phrase->common ? MODIFIES_COMMON : MODIFIES;
}

void kiln_router_judge(const struct kiln_router_reader *reader, bool part, struct kiln_hit *hit)
{
    const struct kiln_phrase *phrase = &reader->router->phrases[hit->phrase];
    const uint32_t clause = reader->tokens.at[hit->span.from].clause;
    hit->look = look(reader, phrase, hit->span);
    hit->scene =
        hit->look == THING && hit->exact && kiln_router_is_in_scene(reader, hit->span, clause);
    if (part && hit->look == KILN_LOOK && !is_asked_for(reader, phrase, hit->span, clause))
        hit->look = PLACED; /* "black ink spilled" is no black ink illustration */
    hit->certain = hit->look == KILN_LOOK && (phrase->count == 1 || !phrase->bare ||
                                              is_asked_for(reader, phrase, hit->span, clause));
}
