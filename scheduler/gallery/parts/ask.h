/* ask.h - the question of a page: words and filters in an address, as a form, and back.
 *
 * Every list of the gallery is named by its address alone, so it can be kept, sent and reloaded.
 */
#ifndef KILN_GALLERY_ASK_H
#define KILN_GALLERY_ASK_H

#include "scheduler/gallery/parts/app.h"

#define KILN_ASK_WORDS_MAX 256 /* bytes */
#define KILN_ASK_VALUE_MAX 256

struct kiln_gallery_ask {
    struct kiln_gallery_query query;
    const struct kiln_web_args *args; /* all texts of the query are borrowed from here */
    struct kiln_mixed *mixed; /* for words, unless they are exact or the newest are wanted */
};

/* The pictures that are asked for: by words and meaning, or as the ledger lists them. */
int kiln_gallery_ask_list(const struct kiln_gallery_ask *ask, struct kiln_ledger *session,
                          kiln_each_tile *each, void *arg, struct kiln_gallery_page *ret,
                          struct kiln_error *err) KILN_MUST_CHECK;
/* The newest of them, the newest first, whatever the order of the list; of a question that was read
 * from its start. */
int kiln_gallery_ask_newest(const struct kiln_gallery_ask *ask, struct kiln_ledger *session,
                            kiln_each_tile *each, void *arg,
                            struct kiln_error *err) KILN_MUST_CHECK;

/* Fills a query from the arguments of an address, from the start of its list, wherever the address
 * is in it; the filter never shows more than the server may.  KILN_BAD_INPUT names the argument. */
int kiln_gallery_ask_read(const struct kiln_gallery_app *app, const struct kiln_web_args *args,
                          struct kiln_gallery_ask *ret, struct kiln_error *err) KILN_MUST_CHECK;
/* The same from the cursor `c` of the address on.  KILN_UNAVAILABLE, for the visitor to read: the
 * list goes on by meaning, which a gallery that was started a moment ago has not opened yet. */
int kiln_gallery_ask_read_page(struct kiln_web_visit *visit, struct kiln_gallery_ask *ret,
                               struct kiln_error *err) KILN_MUST_CHECK;

/* For /v1: refuses an argument that nothing reads.  It may be a filter that was mistyped, and the
 * answer a list of everything.  search: words and filters are read; others: further names, ended by
 * NULL.  KILN_BAD_INPUT. */
int kiln_gallery_ask_only(const struct kiln_web_args *args, bool search, const char *const *others,
                          struct kiln_error *err) KILN_MUST_CHECK;
#define KILN_ASK_NOTHING ((const char *const[]){NULL}) /* others: none */
/* The refusal itself, for a handler that walks through its arguments. */
int kiln_gallery_ask_unknown(const char *name, struct kiln_error *err);

/* As a page shows it to people: each prompt once, unless the list is of one prompt, of one batch or
 * of what they starred, or its address says otherwise. */
void kiln_gallery_ask_stack(struct kiln_gallery_ask *ask);

/* Appends "name=value&..." of all filters and words that were given, but the one named `without`
 * (NULL: none) and the cursor; percent encoded.  and: "&", or "&amp;" inside a page. */
void kiln_gallery_ask_write(const struct kiln_gallery_ask *ask, const char *without,
                            const char *and, struct kiln_text *out);
/* The same of the days from..to alone, "2026-11-21" each; from NULL: of all until then. */
void kiln_gallery_ask_write_days(const struct kiln_gallery_ask *ask, const char *from,
                                 const char *to, const char *and, struct kiln_text *out);
/* Whether text[0..len) is the name of a filter. */
bool kiln_gallery_is_filter(const char *text, size_t len);
/* Their names for a message: "size, aspect, ... and vote". */
void kiln_gallery_filter_names(char *out, size_t size);
/* How many filters are set, the words not counted. */
int kiln_gallery_ask_filters(const struct kiln_gallery_ask *ask);
/* The filters as a form, with the names of names.c if they are on the page, and those that are set
 * as links that remove them. */
void kiln_gallery_ask_form(const struct kiln_gallery_ask *ask, const struct kiln_gallery_app *app,
                           struct kiln_text *out);
void kiln_gallery_ask_chips(const struct kiln_gallery_ask *ask, struct kiln_text *out);

/* The start of a day, "2026-11-21", in milliseconds since 1970; false: no such day. */
bool kiln_gallery_day_parse(const char *text, int64_t *ret_ms);

#endif
