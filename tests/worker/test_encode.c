/* test_encode.c - which files a picture becomes, their names, their sizes, and that equal input
 * gives equal files. */
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/pictures/downscale.h"
#include "schemas/digest.h"
#include "schemas/names.h"
#include "storage/formats/latentfile.h"
#include "storage/formats/pictures/webp.h"
#include "worker/engine/testcard_draw.h"
#include "worker/stages/encode.h"
#include "worker/stages/object_key.h"

static const struct kiln_encode_options options = {
    .model_name = "sketch",
    .model_hash = "0123456789abcdef",
    .webp_quality = 85,
    .webp_method = 2,
    .now_ms = 951782400000, /* 2000-02-29 */
};

/* What the engine delivers besides the full picture. */
static void make_smaller(DiffusionZOutput *output, uint32_t width, uint32_t height)
{
    for (int i = 0; i < KILN_PICTURE_SMALLER; i++) {
        uint32_t w, h;
        if (!kiln_downscale_fit(width, height, kiln_stored_sizes[i + 1].longest, &w, &h))
            continue;
        output->smaller[i] = malloc((size_t)w * h * 3);
        kiln_downscale_ref(output->rgb, width, height, output->smaller[i], w, h);
    }
}

/* One drawn job; the flight owns the job. */
struct bench {
    struct kiln_flight flight;
    struct kiln_job job;
    struct kiln_picture *picture;
};

static void set_up(struct bench *bench, uint32_t width, uint32_t height)
{
    memset(bench, 0, sizeof *bench);
    bench->job = (struct kiln_job){.id = 4711,
                                   .prompt = strdup("a <red> star"),
                                   .negative_prompt = strdup(""),
                                   .width = width,
                                   .height = height,
                                   .steps = 3,
                                   .seed = 42,
                                   .created_ms = 1767225599999}; /* the last ms of 2025 in UTC */
    bench->flight.assignment.jobs = &bench->job;
    bench->flight.assignment.job_count = 1;
    bench->picture = kiln_picture_new(&bench->flight, 0);
    size_t values = 16u * (width / 8) * (height / 8);
    bench->picture->output.rgb = malloc((size_t)width * height * 3);
    bench->picture->output.latent = malloc(values * sizeof(float));
    bench->picture->output.latent_channels = 16;
    bench->picture->output.latent_height = (int32_t)height / 8;
    bench->picture->output.latent_width = (int32_t)width / 8;
    kiln_testcard_draw(bench->picture->output.rgb, width, height, 42, 7, "");
    make_smaller(&bench->picture->output, width, height);
    kiln_testcard_latent(bench->picture->output.rgb, width, height, bench->picture->output.latent);
}

static void tear_down(struct bench *bench)
{
    free(bench->picture->output.rgb);
    free(bench->picture->output.latent);
    free(bench->picture->output.trajectory);
    free(bench->picture->output.sigmas);
    for (int i = 0; i < KILN_PICTURE_SMALLER; i++)
        free(bench->picture->output.smaller[i]);
    kiln_picture_free(bench->picture);
    free(bench->job.prompt);
    free(bench->job.negative_prompt);
}

static void encode(struct bench *bench)
{
    struct kiln_error err;
    if (kiln_encode_picture(bench->picture, &options, &err) != 0)
        fail_msg("%s", err.text);
}

static void assert_like(const char *text, const char *pattern)
{
    regex_t regex;
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    if (regexec(&regex, text, 0, NULL, 0) != 0)
        fail_msg("\"%s\" is not like %s", text, pattern);
    regfree(&regex);
}

