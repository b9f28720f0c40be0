/* review.c - /review: pictures that a person should look at; POST /verdict: what that person says.
 *
 * Only with the setting gallery_review: these pages show what all others hide.  They work without a
 * script: a picture is blurred by the style sheet until it has the focus, a button posts its form,
 * and the next page offers to undo that.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/files.h"
#include "scheduler/gallery/parts/html.h"
#include "scheduler/gallery/parts/layout.h"
#include "scheduler/gallery/parts/rated.h"
#include "scheduler/gallery/parts/tiles.h"
#include "storage/ledger/safety/review.h"
#include "storage/ledger/safety/verdict.h"

#define CASES 24
#define COUNT_MAX 1000
#define SOURCE "person:gallery" /* who it is, a gallery does not know */

static const char *const lists[] = {
    [KILN_REVIEW_WAITING] = "waiting", [KILN_REVIEW_DECIDED] = "decided", NULL};

struct review {
    struct kiln_web_visit *visit;
    enum kiln_review_list list;
    const char *after; /* where this page begins; NULL: at the beginning */
    struct kiln_page page;
    uint64_t jobs[CASES];
    struct {
        int level;
        double score;
        char source[128];
    } rated[CASES];
    uint32_t count, at;
};

static int find_word(const char *const *words, const char *text)
{
    for (int i = 0; text && words[i]; i++)
        if (strcmp(words[i], text) == 0)
            return i;
    return -1;
}

static int refuse(const struct kiln_gallery_app *app, struct kiln_error *err)
{
    return app->review ? 0
                       : kiln_fail(err, KILN_DENIED,
                                   "pictures are not reviewed here: gallery_review is off");
}

/* "JOB-LEVEL": the picture that was decided on, and what a person had said of it before. */
static bool read_undo(const char *text, uint64_t *ret_job, int *ret_level)
{
    const char *dash = text ? strchr(text, '-') : NULL;
    if (!dash || !kiln_web_id(text, (size_t)(dash - text), ret_job))
        return false;
    *ret_level = find_word(kiln_safety_level_names, dash + 1);
    return *ret_level >= 0 || strcmp(dash + 1, "none") == 0;
}

/* --- the page --------------------------------------------------------------------------------- */

static int note_row(void *arg, const struct kiln_review_row *row, struct kiln_error *err)
{
    struct review *review = arg;
    (void)err;
    review->jobs[review->count] = row->job;
    review->rated[review->count].level = row->level;
    review->rated[review->count].score = row->score;
    snprintf(review->rated[review->count].source, sizeof review->rated->source, "%s",
             row->source ? row->source : "");
    review->count++;
    return 0;
}

static void add_image(struct review *review, const struct kiln_gallery_tile *tile)
{
    const struct kiln_gallery_files *files = kiln_gallery_app(review->visit)->files;
    const struct kiln_gallery_object *object = tile->medium.key[0]  ? &tile->medium
                                               : tile->small.key[0] ? &tile->small
                                                                    : &tile->full;
    struct kiln_text *out = &review->visit->reply.body;
    kiln_text_puts(out, "<img src=\"");
    kiln_gallery_file_url(files, tile->job, object->key, false, 0, out);
    kiln_text_printf(out,
                     "\" width=\"%u\" height=\"%u\" decoding=\"async\" loading=\"lazy\" alt=\"",
                     tile->width, tile->height);
    kiln_gallery_alt(out, tile->prompt);
    kiln_text_puts(out, "\">");
}

/* A tile comes in the order of the rows; one whose picture has gone meanwhile does not come. */
static int add_case(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    struct review *review = arg;
    struct kiln_text *out = &review->visit->reply.body;
    (void)err;
    while (review->at < review->count && review->jobs[review->at] != tile->job)
        review->at++;
    if (review->at == review->count)
        return 0;
    kiln_text_printf(out,
                     "<li class=\"case\" data-job=\"%" PRIu64 "\"><div class=\"look\" "
                     "tabindex=\"0\" role=\"group\" aria-label=\"Picture %" PRIu64 "\">",
                     tile->job, tile->job);
    add_image(review, tile);
    kiln_text_puts(out, "</div><p class=\"prompt\" dir=\"auto\">");
    kiln_html_cut(out, tile->prompt, 300);
    kiln_text_printf(out, "</p><p><a href=\"/p/%" PRIu64 "\">Picture %" PRIu64 "</a>: ", tile->job,
                     tile->job);
    kiln_gallery_rated(out, kiln_gallery_app(review->visit), review->rated[review->at].level,
                       review->rated[review->at].source, review->rated[review->at].score);
    kiln_text_puts(out, "</p>");
    kiln_gallery_verdict_form(out, tile->job, review->rated[review->at].level, lists[review->list],
                              review->after);
    kiln_text_puts(out, "</li>\n");
    return 0;
}

