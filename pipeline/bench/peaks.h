/* peaks.h - from the network's outputs to objects: the part of the judge without tensors. */
#ifndef KILN_JUDGE_PEAKS_H
#define KILN_JUDGE_PEAKS_H

#include "pipeline/bench/labels.h"

/* The number of values that the network gives for a cell, and for a whole picture. */
int kiln_judge_local_width(const struct kiln_judge_labels *labels);
int kiln_judge_whole_width(const struct kiln_judge_labels *labels);

/* local: [local width][rows][cols], heat first, then shape, colour, size and offset x, y; heat as
 * logits.  Objects are the peaks of the heat map: no neighbour within two cells is hotter.  Fills
 * count and things of *ret, at most the hottest six. */
void kiln_judge_peaks(const struct kiln_judge_labels *labels, const float *local, int rows,
                      int cols, struct kiln_seen *ret);

/* whole: background, first colour, second colour, style.  Fills the same fields of *ret, and
 * style_next. */
void kiln_judge_whole(const struct kiln_judge_labels *labels, const float *whole,
                      struct kiln_seen *ret);

#endif
