/* upsample_ref.c - see upsample.h. */
#include "kernels/upsample.h"

#include <string.h>

void kiln_upsample_ref(const struct kiln_upsample *args)
{
    const int64_t pixel = 2 * (int64_t)args->channels, width = args->width;
    for (int64_t line = 0; line < args->items * args->height; line++) {
        const char *from = (const char *)args->x + line * width * pixel;
        char *to = (char *)args->y + line * 4 * width * pixel; /* two lines of twice the width */
        for (int64_t x = 0; x < width; x++) {
            memcpy(to + 2 * x * pixel, from + x * pixel, (size_t)pixel);
            memcpy(to + (2 * x + 1) * pixel, from + x * pixel, (size_t)pixel);
        }
        memcpy(to + 2 * width * pixel, to, (size_t)(2 * width * pixel));
    }
}
