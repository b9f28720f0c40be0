/* front.c - the first page: newest pictures, or those that a search and filters find. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/fleet/trouble.h"
#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/ask.h"
#include "scheduler/gallery/parts/batch.h"
#include "scheduler/gallery/parts/html.h"
#include "scheduler/gallery/parts/layout.h"
#include "scheduler/gallery/parts/tiles.h"
#include "schemas/text/utc.h"

#define COUNTED_MIN 200 /* pictures of some days that say how many there are: "200+" */
#define DAYS_MAX 90     /* bars of the histogram */
#define BAR_HEIGHT 36
#define ASIDE_MS 10 /* for the count, and for the days: less than for the pictures */
#define DAY_MS (24 * 3600 * 1000LL)
#define SEE_NEWEST "<a href=\"/\">see the newest pictures</a>"

/* --- the histogram ---------------------------------------------------------------------------- */

struct days {
    struct kiln_gallery_day at[DAYS_MAX];
    int count;
    bool older;              /* there are days before these */
    uint64_t most, pictures; /* of one of them; of all days that were counted */
};

static int note_day(void *arg, const struct kiln_gallery_day *day, struct kiln_error *err)
{
    struct days *days = arg;
    (void)err;
    days->pictures += day->pictures;
    days->older = days->count == DAYS_MAX;
    if (days->older)
        return 0;
    days->at[days->count++] = *day;
    days->most = day->pictures > days->most ? day->pictures : days->most;
    return 0;
}

static void write_day(int64_t day_ms, char ret[32])
{
    kiln_short_time(day_ms, ret, 32);
    ret[10] = '\0';
}

/* The days before the oldest bar, which do not fit or were not counted in time. */
static void add_older(const struct kiln_gallery_ask *ask, const struct days *days,
                      struct kiln_text *out)
{
    char date[32];
    write_day(days->at[days->count - 1].day_ms - DAY_MS, date);
    kiln_text_puts(out, "<li><a class=\"more\" href=\"/?");
    kiln_gallery_ask_write_days(ask, NULL, date, "&amp;", out);
    kiln_text_printf(out, "\">Before<span class=\"away\"> these days: until %s</span></a></li>",
                     date);
}

/* Days with pictures, the newest on the right, each a link to that day. */
static void add_days(const struct kiln_gallery_ask *ask, const struct days *days,
                     struct kiln_text *out)
{
    if (days->count < 2)
        return;
    kiln_text_puts(out, "<nav class=\"days\" aria-label=\"Pictures by day\"><ol>");
    if (days->older)
        add_older(ask, days, out);
    for (int i = days->count - 1; i >= 0; i--) {
        const struct kiln_gallery_day *day = &days->at[i];
        char date[32];
        write_day(day->day_ms, date);
        uint64_t height = 2 + (BAR_HEIGHT - 2) * day->pictures / (days->most ? days->most : 1);
        kiln_text_puts(out, "<li><a href=\"/?");
        kiln_gallery_ask_write_days(ask, date, date, "&amp;", out);
        kiln_text_printf(out, "\" title=\"%s: ", date);
        kiln_html_count(out, day->pictures);
        kiln_text_printf(out,
                         "\"><svg width=\"10\" height=\"%d\" aria-hidden=\"true\"><rect x=\"1\" "
                         "y=\"%" PRIu64 "\" width=\"8\" height=\"%" PRIu64 "\" rx=\"2\"/></svg>"
                         "<span class=\"away\">%s: ",
                         BAR_HEIGHT, BAR_HEIGHT - height, height, date);
        kiln_html_count(out, day->pictures);
        kiln_text_puts(out, day->pictures == 1 ? " picture</span></a></li>"
                                               : " pictures</span></a></li>");
    }
    kiln_text_puts(out, "</ol></nav>");
}

/* --- around the grid -------------------------------------------------------------------------- */

