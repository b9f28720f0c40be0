/* minimise.c - see minimise.h.
 *
 * The commands are cut into parts; a part without which the rest still fails is left out, and the
 * parts are made smaller until each is one command.  Fields of an entry, and members of a JSON
 * object in a field, go one by one; long texts are halved.
 */
#include "tests/hostile/minimise.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#define SHORT 24 /* bytes that nobody minds reading */

struct search {
    struct hostile_list *list;
    hostile_fails *fails;
    void *arg;
    int done, most;
};

static bool still_fails(struct search *search, const struct hostile_list *list)
{
    if (search->done == search->most || list->count == 0)
        return false;
    search->done++;
    return search->fails(search->arg, list);
}

/* --- commands -----------------------------------------------------------------------------------
 */
static bool leave_out(struct search *search, size_t from, size_t count)
{
    struct hostile_list *list = search->list;
    struct hostile_list rest = {calloc(list->count, sizeof *rest.at), 0};
    if (!rest.at)
        abort();
    for (size_t i = 0; i < list->count; i++)
        if (i < from || i >= from + count)
            rest.at[rest.count++] = list->at[i];
    bool fails = still_fails(search, &rest);
    if (fails) {
        for (size_t i = from; i < from + count; i++)
            hostile_command_free(list->at[i]);
        memcpy(list->at, rest.at, rest.count * sizeof *rest.at);
        list->count = rest.count;
    }
    free(rest.at);
    return fails;
}

static void fewer_commands(struct search *search)
{
    for (size_t part = (search->list->count + 1) / 2;; part = (part + 1) / 2) {
        for (size_t from = 0; from < search->list->count && search->done < search->most;) {
            size_t left = search->list->count - from;
            if (!leave_out(search, from, part < left ? part : left))
                from += part;
        }
        if (part <= 1)
            return;
    }
}

/* --- one command --------------------------------------------------------------------------------
 */
/* Takes `shorter`: in the list if it still fails, else freed. */
static bool replace(struct search *search, size_t at, struct hostile_command *shorter)
{
    struct hostile_command *before = search->list->at[at];
    search->list->at[at] = shorter;
    bool fails = still_fails(search, search->list);
    search->list->at[at] = fails ? shorter : before;
    hostile_command_free(fails ? before : shorter);
    return fails;
}

static void fewer_fields(struct search *search, size_t at)
{
    for (size_t i = hostile_command_fields(search->list->at[at]);
         i > 0 && i + 1 < search->list->at[at]->count && search->done < search->most;) {
        struct hostile_command *shorter = hostile_command_copy(search->list->at[at]);
        hostile_release(&shorter->words[i]);
        hostile_release(&shorter->words[i + 1]);
        shorter->count -= 2;
        memmove(shorter->words + i, shorter->words + i + 2,
                (shorter->count - i) * sizeof *shorter->words);
        if (shorter->count < 5 || !replace(search, at, shorter))
            i += 2;
    }
}

static struct hostile_bytes without_member(const struct hostile_bytes *word, const char *member)
{
    struct hostile_bytes shorter = {0};
    json_t *object = json_loadb(word->at, word->len, JSON_ALLOW_NUL, NULL);
    if (object && json_object_del(object, member) == 0) {
        char *text = json_dumps(object, JSON_COMPACT);
        if (text)
            shorter = hostile_text(text);
        free(text);
    }
    json_decref(object);
    return shorter;
}

static void fewer_members(struct search *search, size_t at, size_t word)
{
    const struct hostile_bytes *whole = &search->list->at[at]->words[word];
    json_t *object = json_loadb(whole->at, whole->len, JSON_ALLOW_NUL, NULL), *value;
    const char *member;
    json_object_foreach(object, member, value)
    {
        struct hostile_bytes text = without_member(&search->list->at[at]->words[word], member);
        if (!text.at)
            continue;
        struct hostile_command *shorter = hostile_command_copy(search->list->at[at]);
        hostile_release(&shorter->words[word]);
        shorter->words[word] = text;
        (void)replace(search, at, shorter);
    }
    json_decref(object);
}

/* Without its first half, without its last one, and again with halves of these. */
static void fewer_bytes(struct search *search, size_t at, size_t word)
{
    size_t len = search->list->at[at]->words[word].len;
    for (size_t cut = len / 2; cut > SHORT / 2 && search->done < search->most; cut /= 2)
        for (int back = 0; back < 2; back++) {
            const struct hostile_bytes *whole = &search->list->at[at]->words[word];
            if (whole->len <= cut)
                continue;
            struct hostile_command *shorter = hostile_command_copy(search->list->at[at]);
            hostile_release(&shorter->words[word]);
            shorter->words[word] = hostile_copy(whole->at + (back ? 0 : cut), whole->len - cut);
            (void)replace(search, at, shorter);
        }
}

int hostile_minimise(struct hostile_list *list, hostile_fails *fails, void *arg, int trials)
{
    struct search search = {list, fails, arg, 0, trials};
    if (!still_fails(&search, list))
        return 0;
    fewer_commands(&search);
    for (size_t i = 0; i < list->count; i++) {
        fewer_fields(&search, i);
        for (size_t word = hostile_command_fields(list->at[i]);
             word > 0 && word < list->at[i]->count; word++) {
            fewer_members(&search, i, word);
            if (list->at[i]->words[word].len > SHORT)
                fewer_bytes(&search, i, word);
        }
    }
    return search.done;
}
