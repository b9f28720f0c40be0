/* html.c - see html.h.
 *
 * The parts that are the same for every page are files of scheduler/gallery/parts, embedded by
 * scripts/embed.sh.  The page allows no script and no style but these, by their hashes.
 */
#include "scheduler/cli/jobs/export/html.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <string.h>

#include "scheduler/cli/core/output/records.h"
#include "schemas/digest.h"
#include "schemas/embedded.h"
#include "schemas/job/line.h"
#include "schemas/text/html.h"
#include "schemas/text/utf8.h"

#define HELD_MAX 500 /* pictures in a block of data */
#define ALT_BYTES 150

/* The files that are embedded, in the order of the Makefile. */
enum page_file { STYLE, SCRIPT, ICON, LOCAL };

static void add_text(struct kiln_text *out, const char *text)
{
    char piece[KILN_HTML_PIECE];
    for (size_t len; (len = kiln_html_next(&text, piece)) > 0;)
        kiln_text_add(out, piece, len);
}

static void flush(struct kiln_text *text, FILE *file)
{
    fwrite(text->at ? text->at : "", 1, text->len, file);
    kiln_text_clear(text);
}

/* --- head and foot ---------------------------------------------------------------------------- */

static void add_file(struct kiln_text *out, enum page_file which)
{
    kiln_text_add(out, kiln_embedded_page[which].text, kiln_embedded_page[which].size);
}

/* 'sha256-...' as a policy names a script or a style. */
static void add_hash(struct kiln_text *out, enum page_file which)
{
    uint8_t digest[KILN_SHA256_SIZE];
    char text[4 * ((KILN_SHA256_SIZE + 2) / 3) + 1];
    kiln_sha256(kiln_embedded_page[which].text, kiln_embedded_page[which].size, digest);
    EVP_EncodeBlock((unsigned char *)text, digest, KILN_SHA256_SIZE);
    kiln_text_printf(out, " 'sha256-%s'", text);
}

static void add_icon(struct kiln_text *out)
{
    const struct kiln_embedded *icon = &kiln_embedded_page[ICON];
    kiln_text_puts(out, "<link rel=\"icon\" href=\"data:image/svg+xml,");
    for (size_t i = 0; i < icon->size; i++) {
        const char c = icon->text[i];
        if (c == '"' || c == '#' || c == '%' || c == '<' || c == '>' || c < ' ')
            kiln_text_printf(out, "%%%02X", (unsigned char)c);
        else
            kiln_text_add(out, &c, 1);
    }
    kiln_text_puts(out, "\">");
}

/* Up to the inside of <body>. */
static void add_head(struct kiln_text *out, const char *title, bool scripts)
{
    kiln_text_puts(out,
                   "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                   "<meta name=\"color-scheme\" content=\"light dark\">\n"
                   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                   "img-src 'self' file: data:; style-src");
    add_hash(out, STYLE);
    kiln_text_puts(out, scripts ? "; script-src" : "");
    if (scripts) {
        add_hash(out, LOCAL);
        add_hash(out, SCRIPT);
    }
    kiln_text_puts(out, "\">\n<title>");
    add_text(out, title);
    kiln_text_puts(out, " \xc2\xb7 Kiln</title>\n");
    add_icon(out);
    kiln_text_puts(out, "\n<style>");
    add_file(out, STYLE);
    kiln_text_puts(out, "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the "
                        "content</a>\n");
}

