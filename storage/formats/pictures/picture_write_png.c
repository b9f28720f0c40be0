/* picture_write_png.c - PNG through libpng; see picture_write.h.
 *
 * libpng leaves by longjmp when it finds an error.  What must survive that lives in struct sink.
 * ASCII goes into a tEXt chunk, which every reader knows, other texts into iTXt.
 */
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/text/text.h"
#include "storage/formats/pictures/picture_write.h"

#define CHANNELS 3
#define LEVEL 6 /* of zlib; its own default */

struct sink {
    struct kiln_text out;
    char text[160]; /* libpng's word on what is wrong */
};

static void put_bytes(png_structp png, png_bytep data, size_t size)
{
    struct sink *sink = png_get_io_ptr(png);
    kiln_text_add(&sink->out, (const char *)data, size);
    if (sink->out.failed)
        png_error(png, "no memory");
}

static void flush(png_structp png)
{
    (void)png;
}

static _Noreturn void leave(png_structp png, png_const_charp text)
{
    struct sink *sink = png_get_error_ptr(png);
    snprintf(sink->text, sizeof sink->text, "%s", text);
    png_longjmp(png, 1);
}

static void ignore(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static bool is_ascii(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text >= 0x80)
            return false;
    return true;
}

/* lang and lang_key must be there: libpng's readers compare them. */
static char none[] = "";
static int add_text(png_text *texts, int count, char *key, const char *text, bool international)
{
    if (!text)
        return count;
    bool plain = !international && is_ascii(text);
    texts[count] = (png_text){
        .compression = plain ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE,
        .key = key,
        .text = (char *)text, /* only read */
        .text_length = plain ? strlen(text) : 0,
        .itxt_length = plain ? 0 : strlen(text),
        .lang = plain ? NULL : none,
        .lang_key = plain ? NULL : none,
    };
    return count + 1;
}

/* Owns nothing, because it may be left by longjmp. */
static bool write_all(png_structp png, png_infop info, const uint8_t *rgb, uint32_t width,
                      uint32_t height, png_text *texts, int text_count)
{
    if (setjmp(png_jmpbuf(png)))
        return false;
    png_set_compression_level(png, LEVEL);
    png_set_IHDR(png, info, width, height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (text_count > 0)
        png_set_text(png, info, texts, text_count);
    png_write_info(png, info);
    for (uint32_t y = 0; y < height; y++)
        png_write_row(png, rgb + (size_t)y * width * CHANNELS);
    png_write_end(png, info);
    return true;
}

int kiln_png_write(const uint8_t *rgb, uint32_t width, uint32_t height,
                   const struct kiln_picture_metadata *metadata, uint8_t **ret_data,
                   size_t *ret_size, struct kiln_error *err)
{
    static char parameters[] = "parameters", xmp[] = "XML:com.adobe.xmp";
    struct sink sink = {0};
    png_text texts[2];
    int count = add_text(texts, 0, parameters, metadata->parameters, false);
    count = add_text(texts, count, xmp, metadata->xmp, true);
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &sink, leave, ignore);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    bool good = info != NULL;
    if (good) {
        png_set_write_fn(png, &sink, put_bytes, flush);
        good = write_all(png, info, rgb, width, height, texts, count);
    }
    png_destroy_write_struct(&png, &info);
    if (!good) {
        bool memory = sink.out.failed || !sink.text[0];
        kiln_text_release(&sink.out);
        return kiln_fail(err, memory ? KILN_NO_MEMORY : KILN_INTERNAL,
                         "png encoding of %ux%u pixels failed: %s", width, height,
                         sink.text[0] ? sink.text : "no memory");
    }
    *ret_size = sink.out.len;
    *ret_data = (uint8_t *)kiln_text_take(&sink.out);
    return *ret_data ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for a PNG file");
}
