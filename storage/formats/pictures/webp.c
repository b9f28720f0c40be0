/* webp.c - pixels to WebP and back, through libwebp and libwebpmux.
 *
 * A file without metadata is a plain VP8 or VP8L file.  With an XMP packet it becomes an extended
 * file: RIFF { VP8X, VP8 or VP8L, "XMP " }.  The picture's bytes are the same in both.
 *
 * Reading trusts nothing: the declared size is checked before a pixel is allocated, animations
 * are refused, and libwebp itself refuses a file shorter than its RIFF header says.
 */
#include "storage/formats/pictures/webp.h"

#include <stdlib.h>
#include <string.h>
#include <webp/decode.h>
#include <webp/encode.h>
#include <webp/mux.h>

#define CHANNELS 3
#define XMP_MAX (1024 * 1024) /* of a file from outside; our own packets have at most 100 KiB */

/* A file that is being written. */
struct buffer {
    uint8_t *data;
    size_t size, room;
};

/* libwebp's own memory writer would hand out memory that must go back through WebPFree. */
static int append(const uint8_t *data, size_t size, const WebPPicture *picture)
{
    struct buffer *buffer = picture->custom_ptr;
    if (size > buffer->room - buffer->size) {
        size_t room = buffer->room ? 2 * buffer->room : 64 * 1024;
        while (room - buffer->size < size)
            room *= 2;
        uint8_t *grown = realloc(buffer->data, room);
        if (!grown)
            return 0;
        buffer->data = grown;
        buffer->room = room;
    }
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    return 1;
}

/* Kiln's options in libwebp's terms; `exact` keeps colours under zero alpha, were there any. */
static int make_config(const struct kiln_webp_options *options, WebPConfig *config,
                       struct kiln_error *err)
{
    if (!WebPConfigInit(config))
        return kiln_fail(err, KILN_INTERNAL, "libwebp is not the version Kiln was built with");
    config->quality = options->quality;
    config->method = options->method;
    config->lossless = options->lossless;
    config->exact = options->lossless;
    /* The first comparison also refuses NaN, which WebPValidateConfig lets through. */
    if (!(options->quality >= 0 && options->quality <= 100) || !WebPValidateConfig(config))
        return kiln_fail(err, KILN_BAD_INPUT, "webp quality %g or method %d is out of range",
                         (double)options->quality, options->method);
    return KILN_OK;
}

/* libwebp's number stands in the text: its list is in webp/encode.h. */
static int fail_encode(const WebPPicture *picture, struct kiln_error *err)
{
    bool memory = picture->error_code == VP8_ENC_ERROR_OUT_OF_MEMORY ||
                  picture->error_code == VP8_ENC_ERROR_BITSTREAM_OUT_OF_MEMORY ||
                  picture->error_code == VP8_ENC_ERROR_BAD_WRITE ||
                  picture->error_code == VP8_ENC_OK; /* the import of pixels does not set it */
    return kiln_fail(err, memory ? KILN_NO_MEMORY : KILN_INTERNAL,
                     "webp encoding of %dx%d pixels failed with libwebp's error %d", picture->width,
                     picture->height, (int)picture->error_code);
}

/* Lossless works on ARGB, lossy on YUV: importing straight into the right one saves a copy. */
static int encode_pixels(const uint8_t *rgb, uint32_t width, uint32_t height,
                         const WebPConfig *config, struct buffer *out, struct kiln_error *err)
{
    WebPPicture picture;
    if (!WebPPictureInit(&picture))
        return kiln_fail(err, KILN_INTERNAL, "libwebp is not the version Kiln was built with");
    picture.width = (int)width;
    picture.height = (int)height;
    picture.use_argb = config->lossless;
    picture.writer = append;
    picture.custom_ptr = out;
    int code = KILN_OK;
    if (!WebPPictureImportRGB(&picture, rgb, (int)width * CHANNELS) ||
        !WebPEncode(config, &picture))
        code = fail_encode(&picture, err);
    WebPPictureFree(&picture);
    return code;
}

/* Wraps a plain file into an extended one; frees plain->data on success. */
static int add_xmp(struct buffer *plain, const char *xmp, size_t xmp_len, struct kiln_error *err)
{
    WebPData image = {plain->data, plain->size}, packet = {(const uint8_t *)xmp, xmp_len};
    WebPData whole = {0};
    WebPMux *mux = WebPMuxCreate(&image, 0);
    bool good = mux && WebPMuxSetChunk(mux, "XMP ", &packet, 0) == WEBP_MUX_OK &&
                WebPMuxAssemble(mux, &whole) == WEBP_MUX_OK;
    uint8_t *copy = good ? malloc(whole.size) : NULL;
    if (copy) {
        memcpy(copy, whole.bytes, whole.size);
        free(plain->data);
        *plain = (struct buffer){.data = copy, .size = whole.size, .room = whole.size};
    }
    WebPDataClear(&whole);
    WebPMuxDelete(mux);
    return copy ? KILN_OK
                : kiln_fail(err, KILN_NO_MEMORY, "no memory to add %zu bytes of XMP", xmp_len);
}

int kiln_webp_encode(const uint8_t *rgb, uint32_t width, uint32_t height,
                     const struct kiln_webp_options *options, uint8_t **ret_data, size_t *ret_size,
                     struct kiln_error *err)
{
    if (width == 0 || height == 0 || width > WEBP_MAX_DIMENSION || height > WEBP_MAX_DIMENSION)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "a WebP picture has sides of 1 to %d pixels, not %ux%u",
                         WEBP_MAX_DIMENSION, width, height);
    if (options->xmp && options->xmp_len > XMP_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "an XMP packet of %zu bytes; at most %d are allowed",
                         options->xmp_len, XMP_MAX);
    WebPConfig config;
    struct buffer out = {0};
    int code = make_config(options, &config, err);
    if (!code)
        code = encode_pixels(rgb, width, height, &config, &out, err);
    if (!code && options->xmp)
        code = add_xmp(&out, options->xmp, options->xmp_len, err);
    if (code) {
        free(out.data);
        return code;
    }
    *ret_data = out.data;
    *ret_size = out.size;
    return KILN_OK;
}

