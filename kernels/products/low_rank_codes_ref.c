/* low_rank_codes_ref.c - see low_rank_codes.h. */
#include "kernels/products/low_rank_codes.h"

#include "kernels/fp8.h"

static float up_at(const struct kiln_low_rank_codes *a, int64_t n, int64_t r)
{
    return kiln_load(a->up, n * a->rank + r, a->format);
}

static float mean_factor(const struct kiln_low_rank_codes *a)
{
    double sum = 0;
    for (int64_t n = 0; n < a->n; n++)
        sum += (double)a->factor[n];
    return (float)(sum / (double)a->n);
}

static float reach_of(const struct kiln_low_rank_codes *a, float mean, float length, int64_t r)
{
    float share = 0, common = 0;
    for (int64_t n = 0; n < a->n; n++) {
        const float size = fabsf(up_at(a, n, r));
        share = fmaxf(share, size / a->factor[n]);
        common = fmaxf(common, size / fmaxf(a->factor[n], mean / 2));
    }
    const float most = KILN_E4M3_MAX / fmaxf(share, KILN_E4M3_FLOOR);
    const float large = KILN_E4M3_MAX / fmaxf(common, KILN_E4M3_FLOOR);
    return fmaxf(most, fminf(length / KILN_LOW_RANK_LENGTH, large));
}

void kiln_low_rank_codes_ref(const struct kiln_low_rank_codes *args, int64_t begin, int64_t end)
{
    const struct kiln_low_rank_codes *a = args;
    const float mean = mean_factor(a);
    for (int64_t r = begin; r < end; r++) {
        double squares = 0;
        for (int64_t i = 0; i < a->k; i++)
            squares += pow((double)kiln_load(a->down, r * a->k + i, a->format), 2);
        const float reach = reach_of(a, mean, (float)sqrt(squares), r);
        for (int64_t n = 0; n < a->n; n++)
            a->up_codes[n * a->pitch + r] = kiln_to_e4m3(up_at(a, n, r) / a->factor[n] * reach);
        kiln_quantise_row((const char *)a->down + r * a->k * kiln_float_size(a->format), a->k,
                          a->format, 0, a->down_codes + r * a->k, a->down_scale + r);
        a->down_scale[r] /= reach;
    }
}
