/* latent_values.c - see latent_values.h. */
#include "storage/formats/latent_values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NDIM 4
#define TENSORS_MAX 2
#define CODE_MAX 127
#define STEPS_A_DEVIATION 8

/* The tensors of each encoding.  The first has the latent's shape. */
struct part {
    const char *name;
    enum kiln_st_dtype dtype;
    bool scales; /* of shape [states][channels][1][2]: mean and step of a channel */
};
static const struct part parts[KILN_LATENT_ENCODINGS][TENSORS_MAX] = {
    [KILN_LATENT_F32] = {{"latent", KILN_ST_F32, false}},
    [KILN_LATENT_BF16_PLANES] = {{"latent.hi", KILN_ST_U8, false},
                                 {"latent.lo", KILN_ST_U8, false}},
    [KILN_LATENT_I8_STEPS] = {{"latent.codes", KILN_ST_I8, false},
                              {"latent.scales", KILN_ST_F32, true}},
};

const char *kiln_latent_encoding_name(enum kiln_latent_encoding encoding)
{
    static const char *const names[KILN_LATENT_ENCODINGS] = {"f32", "bf16-planes", "i8-steps"};
    return names[encoding];
}

static size_t count_parts(enum kiln_latent_encoding encoding)
{
    return parts[encoding][1].name ? 2 : 1;
}

size_t kiln_latent_count(const struct kiln_latent *latent)
{
    uint64_t sides[NDIM] = {latent->states, latent->channels, latent->height, latent->width};
    uint64_t count = 1, max = KILN_LATENT_FILE_MAX / sizeof(float);
    for (int i = 0; i < NDIM; i++) {
        if (sides[i] == 0 || sides[i] > max / count)
            return 0;
        count *= sides[i];
    }
    return (size_t)count;
}

/* How many values a tensor has for a latent of so many. */
static size_t count_of(const struct part *part, const struct kiln_latent *latent, size_t count)
{
    return part->scales ? (size_t)2 * latent->states * latent->channels : count;
}

/* A tensor over borrowed data. */
static struct kiln_st_tensor tensor_of(const struct part *part, const struct kiln_latent *latent,
                                       size_t count, const void *data)
{
    return (struct kiln_st_tensor){
        .name = part->name,
        .dtype = part->dtype,
        .ndim = NDIM,
        .shape = {latent->states, latent->channels, part->scales ? 1 : latent->height,
                  part->scales ? 2 : latent->width},
        .data = data,
        .size = count_of(part, latent, count) * kiln_st_dtype_size(part->dtype)};
}

/* --- bf16 ------------------------------------------------------------------------------------- */

/* Nearest, ties to even: adding half a step, and the last kept bit, carries exactly when it must.
 */
static uint16_t to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value)) /* stays NaN even when all its mantissa bits are cut off */
        return (uint16_t)(bits >> 16 | (bits & 0x7f0000 ? 0 : 0x40));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Values to two planes in one pass; the loop is simple enough to be vectorised. */
static void split_planes(const float *values, size_t count, uint8_t *hi, uint8_t *lo)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t half = to_bf16(values[i]);
        hi[i] = (uint8_t)(half >> 8);
        lo[i] = (uint8_t)half;
    }
}

static void join_planes(const uint8_t *hi, const uint8_t *lo, size_t count, float *values)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)hi[i] << 24 | (uint32_t)lo[i] << 16;
        memcpy(&values[i], &bits, sizeof bits);
    }
}

/* --- uniform steps ---------------------------------------------------------------------------- */

/* One channel; scale gets its mean and step.  False: a value is not finite, or so large that it
 * would not come back finite. */
static bool to_codes(const float *values, size_t count, int8_t *codes, float scale[2])
{
    double sum = 0, squares = 0, most = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    scale[0] = (float)(sum / (double)count);
    for (size_t i = 0; i < count; i++) {
        const double apart = (double)values[i] - scale[0];
        squares += apart * apart;
        most = fabs(apart) > most ? fabs(apart) : most;
    }
    scale[1] = (float)fmax(sqrt(squares / (double)count) / STEPS_A_DEVIATION, most / CODE_MAX);
    if (!isfinite(sum) || !isfinite(fabsf(scale[0]) + CODE_MAX * scale[1]))
        return false;
    if (scale[1] < FLT_MIN) /* nothing to tell apart, and no float is 1 / step */
        scale[1] = 0;
    const float by = scale[1] > 0 ? 1 / scale[1] : 0;
    for (size_t i = 0; i < count; i++) {
        const float code = (values[i] - scale[0]) * by;
        codes[i] = (int8_t)(code < 0 ? code - 0.5f : code + 0.5f);
    }
    return true;
}

static bool from_codes(const int8_t *codes, size_t count, const float scale[2], float *values)
{
    const float mean = scale[0], step = scale[1];
    if (!(step >= 0) || !isfinite(fabsf(mean) + CODE_MAX * step))
        return false;
    bool valid = true;
    for (size_t i = 0; i < count; i++) {
        valid = valid && codes[i] >= -CODE_MAX;
        values[i] = mean + (float)codes[i] * step;
    }
    return valid;
}

/* Whole latents, a channel at a time; false as above. */
static bool encode_steps(const struct kiln_latent *latent, size_t count, int8_t *codes,
                         float *scales)
{
    const size_t channels = (size_t)latent->states * latent->channels, plane = count / channels;
    bool valid = true;
    for (size_t c = 0; c < channels && valid; c++)
        valid = to_codes(latent->values + c * plane, plane, codes + c * plane, scales + 2 * c);
    return valid;
}