void kiln_html_begin(struct kiln_html *page, FILE *file, const char *title, const char *note,
                     bool sheet)
{
    struct kiln_text *out = &page->data;
    page->file = file;
    add_head(out, title, true);
    kiln_text_puts(out, "<header class=\"bar\"><a class=\"brand\" href=\"#\">Kiln</a>"
                        "<form class=\"search\" role=\"search\" hidden><label class=\"away\" "
                        "for=\"q\">Search the prompts</label><input id=\"q\" type=\"search\" "
                        "maxlength=\"256\" autocomplete=\"off\" spellcheck=\"false\" dir=\"auto\" "
                        "placeholder=\"Search the prompts\"></form></header>\n"
                        "<main id=\"main\" tabindex=\"-1\" class=\"wide\">"
                        "<div class=\"head\"><h1><bdi>");
    add_text(out, title);
    kiln_text_puts(out, "</bdi></h1><p class=\"count\" role=\"status\"></p>"
                        "<ul class=\"ways\" aria-label=\"This list as\">");
    kiln_text_puts(out, sheet ? "<li><a href=\"grid.html\">Sheet</a></li>" : "");
    kiln_text_puts(out, "<li><a href=\"results.jsonl\">JSON</a></li></ul></div>\n");
    if (note) {
        kiln_text_puts(out, "<p class=\"note\">");
        add_text(out, note);
        kiln_text_puts(out, "</p>\n");
    }
    kiln_text_puts(out, "<ul class=\"grid\" aria-label=\"Pictures\"></ul>\n"
                        "<nav class=\"pager\" aria-label=\"Pages\"></nav>\n");
    page->failed = out->failed;
    flush(out, file);
}

/* --- pictures --------------------------------------------------------------------------------- */

/* No end tag can stand in a block of data. */
static void write_data(struct kiln_html *page)
{
    page->failed = page->failed || page->data.failed || page->list.failed;
    if (page->held == 0)
        return;
    fputs("<script type=\"application/json\" class=\"data\">\n", page->file);
    for (size_t i = 0; i < page->data.len; i++)
        if (page->data.at[i] == '<')
            fputs("\\u003c", page->file);
        else
            putc_unlocked(page->data.at[i], page->file);
    fputs("</script>\n<noscript><ul class=\"grid\">\n", page->file);
    flush(&page->list, page->file);
    fputs("</ul></noscript>\n", page->file);
    kiln_text_clear(&page->data);
    page->held = 0;
}

static const char *smallest(const struct kiln_html_files *files)
{
    for (int i = KILN_STORED_SIZES - 1; i > 0; i--)
        if (files->paths[i][0])
            return files->paths[i];
    return files->paths[KILN_STORED_FULL];
}

static void add_image(struct kiln_text *out, const struct kiln_job *job,
                      const struct kiln_html_files *files)
{
    char alt[ALT_BYTES + 1];
    kiln_utf8_copy(alt, sizeof alt, job->prompt);
    kiln_text_puts(out, "<img loading=\"lazy\" decoding=\"async\" src=\"");
    add_text(out, smallest(files));
    kiln_text_printf(out, "\" width=\"%u\" height=\"%u\" alt=\"Prompt: ", job->width, job->height);
    add_text(out, alt);
    kiln_text_puts(out, strlen(alt) < strlen(job->prompt) ? "\xe2\x80\xa6\">" : "\">");
}

static void add_listed(struct kiln_text *out, const struct kiln_job *job,
                       const struct kiln_html_files *files)
{
    kiln_text_puts(out, "<li class=\"tile\"><a href=\"");
    add_text(out, files->paths[KILN_STORED_FULL]);
    kiln_text_puts(out, "\">");
    add_image(out, job, files);
    kiln_text_puts(out, "</a></li>\n");
}

/* Why a job has no picture, NULL if it has one. */
static const char *why_missing(const struct kiln_job *job, const struct kiln_html_files *files,
                               bool damaged)
{
    if (files->paths[KILN_STORED_FULL][0])
        return NULL;
    if (job->state != KILN_JOB_DONE)
        return kiln_job_state_name(job->state);
    return damaged ? "picture missing from the store or damaged there" : "latent only, no picture";
}

