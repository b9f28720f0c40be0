/* lexicon.c - see lexicon.h; words.txt describes the format. */
#include "schemas/reuse/lexicon.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/embedded.h"
#include "schemas/reuse/split.h"

/* A phrase, or the first words of one (sense.meaning is NULL then). */
struct slot {
    const char *phrase; /* NULL: free */
    uint32_t len;
    uint8_t longest; /* words of the longest phrase that begins with it */
    struct kiln_sense sense;
};

/* Names are kept in blocks, so that pointers to them stay. */
struct block {
    struct block *next;
    char text[];
};

struct kiln_reuse_words {
    struct slot *slots;
    size_t mask, used;
    struct block *blocks;
};

static const char *const class_names[] = {
#define CLASS_NAME(name, text) text,
    KILN_SENSE_CLASSES(CLASS_NAME)
#undef CLASS_NAME
};

static size_t hash(const char *text, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a: the phrases are short */
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    return (size_t)(h ^ h >> 29);
}

static struct slot *slot_of(const struct kiln_reuse_words *words, const char *phrase, size_t len)
{
    size_t i = hash(phrase, len) & words->mask;
    while (words->slots[i].phrase &&
           (words->slots[i].len != len || memcmp(words->slots[i].phrase, phrase, len) != 0))
        i = (i + 1) & words->mask;
    return &words->slots[i];
}

const struct kiln_sense *kiln_sense_find(const struct kiln_reuse_words *words, const char *phrase,
                                         size_t len, unsigned *ret_longest)
{
    const struct slot *slot = slot_of(words, phrase, len);
    if (ret_longest)
        *ret_longest = slot->phrase ? slot->longest : 0;
    return slot->phrase && slot->sense.meaning ? &slot->sense : NULL;
}

static int grow(struct kiln_reuse_words *words, struct kiln_error *err)
{
    struct kiln_reuse_words larger = {.mask = words->mask * 2 + 1};
    larger.slots = calloc(larger.mask + 1, sizeof *larger.slots);
    if (!larger.slots)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for word lists");
    for (size_t i = 0; words->slots && i <= words->mask; i++)
        if (words->slots[i].phrase)
            *slot_of(&larger, words->slots[i].phrase, words->slots[i].len) = words->slots[i];
    free(words->slots);
    words->slots = larger.slots;
    words->mask = larger.mask;
    return 0;
}

static const char *keep(struct kiln_reuse_words *words, const char *text, size_t len)
{
    struct block *block = malloc(sizeof *block + len + 1);
    if (!block)
        return NULL;
    memcpy(block->text, text, len);
    block->text[len] = '\0';
    block->next = words->blocks;
    words->blocks = block;
    return block->text;
}

/* The slot of a phrase, made if it is not there; NULL without memory. */
static struct slot *place(struct kiln_reuse_words *words, const char *phrase, size_t len,
                          struct kiln_error *err)
{
    if (words->used * 2 >= words->mask && grow(words, err) != 0)
        return NULL;
    struct slot *slot = slot_of(words, phrase, len);
    if (slot->phrase)
        return slot;
    const char *kept = keep(words, phrase, len);
    if (!kept) {
        kiln_fail(err, KILN_NO_MEMORY, "no memory for word lists");
        return NULL;
    }
    *slot = (struct slot){.phrase = kept, .len = (uint32_t)len};
    words->used++;
    return slot;
}

/* Enters a phrase as prompts are split, with sense; *sense without a meaning means itself. */
static int enter(struct kiln_reuse_words *words, const char *phrase, size_t len,
                 struct kiln_sense *sense, bool replace, struct kiln_error *err)
{
    struct kiln_split split;
    int code = kiln_split_prompt(phrase, len, &split, err);
    if (code)
        return code;
    struct slot *first = NULL, *slot = NULL;
    if (split.count == 0)
        code = kiln_fail(err, KILN_BAD_INPUT, "'%.*s' has no words", (int)len, phrase);
    if (code == 0 && place(words, split.text, split.at[0].len, err) &&
        place(words, split.text, split.len, err)) {
        first = slot_of(words, split.text, split.at[0].len); /* placing may move slots */
        slot = slot_of(words, split.text, split.len);
    } else if (code == 0) {
        code = err ? err->code : KILN_NO_MEMORY;
    }
    if (code == 0 && slot->sense.meaning && !replace)
        code = kiln_fail(err, KILN_BAD_INPUT, "'%s' is in the lists already, as %s '%s'",
                         slot->phrase, class_names[slot->sense.class], slot->sense.meaning);
    if (code == 0) {
        if (!sense->meaning)
            sense->meaning = slot->phrase;
        slot->sense = *sense;
        if (first->longest < split.count)
            first->longest = split.count > 255 ? 255 : (uint8_t)split.count;
    }
    kiln_split_release(&split);
    return code;
}

