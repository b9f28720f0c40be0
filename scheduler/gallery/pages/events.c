/* events.c - GET /v1/events: new pictures of a search and the progress of its batch, as
 * server-sent events.
 *
 *     event: picture     a tile as in /v1/pictures, new or changed since
 *     event: batch       the batch of the search, as in /v1/batches/NAME, when its counts change
 *     event: moment      all up to this id was told; the gallery's time
 *     event: lost        too much has changed since the last id: read the list again
 *
 * An id is a moment of the ledger (storage/ledger/gallery/gallery.h), so a client that comes back
 * with its last one misses nothing, however late something was committed.
 */
#include <stdlib.h>
#include <string.h>

#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/ask.h"
#include "scheduler/gallery/parts/json.h"
#include "scheduler/gallery/web/streams.h"
#include "schemas/clock.h"
#include "storage/ledger/read/batch.h"

struct events {
    struct kiln_gallery_app *app;
    struct kiln_web_args args; /* copies: the request is gone while the stream goes on */
    struct kiln_gallery_ask ask;
    char moment[KILN_GALLERY_MOMENT_MAX];
    struct kiln_text batch, last_batch; /* its progress now, and as it was told */
};

static void free_events(void *arg)
{
    struct events *events = arg;
    for (size_t i = 0; i < events->args.count; i++) {
        free((char *)events->args.at[i].name);
        free((char *)events->args.at[i].value);
    }
    kiln_text_release(&events->batch);
    kiln_text_release(&events->last_batch);
    free(events);
}

/* --- what is new ------------------------------------------------------------------------------ */

struct telling {
    const struct events *events;
    struct kiln_text *out;
};

static int tell_picture(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    const struct telling *telling = arg;
    (void)err;
    kiln_text_puts(telling->out, "event: picture\ndata: ");
    kiln_json_tile(telling->out, telling->events->app->files, tile);
    kiln_text_puts(telling->out, "\n\n");
    return 0;
}

static int note_batch(void *arg, const struct kiln_batch_row *row, struct kiln_error *err)
{
    (void)err;
    kiln_json_batch(arg, row);
    return 0;
}

static int tell_batch(struct events *events, struct kiln_ledger *session, struct kiln_text *out,
                      struct kiln_error *err)
{
    const char *name = events->ask.query.filter.batch;
    if (!name)
        return 0;
    kiln_text_clear(&events->batch);
    int rc = kiln_ledger_batches(session, events->app->pool, name, note_batch, &events->batch, err);
    if (rc || events->batch.failed ||
        (events->batch.len == events->last_batch.len &&
         memcmp(events->batch.at, events->last_batch.at, events->batch.len) == 0))
        return rc;
    kiln_text_puts(out, "event: batch\ndata: ");
    kiln_text_add(out, events->batch.at, events->batch.len);
    kiln_text_puts(out, "\n\n");
    kiln_text_clear(&events->last_batch);
    kiln_text_add(&events->last_batch, events->batch.at, events->batch.len);
    return 0;
}

/* The id comes behind the pictures, so that it never stands for some that were not told. */
static int step(void *arg, struct kiln_ledger *session, struct kiln_text *out,
                struct kiln_error *err)
{
    struct events *events = arg;
    struct telling telling = {events, out};
    bool lost = false, first = events->moment[0] == '\0';
    char before[KILN_GALLERY_MOMENT_MAX];
    memcpy(before, events->moment, sizeof before);
    int rc = kiln_gallery_fresh(session, &events->ask.query, events->moment, tell_picture, &telling,
                                &lost, err);
    if (rc == 0 && lost)
        kiln_text_puts(out, "event: lost\ndata: {}\n\n");
    const size_t told = out->len;
    rc = rc ? rc : tell_batch(events, session, out, err);
    if (rc == 0 && (first || out->len > 0 || strcmp(before, events->moment) != 0)) {
        kiln_text_printf(out, "id: %s\n", events->moment);
        if (told > 0 || first) {
            kiln_text_puts(out, "event: moment\ndata: {");
            kiln_json_time(out, "now", kiln_wall_ms());
            kiln_text_puts(out, "}\n");
        }
        kiln_text_puts(out, "\n");
    }
    return rc;
}

/* --- the request ------------------------------------------------------------------------------ */

static int copy_args(const struct kiln_web_args *from, struct events *events,
                     struct kiln_error *err)
{
    for (size_t i = 0; i < from->count; i++) {
        char *name = strdup(from->at[i].name), *value = strdup(from->at[i].value);
        events->args.at[events->args.count++] = (struct kiln_web_arg){name, value};
        if (!name || !value)
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for a stream");
    }
    return 0;
}

static int read_request(struct kiln_web_visit *visit, struct events *events, struct kiln_error *err)
{
    const char *since =
        visit->last_event_id ? visit->last_event_id : kiln_web_arg(visit->args, "last_event_id");
    int rc = copy_args(visit->args, events, err);
    rc = rc ? rc : kiln_gallery_ask_read(events->app, &events->args, &events->ask, err);
    if (rc == 0 && since && !kiln_gallery_moment_valid(since))
        rc = kiln_fail(err, KILN_BAD_INPUT, "Last-Event-ID is not an id of this stream");
    if (rc == 0 && since)
        memcpy(events->moment, since, strlen(since) + 1);
    events->ask.query.order = KILN_GALLERY_NEWEST;
    return rc;
}

int kiln_gallery_api_events(struct kiln_web_visit *visit, struct kiln_error *err)
{
    struct events *events = calloc(1, sizeof *events);
    struct kiln_text *out = &visit->reply.body;
    if (!events)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a stream");
    events->app = kiln_gallery_app(visit);
    const struct kiln_web_feed feed = {step, free_events, events};
    int rc = read_request(visit, events, err);
    kiln_text_puts(out, "retry: 2000\n\n");
    rc = rc ? rc : step(events, visit->session, out, err);
    if (rc) {
        free_events(events);
        return rc;
    }
    rc = kiln_web_stream_new(visit->streams, visit->client, &feed, out, &visit->reply.stream, err);
    visit->reply.type = "text/event-stream";
    visit->reply.cache = "no-store";
    return rc;
}
