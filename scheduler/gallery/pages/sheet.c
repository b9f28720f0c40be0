/* sheet.c - /sheet?batch=B&x=KEY&y=KEY: the pictures of a batch as a table over two of its
 * settings.
 *
 * The jobs of the batch are walked once, up to a bound; each pair of values has its newest picture.
 * Of jobs whose picture is hidden nothing is used, not even a value: the gallery's own list says
 * which are shown.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/files.h"
#include "scheduler/gallery/parts/html.h"
#include "scheduler/gallery/parts/layout.h"
#include "scheduler/gallery/parts/tiles.h"
#include "schemas/text/utf8.h"

#define JOBS_MAX 5000
#define VALUES_MAX 24 /* of an axis */
#define VALUE_BYTES 120

enum key { SEED, STEPS, SIZE, GUIDANCE, LORAS, STYLE, MADE, PROMPT, KEYS };
static const struct {
    const char *name, *label;
} keys[KEYS] = {{"seed", "Seed"},   {"steps", "Steps"}, {"size", "Size"}, {"guidance", "Guidance"},
                {"loras", "LoRAs"}, {"style", "Style"}, {"mode", "Made"}, {"prompt", "Prompt"}};

struct axis {
    int key;
    char values[VALUES_MAX][VALUE_BYTES];
    int count;
    bool more; /* values that have no place */
};

struct cell {
    uint64_t job;
    struct kiln_text html;
};

/* A job of the batch that has a picture. */
struct made {
    uint64_t job;
    char x[VALUE_BYTES], y[VALUE_BYTES];
};

struct sheet {
    struct kiln_web_visit *visit;
    struct axis x, y;
    struct cell cells[VALUES_MAX][VALUES_MAX]; /* [y][x] */
    int jobs;
    struct made made[JOBS_MAX]; /* by rising job */
    int count, at;              /* at: where place_made looks on */
    bool cut;                   /* the batch has more jobs than are read */
};

static void value_of(const struct kiln_job_row *row, int key, char out[VALUE_BYTES])
{
    const struct kiln_job *job = &row->job;
    char loras[KILN_LORA_SET_MAX];
    switch (key) {
    case SEED:
        snprintf(out, VALUE_BYTES, "%" PRIu64, job->seed);
        break;
    case STEPS:
        snprintf(out, VALUE_BYTES, "%u", job->steps);
        break;
    case SIZE:
        snprintf(out, VALUE_BYTES, "%ux%u", job->width, job->height);
        break;
    case GUIDANCE:
        snprintf(out, VALUE_BYTES, "%g", job->guidance);
        break;
    case LORAS:
        kiln_lora_set_text(job->loras, job->lora_count, loras, sizeof loras);
        snprintf(out, VALUE_BYTES, "%.119s", loras[0] ? loras : "none");
        break;
    case STYLE:
        snprintf(out, VALUE_BYTES, "%.119s", job->style ? job->style : "none");
        break;
    case MADE:
        snprintf(out, VALUE_BYTES, "%.119s", kiln_mode_shown(row->rendered_mode));
        break;
    default:
        kiln_utf8_copy(out, VALUE_BYTES, job->prompt);
        break;
    }
}

/* The place of a value on its axis, or -1 if there is none left. */
static int place_of(struct axis *axis, const char *value)
{
    for (int i = 0; i < axis->count; i++)
        if (strcmp(axis->values[i], value) == 0)
            return i;
    if (axis->count == VALUES_MAX) {
        axis->more = true;
        return -1;
    }
    snprintf(axis->values[axis->count], VALUE_BYTES, "%s", value);
    return axis->count++;
}

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
    value_of(row, sheet->x.key, made->x);
    value_of(row, sheet->y.key, made->y);
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
    int column = place_of(&sheet->x, made->x), line = place_of(&sheet->y, made->y);
    if (column >= 0 && line >= 0)
        sheet->cells[line][column].job = made->job;
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

/* --- the table -------------------------------------------------------------------------------- */

static int fill_cell(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    struct sheet *sheet = arg;
    const struct kiln_gallery_object *object = tile->small.key[0] ? &tile->small : &tile->full;
    struct kiln_gallery_files *files = kiln_gallery_app(sheet->visit)->files;
    (void)err;
    for (int i = 0; i < sheet->y.count * VALUES_MAX; i++) {
        struct cell *cell = &sheet->cells[i / VALUES_MAX][i % VALUES_MAX];
        if (cell->job != tile->job || cell->html.len)
            continue;
        kiln_gallery_files_learn(files, tile);
        kiln_text_printf(&cell->html, "<a href=\"/p/%" PRIu64 "\"><img src=\"", tile->job);
        kiln_gallery_file_url(files, tile->job, object->key, true, sheet->visit->now_ms,
                              &cell->html);
        kiln_text_printf(&cell->html, "\" width=\"%u\" height=\"%u\" loading=\"lazy\" alt=\"",
                         tile->width, tile->height);
        kiln_gallery_alt(&cell->html, tile->prompt);
        kiln_text_puts(&cell->html, "\"></a>");
    }
    return 0;
}