static int add_count(struct review *review, struct kiln_error *err)
{
    struct kiln_text *out = &review->visit->reply.body;
    uint32_t waiting = 0;
    int rc = kiln_ledger_review_count(review->visit->session, kiln_gallery_app(review->visit)->pool,
                                      COUNT_MAX + 1, &waiting, err);
    bool many = waiting > COUNT_MAX;
    kiln_text_puts(out, "<p>");
    kiln_html_count(out, many ? COUNT_MAX : waiting);
    kiln_text_printf(out, "%s picture%s. ", many ? "+" : "", waiting == 1 ? " waits" : "s wait");
    kiln_text_puts(out, "A rule about words or a classifier marked what waits here, and no "
                        "person has decided. A picture is blurred until it has the focus.</p>");
    return rc;
}

/* What was decided a moment ago may be undone: the person's opinion becomes what it was. */
static void add_undo(struct review *review)
{
    struct kiln_text *out = &review->visit->reply.body;
    uint64_t job;
    int level;
    if (!read_undo(kiln_web_arg(review->visit->args, "undo"), &job, &level))
        return;
    kiln_text_printf(out,
                     "<form class=\"undo\" action=\"/verdict\" method=\"post\"><p>You decided on "
                     "<a href=\"/p/%" PRIu64 "\">picture %" PRIu64 "</a>. <input type=\"hidden\" "
                     "name=\"job\" value=\"%" PRIu64 "\"><input type=\"hidden\" name=\"list\" "
                     "value=\"%s\"><input type=\"hidden\" name=\"after\" value=\"",
                     job, job, job, lists[review->list]);
    kiln_html_attr(out, review->after ? review->after : "");
    kiln_text_printf(out,
                     "\"><button name=\"level\" value=\"%s\" data-key=\"u\">Undo</button></p>"
                     "</form>",
                     level >= 0 ? kiln_safety_level_names[level] : "none");
}

static void add_head(struct review *review)
{
    struct kiln_text *out = &review->visit->reply.body;
    const struct kiln_gallery_app *app = kiln_gallery_app(review->visit);
    bool waiting = review->list == KILN_REVIEW_WAITING;
    kiln_gallery_begin(review->visit, &(struct kiln_gallery_page_head){
                                          .title = "Review", .here = "review", .wide = true});
    kiln_text_printf(out, "<script src=\"%s\" defer></script><h1>Review</h1>",
                     app->assets[KILN_ASSET_REVIEW].path);
    kiln_text_printf(out,
                     "<nav class=\"row\" aria-label=\"Lists\"><a class=\"button quiet\" "
                     "href=\"/review\"%s>Waiting</a> <a class=\"button quiet\" "
                     "href=\"/review?list=decided\"%s>Decided</a></nav>",
                     waiting ? " aria-current=\"page\"" : "",
                     waiting ? "" : " aria-current=\"page\"");
}

static void add_next(struct review *review)
{
    char after[KILN_PAGE_TEXT_MAX];
    if (!review->page.more)
        return;
    kiln_page_text(&review->page, after);
    kiln_text_printf(&review->visit->reply.body,
                     "<p><a class=\"button\" rel=\"next\" href=\"/review?list=%s&amp;after=%s\">"
                     "More</a></p>",
                     lists[review->list], after);
}

