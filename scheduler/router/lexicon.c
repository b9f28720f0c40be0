/* lexicon.c - see lexicon.h. */
#include "scheduler/router/lexicon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/router/map.h"
#include "scheduler/router/tokens.h"
#include "scheduler/router/word_lists.h"
#include "schemas/embedded.h"
#include "schemas/room.h"

#define FIELDS 5
#define COMMON 0x100u /* of a word's value: in background.txt */
#define SPOKEN 0x200u /* in a phrase */
#define CLASS_SHIFT 10
_Static_assert((uint64_t)KILN_WORD_ORDER << CLASS_SHIFT <= UINT32_MAX, "a value has all classes");
#define IDF_EMPTY 3 /* of small words and praise, in tenths */
#define CONCEPTS_MAX 5000
#define PHRASE_SIZE 128 /* bytes of a phrase with its end */

struct kiln_lexicon {
    char *text; /* concepts point into it */
    struct kiln_concept *concepts;
    size_t count, room;
    char *(*groups)[2]; /* name and list, as written */
    size_t group_count, group_room;
    struct kiln_map phrases; /* phrase -> concept */
    struct kiln_map names;   /* name -> concept */
    struct kiln_map words;   /* form -> idf | COMMON | SPOKEN | classes << CLASS_SHIFT */
};

static char *trim(char *text)
{
    while (*text == ' ')
        text++;
    size_t len = strlen(text);
    while (len > 0 && text[len - 1] == ' ')
        text[--len] = '\0';
    return text;
}

static int no_memory(struct kiln_error *err)
{
    return kiln_fail(err, KILN_NO_MEMORY, "no memory for the lexicon");
}

static int mark_word(struct kiln_lexicon *lexicon, uint64_t form, uint32_t bits,
                     struct kiln_error *err)
{
    uint32_t *value = kiln_map_put(&lexicon->words, form, KILN_IDF_UNKNOWN);
    if (!value)
        return no_memory(err);
    *value |= bits;
    return 0;
}

static int keep_phrase(struct kiln_concept *concept, struct kiln_lexicon_phrase phrase,
                       unsigned line, struct kiln_error *err)
{
    struct kiln_lexicon_phrase *phrases =
        kiln_room(concept->phrases, concept->count, &concept->room, sizeof *phrases);
    if (!phrases)
        return no_memory(err);
    concept->phrases = phrases;
    if (concept->count == KILN_CONCEPT_PHRASES_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "lexicon, line %u: over %d phrases", line,
                         KILN_CONCEPT_PHRASES_MAX);
    phrase.text = strdup(phrase.text);
    if (!phrase.text)
        return no_memory(err);
    phrases[concept->count++] = phrase;
    return 0;
}

/* Adds a phrase to a concept.  One of a group that another concept has is left out. */
static int add_phrase(struct kiln_lexicon *lexicon, struct kiln_concept *concept,
                      struct kiln_lexicon_phrase phrase, unsigned line, struct kiln_error *err)
{
    struct kiln_route_tokens tokens = {0};
    const uint32_t number = (uint32_t)(concept - lexicon->concepts);
    int rc = kiln_route_tokens_add(&tokens, phrase.text, strlen(phrase.text), false, err);
    if (!rc && tokens.count == 0)
        rc = kiln_fail(err, KILN_BAD_INPUT, "lexicon, line %u: '%s' has no words", line,
                       phrase.text);
    phrase.hash = rc ? 0 : kiln_route_tokens_phrase(tokens.at, tokens.count);
    const uint32_t *owner = rc ? NULL : kiln_map_put(&lexicon->phrases, phrase.hash, number);
    const bool taken = owner && *owner != number;
    if (!rc && !owner)
        rc = no_memory(err);
    else if (taken && !phrase.grouped)
        rc = kiln_fail(err, KILN_BAD_INPUT, "lexicon, line %u: '%s' is a phrase of '%s' too", line,
                       phrase.text, lexicon->concepts[*owner].name);
    for (size_t i = 0; i < tokens.count && !rc && !taken; i++)
        rc = mark_word(lexicon, tokens.at[i].form, SPOKEN, err);
    kiln_route_tokens_release(&tokens);
    return rc || taken ? rc : keep_phrase(concept, phrase, line, err);
}

