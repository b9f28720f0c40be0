/* picture.c - /p/ID: one picture, everything that the ledger knows of it, and its relations. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/gallery/jobs/send.h"
#include "scheduler/gallery/pages/related.h"
#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/files.h"
#include "scheduler/gallery/parts/html.h"
#include "scheduler/gallery/parts/layout.h"
#include "scheduler/gallery/parts/rated.h"
#include "scheduler/gallery/parts/recipe.h"
#include "scheduler/gallery/parts/tiles.h"
#include "schemas/job/line.h"
#include "schemas/reuse/class.h"
#include "schemas/route.h"
#include "storage/ledger/safety/verdict.h"

#define CHILDREN 24 /* the newest */

struct view {
    struct kiln_web_visit *visit;
    char prompt_hash[65];
    uint64_t parent;
    uint32_t variants, children;
    struct kiln_text history; /* of its levels, as items of a list */
};

/* --- the picture ------------------------------------------------------------------------------ */

static void add_source(struct view *view, uint64_t job, const struct kiln_gallery_object *object,
                       bool *first)
{
    struct kiln_text *out = &view->visit->reply.body;
    if (!object->key[0])
        return;
    kiln_text_puts(out, *first ? "" : ", ");
    kiln_gallery_file_url(kiln_gallery_app(view->visit)->files, job, object->key, false, 0, out);
    kiln_text_printf(out, " %uw", object->width);
    *first = false;
}

static void add_stage(struct view *view, const struct kiln_gallery_tile *tile)
{
    const struct kiln_gallery_files *files = kiln_gallery_app(view->visit)->files;
    struct kiln_text *out = &view->visit->reply.body;
    const char *key = tile->medium.key[0] ? tile->medium.key : tile->full.key;
    bool first = true;
    kiln_text_printf(out, "<div class=\"stage r%d\"><a href=\"",
                     kiln_gallery_ratio(tile->width, tile->height));
    kiln_gallery_file_url(files, tile->job, tile->full.key, false, 0, out);
    kiln_text_puts(out, "\" aria-label=\"Open the whole picture\"><img src=\"");
    kiln_gallery_file_url(files, tile->job, key, false, 0, out);
    kiln_text_puts(out, "\" srcset=\"");
    add_source(view, tile->job, &tile->small, &first);
    add_source(view, tile->job, &tile->medium, &first);
    add_source(view, tile->job, &tile->full, &first);
    kiln_text_printf(out,
                     "\" sizes=\"(min-width: 900px) 62vw, 100vw\" width=\"%u\" height=\"%u\" "
                     "fetchpriority=\"high\" alt=\"",
                     tile->width, tile->height);
    kiln_gallery_alt(out, tile->prompt);
    kiln_text_puts(out, "\"></a></div>");
}

/* A button that copies; the style sheet hides it where no scripts run. */
static void add_copy(struct kiln_text *out, const char *label, const char *key, const char *text)
{
    kiln_text_printf(out, "<button type=\"button\" class=\"copy\" data-key=\"%s\" data-copy=\"",
                     key);
    kiln_html_attr(out, text);
    kiln_text_printf(out, "\">%s</button>", label);
}

/* One of the two votes; the one that was given is taken back. */
static void add_vote(struct kiln_text *out, uint64_t job, int value, int vote)
{
    bool on = vote == value;
    kiln_text_printf(out,
                     "<form class=\"vote\" action=\"/vote\" method=\"post\">"
                     "<input type=\"hidden\" name=\"job\" value=\"%" PRIu64 "\">"
                     "<input type=\"hidden\" name=\"value\" value=\"%d\">"
                     "<button aria-pressed=\"%s\" aria-label=\"Vote %s1\"%s>%s1</button></form>",
                     job, on ? 0 : value, on ? "true" : "false", value > 0 ? "+" : "minus ",
                     on ? " class=\"on\"" : "", value > 0 ? "+" : "\xe2\x88\x92");
}

static void add_actions(struct view *view, const struct kiln_gallery_tile *tile, int vote,
                        const char *line, const char *command)
{
    struct kiln_text *out = &view->visit->reply.body;
    kiln_text_printf(out,
                     "<div class=\"actions\"><form class=\"star\" action=\"/star\" method=\"post\">"
                     "<input type=\"hidden\" name=\"job\" value=\"%" PRIu64 "\">"
                     "<input type=\"hidden\" name=\"on\" value=\"%d\"><button%s>"
                     "<span aria-hidden=\"true\">%s</span> %s</button></form>",
                     tile->job, !tile->starred, tile->starred ? " class=\"on\"" : "",
                     tile->starred ? "\xe2\x98\x85" : "\xe2\x98\x86",
                     tile->starred ? "Remove star" : "Star");
    add_vote(out, tile->job, 1, vote);
    add_vote(out, tile->job, -1, vote);
    add_copy(out, "Copy prompt", "c", tile->prompt);
    if (line)
        add_copy(out, "Copy job line", "j", line);
    if (command)
        add_copy(out, "Copy command", "r", command);
    kiln_text_printf(out, "<a class=\"button\" href=\"/compare?a=%" PRIu64 "\">Compare</a></div>",
                     tile->job);
}