static bool ends_with(const char *text, size_t len, const char *end)
{
    size_t n = strlen(end);
    return len >= n && memcmp(text + len - n, end, n) == 0;
}

/* The regular plural of an English noun. */
static size_t plural_of(const char *noun, size_t len, char *out)
{
    memcpy(out, noun, len);
    if (ends_with(noun, len, "y") && len > 1 && !strchr("aeiou", noun[len - 2])) {
        memcpy(out + len - 1, "ies", 3);
        return len + 2;
    }
    bool hissing = ends_with(noun, len, "s") || ends_with(noun, len, "x") ||
                   ends_with(noun, len, "ch") || ends_with(noun, len, "sh");
    memcpy(out + len, hissing ? "es" : "s", hissing ? 2 : 1);
    return len + (hissing ? 2 : 1);
}

static void trim(const char **text, size_t *len)
{
    while (*len && (**text == ' ' || **text == '\t')) {
        ++*text;
        --*len;
    }
    while (*len &&
           ((*text)[*len - 1] == ' ' || (*text)[*len - 1] == '\t' || (*text)[*len - 1] == '\r'))
        --*len;
}

/* One form, "star" or "mouse/mice" or "sheep/-" (no plural of its own). */
static int enter_form(struct kiln_reuse_words *words, const char *form, size_t len,
                      struct kiln_sense *sense, bool replace, struct kiln_error *err)
{
    char made[256];
    bool noun = sense->class == KILN_SENSE_THING || sense->class == KILN_SENSE_BEING ||
                sense->class == KILN_SENSE_PART;
    const char *slash = noun ? memchr(form, '/', len) : NULL, *many = made;
    size_t many_len = 0;
    if (len == 0 || len > 200)
        return kiln_fail(err, KILN_BAD_INPUT, "a word is empty or too long");
    if (slash) {
        many = slash + 1;
        many_len = len - (size_t)(many - form);
        len = (size_t)(slash - form);
        if (many_len == 1 && *many == '-')
            many_len = 0;
    } else if (noun && (unsigned char)form[len - 1] < 0x80) {
        many_len = plural_of(form, len, made);
    }
    sense->plural = false;
    int code = enter(words, form, len, sense, replace, err);
    struct kiln_sense plural = *sense;
    plural.plural = true;
    if (code == 0 && many_len)
        code = enter(words, many, many_len, &plural, replace, err);
    return code;
}

/* "meaning: form, form" or "meaning < wider: form". */
static int parse_line(struct kiln_reuse_words *words, enum kiln_sense_class class, const char *line,
                      size_t len, bool replace, struct kiln_error *err)
{
    struct kiln_sense sense = {.class = class, .own = replace};
    const char *colon = memchr(line, ':', len), *rest = colon ? colon + 1 : line + len;
    const char *head = line, *less;
    size_t head_len = colon ? (size_t)(colon - line) : len, left = (size_t)(line + len - rest);
    if ((less = memchr(head, '<', head_len)) != NULL) {
        const char *wider = less + 1;
        size_t wider_len = head_len - (size_t)(wider - head);
        head_len = (size_t)(less - head);
        trim(&wider, &wider_len);
        const struct kiln_sense *found = kiln_sense_find(words, wider, wider_len, NULL);
        if (!found || found->class != class)
            return kiln_fail(err, KILN_BAD_INPUT, "'%.*s' is not in this section", (int)wider_len,
                             wider);
        sense.wider = found->meaning;
    }
    trim(&head, &head_len);
    int code = enter_form(words, head, head_len, &sense, replace, err);
    while (code == 0 && left) {
        const char *comma = memchr(rest, ',', left), *form = rest;
        size_t form_len = comma ? (size_t)(comma - rest) : left;
        left -= comma ? form_len + 1 : form_len;
        rest += comma ? form_len + 1 : form_len;
        trim(&form, &form_len);
        if (form_len)
            code = enter_form(words, form, form_len, &sense, replace, err);
    }
    return code;
}

