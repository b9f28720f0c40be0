/* feed.c - /feed.xml and /feed.json: a list as a feed, RSS 2.0 and JSON Feed 1.1: its newest
 * pictures, the newest first whatever the order of the list, so that a reader of the feed learns of
 * new pictures even if they rank low.  A cursor in the address is ignored.  By meaning a list has
 * its 200 nearest.
 *
 * Addresses in a feed are whole, since it is read elsewhere.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/ask.h"
#include "scheduler/gallery/parts/files.h"
#include "scheduler/gallery/parts/html.h"
#include "scheduler/gallery/parts/json.h"

#define TITLE_BYTES 120

struct feed {
    struct kiln_web_visit *visit;
    char base[300]; /* "https://host" */
    bool any;
};

static void add_date(struct kiln_text *out, int64_t ms)
{
    char text[40];
    time_t at = (time_t)(ms / 1000);
    struct tm tm;
    gmtime_r(&at, &tm);
    strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    kiln_text_puts(out, text);
}

static const struct kiln_gallery_object *picture_of(const struct kiln_gallery_tile *tile)
{
    return tile->medium.key[0] ? &tile->medium : &tile->full;
}

static int add_item(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    const struct feed *feed = arg;
    struct kiln_text *out = &feed->visit->reply.body;
    const struct kiln_gallery_object *object = picture_of(tile);
    (void)err;
    kiln_text_puts(out, "<item><title>");
    kiln_html_attr_cut(out, tile->prompt, TITLE_BYTES);
    kiln_text_printf(out, "</title><link>%s/p/%" PRIu64 "</link>", feed->base, tile->job);
    kiln_text_printf(out, "<guid isPermaLink=\"true\">%s/p/%" PRIu64 "</guid><pubDate>", feed->base,
                     tile->job);
    add_date(out, tile->created_ms);
    kiln_text_puts(out, "</pubDate><description>");
    kiln_html_attr(out, tile->prompt);
    kiln_text_printf(out,
                     "</description><enclosure type=\"image/webp\" length=\"%" PRIu64 "\" url=\"%s",
                     object->bytes, feed->base);
    kiln_gallery_file_url(kiln_gallery_app(feed->visit)->files, tile->job, object->key, false, 0,
                          out);
    kiln_text_puts(out, "\"/></item>\n");
    return 0;
}

static int add_json_item(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    struct feed *feed = arg;
    struct kiln_text *out = &feed->visit->reply.body;
    char url[400];
    (void)err;
    snprintf(url, sizeof url, "%s/p/%" PRIu64, feed->base, tile->job);
    kiln_text_puts(out, feed->any ? ",\n{" : "{");
    feed->any = true;
    kiln_json_text(out, "id", url);
    kiln_json_text(out, "url", url);
    kiln_json_text(out, "content_text", tile->prompt);
    kiln_json_time(out, "date_published", tile->created_ms);
    kiln_text_printf(out, ",\"image\":\"%s", feed->base);
    kiln_gallery_file_url(kiln_gallery_app(feed->visit)->files, tile->job, picture_of(tile)->key,
                          false, 0, out);
    kiln_text_puts(out, "\"}");
    return 0;
}

/* The question of the feed, and where the gallery is for whoever reads it. */
static int begin(struct kiln_web_visit *visit, struct feed *feed, struct kiln_gallery_ask *ask,
                 struct kiln_error *err)
{
    feed->visit = visit;
    snprintf(feed->base, sizeof feed->base, "%s://%.255s", visit->secure ? "https" : "http",
             visit->host);
    int rc = kiln_gallery_ask_read(kiln_gallery_app(visit), visit->args, ask, err);
    kiln_gallery_ask_stack(ask);
    return rc;
}

int kiln_gallery_feed(struct kiln_web_visit *visit, struct kiln_error *err)
{
    struct feed feed = {.any = false};
    struct kiln_gallery_ask ask;
    struct kiln_text *out = &visit->reply.body;
    int rc = begin(visit, &feed, &ask, err);
    if (rc)
        return rc;
    visit->reply.type = "application/rss+xml; charset=utf-8";
    kiln_text_puts(out, "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<rss version=\"2.0\"><channel>"
                        "<title>Kiln: ");
    kiln_html_attr(out, ask.query.words ? ask.query.words : "newest pictures");
    kiln_text_printf(out, "</title><link>%s/?", feed.base);
    kiln_gallery_ask_write(&ask, NULL, "&amp;", out);
    kiln_text_puts(out, "</link><description>Pictures of this Kiln fleet</description>\n");
    rc = kiln_gallery_ask_newest(&ask, visit->session, add_item, &feed, err);
    kiln_text_puts(out, "</channel></rss>\n");
    return rc;
}

int kiln_gallery_json_feed(struct kiln_web_visit *visit, struct kiln_error *err)
{
    struct feed feed = {.any = false};
    struct kiln_gallery_ask ask;
    struct kiln_text *out = &visit->reply.body;
    int rc = begin(visit, &feed, &ask, err);
    if (rc)
        return rc;
    visit->reply.type = "application/feed+json";
    kiln_text_puts(out, "{");
    kiln_json_text(out, "version", "https://jsonfeed.org/version/1.1");
    kiln_json_text(out, "title", ask.query.words ? ask.query.words : "Newest pictures");
    kiln_json_text(out, "home_page_url", feed.base);
    kiln_text_puts(out, ",\"items\":[");
    rc = kiln_gallery_ask_newest(&ask, visit->session, add_json_item, &feed, err);
    kiln_text_puts(out, "]}\n");
    return rc;
}
