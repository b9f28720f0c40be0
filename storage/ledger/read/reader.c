/* reader.c - see reader.h.
 *
 * The session that was given back last is lent first, and a new one is opened only when none is
 * free: few connections are open while few are needed.
 */
#include "storage/ledger/read/reader.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"
#include "storage/ledger/internal.h"
#include "storage/ledger/ledger.h"

struct kiln_reader {
    const struct kiln_config *config;
    char name[64];
    int64_t limit_ms;
    int max;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t given;
    int count, idle_count; /* sessions that are open; those of them that are free, in idle */
    struct kiln_ledger *idle[KILN_READER_SESSIONS_MAX];
};

int kiln_reader_open(const struct kiln_config *config, const char *name, int sessions,
                     int64_t limit_ms, struct kiln_reader **ret, struct kiln_error *err)
{
    assert(sessions > 0 && sessions <= KILN_READER_SESSIONS_MAX);
    struct kiln_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return kiln_fail(err, KILN_NO_MEMORY, "reader: no memory");
    if (limit_ms == 0)
        limit_ms = (int64_t)(kiln_config_number(config, KILN_KEY_STATEMENT_TIMEOUT_S) * 1000);
    *reader = (struct kiln_reader){.config = config, .limit_ms = limit_ms, .max = sessions};
    snprintf(reader->name, sizeof reader->name, "%s", name);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&reader->given, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&reader->mutex, NULL);
    *ret = reader;
    return 0;
}

void kiln_reader_close(struct kiln_reader *reader)
{
    if (!reader)
        return;
    assert(reader->idle_count == reader->count);
    while (reader->idle_count > 0)
        kiln_ledger_close(reader->idle[--reader->idle_count]);
    pthread_cond_destroy(&reader->given);
    pthread_mutex_destroy(&reader->mutex);
    free(reader);
}

int kiln_reader_take(struct kiln_reader *reader, struct kiln_ledger **ret, struct kiln_error *err)
{
    struct timespec until = kiln_deadline_in((int)reader->limit_ms);
    int late = 0, rc = 0;
    pthread_mutex_lock(&reader->mutex);
    while (reader->idle_count == 0 && reader->count == reader->max && late == 0)
        late = pthread_cond_timedwait(&reader->given, &reader->mutex, &until);
    if (reader->idle_count > 0) {
        *ret = reader->idle[--reader->idle_count];
    } else if (reader->count < reader->max) {
        rc = kiln_ledger_open_reading(reader->config, reader->name, reader->limit_ms, ret, err);
        reader->count += rc == 0;
    } else {
        rc = kiln_fail(err, KILN_TIMEOUT, "all %d sessions for reading were busy for %.1f s",
                       reader->max, (double)reader->limit_ms / 1e3);
    }
    pthread_mutex_unlock(&reader->mutex);
    return rc;
}

void kiln_reader_give(struct kiln_reader *reader, struct kiln_ledger *session)
{
    if (!session)
        return;
    pthread_mutex_lock(&reader->mutex);
    reader->idle[reader->idle_count++] = session;
    pthread_cond_signal(&reader->given);
    pthread_mutex_unlock(&reader->mutex);
}

/* --- pages ------------------------------------------------------------------------------------ */

void kiln_page_text(const struct kiln_page *page, char out[KILN_PAGE_TEXT_MAX])
{
    int len = snprintf(out, KILN_PAGE_TEXT_MAX, "%" PRId64, page->after[0]);
    if (page->keys == 2)
        snprintf(out + len, KILN_PAGE_TEXT_MAX - (size_t)len, ".%" PRId64, page->after[1]);
}

int kiln_page_resume(struct kiln_page *page, const char *text, struct kiln_error *err)
{
    struct kiln_page read = *page;
    char again[KILN_PAGE_TEXT_MAX];
    const char *dot = strchr(text, '.');
    read.after[0] = strtoll(text, NULL, 10);
    read.after[1] = dot ? strtoll(dot + 1, NULL, 10) : 0;
    kiln_page_text(&read, again); /* only what we would write ourselves is taken */
    if (strcmp(text, again) != 0)
        return kiln_fail(err, KILN_BAD_INPUT, "not the place of a page");
    *page = read;
    return 0;
}

int kiln_ledger_page(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                     struct kiln_params *params, struct kiln_page *page, kiln_each_row *each,
                     void *arg, struct kiln_error *err)
{
    PGresult *rows = NULL;
    for (int i = 0; i < page->keys; i++)
        KILN_BIND(params, page->after[i]);
    KILN_BIND(params, (int64_t)page->rows_max + 1); /* one more tells whether rows follow */
    int rc = kiln_ledger_run(ledger, statement, params, &rows, err);
    if (rc)
        return rc;
    int count = PQntuples(rows);
    page->more = count > (int64_t)page->rows_max;
    for (int row = 0; row < count - page->more && rc == 0; row++) {
        for (int i = 0; i < page->keys; i++)
            page->after[i] = kiln_row_i64(rows, row, i);
        rc = each(arg, rows, row, err);
    }
    PQclear(rows);
    return rc;
}
