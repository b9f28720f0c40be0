/* latentfile.c - latents as a zstd frame around a safetensors file.
 *
 *     zstd frame (content size declared, checksum on)
 *       safetensors
 *         encoding "f32":          latent     F32 [states, channels, height, width]
 *         encoding "bf16-planes":  latent.hi  U8  of the same shape: bits 15..8 of each bf16
 *                                  latent.lo  U8  of the same shape: bits 7..0
 *         encoding "i8-steps":     latent.codes   I8   of the same shape
 *                                  latent.scales  F32  [states, channels, 1, 2]
 *         __metadata__: strings, by the table `fields` below; schemas/latent.md explains them
 *
 * A file is valid when it is one frame that decompresses to exactly its declared size, with a
 * matching checksum, holding the tensors of its encoding and nothing else, as many sigmas as
 * states, and every field of the table.  bf16 is split into planes because the high bytes
 * (sign and exponent) repeat and the low bytes (mantissa) are noise: apart, zstd finds the first.
 *
 * To change the format: raise FORMAT_VERSION, keep reading the old one.
 */
#include "storage/formats/latentfile.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "schemas/text/json.h"
#include "schemas/text/text.h"
#include "storage/formats/latent_values.h"
#include "storage/formats/safetensors.h"

#define FORMAT_VERSION "1"

#define META_FORMAT "kiln.latent"
#define META_ENCODING "encoding"
#define META_SIGMAS "sigmas"
#define META_SEED "seed"
#define META_SHAPE "shape"
#define SHAPE_TEXT_MAX 64

/* Texts that are copied as they are. */
static const struct field {
    const char *key;
    size_t offset, size;
    bool may_lack; /* left out where it is "" */
} fields[] = {
#define FIELD(name)                                                                                \
#name, offsetof(struct kiln_latent, name), sizeof(((struct kiln_latent *)0)->name)
    {FIELD(model), false}, {FIELD(lora_set), false},  {FIELD(schedule), false},
    {FIELD(job), false},   {FIELD(lora_files), true}, {FIELD(mode), true},
    {FIELD(start), true},  {FIELD(parent), true},
};
#define FIELDS (sizeof fields / sizeof *fields)
#define NUMBERS 5 /* the pairs that are no text of the table */
#define PAIRS_MAX (2 * (NUMBERS + FIELDS) + 1)

/* --- writing ---------------------------------------------------------------------------------- */

/* The sigmas as a JSON array in a string: every safetensors reader gives strings. */
static char *sigmas_text(const struct kiln_latent *latent)
{
    struct kiln_text text = {0};
    for (uint32_t i = 0; i < latent->states; i++) {
        kiln_text_puts(&text, i ? "," : "[");
        kiln_text_double(&text, latent->sigmas[i]);
    }
    kiln_text_puts(&text, "]");
    return kiln_text_take(&text);
}

/* "[states,channels,height,width]", as every tensor of the file has it. */
static void shape_text(const struct kiln_latent *latent, char out[SHAPE_TEXT_MAX])
{
    snprintf(out, SHAPE_TEXT_MAX, "[%u,%u,%u,%u]", latent->states, latent->channels, latent->height,
             latent->width);
}

/* The uncompressed file.  The order of the pairs is the order in the file, so that equal latents
 * give equal bytes and equal object names. */
static int encode_plain(const struct kiln_latent *latent, enum kiln_latent_encoding encoding,
                        uint8_t **ret, size_t *ret_size, struct kiln_error *err)
{
    char seed[24], shape[SHAPE_TEXT_MAX];
    snprintf(seed, sizeof seed, "%" PRIu64, latent->seed);
    shape_text(latent, shape);
    char *sigmas = sigmas_text(latent);
    if (!sigmas)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the sigmas of a latent");
    const char *pairs[PAIRS_MAX] = {
        META_FORMAT, FORMAT_VERSION, META_ENCODING, kiln_latent_encoding_name(encoding),
        META_SIGMAS, sigmas,         META_SEED,     seed,
        META_SHAPE,  shape};
    for (size_t i = 0, at = 2 * NUMBERS; i < FIELDS; i++) {
        const char *text = (const char *)latent + fields[i].offset;
        if (fields[i].may_lack && !text[0])
            continue;
        pairs[at++] = fields[i].key;
        pairs[at++] = text;
    }
    int code = kiln_latent_values_write(latent, encoding, pairs, ret, ret_size, err);
    free(sigmas);
    return code;
}