/* on_days: pictures that were counted by days; some: there was no time for all days.  Then many of
 * them say enough, and a few are counted again, by a way that may be shorter. */
static int add_count(struct kiln_web_visit *visit, const struct kiln_gallery_ask *ask,
                     uint64_t on_days, bool some, struct kiln_error *err)
{
    struct kiln_text *out = &visit->reply.body;
    struct kiln_gallery_query query = ask->query;
    const bool many = on_days > KILN_GALLERY_COUNT_MAX;
    uint32_t count = many ? KILN_GALLERY_COUNT_MAX : (uint32_t)on_days;
    bool more = many || (some && on_days >= COUNTED_MIN);
    query.budget_ms = ASIDE_MS;
    query.order = KILN_GALLERY_NEWEST, query.cursor = NULL;
    int rc = more ? 0 : kiln_gallery_count(visit->session, &query, &count, &more, err);
    if (rc)
        return rc;
    const bool one = count == 1 && !more;
    kiln_text_puts(out, "<p class=\"count\" role=\"status\">");
    if (!ask->mixed || count > 0) {
        kiln_html_count(out, count);
        kiln_text_printf(out, "%s %s", more ? "+" : "", one ? "picture" : "pictures");
    }
    if (ask->mixed && count > 0)
        kiln_text_puts(out, one ? " has the words; " : " have the words; ");
    if (ask->mixed)
        kiln_text_puts(out, "best matches, by words and by meaning");
    else if (ask->query.words && !kiln_keeper_mixed(kiln_gallery_app(visit)->keeper))
        kiln_text_puts(out, ", by words alone");
    kiln_text_puts(out, "</p>");
    return 0;
}

/* What was meant by words that no picture has. */
static int add_better(struct kiln_web_visit *visit, const struct kiln_gallery_ask *ask,
                      struct kiln_error *err)
{
    struct kiln_text *out = &visit->reply.body;
    char better[KILN_ASK_WORDS_MAX + 1] = "";
    int rc = kiln_gallery_suggest(visit->session, &ask->query, better, sizeof better, err);
    if (rc == 0 && better[0]) {
        kiln_text_puts(out, "<p>Did you mean <a href=\"/?q=");
        kiln_url(out, better);
        size_t before = out->len;
        kiln_text_puts(out, "&amp;");
        size_t behind = out->len;
        kiln_gallery_ask_write(ask, "q", "&amp;", out);
        if (out->len == behind && !out->failed)
            out->len = before;
        kiln_text_puts(out, "\"><bdi>");
        kiln_html(out, better);
        kiln_text_puts(out, "</bdi></a>?</p>");
    }
    return rc;
}

/* Nothing was found.  ended: the batch, if one is asked for. */
static int add_nothing(struct kiln_web_visit *visit, const struct kiln_gallery_ask *ask, bool ended,
                       struct kiln_error *err)
{
    struct kiln_text *out = &visit->reply.body;
    const int filters = kiln_gallery_ask_filters(ask);
    const bool asked = ask->query.words || filters > 0;
    const bool batch = filters == 1 && ask->query.filter.batch && !ask->query.words;
    kiln_text_puts(out, "<div class=\"say\">");
    kiln_text_puts(out, !asked || (batch && !ended) ? "<h2>No pictures yet</h2>"
                        : batch                     ? "<h2>No pictures</h2>"
                                                    : "<h2>No picture matches</h2>");
    int rc = ask->query.words ? add_better(visit, ask, err) : 0;
    if (ask->query.words)
        kiln_text_printf(out, "<p>%s Remove a word or a filter, or " SEE_NEWEST ".</p>",
                         ask->mixed ? "No picture has every word, and no prompt means the same."
                                    : "Every word must be in the prompt or a name.");
    else if (batch)
        kiln_text_puts(out, ended ? "<p>This batch has ended without a picture that is shown.</p>"
                                  : "<p>No picture of this batch is rendered yet. Pictures appear "
                                    "here by themselves.</p>");
    else if (asked)
        kiln_text_puts(out, "<p>No picture passes these filters. Remove a filter, or " SEE_NEWEST
                            ".</p>");
    else
        kiln_text_puts(out, "<p>Pictures appear here as soon as they are rendered. "
                            "<code>kiln enqueue FILE</code> sends the first prompts.</p>");
    kiln_text_puts(out, "</div>");
    return rc;
}

