/* things.c - a prompt as things, relations and a background, if every word of it is understood.
 *
 *     list       thing (", " | "and") thing ...          no order, no relation
 *     relation   thing RELATION thing                    "b below a" is "a above b"
 *     neighbour  thing "with" thing RELATION "it"
 *     row        "from left to right" list, or list "from left to right"
 *     thing      [ZONE] [NUMBER] attributes NOUN [colour behind it] [ZONE]
 *     background ["on" | "against" | ...] colours BACKDROP, SETTING, "the background is ..."
 *
 * What fits nowhere, or in two ways, leaves `whole` false: the guard then compares the words in
 * their order.
 */
#include <string.h>

#include "schemas/reuse/reading.h"

struct parser {
    struct kiln_facts *facts;
    uint32_t at;
    const struct kiln_token *zone; /* said before its thing */
    int last;                      /* the thing just read, -1 behind a break */
    const char *relation;          /* said between two things */
    bool listed;                   /* two things stand side by side */
    const struct kiln_token *row;  /* a word of order for all things */
    bool then;                     /* "a, then b": only with a row */
    int grounded;                  /* how many things were before the background */
    bool fronted;                  /* a place was said before its thing or apart from it */
};

static const struct kiln_token *peek(const struct parser *p, uint32_t ahead)
{
    uint32_t at = p->at + ahead;
    return at < p->facts->count ? p->facts->items[at].token : NULL;
}

static bool ends(const struct parser *p, uint32_t ahead)
{
    return !peek(p, ahead); /* a break or the end */
}

static bool has_class(const struct kiln_token *token, int class)
{
    return token && token->class == class;
}

static bool means(const struct kiln_token *token, const char *meaning)
{
    return token && token->sense && strcmp(token->sense->meaning, meaning) == 0;
}

/* --- relations ------------------------------------------------------------------------------- */

/* The kinds that are kept, and those that are turned round. */
static const struct {
    const char *kind, *inverse;
} kinds[] = {{"left of", "right of"}, {"above", "below"}, {"in front of", "behind"}};

static bool add_relation(struct kiln_facts *facts, int a, const char *kind, int b)
{
    if (facts->relation_count == KILN_THING_RELATIONS_MAX)
        return false;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (strcmp(kind, kinds[k].inverse) == 0) {
            kind = kinds[k].kind;
            int swap = a;
            a = b;
            b = swap;
        }
    facts->relations[facts->relation_count++] =
        (struct kiln_thing_relation){(uint8_t)a, (uint8_t)b, kind};
    return true;
}

/* --- the background -------------------------------------------------------------------------- */

static bool leads_to_ground(const struct kiln_token *token)
{
    return means(token, "on") || means(token, "in") || means(token, "at") || means(token, "with") ||
           means(token, "against") || means(token, "in front of") || means(token, "above") ||
           means(token, "use");
}

/* Colours of a background from *ahead on, "red", "dark red", "red and blue"; how many words. */
static unsigned ground_colours(const struct parser *p, uint32_t *ahead,
                               const struct kiln_token **ret, unsigned room)
{
    unsigned count = 0, colours = 0;
    uint32_t i = *ahead;
    for (;; i++) {
        const struct kiln_token *token = peek(p, i);
        bool more =
            token && (token->class == KILN_SENSE_COLOUR || token->class == KILN_SENSE_SHADE);
        if (means(token, "simple"))
            continue; /* a plain background is one */
        if (!token && colours == 1 && p->at + i < p->facts->count &&
            p->facts->items[p->at + i].before == KILN_BREAK_COMMA &&
            has_class(peek(p, i + 1), KILN_SENSE_COLOUR))
            continue;
        if (!more || count == room)
            break;
        colours += token->class == KILN_SENSE_COLOUR;
        ret[count++] = token;
    }
    *ahead = i;
    return count;
}

static bool patterned(const struct kiln_token *token)
{
    return means(token, "stripes") || means(token, "checks");
}