/* zstd names its errors; only a lack of memory is not the data's fault. */
static int fail_zstd(struct kiln_error *err, int code, const char *what, size_t result)
{
    if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation)
        code = KILN_NO_MEMORY;
    return kiln_fail(err, code, "%s: %s", what, ZSTD_getErrorName(result));
}

/* One frame.  ZSTD_compress2 knows the whole input, hence the frame declares its content size,
 * which the reader insists on. */
static int compress(const uint8_t *plain, size_t plain_size, int level, uint8_t **ret,
                    size_t *ret_size, struct kiln_error *err)
{
    size_t room = ZSTD_compressBound(plain_size);
    uint8_t *out = malloc(room);
    ZSTD_CCtx *ctx = ZSTD_createCCtx();
    int code = KILN_OK;
    if (!out || !ctx) {
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory to compress %zu bytes", plain_size);
    } else {
        ZSTD_CCtx_setParameter(ctx, ZSTD_c_compressionLevel, level);
        ZSTD_CCtx_setParameter(ctx, ZSTD_c_checksumFlag, 1);
        size_t size = ZSTD_compress2(ctx, out, room, plain, plain_size);
        if (ZSTD_isError(size))
            code = fail_zstd(err, KILN_INTERNAL, "compressing a latent", size);
        else
            *ret_size = size;
    }
    ZSTD_freeCCtx(ctx);
    if (code) {
        free(out);
        return code;
    }
    /* The bound is far above what is used, and the buffer may wait for an upload. */
    uint8_t *fitted = realloc(out, *ret_size);
    *ret = fitted ? fitted : out;
    return KILN_OK;
}

/* Checks what the caller passes, before anything is allocated. */
static int check_latent(const struct kiln_latent *latent, int level, struct kiln_error *err)
{
    if (latent->states > KILN_LATENT_STATES_MAX || kiln_latent_count(latent) == 0)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "a latent of %u states of %ux%ux%u values cannot be written",
                         latent->states, latent->channels, latent->height, latent->width);
    if (level < 1 || level > 19)
        return kiln_fail(err, KILN_BAD_INPUT, "zstd level %d is not within 1 to 19", level);
    for (uint32_t i = 0; i < latent->states; i++)
        if (!isfinite(latent->sigmas[i]) || latent->sigmas[i] < 0)
            return kiln_fail(err, KILN_BAD_INPUT, "sigma %g of state %u is not a noise level",
                             latent->sigmas[i], i);
    return KILN_OK;
}

int kiln_latent_encode(const struct kiln_latent *latent, enum kiln_latent_encoding encoding,
                       int level, uint8_t **ret_data, size_t *ret_size, struct kiln_error *err)
{
    int code = check_latent(latent, level, err);
    if (code)
        return code;
    uint8_t *plain = NULL;
    size_t plain_size = 0;
    code = encode_plain(latent, encoding, &plain, &plain_size, err);
    if (!code)
        code = compress(plain, plain_size, level, ret_data, ret_size, err);
    free(plain);
    return code;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Checks what the frame declares.  Its size must be within the limit, before it is allocated.  No
 * second frame and no other bytes may follow, in which another file could hide. */
static int check_frame(const uint8_t *data, size_t size, size_t *ret_plain, struct kiln_error *err)
{
    unsigned long long plain = ZSTD_getFrameContentSize(data, size);
    if (plain == ZSTD_CONTENTSIZE_ERROR || plain == ZSTD_CONTENTSIZE_UNKNOWN)
        return kiln_fail(err, KILN_CORRUPT,
                         "%zu bytes that do not start as a zstd frame of declared size", size);
    if (plain > KILN_LATENT_FILE_MAX)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "the latent file declares %llu bytes; at most %d are read", plain,
                         KILN_LATENT_FILE_MAX);
    size_t frame = ZSTD_findFrameCompressedSize(data, size);
    if (ZSTD_isError(frame))
        return fail_zstd(err, KILN_CORRUPT, "the latent file's frame", frame);
    if (frame != size)
        return kiln_fail(err, KILN_CORRUPT, "%zu bytes follow the latent file's frame",
                         size - frame);
    *ret_plain = (size_t)plain;
    return KILN_OK;
}

