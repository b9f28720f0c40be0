/* rule.c - see rule.h.
 *
 * Entries are sorted by their last word, so a prompt costs a binary search a word.
 */
#include "scheduler/gallery/safety/rule.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/digest.h"
#include "schemas/embedded.h"
#include "schemas/room.h"
#include "schemas/words/words.h"
#include "storage/formats/user_file.h"

#define BUILTIN "words.txt"
#define BUILTIN_SOURCE "rule:1" /* raise the number when the list changes */
#define HASH_BYTES 4

/* A word without its text: equal words have equal text, wherever that lies. */
struct part {
    const char *text;
    size_t len;
    uint32_t position;
};

struct entry {
    struct part parts[KILN_RULE_ENTRY_MAX];
    size_t count;
    char *folded; /* owned; the parts lie in it */
};

struct kiln_rule {
    struct entry *entries;
    size_t count, room;
    char source[32];
};

static int compare(const struct part *a, const struct part *b)
{
    size_t len = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->text, b->text, len);
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

static const struct part *last_of(const struct entry *entry)
{
    return &entry->parts[entry->count - 1];
}

static int by_last(const void *a, const void *b)
{
    return compare(last_of(a), last_of(b));
}

/* --- reading a list --------------------------------------------------------------------------- */

struct collected {
    struct entry *entry;
    bool too_many;
};

/* The last character of a run stands for itself in texts too, but only at their end. */
static void collect(void *arg, const struct kiln_word *word)
{
    struct collected *to = arg;
    if (word->kind == KILN_WORD_END)
        return;
    if (to->entry->count == KILN_RULE_ENTRY_MAX)
        to->too_many = true;
    else
        to->entry->parts[to->entry->count++] = (struct part){word->text, word->len, word->position};
}

static int add_entry(struct kiln_rule *rule, const char *text, size_t len, struct kiln_error *err)
{
    struct entry entry = {.count = 0};
    struct collected to = {.entry = &entry};
    uint32_t position = 0;
    size_t folded;
    int rc = kiln_words_fold(text, len, &entry.folded, &folded, err);
    if (rc)
        return rc;
    kiln_words_each(entry.folded, folded, &position, collect, &to);
    if (entry.count == 0)
        rc = kiln_fail(err, KILN_BAD_INPUT, "\"%.*s\" has no word", (int)(len < 60 ? len : 60),
                       text);
    else if (to.too_many)
        rc = kiln_fail(err, KILN_BAD_INPUT, "an entry has at most %d words", KILN_RULE_ENTRY_MAX);
    struct entry *entries =
        rc ? NULL : kiln_room(rule->entries, rule->count, &rule->room, sizeof *entries);
    if (rc == 0 && !entries)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for a list of words");
    if (rc) {
        free(entry.folded);
        return rc;
    }
    rule->entries = entries;
    rule->entries[rule->count++] = entry;
    return 0;
}

/* One line without its end: nothing, a comment, a language, or an entry. */
static int add_line(struct kiln_rule *rule, const char *line, size_t len, struct kiln_error *err)
{
    const char *comment = memchr(line, '#', len);
    len = comment ? (size_t)(comment - line) : len;
    while (len > 0 && strchr(" \t\r", line[len - 1]))
        len--;
    while (len > 0 && strchr(" \t", *line))
        line++, len--;
    if (len == 0 || (*line == '[' && line[len - 1] == ']'))
        return 0;
    return add_entry(rule, line, len, err);
}

static void set_source(struct kiln_rule *rule, const char *text, size_t len)
{
    uint8_t digest[KILN_SHA256_SIZE];
    char hex[2 * HASH_BYTES + 1];
    kiln_sha256(text, len, digest);
    kiln_hex(digest, HASH_BYTES, hex);
    snprintf(rule->source, sizeof rule->source, "rule:%s", rule->count ? hex : "none");
}

int kiln_rule_parse(const char *name, const char *text, size_t len, struct kiln_rule **ret,
                    struct kiln_error *err)
{
    struct kiln_rule *rule = calloc(1, sizeof *rule);
    int rc = rule ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for a list of words");
    for (size_t at = 0, line = 1; rc == 0 && at < len; line++) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t length = end ? (size_t)(end - text) - at : len - at;
        rc = add_line(rule, text + at, length, err);
        if (rc == KILN_BAD_INPUT) {
            struct kiln_error why = *err;
            rc = kiln_fail(err, KILN_CONFIG, "%s, line %zu: %s", name, line, why.text);
        }
        at += length + 1;
    }
    if (rc) {
        kiln_rule_free(rule);
        return rc;
    }
    if (rule->count > 1)
        qsort(rule->entries, rule->count, sizeof *rule->entries, by_last);
    set_source(rule, text, len);
    *ret = rule;
    return 0;
}

