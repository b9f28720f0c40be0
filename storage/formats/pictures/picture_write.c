/* picture_write.c - formats by name, and pictures from one to another; see picture_write.h. */
#include "storage/formats/pictures/picture_write.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "schemas/limits.h"

static const struct {
    const char *name;
    enum kiln_picture_format format;
} names[] = {{"webp", KILN_PICTURE_WEBP},
             {"png", KILN_PICTURE_PNG},
             {"jpeg", KILN_PICTURE_JPEG},
             {"jpg", KILN_PICTURE_JPEG}};

/* Endings that promise a format which nobody writes here. */
static const char *const others[] = {".avif", ".bmp", ".gif", ".heic", ".jp2", ".jxl",
                                     ".pdf",  ".ppm", ".svg", ".tga",  ".tif", ".tiff"};

int kiln_picture_format_by_name(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(name, names[i].name) == 0)
            return (int)names[i].format;
    return -1;
}

int kiln_picture_format_of_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    int format = dot && dot > name ? kiln_picture_format_by_name(dot + 1) : -1;
    for (size_t i = 0; i < sizeof others / sizeof *others && format < 0 && dot; i++)
        if (strcasecmp(dot, others[i]) == 0)
            return -1;
    return format < 0 ? (int)KILN_PICTURE_WEBP : format;
}

static int write_webp(const uint8_t *rgb, uint32_t width, uint32_t height,
                      const struct kiln_webp_options *options,
                      const struct kiln_picture_metadata *metadata, uint8_t **ret_data,
                      size_t *ret_size, struct kiln_error *err)
{
    struct kiln_webp_options bare = *options;
    uint8_t *plain = NULL;
    size_t size = 0;
    bare.xmp = NULL;
    int code = kiln_webp_encode(rgb, width, height, &bare, &plain, &size, err);
    if (code || (!metadata->parameters && !metadata->xmp)) {
        if (!code) {
            *ret_data = plain;
            *ret_size = size;
        }
        return code;
    }
    code = kiln_webp_annotate(plain, size, metadata, ret_data, ret_size, err);
    free(plain);
    return code;
}

int kiln_picture_write(enum kiln_picture_format format, const uint8_t *rgb, uint32_t width,
                       uint32_t height, const struct kiln_webp_options *options,
                       const struct kiln_picture_metadata *metadata, uint8_t **ret_data,
                       size_t *ret_size, struct kiln_error *err)
{
    static const struct kiln_picture_metadata none;
    const struct kiln_picture_metadata *with = metadata ? metadata : &none;
    switch (format) {
    case KILN_PICTURE_PNG:
        return kiln_png_write(rgb, width, height, with, ret_data, ret_size, err);
    case KILN_PICTURE_JPEG:
        return kiln_jpeg_write(rgb, width, height, with, ret_data, ret_size, err);
    case KILN_PICTURE_WEBP:
        break;
    }
    return write_webp(rgb, width, height, options, with, ret_data, ret_size, err);
}

int kiln_picture_convert(enum kiln_picture_format format, const uint8_t *webp, size_t size,
                         const struct kiln_picture_metadata *metadata, uint8_t **ret_data,
                         size_t *ret_size, struct kiln_error *err)
{
    uint8_t *rgb;
    uint32_t width, height;
    if (format == KILN_PICTURE_WEBP)
        return kiln_webp_annotate(webp, size, metadata, ret_data, ret_size, err);
    int code = kiln_webp_decode(webp, size, KILN_PICTURE_PIXELS_MAX, &rgb, &width, &height, err);
    if (code)
        return code;
    code = kiln_picture_write(format, rgb, width, height, NULL, metadata, ret_data, ret_size, err);
    free(rgb);
    return code;
}
