/* picture_jpeg.c - JPEG through libjpeg; see picture_read.h.
 *
 * libjpeg leaves by longjmp when it finds an error, and only warns where pixels are missing, which
 * it then paints grey.  Those warnings are errors here.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include <jerror.h>

#include "storage/formats/pictures/picture_parts.h"

#define CHANNELS 3
#define INKS 4
/* Of a progressive file, which has some ten: each scan may cost the time of a whole picture for a
 * few bytes. */
#define SCANS_MAX 64

struct decoder {
    struct jpeg_decompress_struct jpeg; /* first: libjpeg hands out pointers to it */
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf out;
    uint8_t *inks; /* a row of CMYK, or NULL */
    char text[JMSG_LENGTH_MAX];
};

static struct decoder *decoder_of(j_common_ptr jpeg)
{
    return (struct decoder *)jpeg;
}

static _Noreturn void leave(j_common_ptr jpeg)
{
    struct decoder *d = decoder_of(jpeg);
    if (!d->text[0])
        d->errors.format_message(jpeg, d->text);
    longjmp(d->out, 1);
}

/* level -1: a warning. */
static void take_message(j_common_ptr jpeg, int level)
{
    const int code = jpeg->err->msg_code;
    if (level < 0 &&
        (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
         code == JWRN_ARITH_BAD_CODE || code == JWRN_MUST_RESYNC))
        leave(jpeg);
}

static void count_scans(j_common_ptr jpeg)
{
    struct decoder *d = decoder_of(jpeg);
    if (d->jpeg.input_scan_number <= SCANS_MAX)
        return;
    snprintf(d->text, sizeof d->text, "it has more than %d scans", SCANS_MAX);
    leave(jpeg);
}

/* a * b / 255, rounded. */
static int share(int a, int b)
{
    int product = a * b + 128;
    return (product + (product >> 8)) >> 8;
}

/* Inks as Adobe stores them, 255 for none, to RGB as PIL does: (255 - ink) of the light that black
 * leaves, for each colour. */
static void ink_to_rgb(const uint8_t *inks, uint32_t width, uint8_t *rgb)
{
    for (uint32_t x = 0; x < width; x++, inks += INKS, rgb += CHANNELS)
        for (int c = 0; c < CHANNELS; c++) {
            int light = inks[3] - share(255 - inks[c], inks[3]);
            rgb[c] = (uint8_t)(light < 0 ? 0 : light);
        }
}

static void read_rows(struct decoder *d, const struct kiln_picture_header *h, uint8_t *rgb)
{
    while (d->jpeg.output_scanline < d->jpeg.output_height) {
        uint8_t *to = rgb + (size_t)d->jpeg.output_scanline * h->width * CHANNELS;
        uint8_t *row = d->inks ? d->inks : to;
        if (jpeg_read_scanlines(&d->jpeg, &row, 1) == 1 && d->inks)
            ink_to_rgb(d->inks, h->width, to);
    }
}

static int decode(struct decoder *d, const uint8_t *data, size_t size,
                  const struct kiln_picture_header *h, uint8_t *rgb)
{
    if (setjmp(d->out))
        return -1;
    jpeg_create_decompress(&d->jpeg);
    d->jpeg.progress = &d->progress;
    jpeg_mem_src(&d->jpeg, data, size);
    (void)jpeg_read_header(&d->jpeg, TRUE);
    const int components = d->jpeg.num_components;
    if (components != 1 && components != 3 && components != INKS)
        snprintf(d->text, sizeof d->text, "it has %d components, not 1, 3 or 4", components);
    else if (d->jpeg.image_width != h->width || d->jpeg.image_height != h->height)
        snprintf(d->text, sizeof d->text, "it has two sizes");
    if (d->text[0])
        leave((j_common_ptr)&d->jpeg);
    d->jpeg.out_color_space = components == INKS ? JCS_CMYK : JCS_RGB;
    if (components == INKS && !(d->inks = malloc((size_t)h->width * INKS)))
        ERREXIT1(&d->jpeg, JERR_OUT_OF_MEMORY, 0);
    (void)jpeg_start_decompress(&d->jpeg);
    read_rows(d, h, rgb);
    (void)jpeg_finish_decompress(&d->jpeg);
    return 0;
}

int kiln_jpeg_decode(const uint8_t *data, size_t size, const struct kiln_picture_header *header,
                     uint8_t *rgb, struct kiln_error *err)
{
    struct decoder d = {.progress = {.progress_monitor = count_scans}};
    d.jpeg.err = jpeg_std_error(&d.errors);
    d.errors.error_exit = leave;
    d.errors.emit_message = take_message;
    int failed = decode(&d, data, size, header, rgb);
    jpeg_destroy_decompress(&d.jpeg);
    free(d.inks);
    if (failed && d.errors.msg_code == JERR_OUT_OF_MEMORY)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to decode a JPEG file of %ux%u pixels",
                         header->width, header->height);
    return failed ? kiln_fail(err, KILN_CORRUPT, "the JPEG file (%ux%u) cannot be decoded: %s",
                              header->width, header->height, d.text)
                  : 0;
}
