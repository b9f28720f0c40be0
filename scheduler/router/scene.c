/* scene.c - whether a phrase in a prompt is a thing of the scene, whatever look it names. */
#include "scheduler/router/index.h"

/* "A framed watercolor", "a sticker lying in the grass", "the sticker fell off", "a neon tube on
 * the floor", "stickers all over the desk"; not "a fox as a sticker on the floor". */
static bool is_left_there(const struct kiln_router_reader *reader, struct kiln_span span,
                          uint32_t clause)
{
    static const char *const pictures[] = {"watercolor", "etching", "engraving"};
    static const char *const hangs[] = {"hanging", "hung", "hang"};
    static const char *const lies[] = {"lying", "lies",     "lie",   "seen",     "left",
                                       "fell",  "falls",    "stuck", "flickers", "peeled",
                                       "far",   "switched", "broken"};
    static const char *const states[] = {"broken", "off", "out", "dead", "switched", "missing"};
    static const char *const asks[] = {"in", "as", "like", "into", "of"};
    const size_t next = span.to;
    const size_t before = is_article(reader, span.from - 1) ? span.from - 2 : span.from - 1;
    if (IS_ANY(reader, before, asks) || (classes_at(reader, before, clause) & KILN_WORD_FIGURE))
        return false;
    if (IS_ANY(reader, next - 1, pictures) &&
        (is_word(reader, span.from - 1, "framed") || IS_ANY(reader, next, hangs)))
        return true;
    if (next >= reader->tokens.count || reader->tokens.at[next].clause != clause)
        return false;
    if (IS_ANY(reader, next, lies) ||
        (is_word(reader, next, "is") && IS_ANY(reader, next + 1, states)))
        return true;
    if (is_word(reader, next, "all"))
        return is_word(reader, next + 1, "over") && classes_at(reader, next + 2, clause);
    return is_word(reader, next, "on") && is_article(reader, next + 1) &&
           (classes_at(reader, next + 2, clause) & KILN_WORD_FIXTURE);
}

/* "A banana with a small fruit sticker", "a suitcase covered in old stickers", "a framed
 * watercolor": what something in the scene has; but not "with a sticker look". */
static bool is_worn(const struct kiln_router_reader *reader, struct kiln_span span, uint32_t clause)
{
    static const char *const has[] = {"with", "has", "had", "having"};
    static const char *const covers[] = {"covered", "plastered", "littered", "full"};
    static const char *const in[] = {"in", "with", "of"};
    static const char *const numbers[] = {"two", "three", "four", "several", "many", "some"};
    static const char *const where[] = {"on", "all", "over", "stuck"};
    static const char *const owners[] = {"its", "her", "his", "their"};
    size_t at = span.from;
    if (!(classes_at(reader, span.to - 1, clause) & KILN_WORD_OWNABLE) ||
        (classes_at(reader, span.from, clause) & KILN_WORD_MAKING) ||
        (classes_at(reader, span.to, clause) & KILN_WORD_LOOK))
        return false;
    if (is_left_there(reader, span, clause))
        return true;
    if (span.to < reader->tokens.count && reader->tokens.at[span.to].clause == clause &&
        !(reader->tokens.at[span.to].classes &
          (KILN_WORD_SMALL | KILN_WORD_PLACE | KILN_WORD_BESIDE | KILN_WORD_THING)))
        return false; /* "a sticker border": a word behind it says what it is */
    if (IS_ANY(reader, at - 1, owners) && reader->tokens.at[at - 1].clause == clause)
        return true;
    for (unsigned back = 0; at > 0 && back < 2 && reader->tokens.at[at - 1].clause == clause &&
                            !(classes_at(reader, at - 1, clause) & KILN_WORD_SMALL);
         back++)
        at--;
    if (kiln_router_is_made_with(reader, (struct kiln_span){(uint32_t)at, span.to}, clause))
        return false;
    if (at > 1 && IS_ANY(reader, at - 1, in) && IS_ANY(reader, at - 2, covers))
        return true;
    if (at > 0 && IS_ANY(reader, at - 1, has) && IS_ANY(reader, span.to, where))
        return true;
    return at > 1 && (is_article(reader, at - 1) || IS_ANY(reader, at - 1, numbers)) &&
           IS_ANY(reader, at - 2, has) && !is_word(reader, at - 3, "go");
}

/* "A shop with a neon sign in its window", "a fridge with a sticker of a banana on it": a part of
 * the scene, even if a trigger names it. */
