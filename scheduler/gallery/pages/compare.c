/* compare.c - /compare?a=ID&b=ID: two pictures side by side, and the settings in which they differ.
 * Without b: the variants of a, to choose one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/files.h"
#include "scheduler/gallery/parts/html.h"
#include "scheduler/gallery/parts/layout.h"
#include "scheduler/gallery/parts/tiles.h"

enum row {
    PROMPT,
    NEGATIVE,
    SIZE,
    STEPS,
    SEED,
    GUIDANCE,
    STYLE,
    LORAS,
    MADE,
    MODEL,
    BATCH,
    WORKER,
    ROWS
};
static const char *const labels[ROWS] = {"Prompt", "Negative prompt", "Size",  "Steps",
                                         "Seed",   "Guidance",        "Style", "LoRAs",
                                         "Made",   "Model",           "Batch", "Worker"};

struct side {
    struct kiln_web_visit *visit;
    uint64_t job;
    char prompt_hash[65];
    struct kiln_text values[ROWS], image;
};

static void add_image(struct side *side, const struct kiln_gallery_tile *tile)
{
    const struct kiln_gallery_files *files = kiln_gallery_app(side->visit)->files;
    struct kiln_text *out = &side->image;
    kiln_text_printf(out, "<a href=\"/p/%" PRIu64 "\"><img src=\"", tile->job);
    kiln_gallery_file_url(files, tile->job, tile->full.key, false, 0, out);
    kiln_text_printf(out, "\" width=\"%u\" height=\"%u\" alt=\"", tile->width, tile->height);
    kiln_gallery_alt(out, tile->prompt);
    kiln_text_puts(out, "\"></a>");
}

static int read_side(void *arg, const struct kiln_gallery_picture *picture, struct kiln_error *err)
{
    struct side *side = arg;
    const struct kiln_job *job = &picture->job->job;
    char loras[KILN_LORA_SET_MAX];
    (void)err;
    add_image(side, &picture->tile);
    snprintf(side->prompt_hash, sizeof side->prompt_hash, "%s", picture->tile.prompt_hash);
    kiln_lora_set_text(job->loras, job->lora_count, loras, sizeof loras);
    kiln_text_puts(&side->values[PROMPT], job->prompt);
    kiln_text_puts(&side->values[NEGATIVE], job->negative_prompt);
    kiln_text_printf(&side->values[SIZE], "%ux%u", job->width, job->height);
    kiln_text_printf(&side->values[STEPS], "%u", job->steps);
    kiln_text_printf(&side->values[SEED], "%" PRIu64, job->seed);
    kiln_text_double(&side->values[GUIDANCE], job->guidance);
    kiln_text_puts(&side->values[STYLE], job->style ? job->style : "");
    kiln_text_puts(&side->values[LORAS], loras);
    kiln_text_puts(&side->values[MADE], kiln_mode_shown(picture->job->rendered_mode));
    kiln_text_puts(&side->values[MODEL], picture->made.model_name);
    kiln_text_puts(&side->values[BATCH], job->batch);
    kiln_text_puts(&side->values[WORKER], picture->job->worker);
    return 0;
}

static const char *value_of(const struct side *side, int row)
{
    return side->values[row].at ? side->values[row].at : "";
}

static void add_table(struct kiln_text *out, const struct side sides[2])
{
    kiln_text_printf(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Settings\">"
        "<table class=\"compare\"><thead><tr><td></td><th scope=\"col\">Picture %" PRIu64
        "</th><th scope=\"col\">Picture %" PRIu64 "</th></tr></thead><tbody>",
        sides[0].job, sides[1].job);
    for (int row = 0; row < ROWS; row++) {
        const char *a = value_of(&sides[0], row), *b = value_of(&sides[1], row);
        bool differ = strcmp(a, b) != 0;
        if (!a[0] && !b[0])
            continue;
        kiln_text_printf(out, "<tr%s><th scope=\"row\">%s%s</th><td dir=\"auto\">",
                         differ ? " class=\"differ\"" : "", labels[row],
                         differ ? " <span class=\"badge\">differs</span>" : "");
        kiln_html(out, a);
        kiln_text_puts(out, "</td><td dir=\"auto\">");
        kiln_html(out, b);
        kiln_text_puts(out, "</td></tr>");
    }
    kiln_text_puts(out, "</tbody></table></div>");
}

static void add_form(struct kiln_text *out, uint64_t a)
{
    kiln_text_puts(out, "<form class=\"fields pair\" action=\"/compare\" method=\"get\"><p>"
                        "<label for=\"a\">Picture</label><input id=\"a\" name=\"a\" required "
                        "inputmode=\"numeric\" pattern=\"[0-9]+\" value=\"");
    if (a)
        kiln_text_u64(out, a);
    kiln_text_puts(out, "\"></p><p><label for=\"b\">with picture</label><input id=\"b\" name=\"b\" "
                        "required inputmode=\"numeric\" pattern=\"[0-9]+\"></p>"
                        "<p class=\"check\"><button>Compare</button></p></form>");
}

/* --- choosing the second one ------------------------------------------------------------------ */

