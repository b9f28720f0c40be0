/* mixed.c - see mixed.h. */
#include "scheduler/gallery/meaning/mixed.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/gallery/meaning/fusion.h"
#include "scheduler/gallery/meaning/searcher.h"
#include "schemas/clock.h"
#include "schemas/digest.h"
#include "schemas/telemetry/log.h"
#include "schemas/text/text.h"
#include "storage/ledger/ledger.h"

#define SPARE 8  /* searchers that are kept: as many as search at once, or more */
#define LISTS 64 /* kept at one time */
#define ID 16    /* hexadecimal digits of a list in a cursor */
#define WORDS_MS                                                                                   \
    12 /* for the words, about as long as a million vectors take: those are all looked at, so an   \
          older picture that has a rare phrase is likely found by them */

struct list {
    char id[ID + 1]; /* of the query; "": none */
    int64_t made_ms;
    bool out_of_time, indexing; /* of the search by words: older pictures were not looked at */
    bool no_words;              /* it found none */
    bool words_alone;           /* the tokens could not be read in time */
    char older[KILN_GALLERY_CURSOR_MAX]; /* where it goes on; "": it has found all */
    int64_t searched_back_to_ms;
    uint32_t count;
    uint64_t jobs[KILN_MIXED_WORDS + KILN_MIXED_MEANING];
};

struct kiln_mixed {
    const struct kiln_config *config;
    struct kiln_meaning *meaning;
    pthread_mutex_t lock; /* of all below */
    struct list lists[LISTS];
    struct kiln_searcher *spare[SPARE]; /* not in use now */
    int spare_count;
};