/* A background at this place: how many items it takes, or 0. */
static uint32_t read_ground(const struct parser *p, const struct kiln_token *ret[3], uint8_t *count)
{
    uint32_t i = 0;
    const struct kiln_token *words[3], *noun;
    bool led = leads_to_ground(peek(p, 0)), clause = p->last < 0;
    unsigned n;
    *count = 0;
    if (led)
        i = 1;
    if (!led && has_class(peek(p, 0), KILN_SENSE_BACKDROP) && clause) {
        /* "background: red", "the background is red" */
        noun = peek(p, 0);
        i = 1;
        if (p->at + 1 >= p->facts->count || (patterned(noun) && !means(peek(p, 1), "of")))
            return 0;
        if (patterned(noun))
            i = 2;
        else if (ends(p, 1))
            i = 2;
        uint32_t from = i;
        n = ground_colours(p, &i, words, 2);
        if (has_class(peek(p, i), KILN_SENSE_SETTING) && n == 0)
            words[n++] = peek(p, i++);
        else if (n == 1 && means(peek(p, i), "background"))
            i++; /* "background: white background" */
        else if (patterned(peek(p, i)) && n == 2 && !patterned(noun))
            noun = peek(p, i++);
        else if (i == from)
            return 0;
        if (!ends(p, i) || n == 0 || (patterned(noun) && n != 2))
            return 0;
        if (n == 1 && has_class(words[0], KILN_SENSE_SETTING))
            noun = NULL; /* "sunset" and "background: sunset" are one */
    } else {
        n = ground_colours(p, &i, words, 2);
        noun = peek(p, i);
        if (has_class(noun, KILN_SENSE_SETTING) && (led || clause || n == 0)) {
            i++;
            if (has_class(peek(p, i), KILN_SENSE_BACKDROP) && !patterned(peek(p, i)))
                i++;
        } else if (has_class(noun, KILN_SENSE_BACKDROP) && n > 0 && (led || clause)) {
            if (patterned(noun) != (n == 2))
                return 0;
            i++;
        } else {
            return 0;
        }
        bool named = (means(peek(p, i), "in") || means(peek(p, i), "as")) &&
                     means(peek(p, i + 1), "background");
        const struct kiln_token *lead = led ? peek(p, 0) : NULL;
        /* A house with a garden, or in front of one, is not in a garden. */
        if (has_class(noun, KILN_SENSE_SETTING) && !named &&
            (means(lead, "with") || means(lead, "use") || means(lead, "above") ||
             means(lead, "in front of")))
            return 0;
        i += named ? 2 : 0;
        if (!ends(p, i) && !has_class(peek(p, i), KILN_SENSE_ORDER))
            return 0;
    }
    if (noun)
        ret[(*count)++] = noun;
    for (unsigned w = 0; w < n; w++)
        ret[(*count)++] = words[w];
    return i;
}

static bool take_ground(struct parser *p)
{
    const struct kiln_token *words[3];
    uint8_t count;
    uint32_t taken = read_ground(p, words, &count);
    if (!taken || p->facts->ground_count)
        return false;
    memcpy(p->facts->ground, words, count * sizeof *words);
    p->facts->ground_count = count;
    p->grounded = p->facts->thing_count;
    p->at += taken;
    p->last = -1;
    return true;
}

/* --- things ---------------------------------------------------------------------------------- */

/* Whether an unknown word is a noun for certain: "an aardvark," between an article and a break. */
static bool noun_by_place(const struct parser *p, uint32_t ahead, bool counted)
{
    const struct kiln_token *token = peek(p, ahead);
    if (!has_class(token, KILN_SENSE_OPAQUE) || token->kind != KILN_SPLIT_WORD ||
        !ends(p, ahead + 1))
        return false;
    if (counted)
        return true;
    const struct kiln_token *first = peek(p, 0);
    return first > p->facts->tokens.at && !first->before && first[-1].class == KILN_SENSE_ARTICLE;
}

static bool say(struct kiln_thing *thing, const struct kiln_token *token)
{
    if (thing->said_count == KILN_THING_WORDS_MAX)
        return false;
    thing->said[thing->said_count++] = token;
    return true;
}

/* "star, red", "star, red in colour" and "two stars, both red" at the end of a sentence. */
static bool comma_colour(struct parser *p, struct kiln_thing *thing)
{
    const struct kiln_facts *facts = p->facts;
    if (p->at >= facts->count || !ends(p, 0) || facts->items[p->at].before != KILN_BREAK_COMMA ||
        facts->thing_count)
        return false;
    uint32_t i = has_class(peek(p, 1), KILN_SENSE_TINT) ||
                         (thing->number && (means(peek(p, 1), "both") || means(peek(p, 1), "all")))
                     ? 2
                     : 1;
    const struct kiln_token *colour = peek(p, i);
    if (!has_class(colour, KILN_SENSE_COLOUR))
        return false;
    i += has_class(peek(p, i + 1), KILN_SENSE_TINT) ? 2 : 1;
    if (p->at + i < facts->count &&
        (!ends(p, i) || facts->items[p->at + i].before != KILN_BREAK_STOP))
        return false;
    if (!say(thing, colour))
        return false;
    p->at += i;
    return true;
}

