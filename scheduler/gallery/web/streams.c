/* streams.c - see streams.h.
 *
 * A stream belongs to its answer, which libmicrohttpd frees with the connection.  While the thread
 * asks its feed, without the lock, it is busy; if it is freed then, the thread does the rest.
 */
#include "scheduler/gallery/web/streams.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/gallery/web/connections.h"
#include "scheduler/gallery/web/work.h"
#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "storage/ledger/ledger.h"

#define STEP_MS 1000
#define READ_MS (3 * KILN_WEB_STREAM_BEAT_MS) /* a client that reads nothing for so long is cut */
#define BLOCK 4096

struct kiln_web_stream {
    struct kiln_web_streams *all;
    struct kiln_web_stream *previous, *next;
    struct kiln_web_feed feed;
    struct kiln_text text; /* not read yet */
    struct MHD_Connection *connection;
    struct kiln_web_connections *watched;
    struct kiln_web_connection *place;
    char client[64];
    int64_t until_ms, said_ms;
    bool suspended, ended, busy, gone;
    bool warned; /* the last step failed, and the log says so */
};

struct kiln_web_streams {
    const struct kiln_config *config;
    pthread_mutex_t lock;
    pthread_cond_t ending_changed;
    pthread_t thread;
    struct kiln_web_stream head; /* of a ring */
    uint32_t count;
    bool ending;
};

static void free_stream(struct kiln_web_stream *stream)
{
    stream->feed.free(stream->feed.arg);
    kiln_text_release(&stream->text);
    free(stream);
}

/* With the lock: the connection goes on. */
static void wake(struct kiln_web_stream *stream)
{
    if (!stream->suspended)
        return;
    stream->suspended = false;
    MHD_resume_connection(stream->connection);
}

/* --- the thread ------------------------------------------------------------------------------- */

/* What one stream has to say now; *ret_away: the ledger does not answer. */
static bool ask_feed(struct kiln_web_stream *stream, struct kiln_ledger *session,
                     struct kiln_text *out, bool *ret_away)
{
    struct kiln_error err;
    int rc = stream->feed.step(stream->feed.arg, session, out, &err);
    *ret_away = rc == KILN_UNAVAILABLE || rc == KILN_TIMEOUT;
    if (rc && !stream->warned)
        kiln_log(KILN_LOG_WARNING, "events_missing", kiln_f("error", "%s", err.text));
    stream->warned = rc != 0;
    return rc == 0 || *ret_away;
}

/* With the lock: passes on what was asked. */
static void say(struct kiln_web_stream *stream, const struct kiln_text *out, bool good)
{
    int64_t now_ms = kiln_clock_ms();
    if (out->len > 0 && out->len + stream->text.len <= KILN_WEB_STREAM_BYTES && !out->failed) {
        kiln_text_add(&stream->text, out->at, out->len);
        stream->said_ms = now_ms;
    } else if (out->len > 0 || out->failed) {
        good = false; /* it comes back for the rest */
    } else if (now_ms - stream->said_ms >= KILN_WEB_STREAM_BEAT_MS) {
        kiln_text_puts(&stream->text, ":\n\n");
        stream->said_ms = now_ms;
    }
    stream->ended = stream->ended || !good || now_ms > stream->until_ms || stream->text.failed;
    if (stream->ended || stream->text.len > 0)
        wake(stream);
}

/* With the lock, which is released meanwhile.  Returns the next stream. */
static struct kiln_web_stream *serve(struct kiln_web_streams *all, struct kiln_web_stream *stream,
                                     struct kiln_ledger *session, bool *away)
{
    struct kiln_text out = {0};
    bool good = true;
    stream->busy = true;
    pthread_mutex_unlock(&all->lock);
    if (session && !*away && !stream->ended)
        good = ask_feed(stream, session, &out, away);
    pthread_mutex_lock(&all->lock);
    struct kiln_web_stream *next = stream->next;
    stream->busy = false;
    if (stream->gone) {
        stream->previous->next = stream->next;
        stream->next->previous = stream->previous;
        free_stream(stream);
    } else {
        say(stream, &out, good);
    }
    kiln_text_release(&out);
    return next;
}

static void *run(void *arg)
{
    struct kiln_web_streams *all = arg;
    struct kiln_ledger *session = NULL;
    pthread_mutex_lock(&all->lock);
    while (!all->ending) {
        struct timespec until = kiln_deadline_in(STEP_MS);
        struct kiln_error err;
        bool away = false;
        pthread_cond_timedwait(&all->ending_changed, &all->lock, &until);
        if (!session && all->count > 0 &&
            kiln_ledger_open_reading(all->config, "kiln-gallery", KILN_WEB_STATEMENT_MS, &session,
                                     &err))
            session = NULL;
        for (struct kiln_web_stream *at = all->head.next; at != &all->head && !all->ending;)
            at = serve(all, at, session, &away);
    }
    for (struct kiln_web_stream *at = all->head.next; at != &all->head; at = at->next) {
        at->ended = true;
        wake(at);
    }
    pthread_mutex_unlock(&all->lock);
    kiln_ledger_close(session);
    return NULL;
}

