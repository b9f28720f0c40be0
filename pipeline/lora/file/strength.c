/* strength.c - see strength.h. */
#include "pipeline/lora/file/strength.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/floats.h"

/* count values of the file, aligned to nothing, as floats. */
static bool read_floats(enum kiln_st_dtype dtype, const void *from, size_t count, float *to)
{
    const uint8_t *at = from;
    uint16_t half;
    switch (dtype) {
    case KILN_ST_F32:
        memcpy(to, at, count * sizeof *to);
        return true;
    case KILN_ST_F16:
    case KILN_ST_BF16:
        for (size_t i = 0; i < count; i++, at += sizeof half) {
            memcpy(&half, at, sizeof half);
            to[i] = dtype == KILN_ST_F16 ? kiln_from_half(half) : kiln_from_bf16(half);
        }
        return true;
    default:
        return false;
    }
}

/* gram[rank][rank] += the products of count vectors of `rank` values, one behind the other. */
static void add_products(const float *vectors, size_t count, size_t rank, double *gram)
{
    for (size_t v = 0; v < count; v++, vectors += rank)
        for (size_t i = 0; i < rank; i++) {
            const double x = vectors[i];
            for (size_t j = 0; j < rank; j++)
                gram[i * rank + j] += x * vectors[j];
        }
}

/* A [rank][cols] with its columns as vectors. */
static void transpose(const float *a, size_t rank, size_t cols, float *ret)
{
    for (size_t i = 0; i < rank; i++)
        for (size_t j = 0; j < cols; j++)
            ret[j * rank + i] = a[i * cols + j];
}

/* |B A|^2 of a pair; negative: no memory. */
static double change_squared(const struct kiln_lora_pair *pair,
                             const struct kiln_lora_module *module)
{
    const size_t rank = (size_t)pair->rank, rows = (size_t)module->rows,
                 cols = (size_t)module->cols, longest = rows > cols ? rows : cols;
    float *values = malloc(rank * longest * sizeof *values);
    float *turned = malloc(rank * cols * sizeof *turned);
    double *gram_a = calloc(rank * rank, sizeof *gram_a);
    double *gram_b = calloc(rank * rank, sizeof *gram_b), sum = -1;
    if (values && turned && gram_a && gram_b) {
        read_floats(pair->a_dtype, pair->a, rank * cols, values);
        transpose(values, rank, cols, turned);
        add_products(turned, cols, rank, gram_a);
        read_floats(pair->b_dtype, pair->b, rank * rows, values);
        add_products(values, rows, rank, gram_b);
        sum = 0;
        for (size_t i = 0; i < rank * rank; i++)
            sum += gram_a[i] * gram_b[i]; /* both are symmetric */
        sum = sum < 0 ? 0 : sum;          /* rounding */
    }
    free(values);
    free(turned);
    free(gram_a);
    free(gram_b);
    return sum;
}

/* |W|^2; negative: no memory, NAN: of a type that holds no plain numbers. */
static double weight_squared(const struct kiln_st_tensor *t)
{
    const size_t cols = (size_t)t->shape[1], step = cols * kiln_st_dtype_size(t->dtype);
    float *row = malloc(cols * sizeof *row + 1);
    double sum = row ? 0 : -1;
    for (int64_t i = 0; row && i < t->shape[0]; i++) {
        if (!read_floats(t->dtype, (const uint8_t *)t->data + (size_t)i * step, cols, row)) {
            sum = NAN;
            break;
        }
        for (size_t j = 0; j < cols; j++)
            sum += (double)row[j] * row[j];
    }
    free(row);
    return sum;
}

int kiln_lora_measure(const struct kiln_lora_file *file, const struct kiln_lora_modules *modules,
                      struct kiln_lora_measure *ret, struct kiln_error *err)
{
    struct kiln_lora_measure m = {0};
    double sum = 0;
    const size_t count = kiln_lora_count(file);
    int rc = kiln_st_check(modules->st, err); /* mapped: a shorter file would end this process */
    for (size_t i = 0; i < count && !rc; i++) {
        const struct kiln_lora_pair *pair = kiln_lora_at(file, i);
        const struct kiln_lora_module *module = &modules->at[pair->module];
        if (pair->rank > module->rows && pair->rank > module->cols)
            return kiln_fail(err, KILN_UNSUPPORTED,
                             "%s has rank %lld, more than its %lldx%lld values can use",
                             module->name, (long long)pair->rank, (long long)module->rows,
                             (long long)module->cols);
        const double change = change_squared(pair, module);
        const double weight = weight_squared(kiln_lora_modules_weight(modules, pair->module));
        const double rho = fabs(pair->scale) * sqrt(change) / sqrt(weight > 0 ? weight : 1);
        if (change < 0 || weight < 0)
            return kiln_fail(err, KILN_NO_MEMORY, "no memory to measure a LoRA");
        if (isnan(weight))
            return kiln_fail(err, KILN_UNSUPPORTED,
                             "%s.weight of the model is neither F32, F16 nor BF16",
                             modules->at[pair->module].name);
        if (!isfinite(rho))
            return kiln_fail(err, KILN_BAD_INPUT, "the change of %s is not finite",
                             modules->at[pair->module].name);
        sum += rho * rho;
        m.rank = pair->rank > m.rank ? (uint32_t)pair->rank : m.rank;
        if (rho > m.highest || i == 0) {
            m.highest = rho;
            m.highest_module = pair->module;
        }
    }
    rc = rc ? rc : kiln_st_check(modules->st, err);
    if (rc)
        return rc;
    m.modules = (uint32_t)count;
    m.strength = count ? sqrt(sum / (double)count) : 0;
    *ret = m;
    return 0;
}
