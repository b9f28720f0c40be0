/* sheet.c - /sheet?batch=B&x=KEY&y=KEY: the pictures of a batch as a table over two of its
 * settings.
 *
 * The jobs of the batch are walked once, up to a bound; each pair of values has its newest picture.
 * Of jobs whose picture is hidden nothing is used, not even a value: the gallery's own list says
 * which are shown.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/core/output/crosstab.h"
#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/files.h"
#include "scheduler/gallery/parts/html.h"
#include "scheduler/gallery/parts/layout.h"
#include "scheduler/gallery/parts/tiles.h"

#define JOBS_MAX 5000

/* A job of the batch that has a picture. */
struct made {
    uint64_t job;
    char x[KILN_CROSSTAB_VALUE_BYTES], y[KILN_CROSSTAB_VALUE_BYTES];
};

struct sheet {
    struct kiln_web_visit *visit;
    struct kiln_crosstab table;
    int jobs;
    struct made made[JOBS_MAX]; /* in the order of the batch */
    int count, at;              /* at: where place_made looks on */
    bool cut;                   /* the batch has more jobs than are read */
};

static int note_job(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    struct sheet *sheet = arg;
    if (sheet->jobs++ == JOBS_MAX) {
        sheet->cut = true;
        return kiln_fail(err, KILN_FULL, "more than %d jobs", JOBS_MAX);
    }
    if (row->job.state != KILN_JOB_DONE || row->object_count == 0)
        return 0;
    struct made *made = &sheet->made[sheet->count++];
    made->job = row->job.id;
    kiln_crosstab_value(row, sheet->table.x.key, made->x);
    kiln_crosstab_value(row, sheet->table.y.key, made->y);
    return 0;
}

/* A picture that is shown; they come in the order of `made`. */
static int place_made(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    struct sheet *sheet = arg;
    (void)err;
    while (sheet->at < sheet->count && sheet->made[sheet->at].job != tile->job)
        sheet->at++;
    if (sheet->at == sheet->count)
        return 0;
    const struct made *made = &sheet->made[sheet->at];
    struct kiln_cell *cell = kiln_crosstab_cell(&sheet->table, made->x, made->y);
    if (!cell || cell->job > made->job)
        return 0;
    const struct kiln_gallery_object *object = tile->small.key[0] ? &tile->small : &tile->full;
    struct kiln_gallery_files *files = kiln_gallery_app(sheet->visit)->files;
    struct kiln_text *out = &cell->html;
    cell->job = made->job;
    kiln_text_clear(out); /* the newest counts */
    kiln_gallery_files_learn(sheet->visit, tile);
    kiln_text_printf(out, "<a href=\"/p/%" PRIu64 "\"><img src=\"", tile->job);
    kiln_gallery_file_url(files, tile->job, object->key, true, sheet->visit->now_ms, out);
    kiln_text_printf(out, "\" width=\"%u\" height=\"%u\" loading=\"lazy\" alt=\"", tile->width,
                     tile->height);
    kiln_gallery_alt(out, tile->prompt);
    kiln_text_puts(out, "\"></a>");
    return 0;
}

static int place_all(struct sheet *sheet, struct kiln_error *err)
{
    const struct kiln_gallery_filter filter = kiln_gallery_all(kiln_gallery_app(sheet->visit));
    uint64_t jobs[KILN_GALLERY_ROWS_MAX];
    int rc = 0;
    for (int from = 0; rc == 0 && from < sheet->count; from += KILN_GALLERY_ROWS_MAX) {
        uint32_t count = 0;
        for (; count < KILN_GALLERY_ROWS_MAX && from + (int)count < sheet->count; count++)
            jobs[count] = sheet->made[from + (int)count].job;
        sheet->at = from;
        rc =
            kiln_gallery_tiles(sheet->visit->session, &filter, jobs, count, place_made, sheet, err);
    }
    return rc;
}

/* --- the page --------------------------------------------------------------------------------- */

