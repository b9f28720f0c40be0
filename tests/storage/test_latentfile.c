/* test_latentfile.c - latents to a file and back, bit for bit; damaged and hostile files. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zstd.h>

#include <cmocka.h>

#include "storage/formats/latentfile.h"
#include "storage/formats/safetensors.h"
#include "tests/support/random.h"

/* Normal noise, as latents nearly are. */
static float normal(struct test_random *random)
{
    double u = ((double)test_random_u64(random) + 1) / 18446744073709551617.0;
    double v = (double)test_random_u64(random) / 18446744073709551616.0;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

static struct kiln_latent make(uint32_t states, uint32_t channels, uint32_t height, uint32_t width)
{
    struct kiln_latent latent = {.states = states,
                                 .channels = channels,
                                 .height = height,
                                 .width = width,
                                 .model = "0123456789abcdef",
                                 .lora_set = "ink:0.8+line:0.5",
                                 .lora_files = "ink:0a1b+line:2c3d",
                                 .schedule = "euler steps=8",
                                 .mode = "coarse=4+3",
                                 .job = "4711",
                                 .start = "job:17",
                                 .parent = "18",
                                 .seed = 18446744073709551615u};
    size_t count = (size_t)states * channels * height * width;
    latent.values = malloc(count * sizeof(float));
    assert_non_null(latent.values);
    struct test_random random = {42};
    for (size_t i = 0; i < count; i++)
        latent.values[i] = normal(&random);
    for (uint32_t i = 0; i < states; i++)
        latent.sigmas[i] = states == 1 ? 0 : 1.0 - (double)i / 3.0 / states;
    return latent;
}

struct file {
    uint8_t *data;
    size_t size;
};

static struct file encode(const struct kiln_latent *latent, enum kiln_latent_encoding encoding)
{
    struct file file = {0};
    struct kiln_error err = {0};
    if (kiln_latent_encode(latent, encoding, 3, &file.data, &file.size, &err))
        fail_msg("%s", err.text);
    return file;
}

static struct kiln_latent decode(struct file file, enum kiln_latent_encoding wanted)
{
    struct kiln_latent latent = {0};
    enum kiln_latent_encoding encoding = KILN_LATENT_F32;
    struct kiln_error err = {0};
    if (kiln_latent_decode(file.data, file.size, &latent, &encoding, &err))
        fail_msg("%s", err.text);
    assert_int_equal(encoding, wanted);
    return latent;
}

static void same_about(const struct kiln_latent *a, const struct kiln_latent *b)
{
    assert_int_equal(a->states, b->states);
    assert_int_equal(a->channels, b->channels);
    assert_true(a->height == b->height && a->width == b->width);
    assert_string_equal(a->model, b->model);
    assert_string_equal(a->lora_set, b->lora_set);
    assert_string_equal(a->lora_files, b->lora_files);
    assert_string_equal(a->start, b->start);
    assert_string_equal(a->parent, b->parent);
    assert_string_equal(a->schedule, b->schedule);
    assert_string_equal(a->mode, b->mode);
    assert_string_equal(a->job, b->job);
    assert_true(a->seed == b->seed);
    assert_memory_equal(a->sigmas, b->sigmas, a->states * sizeof *a->sigmas);
}

static void f32_is_exact(void **state)
{
    (void)state;
    struct kiln_latent latent = make(3, 16, 8, 12);
    static const uint32_t odd[] = {0x7fc00001, 0xff800000, 0x80000000, 0x00000001, 0x7f7fffff};
    memcpy(latent.values, odd, sizeof odd); /* NaN, -inf, -0, the smallest, the largest */
    struct file file = encode(&latent, KILN_LATENT_F32);
    struct kiln_latent back = decode(file, KILN_LATENT_F32);
    same_about(&latent, &back);
    assert_memory_equal(latent.values, back.values, 3 * 16 * 8 * 12 * sizeof(float));
    kiln_latent_release(&back);
    kiln_latent_release(&latent);
    free(file.data);
}

/* For a reader that knows safetensors and not which of the tensors it is to look at. */
static void the_metadata_tell_the_shape(void **state)
{
    (void)state;
    struct kiln_latent latent = make(2, 16, 8, 12);
    struct file file = encode(&latent, KILN_LATENT_BF16_PLANES);
    size_t size = (size_t)ZSTD_getFrameContentSize(file.data, file.size);
    char *plain = calloc(1, size + 1);
    assert_non_null(plain);
    assert_int_equal(ZSTD_decompress(plain, size, file.data, file.size), size);
    assert_non_null(strstr(plain + 8, "\"shape\":\"[2,16,8,12]\"")); /* behind the length */
    free(plain);
    kiln_latent_release(&latent);
    free(file.data);
}

/* A file without the key is of an exact run, as are all from before modes existed. */
static void an_exact_run_names_no_mode(void **state)
{
    (void)state;
    struct kiln_latent latent = make(1, 16, 8, 12);
    latent.mode[0] = '\0';
    struct file file = encode(&latent, KILN_LATENT_F32);
    size_t size = (size_t)ZSTD_getFrameContentSize(file.data, file.size);
    char *plain = calloc(1, size + 1);
    assert_non_null(plain);
    assert_int_equal(ZSTD_decompress(plain, size, file.data, file.size), size);
    assert_null(strstr(plain + 8, "\"mode\""));
    struct kiln_latent back = decode(file, KILN_LATENT_F32);
    assert_string_equal(back.mode, "");
    kiln_latent_release(&back);
    kiln_latent_release(&latent);
    free(plain);
    free(file.data);
}

static int try_finished(struct file file, struct kiln_latent *ret)
{
    struct kiln_error err = {0};
    int code = kiln_latent_decode_finished(file.data, file.size, ret, &err);
    assert_true(code == 0 || (err.text[0] && !ret->values));
    return code;
}

static void the_finished_latent_is_read_alone(void **state)
{
    (void)state;
    const size_t values = 16 * 8 * 12;
    for (int encoding = 0; encoding < KILN_LATENT_ENCODINGS; encoding++) {
        struct kiln_latent latent = make(3, 16, 8, 12), finished = {0};
        latent.sigmas[2] = 0;
        struct file file = encode(&latent, encoding);
        struct kiln_latent all = decode(file, encoding);
        assert_int_equal(try_finished(file, &finished), 0);
        assert_int_equal(finished.states, 1);
        assert_true(finished.sigmas[0] == 0);
        assert_string_equal(finished.model, latent.model);
        assert_memory_equal(finished.values, all.values + 2 * values, values * sizeof(float));
        kiln_latent_release(&finished);
        kiln_latent_release(&all);
        kiln_latent_release(&latent);
        free(file.data);
    }
}

static void a_latent_that_is_not_finished_is_refused(void **state)
{
    (void)state;
    struct kiln_latent latent = make(2, 16, 8, 12), finished = {0};
    struct file file = encode(&latent, KILN_LATENT_BF16_PLANES);
    assert_int_equal(try_finished(file, &finished), KILN_UNSUPPORTED);
    free(file.data);
    latent.sigmas[1] = 0;
    latent.values[0] = NAN; /* of the other state: no matter */
    file = encode(&latent, KILN_LATENT_BF16_PLANES);
    assert_int_equal(try_finished(file, &finished), 0);
    kiln_latent_release(&finished);
    free(file.data);
    latent.values[2 * 16 * 8 * 12 - 1] = INFINITY;
    file = encode(&latent, KILN_LATENT_BF16_PLANES);
    assert_int_equal(try_finished(file, &finished), KILN_CORRUPT);
    free(file.data);
    kiln_latent_release(&latent);
}

/* Nearest bf16, ties to even: written from the definition, by comparing distances. */
static float nearest_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t low = bits & 0xffff0000u, high = low + 0x10000u;
    float below, above;
    memcpy(&below, &low, sizeof below);
    memcpy(&above, &high, sizeof above);
    double down = fabs((double)value - below), up = fabs((double)above - value);
    return down < up || (down == up && (low >> 16 & 1) == 0) ? below : above;
}