/* Unpacks into exactly the declared size; zstd verifies the checksum on the way. */
static int decompress(const uint8_t *data, size_t size, uint8_t **ret, size_t *ret_size,
                      struct kiln_error *err)
{
    size_t room = 0;
    int code = check_frame(data, size, &room, err);
    if (code)
        return code;
    uint8_t *plain = malloc(room ? room : 1);
    if (!plain)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to unpack a latent of %zu bytes", room);
    size_t got = ZSTD_decompress(plain, room, data, size);
    if (ZSTD_isError(got))
        code = fail_zstd(err, KILN_CORRUPT, "unpacking the latent file", got);
    else if (got != room)
        code = kiln_fail(err, KILN_CORRUPT, "the latent file unpacks to %zu bytes, not %zu", got,
                         room);
    if (code) {
        free(plain);
        return code;
    }
    *ret = plain;
    *ret_size = room;
    return KILN_OK;
}

/* A metadata value that every latent file has. */
static int need(const struct kiln_st *st, const char *key, const char **ret, struct kiln_error *err)
{
    *ret = kiln_st_metadata(st, key);
    return *ret ? KILN_OK
                : kiln_fail(err, KILN_CORRUPT, "the latent file has no metadata '%s'", key);
}

/* Copies the texts of the table; one that does not fit is refused, never cut. */
static int read_texts(const struct kiln_st *st, struct kiln_latent *latent, struct kiln_error *err)
{
    for (size_t i = 0; i < FIELDS; i++) {
        const char *text = kiln_st_metadata(st, fields[i].key);
        int code = text || fields[i].may_lack ? 0 : need(st, fields[i].key, &text, err);
        if (code)
            return code;
        text = text ? text : "";
        size_t len = strlen(text);
        if (len >= fields[i].size)
            return kiln_fail(err, KILN_CORRUPT, "the latent file's '%s' has %zu bytes; %zu fit",
                             fields[i].key, len, fields[i].size - 1);
        memcpy((char *)latent + fields[i].offset, text, len + 1);
    }
    return KILN_OK;
}

/* Reads the array; returns how many sigmas it has, or KILN_LATENT_STATES_MAX + 1 if it is not
 * valid. */
static uint32_t read_sigmas(const char *text, double *sigmas)
{
    struct kiln_json_reader reader;
    struct kiln_json_value value;
    bool more = true;
    if (kiln_json_open(&reader, text, strlen(text), KILN_JSON_ARRAY, NULL))
        return KILN_LATENT_STATES_MAX + 1;
    for (uint32_t n = 0;; n++) {
        if (kiln_json_next(&reader, NULL, &value, &more, NULL))
            return KILN_LATENT_STATES_MAX + 1;
        if (!more)
            return n;
        if (n == KILN_LATENT_STATES_MAX || !kiln_json_double(&value, &sigmas[n]) || sigmas[n] < 0)
            return KILN_LATENT_STATES_MAX + 1;
    }
}

/* Seed and sigmas.  Comes after the tensors: the sigmas are counted against the states. */
static int read_numbers(const struct kiln_st *st, struct kiln_latent *latent,
                        struct kiln_error *err)
{
    const char *seed, *sigmas;
    int code = need(st, META_SEED, &seed, err);
    if (!code)
        code = need(st, META_SIGMAS, &sigmas, err);
    if (code)
        return code;
    char *end;
    errno = 0;
    latent->seed = strtoull(seed, &end, 10);
    if (seed[0] < '0' || seed[0] > '9' || *end || errno)
        return kiln_fail(err, KILN_CORRUPT, "the latent file's seed '%.40s' is not a 64-bit number",
                         seed);
    uint32_t count = read_sigmas(sigmas, latent->sigmas);
    if (count != latent->states)
        return kiln_fail(err, KILN_CORRUPT,
                         "the latent file has %u states, but its sigmas are '%.80s'",
                         latent->states, sigmas);
    return KILN_OK;
}

