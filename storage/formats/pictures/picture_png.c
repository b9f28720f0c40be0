/* picture_png.c - PNG through libpng; see picture_read.h.
 *
 * libpng leaves by longjmp when it finds an error.  Whatever must survive that lives in struct
 * source, which the caller of setjmp does not change between.
 * Of the chunks that are no pixels none is read: they cannot change the result, only fail.
 */
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/limits.h"
#include "storage/formats/pictures/picture_parts.h"

#define CHANNELS 3

struct source {
    const uint8_t *data;
    size_t size, at;
    bool no_memory;
    char text[160]; /* libpng's word on what is wrong */
};

static void take_bytes(png_structp png, png_bytep to, size_t size)
{
    struct source *s = png_get_io_ptr(png);
    if (size > s->size - s->at)
        png_error(png, "the file is cut");
    memcpy(to, s->data + s->at, size);
    s->at += size;
}

static _Noreturn void leave(png_structp png, png_const_charp text)
{
    struct source *s = png_get_error_ptr(png);
    snprintf(s->text, sizeof s->text, "%s", text);
    png_longjmp(png, 1);
}

static void ignore(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static png_voidp allocate(png_structp png, png_alloc_size_t size)
{
    void *memory = malloc(size);
    if (!memory)
        ((struct source *)png_get_mem_ptr(png))->no_memory = true;
    return memory;
}

static void release(png_structp png, png_voidp memory)
{
    (void)png;
    free(memory);
}

/* Every format becomes 8 bits of red, green and blue. */
static void ask_for_rgb(png_structp png, png_infop info)
{
    png_set_expand_gray_1_2_4_to_8(png);
    png_set_palette_to_rgb(png);
    png_set_strip_16(png); /* the upper byte */
    png_set_strip_alpha(png);
    png_set_gray_to_rgb(png);
    (void)png_set_interlace_handling(png);
    png_read_update_info(png, info);
}

static int decode(png_structp png, png_infop info, const struct kiln_picture_header *h,
                  uint8_t *rgb)
{
    static const png_byte unread[] = "bKGD\0cHRM\0eXIf\0gAMA\0hIST\0iCCP\0iTXt\0oFFs\0pCAL\0pHYs\0"
                                     "sBIT\0sCAL\0sPLT\0sRGB\0tEXt\0tIME\0tRNS\0zTXt";
    if (setjmp(png_jmpbuf(png)))
        return -1;
    png_set_user_limits(png, KILN_PICTURE_SIDE_MAX, KILN_PICTURE_SIDE_MAX);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, unread, sizeof unread / 5);
    png_read_info(png, info);
    const bool palette = png_get_color_type(png, info) == PNG_COLOR_TYPE_PALETTE;
    if (palette && !png_get_valid(png, info, PNG_INFO_PLTE))
        png_error(png, "the palette is missing");
    const int passes = png_get_interlace_type(png, info) == PNG_INTERLACE_ADAM7 ? 7 : 1;
    ask_for_rgb(png, info);
    const size_t row = (size_t)h->width * CHANNELS;
    if (png_get_rowbytes(png, info) != row || png_get_image_height(png, info) != h->height)
        png_error(png, "the rows have another size than the header says");
    for (int pass = 0; pass < passes; pass++)
        for (uint32_t y = 0; y < h->height; y++)
            png_read_row(png, rgb + y * row, NULL);
    png_read_end(png, NULL);
    return 0;
}

int kiln_png_decode(const uint8_t *data, size_t size, const struct kiln_picture_header *header,
                    uint8_t *rgb, struct kiln_error *err)
{
    struct source s = {.data = data, .size = size};
    png_structp png =
        png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &s, leave, ignore, &s, allocate, release);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    int failed = -1;
    if (info) {
        png_set_read_fn(png, &s, take_bytes);
        failed = decode(png, info, header, rgb);
    } else {
        s.no_memory = true;
    }
    png_destroy_read_struct(&png, &info, NULL);
    if (failed && s.no_memory)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to decode a PNG file of %ux%u pixels",
                         header->width, header->height);
    return failed ? kiln_fail(err, KILN_CORRUPT, "the PNG file (%ux%u) is damaged: %s",
                              header->width, header->height, s.text)
                  : 0;
}
