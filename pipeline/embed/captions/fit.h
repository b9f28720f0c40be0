/* fit.h - what makes pooled features of a language model comparable: their mean and the few
 * directions along which all of them lie are removed.
 *
 * Features of a caption's tokens, averaged, have a cosine above 0.5 whatever the captions are.
 * What is left after the mean and the dominant principal components says what a caption is about
 * (Mu and Viswanath, "All-but-the-Top", ICLR 2018).  A fit is made once of some ten thousand
 * captions of one model and kept beside it; vectors of two fits must not be compared.
 */
#ifndef KILN_CAPTION_FIT_H
#define KILN_CAPTION_FIT_H

#include <stddef.h>

#include "schemas/error.h"

#define KILN_FIT_DIMS_MAX 4096
#define KILN_FIT_DIRECTIONS 20 /* that are removed by default; of the sketch model's 192 */
#define KILN_FIT_DIRECTIONS_MAX 64
#define KILN_FIT_ROWS_MIN 1000 /* captions that a fit needs */
#define KILN_FIT_MODEL_SIZE 80 /* bytes of a model's hash, with its NUL */

struct kiln_caption_fit {
    size_t dims, directions;
    float *mean;                     /* [dims] */
    float *removed;                  /* [directions][dims], orthonormal */
    char model[KILN_FIT_MODEL_SIZE]; /* hash of the model whose features it was made of */
};

struct kiln_caption_fitting;

/* Collects pooled rows of `dims` values.  NULL: no memory. */
struct kiln_caption_fitting *kiln_caption_fitting_new(size_t dims);
void kiln_caption_fitting_free(struct kiln_caption_fitting *f); /* accepts NULL */
void kiln_caption_fitting_add(struct kiln_caption_fitting *f, const float *row);
/* KILN_BAD_INPUT for fewer than KILN_FIT_ROWS_MIN rows, or more directions than dims / 4. */
int kiln_caption_fitting_finish(const struct kiln_caption_fitting *f, size_t directions,
                                const char *model, struct kiln_caption_fit *ret,
                                struct kiln_error *err) KILN_MUST_CHECK;

/* A safetensors file: "mean" [dims] and "directions" [n][dims] in F32, metadata format and model.
 * KILN_CORRUPT for a file of another form. */
int kiln_caption_fit_read(const char *path, struct kiln_caption_fit *ret,
                          struct kiln_error *err) KILN_MUST_CHECK;
int kiln_caption_fit_write(const struct kiln_caption_fit *fit, const char *path,
                           struct kiln_error *err) KILN_MUST_CHECK;
void kiln_caption_fit_release(struct kiln_caption_fit *fit);

/* Removes mean and directions from a row. */
void kiln_caption_fit_apply(const struct kiln_caption_fit *fit, float *row);

#endif