static void add_download(struct view *view, uint64_t job, const struct kiln_object_row *object)
{
    struct kiln_text *out = &view->visit->reply.body;
    bool latent = strcmp(object->role, "latent") == 0;
    kiln_text_puts(out, "<li><a download href=\"");
    kiln_gallery_file_url(kiln_gallery_app(view->visit)->files, job, object->key, false, 0, out);
    kiln_text_puts(out, "?save=1\">");
    if (latent)
        kiln_text_puts(out, "Latent");
    else
        kiln_text_printf(out, "%u\xc3\x97%u", object->width, object->height);
    kiln_text_printf(out, " <small>%s, %.0f kB</small></a></li>", latent ? "zstd" : "WebP",
                     (double)object->bytes / 1000 < 1 ? 1.0 : (double)object->bytes / 1000);
}

/* --- its facts -------------------------------------------------------------------------------- */

static void add_fact(struct kiln_text *out, const char *name, const char *value)
{
    kiln_text_printf(out, "<div><dt>%s</dt><dd><bdi>", name);
    kiln_html(out, value);
    kiln_text_puts(out, "</bdi></dd></div>");
}

/* A value that is a filter of the gallery too. */
static void add_link_fact(struct kiln_text *out, const char *name, const char *filter,
                          const char *value)
{
    kiln_text_printf(out, "<div><dt>%s</dt><dd><a href=\"/?%s=", name, filter);
    kiln_url(out, value);
    kiln_text_puts(out, "\"><bdi>");
    kiln_html(out, value);
    kiln_text_puts(out, "</bdi></a></dd></div>");
}

static void add_loras(struct kiln_text *out, const struct kiln_job *job)
{
    if (job->lora_count == 0)
        return;
    kiln_text_printf(out, "<div><dt>%s</dt><dd>", job->lora_count == 1 ? "LoRA" : "LoRAs");
    for (uint32_t i = 0; i < job->lora_count; i++) {
        kiln_text_printf(out, "%s<a href=\"/?lora=", i ? ", " : "");
        kiln_url(out, job->loras[i].name);
        kiln_text_puts(out, "\">");
        kiln_html(out, job->loras[i].name);
        kiln_text_printf(out, "</a> \xc3\x97 %.4g", job->loras[i].scale);
    }
    kiln_text_puts(out, "</dd></div>");
}

/* The stored latent that the cache chose; not of a run that began from noise all the same. */
static void add_donor(struct kiln_text *out, const struct kiln_gallery_picture *picture)
{
    const struct kiln_job_row *row = picture->job;
    char saving[KILN_MODE_SAVING_MAX];
    if (!kiln_row_reused(row))
        return;
    kiln_text_puts(out, "<div><dt>Began from</dt><dd>");
    if (picture->donor)
        kiln_text_printf(out, "<a href=\"/p/%" PRIu64 "\">picture %" PRIu64 "</a>", picture->donor,
                         picture->donor);
    else
        kiln_text_puts(out, "a stored latent");
    kiln_text_printf(out, "%s %s</dd></div>", row->start_sigma > 0 ? "" : ",",
                     kiln_mode_saving(row->rendered_mode, row->start_sigma, row->own_forwards,
                                      row->forwards, saving, sizeof saving));
}

/* Why "auto" chose these LoRAs, and the words that it drew them with. */
static void add_route(struct kiln_text *out, const struct kiln_job *job)
{
    struct kiln_text words = {0};
    kiln_route_words(job, &words);
    if (words.at)
        add_fact(out, "Chosen", words.at);
    if (job->drawn)
        add_fact(out, "Drawn as", job->drawn);
    kiln_text_release(&words);
}

static void add_making(struct kiln_text *out, const struct kiln_gallery_picture *picture)
{
    const struct kiln_job_row *row = picture->job;
    const struct kiln_job *job = &row->job;
    char text[64];
    snprintf(text, sizeof text, "%ux%u", job->width, job->height);
    add_link_fact(out, "Size", "size", text);
    snprintf(text, sizeof text, "%u", job->steps);
    add_fact(out, "Steps", text);
    snprintf(text, sizeof text, "%" PRIu64, job->seed);
    add_fact(out, "Seed", text);
    if (job->guidance > 0) {
        snprintf(text, sizeof text, "%g", job->guidance);
        add_fact(out, "Guidance", text);
    }
    if (job->style)
        add_link_fact(out, "Style", "style", job->style);
    add_loras(out, job);
    add_route(out, job);
    add_fact(out, "Made", kiln_mode_shown(row->rendered_mode));
    add_donor(out, picture);
    if (picture->made.model_name[0])
        add_link_fact(out, "Model", "model", picture->made.model_name);
    snprintf(text, sizeof text, "%.12s", picture->made.model_hash);
    add_fact(out, "Model hash", text);
}