static void bf16_planes_round_to_nearest_even(void **state)
{
    (void)state;
    struct kiln_latent latent = make(1, 16, 16, 16);
    static const uint32_t ties[] = {0x3f808000, 0x3f818000, 0xbf808000, 0x3f808001, 0x3f807fff};
    memcpy(latent.values, ties, sizeof ties);
    struct file file = encode(&latent, KILN_LATENT_BF16_PLANES);
    struct kiln_latent back = decode(file, KILN_LATENT_BF16_PLANES);
    same_about(&latent, &back);
    for (size_t i = 0; i < 16 * 16 * 16; i++)
        assert_true(back.values[i] == nearest_bf16(latent.values[i]));
    /* Once rounded, nothing changes any more. */
    struct file again = encode(&back, KILN_LATENT_BF16_PLANES);
    assert_int_equal(again.size, file.size);
    assert_memory_equal(again.data, file.data, file.size);
    kiln_latent_release(&back);
    kiln_latent_release(&latent);
    free(file.data);
    free(again.data);
}

static void bf16_keeps_nan_and_infinity(void **state)
{
    (void)state;
    struct kiln_latent latent = make(1, 1, 2, 3);
    static const uint32_t odd[] = {0x7f800001, 0xffffffff, 0x7f800000, 0xff800000, 0x7f7fffff, 0};
    memcpy(latent.values, odd, sizeof odd);
    struct file file = encode(&latent, KILN_LATENT_BF16_PLANES);
    struct kiln_latent back = decode(file, KILN_LATENT_BF16_PLANES);
    assert_true(isnan(back.values[0]) && isnan(back.values[1]));
    assert_true(back.values[2] == INFINITY && back.values[3] == -INFINITY);
    assert_true(back.values[4] == INFINITY); /* rounds up past the largest */
    assert_true(back.values[5] == 0);
    kiln_latent_release(&back);
    kiln_latent_release(&latent);
    free(file.data);
}