static int section_of(const char *line, size_t len)
{
    for (int i = 1; i < KILN_SENSE_CLASS_COUNT; i++)
        if (len == strlen(class_names[i]) + 2 && line[len - 1] == ']' &&
            memcmp(line + 1, class_names[i], len - 2) == 0)
            return i;
    return 0;
}

/* replace: of a model; a word that is there already gets its meaning of this text. */
static int parse_text(struct kiln_reuse_words *words, const char *text, bool replace,
                      struct kiln_error *err)
{
    int class = 0, code = 0;
    for (unsigned number = 1; *text && code == 0; number++) {
        const char *end = strchrnul(text, '\n'), *line = text;
        const char *note = memchr(text, '#', (size_t)(end - text));
        size_t len = (size_t)((note ? note : end) - text);
        text = *end ? end + 1 : end;
        trim(&line, &len);
        if (len == 0)
            continue;
        if (*line == '[') {
            class = section_of(line, len);
            if (!class)
                code = kiln_fail(err, KILN_BAD_INPUT, "unknown section %.*s", (int)len, line);
        } else if (!class) {
            code = kiln_fail(err, KILN_BAD_INPUT, "a word before the first section");
        } else {
            code = parse_line(words, (enum kiln_sense_class) class, line, len, replace, err);
        }
        if (code)
            kiln_fail_in(err, "word lists, line %u", number);
    }
    return code;
}

/* What a card may call empty: nothing that states a fact. */
static int add_empty(struct kiln_reuse_words *words, const char *word, struct kiln_error *err)
{
    const struct kiln_sense *sense = kiln_sense_find(words, word, strlen(word), NULL);
    struct kiln_sense filler = {.class = KILN_SENSE_FILLER};
    if (sense && sense->class != KILN_SENSE_FILLER && sense->class != KILN_SENSE_QUALITY &&
        sense->class != KILN_SENSE_REQUEST && sense->class != KILN_SENSE_FRAME &&
        sense->class != KILN_SENSE_ARTICLE && sense->class != KILN_SENSE_DETAIL &&
        sense->class != KILN_SENSE_STYLE && sense->class != KILN_SENSE_POSITION)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "'%s' of the card's empty words states something (%s)", word,
                         class_names[sense->class]);
    int code = enter(words, word, strlen(word), &filler, true, err);
    return code ? kiln_fail_in(err, "empty words of the card") : 0;
}

int kiln_reuse_words_parse(const char *text, const char *const *empty, size_t count,
                           struct kiln_reuse_words **ret, struct kiln_error *err)
{
    struct kiln_reuse_words *words = calloc(1, sizeof *words);
    if (!words)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for word lists");
    words->mask = 2047;
    int code = grow(words, err);
    if (code == 0)
        code = parse_text(words, text, false, err);
    for (size_t i = 0; code == 0 && i < count; i++)
        code = add_empty(words, empty[i], err);
    if (code) {
        kiln_reuse_words_free(words);
        return code;
    }
    *ret = words;
    return 0;
}

int kiln_reuse_words_new(const char *const *empty, size_t count, struct kiln_reuse_words **ret,
                         struct kiln_error *err)
{
    return kiln_reuse_words_parse(kiln_embedded_reuse[0].text, empty, count, ret, err);
}

int kiln_reuse_words_add(struct kiln_reuse_words *words, const char *text, struct kiln_error *err)
{
    return parse_text(words, text, true, err);
}

void kiln_reuse_words_free(struct kiln_reuse_words *words)
{
    if (!words)
        return;
    while (words->blocks) {
        struct block *next = words->blocks->next;
        free(words->blocks);
        words->blocks = next;
    }
    free(words->slots);
    free(words);
}