/* The parts of a list between commas, in *ret (of which the caller frees the array). */
static int split_list(char *list, const char ***ret, uint32_t *ret_count, struct kiln_error *err)
{
    const char **at = calloc(KILN_CONCEPT_PHRASES_MAX, sizeof *at);
    uint32_t count = 0;
    if (!at)
        return no_memory(err);
    for (char *rest = list, *part; (part = strsep(&rest, ",")) != NULL;) {
        if (!*(part = trim(part)))
            continue;
        if (count == KILN_CONCEPT_PHRASES_MAX) {
            free(at);
            return kiln_fail(err, KILN_BAD_INPUT, "lexicon: over %d phrases of one concept",
                             KILN_CONCEPT_PHRASES_MAX);
        }
        at[count++] = part;
    }
    *ret = at;
    *ret_count = count;
    return 0;
}

/* The words of the group that text begins with ("@glow outlines"), or NULL. */
static const char *group_of(const struct kiln_lexicon *lexicon, const char *text, size_t *ret_len)
{
    *ret_len = strcspn(text, " ");
    for (size_t i = 0; i < lexicon->group_count; i++)
        if (strlen(lexicon->groups[i][0]) == *ret_len &&
            memcmp(lexicon->groups[i][0], text, *ret_len) == 0)
            return lexicon->groups[i][1];
    return NULL;
}

/* Adds a phrase, as often as its groups have words. */
static int add_written(struct kiln_lexicon *lexicon, struct kiln_concept *concept,
                       struct kiln_lexicon_phrase phrase, unsigned line, struct kiln_error *err)
{
    const char *text = phrase.text, *at = strchr(text, '@');
    size_t name_len, len;
    if (!at)
        return add_phrase(lexicon, concept, phrase, line, err);
    const char *words = group_of(lexicon, at, &name_len);
    if (!words)
        return kiln_fail(err, KILN_BAD_INPUT, "lexicon, line %u: there is no group '%.*s'", line,
                         (int)name_len, at);
    int rc = 0;
    for (; *words && !rc; words += len + (words[len] == ',')) {
        char one[PHRASE_SIZE];
        len = strcspn(words, ",");
        const size_t skip = strspn(words, " ");
        const int size = snprintf(one, sizeof one, "%.*s%.*s%s", (int)(at - text), text,
                                  (int)(len - skip), words + skip, at + name_len);
        rc = size < (int)sizeof one
                 ? add_written(lexicon, concept,
                               (struct kiln_lexicon_phrase){
                                   .text = one, .bare = phrase.bare, .grouped = true},
                               line, err)
                 : kiln_fail(err, KILN_BAD_INPUT, "lexicon, line %u: '%s' is too long", line, text);
    }
    return rc;
}

/* "@glow | glowing, luminous": words that a phrase has in turn.  They have no groups themselves,
 * and no question marks: the phrase has one. */
static int read_group(struct kiln_lexicon *lexicon, char *line, unsigned number,
                      struct kiln_error *err)
{
    char *rest = line, *name = trim(strsep(&rest, "|"));
    size_t len;
    char *(*groups)[2] =
        kiln_room(lexicon->groups, lexicon->group_count, &lexicon->group_room, sizeof *groups);
    if (!groups)
        return no_memory(err);
    lexicon->groups = groups;
    if (!rest || !*(rest = trim(rest)) || strpbrk(rest, "@?") || strchr(name, ' ') ||
        group_of(lexicon, name, &len))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "lexicon, line %u: '%s' must be a new group with words", number, name);
    groups[lexicon->group_count][0] = name;
    groups[lexicon->group_count++][1] = rest;
    return 0;
}

