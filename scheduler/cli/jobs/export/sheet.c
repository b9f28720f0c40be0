/* sheet.c - see sheet.h.
 *
 * Pictures fill rows in order.  A row ends where its height is nearest to that of a tile; then it
 * is scaled to the full width, so the right edge is straight.  A short last row is not scaled up.
 * Places are rounded from running sums, so that no pixel is lost between pictures.  libwebp scales
 * each picture directly into its place.
 */
#include "scheduler/cli/jobs/export/sheet.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/limits.h"
#include "storage/formats/pictures/picture_read.h"
#include "storage/formats/pictures/picture_resize.h"
#include "storage/formats/pictures/picture_write.h"
#include "storage/formats/regular.h"
#include "storage/formats/replace.h"

#define TILE 200   /* pixels of a square picture's side, more or less */
#define GAP 8      /* between pictures and around them */
#define PAPER 0xe2 /* parts white pictures, on light pages and on dark ones */
#define QUALITY 82
#define SIDE_MAX 16383                /* of a WebP file */
#define PIXELS_MAX (64 * 1024 * 1024) /* of the sheet: 192 MB while it is made */
#define SOURCE_MAX ((uint64_t)KILN_SIDE_MAX * KILN_SIDE_MAX)
#define BYTES_MAX (64 * 1024 * 1024) /* bytes of one picture */

struct picture {
    char *path;
    double aspect; /* width / height */
};

struct kiln_sheet {
    struct picture *pictures;
    size_t count;
    int columns;
};

/* Where a picture goes. */
struct place {
    uint32_t x, y, width, height;
};

struct kiln_sheet *kiln_sheet_new(int columns)
{
    struct kiln_sheet *sheet = calloc(1, sizeof *sheet);
    struct picture *pictures = calloc(KILN_SHEET_PICTURES, sizeof *pictures);
    if (!sheet || !pictures) {
        free(sheet);
        free(pictures);
        return NULL;
    }
    *sheet = (struct kiln_sheet){.pictures = pictures, .columns = columns};
    return sheet;
}

void kiln_sheet_free(struct kiln_sheet *sheet)
{
    if (!sheet)
        return;
    for (size_t i = 0; i < sheet->count; i++)
        free(sheet->pictures[i].path);
    free(sheet->pictures);
    free(sheet);
}

int kiln_sheet_add(struct kiln_sheet *sheet, const char *path, uint32_t width, uint32_t height,
                   struct kiln_error *err)
{
    if (sheet->count == KILN_SHEET_PICTURES)
        return kiln_fail(err, KILN_BAD_INPUT, "a contact sheet holds at most %d pictures",
                         KILN_SHEET_PICTURES);
    char *copy = strdup(path);
    if (!copy)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a contact sheet");
    sheet->pictures[sheet->count++] = (struct picture){copy, (double)width / (double)height};
    return 0;
}

/* --- where everything goes -------------------------------------------------------------------- */

static uint32_t inner_width(const struct kiln_sheet *sheet)
{
    return (uint32_t)(sheet->columns * TILE + (sheet->columns - 1) * GAP);
}

/* How many pictures from the first on make the row; *ret_height is its height. */
static size_t take_row(const struct kiln_sheet *sheet, size_t first, double *ret_height)
{
    double aspects = 0, height = HUGE_VAL;
    for (size_t at = first; at < sheet->count; at++) {
        /* The height at the full width, with this picture. */
        double pixels = (double)inner_width(sheet) - (double)(at - first) * GAP;
        double with = fmax(pixels, 1) / (aspects + sheet->pictures[at].aspect);
        if (at > first && with < TILE && TILE - with > height - TILE) {
            *ret_height = height;
            return at - first;
        }
        aspects += sheet->pictures[at].aspect;
        height = with;
    }
    *ret_height = height > 1.3 * TILE ? TILE : height; /* the last row may stay short */
    return sheet->count - first;
}

/* The places of a row at y; returns the first line below it. */
static uint32_t lay_row(const struct kiln_sheet *sheet, size_t first, size_t n, double height,
                        uint32_t y, struct place *places)
{
    uint32_t high = (uint32_t)lround(height) > 0 ? (uint32_t)lround(height) : 1;
    double x = GAP;
    for (size_t i = first; i < first + n; i++) {
        double end = x + sheet->pictures[i].aspect * height;
        uint32_t left = (uint32_t)lround(x), right = (uint32_t)lround(end);
        places[i] = (struct place){left, y, right > left ? right - left : 1, high};
        x = end + GAP;
    }
    return y + high + GAP;
}