static bool decode_steps(const int8_t *codes, const uint8_t *scales, size_t channels, size_t plane,
                         float *values)
{
    bool valid = true;
    for (size_t c = 0; c < channels && valid; c++) {
        float scale[2];
        memcpy(scale, scales + c * sizeof scale, sizeof scale);
        valid = from_codes(codes + c * plane, plane, scale, values + c * plane);
    }
    return valid;
}

/* --- writing ---------------------------------------------------------------------------------- */

int kiln_latent_values_write(const struct kiln_latent *latent, enum kiln_latent_encoding encoding,
                             const char *const *metadata, uint8_t **ret, size_t *ret_size,
                             struct kiln_error *err)
{
    const struct part *part = parts[encoding];
    const size_t count = kiln_latent_count(latent), others = count_parts(encoding) - 1;
    struct kiln_st_tensor tensors[TENSORS_MAX];
    void *data[TENSORS_MAX] = {0};
    int code = 0;
    if (encoding == KILN_LATENT_F32) {
        tensors[0] = tensor_of(part, latent, count, latent->values);
        return kiln_st_encode(tensors, 1, metadata, ret, ret_size, err);
    }
    for (size_t i = 0; i <= others; i++) {
        tensors[i] = tensor_of(&part[i], latent, count, NULL);
        tensors[i].data = data[i] = malloc(tensors[i].size);
    }
    if (!data[0] || !data[others])
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory for a latent of %zu values", count);
    else if (encoding == KILN_LATENT_BF16_PLANES)
        split_planes(latent->values, count, data[0], data[1]);
    else if (!encode_steps(latent, count, data[0], data[1]))
        code = kiln_fail(err, KILN_BAD_INPUT,
                         "a latent with a value that is not finite, or far too large, cannot be "
                         "written in steps");
    code = code ? code : kiln_st_encode(tensors, others + 1, metadata, ret, ret_size, err);
    free(data[0]);
    free(data[1]);
    return code;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* A tensor of the encoding: dtype and four dimensions that fit the limits. */
static int find_tensor(const struct kiln_st *st, const struct part *part,
                       const struct kiln_st_tensor **ret, struct kiln_error *err)
{
    const struct kiln_st_tensor *tensor = kiln_st_find(st, part->name);
    if (!tensor || tensor->dtype != part->dtype || tensor->ndim != NDIM)
        return kiln_fail(err, KILN_CORRUPT,
                         "the latent file has no tensor '%s' of type %s with %d dimensions",
                         part->name, kiln_st_dtype_name(part->dtype), NDIM);
    for (int i = 0; i < NDIM; i++)
        if (tensor->shape[i] < 1 || tensor->shape[i] > KILN_LATENT_FILE_MAX)
            return kiln_fail(err, KILN_CORRUPT, "dimension %d of the latent file's '%s' is %lld", i,
                             part->name, (long long)tensor->shape[i]);
    if (tensor->shape[0] > KILN_LATENT_STATES_MAX)
        return kiln_fail(err, KILN_CORRUPT, "the latent file has %lld states; at most %d are read",
                         (long long)tensor->shape[0], KILN_LATENT_STATES_MAX);
    *ret = tensor;
    return 0;
}

/* All tensors of the encoding and no others; their shapes and sizes agree. */
static int find_tensors(const struct kiln_st *st, enum kiln_latent_encoding encoding,
                        struct kiln_latent *latent, const struct kiln_st_tensor *ret[TENSORS_MAX],
                        struct kiln_error *err)
{
    const size_t have = count_parts(encoding);
    int code = 0;
    for (size_t i = 0; i < have && code == 0; i++)
        code = find_tensor(st, &parts[encoding][i], &ret[i], err);
    if (code)
        return code;
    latent->states = (uint32_t)ret[0]->shape[0];
    latent->channels = (uint32_t)ret[0]->shape[1];
    latent->height = (uint32_t)ret[0]->shape[2];
    latent->width = (uint32_t)ret[0]->shape[3];
    const size_t count = kiln_latent_count(latent);
    bool fits = count > 0 && kiln_st_count(st) == have;
    for (size_t i = 0; i < have && fits; i++) {
        const struct kiln_st_tensor want = tensor_of(&parts[encoding][i], latent, count, NULL);
        fits = ret[i]->size == want.size &&
               memcmp(ret[i]->shape, want.shape, NDIM * sizeof *want.shape) == 0;
    }
    return fits ? 0
                : kiln_fail(err, KILN_CORRUPT,
                            "the latent file's tensors do not fit its encoding '%s'",
                            kiln_latent_encoding_name(encoding));
}

int kiln_latent_values_read(const struct kiln_st *st, enum kiln_latent_encoding encoding, bool last,
                            struct kiln_latent *latent, struct kiln_error *err)
{
    const struct kiln_st_tensor *tensors[TENSORS_MAX] = {0};
    int code = find_tensors(st, encoding, latent, tensors, err);
    if (code)
        return code;
    const size_t all = kiln_latent_count(latent), state = all / latent->states;
    const size_t skip = last ? all - state : 0, count = all - skip;
    if (!(latent->values = malloc(count * sizeof(float))))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a latent of %zu values", count);
    const uint8_t *first = tensors[0]->data, *second = tensors[1] ? tensors[1]->data : NULL;
    if (encoding == KILN_LATENT_F32) {
        memcpy(latent->values, first + skip * sizeof(float), count * sizeof(float));
        return 0;
    }
    if (encoding == KILN_LATENT_BF16_PLANES) {
        join_planes(first + skip, second + skip, count, latent->values);
        return 0;
    }
    const size_t skipped = skip / state * latent->channels, plane = state / latent->channels;
    if (!decode_steps((const int8_t *)first + skip, second + skipped * 2 * sizeof(float),
                      count / plane, plane, latent->values))
        return kiln_fail(err, KILN_CORRUPT,
                         "a channel of the latent file has a mean, step or code that Kiln does not "
                         "write");
    return 0;
}
