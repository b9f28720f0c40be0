/* assets.c - style sheet, script and icon: built in, with their hash in the address. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/gallery/parts/app.h"
#include "schemas/digest.h"
#include "schemas/embedded.h"

#define RATIO_STEP 1.04
#define SHADES 6 /* of each channel */
#define HASH_BYTES 6

int kiln_gallery_ratio(uint32_t width, uint32_t height)
{
    if (width == 0 || height == 0)
        return KILN_RATIO_STEPS;
    long step = lround(log((double)width / height) / log(RATIO_STEP));
    step = step < -KILN_RATIO_STEPS ? -KILN_RATIO_STEPS : step;
    step = step > KILN_RATIO_STEPS ? KILN_RATIO_STEPS : step;
    return (int)step + KILN_RATIO_STEPS;
}

static const struct kiln_embedded *find_file(const char *name)
{
    static const struct kiln_embedded *const all[] = {kiln_embedded_page, kiln_embedded_gallery};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (const struct kiln_embedded *file = all[i]; file->name; file++)
            if (strcmp(file->name, name) == 0)
                return file;
    return NULL;
}

int kiln_gallery_shade(int32_t colour)
{
    int shade = 0;
    for (int shift = 16; shift >= 0; shift -= 8)
        shade = shade * SHADES + (((colour >> shift) & 255) * (SHADES - 1) + 127) / 255;
    return shade;
}

/* What no hand would write: a class for each ratio, and one for each shade. */
static void add_classes(struct kiln_text *text)
{
    static const char level[] = "0369cf"; /* SHADES of them, evenly from 0 to 255 */
    for (int shade = 0; shade < SHADES * SHADES * SHADES; shade++)
        kiln_text_printf(text, ".k%d{--k:#%c%c%c}\n", shade, level[shade / (SHADES * SHADES)],
                         level[shade / SHADES % SHADES], level[shade % SHADES]);
    for (int step = 0; step <= 2 * KILN_RATIO_STEPS; step++)
        kiln_text_printf(text, ".r%d{--r:%.3f}\n", step, pow(RATIO_STEP, step - KILN_RATIO_STEPS));
}

int kiln_gallery_assets_load(struct kiln_gallery_app *app, struct kiln_error *err)
{
    static const struct {
        const char *file, *name, *ending, *type;
    } rows[KILN_ASSETS] = {
        [KILN_ASSET_STYLE] = {"style.css", "style", "css", "text/css; charset=utf-8"},
        [KILN_ASSET_SCRIPT] = {"script.js", "script", "js", "text/javascript; charset=utf-8"},
        [KILN_ASSET_ICON] = {"icon.svg", "icon", "svg", "image/svg+xml"},
        [KILN_ASSET_REVIEW] = {"review.js", "review", "js", "text/javascript; charset=utf-8"},
    };
    for (int i = 0; i < KILN_ASSETS; i++) {
        struct kiln_gallery_asset *asset = &app->assets[i];
        const struct kiln_embedded *file = find_file(rows[i].file);
        struct kiln_text text = {0};
        if (!file)
            return kiln_fail(err, KILN_INTERNAL, "%s is not built in", rows[i].file);
        kiln_text_add(&text, file->text, file->size);
        if (i == KILN_ASSET_STYLE)
            add_classes(&text);
        asset->size = text.len;
        asset->text = kiln_text_take(&text);
        if (!asset->text)
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for %s", rows[i].file);
        uint8_t digest[KILN_SHA256_SIZE];
        char hex[2 * HASH_BYTES + 1];
        kiln_sha256(asset->text, asset->size, digest);
        kiln_hex(digest, HASH_BYTES, hex);
        asset->name = rows[i].name;
        asset->type = rows[i].type;
        snprintf(asset->path, sizeof asset->path, "/a/%s-%s.%s", rows[i].name, hex, rows[i].ending);
    }
    return 0;
}

void kiln_gallery_assets_release(struct kiln_gallery_app *app)
{
    for (int i = 0; i < KILN_ASSETS; i++)
        free(app->assets[i].text);
}

int kiln_gallery_asset(struct kiln_web_visit *visit, struct kiln_error *err)
{
    const struct kiln_gallery_app *app = kiln_gallery_app(visit);
    for (int i = 0; i < KILN_ASSETS; i++) {
        const struct kiln_gallery_asset *asset = &app->assets[i];
        if (strcmp(asset->path, visit->path) != 0)
            continue;
        kiln_text_add(&visit->reply.body, asset->text, asset->size);
        visit->reply.type = asset->type;
        visit->reply.cache = "public, max-age=31536000, immutable";
        return 0;
    }
    return kiln_web_not_found(visit, err);
}
