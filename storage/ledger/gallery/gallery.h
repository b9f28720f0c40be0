/* gallery.h - what a gallery asks the ledger: pictures listed, searched by words, counted by day.
 *
 * Reading only, in any session; a gallery takes one for each question (read/reader.h).  Newest
 * first means by falling job id: the pictures of the newest jobs.  A list is a walk by key, so its
 * last page costs as much as the first.
 *
 *     struct kiln_gallery_query query = {
 *         .filter = {.pool = "main", .show_unchecked = true}, .words = "red star", .rows_max = 48,
 *         .budget_ms = 20};
 *     struct kiln_gallery_page page;
 *     rc = kiln_gallery_list(session, &query, each, arg, &page, err);
 *     query.cursor = page.older;      for the next page, in the same query
 *
 * Every list, count, histogram and suggestion obeys the filter's safety level.
 */
#ifndef KILN_GALLERY_H
#define KILN_GALLERY_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/limits.h"
#include "storage/ledger/read/read.h"

struct kiln_ledger;
struct kiln_text;

/* Column image.safety_flag: one ordinal, never a set of bits.  NULL is "not checked". */
enum kiln_safety_level {
    KILN_SAFETY_UNCHECKED = -1, /* in rows only: nobody has looked yet */
    KILN_SAFETY_CLEAR,          /* nothing was found */
    KILN_SAFETY_UNSURE,         /* a word of the prompt, or a classifier that is not certain */
    KILN_SAFETY_MATURE,
    KILN_SAFETY_EXPLICIT,
    KILN_SAFETY_LEVELS
};
extern const char *const kiln_safety_level_names[KILN_SAFETY_LEVELS + 1]; /* NULL at the end */

enum kiln_gallery_mode {
    KILN_GALLERY_ANY_MODE,
    KILN_GALLERY_EXACT,
    KILN_GALLERY_COARSE,
    KILN_GALLERY_STARTED, /* from another picture or latent */
    KILN_GALLERY_MODES
};

/* By width over height: tall below 0.95, wide above 1.05. */
enum kiln_gallery_aspect {
    KILN_GALLERY_ANY_ASPECT,
    KILN_GALLERY_SQUARE,
    KILN_GALLERY_WIDE,
    KILN_GALLERY_TALL,
    KILN_GALLERY_ASPECTS
};

/* Zero and NULL: not filtered; but levels above level_max are always hidden.  Texts are borrowed.
 * LoRA and style are names, the model as the worker had it (image.model_name). */
struct kiln_gallery_filter {
    const char *pool; /* required */
    const char *batch, *tenant, *model, *lora, *style;
    const char *prompt_hash; /* pictures of one prompt: its variants */
    uint32_t width, height;  /* both, or neither */
    enum kiln_gallery_aspect aspect;
    enum kiln_gallery_mode mode;
    bool starred;
    int vote;               /* 1 or -1 */
    int64_t from_ms, to_ms; /* created_at in [from, to); 0: open */
    int level_max;          /* enum kiln_safety_level, the highest that is shown */
    bool show_unchecked;
    bool stacked; /* in lists: of each prompt the newest picture that is found */
};

/* Appends all of a filter: different filters have different texts, whatever follows them. */
void kiln_gallery_filter_put(struct kiln_text *text, const struct kiln_gallery_filter *filter);

enum kiln_gallery_order {
    KILN_GALLERY_NEWEST,
    KILN_GALLERY_RELEVANCE /* needs words; ranks blocks of the newest KILN_GALLERY_BLOCK hits */
};
#define KILN_GALLERY_BLOCK 480
#define KILN_GALLERY_ROWS_MAX 200
#define KILN_GALLERY_CURSOR_MAX 128

struct kiln_gallery_query {
    struct kiln_gallery_filter filter;
    const char *words; /* the query language of schemas/words/query.h; NULL: everything */
    enum kiln_gallery_order order;
    const char *cursor; /* of a page of the same query; NULL or "": the first page */
    uint32_t rows_max;  /* 1 .. KILN_GALLERY_ROWS_MAX */
    int64_t budget_ms;  /* a walk ends after that and says how far it came; 0: 20 */
};