/* What of a concept waits until all lines are read. */
struct late {
    char *parent, *antonyms; /* names */
    const char **written;    /* phrases */
    uint32_t count;
    unsigned line;
};

/* One line, split in place. */
static int read_line(struct kiln_lexicon *lexicon, char *line, unsigned number, struct late *late,
                     struct kiln_error *err)
{
    char *fields[FIELDS], *rest = line;
    for (int i = 0; i < FIELDS; i++) {
        fields[i] = strsep(&rest, i + 1 < FIELDS ? "|" : "\n");
        if (!fields[i])
            return kiln_fail(err, KILN_BAD_INPUT, "lexicon, line %u: %d fields, not %d", number, i,
                             FIELDS);
        fields[i] = trim(fields[i]);
    }
    if (strcmp(fields[1], "style") != 0 && strcmp(fields[1], "subject") != 0 &&
        strcmp(fields[1], "effect") != 0 && strcmp(fields[1], "motion") != 0)
        return kiln_fail(err, KILN_BAD_INPUT, "lexicon, line %u: unknown kind '%s'", number,
                         fields[1]);
    struct kiln_concept *concepts =
        kiln_room(lexicon->concepts, lexicon->count, &lexicon->room, sizeof *concepts);
    if (!concepts)
        return no_memory(err);
    lexicon->concepts = concepts;
    const int32_t concept = (int32_t)lexicon->count++;
    concepts[concept] = (struct kiln_concept){.name = fields[0], .kind = fields[1], .parent = -1};
    uint32_t *named = kiln_map_put(&lexicon->names, kiln_map_hash(fields[0], strlen(fields[0])),
                                   (uint32_t) concept);
    if (!named)
        return no_memory(err);
    if (*named != (uint32_t) concept)
        return kiln_fail(err, KILN_BAD_INPUT, "lexicon, line %u: '%s' is there twice", number,
                         fields[0]);
    late->parent = fields[2];
    late->antonyms = fields[3];
    late->line = number;
    return split_list(fields[4], &late->written, &late->count, err);
}

/* The phrases of a concept: those without groups, or the others. */
static int add_phrases(struct kiln_lexicon *lexicon, struct kiln_concept *concept,
                       const struct late *late, bool grouped, struct kiln_error *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < late->count && !rc; i++) {
        char text[PHRASE_SIZE];
        const size_t len = strcspn(late->written[i], "?");
        if ((strchr(late->written[i], '@') != NULL) != grouped)
            continue;
        if (len >= sizeof text)
            return kiln_fail(err, KILN_BAD_INPUT, "lexicon, line %u: '%s' is too long", late->line,
                             late->written[i]);
        memcpy(text, late->written[i], len);
        text[len] = '\0';
        const bool bare = late->written[i][len] == '?';
        rc = add_written(
            lexicon, concept,
            (struct kiln_lexicon_phrase){.text = text, .bare = bare, .grouped = grouped},
            late->line, err);
    }
    return rc;
}

static int find_name(const struct kiln_lexicon *lexicon, const char *name, int32_t *ret,
                     struct kiln_error *err)
{
    const uint32_t *at = kiln_map_get(&lexicon->names, kiln_map_hash(name, strlen(name)));
    if (!at)
        return kiln_fail(err, KILN_BAD_INPUT, "lexicon: there is no concept '%s'", name);
    *ret = (int32_t)*at;
    return 0;
}

