/* html.c - see html.h.
 *
 * The grid is justified without script: every tile grows from a basis proportional to its aspect
 * ratio, so the tiles of a row have one height and fill the width.  Sizes are known in advance, so
 * nothing moves while pictures load.  A job without a picture has a tile that says why.  The
 * fixed parts of the page are the files of page/, embedded by scripts/embed.sh.
 */
#include "scheduler/cli/jobs/export/html.h"

#include "schemas/embedded.h"
#include "schemas/text/html.h"

/* The files of page/, in the order in which the Makefile embeds them. */
enum page_file { HEAD, STYLE, VIEWER, SCRIPT };

static void put(FILE *out, enum page_file file)
{
    fwrite(kiln_embedded_page[file].text, 1, kiln_embedded_page[file].size, out);
}

static void escape(FILE *out, const char *text)
{
    char piece[KILN_HTML_PIECE];
    for (size_t len; (len = kiln_html_next(&text, piece)) > 0;)
        fwrite(piece, 1, len, out);
}

void kiln_html_begin(FILE *out, const char *batch, const char *note)
{
    put(out, HEAD);
    fputs("<title>", out);
    escape(out, batch);
    fputs("</title>\n<style>\n", out);
    put(out, STYLE);
    fputs("</style>\n</head>\n<body>\n<header><h1>", out);
    escape(out, batch);
    fputs("</h1><span id=\"count\"></span>"
          "<input id=\"search\" type=\"search\" placeholder=\"Search prompts  ( / )\" "
          "aria-label=\"Search prompts\" autocomplete=\"off\"></header>\n",
          out);
    if (note) {
        fputs("<p id=\"note\">", out);
        escape(out, note);
        fputs("</p>\n", out);
    }
    fputs("<main id=\"grid\">\n", out);
}

/* The job that this one was made from.  The script shows that job's picture if it is on the page,
 * and else takes the link away. */
static void made_from(FILE *out, const struct kiln_job *job)
{
    if (job->parent)
        fprintf(out, "<small class=\"made\">made from <a href=\"#j%llu\">job %llu</a></small>",
                (unsigned long long)job->parent, (unsigned long long)job->parent);
}

/* The line under a prompt; the search finds it too.  Every mode but an exact one is named. */
static void facts(FILE *out, const struct kiln_job_row *row)
{
    const struct kiln_job *job = &row->job;
    char set[KILN_LORA_SET_MAX];
    fprintf(out, "<small>%u&times;%u &middot; seed %llu &middot; %u steps", job->width, job->height,
            (unsigned long long)job->seed, job->steps);
    const bool rendered = row->forwards > 0;
    char wanted[KILN_MODE_MAX];
    kiln_mode_text(&job->mode, wanted);
    const char *mode = rendered ? row->rendered_mode : wanted;
    if (mode[0]) {
        fputs(" &middot; ", out);
        escape(out, mode);
    }
    if (job->style) {
        fputs(" &middot; ", out);
        escape(out, job->style);
    }
    if (kiln_lora_set_text(job->loras, job->lora_count, set, sizeof set)) {
        fputs(" &middot; ", out);
        escape(out, set);
    }
    if (job->custom_id) {
        fputs(" &middot; <bdi>", out);
        escape(out, job->custom_id);
        fputs("</bdi>", out);
    } else {
        fprintf(out, " &middot; #%u", job->index);
    }
    fputs("</small>", out);
    made_from(out, job);
}

/* A candidate of the srcset with its true width, so that a dense screen gets the larger one. */
static void source(FILE *out, const char *path, uint32_t longest, const struct kiln_job *job,
                   bool *first)
{
    if (!path[0])
        return;
    uint32_t side = job->width > job->height ? job->width : job->height;
    uint32_t width =
        side > longest ? (uint32_t)((uint64_t)job->width * longest / side) : job->width;
    fputs(*first ? " srcset=\"" : ", ", out);
    escape(out, path);
    fprintf(out, " %uw", width);
    *first = false;
}

void kiln_html_picture(FILE *out, const struct kiln_job_row *row,
                       const struct kiln_html_files *files)
{
    const struct kiln_job *job = &row->job;
    const char *full = files->paths[KILN_STORED_FULL], *medium = files->paths[KILN_STORED_MEDIUM];
    const char *small = files->paths[KILN_STORED_SMALL];
    const char *thumbnail = medium[0] ? medium : small[0] ? small : full;
    const uint32_t medium_px = kiln_stored_sizes[KILN_STORED_MEDIUM].longest;
    bool first = true;
    fprintf(out, "<figure id=\"j%llu\" style=\"--r:%.4f\" data-full=\"",
            (unsigned long long)job->id, (double)job->width / (double)job->height);
    escape(out, full);
    fputs("\"><a href=\"", out);
    escape(out, full);
    fputs("\"><img loading=\"lazy\" decoding=\"async\" alt=\"\" src=\"", out);
    escape(out, thumbnail);
    fprintf(out, "\" width=\"%u\" height=\"%u\" sizes=\"%.0fpx\"", job->width, job->height,
            300.0 * (double)job->width / (double)job->height);
    source(out, small, kiln_stored_sizes[KILN_STORED_SMALL].longest, job, &first);
    source(out, medium, medium_px, job, &first);
    if (job->width <= medium_px && job->height <= medium_px)
        source(out, medium[0] ? "" : full, medium_px, job, &first);
    fputs(first ? "></a><figcaption><p dir=\"auto\">" : "\"></a><figcaption><p dir=\"auto\">", out);
    escape(out, job->prompt);
    fputs("</p>", out);
    facts(out, row);
    fputs("</figcaption></figure>\n", out);
}

void kiln_html_missing(FILE *out, const struct kiln_job_row *row, bool damaged)
{
    const struct kiln_job *job = &row->job;
    const char *done =
        damaged ? "picture missing from the store or damaged there" : "latent only, no picture";
    fprintf(out,
            "<figure class=\"missing\" id=\"j%llu\" style=\"--r:%.4f\"><b>%s</b>"
            "<p dir=\"auto\">",
            (unsigned long long)job->id, (double)job->width / (double)job->height,
            job->state == KILN_JOB_DONE ? done : kiln_job_state_name(job->state));
    escape(out, job->prompt);
    fputs("</p>", out);
    if (row->error && job->state != KILN_JOB_DONE) {
        fputs("<p class=\"error\">", out);
        escape(out, row->error);
        fputs("</p>", out);
    }
    facts(out, row);
    fputs("</figure>\n", out);
}

void kiln_html_end(FILE *out, uint64_t pictures, uint64_t jobs)
{
    char count[64];
    if (pictures == jobs)
        snprintf(count, sizeof count, "%llu picture%s", (unsigned long long)pictures,
                 pictures == 1 ? "" : "s");
    else
        snprintf(count, sizeof count, "%llu of %llu pictures", (unsigned long long)pictures,
                 (unsigned long long)jobs);
    fputs("</main>\n", out);
    put(out, VIEWER);
    fprintf(out, "<script>document.getElementById('count').dataset.all='%s'</script>\n<script>\n",
            count);
    put(out, SCRIPT);
    fputs("</script>\n</body>\n</html>\n", out);
}
