/* webp_metadata.c - EXIF and XMP into a WebP file and out again, without touching its pixels. */
#include <stdlib.h>
#include <string.h>
#include <webp/mux.h>

#include "storage/formats/pictures/picture_write.h"

/* Ends the mux; *ret_data is malloc'd, since libwebp's memory goes back through another call. */
static int assemble(WebPMux *mux, bool good, uint8_t **ret_data, size_t *ret_size,
                    struct kiln_error *err)
{
    WebPData whole = {0};
    good = good && WebPMuxAssemble(mux, &whole) == WEBP_MUX_OK;
    uint8_t *copy = good ? malloc(whole.size) : NULL;
    if (copy) {
        memcpy(copy, whole.bytes, whole.size);
        *ret_data = copy;
        *ret_size = whole.size;
    }
    WebPDataClear(&whole);
    WebPMuxDelete(mux);
    return copy ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for the metadata of a WebP file");
}

static WebPMux *open_file(const uint8_t *data, size_t size, struct kiln_error *err)
{
    WebPData file = {data, size};
    WebPMux *mux = WebPMuxCreate(&file, 0);
    if (!mux)
        (void)kiln_fail(err, KILN_CORRUPT, "%zu bytes that are not a whole WebP file", size);
    return mux;
}

int kiln_webp_annotate(const uint8_t *data, size_t size,
                       const struct kiln_picture_metadata *metadata, uint8_t **ret_data,
                       size_t *ret_size, struct kiln_error *err)
{
    WebPMux *mux = open_file(data, size, err);
    if (!mux)
        return err->code;
    bool good = true;
    WebPData chunk = {0};
    if (metadata->xmp && WebPMuxGetChunk(mux, "XMP ", &chunk) == WEBP_MUX_NOT_FOUND) {
        chunk = (WebPData){(const uint8_t *)metadata->xmp, strlen(metadata->xmp)};
        good = WebPMuxSetChunk(mux, "XMP ", &chunk, 1) == WEBP_MUX_OK;
    }
    if (good && metadata->parameters) {
        uint8_t *exif = kiln_picture_exif(metadata->parameters, &chunk.size);
        chunk.bytes = exif;
        good = exif && WebPMuxSetChunk(mux, "EXIF", &chunk, 1) == WEBP_MUX_OK;
        free(exif);
    }
    return assemble(mux, good, ret_data, ret_size, err);
}

int kiln_webp_strip(const uint8_t *data, size_t size, bool xmp, uint8_t **ret_data,
                    size_t *ret_size, struct kiln_error *err)
{
    WebPMux *mux = open_file(data, size, err);
    if (!mux)
        return err->code;
    WebPMuxError exif = WebPMuxDeleteChunk(mux, "EXIF");
    WebPMuxError packet = xmp ? WebPMuxDeleteChunk(mux, "XMP ") : WEBP_MUX_OK;
    bool good = (exif == WEBP_MUX_OK || exif == WEBP_MUX_NOT_FOUND) &&
                (packet == WEBP_MUX_OK || packet == WEBP_MUX_NOT_FOUND);
    return assemble(mux, good, ret_data, ret_size, err);
}