/* roles: expected, by space; the size of each picture follows from its role. */
static void assert_files(uint32_t width, uint32_t height, const char *roles)
{
    struct bench bench;
    char got[64] = "";
    set_up(&bench, width, height);
    encode(&bench);
    for (uint32_t i = 0; i < bench.picture->object_count; i++) {
        const struct kiln_picture_object *object = &bench.picture->objects[i];
        uint8_t digest[KILN_SHA256_SIZE], *rgb;
        char hex[65];
        uint32_t w, h;
        struct kiln_error err;
        strcat(strcat(got, i ? " " : ""), object->role);
        kiln_sha256(object->data, object->size, digest);
        kiln_hex(digest, sizeof digest, hex);
        assert_string_equal(object->sha256, hex);
        if (strcmp(object->role, "latent") == 0)
            continue;
        assert_int_equal(kiln_webp_decode(object->data, object->size, 1 << 24, &rgb, &w, &h, &err),
                         0);
        free(rgb);
        assert_int_equal(w, object->width);
        assert_int_equal(h, object->height);
        uint32_t longest = w > h ? w : h, native = width > height ? width : height;
        assert_int_equal(longest,
                         strcmp(object->role, "full") == 0 ? native : (uint32_t)atoi(object->role));
    }
    assert_string_equal(got, roles);
    tear_down(&bench);
}

static void test_sizes(void **state)
{
    (void)state;
    assert_files(1024, 768, "full 512 256 latent");
    assert_files(528, 64, "full 512 256 latent");
    assert_files(512, 512, "full 512 256 latent");
    assert_files(496, 256, "full 256 latent");
    assert_files(256, 256, "full 256 latent");
    assert_files(240, 128, "full latent");
    assert_files(64, 64, "full latent");
}

/* Of each size, the pixels that the engine has made are those that are compressed. */
static void test_engine_made_the_sizes(void **state)
{
    (void)state;
    struct bench bench;
    struct kiln_error err;
    set_up(&bench, 640, 512);
    memset(bench.picture->output.smaller[0], 200, 512 * 410 * 3);
    memset(bench.picture->output.smaller[1], 40, 256 * 205 * 3);
    encode(&bench);
    for (uint32_t i = 1; i <= 2; i++) {
        const struct kiln_picture_object *object = &bench.picture->objects[i];
        uint8_t *rgb;
        uint32_t w, h;
        assert_int_equal(kiln_webp_decode(object->data, object->size, 1 << 24, &rgb, &w, &h, &err),
                         0);
        assert_int_equal(w, i == 1 ? 512 : 256);
        assert_int_equal(h, i == 1 ? 410 : 205);
        for (size_t at = 0; at < (size_t)w * h * 3; at += 997)
            assert_in_range(rgb[at], i == 1 ? 198 : 38, i == 1 ? 202 : 42);
        free(rgb);
    }
    tear_down(&bench);

    set_up(&bench, 640, 512);
    free(bench.picture->output.smaller[1]);
    bench.picture->output.smaller[1] = NULL;
    assert_int_equal(kiln_encode_picture(bench.picture, &options, &err), KILN_INTERNAL);
    assert_non_null(strstr(err.text, "256 px picture of 640 x 512"));
    assert_int_equal(bench.picture->object_count, 0);
    tear_down(&bench);
}

/* What waits in a queue weighs what it holds. */
static void test_weight(void **state)
{
    (void)state;
    struct bench bench;
    set_up(&bench, 1024, 512);
    size_t all = kiln_picture_weight(bench.picture);
    free(bench.picture->output.smaller[0]);
    bench.picture->output.smaller[0] = NULL;
    assert_int_equal(all - kiln_picture_weight(bench.picture), 512 * 256 * 3);
    tear_down(&bench);
}

static void test_keys(void **state)
{
    (void)state;
    struct bench bench;
    set_up(&bench, 512, 256);
    encode(&bench);
    assert_like(bench.picture->objects[0].key, "^images/2025/12/4711/full-[0-9a-f]{16}[.]webp$");
    assert_like(bench.picture->objects[1].key, "^images/2025/12/4711/512-[0-9a-f]{16}[.]webp$");
    assert_like(bench.picture->objects[2].key, "^images/2025/12/4711/256-[0-9a-f]{16}[.]webp$");
    assert_like(bench.picture->objects[3].key,
                "^latents/sketch/2025/12/4711-[0-9a-f]{16}[.]safetensors[.]zst$");
    for (uint32_t i = 0; i < 4; i++) {
        const char *key = bench.picture->objects[i].key;
        char sha16[17] = "";
        memcpy(sha16, bench.picture->objects[i].sha256, 16);
        assert_non_null(strstr(key, sha16));
    }
    assert_string_equal(bench.picture->objects[0].content_type, "image/webp");
    assert_string_equal(bench.picture->objects[3].content_type, "application/zstd");
    tear_down(&bench);
}