static int open_builtin(struct kiln_rule **ret, struct kiln_error *err)
{
    for (const struct kiln_embedded *file = kiln_embedded_gallery; file->name; file++)
        if (strcmp(file->name, BUILTIN) == 0) {
            int rc = kiln_rule_parse(BUILTIN, file->text, file->size, ret, err);
            if (rc == 0)
                snprintf((*ret)->source, sizeof(*ret)->source, BUILTIN_SOURCE);
            return rc;
        }
    return kiln_fail(err, KILN_INTERNAL, "%s is not built in", BUILTIN);
}

int kiln_rule_open(const char *setting, struct kiln_rule **ret, struct kiln_error *err)
{
    char *text = NULL;
    size_t size;
    if (strcmp(setting, "builtin") == 0)
        return open_builtin(ret, err);
    if (strcmp(setting, "none") == 0)
        return kiln_rule_parse("", "", 0, ret, err);
    int rc = kiln_user_file_read(setting, KILN_RULE_FILE_MAX, &text, &size, err);
    if (rc) {
        struct kiln_error why = *err;
        return kiln_fail(err, KILN_CONFIG, "gallery_rule: %s", why.text);
    }
    rc = kiln_rule_parse(setting, text, size, ret, err);
    free(text);
    return rc;
}

void kiln_rule_free(struct kiln_rule *rule)
{
    if (!rule)
        return;
    for (size_t i = 0; i < rule->count; i++)
        free(rule->entries[i].folded);
    free(rule->entries);
    free(rule);
}

const char *kiln_rule_source(const struct kiln_rule *rule)
{
    return rule->source;
}

size_t kiln_rule_entries(const struct kiln_rule *rule)
{
    return rule->count;
}

/* --- looking at a prompt ---------------------------------------------------------------------- */

/* The newest words of the prompt, as many as an entry may have. */
struct look {
    const struct kiln_rule *rule;
    struct part last[KILN_RULE_ENTRY_MAX]; /* last[0] is the newest */
    size_t count;
    bool found;
};

/* Whether the entry ends with the newest word. */
static bool ends_here(const struct look *look, const struct entry *entry)
{
    if (entry->count > look->count)
        return false;
    for (size_t i = 0; i < entry->count; i++) {
        const struct part *part = &look->last[entry->count - 1 - i];
        if (compare(part, &entry->parts[i]) != 0 ||
            part->position - look->last[entry->count - 1].position !=
                entry->parts[i].position - entry->parts[0].position)
            return false;
    }
    return true;
}

/* The first entry whose last word is not below this one. */
static size_t lower(const struct kiln_rule *rule, const struct part *part)
{
    size_t low = 0, high = rule->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(last_of(&rule->entries[middle]), part) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void look_at(void *arg, const struct kiln_word *word)
{
    struct look *look = arg;
    if (word->kind == KILN_WORD_END || look->found)
        return;
    memmove(&look->last[1], &look->last[0], (KILN_RULE_ENTRY_MAX - 1) * sizeof look->last[0]);
    look->last[0] = (struct part){word->text, word->len, word->position};
    look->count += look->count < KILN_RULE_ENTRY_MAX;
    const struct kiln_rule *rule = look->rule;
    for (size_t at = lower(rule, &look->last[0]);
         at < rule->count && compare(last_of(&rule->entries[at]), &look->last[0]) == 0; at++)
        look->found |= ends_here(look, &rule->entries[at]);
}

bool kiln_rule_matches(const struct kiln_rule *rule, const char *prompt)
{
    struct look look = {.rule = rule};
    uint32_t position = 0;
    char *folded;
    size_t len;
    if (rule->count == 0 || kiln_words_fold(prompt, strlen(prompt), &folded, &len, NULL) != 0)
        return false;
    kiln_words_each(folded, len, &position, look_at, &look);
    free(folded);
    return look.found;
}