static int link_concept(struct kiln_lexicon *lexicon, struct kiln_concept *concept,
                        const struct late *late, struct kiln_error *err)
{
    const char **names;
    int rc = *late->parent ? find_name(lexicon, late->parent, &concept->parent, err) : 0;
    rc = rc ? rc : split_list(late->antonyms, &names, &concept->antonym_count, err);
    if (rc)
        return rc;
    int32_t *antonyms = calloc(concept->antonym_count + 1, sizeof *antonyms);
    concept->antonyms = antonyms;
    rc = antonyms ? 0 : no_memory(err);
    for (uint32_t i = 0; i < concept->antonym_count && !rc; i++)
        rc = find_name(lexicon, names[i], &antonyms[i], err);
    free(names);
    return rc;
}

/* The next line, with those behind it that begin with a space: they go on with its list.  *next:
 * the number of the line behind them. */
static char *next_line(char **rest, unsigned *next)
{
    char *line = strsep(rest, "\n");
    for (++*next; line && *rest && **rest == ' '; ++*next) {
        char *end = *rest - 1;
        *end = end > line && end[-1] != '|' ? ',' : ' ';
        (void)strsep(rest, "\n");
    }
    return line;
}

/* A phrase that one concept writes out and another one makes of a group is the first one's. */
static int read_concepts(struct kiln_lexicon *lexicon, struct kiln_error *err)
{
    struct late *late = calloc(CONCEPTS_MAX, sizeof *late);
    char *rest = lexicon->text, *line;
    unsigned next = 1;
    int rc = late ? 0 : no_memory(err);
    for (unsigned number = next; !rc && (line = next_line(&rest, &next)) != NULL; number = next) {
        if (*line == '#' || !*trim(line))
            continue;
        if (*line == '@')
            rc = read_group(lexicon, line, number, err);
        else
            rc = lexicon->count < CONCEPTS_MAX
                     ? read_line(lexicon, line, number, &late[lexicon->count], err)
                     : kiln_fail(err, KILN_BAD_INPUT, "lexicon: over %d concepts", CONCEPTS_MAX);
    }
    for (int grouped = 0; grouped < 2; grouped++)
        for (size_t i = 0; i < lexicon->count && !rc; i++)
            rc = add_phrases(lexicon, &lexicon->concepts[i], &late[i], grouped, err);
    for (size_t i = 0; i < lexicon->count && !rc; i++)
        rc = link_concept(lexicon, &lexicon->concepts[i], &late[i], err);
    for (size_t i = 0; late && i < CONCEPTS_MAX; i++)
        free(late[i].written);
    free(late);
    return rc;
}

/* Words of a line of background.txt or of a list: each gets a value. */
static int each_word(struct kiln_lexicon *lexicon, const char *words, size_t len, uint32_t bits,
                     uint32_t idf, struct kiln_error *err)
{
    struct kiln_route_tokens tokens = {0};
    int rc = kiln_route_tokens_add(&tokens, words, len, false, err);
    for (size_t i = 0; i < tokens.count && !rc; i++) {
        uint32_t *value = kiln_map_put(&lexicon->words, tokens.at[i].form, KILN_IDF_UNKNOWN);
        if (!value)
            rc = no_memory(err);
        else {
            /* Of the two forms that share a word (plant, plants) the commoner one counts. */
            if (idf && idf < (*value & 0xff))
                *value = (*value & ~0xffu) | idf;
            *value |= bits;
        }
    }
    kiln_route_tokens_release(&tokens);
    return rc;
}

static int read_background(struct kiln_lexicon *lexicon, const char *text, struct kiln_error *err)
{
    int rc = 0;
    while (*text && !rc) {
        const size_t len = strcspn(text, "\n");
        char *words;
        const unsigned long idf = strtoul(text, &words, 10);
        if (text[0] != '#' && len > 0) {
            if (idf == 0 || idf > 0xff)
                return kiln_fail(err, KILN_BAD_INPUT, "background words: '%.20s' has no idf", text);
            rc =
                each_word(lexicon, words, (size_t)(text + len - words), COMMON, (uint32_t)idf, err);
        }
        text += len + (text[len] == '\n');
    }
    return rc;
}