static void add_choice(struct kiln_text *out, const char *name, const char *label, int chosen)
{
    kiln_text_printf(out, "<p><label for=\"s-%s\">%s</label><select id=\"s-%s\" name=\"%s\">", name,
                     label, name, name);
    for (int key = 0; key < KILN_CROSSTAB_KEYS; key++)
        kiln_text_printf(out, "<option value=\"%s\"%s>%s</option>", kiln_crosstab_names[key].name,
                         key == chosen ? " selected" : "", kiln_crosstab_names[key].label);
    kiln_text_puts(out, "</select></p>");
}

static void add_form(const struct sheet *sheet, const char *batch)
{
    struct kiln_text *out = &sheet->visit->reply.body;
    kiln_text_puts(out, "<form class=\"fields pair\" action=\"/sheet\" method=\"get\"><p>"
                        "<label for=\"s-batch\">Batch</label><input id=\"s-batch\" name=\"batch\" "
                        "required maxlength=\"128\" value=\"");
    kiln_html_attr(out, batch ? batch : "");
    kiln_text_puts(out, "\"></p>");
    add_choice(out, "y", "Down", sheet->table.y.key);
    add_choice(out, "x", "Across", sheet->table.x.key);
    kiln_text_puts(out, "<p class=\"check\"><button>Show</button></p></form>");
}

static int read_key(struct kiln_web_visit *visit, const char *name, int fallback, int *ret,
                    struct kiln_error *err)
{
    const char *text = kiln_web_arg(visit->args, name);
    *ret = text ? kiln_crosstab_key(text) : fallback;
    return *ret >= 0 ? 0
                     : kiln_fail(err, KILN_BAD_INPUT,
                                 "%s is \"%.40s\"; it must be " KILN_CROSSTAB_ALLOWED, name, text);
}

static int make(struct sheet *sheet, const char *batch, struct kiln_error *err)
{
    struct kiln_web_visit *visit = sheet->visit;
    int rc = read_key(visit, "x", KILN_BY_SEED, &sheet->table.x.key, err);
    rc = rc ? rc : read_key(visit, "y", KILN_BY_PROMPT, &sheet->table.y.key, err);
    if (rc == 0 && batch) {
        rc = kiln_ledger_results(visit->session, kiln_gallery_app(visit)->pool, batch, note_job,
                                 sheet, err);
        rc = sheet->cut ? 0 : rc;
        rc = rc ? rc : place_all(sheet, err);
    }
    if (rc)
        return rc;
    kiln_gallery_begin(visit,
                       &(struct kiln_gallery_page_head){.title = "Sheet of a batch", .wide = true});
    kiln_text_puts(&visit->reply.body, "<h1>Sheet");
    if (batch) {
        kiln_text_puts(&visit->reply.body, " of <bdi>");
        kiln_html(&visit->reply.body, batch);
        kiln_text_puts(&visit->reply.body, "</bdi>");
    }
    kiln_text_puts(&visit->reply.body, "</h1>");
    add_form(sheet, batch);
    if (batch && sheet->table.x.count == 0)
        kiln_text_puts(&visit->reply.body, "<p>This batch has no pictures yet.</p>");
    else if (batch)
        kiln_crosstab_write(&sheet->table, &visit->reply.body);
    if (sheet->cut)
        kiln_text_printf(&visit->reply.body,
                         "<p>Only the first %d jobs of the batch were read.</p>", JOBS_MAX);
    kiln_gallery_end(visit);
    return 0;
}

int kiln_gallery_sheet(struct kiln_web_visit *visit, struct kiln_error *err)
{
    struct sheet *sheet = calloc(1, sizeof *sheet);
    if (!sheet)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the sheet");
    sheet->visit = visit;
    int rc = make(sheet, kiln_web_arg(visit->args, "batch"), err);
    kiln_crosstab_release(&sheet->table);
    free(sheet);
    return rc;
}
