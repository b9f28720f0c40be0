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

/* A cell of a plane [height][width]. */
struct cell {
    uint32_t top, bottom, left, right, width;
};

static struct cell cell_at(uint32_t height, uint32_t width, uint32_t rows, uint32_t cols,
                           uint32_t row, uint32_t col)
{
    return (struct cell){.top = row * height / rows,
                         .bottom = (row + 1) * height / rows,
                         .left = col * width / cols,
                         .right = (col + 1) * width / cols,
                         .width = width};
}

static float mean_of(const float *plane, const struct cell *cell)
{
    double sum = 0;
    for (uint32_t y = cell->top; y < cell->bottom; y++)
        for (uint32_t x = cell->left; x < cell->right; x++)
            sum += (double)plane[(size_t)y * cell->width + x];
    return (float)(sum / ((double)(cell->bottom - cell->top) * (cell->right - cell->left)));
}

void kiln_soften(float *latent, uint32_t channels, uint32_t height, uint32_t width, uint32_t side)
{
    const uint32_t rows = cells_of(height, side), cols = cells_of(width, side);
    for (uint32_t c = 0; c < channels; c++)
        for (uint32_t at = 0; at < rows * cols; at++) {
            const struct cell cell = cell_at(height, width, rows, cols, at / cols, at % cols);
            float *plane = latent + (size_t)c * height * width;
            const float mean = mean_of(plane, &cell);
            for (uint32_t y = cell.top; y < cell.bottom; y++)
                for (uint32_t x = cell.left; x < cell.right; x++)
                    plane[(size_t)y * width + x] = mean;
        }
}

float *kiln_latent_shrunk(const float *clean, uint32_t channels, uint32_t height, uint32_t width,
                          uint32_t out_height, uint32_t out_width)
{
    const size_t plane = (size_t)out_height * out_width;
    float *ret = malloc(channels * plane * sizeof *ret);
    for (size_t at = 0; ret && at < channels * plane; at++) {
        const uint32_t row = (uint32_t)(at % plane / out_width), col = (uint32_t)(at % out_width);
        const struct cell cell = cell_at(height, width, out_height, out_width, row, col);
        ret[at] = mean_of(clean + at / plane * height * width, &cell);
    }
    return ret;
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
