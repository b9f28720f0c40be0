/* pairs.c - which pairs of prompts `kiln bench teleport` renders; see teleport.h.
 *
 * A line of the file is: class, target, donor, what the target asks for, with tabs between. Whether
 * a pair is accepted says the guard, never the file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/reuse/guard.h"
#include "schemas/room.h"
#include "storage/formats/card/model_words.h"
#include "worker/bench/teleport/teleport.h"

/* The group of a pair, which is added if it is the first of it; -1 if there are too many. */
static int group_of(struct kiln_teleport_pairs *pairs, enum kiln_reuse_class class,
                    const char *kind)
{
    char name[KILN_TELEPORT_GROUP_NAME];
    if (class != KILN_REUSE_NONE)
        return (int)class - 1;
    /* "reworded alike" and "reworded freely" are one. */
    snprintf(name, sizeof name, "refused: %.*s", (int)strcspn(kind, " "), kind);
    for (int i = 0; i < pairs->group_count; i++)
        if (strcmp(pairs->groups[i].name, name) == 0)
            return i;
    if (pairs->group_count == KILN_TELEPORT_GROUPS_MAX)
        return -1;
    struct kiln_teleport_group *group = &pairs->groups[pairs->group_count];
    memcpy(group->name, name, sizeof name);
    return pairs->group_count++;
}

struct reading {
    const struct kiln_teleport_options *options;
    const struct kiln_judge_labels *labels;
    const char *suffix;
    struct kiln_reuse_words *words;
    struct kiln_teleport_pairs *pairs;
    size_t room;
};

/* Whether the two prompts state the same facts, or the donor more; see tests/quality/reuse. */
static bool same_facts(const char *kind)
{
    return strncmp(kind, "same", 4) == 0 || strncmp(kind, "reworded", 8) == 0 ||
           strncmp(kind, "fewer", 5) == 0;
}

/* NULL without memory. */
static char *with_suffix(const char *prompt, const char *suffix)
{
    char *ret;
    return asprintf(&ret, "%s%s", prompt, suffix) < 0 ? NULL : ret;
}

static int take(struct reading *r, uint32_t line, int group, const char *kind, const char *target,
                const char *donor, const char *asked, struct kiln_error *err)
{
    struct kiln_teleport_pairs *pairs = r->pairs;
    struct kiln_teleport_pair *items =
        kiln_room(pairs->items, pairs->count, &r->room, sizeof *items);
    if (!items)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the pairs");
    pairs->items = items;
    struct kiln_teleport_pair *pair = &items[pairs->count++];
    *pair = (struct kiln_teleport_pair){.target = with_suffix(target, r->suffix),
                                        .donor = with_suffix(donor, r->suffix),
                                        .same_facts = same_facts(kind),
                                        .line = line,
                                        .group = group,
                                        .rank = (int)pairs->groups[group].pairs++};
    if (!pair->target || !pair->donor)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the pairs");
    json_error_t where;
    json_t *value = json_loads(asked, JSON_REJECT_DUPLICATES, &where);
    const int code = value ? kiln_asked_read(value, r->labels, &pair->asked, err)
                           : kiln_fail(err, KILN_BAD_INPUT, "what is asked: %s", where.text);
    json_decref(value);
    return code;
}

static int read_line(struct reading *r, uint32_t number, char *line, struct kiln_error *err)
{
    const char *kind = strsep(&line, "\t"), *target = strsep(&line, "\t"),
               *donor = strsep(&line, "\t"), *asked = strsep(&line, "\n");
    char reason[KILN_REUSE_REASON_MAX];
    enum kiln_reuse_class class;
    if (!asked)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "expected class, target, donor and what the target asks for, with tabs "
                         "between");
    if (strlen(target) > KILN_PROMPT_MAX || strlen(donor) > KILN_PROMPT_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "a prompt is longer than %d bytes", KILN_PROMPT_MAX);
    int code = kiln_reuse_judge(r->words, target, donor, &class, reason, err);
    if (code)
        return code;
    const int group = group_of(r->pairs, class, kind);
    if (group < 0)
        return kiln_fail(err, KILN_BAD_INPUT, "more than %d classes", KILN_TELEPORT_GROUPS_MAX - 4);
    const bool refused = class == KILN_REUSE_NONE;
    if (r->pairs->groups[group].pairs >= (refused ? r->options->refused : r->options->count))
        return 0;
    return take(r, number, group, kind, target, donor, asked, err);
}

/* So that a bench that is interrupted has measured something of every group. */
static int by_rank(const void *a, const void *b)
{
    const struct kiln_teleport_pair *one = a, *other = b;
    return one->rank != other->rank ? (one->rank > other->rank) - (one->rank < other->rank)
                                    : one->group - other->group;
}

static int read_lines(struct reading *r, const char *path, struct kiln_error *err)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return kiln_fail(err, errno == ENOENT ? KILN_NOT_FOUND : KILN_IO, "open %s: %s", path,
                         strerror(errno));
    char *text = NULL;
    size_t size = 0;
    int code = 0;
    for (uint32_t number = 1; code == 0 && getline(&text, &size, file) > 0; number++) {
        if (text[0] == '\n' || text[0] == '#')
            continue;
        code = read_line(r, number, text, err);
        if (code && code != KILN_NO_MEMORY)
            code = kiln_fail_in(err, "%s:%u", path, number);
    }
    if (code == 0 && ferror(file))
        code = kiln_fail(err, KILN_IO, "read %s: %s", path, strerror(errno));
    if (code == 0 && r->pairs->count == 0)
        code = kiln_fail(err, KILN_BAD_INPUT, "%s holds no pairs", path);
    free(text);
    fclose(file);
    return code;
}

int kiln_teleport_pairs_read(const struct kiln_teleport_options *options, const char *path,
                             const struct kiln_judge_labels *labels, const char *suffix,
                             struct kiln_teleport_pairs *ret, struct kiln_error *err)
{
    struct kiln_teleport_pairs pairs = {0};
    struct reading r = {.options = options, .labels = labels, .suffix = suffix, .pairs = &pairs};
    for (int i = 1; i < KILN_REUSE_CLASS_COUNT; i++) {
        struct kiln_teleport_group *group = &pairs.groups[pairs.group_count++];
        group->class = (enum kiln_reuse_class)i;
        snprintf(group->name, sizeof group->name, "%s", kiln_reuse_class_name(group->class));
    }
    bool own; /* without words of its own the model is compared by the built-in ones */
    int code = kiln_model_words_read(options->model, &r.words, &own, err);
    code = code ? code : read_lines(&r, path, err);
    kiln_reuse_words_free(r.words);
    if (code) {
        kiln_teleport_pairs_release(&pairs);
        return code;
    }
    qsort(pairs.items, pairs.count, sizeof *pairs.items, by_rank);
    *ret = pairs;
    return 0;
}

void kiln_teleport_pairs_release(struct kiln_teleport_pairs *pairs)
{
    for (size_t i = 0; i < pairs->count; i++) {
        free(pairs->items[i].target);
        free(pairs->items[i].donor);
    }
    free(pairs->items);
    *pairs = (struct kiln_teleport_pairs){0};
}