/* `zstd -d` gives a file that any safetensors reader opens. */
static void the_inside_is_plain_safetensors(void **state)
{
    (void)state;
    struct kiln_latent latent = make(2, 4, 3, 5);
    struct file file = encode(&latent, KILN_LATENT_BF16_PLANES);
    size_t size = ZSTD_getFrameContentSize(file.data, file.size);
    uint8_t *plain = malloc(size);
    assert_non_null(plain);
    assert_int_equal(ZSTD_decompress(plain, size, file.data, file.size), size);
    struct kiln_st *st = NULL;
    struct kiln_error err = {0};
    assert_int_equal(kiln_st_open_memory(plain, size, "plain", &st, &err), 0);
    assert_int_equal(kiln_st_count(st), 2);
    const struct kiln_st_tensor *hi = kiln_st_find(st, "latent.hi");
    assert_non_null(hi);
    assert_int_equal(hi->dtype, KILN_ST_U8);
    assert_int_equal(hi->size, 2 * 4 * 3 * 5);
    assert_string_equal(kiln_st_metadata(st, "encoding"), "bf16-planes");
    assert_string_equal(kiln_st_metadata(st, "seed"), "18446744073709551615");
    kiln_st_close(st);
    free(plain);
    kiln_latent_release(&latent);
    free(file.data);
}

static void what_cannot_be_written_is_refused(void **state)
{
    (void)state;
    struct kiln_latent latent = make(1, 1, 1, 1);
    struct kiln_error err = {0};
    uint8_t *data = NULL;
    size_t size;
    assert_int_equal(kiln_latent_encode(&latent, KILN_LATENT_F32, 0, &data, &size, &err),
                     KILN_BAD_INPUT);
    assert_int_equal(kiln_latent_encode(&latent, KILN_LATENT_F32, 20, &data, &size, &err),
                     KILN_BAD_INPUT);
    latent.sigmas[0] = NAN;
    assert_int_equal(kiln_latent_encode(&latent, KILN_LATENT_F32, 3, &data, &size, &err),
                     KILN_BAD_INPUT);
    latent.sigmas[0] = 0;
    static const uint32_t sides[][4] = {{0, 1, 1, 1},
                                        {1, 1, 0, 1},
                                        {KILN_STEPS_MAX + 2, 1, 1, 1},
                                        {1, 0xffffffff, 0xffffffff, 0xffffffff},
                                        {1, 65536, 65536, 1}};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        latent.states = sides[i][0];
        latent.channels = sides[i][1];
        latent.height = sides[i][2];
        latent.width = sides[i][3];
        assert_int_equal(kiln_latent_encode(&latent, KILN_LATENT_F32, 3, &data, &size, &err),
                         KILN_BAD_INPUT);
    }
    assert_null(data);
    kiln_latent_release(&latent);
}

