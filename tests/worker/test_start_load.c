/* test_start_load.c - pictures that runs start from: fetched, checked, decoded, resized.  Latents
 * are in test_starts.c, which has a ledger; here only what a donor's must be.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/digest.h"
#include "schemas/job/inputs.h"
#include "storage/formats/latentfile.h"
#include "storage/formats/pictures/webp.h"
#include "tests/support/store.h"
#include "worker/stages/start_load.h"

static struct kiln_store *store;

static int open_store(void **state)
{
    (void)state;
    store = test_file_store("store");
    return 0;
}

static int close_store(void **state)
{
    (void)state;
    kiln_store_close(store);
    return 0;
}

/* Stores bytes as a picture, under their hash or under a given key. */
static void put(const void *data, size_t size, const char *extension, const char *key,
                char key_ret[KILN_INPUT_KEY_MAX])
{
    uint8_t digest[KILN_SHA256_SIZE];
    char hex[65];
    struct kiln_error err;
    kiln_sha256(data, size, digest);
    kiln_hex(digest, sizeof digest, hex);
    snprintf(key_ret, KILN_INPUT_KEY_MAX, KILN_INPUTS_PREFIX "%s.%s", hex, extension);
    struct kiln_put object = {
        .key = key ? key : key_ret, .data = data, .size = size, .content_type = "a/b"};
    assert_int_equal(kiln_store_put(store, &object, 1, &err), 0);
}

/* A lossless picture of one colour. */
static uint8_t *picture(uint8_t grey, uint32_t width, uint32_t height, size_t *ret_size)
{
    const struct kiln_webp_options options = {.lossless = 1};
    uint8_t *rgb = malloc((size_t)width * height * 3), *data;
    struct kiln_error err;
    assert_non_null(rgb);
    memset(rgb, grey, (size_t)width * height * 3);
    assert_int_equal(kiln_webp_encode(rgb, width, height, &options, &data, ret_size, &err), 0);
    free(rgb);
    return data;
}

static int load_masked(const char *key, const char *mask, uint32_t width, uint32_t height,
                       struct kiln_start *ret, struct kiln_error *err)
{
    const struct kiln_job job = {.init_image = (char *)key, .init_mask = (char *)mask};
    const struct kiln_start_want want = {width, height, "model", 16, 8, false, ""};
    const struct kiln_latent_row row = {0};
    *ret = (struct kiln_start){0};
    return kiln_start_load(store, &job, &row, &want, ret, err);
}

static int load(const char *key, uint32_t width, uint32_t height, struct kiln_start *ret,
                struct kiln_error *err)
{
    return load_masked(key, NULL, width, height, ret, err);
}

static void a_picture_is_resized_to_the_job(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{128, 64}, {50, 70}, {640, 64}, {1, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char key[KILN_INPUT_KEY_MAX];
        size_t size;
        struct kiln_start start;
        struct kiln_error err;
        uint8_t *data = picture((uint8_t)(10 + i), sizes[i][0], sizes[i][1], &size);
        put(data, size, "webp", NULL, key);
        free(data);
        assert_int_equal(load(key, 128, 64, &start, &err), 0);
        assert_null(start.latent);
        assert_int_equal(start.bytes, 128 * 64 * 3);
        for (int p = 0; p < 128 * 64 * 3; p++)
            assert_int_equal(start.rgb[p], 10 + i);
        kiln_start_release(&start);
    }
}

