/* picture_mask.c - see picture_mask.h. */
#include "storage/formats/pictures/picture_mask.h"

#include <stdlib.h>

#include "storage/formats/pictures/picture_resize.h"

#define WHITE 128 /* and above; diffusers: value / 255 >= 0.5 */

static bool same_shape(struct kiln_picture_size mask, struct kiln_picture_size of)
{
    const int64_t off = (int64_t)mask.width * of.height - (int64_t)mask.height * of.width;
    return llabs(off) <= (of.width > of.height ? of.width : of.height);
}

int kiln_mask_check(struct kiln_picture_size mask, struct kiln_picture_size picture,
                    struct kiln_picture_size job, struct kiln_error *err)
{
    if (same_shape(mask, picture) || same_shape(mask, job))
        return 0;
    return kiln_fail(err, KILN_BAD_INPUT,
                     "a mask of %ux%u pixels has neither the shape of the picture that it is for, "
                     "%ux%u, nor that of the job, %ux%u",
                     mask.width, mask.height, picture.width, picture.height, job.width, job.height);
}

/* Pillow's integers. */
static unsigned luma(const uint8_t pixel[3])
{
    return (pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16;
}

int kiln_picture_mask(const uint8_t *rgb, uint32_t width, uint32_t height,
                      struct kiln_picture_size job, uint32_t factor, float **ret_grid,
                      struct kiln_error *err)
{
    const uint32_t columns = job.width / factor, rows = job.height / factor;
    uint8_t *resized;
    int code = kiln_picture_resize(rgb, width, height, job.width, job.height, &resized, err);
    if (code)
        return code;
    float *grid = malloc((size_t)columns * rows * sizeof *grid);
    for (uint32_t y = 0; grid && y < rows; y++) {
        const uint8_t *line = resized + (size_t)y * factor * job.width * 3;
        for (uint32_t x = 0; x < columns; x++)
            grid[(size_t)y * columns + x] = luma(line + (size_t)x * factor * 3) >= WHITE;
    }
    free(resized);
    if (!grid)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a mask of %ux%u pixels", job.width,
                         job.height);
    *ret_grid = grid;
    return 0;
}