int kiln_web_streams_new(const struct kiln_config *config, struct kiln_web_streams **ret,
                         struct kiln_error *err)
{
    struct kiln_web_streams *all = calloc(1, sizeof *all);
    pthread_condattr_t monotonic;
    if (!all)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for streams");
    all->config = config;
    all->head.next = all->head.previous = &all->head;
    pthread_mutex_init(&all->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&all->ending_changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&all->thread, NULL, run, all) != 0) {
        free(all);
        return kiln_fail(err, KILN_NO_MEMORY, "no thread for streams");
    }
    *ret = all;
    return 0;
}

void kiln_web_streams_stop(struct kiln_web_streams *all)
{
    pthread_mutex_lock(&all->lock);
    all->ending = true;
    pthread_cond_signal(&all->ending_changed);
    pthread_mutex_unlock(&all->lock);
    pthread_join(all->thread, NULL);
}

void kiln_web_streams_free(struct kiln_web_streams *all)
{
    if (!all)
        return;
    pthread_cond_destroy(&all->ending_changed);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

uint32_t kiln_web_streams_count(struct kiln_web_streams *all)
{
    pthread_mutex_lock(&all->lock);
    uint32_t count = all->count;
    pthread_mutex_unlock(&all->lock);
    return count;
}

/* --- a stream --------------------------------------------------------------------------------- */

/* With the lock. */
static int check_room(const struct kiln_web_streams *all, const char *client,
                      struct kiln_error *err)
{
    uint32_t own = 0;
    for (const struct kiln_web_stream *at = all->head.next; at != &all->head; at = at->next)
        own += strcmp(at->client, client) == 0;
    if (all->ending)
        return kiln_fail(err, KILN_UNAVAILABLE, "the gallery is ending");
    return all->count < KILN_WEB_STREAMS && own < KILN_WEB_STREAMS_PER_CLIENT
               ? 0
               : kiln_fail(err, KILN_FULL, "too many streams of events are open");
}

int kiln_web_stream_new(struct kiln_web_streams *all, const char *client,
                        const struct kiln_web_feed *feed, const struct kiln_text *begin,
                        struct kiln_web_stream **ret, struct kiln_error *err)
{
    struct kiln_web_stream *stream = calloc(1, sizeof *stream);
    int64_t now_ms = kiln_clock_ms();
    if (!stream) {
        feed->free(feed->arg);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a stream");
    }
    stream->all = all;
    stream->feed = *feed;
    stream->said_ms = now_ms;
    stream->until_ms = now_ms + (int64_t)KILN_WEB_STREAM_S * 1000;
    strncpy(stream->client, client, sizeof stream->client - 1);
    kiln_text_add(&stream->text, begin->at, begin->len);
    pthread_mutex_lock(&all->lock);
    int rc = check_room(all, client, err);
    if (rc == 0) {
        stream->previous = all->head.previous;
        stream->next = &all->head;
        stream->previous->next = stream->next->previous = stream;
        all->count++;
    }
    pthread_mutex_unlock(&all->lock);
    if (rc)
        free_stream(stream);
    else
        *ret = stream;
    return rc;
}

void kiln_web_stream_drop(struct kiln_web_stream *stream)
{
    if (!stream)
        return;
    struct kiln_web_streams *all = stream->all;
    pthread_mutex_lock(&all->lock);
    all->count--;
    stream->gone = true;
    bool busy = stream->busy;
    if (!busy) {
        stream->previous->next = stream->next;
        stream->next->previous = stream->previous;
    }
    pthread_mutex_unlock(&all->lock);
    if (!busy)
        free_stream(stream);
}

/* Called by the server whenever the client can take more. */
static ssize_t read_stream(void *arg, uint64_t position, char *out, size_t size)
{
    struct kiln_web_stream *stream = arg;
    ssize_t got = 0;
    (void)position;
    pthread_mutex_lock(&stream->all->lock);
    struct kiln_text *text = &stream->text;
    if (text->len > 0) {
        size_t len = text->len < size ? text->len : size;
        memcpy(out, text->at, len);
        memmove(text->at, text->at + len, text->len - len);
        text->len -= len;
        got = (ssize_t)len;
    } else if (stream->ended) {
        got = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        MHD_suspend_connection(stream->connection);
        stream->suspended = true;
    }
    pthread_mutex_unlock(&stream->all->lock);
    if (got > 0 && stream->watched)
        kiln_web_connection_expect(stream->watched, stream->place, READ_MS);
    return got;
}

static void end_stream(void *arg)
{
    kiln_web_stream_drop(arg);
}

struct MHD_Response *kiln_web_stream_response(struct kiln_web_stream *stream,
                                              struct MHD_Connection *connection)
{
    stream->connection = connection;
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, stream, end_stream);
    if (!response)
        kiln_web_stream_drop(stream);
    return response;
}

void kiln_web_stream_watch(struct kiln_web_stream *stream, struct kiln_web_connections *all,
                           struct kiln_web_connection *place)
{
    stream->watched = all;
    stream->place = place;
}