static void bad_pictures_are_refused_by_name(void **state)
{
    (void)state;
    char good[KILN_INPUT_KEY_MAX], gone[KILN_INPUT_KEY_MAX], damaged[KILN_INPUT_KEY_MAX],
        text[KILN_INPUT_KEY_MAX], half[KILN_INPUT_KEY_MAX], other[KILN_INPUT_KEY_MAX];
    size_t size;
    uint8_t *data = picture(7, 64, 64, &size);
    put(data, size, "webp", NULL, good);
    put(data, size - 4, "webp", NULL, half);
    put("not there", 9, "png", "elsewhere", gone);
    put("the hash", 8, "png", "elsewhere", damaged);
    put("of another", 10, "png", damaged, other);
    put("no picture at all", 17, "png", NULL, text);
    free(data);
    const struct {
        const char *key;
        int code;
        const char *says;
    } cases[] = {
        {good, 0, ""},
        {gone, KILN_NOT_FOUND, "is no longer in the store"},
        {damaged, KILN_CORRUPT, "is damaged: its sha256 is not"},
        {text, KILN_UNSUPPORTED, "inputs/"},
        {half, KILN_CORRUPT, "inputs/"},
        {"inputs/../../../etc/passwd", KILN_BAD_INPUT, "it is \"inputs/<sha256>"},
        {"latents/x.webp", KILN_BAD_INPUT, "it is \"inputs/<sha256>"},
        {"/etc/passwd", KILN_BAD_INPUT, "it is \"inputs/<sha256>"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kiln_start start;
        struct kiln_error err = {0};
        int code = load(cases[i].key, 64, 64, &start, &err);
        if (code != cases[i].code || !strstr(err.text, cases[i].says))
            fail_msg("%s: %s \"%s\"", cases[i].key, kiln_code_name(code), err.text);
        assert_true(code == 0 || !start.rgb);
        kiln_start_release(&start);
    }
}

/* Black or white, of another size than picture and job. */
static void a_mask_comes_with_the_start(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{128, 64}, {50, 25}, {640, 320}, {100, 50}};
    char from[KILN_INPUT_KEY_MAX], key[KILN_INPUT_KEY_MAX];
    size_t size;
    uint8_t *data = picture(80, 100, 50, &size);
    put(data, size, "webp", NULL, from);
    free(data);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct kiln_start start;
        struct kiln_error err;
        const uint8_t grey = i % 2 ? 200 : 20;
        data = picture(grey, sizes[i][0], sizes[i][1], &size);
        put(data, size, "webp", NULL, key);
        free(data);
        assert_int_equal(load_masked(from, key, 128, 64, &start, &err), 0);
        assert_int_equal(start.bytes, 128 * 64 * 3 + 16 * 8 * sizeof(float));
        for (int p = 0; p < 16 * 8; p++)
            assert_true(start.mask[p] == (float)(i % 2));
        kiln_start_release(&start);
        assert_null(start.mask);
    }
}

static void bad_masks_are_refused_by_name(void **state)
{
    (void)state;
    char from[KILN_INPUT_KEY_MAX], square[KILN_INPUT_KEY_MAX], wide[KILN_INPUT_KEY_MAX],
        gone[KILN_INPUT_KEY_MAX], text[KILN_INPUT_KEY_MAX];
    size_t size;
    uint8_t *data = picture(8, 100, 50, &size);
    put(data, size, "webp", NULL, from);
    free(data);
    data = picture(9, 64, 64, &size);
    put(data, size, "webp", NULL, square);
    free(data);
    data = picture(9, 96, 64, &size); /* neither the picture's shape nor the job's */
    put(data, size, "webp", NULL, wide);
    free(data);
    put("no mask there", 13, "png", "elsewhere", gone);
    put("no mask at all", 14, "png", NULL, text);
    const struct {
        const char *key;
        int code;
        const char *says;
    } cases[] = {
        {from, 0, ""},
        {square, 0, ""}, /* of the shape of the job */
        {wide, KILN_BAD_INPUT,
         "a mask of 96x64 pixels has neither the shape of the picture that it is for, 100x50, nor "
         "that of the job, 64x64"},
        {wide, KILN_BAD_INPUT, "init_mask: inputs/"},
        {gone, KILN_NOT_FOUND, "init_mask: inputs/"},
        {text, KILN_UNSUPPORTED, "init_mask: inputs/"},
        {"inputs/../../../etc/passwd", KILN_BAD_INPUT, "init_mask: \"inputs/../"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kiln_start start;
        struct kiln_error err = {0};
        int code = load_masked(from, cases[i].key, 64, 64, &start, &err);
        if (code != cases[i].code || !strstr(err.text, cases[i].says))
            fail_msg("%s: %s \"%s\"", cases[i].key, kiln_code_name(code), err.text);
        assert_true(code == 0 || (!start.rgb && !start.mask));
        kiln_start_release(&start);
    }
}

static void a_job_that_names_no_start_is_refused(void **state)
{
    (void)state;
    struct kiln_start start;
    struct kiln_error err;
    assert_int_equal(load(NULL, 64, 64, &start, &err), KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "names none"));
}

