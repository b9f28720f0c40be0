/* combine.c - see combine.h. */
#include "worker/stages/combine.h"

#include <inttypes.h>
#include <math.h>

#include "schemas/telemetry/log.h"

#define CELLS 8
#define LOOKED_AT 8 /* latents that are fetched for one start at most */

double kiln_latents_apart(const float *a, const float *b, uint32_t channels, uint32_t height,
                          uint32_t width)
{
    double squares = 0;
    for (uint32_t c = 0; c < channels; c++)
        for (uint32_t cell = 0; cell < CELLS * CELLS; cell++) {
            const uint32_t y0 = cell / CELLS * height / CELLS, x0 = cell % CELLS * width / CELLS;
            const uint32_t y1 = (cell / CELLS + 1) * height / CELLS;
            const uint32_t x1 = (cell % CELLS + 1) * width / CELLS;
            double sum = 0;
            for (uint32_t y = y0; y < y1; y++)
                for (uint32_t x = x0; x < x1; x++) {
                    const size_t at = ((size_t)c * height + y) * width + x;
                    sum += (double)a[at] - (double)b[at];
                }
            const double mean = sum / ((double)(y1 - y0) * (double)(x1 - x0));
            squares += mean * mean;
        }
    return sqrt(squares / ((double)channels * CELLS * CELLS));
}

/* Whether a latent agrees with all that the start has. */
static bool agrees(const struct kiln_worker *worker, const struct kiln_start_want *want,
                   const struct kiln_start *start, const float *latent)
{
    const double most = kiln_config_number(worker->config, KILN_KEY_COMBINE_APART);
    const uint32_t height = want->height / want->latent_factor;
    const uint32_t width = want->width / want->latent_factor;
    if (height < CELLS || width < CELLS)
        return false;
    for (uint32_t i = 0; i <= start->more_count; i++)
        if (!(kiln_latents_apart(i ? start->more[i - 1] : start->latent, latent,
                                 want->latent_channels, height, width) <= most))
            return false;
    return true;
}

int kiln_combine_add(const struct kiln_worker *worker, struct kiln_ledger *ledger,
                     struct kiln_store *store, uint64_t donor, const struct kiln_start_want *want,
                      struct kiln_start *start)
{
    const uint32_t most = (uint32_t)kiln_config_int(worker->config, KILN_KEY_COMBINE_DONORS);
    struct kiln_latent_row rows[LOOKED_AT];
    struct kiln_error err;
    uint32_t count = 0;
    if (kiln_combine_by_name(kiln_config_text(worker->config, KILN_KEY_COMBINE)) <=
        KILN_COMBINE_SINGLE)
        return 0;
    if (kiln_ledger_like_latents(ledger, worker->pool, donor, LOOKED_AT, rows, &count, &err)) {
        kiln_log(KILN_LOG_WARNING, "donors_not_combined", kiln_f("donor", "%" PRIu64, donor),
                 kiln_f("error", "%s", err.text));
        return 0;
    }
    for (uint32_t i = 0; i < count && 1 + start->more_count < most; i++) {
        struct kiln_start other = {0};
        const int code = kiln_donor_load(store, &rows[i], want, &other, &err);
        if (code != 0 && !kiln_start_is_bad(code))
            return code;
        if (code != 0)
            continue;
        if (agrees(worker, want, start, other.latent)) {
            start->more[start->more_count++] = other.latent; /* taken over */
            start->bytes += other.bytes;
            other.latent = NULL;
        }
        kiln_start_release(&other);
    }
    return 0;
}
