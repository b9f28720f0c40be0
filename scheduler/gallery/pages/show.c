/* show.c - /show: a search as a slide show: one picture a page, each a link to the next.  The
 * script goes on by itself; without it people do. */
#include <inttypes.h>

#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/ask.h"
#include "scheduler/gallery/parts/files.h"
#include "scheduler/gallery/parts/html.h"
#include "scheduler/gallery/parts/layout.h"
#include "scheduler/gallery/parts/tiles.h"

static int add_slide(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    struct kiln_web_visit *visit = arg;
    struct kiln_text *out = &visit->reply.body;
    (void)err;
    kiln_gallery_files_learn(visit, tile);
    kiln_text_printf(out, "<div class=\"show\"><a href=\"/p/%" PRIu64 "\"><img src=\"", tile->job);
    kiln_gallery_file_url(kiln_gallery_app(visit)->files, tile->job, tile->full.key, false, 0, out);
    kiln_text_printf(out, "\" width=\"%u\" height=\"%u\" fetchpriority=\"high\" alt=\"",
                     tile->width, tile->height);
    kiln_gallery_alt(out, tile->prompt);
    kiln_text_puts(out, "\"></a><p dir=\"auto\">");
    kiln_html_cut(out, tile->prompt, 300);
    kiln_text_puts(out, "</p></div>");
    return 0;
}

static void add_step(const struct kiln_gallery_ask *ask, const char *rel, const char *label,
                     const char *cursor, struct kiln_text *out)
{
    struct kiln_text query = {0};
    kiln_gallery_ask_write(ask, NULL, "&amp;", &query);
    kiln_text_printf(out, "<a class=\"button\" rel=\"%s\" href=\"/show?%s%sc=", rel,
                     query.at ? query.at : "", query.at ? "&amp;" : "");
    kiln_url(out, cursor);
    kiln_text_printf(out, "\">%s</a>", label);
    kiln_text_release(&query);
}

int kiln_gallery_show(struct kiln_web_visit *visit, struct kiln_error *err)
{
    struct kiln_gallery_ask ask;
    struct kiln_gallery_page page = {0};
    struct kiln_text *out = &visit->reply.body;
    int rc = kiln_gallery_ask_read_page(visit, &ask, err);
    if (rc)
        return rc;
    ask.query.rows_max = 1;
    kiln_gallery_begin(visit, &(struct kiln_gallery_page_head){
                                  .title = "Slide show", .words = ask.query.words, .wide = true});
    kiln_text_puts(out, "<h1 class=\"away\">Slide show</h1>");
    rc = kiln_gallery_ask_list(&ask, visit->session, add_slide, visit, &page, err);
    if (rc)
        return rc;
    if (page.rows == 0)
        kiln_text_puts(out, "<p class=\"say\">No more pictures.</p>");
    kiln_text_puts(out, "<nav class=\"pager\" aria-label=\"Slides\">");
    if (ask.query.cursor && page.newer[0])
        add_step(&ask, "prev", "Previous", page.newer, out);
    kiln_text_puts(out, "<button type=\"button\" class=\"play\" hidden>Pause</button>");
    if (page.older[0])
        add_step(&ask, "next", "Next", page.older, out);
    kiln_text_puts(out, "</nav>");
    kiln_gallery_end(visit);
    return 0;
}
