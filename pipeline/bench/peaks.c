/* peaks.c - peaks of the heat map and the names at them; see peaks.h. */
#include "pipeline/bench/peaks.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#define PEAK_REACH 2 /* cells around a peak that may not be hotter */

int kiln_judge_local_width(const struct kiln_judge_labels *labels)
{
    return 1 + labels->shapes.count + labels->colours.count + labels->sizes.count + 2;
}

int kiln_judge_whole_width(const struct kiln_judge_labels *labels)
{
    return labels->backgrounds.count + 2 * labels->colours.count + labels->styles.count;
}

/* The first of the largest of `count` values that lie `stride` apart. */
static int largest(const float *values, int count, ptrdiff_t stride)
{
    int best = 0;
    for (int i = 1; i < count; i++)
        if (values[i * stride] > values[best * stride])
            best = i;
    return best;
}

static float heat_of(float logit)
{
    return 1.0F / (1.0F + expf(-logit));
}

/* Compares heat and not logits: where heat saturates, equal neighbours are all peaks. */
static bool is_peak(const float *heat, int rows, int cols, int row, int col)
{
    float own = heat_of(heat[row * cols + col]);
    for (int y = row - PEAK_REACH; y <= row + PEAK_REACH; y++)
        for (int x = col - PEAK_REACH; x <= col + PEAK_REACH; x++)
            if (y >= 0 && y < rows && x >= 0 && x < cols && heat_of(heat[y * cols + x]) > own)
                return false;
    return true;
}

/* Inserts an object by score, after those with the same; a full list loses its last one. */
static void insert(struct kiln_seen *seen, const struct kiln_seen_thing *thing)
{
    int at = seen->count;
    while (at > 0 && seen->things[at - 1].score < thing->score)
        at--;
    if (at == KILN_SEEN_THINGS_MAX)
        return;
    if (seen->count < KILN_SEEN_THINGS_MAX)
        seen->count++;
    for (int i = seen->count - 1; i > at; i--)
        seen->things[i] = seen->things[i - 1];
    seen->things[at] = *thing;
}

void kiln_judge_peaks(const struct kiln_judge_labels *labels, const float *local, int rows,
                      int cols, struct kiln_seen *ret)
{
    ptrdiff_t plane = (ptrdiff_t)rows * cols;
    const float *shape = local + plane, *colour = shape + labels->shapes.count * plane;
    const float *size = colour + labels->colours.count * plane;
    const float *offset = size + labels->sizes.count * plane;
    ret->count = 0;
    for (int row = 0; row < rows; row++)
        for (int col = 0; col < cols; col++) {
            int at = row * cols + col;
            float heat = heat_of(local[at]);
            if (!((double)heat > labels->heat) || !is_peak(local, rows, cols, row, col))
                continue;
            struct kiln_seen_thing thing = {
                .score = (double)heat,
                .x = (col + 0.5 + (double)offset[at]) / cols,
                .y = (row + 0.5 + (double)offset[plane + at]) / rows,
                .shape = largest(shape + at, labels->shapes.count, plane),
                .colour = largest(colour + at, labels->colours.count, plane),
                .size = largest(size + at, labels->sizes.count, plane),
            };
            insert(ret, &thing);
        }
}

void kiln_judge_whole(const struct kiln_judge_labels *labels, const float *whole,
                      struct kiln_seen *ret)
{
    ret->background = largest(whole, labels->backgrounds.count, 1);
    whole += labels->backgrounds.count;
    ret->first = largest(whole, labels->colours.count, 1);
    whole += labels->colours.count;
    ret->second = largest(whole, labels->colours.count, 1);
    whole += labels->colours.count;
    ret->style = largest(whole, labels->styles.count, 1);
    ret->style_next = ret->style == 0 && labels->styles.count > 1;
    for (int i = 0; i < labels->styles.count; i++)
        if (i != ret->style && whole[i] > whole[ret->style_next])
            ret->style_next = i;
}