/* All places; malloc'd.  *ret_height is that of the sheet. */
static int lay_out(const struct kiln_sheet *sheet, struct place **ret, uint32_t *ret_height,
                   struct kiln_error *err)
{
    uint32_t width = inner_width(sheet) + 2 * GAP, y = GAP;
    struct place *places = calloc(sheet->count + 1, sizeof *places);
    if (!places)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a contact sheet");
    for (size_t first = 0; first < sheet->count;) {
        double height;
        size_t n = take_row(sheet, first, &height);
        y = lay_row(sheet, first, n, height, y, places);
        first += n;
    }
    if (sheet->count == 0 || y > SIDE_MAX || (uint64_t)y * width > PIXELS_MAX) {
        free(places);
        return sheet->count == 0
                   ? kiln_fail(err, KILN_BAD_INPUT, "there is no picture for a contact sheet")
                   : kiln_fail(err, KILN_BAD_INPUT,
                               "%zu pictures in %d columns would make a contact sheet of %ux%u "
                               "pixels, larger than a WebP file or %d pixels",
                               sheet->count, sheet->columns, width, y, PIXELS_MAX);
    }
    *ret = places;
    *ret_height = y;
    return 0;
}

/* --- pixels ----------------------------------------------------------------------------------- */

/* PNG and JPEG, whose decoders do not scale. */
static int draw_other(const uint8_t *data, size_t size, const struct kiln_webp_window *into,
                      struct kiln_error *err)
{
    struct kiln_picture_pixels whole;
    uint8_t *scaled = NULL;
    int rc = kiln_picture_read(data, size, &whole, err);
    if (rc)
        return rc;
    rc = kiln_picture_resize(whole.rgb, whole.width, whole.height, into->width, into->height,
                             &scaled, err);
    for (uint32_t y = 0; y < into->height && !rc; y++)
        memcpy(into->rgb + y * into->stride, scaled + (size_t)y * into->width * 3,
               (size_t)into->width * 3);
    free(scaled);
    free(whole.rgb);
    return rc;
}

static int draw_picture(const char *path, const struct place *place, uint8_t *canvas, size_t stride,
                        struct kiln_error *err)
{
    struct kiln_webp_window into = {canvas + place->y * stride + (size_t)place->x * 3, place->width,
                                    place->height, stride};
    char *data = NULL;
    size_t size = 0;
    int rc = kiln_regular_read(path, BYTES_MAX, &data, &size, err);
    if (rc)
        return kiln_fail(err, KILN_IO, "%s", err->text);
    enum kiln_picture_format format;
    uint32_t width, height;
    const uint8_t *bytes = (const uint8_t *)data;
    bool other = kiln_picture_probe(bytes, size, &format, &width, &height, err) == 0 &&
                 format != KILN_PICTURE_WEBP;
    rc = other ? draw_other(bytes, size, &into, err)
               : kiln_webp_decode_scaled(bytes, size, SOURCE_MAX, &into, err);
    free(data);
    return rc ? kiln_fail_in(err, "%s", path) : 0;
}

int kiln_sheet_write(const struct kiln_sheet *sheet, const char *path, struct kiln_error *err)
{
    static const struct kiln_webp_options options = {.quality = QUALITY, .method = 6};
    const enum kiln_picture_format format =
        (enum kiln_picture_format)kiln_picture_format_of_path(path);
    struct place *places = NULL;
    uint32_t width = inner_width(sheet) + 2 * GAP, height = 0;
    int rc = lay_out(sheet, &places, &height, err);
    if (rc)
        return rc;
    size_t stride = (size_t)width * 3, size = 0;
    uint8_t *canvas = malloc(stride * height), *data = NULL;
    if (!canvas)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for a contact sheet of %ux%u pixels", width,
                       height);
    else
        memset(canvas, PAPER, stride * height);
    for (size_t i = 0; i < sheet->count && !rc; i++)
        rc = draw_picture(sheet->pictures[i].path, &places[i], canvas, stride, err);
    free(places);
    if (!rc)
        rc = kiln_picture_write(format, canvas, width, height, &options, NULL, &data, &size, err);
    free(canvas);
    if (!rc)
        rc = kiln_replace_bytes(path, data, size, 0666, err);
    free(data);
    return rc;
}