/* A stored file of a picture; key "" if it is missing. */
struct kiln_gallery_object {
    char key[KILN_OBJECT_KEY_MAX + 1];
    uint64_t bytes;
    uint32_t width, height;
};

/* A picture in a list.  Lent to the callback. */
struct kiln_gallery_tile {
    uint64_t job;
    int64_t created_ms;
    uint32_t width, height;
    const char *prompt, *prompt_hash;
    const char *mode; /* text of schemas/job/mode.h, "" is exact */
    const char *batch, *tenant;
    const char *style; /* NULL: none */
    char seed[24];     /* decimal: 64 bits do not fit a number of JavaScript */
    bool starred;
    int level;        /* enum kiln_safety_level */
    int32_t colour;   /* mean, 0xRRGGBB; -1: not known */
    double relevance; /* 0 unless ordered by it */
    uint32_t stack;   /* in a stacked list: shown pictures of its prompt, itself too, up to 1000 */
    struct kiln_gallery_object full, medium, small; /* as rendered, 512, 256 */
};
typedef int kiln_each_tile(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err);

struct kiln_gallery_page {
    char older[KILN_GALLERY_CURSOR_MAX]; /* where the list goes on; "" at its end */
    char newer[KILN_GALLERY_CURSOR_MAX]; /* the page before this; "" only if there were no rows */
    uint32_t rows;
    bool no_words;    /* by words and meaning: no picture has all of the words */
    bool indexing;    /* with words: the index is being made, and has no older pictures yet */
    bool out_of_time; /* the walk ended at its budget; go on with `older` (or `newer`) */
    int64_t searched_back_to_ms; /* out of time: pictures created before (after) it are unread */
};

/* Calls each, newest (most relevant) first, whatever the direction of the cursor.  KILN_BAD_INPUT:
 * the words hold nothing to search for, or the cursor belongs to another query or was changed. */
int kiln_gallery_list(struct kiln_ledger *session, const struct kiln_gallery_query *query,
                      kiln_each_tile *each, void *arg, struct kiln_gallery_page *ret,
                      struct kiln_error *err) KILN_MUST_CHECK;

/* The jobs of a page, newest first whatever the order of the query: for a search that orders them
 * in its own way and reads their tiles later.  With words some of them may have been hidden a
 * second ago; the tiles say so.  ret_jobs: [query->rows_max]; their number is ret->rows. */
int kiln_gallery_jobs(struct kiln_ledger *session, const struct kiln_gallery_query *query,
                      uint64_t *ret_jobs, struct kiln_gallery_page *ret,
                      struct kiln_error *err) KILN_MUST_CHECK;

/* --- what is new ---------------------------------------------------------------------------------
 *
 * A moment is a snapshot of Postgres, as the follower's watermark is (follow.h), and the number of
 * the cluster: a job id or a time would miss what commits late.  With words the moment is that of
 * the index of words, which is a second behind. */
#define KILN_GALLERY_MOMENT_MAX 1024 /* as text: "CLUSTER/XMIN:XMAX:XIP,XIP,..." */
#define KILN_GALLERY_FRESH_MAX 200   /* pictures of one call */

/* Whether the text can be a moment; whoever keeps one may send anything. */
bool kiln_gallery_moment_valid(const char *text);

/* Calls each for the pictures that the query shows and that have changed since the moment; "":
 * none, it begins now.  moment is moved on.  *ret_lost: the moment is of another ledger, or so much
 * has changed since that nobody has counted; nothing was called, and the list itself must be read.
 * Order, cursor and rows_max of the query count for nothing.  May call each again for a picture
 * that it was called for. */
int kiln_gallery_fresh(struct kiln_ledger *session, const struct kiln_gallery_query *query,
                       char moment[KILN_GALLERY_MOMENT_MAX], kiln_each_tile *each, void *arg,
                       bool *ret_lost, struct kiln_error *err) KILN_MUST_CHECK;

/* Pictures of the pool that searches by words do not find yet: those of the last second, or, while
 * the index is being made, older ones.  KILN_GALLERY_WAITING_MAX + 1: there are more. */
#define KILN_GALLERY_WAITING_MAX 1000
int kiln_gallery_waiting(struct kiln_ledger *session, const char *pool, uint32_t *ret,
                         struct kiln_error *err) KILN_MUST_CHECK;

