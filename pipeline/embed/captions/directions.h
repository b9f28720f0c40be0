/* directions.h - the principal components of a symmetric matrix.  Private to fit.c. */
#ifndef KILN_CAPTION_DIRECTIONS_H
#define KILN_CAPTION_DIRECTIONS_H

#include <stddef.h>

#include "schemas/error.h"

/* The unit eigenvectors of the n largest eigenvalues of matrix [dims][dims], symmetric and not
 * negative, largest first.  ret: [n][dims].  The same matrix gives the same result: the start is
 * fixed, and the largest component of each vector is positive. */
int kiln_principal_directions(const double *matrix, size_t dims, size_t n, double *ret,
                              struct kiln_error *err) KILN_MUST_CHECK;

#endif
