/* token_rows.c - see token_rows.h. */
#include "pipeline/embed/captions/token_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/vectors/scan.h"

#define HEAD_BYTES 4
#define LEVELS 127 /* of either sign */

_Static_assert(KILN_TOKEN_DIMS_MAX <= KILN_SCAN_DIMS_MAX, "sums of products fit");

struct kiln_token_query {
    size_t count, dims;
    float *scales; /* [count], times the share of the token */
    int8_t *rows;  /* [count][dims] */
};

size_t kiln_token_rows_size(size_t count, size_t dims)
{
    return HEAD_BYTES + count * (2 * sizeof(float) + dims);
}

/* The row at length 1 in signed bytes; returns the scale, and the length it had: both 0 for a row
 * that says nothing. */
static float quantise(const float *row, size_t dims, int8_t *out, float *ret_length)
{
    double sum = 0;
    float most = 0;
    for (size_t i = 0; i < dims; i++) {
        sum += (double)row[i] * row[i];
        most = fmaxf(most, fabsf(row[i]));
    }
    memset(out, 0, dims);
    *ret_length = 0;
    if (!(sum > 0) || !isfinite(sum))
        return 0;
    for (size_t i = 0; i < dims; i++)
        out[i] = (int8_t)lrintf(row[i] / most * LEVELS);
    *ret_length = (float)sqrt(sum);
    return (float)(most / LEVELS / sqrt(sum));
}

static void put_u16(uint8_t *out, size_t value)
{
    out[0] = (uint8_t)value;
    out[1] = (uint8_t)(value >> 8);
}

void kiln_token_rows_encode(const float *features, size_t count, size_t dims, uint8_t *out)
{
    uint8_t *scales = out + HEAD_BYTES, *lengths = scales + count * sizeof(float);
    uint8_t *rows = lengths + count * sizeof(float);
    put_u16(out, count);
    put_u16(out + 2, dims);
    for (size_t i = 0; i < count; i++) {
        float length;
        const float scale = quantise(features + i * dims, dims, (int8_t *)rows + i * dims, &length);
        memcpy(scales + i * sizeof scale, &scale, sizeof scale);
        memcpy(lengths + i * sizeof length, &length, sizeof length);
    }
    for (size_t i = 0; i < count * dims; i++)
        rows[i] = (uint8_t)(rows[i] ^ 0x80u); /* x + 128 */
}

/* The number of tokens; 0 for bytes that are not a caption of so many values a token. */
static size_t count_tokens(const uint8_t *stored, size_t size, size_t dims)
{
    const size_t count = size >= HEAD_BYTES ? stored[0] | (size_t)stored[1] << 8 : 0;
    const bool is_caption = count >= 1 && count <= KILN_TOKEN_ROWS_MAX &&
                            (stored[2] | (size_t)stored[3] << 8) == dims &&
                            size == kiln_token_rows_size(count, dims);
    return is_caption ? count : 0;
}

static int new_query(size_t count, size_t dims, struct kiln_token_query **ret,
                     struct kiln_error *err)
{
    struct kiln_token_query *q = calloc(1, sizeof *q);
    if (q) {
        q->count = count;
        q->dims = dims;
        q->scales = malloc(count * sizeof *q->scales);
        q->rows = malloc(count * dims);
    }
    if (!q || !q->scales || !q->rows) {
        kiln_token_query_free(q);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a query of %zu tokens", count);
    }
    *ret = q;
    return 0;
}

/* Each scale times the share of its token. */
static void share_out(struct kiln_token_query *q, const float *lengths)
{
    double sum = 0;
    for (size_t i = 0; i < q->count; i++)
        sum += lengths[i];
    for (size_t i = 0; i < q->count; i++)
        q->scales[i] = sum > 0 ? (float)(q->scales[i] * (lengths[i] / sum)) : 0;
}

int kiln_token_query_new(const float *features, size_t count, size_t dims,
                         struct kiln_token_query **ret, struct kiln_error *err)
{
    float lengths[KILN_TOKEN_ROWS_MAX];
    if (count < 1 || count > KILN_TOKEN_ROWS_MAX || dims < 1 || dims > KILN_TOKEN_DIMS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "a query of %zu tokens (1 to %d) of %zu values",
                         count, KILN_TOKEN_ROWS_MAX, dims);
    int rc = new_query(count, dims, ret, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < count; i++)
        (*ret)->scales[i] =
            quantise(features + i * dims, dims, (*ret)->rows + i * dims, &lengths[i]);
    share_out(*ret, lengths);
    return 0;
}

int kiln_token_query_of(const uint8_t *stored, size_t size, size_t dims,
                        struct kiln_token_query **ret, struct kiln_error *err)
{
    float lengths[KILN_TOKEN_ROWS_MAX];
    const size_t count = count_tokens(stored, size, dims);
    if (count == 0)
        return kiln_fail(err, KILN_CORRUPT, "%zu bytes are no caption of %zu values a token", size,
                         dims);
    int rc = new_query(count, dims, ret, err);
    if (rc)
        return rc;
    struct kiln_token_query *q = *ret;
    const uint8_t *rows = stored + HEAD_BYTES + 2 * count * sizeof(float);
    memcpy(q->scales, stored + HEAD_BYTES, count * sizeof *q->scales);
    memcpy(lengths, stored + HEAD_BYTES + count * sizeof *q->scales, count * sizeof *lengths);
    for (size_t i = 0; i < count; i++) {
        const bool says = isfinite(q->scales[i]) && isfinite(lengths[i]) && lengths[i] > 0;
        q->scales[i] = says ? q->scales[i] : 0;
        lengths[i] = says ? lengths[i] : 0;
    }
    for (size_t i = 0; i < count * dims; i++)
        q->rows[i] = (int8_t)(rows[i] ^ 0x80u);
    share_out(q, lengths);
    return 0;
}

void kiln_token_query_free(struct kiln_token_query *q)
{
    if (!q)
        return;
    free(q->scales);
    free(q->rows);
    free(q);
}

float kiln_token_query_score(const struct kiln_token_query *q, const uint8_t *stored, size_t size)
{
    const size_t count = count_tokens(stored, size, q->dims);
    if (count == 0)
        return -2;
    int32_t products[KILN_TOKEN_ROWS_MAX];
    float scales[KILN_TOKEN_ROWS_MAX], sum = 0;
    memcpy(scales, stored + HEAD_BYTES, count * sizeof *scales);
    const uint8_t *rows = stored + HEAD_BYTES + 2 * count * sizeof *scales;
    for (size_t i = 0; i < q->count; i++) {
        float best = -INFINITY;
        kiln_scan_rows(rows, (int64_t)count, (int64_t)q->dims, q->rows + i * q->dims, products);
        for (size_t k = 0; k < count; k++) {
            const float product = (float)products[k] * scales[k];
            best = product > best ? product : best;
        }
        sum += best * q->scales[i];
    }
    return isfinite(sum) ? fmaxf(-1, fminf(sum, 1)) : -2; /* the bytes may lie */
}