/* Tiles of these jobs in this order, as far as the filter shows them: for other searches. */
int kiln_gallery_tiles(struct kiln_ledger *session, const struct kiln_gallery_filter *filter,
                       const uint64_t *jobs, uint32_t count, kiln_each_tile *each, void *arg,
                       struct kiln_error *err) KILN_MUST_CHECK;

/* Everything of one picture.  job and its objects as `kiln show` has them. */
struct kiln_gallery_picture {
    const struct kiln_job_row *job;
    struct kiln_made made;
    struct kiln_gallery_tile tile;
    const char *safety_source; /* NULL: nobody has looked */
    double safety_score;
    int vote;        /* 1, -1, or 0: nobody has voted */
    uint64_t parent; /* the picture that this one was made from; 0: none, or hidden */
    uint64_t donor;  /* the picture from whose latent its run began; 0: none, or hidden */
    uint32_t variants,
        children; /* of the same prompt but not the same, and made from it; at most 1000 */
};
typedef int kiln_each_picture(void *arg, const struct kiln_gallery_picture *picture,
                              struct kiln_error *err);
/* Calls each once.  KILN_NOT_FOUND: no picture of that job in the pool, or a level that the filter
 * hides.  Of the filter only pool and levels count. */
int kiln_gallery_picture(struct kiln_ledger *session, const struct kiln_gallery_filter *filter,
                         uint64_t job, kiln_each_picture *each, void *arg,
                         struct kiln_error *err) KILN_MUST_CHECK;

/* The newest pictures that were made from this one, at most `max` (KILN_GALLERY_ROWS_MAX). */
int kiln_gallery_children(struct kiln_ledger *session, const struct kiln_gallery_filter *filter,
                          uint64_t job, uint32_t max, kiln_each_tile *each, void *arg,
                          struct kiln_error *err) KILN_MUST_CHECK;

/* Calls each with values that the newest pictures have for the filters batch, lora, model, style
 * and tenant, by filter and name: of each filter the `max` most frequent.  Of the filter only pool
 * and levels count. */
typedef int kiln_each_filter_name(void *arg, const char *filter, const char *name,
                                  struct kiln_error *err);
int kiln_gallery_names(struct kiln_ledger *session, const struct kiln_gallery_filter *filter,
                       uint32_t max, kiln_each_filter_name *each, void *arg,
                       struct kiln_error *err) KILN_MUST_CHECK;

#define KILN_GALLERY_COUNT_MAX 1000
/* Pictures that the query finds, up to KILN_GALLERY_COUNT_MAX; *ret_more: there are more, or the
 * budget ended before all were read. */
int kiln_gallery_count(struct kiln_ledger *session, const struct kiln_gallery_query *query,
                       uint32_t *ret_count, bool *ret_more, struct kiln_error *err) KILN_MUST_CHECK;

struct kiln_gallery_day {
    int64_t day_ms; /* 00:00 UTC */
    uint64_t pictures;
};
typedef int kiln_each_day(void *arg, const struct kiln_gallery_day *day, struct kiln_error *err);
/* Pictures by day, newest first.  *ret_back_to_ms: 0, or the budget ended there and earlier days
 * are missing. */
int kiln_gallery_days(struct kiln_ledger *session, const struct kiln_gallery_query *query,
                      kiln_each_day *each, void *arg, int64_t *ret_back_to_ms,
                      struct kiln_error *err) KILN_MUST_CHECK;

/* "Did you mean": the words with each rare or unknown one replaced by the most frequent word of
 * the gallery at one typing error from it.  "" if there is nothing better, or it finds nothing. */
int kiln_gallery_suggest(struct kiln_ledger *session, const struct kiln_gallery_query *query,
                         char *out, size_t size, struct kiln_error *err) KILN_MUST_CHECK;

/* At most `max` words that a share of the pictures in [low, high) has, always the same ones. */
typedef int kiln_each_frequent(void *arg, const char *word, uint64_t pictures,
                               struct kiln_error *err);
int kiln_gallery_frequent(struct kiln_ledger *session, double low, double high, uint32_t max,
                          kiln_each_frequent *each, void *arg,
                          struct kiln_error *err) KILN_MUST_CHECK;

#endif
