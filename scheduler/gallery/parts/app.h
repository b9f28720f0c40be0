/* app.h - what all pages of the gallery share. */
#ifndef KILN_GALLERY_APP_H
#define KILN_GALLERY_APP_H

#include "scheduler/gallery/alike/alike.h"
#include "scheduler/gallery/meaning/keeper.h"
#include "scheduler/gallery/web/access.h"
#include "scheduler/gallery/web/visit.h"
#include "storage/ledger/gallery/gallery.h"

struct kiln_cli;
struct kiln_gallery_files;

#define KILN_GALLERY_TILES 48 /* on a page */

struct kiln_gallery_asset {
    const char *name, *type;
    char *text;
    size_t size;
    char path[64]; /* its address, with a hash of the text in it: kept for ever by browsers */
};
enum kiln_gallery_asset_name {
    KILN_ASSET_STYLE,
    KILN_ASSET_SCRIPT,
    KILN_ASSET_ICON,
    KILN_ASSET_REVIEW,
    KILN_ASSETS
};

struct kiln_gallery_app {
    struct kiln_cli *cli; /* the settings */
    const char *pool;
    const struct kiln_web_access *access;
    struct kiln_gallery_files *files;
    struct kiln_keeper *keeper; /* search by meaning */
    struct kiln_alike *alike;   /* near-duplicates */
    struct kiln_gallery_asset assets[KILN_ASSETS];
    int level_max;       /* enum kiln_safety_level: pictures above it are never shown */
    bool show_unchecked; /* those that nobody has looked at */
    bool review;         /* people decide on levels here, and see what is hidden to do so */
};

static inline struct kiln_gallery_app *kiln_gallery_app(const struct kiln_web_visit *visit)
{
    return visit->app;
}

/* The filter that lets through what this server may show at all. */
static inline struct kiln_gallery_filter kiln_gallery_all(const struct kiln_gallery_app *app)
{
    return (struct kiln_gallery_filter){
        .pool = app->pool, .level_max = app->level_max, .show_unchecked = app->show_unchecked};
}

/* The filter of a picture that is asked for by its number: a reviewer sees every one. */
static inline struct kiln_gallery_filter kiln_gallery_any(const struct kiln_gallery_app *app)
{
    struct kiln_gallery_filter filter = kiln_gallery_all(app);
    if (app->review)
        filter.level_max = KILN_SAFETY_LEVELS - 1, filter.show_unchecked = true;
    return filter;
}

/* --- assets.c --------------------------------------------------------------------------------- */
int kiln_gallery_assets_load(struct kiln_gallery_app *app, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_gallery_assets_release(struct kiln_gallery_app *app);
kiln_web_handler kiln_gallery_asset;
/* The class of a tile with this ratio of width to height: the style sheet has one for each step of
 * 4 %, since the content policy forbids styles in the page. */
#define KILN_RATIO_STEPS 40 /* to either side of 1 */
int kiln_gallery_ratio(uint32_t width, uint32_t height);
/* Likewise the class of a colour, 0xRRGGBB: one of 216, by which a tile is filled until its picture
 * is there. */
int kiln_gallery_shade(int32_t colour);

#endif
