/* fuzz_latentfile.c - any bytes as a latent file, and as the safetensors inside one: refused, or a
 * latent whose every value can be read and written again. */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "storage/formats/latentfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static double largest(const struct kiln_latent *latent, size_t count)
{
    double ret = 0;
    for (size_t i = 0; i < count; i++)
        ret = fmax(ret, fabs((double)latent->values[i]));
    return ret;
}

/* Rounding in steps is off by a sixteenth of a deviation at most, which is below the largest. */
static bool is_near(const struct kiln_latent *back, const struct kiln_latent *latent, size_t count)
{
    const double most = largest(latent, count) / 8 + FLT_MIN * 127;
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)back->values[i] - (double)latent->values[i]) <= most))
            return false;
    return true;
}

static void check(const uint8_t *data, size_t size)
{
    struct kiln_latent latent = {0};
    enum kiln_latent_encoding encoding;
    struct kiln_error err = {0};
    int code = kiln_latent_decode(data, size, &latent, &encoding, &err);
    if (code) {
        if (!err.text[0] || latent.values)
            abort();
        return;
    }
    uint8_t *again = NULL;
    size_t again_size = 0;
    size_t count = (size_t)latent.states * latent.channels * latent.height * latent.width;
    if (kiln_latent_encode(&latent, encoding, 1, &again, &again_size, &err)) {
        if (encoding != KILN_LATENT_I8_STEPS || largest(&latent, count) < FLT_MAX / 8)
            abort();
        kiln_latent_release(&latent);
        return;
    }
    struct kiln_latent back = {0};
    if (kiln_latent_decode(again, again_size, &back, &encoding, &err) ||
        (encoding == KILN_LATENT_I8_STEPS
             ? !is_near(&back, &latent, count)
             : memcmp(back.values, latent.values, count * sizeof *back.values) != 0))
        abort();
    struct kiln_latent last = {0};
    if (kiln_latent_decode_finished(data, size, &last, &err) == 0 &&
        memcmp(last.values, latent.values + count - count / latent.states,
               count / latent.states * sizeof *last.values) != 0)
        abort();
    kiln_latent_release(&last);
    kiln_latent_release(&back);
    kiln_latent_release(&latent);
    free(again);
}

/* A mutated frame mostly fails its checksum; wrapped, the bytes reach the readers behind it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check(data, size);
    size_t room = ZSTD_compressBound(size);
    uint8_t *wrapped = malloc(room);
    if (!wrapped)
        return 0;
    check(wrapped, ZSTD_compress(wrapped, room, data, size, 1));
    free(wrapped);
    return 0;
}
