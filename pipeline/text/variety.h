/* variety.h - noise on the features of a prompt, so that pictures of different seeds differ more.
 *
 * A few-step model maps all noise to nearly the same layout.  Noise on what the transformer reads of
 * the prompt, in the first steps only, moves the layout; the later steps read the prompt as it is.
 * The rule, for the features F [tokens, width] of a prompt:
 *
 *     n       torch.randn(tokens, width, generator=torch.Generator("cpu").manual_seed(s)), with s =
 *             kiln_variety_seed(seed of the item)
 *     d[c]    the standard deviation of column c of F over all tokens but the first, whose values
 *             are of another size in Qwen (it collects the attention of those that attend to
 *             nothing)
 *     N       n[t][c] * d[c] for the tokens of the prompt itself, 0 for those of the chat template
 *     F'      F + kiln_variety_weight(variety, sigma) * N, in fp32
 *
 * So the noise is of the size by which the tokens of this prompt differ from one another.
 * Negative prompts get none.  Noise on the embeddings of the prompt is InvokeAI's cure as well (PR
 * #8753), with one deviation for the whole tensor and a number of steps in place of a sigma.
 */
#ifndef KILN_VARIETY_H
#define KILN_VARIETY_H

#include "pipeline/torch/tensor.h"

/* The noise at variety 1 and sigma 1, in deviations of the features.  With the demo model 1 loses a
 * tenth of the prompts and 0.5 next to nothing (scripts/bench/RESULTS.md). */
#define KILN_VARIETY_DEVIATIONS 1.5
/* The noise falls linearly with sigma, to 0 at this one. */
#define KILN_VARIETY_SIGMA 0.95

/* kiln_seed_for "kiln variety": another draw than the noise of the picture. */
uint64_t kiln_variety_seed(uint64_t seed);
/* How much of the noise a step at sigma adds: 0 from KILN_VARIETY_SIGMA down. */
double kiln_variety_weight(double variety, double sigma);
/* N of the rule, in fp32, for features of a prompt whose chat template has `before` tokens before
 * it and `after` behind it. */
kt kiln_variety_noise(struct kt_scope *s, kt features, uint64_t seed, size_t before, size_t after);

#endif