static int fill(struct sheet *sheet, struct kiln_error *err)
{
    const struct kiln_gallery_filter filter = kiln_gallery_all(kiln_gallery_app(sheet->visit));
    uint64_t jobs[KILN_GALLERY_ROWS_MAX];
    uint32_t count = 0;
    int rc = 0, cells = sheet->y.count * VALUES_MAX;
    for (int i = 0; rc == 0 && i < cells; i++) {
        uint64_t job = sheet->cells[i / VALUES_MAX][i % VALUES_MAX].job;
        if (job)
            jobs[count++] = job;
        if (count == KILN_GALLERY_ROWS_MAX || (count && i == cells - 1)) {
            rc = kiln_gallery_tiles(sheet->visit->session, &filter, jobs, count, fill_cell, sheet,
                                    err);
            count = 0;
        }
    }
    return rc;
}

struct order {
    const char *value;
    int at;
};

/* Numbers inside the texts count as numbers: "8" before "10", "512x512" before "1024x768". */
static int by_value(const void *a, const void *b)
{
    return strverscmp(((const struct order *)a)->value, ((const struct order *)b)->value);
}

static void sort(const struct axis *axis, struct order order[VALUES_MAX])
{
    for (int i = 0; i < axis->count; i++)
        order[i] = (struct order){axis->values[i], i};
    qsort(order, (size_t)axis->count, sizeof *order, by_value);
}

static void add_table(struct sheet *sheet)
{
    struct kiln_text *out = &sheet->visit->reply.body;
    struct order columns[VALUES_MAX], lines[VALUES_MAX];
    sort(&sheet->x, columns);
    sort(&sheet->y, lines);
    kiln_text_printf(out,
                     "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Sheet\">"
                     "<table class=\"sheet\"><thead><tr><th scope=\"col\">%s / %s</th>",
                     keys[sheet->y.key].label, keys[sheet->x.key].label);
    for (int x = 0; x < sheet->x.count; x++) {
        kiln_text_puts(out, "<th scope=\"col\" dir=\"auto\">");
        kiln_html(out, columns[x].value);
        kiln_text_puts(out, "</th>");
    }
    kiln_text_puts(out, "</tr></thead><tbody>");
    for (int y = 0; y < sheet->y.count; y++) {
        kiln_text_puts(out, "<tr><th scope=\"row\" dir=\"auto\">");
        kiln_html(out, lines[y].value);
        kiln_text_puts(out, "</th>");
        for (int x = 0; x < sheet->x.count; x++) {
            const struct kiln_text *html = &sheet->cells[lines[y].at][columns[x].at].html;
            kiln_text_printf(out, "<td>%s</td>", html->at ? html->at : "");
        }
        kiln_text_puts(out, "</tr>\n");
    }
    kiln_text_puts(out, "</tbody></table></div>");
    if (sheet->x.more || sheet->y.more)
        kiln_text_printf(out, "<p>Only the first %d values of an axis have a place.</p>",
                         VALUES_MAX);
    if (sheet->cut)
        kiln_text_printf(out, "<p>Only the first %d jobs of the batch were read.</p>", JOBS_MAX);
}

static void add_choice(struct kiln_text *out, const char *name, const char *label, int chosen)
{
    kiln_text_printf(out, "<p><label for=\"s-%s\">%s</label><select id=\"s-%s\" name=\"%s\">", name,
                     label, name, name);
    for (int i = 0; i < KEYS; i++)
        kiln_text_printf(out, "<option value=\"%s\"%s>%s</option>", keys[i].name,
                         i == chosen ? " selected" : "", keys[i].label);
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
    add_choice(out, "y", "Down", sheet->y.key);
    add_choice(out, "x", "Across", sheet->x.key);
    kiln_text_puts(out, "<p class=\"check\"><button>Show</button></p></form>");
}

static int read_key(struct kiln_web_visit *visit, const char *name, int fallback, int *ret,
                    struct kiln_error *err)
{
    const char *text = kiln_web_arg(visit->args, name);
    *ret = fallback;
    for (int i = 0; text && i < KEYS; i++)
        if (strcmp(keys[i].name, text) == 0) {
            *ret = i;
            return 0;
        }
    return text
               ? kiln_fail(err, KILN_BAD_INPUT,
                           "%s is \"%.40s\"; it must be seed, steps, size, guidance, loras, style, "
                           "mode or prompt",
                           name, text)
               : 0;
}

static int make(struct sheet *sheet, const char *batch, struct kiln_error *err)
{
    struct kiln_web_visit *visit = sheet->visit;
    int rc = read_key(visit, "x", SEED, &sheet->x.key, err);
    rc = rc ? rc : read_key(visit, "y", PROMPT, &sheet->y.key, err);
    if (rc == 0 && batch) {
        rc = kiln_ledger_results(visit->session, kiln_gallery_app(visit)->pool, batch, note_job,
                                 sheet, err);
        rc = sheet->cut ? 0 : rc;
        rc = rc ? rc : place_all(sheet, err);
        rc = rc ? rc : fill(sheet, err);
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
    if (batch && sheet->x.count == 0)
        kiln_text_puts(&visit->reply.body, "<p>This batch has no pictures yet.</p>");
    else if (batch)
        add_table(sheet);
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
    for (int i = 0; i < VALUES_MAX * VALUES_MAX; i++)
        kiln_text_release(&sheet->cells[i / VALUES_MAX][i % VALUES_MAX].html);
    free(sheet);
    return rc;
}
