/* soften.c - see soften.h. */
#include "worker/engine/soften.h"

#include <stddef.h>
#include <stdlib.h>

#include "kernels/pictures/latent_enlarge.h"

static uint32_t cells_of(uint32_t size, uint32_t side)
{
    const uint32_t cells = (size + side / 2) / side;
    return cells > 0 ? cells : 1;
}

void kiln_soften(float *latent, uint32_t channels, uint32_t height, uint32_t width, uint32_t side)
{
    const uint32_t rows = cells_of(height, side), cols = cells_of(width, side);
    for (uint32_t c = 0; c < channels; c++)
        for (uint32_t cell = 0; cell < rows * cols; cell++) {
            const uint32_t row = cell / cols, col = cell % cols;
            const uint32_t top = row * height / rows, bottom = (row + 1) * height / rows;
            const uint32_t left = col * width / cols, right = (col + 1) * width / cols;
            float *plane = latent + (size_t)c * height * width;
            double sum = 0;
            for (uint32_t y = top; y < bottom; y++)
                for (uint32_t x = left; x < right; x++)
                    sum += (double)plane[(size_t)y * width + x];
            const float mean = (float)(sum / ((double)(bottom - top) * (right - left)));
            for (uint32_t y = top; y < bottom; y++)
                for (uint32_t x = left; x < right; x++)
                    plane[(size_t)y * width + x] = mean;
        }
}

float *kiln_latent_enlarged(const float *clean, uint32_t channels, uint32_t height, uint32_t width,
                            uint32_t out_height, uint32_t out_width)
{
    /* Noise of which nothing is mixed in. */
    float *ret = calloc((size_t)channels * out_height * out_width, sizeof *ret);
    if (ret)
        kiln_latent_enlarge_ref(&(struct kiln_latent_enlarge){.clean = clean,
                                                              .noise = ret,
                                                              .x = ret,
                                                              .channels = (int)channels,
                                                              .height = (int)height,
                                                              .width = (int)width,
                                                              .out_height = (int)out_height,
                                                              .out_width = (int)out_width});
    return ret;
}
