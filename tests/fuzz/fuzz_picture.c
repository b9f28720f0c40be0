/* fuzz_picture.c - any bytes as a picture file: refused with a sentence, or the picture that its
 * headers promise, which can then be resized, also as a mask. */
#include <stdlib.h>

#include "storage/formats/pictures/picture_mask.h"
#include "storage/formats/pictures/picture_read.h"
#include "storage/formats/pictures/picture_resize.h"
#include "tests/fuzz/fuzz.h"

#define PIXELS_MAX (1 << 20) /* of what is decoded: larger ones only cost time */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static volatile size_t sink; /* so that the reads are made */
    struct kiln_picture_pixels picture = {0};
    struct kiln_error err = {0};
    enum kiln_picture_format format;
    uint32_t width, height;
    if (kiln_picture_probe(data, size, &format, &width, &height, &err)) {
        fuzz_require(err.text[0]);
        fuzz_require(kiln_picture_read(data, size, &picture, &err) && !picture.rgb);
        return 0;
    }
    fuzz_require(width && height && kiln_picture_extension(format));
    if ((uint64_t)width * height > PIXELS_MAX)
        return 0;
    if (kiln_picture_read(data, size, &picture, &err)) {
        fuzz_require(err.text[0] && !picture.rgb);
        return 0;
    }
    fuzz_require(picture.width == width && picture.height == height);
    uint8_t *small = NULL;
    fuzz_require(kiln_picture_resize(picture.rgb, width, height, 9, 5, &small, &err) == 0);
    for (int i = 0; i < 9 * 5 * 3; i++)
        sink += small[i];
    free(small);
    float *grid = NULL;
    fuzz_require(kiln_picture_mask(picture.rgb, width, height, (struct kiln_picture_size){32, 16},
                                   8, &grid, &err) == 0);
    for (int i = 0; i < 4 * 2; i++)
        fuzz_require(grid[i] == 0 || grid[i] == 1);
    free(grid);
    free(picture.rgb);
    return 0;
}