static int try_decode(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1); /* exact size: overreads are seen */
    assert_non_null(copy);
    memcpy(copy, data, size);
    struct kiln_latent latent = {0};
    enum kiln_latent_encoding encoding;
    struct kiln_error err = {0};
    int code = kiln_latent_decode(copy, size, &latent, &encoding, &err);
    if (code && err.text[0] == '\0')
        fail_msg("an error without a sentence, code %d", code);
    kiln_latent_release(&latent);
    free(copy);
    return code;
}

static void cut_and_lengthened_files_are_errors(void **state)
{
    (void)state;
    struct kiln_latent latent = make(1, 4, 6, 5);
    for (int encoding = 0; encoding < KILN_LATENT_ENCODINGS; encoding++) {
        struct file file = encode(&latent, encoding);
        for (size_t cut = 0; cut < file.size; cut++)
            assert_int_equal(try_decode(file.data, cut), KILN_CORRUPT);
        assert_int_equal(try_decode(file.data, file.size), 0);
        uint8_t *twice = malloc(2 * file.size);
        assert_non_null(twice);
        memcpy(twice, file.data, file.size);
        memcpy(twice + file.size, file.data, file.size);
        assert_int_equal(try_decode(twice, file.size + 1), KILN_CORRUPT);
        assert_int_equal(try_decode(twice, 2 * file.size), KILN_CORRUPT);
        free(twice);
        free(file.data);
    }
    kiln_latent_release(&latent);
}

/* The frame's checksum catches every flip that its structure does not; only the bits of the frame
 * header that a decoder may ignore go unnoticed, and then the values are whole. */