/* The metadata `shape` must agree with the tensors.  Older files have none. */
static int check_shape(const struct kiln_st *st, const struct kiln_latent *latent,
                       struct kiln_error *err)
{
    char shape[SHAPE_TEXT_MAX];
    const char *said = kiln_st_metadata(st, META_SHAPE);
    shape_text(latent, shape);
    if (!said || strcmp(said, shape) == 0)
        return KILN_OK;
    return kiln_fail(err, KILN_CORRUPT, "the latent file's shape is %s, but it says '%.40s'", shape,
                     said);
}

/* From an open safetensors file; on failure *latent may hold values, which the caller frees. */
static int read_latent(const struct kiln_st *st, bool last, struct kiln_latent *latent,
                       enum kiln_latent_encoding *ret_encoding, struct kiln_error *err)
{
    const char *format, *name;
    int code = need(st, META_FORMAT, &format, err);
    if (!code)
        code = need(st, META_ENCODING, &name, err);
    if (code)
        return code;
    if (strcmp(format, FORMAT_VERSION) != 0)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "the latent file has format %.20s; this program reads " FORMAT_VERSION,
                         format);
    enum kiln_latent_encoding encoding = KILN_LATENT_F32;
    while (encoding < KILN_LATENT_ENCODINGS &&
           strcmp(name, kiln_latent_encoding_name(encoding)) != 0)
        encoding++;
    if (encoding == KILN_LATENT_ENCODINGS)
        return kiln_fail(err, KILN_UNSUPPORTED, "the latent file has the unknown encoding '%.40s'",
                         name);
    if (!(code = kiln_latent_values_read(st, encoding, last, latent, err)) &&
        !(code = read_texts(st, latent, err)) && !(code = read_numbers(st, latent, err)) &&
        !(code = check_shape(st, latent, err)))
        *ret_encoding = encoding;
    return code;
}

static int decode(const uint8_t *data, size_t size, bool last, struct kiln_latent *latent,
                  enum kiln_latent_encoding *ret_encoding, struct kiln_error *err)
{
    uint8_t *plain = NULL;
    size_t plain_size = 0;
    int code = decompress(data, size, &plain, &plain_size, err);
    if (code)
        return code;
    struct kiln_st *st = NULL;
    code = kiln_st_open_memory(plain, plain_size, "the latent file", &st, err);
    if (!code)
        code = read_latent(st, last, latent, ret_encoding, err);
    kiln_st_close(st);
    free(plain);
    return code;
}

int kiln_latent_decode(const uint8_t *data, size_t size, struct kiln_latent *ret,
                       enum kiln_latent_encoding *ret_encoding, struct kiln_error *err)
{
    struct kiln_latent latent = {0};
    int code = decode(data, size, false, &latent, ret_encoding, err);
    if (code)
        kiln_latent_release(&latent);
    else
        *ret = latent;
    return code;
}

static int check_finished(const struct kiln_latent *latent, double sigma, struct kiln_error *err)
{
    const size_t count = (size_t)latent->channels * latent->height * latent->width;
    if (sigma != 0)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "the latent file ends at sigma %g, so it has no finished latent", sigma);
    for (size_t i = 0; i < count; i++)
        if (!isfinite(latent->values[i]))
            return kiln_fail(err, KILN_CORRUPT, "value %zu of the latent is not finite", i);
    return KILN_OK;
}

int kiln_latent_decode_finished(const uint8_t *data, size_t size, struct kiln_latent *ret,
                                struct kiln_error *err)
{
    struct kiln_latent latent = {0};
    enum kiln_latent_encoding encoding;
    int code = decode(data, size, true, &latent, &encoding, err);
    if (!code)
        code = check_finished(&latent, latent.sigmas[latent.states - 1], err);
    if (code) {
        kiln_latent_release(&latent);
        return code;
    }
    latent.states = 1;
    latent.sigmas[0] = 0;
    *ret = latent;
    return KILN_OK;
}

void kiln_latent_release(struct kiln_latent *latent)
{
    free(latent->values);
    latent->values = NULL;
}