/* Loads a donor of 64x64 px whose values are +-spread around mean, but for one that is `odd`. */
static int load_donor_of(const char *set, float mean, float spread, float odd, uint32_t side,
                         bool small, struct kiln_start *ret, struct kiln_error *err)
{
    struct kiln_latent latent = {.states = 1, .channels = 16, .height = 8, .width = 8};
    struct kiln_latent_row row = {
        .job = 5, .known = true, .model_hash = "model", .width = 64, .height = 64, .states = 1};
    const struct kiln_start_want want = {side, side, "model", 16, 8, small, set};
    uint8_t digest[KILN_SHA256_SIZE], *data;
    size_t size;
    latent.values = malloc(1024 * sizeof(float));
    assert_non_null(latent.values);
    for (int i = 0; i < 1024; i++)
        latent.values[i] = mean + (i % 2 ? spread : -spread);
    latent.values[700] = isnan(odd) || odd != 0 ? odd : latent.values[700];
    snprintf(latent.model, sizeof latent.model, "model");
    snprintf(latent.schedule, sizeof latent.schedule, "euler steps=2");
    int code = kiln_latent_encode(&latent, KILN_LATENT_BF16_PLANES, 1, &data, &size, err);
    kiln_latent_release(&latent);
    if (code)
        return code; /* nobody stores it */
    kiln_sha256(data, size, digest);
    kiln_hex(digest, sizeof digest, row.sha256);
    snprintf(row.key, sizeof row.key, "latents/%s", row.sha256);
    row.bytes = size;
    struct kiln_put object = {.key = row.key, .data = data, .size = size, .content_type = "a/b"};
    assert_int_equal(kiln_store_put(store, &object, 1, err), 0);
    free(data);
    *ret = (struct kiln_start){0};
    return kiln_donor_load(store, &row, &want, ret, err);
}

static int load_donor(float mean, float spread, float odd, uint32_t side, bool small,
                      struct kiln_start *ret, struct kiln_error *err)
{
    return load_donor_of("", mean, spread, odd, side, small, ret, err);
}

/* A LoRA with its own rows, of which one is of more formats than the others. */
static void what_was_measured_is_used(void **state)
{
    (void)state;
#define LORA "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define ROW(depth, rest)                                                                           \
    "{\"class\": \"same_prompt\", \"depth\": " #depth ", \"donors\": 1, \"uses\": 1,"              \
    " \"variety\": 1, \"loss\": [0, 0], \"for\": [\"64x64\"]" rest "}"
    static const char text[] = "{\"teleport\": {\"dtypes\": [\"bf16\"], \"rows\": [" ROW(
        1, ) "], \"small\": {\"rows\": [" ROW(6, ) "]}, \"loras\": [{\"sha256\": \"" LORA
                                                   "\", \"rows\": [" ROW(
                                                       2,
                                                       ", \"dtypes\": [\"bf16\", \"fp8\"]") "]}]}}";
    struct kiln_renderer engine = {.model_hash = "model", .dtype = "bf16"};
    struct kiln_latent_row row = {.key = "latents/x", .width = 64};
    struct kiln_job job = {
        .width = 64, .height = 64, .donor = {.hit = KILN_REUSE_SAME_PROMPT, .step = 1}};
    struct kiln_error err = {0};
    if (kiln_model_card_parse(text, strlen(text), "kiln.json", &engine.card, &err))
        fail_msg("%s", err.text);
    assert_true(kiln_donor_measured(&engine, &job, &row));
    job.donor.step = 6;
    assert_false(kiln_donor_measured(&engine, &job, &row));
    row.width = 32;
    assert_true(kiln_donor_measured(&engine, &job, &row));
    row.width = 64;
    job.loras[job.lora_count++] = (struct kiln_lora){.scale = 1, .sha256 = LORA};
    job.donor.step = 1;
    assert_false(kiln_donor_measured(&engine, &job, &row));
    job.donor.step = 2;
    assert_true(kiln_donor_measured(&engine, &job, &row));
    engine.dtype = "fp8";
    assert_true(kiln_donor_measured(&engine, &job, &row));
    engine.dtype = "fp32";
    assert_false(kiln_donor_measured(&engine, &job, &row));
    row.key[0] = '\0'; /* loading it says that it is gone */
    assert_true(kiln_donor_measured(&engine, &job, &row));
}

static void a_donor_has_the_loras_of_the_run(void **state)
{
    (void)state;
    struct kiln_start start;
    struct kiln_error err = {0};
    assert_int_equal(load_donor_of("ink:1@0123456789abcdef", 0, 1, 0, 64, false, &start, &err),
                     KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "donor 5 has the LoRAs \"\", not \"ink:1@0123456789abcdef\""));
    assert_null(start.latent);
}