static void add_origin(struct kiln_text *out, const struct kiln_gallery_picture *picture)
{
    const struct kiln_job *job = &picture->job->job;
    char text[64];
    add_link_fact(out, "Batch", "batch", job->batch);
    snprintf(text, sizeof text, "%u", job->index);
    add_fact(out, "Index", text);
    if (job->custom_id)
        add_fact(out, "Custom id", job->custom_id);
    add_link_fact(out, "Tenant", "tenant", job->tenant);
    add_fact(out, "Worker", picture->job->worker);
    kiln_text_puts(out, "<div><dt>Created</dt><dd>");
    kiln_html_time(out, picture->tile.created_ms);
    kiln_text_puts(out, "</dd></div>");
}

static void add_rating(struct view *view, const struct kiln_gallery_picture *picture)
{
    struct kiln_text *out = &view->visit->reply.body;
    kiln_text_puts(out, "<div><dt>Rated</dt><dd><bdi>");
    kiln_gallery_rated(out, kiln_gallery_app(view->visit), picture->tile.level,
                       picture->safety_source, picture->safety_score);
    kiln_text_puts(out, "</bdi></dd></div>");
}

/* A line of the history of its levels. */
static int add_verdict(void *arg, int64_t at_ms, const struct kiln_verdict *verdict,
                       struct kiln_error *err)
{
    struct view *view = arg;
    struct kiln_gallery_app all = *kiln_gallery_app(view->visit);
    struct kiln_text *out = &view->history;
    (void)err;
    all.level_max = KILN_SAFETY_LEVELS - 1; /* what each said, whatever is hidden now */
    kiln_text_puts(out, "<li>");
    kiln_html_time(out, at_ms);
    kiln_text_puts(out, ": ");
    if (verdict->level < 0) {
        kiln_text_puts(out, "taken back, by ");
        kiln_html(out, verdict->source);
    } else {
        kiln_gallery_rated(out, &all, verdict->level, verdict->source, verdict->score);
    }
    kiln_text_puts(out, "</li>");
    return 0;
}

static void add_times(struct kiln_text *out, const struct kiln_made *made)
{
    const struct {
        const char *name;
        double ms;
    } stages[] = {{"Waiting", made->wait_ms},    {"Text", made->text_ms},
                  {"Steps", made->denoise_ms},   {"Decoding", made->decode_ms},
                  {"Encoding", made->encode_ms}, {"Upload", made->upload_ms}};
    kiln_text_puts(out, "<details><summary>Time of each stage</summary><dl>");
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        kiln_text_printf(out, "<div><dt>%s</dt><dd>%.*f %s</dd></div>", stages[i].name,
                         stages[i].ms < 10000 ? 0 : 1,
                         stages[i].ms < 10000 ? stages[i].ms : stages[i].ms / 1000,
                         stages[i].ms < 10000 ? "ms" : "s");
    kiln_text_puts(out, "</dl></details>");
}

static void add_code(struct kiln_text *out, const char *title, const char *code)
{
    if (!code)
        return;
    kiln_text_printf(out, "<details><summary>%s</summary><pre tabindex=\"0\"><code dir=\"ltr\">",
                     title);
    kiln_html(out, code);
    kiln_text_puts(out, "</code></pre></details>");
}

static void add_facts(struct view *view, const struct kiln_gallery_picture *picture,
                      const char *line, const char *command)
{
    struct kiln_text *out = &view->visit->reply.body;
    const struct kiln_job *job = &picture->job->job;
    kiln_text_puts(out, "<dl>");
    add_making(out, picture);
    kiln_text_puts(out, "</dl><dl>");
    add_origin(out, picture);
    add_rating(view, picture);
    kiln_text_puts(out, "</dl>");
    if (kiln_gallery_app(view->visit)->review) {
        kiln_text_puts(out, "<h2>Your decision</h2>");
        kiln_gallery_verdict_form(out, job->id, picture->tile.level, NULL, NULL);
    }
    if (job->negative_prompt[0]) {
        kiln_text_puts(out, "<h2>Negative prompt</h2><p class=\"text\" dir=\"auto\">");
        kiln_html(out, job->negative_prompt);
        kiln_text_puts(out, "</p>");
    }
    kiln_text_puts(out, "<h2>Files</h2><ul class=\"files\">");
    for (uint32_t i = 0; i < picture->job->object_count; i++)
        add_download(view, job->id, &picture->job->objects[i]);
    kiln_text_puts(out, "</ul>");
    if (view->history.len)
        kiln_text_printf(out, "<details><summary>Levels so far</summary><ol>%s</ol></details>",
                         view->history.at);
    add_times(out, &picture->made);
    add_code(out, "Job line", line);
    add_code(out, "Command", command);
}