static void test_key_of_odd_names(void **state)
{
    (void)state;
    char key[KILN_OBJECT_KEY_MAX + 1];
    const char *sha = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    kiln_latent_key(key, 0, 1, "Z Image/Türbo..", sha);
    assert_string_equal(key, "latents/Z_Image_T__rbo../1970/01/1-0011223344556677.safetensors.zst");
    kiln_latent_key(key, 951782400000, UINT64_MAX, "..", sha);
    assert_string_equal(
        key, "latents/model/2000/02/18446744073709551615-0011223344556677.safetensors.zst");
    kiln_latent_key(key, INT64_MAX, 1, "", sha);
    assert_string_equal(key, "latents/model/0000/01/1-0011223344556677.safetensors.zst");
}

static void test_no_creation_time(void **state)
{
    (void)state;
    struct bench bench;
    set_up(&bench, 64, 64);
    bench.job.created_ms = 0;
    encode(&bench);
    assert_like(bench.picture->objects[0].key, "^images/2000/02/");
    tear_down(&bench);
}

static void test_deterministic(void **state)
{
    (void)state;
    struct bench a, b;
    set_up(&a, 640, 320);
    set_up(&b, 640, 320);
    encode(&a);
    encode(&b);
    assert_int_equal(a.picture->object_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_string_equal(a.picture->objects[i].key, b.picture->objects[i].key);
        assert_int_equal(a.picture->objects[i].size, b.picture->objects[i].size);
        assert_memory_equal(a.picture->objects[i].data, b.picture->objects[i].data,
                            a.picture->objects[i].size);
    }
    tear_down(&a);
    tear_down(&b);
}

static void test_kinds(void **state)
{
    (void)state;
    struct bench bench;
    set_up(&bench, 64, 64);
    bench.job.latents = KILN_LATENTS_NONE;
    encode(&bench);
    assert_int_equal(bench.picture->object_count, 1);
    assert_null(bench.picture->latent_encoding);
    tear_down(&bench);

    set_up(&bench, 64, 64);
    bench.job.kind = KILN_KIND_LATENT_CACHE;
    bench.job.latents = KILN_LATENTS_NONE;
    free(bench.picture->output.rgb);
    bench.picture->output.rgb = NULL;
    encode(&bench);
    assert_int_equal(bench.picture->object_count, 1);
    assert_string_equal(bench.picture->objects[0].role, "latent");
    assert_string_equal(bench.picture->latent_encoding, "bf16-planes");
    tear_down(&bench);
}