/* Above pictures that were found by meaning alone. */
static int add_no_words(struct kiln_web_visit *visit, const struct kiln_gallery_ask *ask,
                        struct kiln_error *err)
{
    kiln_text_puts(&visit->reply.body, "<div class=\"hint\"><p>No picture has every word; the "
                                       "prompts of these mean something alike.</p>");
    int rc = add_better(visit, ask, err);
    kiln_text_puts(&visit->reply.body, "</div>");
    return rc;
}

static void add_link(const struct kiln_gallery_ask *ask, const char *rel, const char *label,
                     const char *cursor, struct kiln_text *out)
{
    kiln_text_printf(out, "<a class=\"button\" rel=\"%s\" href=\"/?", rel);
    size_t before = out->len;
    kiln_gallery_ask_write(ask, NULL, "&amp;", out);
    kiln_text_printf(out, "%sc=", out->len > before ? "&amp;" : "");
    kiln_url(out, cursor);
    kiln_text_printf(out, "\">%s</a>", label);
}

/* At the end of a search: what it could not find yet. */
static int add_waiting(struct kiln_web_visit *visit, const struct kiln_gallery_ask *ask,
                       const struct kiln_gallery_page *page, struct kiln_error *err)
{
    struct kiln_gallery_app *app = kiln_gallery_app(visit);
    struct kiln_text *out = &visit->reply.body;
    uint32_t waiting = 0;
    int rc = kiln_gallery_waiting(visit->session, app->pool, &waiting, err);
    const bool more = waiting > KILN_GALLERY_WAITING_MAX;
    if (rc == 0 && waiting > 0) {
        kiln_text_puts(out, page->indexing ? "<p>The index of words is being made: " : "<p>");
        if (more)
            kiln_text_puts(out, page->indexing ? "more than " : "More than ");
        kiln_html_count(out, more ? KILN_GALLERY_WAITING_MAX : waiting);
        kiln_text_printf(out, " %s %s not found yet.</p>", page->indexing ? "older" : "new",
                         waiting == 1 ? "picture is" : "pictures are");
    }
    const uint32_t prompts = ask->mixed ? kiln_mixed_waiting(ask->mixed) : 0;
    if (prompts > 0) {
        kiln_text_puts(out, "<p>");
        kiln_html_count(out, prompts);
        kiln_text_printf(out, " %s found by words alone so far.</p>",
                         prompts == 1 ? "prompt is" : "prompts are");
    } else if (!ask->mixed && kiln_keeper_waits(app->keeper)) {
        kiln_text_puts(out, "<p>Search by meaning is being prepared: search again in a "
                            "moment.</p>");
    }
    return rc;
}

static int add_pager(struct kiln_web_visit *visit, const struct kiln_gallery_ask *ask,
                     const struct kiln_gallery_page *page, struct kiln_error *err)
{
    struct kiln_text *out = &visit->reply.body;
    int rc = 0;
    bool relevance = ask->query.order == KILN_GALLERY_RELEVANCE;
    kiln_text_puts(out, "<nav class=\"pager\" aria-label=\"Pages\">");
    if (ask->query.cursor && page->newer[0])
        add_link(ask, "prev", relevance ? "Better matches" : "Newer pictures", page->newer, out);
    if (ask->query.words && (page->indexing || !page->older[0]))
        rc = add_waiting(visit, ask, page, err);
    if (page->out_of_time && page->searched_back_to_ms) {
        kiln_text_puts(out, "<p>Searched back to ");
        kiln_html_time(out, page->searched_back_to_ms);
        kiln_text_puts(out, ".</p>");
    }
    if (page->older[0])
        add_link(ask, "next",
                 page->out_of_time ? "Search further back"
                 : relevance       ? "More pictures"
                                   : "Older pictures",
                 page->older, out);
    kiln_text_puts(out, "</nav>");
    return rc;
}

