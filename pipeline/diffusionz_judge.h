/* diffusionz_judge.h - the judge of judge.h as libdiffusionz shows it, for `kiln bench quality`.
 *
 * Same library and rules as diffusionz_batch.h: 0 or a code, the sentence in
 * diffusionz_last_error().  A judge is for one thread at a time.
 */
#ifndef DIFFUSIONZ_JUDGE_H
#define DIFFUSIONZ_JUDGE_H

#include "pipeline/diffusionz_c_api.h"
#include "pipeline/judge/labels.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct DiffusionZJudge DiffusionZJudge;

/* device_id -1 is the CPU, N is cuda:N. */
DIFFUSIONZ_API int32_t diffusionz_judge_open(const char *dir, int32_t device_id,
                                             DiffusionZJudge **ret);
DIFFUSIONZ_API void diffusionz_judge_free(DiffusionZJudge *judge); /* accepts NULL */

/* The names behind the numbers of struct kiln_seen; borrowed from the judge. */
DIFFUSIONZ_API const struct kiln_judge_labels *
diffusionz_judge_labels(const DiffusionZJudge *judge);

/* rgb: [height][width][3]. */
DIFFUSIONZ_API int32_t diffusionz_judge_look(DiffusionZJudge *judge, const uint8_t *rgb,
                                             int32_t width, int32_t height, struct kiln_seen *ret);

#ifdef __cplusplus
}
#endif
#endif
