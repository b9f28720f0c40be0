/* fuzz_webp.c - any bytes as a WebP file: refused, or pixels and XMP that can be read to the end.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "storage/formats/pictures/webp.h"

#define PIXELS_MAX (512 * 512)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static volatile size_t sink; /* so that the reads are made */
    uint8_t *rgb = NULL;
    uint32_t width = 0, height = 0;
    char *xmp = NULL;
    struct kiln_error err = {0};
    if (kiln_webp_decode(data, size, PIXELS_MAX, &rgb, &width, &height, &err) == 0) {
        size_t bytes = (size_t)width * height * 3;
        if (bytes == 0 || bytes > PIXELS_MAX * 3)
            abort();
        for (size_t i = 0; i < bytes; i++)
            sink += rgb[i];
    } else if (rgb || !err.text[0]) {
        abort();
    }
    if (kiln_webp_xmp(data, size, &xmp, &err) == 0 && xmp)
        sink += strlen(xmp);
    free(rgb);
    free(xmp);
    return 0;
}
