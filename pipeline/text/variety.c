/* variety.c - noise on the features of a prompt; see variety.h. */
#include "pipeline/text/variety.h"

#include "schemas/digest.h"

uint64_t kiln_variety_seed(uint64_t seed)
{
    return kiln_seed_for("kiln variety", seed);
}

double kiln_variety_weight(double variety, double sigma)
{
    const double left = (sigma - KILN_VARIETY_SIGMA) / (1 - KILN_VARIETY_SIGMA);
    return left > 0 ? variety * KILN_VARIETY_DEVIATIONS * left : 0;
}

kt kiln_variety_noise(struct kt_scope *s, kt features, uint64_t seed, size_t before, size_t after)
{
    struct kt_scope *inner = kt_scope_child(s);
    const int64_t rows = kt_size(features, 0), width = kt_size(features, 1);
    const int64_t first = (int64_t)before < rows ? (int64_t)before : rows;
    /* A prompt that is cut at the limit has no template behind it; its last tokens stay as well. */
    const int64_t end = rows - (int64_t)after > first ? rows - (int64_t)after : first;
    const int64_t all[2] = {rows, width}, head[2] = {first, width}, tail[2] = {rows - end, width};
    kt parts[3] = {kt_zeros(inner, KT_F32, 2, head), NULL, kt_zeros(inner, KT_F32, 2, tail)};
    kt normal = kt_randn(inner, kiln_variety_seed(seed), 2, all);
    kt deviation = kt_column_deviation(inner, kt_narrow(inner, features, 0, 1, rows - 1));
    parts[1] = kt_multiply(inner, kt_narrow(inner, normal, 0, first, end - first), deviation);
    kt noise = kt_keep(s, kt_cat(inner, parts, 3, 0));
    kt_scope_free(inner);
    return noise;
}