static int add_variant(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    struct kiln_gallery_grid *grid = arg;
    return tile->job == grid->beside ? 0 : kiln_gallery_grid_add(grid, tile, err);
}

static int add_variants(const struct side *side, struct kiln_error *err)
{
    struct kiln_gallery_query query = {.filter = kiln_gallery_all(kiln_gallery_app(side->visit)),
                                       .rows_max = KILN_GALLERY_TILES};
    struct kiln_text *out = &side->visit->reply.body;
    struct kiln_gallery_grid grid;
    struct kiln_gallery_page page;
    query.filter.prompt_hash = side->prompt_hash;
    kiln_text_printf(out,
                     "<section class=\"related\"><h2>Variants of picture %" PRIu64
                     " <small>choose one to compare</small></h2>",
                     side->job);
    kiln_gallery_grid_begin(&grid, side->visit, "Variants");
    grid.beside = side->job;
    int rc = kiln_gallery_list(side->visit->session, &query, add_variant, &grid, &page, err);
    kiln_gallery_grid_end(&grid);
    kiln_text_puts(out, grid.count ? "</section>" : "<p>There are none.</p></section>");
    return rc;
}

static int read_id(struct kiln_web_visit *visit, const char *name, uint64_t *ret,
                   struct kiln_error *err)
{
    const char *text = kiln_web_arg(visit->args, name);
    *ret = 0;
    return !text || kiln_web_id(text, strlen(text), ret)
               ? 0
               : kiln_fail(err, KILN_BAD_INPUT, "%s is \"%.40s\"; it must be the number of a job",
                           name, text);
}

int kiln_gallery_compare(struct kiln_web_visit *visit, struct kiln_error *err)
{
    const struct kiln_gallery_filter filter = kiln_gallery_all(kiln_gallery_app(visit));
    struct side sides[2] = {{.visit = visit}, {.visit = visit}};
    struct kiln_text *out = &visit->reply.body;
    int rc = read_id(visit, "a", &sides[0].job, err);
    rc = rc ? rc : read_id(visit, "b", &sides[1].job, err);
    bool both = sides[0].job && sides[1].job;
    for (int i = 0; rc == 0 && i < 2; i++)
        rc = !sides[i].job ? 0
                           : kiln_gallery_picture(visit->session, &filter, sides[i].job, read_side,
                                                  &sides[i], err);
    if (rc == 0) {
        kiln_gallery_begin(
            visit, &(struct kiln_gallery_page_head){.title = "Compare two pictures", .wide = true});
        kiln_text_puts(out, "<h1>Compare two pictures</h1>");
        if (both) {
            kiln_text_printf(out, "<div class=\"sides\">%s%s</div>",
                             sides[0].image.at ? sides[0].image.at : "",
                             sides[1].image.at ? sides[1].image.at : "");
            add_table(out, sides);
        }
        add_form(out, sides[0].job);
        if (sides[0].job && !both)
            rc = add_variants(&sides[0], err);
        kiln_gallery_end(visit);
    }
    for (int i = 0; i < 2; i++) {
        kiln_text_release(&sides[i].image);
        for (int row = 0; row < ROWS; row++)
            kiln_text_release(&sides[i].values[row]);
    }
    return rc;
}
