/* learn.h - what ratings of pictures say of a LoRA that prompts chose: a small bias on its score.
 *
 * Each LoRA has a Beta distribution over "a picture with it is liked".  Its prior has the pool's
 * mean m = (liked + 1)/(rated + 2) and the weight of KILN_LEARN_PRIOR ratings, so a few ratings
 * move it little and a LoRA that is liked as often as the others gets no bias:
 *
 *     q    = (KILN_LEARN_PRIOR m + liked)/(KILN_LEARN_PRIOR + rated)
 *     bias = clamp(logit q - logit m, 1/2) rated/(rated + KILN_LEARN_HALF)
 *
 * score.c adds it to z where no exact trigger stands.  It is too small to choose a LoRA that a
 * prompt does not ask for, and a rating blames prompt, seed and model too.
 */
#ifndef KILN_ROUTER_LEARN_H
#define KILN_ROUTER_LEARN_H

#include <stdint.h>

#define KILN_LEARN_PRIOR 10 /* ratings that the prior is worth */
#define KILN_LEARN_HALF 20  /* ratings at which half of the bias counts */
#define KILN_LEARN_MOST 500 /* of z, in thousandths; a bias is always smaller */

struct kiln_ratings {
    uint64_t liked, rated; /* liked <= rated */
};

/* The bias in thousandths of z.  0 for a LoRA that nobody rated. */
int kiln_learn_bias(struct kiln_ratings lora, struct kiln_ratings pool);

#endif
