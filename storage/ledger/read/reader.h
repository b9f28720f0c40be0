/* reader.h - reading sessions for one process, opened as they are needed, and lists in pages.
 *
 * A process that asks many questions takes a session for each and gives it back:
 *
 *     struct kiln_ledger *session;
 *     int rc = kiln_reader_take(reader, &session, err);
 *     if (rc == 0) {
 *         rc = kiln_ledger_counts(session, pool, &counts, err);
 *         kiln_reader_give(reader, session);
 *     }
 *
 * A verb of the command line with one question uses kiln_ledger_open_reading.
 */
#ifndef KILN_LEDGER_READER_H
#define KILN_LEDGER_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/config/config.h"
#include "schemas/error.h"

struct kiln_ledger;
struct kiln_reader;

#define KILN_READER_SESSIONS_MAX 64

/* At most `sessions` at one time; limit_ms 0: the setting statement_timeout_s.  Opens none, so a
 * server that is away is no error here.  config must outlive the reader.  One thread opens and
 * closes. */
int kiln_reader_open(const struct kiln_config *config, const char *name, int sessions,
                     int64_t limit_ms, struct kiln_reader **ret,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* Every session must have been given back.  Accepts NULL. */
void kiln_reader_close(struct kiln_reader *reader);

/* Any thread.  Lends a session to the calling thread until it gives it back; KILN_TIMEOUT if none
 * is free within limit_ms.  A session that lost its server connects again by itself. */
int kiln_reader_take(struct kiln_reader *reader, struct kiln_ledger **ret,
                     struct kiln_error *err) KILN_MUST_CHECK;
void kiln_reader_give(struct kiln_reader *reader, struct kiln_ledger *session); /* NULL: nothing */

/* --- pages ------------------------------------------------------------------------------------ */
/* The position in a list.  Its rows are ordered by one or two integers, the keys, and a page has
 * the rows behind `after`.  So pages neither repeat nor miss a row when others are added or
 * removed, and the last page costs as much as the first. */
#define KILN_PAGE_KEYS_MAX 2
struct kiln_page {
    uint32_t rows_max;
    int keys;                          /* 1 or 2 */
    int64_t after[KILN_PAGE_KEYS_MAX]; /* in: where to begin; out: the keys of the last row */
    bool more;                         /* out: rows follow */
};

/* `after` as a text for an address, and back: letters, digits, '-' and '.' only. */
#define KILN_PAGE_TEXT_MAX 48
void kiln_page_text(const struct kiln_page *page, char out[KILN_PAGE_TEXT_MAX]);
/* KILN_BAD_INPUT, and the page unchanged, if the text is not one of kiln_page_text for as many
 * keys. */
int kiln_page_resume(struct kiln_page *page, const char *text,
                     struct kiln_error *err) KILN_MUST_CHECK;

#endif