/* Only what `kiln cache build` ordered is rounded: of its batch, and without other states. */
static void test_latents_of_the_cache_are_small(void **state)
{
    (void)state;
    char cache[] = KILN_CACHE_BATCH, other[] = "mine";
    const struct {
        enum kiln_job_kind kind;
        enum kiln_latents latents;
        char *batch;
        const char *encoding;
    } cases[] = {
        {KILN_KIND_LATENT_CACHE, KILN_LATENTS_FINAL, cache, "i8-steps"},
        {KILN_KIND_LATENT_CACHE, KILN_LATENTS_TRAJECTORY, cache, "bf16-planes"},
        {KILN_KIND_LATENT_CACHE, KILN_LATENTS_FINAL, other, "bf16-planes"},
        {KILN_KIND_IMAGE, KILN_LATENTS_FINAL, cache, "bf16-planes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench bench;
        set_up(&bench, 64, 64);
        char *batch = bench.job.batch;
        bench.job.kind = cases[i].kind;
        bench.job.latents = cases[i].latents;
        bench.job.batch = cases[i].batch;
        encode(&bench);
        assert_string_equal(bench.picture->latent_encoding, cases[i].encoding);
        const struct kiln_picture_object *file =
            &bench.picture->objects[bench.picture->object_count - 1];
        struct kiln_latent latent;
        enum kiln_latent_encoding encoding;
        struct kiln_error err;
        assert_int_equal(kiln_latent_decode(file->data, file->size, &latent, &encoding, &err), 0);
        assert_string_equal(kiln_latent_encoding_name(encoding), cases[i].encoding);
        kiln_latent_release(&latent);
        bench.job.batch = batch;
        tear_down(&bench);
    }
}

/* The model says how large a latent is: one whose VAE has five levels of eight channels. */
static void test_latent_of_another_shape(void **state)
{
    (void)state;
    struct bench bench;
    struct kiln_latent latent;
    enum kiln_latent_encoding encoding;
    struct kiln_error err;
    set_up(&bench, 128, 64);
    bench.job.kind = KILN_KIND_LATENT_CACHE;
    DiffusionZOutput *output = &bench.picture->output;
    free(output->latent);
    output->latent = malloc(8 * 4 * 8 * sizeof(float));
    for (int i = 0; i < 8 * 4 * 8; i++)
        output->latent[i] = (float)i;
    output->latent_channels = 8, output->latent_height = 4, output->latent_width = 8;
    encode(&bench);
    const struct kiln_picture_object *file = &bench.picture->objects[0];
    assert_int_equal(file->width, 8);
    assert_int_equal(file->height, 4);
    assert_int_equal(bench.picture->latent_channels, 8);
    assert_int_equal(kiln_latent_decode(file->data, file->size, &latent, &encoding, &err), 0);
    assert_int_equal(latent.channels, 8);
    assert_int_equal(latent.height, 4);
    assert_int_equal(latent.width, 8);
    assert_true(latent.values[8 * 4 * 8 - 1] == 255.0f);
    kiln_latent_release(&latent);
    tear_down(&bench);
}

static void test_trajectory(void **state)
{
    (void)state;
    struct bench bench;
    struct kiln_latent latent;
    enum kiln_latent_encoding encoding;
    struct kiln_error err;
    set_up(&bench, 64, 64);
    const size_t values = 16 * 8 * 8;
    bench.job.latents = KILN_LATENTS_TRAJECTORY;
    bench.picture->output.trajectory = malloc(3 * values * sizeof(float));
    bench.picture->output.sigmas = malloc(3 * sizeof(double));
    for (size_t i = 0; i < 3; i++) {
        bench.picture->output.sigmas[i] = 1.0 - 0.25 * (double)i;
        for (size_t j = 0; j < values; j++)
            bench.picture->output.trajectory[i * values + j] = (float)(i + 1);
    }
    encode(&bench);
    assert_int_equal(bench.picture->latent_states, 4);
    const struct kiln_picture_object *file = &bench.picture->objects[1];
    assert_int_equal(kiln_latent_decode(file->data, file->size, &latent, &encoding, &err), 0);
    assert_int_equal(latent.states, 4);
    assert_true(latent.sigmas[0] == 1.0 && latent.sigmas[2] == 0.5 && latent.sigmas[3] == 0.0);
    assert_true(latent.values[2 * values] == 3.0f);
    assert_true(latent.values[3 * values] == bench.picture->output.latent[0]);
    assert_string_equal(latent.model, "0123456789abcdef");
    kiln_latent_release(&latent);
    tear_down(&bench);
}

/* Of a run through 1, 0.75, 0.5 and clean, the states nearest to what was asked for, each once. */
static void test_states_nearest_to_sigmas(void **state)
{
    (void)state;
    static const struct {
        double asked[3];
        uint32_t count, states;
        double got[3];
    } cases[] = {{{0.95, 0.2, 0}, 3, 2, {1, 0}},
                 {{0.74, 0.52}, 2, 2, {0.75, 0.5}},
                 {{0.6}, 1, 1, {0.5}},
                 {{1, 0.5, 0}, 3, 3, {1, 0.5, 0}}};
    const size_t values = 16 * 8 * 8;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct bench bench;
        struct kiln_latent latent;
        enum kiln_latent_encoding encoding;
        struct kiln_error err;
        set_up(&bench, 64, 64);
        bench.job.kind = KILN_KIND_LATENT_CACHE;
        bench.job.latents = KILN_LATENTS_TRAJECTORY;
        bench.job.sigma_count = cases[c].count;
        memcpy(bench.job.sigmas, cases[c].asked, sizeof cases[c].asked);
        bench.picture->output.trajectory = calloc(3 * values, sizeof(float));
        bench.picture->output.sigmas = malloc(3 * sizeof(double));
        for (size_t i = 0; i < 3; i++) {
            bench.picture->output.sigmas[i] = 1.0 - 0.25 * (double)i;
            bench.picture->output.trajectory[i * values] = (float)(i + 1);
        }
        encode(&bench);
        assert_int_equal(bench.picture->object_count, 1);
        assert_int_equal(bench.picture->latent_states, cases[c].states);
        const struct kiln_picture_object *file = &bench.picture->objects[0];
        assert_int_equal(kiln_latent_decode(file->data, file->size, &latent, &encoding, &err), 0);
        assert_int_equal(latent.states, cases[c].states);
        for (uint32_t i = 0; i < latent.states; i++) {
            double sigma = cases[c].got[i];
            assert_true(latent.sigmas[i] == sigma && bench.picture->latent_sigmas[i] == sigma);
            float first = sigma == 0 ? bench.picture->output.latent[0] : (float)(5 - 4 * sigma);
            assert_true(latent.values[i * values] == first);
        }
        kiln_latent_release(&latent);
        tear_down(&bench);
    }
}