/* The job line has everything that was asked for; where it would not run today, the texts alone. */
static void add_data(struct kiln_text *out, const struct kiln_job_row *row,
                     const struct kiln_html_files *files, const char *missing)
{
    const struct kiln_job *job = &row->job;
    struct kiln_text line = {0};
    char seed[24], set[KILN_LORA_SET_MAX] = "", wanted[KILN_MODE_MAX];
    snprintf(seed, sizeof seed, "%" PRIu64, job->seed);
    (void)kiln_lora_set_text(job->loras, job->lora_count, set, sizeof set);
    kiln_mode_text(&job->mode, wanted);
    bool runs = kiln_job_line_again(job, &line);
    const char *hash = row->model_hash;
    kiln_json_put(out, "{job:u batch:s index:i width:i height:i seed:s line:s", job->id, job->batch,
                  job->index, job->width, job->height, seed, runs ? line.at : NULL);
    if (!runs)
        kiln_json_put(out, "prompt:s", job->prompt);
    kiln_json_put(out, "steps:i style:s loras:s custom_id:s mode:s model:s model_hash:s worker:s",
                  job->steps, job->style, set[0] ? set : NULL, job->custom_id,
                  kiln_mode_shown(row->forwards > 0 ? row->rendered_mode : wanted),
                  row->model_name[0] ? row->model_name : NULL, hash[0] ? hash : NULL,
                  row->worker[0] ? row->worker : NULL);
    kiln_json_put(out, job->parent ? "finished_at:t parent:u" : "finished_at:t", row->finished_ms,
                  job->parent);
    if (missing)
        kiln_json_put(out, "missing:s error:s", missing,
                      job->state == KILN_JOB_DONE ? NULL : row->error);
    kiln_json_put(out, "files:[");
    for (int i = 0; i < KILN_STORED_SIZES; i++)
        if (files->rows[i])
            kiln_json_put(out, "{path:s width:i height:i bytes:u}", files->paths[i],
                          files->rows[i]->width, files->rows[i]->height, files->rows[i]->bytes);
    kiln_json_put(out, "]}\n");
    kiln_text_release(&line);
}

void kiln_html_add(struct kiln_html *page, const struct kiln_job_row *row,
                   const struct kiln_html_files *files, bool damaged)
{
    const char *missing = why_missing(&row->job, files, damaged);
    add_data(&page->data, row, files, missing);
    if (!missing)
        add_listed(&page->list, &row->job, files);
    if (++page->held == HELD_MAX)
        write_data(page);
}

bool kiln_html_end(struct kiln_html *page, uint64_t pictures, uint64_t jobs)
{
    struct kiln_text *out = &page->data;
    write_data(page);
    kiln_text_puts(out, "</main>\n<footer class=\"foot\"><p>");
    if (pictures != jobs)
        kiln_text_printf(out, "%" PRIu64 " of ", pictures);
    kiln_text_printf(out, "%" PRIu64 " picture%s.</p></footer>\n<script>", jobs,
                     jobs == 1 ? "" : "s");
    add_file(out, LOCAL);
    kiln_text_puts(out, "</script>\n<script>");
    add_file(out, SCRIPT);
    kiln_text_puts(out, "</script>\n</body></html>\n");
    const bool whole = !page->failed && !out->failed;
    flush(out, page->file);
    kiln_html_release(page);
    return whole;
}

void kiln_html_release(struct kiln_html *page)
{
    kiln_text_release(&page->data);
    kiln_text_release(&page->list);
}

/* --- the sheet -------------------------------------------------------------------------------- */

void kiln_html_cell(struct kiln_text *out, const struct kiln_job *job,
                    const struct kiln_html_files *files, bool index)
{
    kiln_text_puts(out, "<a href=\"");
    if (index)
        kiln_text_printf(out, "index.html#j%" PRIu64, job->id);
    else
        add_text(out, files->paths[KILN_STORED_FULL]);
    kiln_text_puts(out, "\">");
    add_image(out, job, files);
    kiln_text_puts(out, "</a>");
}

bool kiln_html_sheet(FILE *file, const char *title, const struct kiln_text *table)
{
    struct kiln_text out = {0};
    add_head(&out, title, false);
    kiln_text_puts(&out, "<main id=\"main\" tabindex=\"-1\" class=\"wide\"><h1>Sheet of <bdi>");
    add_text(&out, title);
    kiln_text_puts(&out, "</bdi></h1>\n");
    kiln_text_add(&out, table->at ? table->at : "", table->len);
    kiln_text_puts(&out, "</main></body></html>\n");
    const bool whole = !out.failed && !table->failed;
    flush(&out, file);
    kiln_text_release(&out);
    return whole;
}
