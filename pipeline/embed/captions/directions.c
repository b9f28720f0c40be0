/* directions.c - subspace iteration, then Jacobi's method within the subspace (Golub and Van Loan,
 * "Matrix Computations", 8.2.4 and 8.5).  A few vectors more than asked for make it converge by the
 * gap behind them.
 */
#include "pipeline/embed/captions/directions.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SPARE 8 /* vectors beyond those asked for */
#define ROUNDS 200
#define SWEEPS 60

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Makes the rows orthonormal, twice for the sake of rounding; a row that vanishes becomes zero. */
static void orthonormalise(double *rows, size_t count, size_t dims)
{
    for (size_t i = 0; i < count; i++) {
        double *row = rows + i * dims;
        for (int twice = 0; twice < 2; twice++)
            for (size_t k = 0; k < i; k++) {
                const double *other = rows + k * dims, share = dot(row, other, dims);
                for (size_t d = 0; d < dims; d++)
                    row[d] -= share * other[d];
            }
        const double size = sqrt(dot(row, row, dims));
        for (size_t d = 0; d < dims; d++)
            row[d] = size > 1e-150 ? row[d] / size : 0;
    }
}

/* out = rows x matrix */
static void multiply(const double *matrix, const double *rows, size_t count, size_t dims,
                     double *out)
{
    memset(out, 0, count * dims * sizeof *out);
    for (size_t k = 0; k < dims; k++)
        for (size_t i = 0; i < count; i++) {
            const double factor = rows[i * dims + k], *line = matrix + k * dims;
            for (size_t d = 0; d < dims; d++)
                out[i * dims + d] += factor * line[d];
        }
}

/* Rotates rows p and q of `small` (and its columns), and of the vectors, until small[p][q] is 0. */
static void rotate(double *small, double *rows, size_t count, size_t dims, size_t p, size_t q)
{
    const double off = small[p * count + q];
    const double theta = (small[q * count + q] - small[p * count + p]) / (2 * off);
    const double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
    const double c = 1 / sqrt(t * t + 1), s = t * c;
    for (size_t k = 0; k < count; k++) {
        const double a = small[k * count + p], b = small[k * count + q];
        small[k * count + p] = c * a - s * b;
        small[k * count + q] = s * a + c * b;
    }
    for (size_t k = 0; k < count; k++) {
        const double a = small[p * count + k], b = small[q * count + k];
        small[p * count + k] = c * a - s * b;
        small[q * count + k] = s * a + c * b;
    }
    for (size_t d = 0; d < dims; d++) {
        const double a = rows[p * dims + d], b = rows[q * dims + d];
        rows[p * dims + d] = c * a - s * b;
        rows[q * dims + d] = s * a + c * b;
    }
}

/* Turns the rows within their subspace into eigenvectors; values receives the eigenvalues. */
static void diagonalise(double *small, double *rows, size_t count, size_t dims, double *values)
{
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        double off = 0, all = 0;
        for (size_t i = 0; i < count * count; i++)
            all += small[i] * small[i];
        for (size_t p = 0; p < count; p++)
            for (size_t q = p + 1; q < count; q++)
                off += small[p * count + q] * small[p * count + q];
        if (off <= 1e-30 * all)
            break;
        for (size_t p = 0; p < count; p++)
            for (size_t q = p + 1; q < count; q++)
                if (small[p * count + q] != 0)
                    rotate(small, rows, count, dims, p, q);
    }
    for (size_t i = 0; i < count; i++)
        values[i] = small[i * count + i];
}

/* The row with the largest value that is left, its largest component positive. */
static void take_largest(const double *rows, double *values, size_t count, size_t dims, double *out)
{
    size_t best = 0, top = 0;
    for (size_t i = 1; i < count; i++)
        best = values[i] > values[best] ? i : best;
    values[best] = -INFINITY;
    const double *row = rows + best * dims;
    for (size_t d = 1; d < dims; d++)
        top = fabs(row[d]) > fabs(row[top]) ? d : top;
    for (size_t d = 0; d < dims; d++)
        out[d] = row[top] < 0 ? -row[d] : row[d];
}

int kiln_principal_directions(const double *matrix, size_t dims, size_t n, double *ret,
                              struct kiln_error *err)
{
    const size_t count = n + SPARE < dims ? n + SPARE : dims;
    double *rows = malloc(count * dims * sizeof *rows), *next = malloc(count * dims * sizeof *next);
    double *small = malloc(count * count * sizeof *small), *values = malloc(count * sizeof *values);
    uint64_t seed = 1;
    int rc = rows && next && small && values
                 ? 0
                 : kiln_fail(err, KILN_NO_MEMORY, "no memory for %zu directions", n);
    for (size_t i = 0; i < count * dims && !rc; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        rows[i] = (double)(int32_t)(seed >> 32);
    }
    for (int round = 0; round < ROUNDS && !rc; round++) {
        orthonormalise(rows, count, dims);
        multiply(matrix, rows, count, dims, next);
        memcpy(rows, next, count * dims * sizeof *rows);
    }
    if (!rc) {
        orthonormalise(rows, count, dims);
        multiply(matrix, rows, count, dims, next);
        for (size_t p = 0; p < count; p++)
            for (size_t q = 0; q < count; q++)
                small[p * count + q] = dot(next + p * dims, rows + q * dims, dims);
        diagonalise(small, rows, count, dims, values);
        for (size_t i = 0; i < n; i++)
            take_largest(rows, values, count, dims, ret + i * dims);
    }
    free(rows);
    free(next);
    free(small);
    free(values);
    return rc;
}
