/* tiles.c - see tiles.h. */
#include "scheduler/gallery/parts/tiles.h"

#include <inttypes.h>

#include "scheduler/gallery/parts/files.h"
#include "scheduler/gallery/parts/html.h"

#define ALT_BYTES 150
#define EAGER 6 /* tiles of the first rows */
#define SIZES "(max-width: 600px) 50vw, 300px"

void kiln_gallery_grid_begin(struct kiln_gallery_grid *grid, struct kiln_web_visit *visit,
                             const char *label)
{
    *grid = (struct kiln_gallery_grid){.visit = visit};
    kiln_text_printf(&visit->reply.body, "<ul class=\"grid\" aria-label=\"%s\">", label);
}

void kiln_gallery_alt(struct kiln_text *out, const char *prompt)
{
    kiln_text_puts(out, "Prompt: ");
    kiln_html_attr_cut(out, prompt, ALT_BYTES);
}

static const struct kiln_gallery_object *smallest(const struct kiln_gallery_tile *tile)
{
    return tile->small.key[0] ? &tile->small : tile->medium.key[0] ? &tile->medium : &tile->full;
}

/* The widths are those of the files: "256" is the longest side.  The full picture is for enlarged
 * pages and dense screens; an address in S3 is signed when it is asked for. */
static void add_sources(struct kiln_gallery_grid *grid, const struct kiln_gallery_tile *tile)
{
    const struct kiln_gallery_object *const objects[] = {&tile->small, &tile->medium, &tile->full};
    struct kiln_text *out = &grid->visit->reply.body;
    const char *comma = "";
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        if (!objects[i]->key[0])
            continue;
        kiln_text_puts(out, comma);
        kiln_gallery_file_url(kiln_gallery_app(grid->visit)->files, tile->job, objects[i]->key,
                              objects[i] != &tile->full, grid->visit->now_ms, out);
        kiln_text_printf(out, " %uw", objects[i]->width);
        comma = ", ";
    }
}

static void add_image(struct kiln_gallery_grid *grid, const struct kiln_gallery_tile *tile)
{
    const struct kiln_gallery_files *files = kiln_gallery_app(grid->visit)->files;
    const struct kiln_gallery_object *small = smallest(tile);
    struct kiln_text *out = &grid->visit->reply.body;
    kiln_text_puts(out, "<img src=\"");
    kiln_gallery_file_url(files, tile->job, small->key, true, grid->visit->now_ms, out);
    kiln_text_puts(out, "\" srcset=\"");
    add_sources(grid, tile);
    kiln_text_printf(out, "\" sizes=\"%s\" width=\"%u\" height=\"%u\" decoding=\"async\"%s alt=\"",
                     SIZES, tile->width, tile->height,
                     grid->count == 0      ? " fetchpriority=\"high\""
                     : grid->count < EAGER ? ""
                                           : " loading=\"lazy\"");
    kiln_gallery_alt(out, tile->prompt);
    kiln_text_puts(out, "\"");
    if (kiln_gallery_files_origin(
            files)) { /* where the script goes when a signed URL has expired */
        kiln_text_puts(out, " data-again=\"");
        kiln_gallery_file_url(files, tile->job, small->key, false, grid->visit->now_ms, out);
        kiln_text_puts(out, "\"");
    }
    kiln_text_puts(out, ">");
}

int kiln_gallery_grid_add(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    struct kiln_gallery_grid *grid = arg;
    struct kiln_text *out = &grid->visit->reply.body;
    (void)err;
    kiln_gallery_files_learn(grid->visit, tile);
    kiln_text_printf(out, "<li class=\"tile r%d", kiln_gallery_ratio(tile->width, tile->height));
    if (tile->colour >= 0)
        kiln_text_printf(out, " k%d", kiln_gallery_shade(tile->colour));
    kiln_text_puts(out, tile->starred ? " starred\">" : "\">");
    if (grid->beside)
        kiln_text_printf(out, "<a href=\"/compare?a=%" PRIu64 "&amp;b=%" PRIu64 "\">", grid->beside,
                         tile->job);
    else
        kiln_text_printf(out, "<a href=\"/p/%" PRIu64 "\" data-job=\"%" PRIu64 "\">", tile->job,
                         tile->job);
    add_image(grid, tile);
    kiln_text_puts(out, "<span class=\"words\" aria-hidden=\"true\" dir=\"auto\">");
    kiln_html_cut(out, tile->prompt, ALT_BYTES);
    kiln_text_puts(out, "</span>");
    if (tile->starred)
        kiln_text_puts(out, "<span class=\"mark\"><span aria-hidden=\"true\">\xe2\x98\x85</span>"
                            "<span class=\"away\">Starred</span></span>");
    if (tile->stack > 1)
        kiln_text_printf(out,
                         "<span class=\"stack\"><span aria-hidden=\"true\">%u%s</span>"
                         "<span class=\"away\">%u%s pictures of this prompt</span></span>",
                         tile->stack, tile->stack >= KILN_GALLERY_COUNT_MAX ? "+" : "", tile->stack,
                         tile->stack >= KILN_GALLERY_COUNT_MAX ? "+" : "");
    kiln_text_puts(out, "</a></li>\n");
    grid->first = grid->count == 0 ? tile->job : grid->first;
    grid->last = tile->job;
    grid->count++;
    return 0;
}

void kiln_gallery_grid_end(struct kiln_gallery_grid *grid)
{
    kiln_text_puts(&grid->visit->reply.body, "</ul>");
}