static bool is_part_of_scene(const struct kiln_router_reader *reader, struct kiln_span span,
                             uint32_t clause)
{
    static const char *const owners[] = {"its", "the", "her", "his", "their"};
    size_t at = span.to;
    if (is_worn(reader, span, clause))
        return true;
    if (span.from < 2 || !is_article(reader, span.from - 1) ||
        !is_word(reader, span.from - 2, "with"))
        return false;
    if (is_word(reader, at, "of") && is_article(reader, at + 1))
        at += 3;
    if (!(classes_at(reader, at, clause) & KILN_WORD_PLACE) && !is_word(reader, at, "over"))
        return false;
    if (at > span.to && is_word(reader, at + 1, "it"))
        return true;
    return IS_ANY(reader, at + 1, owners) &&
           (classes_at(reader, at + 2, clause) & KILN_WORD_FIXTURE);
}

/* "Under a neon tube": the place of something. */
static bool is_beside(const struct kiln_router_reader *reader, struct kiln_span span,
                      uint32_t clause)
{
    static const char *const places[] = {"under", "beside", "behind",
                                         "near",  "below",  "underneath"};
    const bool near =
        span.from > 1 && reader->tokens.at[span.from - 2].clause == clause &&
        ((is_article(reader, span.from - 1) && IS_ANY(reader, span.from - 2, places)) ||
         (is_word(reader, span.from - 1, "to") && is_word(reader, span.from - 2, "next")));
    return near && !kiln_router_is_made_one(reader, span, clause) &&
           !(classes_at(reader, span.to, clause) & KILN_WORD_LOOK) &&
           !(classes_at(reader, span.to - 1, clause) & KILN_WORD_LOOK);
}

/* "Holding a sticker", "carries her watercolors": what is traded, carried or lost is a thing. */
static bool is_traded(const struct kiln_router_reader *reader, struct kiln_span span,
                      uint32_t clause)
{
    static const char *const owners[] = {"her", "his", "their", "its", "my", "some"};
    const size_t at = span.from > 0 && (is_article(reader, span.from - 1) ||
                                        IS_ANY(reader, span.from - 1, owners))
                          ? span.from - 1
                          : span.from;
    return at > 0 && (classes_at(reader, at - 1, clause) & KILN_WORD_TRADING);
}

/* "A child playing with plasticine", "an old man who draws with a quill", "a woman painting in
 * watercolor by a lake": what somebody in the scene does; but "woman drawing in ink" is a drawing.
 */
static bool is_someones_work(const struct kiln_router_reader *reader, struct kiln_span span,
                             uint32_t clause)
{
    static const char *const nouns[] = {"painting", "drawing", "etching", "engraving"};
    static const char *const who[] = {"who", "that"};
    const bool goes_on =
        span.to < reader->tokens.count && reader->tokens.at[span.to].clause == clause;
    size_t at = span.from;
    if (at > 1 && !(classes_at(reader, at - 1, clause) & (KILN_WORD_SMALL | KILN_WORD_WORKING)))
        at--; /* "red plasticine" */
    while (at > 1 && (classes_at(reader, at - 1, clause) & KILN_WORD_SMALL))
        at--;
    if (at < 2 || !(classes_at(reader, at - 1, clause) & KILN_WORD_WORKING) ||
        (IS_ANY(reader, at - 1, nouns) && !goes_on))
        return false;
    at -= IS_ANY(reader, at - 2, who) ? 3 : 2;
    return (classes_at(reader, at, clause) & KILN_WORD_PERSON) && /* not "made by a kid playing" */
           !is_word(reader, at - (is_article(reader, at - 1) ? 2 : 1), "by");
}

/* "A dog called Pixel". */
static bool is_called(const struct kiln_router_reader *reader, size_t i)
{
    static const char *const calls[] = {"called", "named", "nicknamed"};
    return IS_ANY(reader, i - 1, calls);
}

/* "A box of old stickers". */
bool kiln_router_is_contained(const struct kiln_router_reader *reader, struct kiln_span span,
                              uint32_t clause)
{
    size_t at = span.from;
    for (unsigned back = 0; at > 1 && back < 2 && reader->tokens.at[at - 1].clause == clause &&
                            !(classes_at(reader, at - 1, clause) & KILN_WORD_SMALL);
         back++)
        at--;
    return at > 1 && is_word(reader, at - 1, "of") &&
           (classes_at(reader, at - 2, clause) & KILN_WORD_CONTAINER);
}

bool kiln_router_is_in_scene(const struct kiln_router_reader *reader, struct kiln_span span,
                             uint32_t clause)
{
    return is_called(reader, span.from) || is_traded(reader, span, clause) ||
           is_someones_work(reader, span, clause) || is_beside(reader, span, clause) ||
           is_part_of_scene(reader, span, clause);
}