static int read_lists(struct kiln_lexicon *lexicon, struct kiln_error *err)
{
    int rc = 0;
    for (const struct kiln_word_list *list = kiln_word_lists; list->words && !rc; list++) {
        const bool empty = list->class == KILN_WORD_SMALL || list->class == KILN_WORD_PRAISE;
        rc = each_word(lexicon, list->words, strlen(list->words),
                       (uint32_t)list->class << CLASS_SHIFT, empty ? IDF_EMPTY : 0, err);
    }
    return rc;
}

int kiln_lexicon_parse(const char *concepts, const char *background, struct kiln_lexicon **ret,
                       struct kiln_error *err)
{
    struct kiln_lexicon *lexicon = calloc(1, sizeof *lexicon);
    if (!lexicon)
        return no_memory(err);
    lexicon->text = strdup(concepts);
    int rc = lexicon->text ? 0 : no_memory(err);
    rc = rc ? rc : read_background(lexicon, background, err);
    rc = rc ? rc : read_lists(lexicon, err);
    rc = rc ? rc : read_concepts(lexicon, err);
    if (rc) {
        kiln_lexicon_free(lexicon);
        return rc;
    }
    *ret = lexicon;
    return 0;
}

int kiln_lexicon_new(struct kiln_lexicon **ret, struct kiln_error *err)
{
    return kiln_lexicon_parse(kiln_embedded_lexicon[0].text, kiln_embedded_lexicon[1].text, ret,
                              err);
}

void kiln_lexicon_free(struct kiln_lexicon *lexicon)
{
    if (!lexicon)
        return;
    for (size_t i = 0; i < lexicon->count; i++) {
        for (size_t p = 0; p < lexicon->concepts[i].count; p++)
            free(lexicon->concepts[i].phrases[p].text);
        free(lexicon->concepts[i].phrases);
        free((void *)lexicon->concepts[i].antonyms);
    }
    free(lexicon->concepts);
    free(lexicon->groups);
    free(lexicon->text);
    kiln_map_release(&lexicon->phrases);
    kiln_map_release(&lexicon->names);
    kiln_map_release(&lexicon->words);
    free(lexicon);
}

size_t kiln_lexicon_count(const struct kiln_lexicon *lexicon)
{
    return lexicon->count;
}

const struct kiln_concept *kiln_lexicon_concept(const struct kiln_lexicon *lexicon, int32_t number)
{
    return &lexicon->concepts[number];
}

int32_t kiln_lexicon_find(const struct kiln_lexicon *lexicon, uint64_t phrase)
{
    const uint32_t *at = kiln_map_get(&lexicon->phrases, phrase);
    return at ? (int32_t)*at : -1;
}

static uint32_t word(const struct kiln_lexicon *lexicon, uint64_t form)
{
    const uint32_t *at = kiln_map_get(&lexicon->words, form);
    return at ? *at : KILN_IDF_UNKNOWN;
}

unsigned kiln_lexicon_classes(const struct kiln_lexicon *lexicon, uint64_t form)
{
    return word(lexicon, form) >> CLASS_SHIFT;
}

unsigned kiln_lexicon_idf(const struct kiln_lexicon *lexicon, uint64_t form)
{
    return word(lexicon, form) & 0xff;
}

bool kiln_lexicon_known(const struct kiln_lexicon *lexicon, uint64_t form)
{
    return (word(lexicon, form) & (COMMON | SPOKEN)) != 0;
}

bool kiln_lexicon_look_up(const struct kiln_lexicon *lexicon, uint64_t form, uint32_t *ret_classes)
{
    const uint32_t value = word(lexicon, form);
    *ret_classes = value >> CLASS_SHIFT;
    return (value & (COMMON | SPOKEN)) != 0;
}

bool kiln_lexicon_common(const struct kiln_lexicon *lexicon, uint64_t form)
{
    return (word(lexicon, form) & COMMON) != 0;
}