/* Reads headers only: a file of 30 bytes may claim 268 million pixels. */
static int check_features(const uint8_t *data, size_t size, uint64_t max_pixels,
                          WebPBitstreamFeatures *features, struct kiln_error *err)
{
    if (WebPGetFeatures(data, size, features) != VP8_STATUS_OK)
        return kiln_fail(err, KILN_CORRUPT, "%zu bytes that do not start as a WebP file does",
                         size);
    if (features->has_animation)
        return kiln_fail(err, KILN_UNSUPPORTED, "the WebP file is an animation");
    if (features->width <= 0 || features->height <= 0)
        return kiln_fail(err, KILN_CORRUPT, "the WebP file has no pixels");
    uint64_t pixels = (uint64_t)features->width * (uint64_t)features->height;
    if (pixels > max_pixels)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "the WebP file declares %dx%d pixels; at most %llu pixels are read",
                         features->width, features->height, (unsigned long long)max_pixels);
    return KILN_OK;
}

/* Into the caller's memory, scaled if the window has another size; a file that ends early is an
 * error, never a grey half. */
static int decode_into(const uint8_t *data, size_t size, const struct kiln_webp_window *into,
                       const WebPBitstreamFeatures *features, struct kiln_error *err)
{
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return kiln_fail(err, KILN_INTERNAL, "libwebp is not the version Kiln was built with");
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = into->rgb;
    config.output.u.RGBA.stride = (int)into->stride;
    config.output.u.RGBA.size = into->stride * (into->height - 1) + (size_t)into->width * CHANNELS;
    if (into->width != (uint32_t)features->width || into->height != (uint32_t)features->height) {
        config.options.use_scaling = 1;
        config.options.scaled_width = (int)into->width;
        config.options.scaled_height = (int)into->height;
    }
    VP8StatusCode status = WebPDecode(data, size, &config);
    /* Nobody aborts here: libwebp says so when its scratch memory cannot be had. */
    if (status == VP8_STATUS_OUT_OF_MEMORY || status == VP8_STATUS_USER_ABORT)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to decode %dx%d pixels", features->width,
                         features->height);
    if (status != VP8_STATUS_OK)
        return kiln_fail(err, KILN_CORRUPT, "a WebP file of %zu bytes (%dx%d) is damaged or cut",
                         size, features->width, features->height);
    return KILN_OK;
}

int kiln_webp_decode(const uint8_t *data, size_t size, uint64_t max_pixels, uint8_t **ret_rgb,
                     uint32_t *ret_width, uint32_t *ret_height, struct kiln_error *err)
{
    WebPBitstreamFeatures features;
    int code = check_features(data, size, max_pixels, &features, err);
    if (code)
        return code;
    struct kiln_webp_window whole = {.width = (uint32_t)features.width,
                                     .height = (uint32_t)features.height,
                                     .stride = (size_t)features.width * CHANNELS};
    whole.rgb = malloc(whole.stride * whole.height);
    code = whole.rgb ? decode_into(data, size, &whole, &features, err)
                     : kiln_fail(err, KILN_NO_MEMORY, "no memory to decode %dx%d pixels",
                                 features.width, features.height);
    if (code) {
        free(whole.rgb);
        return code;
    }
    *ret_rgb = whole.rgb;
    *ret_width = whole.width;
    *ret_height = whole.height;
    return KILN_OK;
}

int kiln_webp_decode_scaled(const uint8_t *data, size_t size, uint64_t max_pixels,
                            const struct kiln_webp_window *into, struct kiln_error *err)
{
    WebPBitstreamFeatures features;
    if (into->width == 0 || into->height == 0 || into->width > WEBP_MAX_DIMENSION ||
        into->height > WEBP_MAX_DIMENSION)
        return kiln_fail(err, KILN_BAD_INPUT, "a picture cannot be scaled to %ux%u pixels",
                         into->width, into->height);
    int code = check_features(data, size, max_pixels, &features, err);
    return code ? code : decode_into(data, size, into, &features, err);
}

int kiln_webp_xmp(const uint8_t *data, size_t size, char **ret_xmp, struct kiln_error *err)
{
    WebPData file = {data, size}, packet = {0};
    WebPMux *mux = WebPMuxCreate(&file, 0);
    if (!mux)
        return kiln_fail(err, KILN_CORRUPT, "%zu bytes that are not a whole WebP file", size);
    int code = KILN_OK;
    char *copy = NULL;
    WebPMuxError found = WebPMuxGetChunk(mux, "XMP ", &packet);
    if (found == WEBP_MUX_OK && packet.size > XMP_MAX)
        code = kiln_fail(err, KILN_BAD_INPUT, "an XMP packet of %zu bytes; at most %d are read",
                         packet.size, XMP_MAX);
    else if (found == WEBP_MUX_OK && !(copy = malloc(packet.size + 1)))
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory for %zu bytes of XMP", packet.size);
    else if (found != WEBP_MUX_OK && found != WEBP_MUX_NOT_FOUND)
        code = kiln_fail(err, KILN_CORRUPT, "the WebP file's XMP chunk is damaged");
    if (copy) {
        memcpy(copy, packet.bytes, packet.size);
        copy[packet.size] = '\0';
    }
    WebPMuxDelete(mux);
    if (!code)
        *ret_xmp = copy;
    return code;
}