/* The colour or size behind a noun: "star (that is) red", "star painted red", "star in red". */
static bool read_behind(struct parser *p, struct kiln_thing *thing)
{
    uint32_t i = 0;
    if (comma_colour(p, thing))
        return true;
    if (has_class(peek(p, 0), KILN_SENSE_TINT) || means(peek(p, 0), "in"))
        i = 1;
    uint32_t from = i;
    if (i && has_class(thing->noun, KILN_SENSE_BEING)) /* a man in black is not a black man */
        return false;
    while (peek(p, i) && kiln_attribute(peek(p, i)))
        i++;
    const struct kiln_token *next = peek(p, i);
    if (i == from) /* "in" may lead to a background */
        return has_class(peek(p, 0), KILN_SENSE_TINT) ? false : true;
    if (next && next->class != KILN_SENSE_ZONE && next->class != KILN_SENSE_RELATION &&
        next->class != KILN_SENSE_POSITION && next->class != KILN_SENSE_ORDER &&
        !means(next, "on") && !means(next, "at"))
        return from == 1 &&
               (next->class == KILN_SENSE_BACKDROP || next->class == KILN_SENSE_SETTING);
    for (uint32_t w = from; w < i; w++)
        if (!say(thing, peek(p, w)))
            return false;
    p->at += i;
    return true;
}

static bool take_thing(struct parser *p)
{
    struct kiln_thing thing = {0};
    uint32_t i = 0;
    if (has_class(peek(p, i), KILN_SENSE_NUMBER))
        thing.number = peek(p, i++);
    while (peek(p, i) && kiln_attribute(peek(p, i)))
        if (!say(&thing, peek(p, i++)))
            return false;
    const struct kiln_token *noun = peek(p, i);
    if (!noun || !(kiln_known_noun(noun) || noun_by_place(p, i, thing.number != NULL)))
        return false;
    if (p->last >= 0 && !p->relation) /* two nouns in a row: "dog house" */
        return false;
    if (p->facts->thing_count == KILN_THINGS_MAX)
        return false;
    thing.noun = noun;
    thing.zone = p->zone;
    p->zone = NULL;
    p->at += i + 1;
    if (!read_behind(p, &thing))
        return false;
    if (means(peek(p, 0), "placed") && has_class(peek(p, 1), KILN_SENSE_ZONE))
        p->at++;
    if (has_class(peek(p, 0), KILN_SENSE_ZONE)) {
        if (thing.zone)
            return false;
        thing.zone = peek(p, 0);
        p->at++;
        const struct kiln_token *next = peek(p, 0); /* "star top left circle" has two readings */
        if (next && (kiln_attribute(next) || kiln_known_noun(next) ||
                     next->class == KILN_SENSE_OPAQUE || next->class == KILN_SENSE_NUMBER))
            return false;
    }
    int now = p->facts->thing_count++, before = now - 1;
    p->facts->things[now] = thing;
    if (p->relation && !add_relation(p->facts, before, p->relation, now))
        return false;
    p->listed = p->listed || (now > 0 && !p->relation);
    p->relation = NULL;
    p->last = now;
    return true;
}

/* "star with a circle above it", "... on its left": at the "with". */
static bool take_neighbour(struct parser *p)
{
    struct kiln_facts *facts = p->facts;
    if (!means(peek(p, 0), "with") || p->last < 0 || facts->thing_count != 1)
        return false;
    p->at++;
    p->last = -1;
    if (!take_thing(p) || facts->thing_count != 2 || facts->things[1].zone)
        return false;
    const struct kiln_token *relation = peek(p, 0), *it = peek(p, 1);
    bool left = means(relation, "on its left");
    if (left || means(relation, "on its right")) {
        p->at++;
        p->listed = false;
        return add_relation(facts, 1, left ? "left of" : "right of", 0);
    }
    if (!has_class(relation, KILN_SENSE_RELATION) || !(means(it, "it") || means(it, "them")))
        return false;
    p->at += 2;
    p->listed = false;
    return add_relation(facts, 1, relation->sense->meaning, 0);
}

