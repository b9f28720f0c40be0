/* related.c - see related.h. */
#include "scheduler/gallery/pages/related.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/ask.h"
#include "scheduler/gallery/parts/json.h"
#include "scheduler/gallery/parts/tiles.h"
#include "storage/ledger/gallery/fingerprints.h"

#define SHOWN 12     /* pictures of a relation */
#define LOOKED_AT 48 /* found, of which some may be hidden */

/* The relations of one picture, written one after the other. */
struct related {
    struct kiln_web_visit *visit;
    struct kiln_gallery_filter filter;
    uint64_t job;
    bool json;
    uint64_t same[LOOKED_AT];
    uint32_t same_count;
    struct kiln_near_hit near[LOOKED_AT];
    uint32_t near_count;
    enum kiln_alike_known known;
    struct kiln_gallery_grid grid; /* of the relation in work */
    uint32_t count;                /* of its pictures */
    bool skip_same, is_near;
};

static bool is_same(const struct related *related, uint64_t job)
{
    for (uint32_t i = 0; i < related->same_count; i++)
        if (related->same[i] == job)
            return true;
    return job == related->job;
}

static int distance_of(const struct related *related, uint64_t job)
{
    uint32_t i = 0;
    while (i < related->near_count && related->near[i].job != job)
        i++;
    return i < related->near_count ? related->near[i].distance : 0;
}

static int add(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    struct related *related = arg;
    struct kiln_text *out = &related->visit->reply.body;
    if (related->count == SHOWN || (related->skip_same && is_same(related, tile->job)))
        return 0;
    related->count++;
    if (!related->json)
        return kiln_gallery_grid_add(&related->grid, tile, err);
    kiln_text_puts(out, related->count > 1 ? ",\n" : "\n");
    kiln_json_tile(out, kiln_gallery_app(related->visit)->files, tile);
    if (related->is_near && !out->failed) {
        out->len--; /* the object goes on */
        kiln_json_number(out, "distance", (uint64_t)distance_of(related, tile->job));
        kiln_text_puts(out, "}");
    }
    return 0;
}

/* --- finding ---------------------------------------------------------------------------------- */
static int find(struct related *related, struct kiln_error *err)
{
    struct kiln_web_visit *visit = related->visit;
    int rc = kiln_gallery_same(visit->session, &related->filter, related->job, LOOKED_AT,
                               related->same, &related->same_count, err);
    return rc ? rc
              : kiln_alike_near(kiln_gallery_app(visit)->alike, visit->session, related->job,
                                related->near, LOOKED_AT, &related->near_count, &related->known,
                                err);
}

static int add_same(struct related *related, struct kiln_error *err)
{
    related->skip_same = false;
    return kiln_gallery_tiles(related->visit->session, &related->filter, related->same,
                              related->same_count, add, related, err);
}

static int add_variants(struct related *related, const char *prompt_hash, struct kiln_error *err)
{
    struct kiln_gallery_query query = {.filter = related->filter, .rows_max = SHOWN + LOOKED_AT};
    struct kiln_gallery_page page;
    query.filter.prompt_hash = prompt_hash;
    return kiln_gallery_list(related->visit->session, &query, add, related, &page, err);
}

static int add_near(struct related *related, struct kiln_error *err)
{
    uint64_t jobs[LOOKED_AT];
    for (uint32_t i = 0; i < related->near_count; i++)
        jobs[i] = related->near[i].job;
    related->is_near = true;
    int rc = kiln_gallery_tiles(related->visit->session, &related->filter, jobs,
                                related->near_count, add, related, err);
    related->is_near = false;
    return rc;
}

static int add_similar(struct related *related, struct kiln_error *err)
{
    struct kiln_mixed *mixed = kiln_keeper_mixed(kiln_gallery_app(related->visit)->keeper);
    return mixed ? kiln_mixed_similar(mixed, related->visit->session, &related->filter,
                                      related->job, SHOWN, add, related, err)
                 : 0;
}

/* --- as a page -------------------------------------------------------------------------------- */
static void begin_section(struct related *related, const char *title, const char *note)
{
    struct kiln_text *out = &related->visit->reply.body;
    related->count = 0;
    related->skip_same = true;
    kiln_text_printf(out, "<section class=\"related\"><h2>%s <small>%s</small></h2>", title, note);
    kiln_gallery_grid_begin(&related->grid, related->visit, title);
}