int kiln_mixed_new(const struct kiln_config *config, struct kiln_meaning *meaning,
                   struct kiln_mixed **ret, struct kiln_error *err)
{
    struct kiln_mixed *mixed = calloc(1, sizeof *mixed);
    if (!mixed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for lists of searches");
    mixed->config = config, mixed->meaning = meaning;
    pthread_mutex_init(&mixed->lock, NULL);
    *ret = mixed;
    return 0;
}

void kiln_mixed_free(struct kiln_mixed *mixed)
{
    if (!mixed)
        return;
    while (mixed->spare_count > 0)
        kiln_searcher_free(mixed->spare[--mixed->spare_count]);
    pthread_mutex_destroy(&mixed->lock);
    free(mixed);
}

uint32_t kiln_mixed_waiting(struct kiln_mixed *mixed)
{
    uint32_t pictures, prompts, waiting;
    kiln_meaning_progress(mixed->meaning, &pictures, &prompts, &waiting);
    return waiting;
}

/* A searcher for this thread, until it is given back. */
static int take_searcher(struct kiln_mixed *mixed, struct kiln_searcher **ret,
                         struct kiln_error *err)
{
    *ret = NULL;
    pthread_mutex_lock(&mixed->lock);
    if (mixed->spare_count > 0)
        *ret = mixed->spare[--mixed->spare_count];
    pthread_mutex_unlock(&mixed->lock);
    return *ret ? 0 : kiln_searcher_new(mixed->config, mixed->meaning, ret, err);
}

static void give_searcher(struct kiln_mixed *mixed, struct kiln_searcher *searcher)
{
    pthread_mutex_lock(&mixed->lock);
    const bool kept = mixed->spare_count < SPARE;
    if (kept)
        mixed->spare[mixed->spare_count++] = searcher;
    pthread_mutex_unlock(&mixed->lock);
    if (!kept)
        kiln_searcher_free(searcher);
}

/* --- what a list is kept under -------------------------------------------------------------- */
/* All that decides on the list.  A set of levels is part of it: nobody is shown another's list. */
static int name_list(const struct kiln_gallery_query *query, char ret[ID + 1],
                     struct kiln_error *err)
{
    struct kiln_text text = {0};
    uint8_t hash[KILN_SHA256_SIZE];
    kiln_gallery_filter_put(&text, &query->filter);
    kiln_text_puts(&text, query->words);
    bool failed = text.failed;
    if (!failed)
        kiln_sha256(text.at, text.len, hash);
    kiln_text_release(&text);
    if (failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to search for a text");
    kiln_hex(hash, ID / 2, ret);
    return 0;
}

void kiln_mixed_cursor_write(char out[KILN_GALLERY_CURSOR_MAX], const char *id, uint32_t offset)
{
    snprintf(out, KILN_GALLERY_CURSOR_MAX, "%c%s-%u", KILN_MIXED_CURSOR, id, offset);
}

bool kiln_mixed_cursor_read(const char *cursor, const char *id, uint32_t *ret_offset)
{
    const size_t len = strlen(id);
    if (cursor[0] != KILN_MIXED_CURSOR || strncmp(cursor + 1, id, len) != 0 ||
        cursor[1 + len] != '-')
        return false;
    const char *offset = cursor + len + 2;
    const size_t digits = strspn(offset, "0123456789");
    *ret_offset = (uint32_t)strtoul(offset, NULL, 10);
    return digits > 0 && digits <= 6 && !offset[digits] && (offset[0] != '0' || digits == 1);
}

static int read_cursor(const char *cursor, const char *id, uint32_t *ret_offset,
                       struct kiln_error *err)
{
    *ret_offset = 0;
    return !cursor || !*cursor || kiln_mixed_cursor_read(cursor, id, ret_offset)
               ? 0
               : kiln_fail(err, KILN_BAD_INPUT,
                           "this page belongs to another search; begin with its first page");
}

/* --- making a list -------------------------------------------------------------------------- */
static int make_list(struct kiln_mixed *mixed, struct kiln_ledger *session,
                     const struct kiln_gallery_query *query, struct list *list,
                     struct kiln_error *err)
{
    struct kiln_gallery_query words = *query;
    struct kiln_searcher_task alike = {.query = query};
    struct kiln_searcher *searcher;
    struct kiln_gallery_page page;
    uint64_t by_words[KILN_MIXED_WORDS], by_meaning[KILN_MIXED_MEANING];
    words.cursor = NULL, words.rows_max = KILN_MIXED_WORDS;
    words.budget_ms = words.budget_ms > 0 ? words.budget_ms : WORDS_MS;
    alike.code = take_searcher(mixed, &searcher, &alike.err);
    if (alike.code == 0)
        kiln_searcher_begin(searcher, &alike);
    int code = kiln_gallery_jobs(session, &words, by_words, &page, err);
    if (searcher) {
        kiln_searcher_finish(searcher);
        give_searcher(mixed, searcher);
    }
    list->words_alone = alike.code == KILN_TIMEOUT || alike.code == KILN_UNAVAILABLE ||
                        alike.code == KILN_IO; /* of the file of tokens */
    if (code == 0 && alike.code != 0 && !list->words_alone) {
        *err = alike.err;
        code = alike.code;
    }
    if (code != 0)
        return code;
    if (list->words_alone) {
        kiln_log(KILN_LOG_WARNING, "meaning_late", kiln_f("error", "%s", alike.err.text),
                 kiln_f("effect", "a search found pictures by their words alone"));
        alike.found = (struct kiln_meaning_found){0};
    }
    list->out_of_time = page.out_of_time, list->indexing = page.indexing;
    list->searched_back_to_ms = page.searched_back_to_ms;
    list->no_words = page.rows == 0 && !page.older[0];
    memcpy(list->older, page.older, sizeof list->older);
    const uint32_t near = alike.found.near;
    for (uint32_t i = 0; i < near; i++)
        by_meaning[i] = alike.hits[i].job;
    const struct kiln_fusion_list both[] = {{by_words, page.rows, 1}, {by_meaning, near, 1}};
    list->count = kiln_fuse(both, 2, list->jobs);
    return 0;
}

/* Copies the list that is kept; false: there is none. */
static bool find_list(struct kiln_mixed *mixed, const char *id, struct list *ret)
{
    bool found = false;
    pthread_mutex_lock(&mixed->lock);
    for (int i = 0; i < LISTS && !found; i++) {
        const struct list *list = &mixed->lists[i];
        found = strcmp(list->id, id) == 0 && kiln_clock_ms() - list->made_ms < KILN_MIXED_KEPT_MS;
        if (found)
            *ret = *list;
    }
    pthread_mutex_unlock(&mixed->lock);
    return found;
}

/* In place of the same, or of the oldest. */
static void keep_list(struct kiln_mixed *mixed, const struct list *made)
{
    pthread_mutex_lock(&mixed->lock);
    struct list *place = &mixed->lists[0];
    for (int i = 0; i < LISTS; i++) {
        struct list *list = &mixed->lists[i];
        if (strcmp(list->id, made->id) == 0) {
            place = list;
            break;
        }
        if (list->made_ms < place->made_ms)
            place = list;
    }
    *place = *made;
    pthread_mutex_unlock(&mixed->lock);
}

struct page {
    kiln_each_tile *each;
    void *arg;
    uint32_t rows;
};

static int pass_tile(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    struct page *page = arg;
    page->rows++;
    return page->each(page->arg, tile, err);
}

/* The list of a query, and where the page of its cursor begins: kept, or made. */
static int get_list(struct kiln_mixed *mixed, struct kiln_ledger *session,
                    const struct kiln_gallery_query *query, struct list *ret, uint32_t *ret_offset,
                    struct kiln_error *err)
{
    char id[ID + 1];
    int code = name_list(query, id, err);
    if (code == 0)
        code = read_cursor(query->cursor, id, ret_offset, err);
    if (code != 0 || find_list(mixed, id, ret))
        return code;
    memcpy(ret->id, id, sizeof id);
    ret->made_ms = kiln_clock_ms();
    code = make_list(mixed, session, query, ret, err);
    /* One page has no others to fit to, and what it lacks may be there a moment later. */
    if (code == 0 && ret->count > query->rows_max && !ret->words_alone)
        keep_list(mixed, ret);
    return code;
}

int kiln_mixed_list(struct kiln_mixed *mixed, struct kiln_ledger *session,
                    const struct kiln_gallery_query *query, kiln_each_tile *each, void *arg,
                    struct kiln_gallery_page *ret, struct kiln_error *err)
{
    struct list list;
    struct page page = {each, arg, 0};
    uint32_t offset;
    *ret = (struct kiln_gallery_page){.rows = 0};
    int code = get_list(mixed, session, query, &list, &offset, err);
    if (code != 0)
        return code;
    offset = offset < list.count ? offset : list.count;
    uint32_t count = list.count - offset;
    count = count < query->rows_max ? count : query->rows_max;
    code = kiln_gallery_tiles(session, &query->filter, list.jobs + offset, count, pass_tile, &page,
                              err);
    if (code != 0)
        return code;
    ret->rows = page.rows;
    ret->out_of_time = list.out_of_time, ret->indexing = list.indexing;
    ret->searched_back_to_ms = list.searched_back_to_ms;
    ret->no_words = list.no_words;
    if (offset + count < list.count)
        kiln_mixed_cursor_write(ret->older, list.id, offset + count);
    else
        memcpy(ret->older, list.older, sizeof ret->older);
    if (offset > 0)
        kiln_mixed_cursor_write(ret->newer, list.id,
                                offset > query->rows_max ? offset - query->rows_max : 0);
    return 0;
}

static int by_age(const void *a, const void *b)
{
    const uint64_t *one = a, *two = b;
    return (*one < *two) - (*one > *two);
}

int kiln_mixed_newest(struct kiln_mixed *mixed, struct kiln_ledger *session,
                      const struct kiln_gallery_query *query, kiln_each_tile *each, void *arg,
                      struct kiln_error *err)
{
    struct list list;
    uint32_t offset;
    int code = get_list(mixed, session, query, &list, &offset, err);
    if (code != 0)
        return code;
    qsort(list.jobs, list.count, sizeof *list.jobs, by_age);
    const uint32_t count = list.count < query->rows_max ? list.count : query->rows_max;
    return kiln_gallery_tiles(session, &query->filter, list.jobs, count, each, arg, err);
}

int kiln_mixed_similar(struct kiln_mixed *mixed, struct kiln_ledger *session,
                       const struct kiln_gallery_filter *filter, uint64_t job, uint32_t count,
                       kiln_each_tile *each, void *arg, struct kiln_error *err)
{
    struct kiln_searcher *searcher;
    struct kiln_meaning_hit hits[KILN_MIXED_MEANING];
    struct kiln_meaning_found found = {0};
    uint64_t jobs[KILN_MIXED_MEANING];
    count = count < KILN_MIXED_MEANING ? count : KILN_MIXED_MEANING;
    int code = take_searcher(mixed, &searcher, err);
    if (code != 0)
        return code;
    code = kiln_meaning_similar(mixed->meaning, searcher->scratch, session, filter, job, count,
                                hits, &found, err);
    give_searcher(mixed, searcher);
    for (uint32_t i = 0; i < found.near; i++)
        jobs[i] = hits[i].job;
    if (code == 0 && found.near > 0)
        code = kiln_gallery_tiles(session, filter, jobs, found.near, each, arg, err);
    return code;
}