static void test_metadata(void **state)
{
    (void)state;
    struct bench bench;
    struct kiln_error err;
    char *xmp = NULL;
    set_up(&bench, 64, 64);
    bench.job.embed_metadata = true;
    encode(&bench);
    const struct kiln_picture_object *full = &bench.picture->objects[0];
    assert_int_equal(kiln_webp_xmp(full->data, full->size, &xmp, &err), 0);
    assert_non_null(xmp);
    assert_non_null(strstr(xmp, "a &lt;red&gt; star"));
    assert_non_null(strstr(xmp, "sketch"));
    assert_non_null(strstr(xmp, "trainedAlgorithmicMedia"));
    free(xmp);
    tear_down(&bench);

    set_up(&bench, 64, 64);
    encode(&bench);
    full = &bench.picture->objects[0];
    assert_int_equal(kiln_webp_xmp(full->data, full->size, &xmp, &err), 0);
    assert_null(xmp);
    tear_down(&bench);
}

/* The latent file of a picture whose run had this mode. */
static struct kiln_latent latent_of(struct bench *bench)
{
    struct kiln_latent latent = {0};
    enum kiln_latent_encoding encoding;
    struct kiln_error err;
    const struct kiln_picture_object *file =
        &bench->picture->objects[bench->picture->object_count - 1];
    assert_string_equal(file->role, "latent");
    assert_int_equal(kiln_latent_decode(file->data, file->size, &latent, &encoding, &err), 0);
    kiln_latent_release(&latent);
    return latent;
}