static int add_picture(void *arg, const struct kiln_gallery_picture *picture,
                       struct kiln_error *err)
{
    struct view *view = arg;
    const struct kiln_gallery_tile *tile = &picture->tile;
    struct kiln_text *out = &view->visit->reply.body, line = {0}, command = {0};
    char title[64];
    (void)err;
    snprintf(view->prompt_hash, sizeof view->prompt_hash, "%s", tile->prompt_hash);
    view->parent = picture->parent;
    view->variants = picture->variants;
    view->children = picture->children;
    snprintf(title, sizeof title, "Picture %" PRIu64, tile->job);
    (void)kiln_job_line_again(&picture->job->job, &line);
    (void)kiln_gallery_command(picture->job, &command);
    kiln_gallery_begin(view->visit, &(struct kiln_gallery_page_head){.title = title, .wide = true});
    kiln_text_printf(out, "<article class=\"picture\" data-job=\"%" PRIu64 "\">", tile->job);
    add_stage(view, tile);
    kiln_text_printf(out, "<div class=\"about\"><h1>%s</h1><p class=\"text prompt\" dir=\"auto\">",
                     title);
    kiln_html(out, tile->prompt);
    kiln_text_puts(out, "</p>");
    add_actions(view, tile, picture->vote, line.at, command.at);
    kiln_gallery_again_form(view->visit, &picture->job->job, out);
    add_facts(view, picture, line.at, command.at);
    kiln_text_puts(out, "</div></article>");
    kiln_text_release(&line);
    kiln_text_release(&command);
    return 0;
}

/* --- its relations ---------------------------------------------------------------------------- */

static int add_parent(struct view *view, struct kiln_error *err)
{
    const struct kiln_gallery_filter filter = kiln_gallery_all(kiln_gallery_app(view->visit));
    struct kiln_gallery_grid grid;
    if (!view->parent)
        return 0;
    kiln_text_printf(&view->visit->reply.body,
                     "<section class=\"related\"><h2>Made from picture %" PRIu64 "</h2>",
                     view->parent);
    kiln_gallery_grid_begin(&grid, view->visit, "Made from");
    int rc = kiln_gallery_tiles(view->visit->session, &filter, &view->parent, 1,
                                kiln_gallery_grid_add, &grid, err);
    kiln_gallery_grid_end(&grid);
    kiln_text_puts(&view->visit->reply.body, "</section>");
    return rc;
}

static int add_children(struct view *view, uint64_t job, struct kiln_error *err)
{
    const struct kiln_gallery_filter filter = kiln_gallery_all(kiln_gallery_app(view->visit));
    struct kiln_text *out = &view->visit->reply.body;
    struct kiln_gallery_grid grid;
    if (!view->children)
        return 0;
    kiln_text_printf(out,
                     "<section class=\"related\"><h2>Made from this <small>%u%s %s</small></h2>",
                     view->children, view->children >= KILN_GALLERY_COUNT_MAX ? "+" : "",
                     view->children == 1 ? "picture" : "pictures");
    kiln_gallery_grid_begin(&grid, view->visit, "Made from this");
    int rc = kiln_gallery_children(view->visit->session, &filter, job, CHILDREN,
                                   kiln_gallery_grid_add, &grid, err);
    kiln_gallery_grid_end(&grid);
    kiln_text_puts(out, "</section>");
    return rc;
}

int kiln_gallery_view(struct kiln_web_visit *visit, struct kiln_error *err)
{
    const struct kiln_gallery_app *app = kiln_gallery_app(visit);
    const struct kiln_gallery_filter filter = kiln_gallery_any(app);
    struct view view = {.visit = visit};
    const char *id = kiln_web_rest(visit);
    uint64_t job;
    if (!kiln_web_id(id, strlen(id), &job))
        return kiln_web_not_found(visit, err);
    int rc = kiln_ledger_verdicts(visit->session, app->pool, job, add_verdict, &view, err);
    rc = rc ? rc : kiln_gallery_picture(visit->session, &filter, job, add_picture, &view, err);
    kiln_text_release(&view.history);
    rc = rc ? rc : add_parent(&view, err);
    rc = rc ? rc : add_children(&view, job, err);
    rc = rc ? rc : kiln_gallery_add_related(visit, job, view.prompt_hash, view.variants, err);
    if (rc)
        return rc;
    kiln_gallery_end(visit);
    return 0;
}