/* A place that stands alone: of the thing before it, else of the next. */
static bool take_zone(struct parser *p)
{
    struct kiln_facts *facts = p->facts;
    const struct kiln_token *zone = peek(p, 0);
    if (p->zone)
        return false;
    p->at++;
    p->fronted = true;
    bool alone =
        ends(p, 0) && !(p->at < facts->count && facts->items[p->at].before == KILN_BREAK_COLON);
    if (alone && facts->thing_count && !facts->things[facts->thing_count - 1].zone)
        facts->things[facts->thing_count - 1].zone = zone;
    else
        p->zone = zone;
    return true;
}

static bool take_one(struct parser *p)
{
    const struct kiln_token *token = peek(p, 0);
    if (!token) {
        p->at++;
        p->last = -1;
        return !p->relation;
    }
    if (take_ground(p))
        return true;
    switch (token->class) {
    case KILN_SENSE_ARTICLE: /* behind "and", see facts.c */
        p->at++;
        return p->last < 0 && peek(p, 0);
    case KILN_SENSE_ZONE:
        return take_zone(p);
    case KILN_SENSE_ORDER:
        if (means(token, "then")) {
            p->then = true;
            p->last = -1;
            p->at++;
            return !p->relation;
        }
        if (p->row || p->relation)
            return false;
        p->row = token;
        p->at++;
        return true;
    case KILN_SENSE_POSITION: /* "placed above"; who runs above does more */
        p->at++;
        return p->last >= 0 && means(token, "placed") && has_class(peek(p, 0), KILN_SENSE_RELATION);
    case KILN_SENSE_RELATION:
        if (p->last < 0 || p->relation)
            return false;
        p->relation = token->sense->meaning;
        p->at++;
        return true;
    case KILN_SENSE_PREPOSITION:
        return take_neighbour(p);
    default:
        return take_thing(p);
    }
}

/* Turns a word of order into relations between neighbours. */
static bool take_row(struct parser *p)
{
    static const struct {
        const char *words, *kind;
    } rows[] = {{"from left to right", "left of"},
                {"from right to left", "right of"},
                {"from top to bottom", "above"},
                {"from bottom to top", "below"}};
    struct kiln_facts *facts = p->facts;
    if (!p->row)
        return true;
    if (facts->relation_count)
        return false;
    if (facts->thing_count == 1) /* "three stars in a row" */
        return add_relation(facts, 0, p->row->sense->meaning, 0);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        if (means(p->row, rows[r].words)) {
            for (int i = 0; i + 1 < facts->thing_count; i++)
                if (!add_relation(facts, i, rows[r].kind, i + 1))
                    return false;
            p->listed = false;
            return true;
        }
    return false;
}

void kiln_things_parse(struct kiln_facts *facts)
{
    struct parser p = {.facts = facts, .last = -1};
    bool understood = !facts->negated && facts->count < 64;
    for (uint32_t i = 0; understood && i < facts->count; i++)
        understood = !facts->items[i].token || facts->items[i].token->kind != KILN_SPLIT_QUOTE;
    while (understood && p.at < facts->count)
        understood = take_one(&p);
    understood = understood && !p.relation && !p.zone && facts->thing_count && take_row(&p);
    int zones = 0, first = 0;
    for (int i = 0; i < facts->thing_count; i++) {
        zones += facts->things[i].zone != NULL;
        first += zones == i + 1;
    }
    /* A place behind a list or before one may be one thing's or everything's; beside a relation
     * likewise.  "A star at the top and a ring" has one reading. */
    if (zones &&
        (facts->relation_count || (zones != facts->thing_count && (p.fronted || first != zones))))
        understood = false;
    understood = understood && !(p.then && !p.row);
    /* "A boy in the snow and a girl": where is she? */
    if (facts->ground_count && p.grounded && p.grounded != facts->thing_count)
        understood = false;
    /* "man, beard, woman, dress": whose is the beard? */
    for (int i = 0; facts->thing_count > 2 && i < facts->thing_count; i++)
        if (facts->things[i].noun->class == KILN_SENSE_PART)
            understood = false;
    /* "a star left of a ring and a heart": what is the heart's? */
    if (facts->relation_count && p.listed)
        understood = false;
    facts->whole = understood;
}