/* Nothing that is not exact passes for exact: files and metadata say how the run began. */
static void test_modes(void **state)
{
    (void)state;
    static const struct {
        const char *mode, *schedule, *start;
        double noise; /* of a model that also lists sigmas */
    } cases[] = {
        {"", "euler steps=8", NULL, 0},
        {"coarse=4+3", "euler steps=8 to=4 small=32x32, rest=3 from sigma=0.75", NULL, 0},
        {"coarse=3+1+3",
         "euler steps=8 to=3 small=32x32, to=4 middle=48x48, rest=3 from sigma=0.75", NULL,
         0},
        {"start=5", "euler steps=8 from=5", "job:4711", 0},
        {"start@0.5", "euler steps=8 from sigma=0.5", "job:4711", 0},
        {"inpaint=5", "euler steps=8 from=5", "job:4711", 0},
        {"start=2", "euler steps=8 listed noise=0.8 from=2", "job:4711", 0.8},
    };
    char key[KILN_OBJECT_KEY_MAX + 1] = "";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench bench;
        struct kiln_error err;
        char *xmp = NULL, text[80];
        set_up(&bench, 64, 64);
        bench.job.steps = 8;
        bench.job.embed_metadata = true;
        bench.job.init_job = bench.job.parent = cases[i].start ? 4711 : 0;
        assert_true(kiln_mode_parse(cases[i].mode, &bench.picture->mode));
        const bool masked = bench.picture->mode.masked;
        bench.job.init_mask = masked ? (char *)"inputs/01.png" : NULL;
        bench.picture->steps = 3;
        bench.picture->noise = cases[i].noise;
        bench.picture->own_sigmas = cases[i].noise > 0;
        bench.picture->forwards = 3.5;
        bench.picture->coarse_width = bench.picture->coarse_height = 32;
        bench.picture->middle_width = bench.picture->middle_height = 48;
        encode(&bench);
        struct kiln_latent latent = latent_of(&bench);
        assert_string_equal(latent.mode, cases[i].mode);
        assert_string_equal(latent.schedule, cases[i].schedule);
        const struct kiln_picture_object *full = &bench.picture->objects[0];
        assert_int_equal(kiln_webp_xmp(full->data, full->size, &xmp, &err), 0);
        snprintf(text, sizeof text, "<kiln:mode>%s</kiln:mode>", cases[i].mode);
        assert_int_equal(strstr(xmp, text) != NULL, i > 0);
        assert_int_equal(strstr(xmp, "<kiln:forwards>3.5<") != NULL, i > 0);
        assert_int_equal(strstr(xmp, "<kiln:start>job:4711<") != NULL, cases[i].start != NULL);
        assert_int_equal(strstr(xmp, "<kiln:mask>inputs/01.png<") != NULL, masked);
        assert_int_equal(strstr(xmp, "<kiln:parent>4711<") != NULL, cases[i].start != NULL);
        free(xmp);
        /* The same pixels and latent under another mode are another object. */
        const char *now = bench.picture->objects[bench.picture->object_count - 1].key;
        assert_string_not_equal(key, now);
        snprintf(key, sizeof key, "%s", now);
        tear_down(&bench);
    }
}

/* Without metadata the bytes of a picture do not say how it came about; its key does.  That of an
 * exact one is made of its bytes alone, as keys of older releases are. */
static void test_modes_in_keys(void **state)
{
    (void)state;
    static const struct {
        const char *mode;
        uint64_t from, parent;
        uint32_t steps;
    } cases[] = {
        {"", 0, 0, 8},           {"", 0, 7, 8},
        {"coarse=4+3", 0, 0, 7}, {"coarse=4+2", 0, 0, 6},
        {"start=5", 11, 0, 3},   {"start=5", 12, 0, 3},
        {"start=5", 12, 7, 3},   {"variety=0.3", 0, 0, 8},
        {"start@0.5", 11, 0, 3}, {"start@0.5", 11, 0, 2},
    };
    enum { CASES = sizeof cases / sizeof *cases };
    char keys[CASES][KILN_OBJECT_KEY_MAX + 1], sha256[KILN_OBJECT_HASH_MAX] = "";
    for (size_t i = 0; i < CASES; i++) {
        struct bench bench;
        set_up(&bench, 64, 64);
        bench.job.init_job = cases[i].from;
        bench.job.parent = cases[i].parent;
        bench.picture->steps = cases[i].steps;
        assert_true(kiln_mode_parse(cases[i].mode, &bench.picture->mode));
        encode(&bench);
        const struct kiln_picture_object *full = &bench.picture->objects[0];
        assert_int_equal(strstr(full->key, "full-") != NULL, 1);
        if (i == 0)
            snprintf(sha256, sizeof sha256, "%s", full->sha256);
        assert_string_equal(full->sha256, sha256); /* the same bytes */
        assert_int_equal(strncmp(strstr(full->key, "full-") + 5, sha256, 16) == 0, i == 0);
        snprintf(keys[i], sizeof keys[i], "%s", full->key);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(keys[k], keys[i]);
        tear_down(&bench);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_engine_made_the_sizes),
        cmocka_unit_test(test_weight),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_key_of_odd_names),
        cmocka_unit_test(test_no_creation_time),
        cmocka_unit_test(test_deterministic),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_latents_of_the_cache_are_small),
        cmocka_unit_test(test_latent_of_another_shape),
        cmocka_unit_test(test_trajectory),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_modes_in_keys),
        cmocka_unit_test(test_states_nearest_to_sigmas),
        cmocka_unit_test(test_metadata),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