static void flipped_bits_are_errors(void **state)
{
    (void)state;
    struct kiln_latent latent = make(1, 2, 6, 5);
    struct file file = encode(&latent, KILN_LATENT_F32);
    size_t unnoticed = 0;
    for (size_t bit = 0; bit < file.size * 8; bit++) {
        file.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (try_decode(file.data, file.size) == 0) {
            unnoticed++;
            struct kiln_latent back = decode(file, KILN_LATENT_F32);
            assert_memory_equal(back.values, latent.values, 2 * 6 * 5 * sizeof(float));
            kiln_latent_release(&back);
        }
        file.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    print_message("%zu of %zu flips were harmless\n", unnoticed, file.size * 8);
    assert_true(unnoticed <= 8);
    kiln_latent_release(&latent);
    free(file.data);
}

/* A well-formed frame around a safetensors file that lies. */
struct lie {
    const char *name;
    const char *metadata[24];
    const char *tensor[2];
    enum kiln_st_dtype dtype;
    uint32_t ndim;
    int64_t shape[5];
    int code;
};

#define GOOD_META                                                                                  \
    "kiln.latent", "1", "encoding", "f32", "seed", "1", "model", "m", "lora_set", "", "schedule",  \
        "s", "job", ""

static const struct lie lies[] = {
    {"good", {GOOD_META, "sigmas", "[0]"}, {"latent"}, KILN_ST_F32, 4, {1, 1, 2, 2}, 0},
    {"good, shape told",
     {GOOD_META, "sigmas", "[0]", "shape", "[1,1,2,2]"},
     {"latent"},
     KILN_ST_F32,
     4,
     {1, 1, 2, 2},
     0},
    {"another shape told",
     {GOOD_META, "sigmas", "[0]", "shape", "[1,1,2,4]"},
     {"latent"},
     KILN_ST_F32,
     4,
     {1, 1, 2, 2},
     KILN_CORRUPT},
    {"no metadata", {NULL}, {"latent"}, KILN_ST_F32, 4, {1, 1, 2, 2}, KILN_CORRUPT},
    {"no sigmas", {GOOD_META}, {"latent"}, KILN_ST_F32, 4, {1, 1, 2, 2}, KILN_CORRUPT},
    {"two sigmas",
     {GOOD_META, "sigmas", "[1,0]"},
     {"latent"},
     KILN_ST_F32,
     4,
     {1, 1, 2, 2},
     KILN_CORRUPT},
    {"sigmas no array",
     {GOOD_META, "sigmas", "0"},
     {"latent"},
     KILN_ST_F32,
     4,
     {1, 1, 2, 2},
     KILN_CORRUPT},
    {"negative sigma",
     {GOOD_META, "sigmas", "[-1]"},
     {"latent"},
     KILN_ST_F32,
     4,
     {1, 1, 2, 2},
     KILN_CORRUPT},
    {"sigma 1e999",
     {GOOD_META, "sigmas", "[1e999]"},
     {"latent"},
     KILN_ST_F32,
     4,
     {1, 1, 2, 2},
     KILN_CORRUPT},
    {"other name",
     {GOOD_META, "sigmas", "[0]"},
     {"lament"},
     KILN_ST_F32,
     4,
     {1, 1, 2, 2},
     KILN_CORRUPT},
    {"other type",
     {GOOD_META, "sigmas", "[0]"},
     {"latent"},
     KILN_ST_I32,
     4,
     {1, 1, 2, 2},
     KILN_CORRUPT},
    {"three dimensions",
     {GOOD_META, "sigmas", "[0]"},
     {"latent"},
     KILN_ST_F32,
     3,
     {1, 2, 2},
     KILN_CORRUPT},
    {"a zero side",
     {GOOD_META, "sigmas", "[]"},
     {"latent"},
     KILN_ST_F32,
     4,
     {0, 1, 2, 2},
     KILN_CORRUPT},
    {"52 states",
     {GOOD_META, "sigmas", "[0]"},
     {"latent"},
     KILN_ST_F32,
     4,
     {52, 1, 2, 2},
     KILN_CORRUPT},
    {"one tensor too many",
     {GOOD_META, "sigmas", "[0]"},
     {"latent", "more"},
     KILN_ST_F32,
     4,
     {1, 1, 2, 2},
     KILN_CORRUPT},
};

static struct file pack(const uint8_t *plain, size_t size)
{
    struct file file = {malloc(ZSTD_compressBound(size)), 0};
    assert_non_null(file.data);
    file.size = ZSTD_compress(file.data, ZSTD_compressBound(size), plain, size, 1);
    return file;
}

static void lies_are_found(void **state)
{
    (void)state;
    static const uint8_t zeros[52 * 64];
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        const struct lie *lie = &lies[i];
        struct kiln_st_tensor tensors[2] = {0};
        size_t count = 0, values = 1;
        for (uint32_t d = 0; d < lie->ndim; d++)
            values *= (size_t)lie->shape[d];
        for (; count < 2 && lie->tensor[count]; count++) {
            tensors[count] = (struct kiln_st_tensor){.name = lie->tensor[count],
                                                     .dtype = lie->dtype,
                                                     .ndim = lie->ndim,
                                                     .data = zeros,
                                                     .size = 4 * values};
            memcpy(tensors[count].shape, lie->shape, 5 * sizeof *lie->shape);
        }
        uint8_t *plain = NULL;
        size_t size = 0;
        struct kiln_error err = {0};
        if (kiln_st_encode(tensors, count, lie->metadata, &plain, &size, &err))
            fail_msg("%s: %s", lie->name, err.text);
        struct file file = pack(plain, size);
        int code = try_decode(file.data, file.size);
        if (code != lie->code)
            fail_msg("%s: code %d, %d wanted", lie->name, code, lie->code);
        free(plain);
        free(file.data);
    }
}