static void add_heading(const struct kiln_gallery_ask *ask, struct kiln_text *out)
{
    kiln_text_puts(out, "<div class=\"head\"><h1>");
    if (ask->query.words) {
        kiln_text_puts(out, "<bdi>");
        kiln_html(out, ask->query.words);
        kiln_text_puts(out, "</bdi>");
    } else if (ask->query.filter.batch && !ask->query.filter.starred) {
        kiln_text_puts(out, "Batch <bdi>");
        kiln_html(out, ask->query.filter.batch);
        kiln_text_puts(out, "</bdi>");
    } else {
        kiln_text_puts(out, ask->query.filter.starred ? "Starred" : "Newest");
    }
    kiln_text_puts(out, "</h1>");
}

/* What else can be done with this list. */
static void add_ways(const struct kiln_gallery_ask *ask, struct kiln_text *out)
{
    const char *const ways[][2] = {
        {"/show", "Slide show"}, {"/feed.xml", "Feed"}, {"/v1/pictures", "JSON"}};
    kiln_text_puts(out, "<ul class=\"ways\" aria-label=\"This list as\">");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        kiln_text_printf(out, "<li><a href=\"%s?", ways[i][0]);
        kiln_gallery_ask_write(ask, NULL, "&amp;", out);
        kiln_text_printf(out, "\">%s</a></li>", ways[i][1]);
    }
    if (ask->query.filter.batch) {
        kiln_text_puts(out, "<li><a href=\"/sheet?batch=");
        kiln_url(out, ask->query.filter.batch);
        kiln_text_puts(out, "\">Sheet</a></li>");
    }
    kiln_text_puts(out, "</ul>");
}

/* The grid is written first, into a text of its own: only then is it known what stands above. */
static int read_grid(struct kiln_web_visit *visit, const struct kiln_gallery_ask *ask,
                     struct kiln_text *ret_grid, struct kiln_gallery_grid *grid,
                     struct kiln_gallery_page *page, struct kiln_error *err)
{
    struct kiln_text before = visit->reply.body;
    visit->reply.body = (struct kiln_text){0};
    kiln_gallery_grid_begin(grid, visit, "Pictures");
    int rc = kiln_gallery_ask_list(ask, visit->session, kiln_gallery_grid_add, grid, page, err);
    kiln_gallery_grid_end(grid);
    *ret_grid = visit->reply.body;
    visit->reply.body = before;
    return rc;
}

struct batch_top {
    struct kiln_text *out;
    bool waits, ended;
};

static int each_batch(void *arg, const struct kiln_batch_row *batch, struct kiln_error *err)
{
    struct batch_top *top = arg;
    (void)err;
    top->ended = kiln_batch_ended(batch);
    top->waits = batch->jobs.at[KILN_JOB_QUEUED] > 0 && !batch->jobs.at[KILN_JOB_ASSIGNED];
    kiln_gallery_batch_progress(top->out, batch);
    return 0;
}

/* How far the batch is, and the pause that its next jobs wait for, if that can be read. */
static int add_batch(struct kiln_web_visit *visit, const char *batch, bool *ret_ended,
                     struct kiln_error *err)
{
    struct kiln_gallery_app *app = kiln_gallery_app(visit);
    struct kiln_text *out = &visit->reply.body;
    struct batch_top top = {.out = out};
    struct kiln_error unread;
    char pause[KILN_PAUSE_NAME_MAX + 600] = "";
    int rc = kiln_ledger_batches(visit->session, app->pool, batch, each_batch, &top, err);
    *ret_ended = top.ended;
    if (rc == 0 && top.waits)
        (void)!kiln_troubles_pause(app->cli, visit->session, batch, true, pause, sizeof pause,
                                   &unread);
    if (pause[0]) {
        kiln_text_puts(out, "<div class=\"hint why\"><p>Its next jobs wait: ");
        kiln_html(out, pause);
        kiln_text_puts(out, ". <a href=\"/fleet\">See the fleet</a></p></div>");
    }
    return rc;
}