static void a_donor_has_the_values_of_a_latent(void **state)
{
    (void)state;
    static const struct {
        float mean, spread, odd;
        uint32_t side;
        bool small;
        int code;
    } cases[] = {
        {0, 1, 0, 64, false, 0},
        {2, 0.5f, 0, 64, false, 0},
        {0, 0, 0, 64, false, KILN_UNSUPPORTED},   /* grey everywhere */
        {1, 0, 0, 64, false, KILN_UNSUPPORTED},   /* likewise */
        {0, 100, 0, 64, false, KILN_UNSUPPORTED}, /* far too large */
        {50, 1, 0, 64, false, KILN_UNSUPPORTED},
        {0, 1, 3e38f, 64, false, KILN_UNSUPPORTED},
        {0, 1, 0, 128, false, KILN_BAD_INPUT}, /* a start would be enlarged, */
        {0, 1, 0, 128, true, 0},               /* and so is a small donor */
        {0, 1, 0, 64, true, 0},
        {0, 0, 0, 128, true, KILN_UNSUPPORTED},
        {0, 1, 0, 512, true, KILN_BAD_INPUT}, /* eight times */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kiln_start start;
        struct kiln_error err = {0};
        int code = load_donor(cases[i].mean, cases[i].spread, cases[i].odd, cases[i].side,
                              cases[i].small, &start, &err);
        if (code != cases[i].code)
            fail_msg("%zu: %s \"%s\"", i, kiln_code_name(code), err.text);
        assert_true(code == 0 ? start.latent != NULL : !start.latent);
        assert_int_equal(start.enlarged, code == 0 && cases[i].side > 64);
        kiln_start_release(&start);
    }
    struct kiln_start start = {0};
    struct kiln_error err = {0};
    assert_int_not_equal(load_donor(0, 1, NAN, 64, false, &start, &err), 0);
    assert_int_not_equal(load_donor(0, 1, INFINITY, 64, false, &start, &err), 0);
}

/* And then softened; all latents of the start. */
static void a_donor_is_shrunk_for_the_small_phase(void **state)
{
    (void)state;
    const struct kiln_start_want want = {
        .width = 32, .height = 16, .latent_channels = 2, .latent_factor = 8};
    static const float whole[] = {0, 2, 4, 8, 2, 4, 6, 2, 1, 1, 1, 1, 1, 1, 1, 1};
    struct kiln_start start = {.more_count = 1, .bytes = 2 * sizeof whole};
    struct kiln_error err;
    start.latent = memcpy(malloc(sizeof whole), whole, sizeof whole);
    start.more[0] = memcpy(malloc(sizeof whole), whole, sizeof whole);
    const struct kiln_picture_size small = {16, 8};
    assert_int_equal(kiln_donor_prepare(&want, small, 0, &start, &err), 0);
    for (int k = 0; k < 2; k++) {
        static const float shrunk[] = {2, 5, 1, 1};
        assert_memory_equal(k ? start.more[0] : start.latent, shrunk, sizeof shrunk);
        assert_int_equal(start.bytes, 2 * sizeof shrunk);
    }
    kiln_start_release(&start);
    start = (struct kiln_start){.latent = memcpy(malloc(sizeof whole), whole, sizeof whole)};
    assert_int_equal(kiln_donor_prepare(&want, small, 2, &start, &err), 0);
    static const float soft[] = {3.5F, 3.5F, 1, 1};
    assert_memory_equal(start.latent, soft, sizeof soft);
    kiln_start_release(&start);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_picture_is_resized_to_the_job),
        cmocka_unit_test(bad_pictures_are_refused_by_name),
        cmocka_unit_test(a_mask_comes_with_the_start),
        cmocka_unit_test(bad_masks_are_refused_by_name),
        cmocka_unit_test(a_job_that_names_no_start_is_refused),
        cmocka_unit_test(what_was_measured_is_used),
        cmocka_unit_test(a_donor_has_the_loras_of_the_run),
        cmocka_unit_test(a_donor_has_the_values_of_a_latent),
        cmocka_unit_test(a_donor_is_shrunk_for_the_small_phase),
    };
    return cmocka_run_group_tests(tests, open_store, close_store);
}