static void unknown_formats_are_named(void **state)
{
    (void)state;
    static const float value[1];
    const char *const newer[] = {"kiln.latent", "2", "encoding", "f32", NULL};
    const char *const other[] = {"kiln.latent", "1", "encoding", "int5", NULL};
    const char *const *metadata[] = {newer, other};
    for (int i = 0; i < 2; i++) {
        struct kiln_st_tensor tensor = {.name = "latent",
                                        .dtype = KILN_ST_F32,
                                        .ndim = 4,
                                        .shape = {1, 1, 1, 1},
                                        .data = value,
                                        .size = 4};
        uint8_t *plain = NULL;
        size_t size = 0;
        assert_int_equal(kiln_st_encode(&tensor, 1, metadata[i], &plain, &size, NULL), 0);
        struct file file = pack(plain, size);
        assert_int_equal(try_decode(file.data, file.size), KILN_UNSUPPORTED);
        free(plain);
        free(file.data);
    }
}

/* Frames that promise gigabytes, or promise nothing. */
static void hostile_frames_are_refused(void **state)
{
    (void)state;
    static const uint8_t huge[] = {0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0xff, 0xff, 0xff,
                                   0xff, 0xff, 0xff, 0xff, 0x00, 0x01, 0x00, 0x00};
    static const uint8_t gigabyte[] = {0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0x00,
                                       0x00, 0x00, 0x40, 0x01, 0x00, 0x00};
    static const uint8_t skippable[] = {0x50, 0x2a, 0x4d, 0x18, 0x04, 0, 0, 0, 1, 2, 3, 4};
    assert_true(try_decode(huge, sizeof huge) != 0);
    assert_int_equal(try_decode(gigabyte, sizeof gigabyte), KILN_BAD_INPUT);
    assert_int_equal(try_decode(skippable, sizeof skippable), KILN_CORRUPT);
    assert_int_equal(try_decode((const uint8_t *)"not zstd at all", 15), KILN_CORRUPT);
    assert_int_equal(try_decode((const uint8_t *)"", 0), KILN_CORRUPT);
    struct file nothing = pack((const uint8_t *)"", 0);
    assert_int_equal(try_decode(nothing.data, nothing.size), KILN_CORRUPT);
    free(nothing.data);
}

/* Of a picture of 1024 x 1024 px; the best of five, in time of the processor. */
static void says_how_long_it_takes(void **state)
{
    (void)state;
    struct kiln_latent latent = make(1, 16, 128, 128);
    for (int encoding = 0; encoding < KILN_LATENT_ENCODINGS; encoding++) {
        const size_t raw = 16 * 128 * 128 * (encoding == KILN_LATENT_F32 ? 4 : 2);
        double encode_ms = INFINITY, decode_ms = INFINITY;
        size_t size = 0;
        for (int i = 0; i < 5; i++) {
            const clock_t began = clock();
            struct file file = encode(&latent, encoding);
            const clock_t encoded = clock();
            struct kiln_latent back = decode(file, encoding);
            decode_ms = fmin(decode_ms, (double)(clock() - encoded) * 1e3 / CLOCKS_PER_SEC);
            encode_ms = fmin(encode_ms, (double)(encoded - began) * 1e3 / CLOCKS_PER_SEC);
            size = file.size;
            kiln_latent_release(&back);
            free(file.data);
        }
        print_message("%s: encode %.2f ms, decode %.2f ms, %zu -> %zu bytes (%.2fx)\n",
                      kiln_latent_encoding_name(encoding), encode_ms, decode_ms, raw, size,
                      (double)raw / (double)size);
        assert_true(size < raw);
    }
    kiln_latent_release(&latent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_is_exact),
        cmocka_unit_test(the_metadata_tell_the_shape),
        cmocka_unit_test(an_exact_run_names_no_mode),
        cmocka_unit_test(the_finished_latent_is_read_alone),
        cmocka_unit_test(a_latent_that_is_not_finished_is_refused),
        cmocka_unit_test(bf16_planes_round_to_nearest_even),
        cmocka_unit_test(bf16_keeps_nan_and_infinity),
        cmocka_unit_test(the_inside_is_plain_safetensors),
        cmocka_unit_test(what_cannot_be_written_is_refused),
        cmocka_unit_test(cut_and_lengthened_files_are_errors),
        cmocka_unit_test(flipped_bits_are_errors),
        cmocka_unit_test(lies_are_found),
        cmocka_unit_test(unknown_formats_are_named),
        cmocka_unit_test(hostile_frames_are_refused),
        cmocka_unit_test(says_how_long_it_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