static int add_top(struct kiln_web_visit *visit, const struct kiln_gallery_ask *ask,
                   bool *ret_ended, struct kiln_error *err)
{
    struct kiln_text *out = &visit->reply.body;
    struct days *days = calloc(1, sizeof *days);
    struct kiln_gallery_query query = ask->query;
    int64_t back_to = 0;
    query.budget_ms = ASIDE_MS;
    if (!days)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the page");
    int rc = kiln_gallery_days(visit->session, &query, note_day, days, &back_to, err);
    days->older = days->older || back_to > 0;
    if (rc == 0)
        rc = add_count(visit, ask, days->pictures, back_to > 0, err);
    add_ways(ask, out);
    kiln_text_puts(out, "</div>");
    if (rc == 0 && ask->query.filter.batch)
        rc = add_batch(visit, ask->query.filter.batch, ret_ended, err);
    kiln_gallery_ask_chips(ask, out);
    if (rc == 0)
        kiln_gallery_add_names(visit);
    kiln_gallery_ask_form(ask, kiln_gallery_app(visit), out); /* the days go beside it */
    if (rc == 0)
        add_days(ask, days, out);
    free(days);
    return rc;
}

int kiln_gallery_front(struct kiln_web_visit *visit, struct kiln_error *err)
{
    struct kiln_gallery_ask ask;
    struct kiln_gallery_grid grid;
    struct kiln_gallery_page page = {0};
    struct kiln_text *out = &visit->reply.body, tiles = {0}, feed = {0};
    bool ended = false;
    int rc = kiln_gallery_ask_read_page(visit, &ask, err);
    kiln_gallery_ask_stack(&ask);
    if (rc == 0)
        rc = read_grid(visit, &ask, &tiles, &grid, &page, err);
    if (rc) {
        kiln_text_release(&tiles);
        return rc;
    }
    kiln_gallery_ask_write(&ask, NULL, "&amp;", &feed);
    kiln_gallery_begin(visit, &(struct kiln_gallery_page_head){
                                  .title = ask.query.words            ? ask.query.words
                                           : ask.query.filter.starred ? "Starred pictures"
                                           : ask.query.filter.batch   ? ask.query.filter.batch
                                                                      : "Newest pictures",
                                  .words = ask.query.words,
                                  .here = ask.query.words || kiln_gallery_ask_filters(&ask) >
                                                                 (ask.query.filter.starred ? 1 : 0)
                                              ? NULL
                                          : ask.query.filter.starred ? "starred"
                                                                     : "newest",
                                  .feed = feed.at ? feed.at : "",
                                  .wide = true});
    kiln_text_release(&feed);
    add_heading(&ask, out);
    if (ask.query.cursor)
        kiln_text_puts(out, "</div>"), kiln_gallery_ask_chips(&ask, out);
    else
        rc = add_top(visit, &ask, &ended, err);
    if (rc == 0 && grid.count > 0 && page.no_words && !ask.query.cursor)
        rc = add_no_words(visit, &ask, err);
    if (rc == 0 && grid.count == 0 && !page.older[0])
        rc = add_nothing(visit, &ask, ended, err);
    else
        kiln_text_add(out, tiles.at ? tiles.at : "", tiles.len);
    kiln_text_release(&tiles);
    if (rc == 0)
        rc = add_pager(visit, &ask, &page, err);
    kiln_gallery_end(visit);
    return rc;
}
