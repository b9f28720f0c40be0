/* pixels.c - see pixels.h. */
#include "scheduler/gallery/alike/pixels.h"

#include <stdlib.h>
#include <string.h>

#include "storage/formats/pictures/pdq.h"
#include "storage/formats/pictures/webp.h"

_Static_assert(KILN_PDQ_BYTES == KILN_FINGERPRINT_HASH_BYTES, "the ledger keeps whole hashes");

static uint32_t mean_colour(const uint8_t *rgb, size_t pixels)
{
    uint64_t sums[3] = {0};
    uint32_t colour = 0;
    for (size_t i = 0; i < pixels; i++)
        for (int channel = 0; channel < 3; channel++)
            sums[channel] += rgb[3 * i + channel];
    for (int channel = 0; channel < 3; channel++)
        colour = colour << 8 | (uint32_t)((sums[channel] + pixels / 2) / pixels);
    return colour;
}

int kiln_fingerprint_of(const void *file, size_t size, struct kiln_fingerprint *ret,
                        struct kiln_error *err)
{
    struct kiln_pdq turns[KILN_PDQ_TURNS];
    uint32_t width, height;
    uint8_t *rgb;
    int code = kiln_webp_decode(file, size, KILN_PIXELS_MAX, &rgb, &width, &height, err);
    if (code != 0)
        return code;
    code = kiln_pdq(rgb, width, height, turns, err);
    if (code == 0) {
        memcpy(ret->hash, turns[0].hash, sizeof ret->hash);
        ret->quality = turns[0].quality;
        ret->colour = mean_colour(rgb, (size_t)width * height);
    }
    free(rgb);
    return code;
}