int kiln_gallery_review(struct kiln_web_visit *visit, struct kiln_error *err)
{
    const struct kiln_gallery_app *app = kiln_gallery_app(visit);
    const struct kiln_gallery_filter filter = kiln_gallery_any(app);
    const char *list = kiln_web_arg(visit->args, "list");
    struct review review = {.visit = visit,
                            .page = {.rows_max = CASES, .keys = 1, .after = {INT64_MAX}}};
    struct kiln_text *out = &visit->reply.body;
    int found = list ? find_word(lists, list) : KILN_REVIEW_WAITING;
    int rc = refuse(app, err);
    if (rc == 0 && found < 0)
        rc = kiln_fail(err, KILN_BAD_INPUT, "list is \"%.40s\"; it must be waiting or decided",
                       list);
    review.list = found < 0 ? KILN_REVIEW_WAITING : (enum kiln_review_list)found;
    review.after = kiln_web_arg(visit->args, "after");
    if (rc == 0 && review.after)
        rc = kiln_page_resume(&review.page, review.after, err);
    rc = rc ? rc
            : kiln_ledger_review(visit->session, app->pool, review.list, &review.page, note_row,
                                 &review, err);
    if (rc)
        return rc;
    visit->reply.cache = "no-store";
    add_head(&review);
    if (review.list == KILN_REVIEW_WAITING)
        rc = add_count(&review, err);
    add_undo(&review);
    kiln_text_puts(out, "<ul class=\"cases\" aria-label=\"Pictures\">");
    if (rc == 0 && review.count > 0)
        rc = kiln_gallery_tiles(visit->session, &filter, review.jobs, review.count, add_case,
                                &review, err);
    kiln_text_puts(out, "</ul>");
    if (review.count == 0)
        kiln_text_puts(out, review.list == KILN_REVIEW_WAITING
                                ? "<p>Nothing waits for a review.</p>"
                                : "<p>No person has decided on a picture yet.</p>");
    add_next(&review);
    kiln_gallery_end(visit);
    return rc;
}

/* --- POST /verdict ---------------------------------------------------------------------------- */

/* The newest opinion of a person; the list is newest first. */
static int note_verdict(void *arg, int64_t at_ms, const struct kiln_verdict *verdict,
                        struct kiln_error *err)
{
    int *before = arg;
    (void)at_ms, (void)err;
    if (verdict->rank == KILN_VERDICT_PERSON && *before == KILN_SAFETY_LEVELS)
        *before = verdict->level;
    return 0;
}

static int go_back(struct kiln_web_visit *visit, uint64_t job, int before, struct kiln_error *err)
{
    const char *list = kiln_web_arg(visit->form, "list"),
               *after = kiln_web_arg(visit->form, "after");
    struct kiln_page page = {.keys = 1};
    char back[256], behind[KILN_PAGE_TEXT_MAX + 8] = "";
    int found = find_word(lists, list);
    if (found < 0) {
        snprintf(back, sizeof back, "/p/%" PRIu64, job);
        return kiln_web_redirect(visit, back, err);
    }
    if (after && kiln_page_resume(&page, after, err) == 0)
        snprintf(behind, sizeof behind, "&after=%s", after);
    snprintf(back, sizeof back, "/review?list=%s%s&undo=%" PRIu64 "-%s", lists[found], behind, job,
             before >= 0 && before < KILN_SAFETY_LEVELS ? kiln_safety_level_names[before] : "none");
    return kiln_web_redirect(visit, back, err);
}

int kiln_gallery_verdict(struct kiln_web_visit *visit, struct kiln_error *err)
{
    const struct kiln_gallery_app *app = kiln_gallery_app(visit);
    const char *id = kiln_web_arg(visit->form, "job"), *level = kiln_web_arg(visit->form, "level");
    struct kiln_verdict verdict = {.rank = KILN_VERDICT_PERSON, .source = SOURCE};
    int before = KILN_SAFETY_LEVELS, now, rc = refuse(app, err);
    if (rc)
        return rc;
    if (!id || !kiln_web_id(id, strlen(id), &verdict.job))
        return kiln_fail(err, KILN_BAD_INPUT, "the form names no picture");
    verdict.level = find_word(kiln_safety_level_names, level);
    if (verdict.level < 0 && !(level && strcmp(level, "none") == 0))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "the field \"level\" must be clear, unsure, mature, explicit or none");
    rc = kiln_ledger_verdicts(visit->session, app->pool, verdict.job, note_verdict, &before, err);
    rc = rc ? rc : kiln_ledger_judge(visit->writer, app->pool, &verdict, &now, err);
    return rc ? rc : go_back(visit, verdict.job, before, err);
}