/* A relation without pictures leaves nothing; `before` is where its section began. */
static void end_section(struct related *related, size_t before, const char *more)
{
    struct kiln_text *out = &related->visit->reply.body;
    kiln_gallery_grid_end(&related->grid);
    kiln_text_printf(out, "%s</section>", more);
    if (related->count == 0 && !out->failed) {
        out->len = before;
        out->at[before] = '\0';
    }
}

int kiln_gallery_add_related(struct kiln_web_visit *visit, uint64_t job, const char *prompt_hash,
                             uint32_t variants, struct kiln_error *err)
{
    struct related related = {
        .visit = visit, .filter = kiln_gallery_all(kiln_gallery_app(visit)), .job = job};
    const struct kiln_text *out = &visit->reply.body;
    char more[256];
    int rc = find(&related, err);
    size_t before = out->len;
    begin_section(&related, "The same picture", "an equal file, or the same prompt and settings");
    rc = rc ? rc : add_same(&related, err);
    end_section(&related, before, "");
    before = out->len;
    begin_section(&related, "Variants", "the same prompt with other seeds or settings");
    if (rc == 0 && variants > 0)
        rc = add_variants(&related, prompt_hash, err);
    int len = snprintf(more, sizeof more,
                       "<p><a href=\"/compare?a=%" PRIu64 "\">Compare with a variant</a>", job);
    if (variants > related.count)
        snprintf(more + len, sizeof more - (size_t)len,
                 "</p><p><a href=\"/?same=%s\">All %u%s variants</a>", prompt_hash, variants,
                 variants >= KILN_GALLERY_COUNT_MAX ? "+" : "");
    end_section(&related, before, more);
    before = out->len;
    begin_section(&related, "Near-duplicates", "pictures that look almost like this one");
    rc = rc ? rc : add_near(&related, err);
    end_section(&related, before, "");
    before = out->len;
    begin_section(&related, "Similar", "other prompts that mean much the same");
    rc = rc ? rc : add_similar(&related, err);
    end_section(&related, before, "");
    return rc;
}

/* --- as JSON ---------------------------------------------------------------------------------- */
struct subject {
    char prompt_hash[65];
};

static int note_subject(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    struct subject *subject = arg;
    (void)err;
    snprintf(subject->prompt_hash, sizeof subject->prompt_hash, "%s", tile->prompt_hash);
    return 0;
}

static void begin_list(struct related *related, const char *name)
{
    related->count = 0;
    related->skip_same = true;
    kiln_text_printf(&related->visit->reply.body, ",\"%s\":[", name);
}

int kiln_gallery_api_alike(struct kiln_web_visit *visit, struct kiln_error *err)
{
    static const char *const known[] = {"not yet", "too plain", "yes"};
    struct related related = {
        .visit = visit, .filter = kiln_gallery_all(kiln_gallery_app(visit)), .json = true};
    struct kiln_text *out = &visit->reply.body;
    struct subject subject = {""};
    const char *id = kiln_web_rest(visit);
    visit->reply.type = "application/json";
    if (!kiln_web_id(id, strlen(id), &related.job))
        return kiln_fail(err, KILN_NOT_FOUND, "\"%.40s\" is not the number of a job", id);
    int rc = kiln_gallery_ask_only(visit->args, false, KILN_ASK_NOTHING, err);
    rc = rc ? rc
            : kiln_gallery_tiles(visit->session, &related.filter, &related.job, 1, note_subject,
                                 &subject, err);
    if (rc == 0 && !subject.prompt_hash[0])
        return kiln_fail(err, KILN_NOT_FOUND, "there is no picture of this job");
    rc = rc ? rc : find(&related, err);
    kiln_text_puts(out, "{");
    kiln_json_number(out, "job", related.job);
    kiln_json_text(out, "compared", known[related.known]);
    begin_list(&related, "same");
    rc = rc ? rc : add_same(&related, err);
    kiln_text_puts(out, "]");
    begin_list(&related, "variants");
    rc = rc ? rc : add_variants(&related, subject.prompt_hash, err);
    kiln_text_puts(out, "]");
    begin_list(&related, "near_duplicates");
    rc = rc ? rc : add_near(&related, err);
    kiln_text_puts(out, "]");
    begin_list(&related, "similar");
    rc = rc ? rc : add_similar(&related, err);
    kiln_text_puts(out, "]}\n");
    return rc;
}
