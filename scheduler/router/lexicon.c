/* lexicon.c - see lexicon.h. */
#include "scheduler/router/lexicon.h"

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
#define CLASS_SHIFT 16
#define IDF_EMPTY 3 /* of small words and praise, in tenths */
#define CONCEPTS_MAX 5000

struct kiln_lexicon {
    char *text; /* concepts point into it */
    struct kiln_concept *concepts;
    size_t count, room;
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

static int add_phrase(struct kiln_lexicon *lexicon, const char *text, int32_t concept,
                      unsigned line, struct kiln_error *err)
{
    struct kiln_route_tokens tokens = {0};
    int rc = kiln_route_tokens_add(&tokens, text, strlen(text), false, err);
    if (!rc && tokens.count == 0)
        rc = kiln_fail(err, KILN_BAD_INPUT, "lexicon, line %u: '%s' has no words", line, text);
    if (!rc) {
        uint32_t *value =
            kiln_map_put(&lexicon->phrases, kiln_route_tokens_phrase(tokens.at, tokens.count),
                         (uint32_t) concept);
        if (!value)
            rc = no_memory(err);
        else if (*value != (uint32_t) concept)
            rc = kiln_fail(err, KILN_BAD_INPUT, "lexicon, line %u: '%s' is a phrase of '%s' too",
                           line, text, lexicon->concepts[*value].name);
    }
    for (size_t i = 0; i < tokens.count && !rc; i++)
        rc = mark_word(lexicon, tokens.at[i].form, SPOKEN, err);
    kiln_route_tokens_release(&tokens);
    return rc;
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

/* One line, split in place; parents and antonyms are still names. */
static int read_line(struct kiln_lexicon *lexicon, char *line, unsigned number, char *late[2],
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
    const char **phrases;
    int rc = split_list(fields[4], &phrases, &concepts[concept].count, err);
    if (rc)
        return rc;
    concepts[concept].phrases = phrases;
    for (uint32_t i = 0; i < concepts[concept].count && !rc; i++) {
        char *mark = strchr(phrases[i], '?');
        if (mark) {
            *mark = '\0';
            concepts[concept].bare[i] = true;
        }
        rc = add_phrase(lexicon, phrases[i], concept, number, err);
    }
    late[0] = fields[2];
    late[1] = fields[3];
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
                        char *const late[2], struct kiln_error *err)
{
    const char **names;
    int rc = *late[0] ? find_name(lexicon, late[0], &concept->parent, err) : 0;
    rc = rc ? rc : split_list(late[1], &names, &concept->antonym_count, err);
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

static int read_concepts(struct kiln_lexicon *lexicon, struct kiln_error *err)
{
    char *(*late)[2] = calloc(CONCEPTS_MAX, sizeof *late), *rest = lexicon->text, *line;
    unsigned number = 0;
    int rc = late ? 0 : no_memory(err);
    while (!rc && (line = strsep(&rest, "\n")) != NULL) {
        number++;
        if (*line == '#' || !*trim(line))
            continue;
        rc = lexicon->count < CONCEPTS_MAX
                 ? read_line(lexicon, line, number, late[lexicon->count], err)
                 : kiln_fail(err, KILN_BAD_INPUT, "lexicon: over %d concepts", CONCEPTS_MAX);
    }
    for (size_t i = 0; i < lexicon->count && !rc; i++)
        rc = link_concept(lexicon, &lexicon->concepts[i], late[i], err);
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
        free((void *)lexicon->concepts[i].phrases);
        free((void *)lexicon->concepts[i].antonyms);
    }
    free(lexicon->concepts);
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

bool kiln_lexicon_common(const struct kiln_lexicon *lexicon, uint64_t form)
{
    return (word(lexicon, form) & COMMON) != 0;
}
