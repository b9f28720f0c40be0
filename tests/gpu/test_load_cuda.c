/* test_load_cuda.c - weights streamed to a GPU: the bits of the CPU's mapping, and how fast.
 *
 *     test_load_cuda                   compares the sketch model's weights
 *     test_load_cuda bench GB [DIR]    writes a file of that size to DIR (/dev/shm), streams it
 *                                      twice as bf16; then one of as many weights in fp32, twice
 *                                      the size, to bf16; then a model in fp8, quantised and from
 *                                      its cache; and takes each away
 */
#include <math.h>
#include <sys/stat.h>

#include "pipeline/model/transformer_parts.h"
#include "pipeline/torch/load.h"
#include "pipeline/weights/fp8_cache.h"
#include "pipeline/weights/stream.h"
#include "schemas/clock.h"
#include "tests/gpu/gpu.h"

#define ROWS 10240 /* a large matrix of the full-size model */
#define COLS 3840

static enum kt_dtype kt_of(enum kiln_st_dtype dtype)
{
    return dtype == KILN_ST_F32 ? KT_F32 : dtype == KILN_ST_F16 ? KT_F16 : KT_BF16;
}

/* --- bits ---------------------------------------------------------------------------------------
 */

static void compare(struct kiln_weights_stream *ws, const struct kiln_st *st, size_t index,
                    enum kt_dtype to)
{
    struct kiln_error err = {0};
    const struct kiln_st_tensor *t = kiln_st_at(st, index);
    size_t count = t->size / kiln_st_dtype_size(t->dtype);
    float *want = calloc(count, sizeof *want), *got = calloc(count, sizeof *got);
    struct kt_scope *gpu = kt_scope_new(0), *cpu = kt_scope_new(KT_CPU);
    kt streamed = kiln_weights_stream_load(ws, gpu, index, kt_of(t->dtype), to, &err);
    kt mapped = kt_from_host(cpu, t->data, kt_of(t->dtype), to, (int)t->ndim, t->shape);
    kt_to_host_f32(cpu, mapped, want, count);
    kt_to_host_f32(gpu, streamed, got, count);
    if (err.code || kt_scope_check(gpu, &err) || kt_scope_check(cpu, &err))
        fail_msg("%s", err.text);
    if (memcmp(got, want, count * sizeof *want) != 0)
        fail_msg("tensor %s has other bits on the GPU", t->name);
    kt_scope_free(gpu);
    kt_scope_free(cpu);
    free(want);
    free(got);
}

static void streamed_weights_have_the_bits_of_mapped_ones(void **state)
{
    (void)state;
    const char *const parts[] = {"transformer", "text_encoder", "vae"};
    const enum kt_dtype to[] = {KT_F32, KT_BF16};
    struct kiln_error err;
    assert_int_equal(kt_device_open(0, &err), 0);
    for (size_t p = 0; p < 3; p++)
        for (size_t d = 0; d < 2; d++) {
            char path[4200];
            struct kiln_st *st;
            struct kiln_weights_stream *ws;
            snprintf(path, sizeof path, "%s/%s", sketch(), parts[p]);
            assert_int_equal(kiln_st_open(path, &st, &err), 0);
            assert_int_equal(kiln_weights_stream_open(st, 0, &ws, &err), 0);
            for (size_t i = 0; i < kiln_st_count(st); i++)
                compare(ws, st, i, to[d]);
            assert_int_equal(kiln_weights_stream_close(ws, &err), 0);
            kiln_st_close(st);
        }
}

static void a_nan_is_named_at_the_end(void **state)
{
    (void)state;
    const float values[3] = {1, NAN, 3};
    const struct kiln_st_tensor tensor = {
        .name = "odd", .dtype = KILN_ST_F32, .ndim = 1, .shape = {3}, .data = values, .size = 12};
    struct kiln_error err;
    struct kiln_st *st;
    struct kiln_weights_stream *ws;
    assert_int_equal(kiln_st_write("odd.safetensors", &tensor, 1, NULL, &err), 0);
    assert_int_equal(kiln_st_open("odd.safetensors", &st, &err), 0);
    assert_int_equal(kiln_weights_stream_open(st, 0, &ws, &err), 0);
    struct kt_scope *s = kt_scope_new(0);
    assert_non_null(kiln_weights_stream_load(ws, s, 0, KT_F32, KT_BF16, &err));
    assert_int_equal(kiln_weights_stream_close(ws, &err), KILN_CORRUPT);
    assert_non_null(strstr(err.text, "tensor odd holds"));
    kt_scope_free(s);
    kiln_st_close(st);
    unlink("odd.safetensors");
}

/* --- 8-bit rows ---------------------------------------------------------------------------------
 */

#define MATRICES_MAX 64

static const char *const weight_folders[] = {"transformer", "text_encoder"};

/* The sums of the transformer's quantised matrices. */
static size_t load_sums(const char *model, bool cached, uint64_t sums[MATRICES_MAX][2], char *note)
{
    struct kiln_model_config config;
    struct kiln_transformer *t = NULL;
    struct kiln_param_table params = {0};
    struct kiln_error err;
    char path[4300];
    size_t count = 0;
    if (kiln_model_config_read(model, &config, &err))
        fail_msg("%s", err.text);
    struct kiln_fp8_cache *c = cached ? kiln_fp8_cache_open(model, weight_folders, 2, 0, 0) : NULL;
    struct kt_scope *s = kt_scope_new(0);
    snprintf(path, sizeof path, "%s/transformer", model);
    if (kiln_transformer_load(path, &config.transformer, s, KT_E4M3, c, "transformer", &params, &t,
                              &err))
        fail_msg("%s", err.text);
    kiln_fp8_cache_close(c, true, note, KILN_ERROR_TEXT_MAX);
    for (int i = 0; i < config.transformer.layers && count + 3 < MATRICES_MAX; i++) {
        const struct kiln_block *b = kiln_joint_block(t, i);
        assert_true(kt_rows_sums(s, b->qkv.weight, sums[count++]));
        assert_true(kt_rows_sums(s, b->gate_up.weight, sums[count++]));
        assert_true(kt_rows_sums(s, b->down.weight, sums[count++]));
    }
    kiln_transformer_free(t);
    kiln_param_table_release(&params);
    kt_scope_free(s);
    return count;
}

/* Made on the device, written from there and read again: the same bits. */
static void rows_of_the_cache_are_those_made_here(void **state)
{
    (void)state;
    static uint64_t plain[MATRICES_MAX][2], first[MATRICES_MAX][2], second[MATRICES_MAX][2];
    char command[9000], note[KILN_ERROR_TEXT_MAX] = "";
    const char *model = "fp8-model";
    snprintf(command, sizeof command, "rm -rf %s && cp -r '%s' %s && chmod -R u+w %s", model,
             sketch(), model, model);
    assert_int_equal(system(command), 0);
    const size_t count = load_sums(model, false, plain, note);
    assert_true(count > 0 && load_sums(model, true, first, note) == count);
    assert_int_equal(access("fp8-model/" KILN_FP8_CACHE_NAME, R_OK), 0);
    assert_int_equal(load_sums(model, true, second, note), count);
    assert_string_equal(note, "");
    assert_memory_equal(first, plain, sizeof plain);
    assert_memory_equal(second, plain, sizeof plain);
    assert_int_equal(system("rm -rf fp8-model"), 0);
}

/* --- speed ---------------------------------------------------------------------------------------
 */

/* A file of `count` matrices; the values are any finite ones.  False: it is not there, as said. */
static bool write_file(const char *path, int count, const char *dtype, size_t value_size)
{
    size_t size = (size_t)ROWS * COLS * value_size;
    char *header = malloc((size_t)count * 160 + 64), *data = malloc(size);
    size_t at = (size_t)sprintf(header, "{");
    for (int i = 0; i < count; i++)
        at += (size_t)sprintf(header + at,
                              "%s\"w%04d.weight\":{\"dtype\":\"%s\",\"shape\":[%d,%d],"
                              "\"data_offsets\":[%zu,%zu]}",
                              i ? "," : "", i, dtype, ROWS, COLS, (size_t)i * size,
                              (size_t)(i + 1) * size);
    at += (size_t)sprintf(header + at, "}");
    for (; at % 8; at++)
        header[at] = ' ';
    for (size_t i = 0; i < size; i++)
        data[i] = (char)(i * 2654435761u >> 24 & 0x3f); /* no exponent of an infinity */
    FILE *file = fopen(path, "wb");
    uint64_t length = at;
    bool good = file && fwrite(&length, 8, 1, file) == 1 && fwrite(header, 1, at, file) == at;
    for (int i = 0; i < count && good; i++)
        good = fwrite(data, 1, size, file) == size;
    good = file && fclose(file) == 0 && good;
    free(header);
    free(data);
    if (!good) {
        unlink(path);
        fprintf(stderr, "%s cannot be written\n", path);
    }
    return good;
}

static int stream_file(const char *path, enum kt_dtype from)
{
    struct kiln_error err = {0};
    struct kiln_st *st = NULL;
    struct kiln_weights_stream *ws;
    double start = kiln_monotonic_ms() / 1e3;
    int code = kiln_st_open(path, &st, &err);
    code = code ? code : kiln_weights_stream_open(st, 0, &ws, &err);
    if (code) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    struct kt_scope *s = kt_scope_new(0);
    double bytes = 0;
    for (size_t i = 0; i < kiln_st_count(st) && !err.code; i++) {
        (void)kiln_weights_stream_load(ws, s, i, from, KT_BF16, &err);
        bytes += (double)kiln_st_at(st, i)->size;
    }
    double read = kiln_monotonic_ms() / 1e3 - start;
    code = kiln_weights_stream_close(ws, &err);
    double ready = kiln_monotonic_ms() / 1e3 - start;
    code = code ? code : kt_scope_check(s, &err);
    if (code)
        fprintf(stderr, "%s\n", err.text);
    else
        printf("load %s %.2f GB: read after %.2f s, ready and checked after %.2f s, %.1f GB/s\n",
               from == KT_F32 ? "fp32 to bf16" : "bf16", bytes / 1e9, read, ready,
               bytes / ready / 1e9);
    kt_scope_free(s);
    kiln_st_close(st);
    kt_device_trim(0);
    return code != 0;
}

/* Until `count` matrices of the model are quantised rows.  Not 0 where they are not, or the cache
 * had something to say, which is printed. */
static int load_rows(const char *model, int count, bool cached, double *ret_seconds)
{
    struct kiln_weights *w;
    struct kiln_error err;
    char path[4300], note[KILN_ERROR_TEXT_MAX] = "";
    kt slot;
    snprintf(path, sizeof path, "%s/transformer", model);
    const double start = kiln_monotonic_ms() / 1e3;
    struct kiln_fp8_cache *c = cached ? kiln_fp8_cache_open(model, weight_folders, 2, 0, 0) : NULL;
    struct kt_scope *s = kt_scope_new(0);
    int code = kiln_weights_open(path, "w0000.weight", s, KT_BF16, NULL, &w, &err);
    if (!code) {
        kiln_weights_quantise(w, true);
        kiln_weights_cache(w, c, "transformer");
        for (int i = 0; i < count; i++) {
            char name[16];
            snprintf(name, sizeof name, "w%04d", i);
            kiln_weights_linear(w, &slot, "", name, ROWS, COLS);
        }
        code = kiln_weights_close(w, &err);
    }
    kt_wait(s);
    kiln_fp8_cache_close(c, code == 0, note, sizeof note);
    *ret_seconds = kiln_monotonic_ms() / 1e3 - start;
    if (code || note[0])
        fprintf(stderr, "%s%s\n", code ? err.text : "", note);
    kt_scope_free(s);
    kt_device_trim(0);
    return code || note[0];
}

/* A model of `count` matrices in a new directory. */
static bool write_model(const char *model, int count)
{
    static const char *const folders[3] = {"", "/transformer", "/text_encoder"};
    char path[4200];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%s", model, folders[i]);
        if (mkdir(path, 0755) != 0) {
            perror(path);
            return false;
        }
    }
    snprintf(path, sizeof path, "%s/text_encoder/model.safetensors", model);
    if (!write_file(path, 1, "BF16", 2))
        return false;
    snprintf(path, sizeof path, "%s/transformer/model.safetensors", model);
    return write_file(path, count, "BF16", 2);
}

/* How many of the loads failed; without times, if any. */
static int time_rows(const char *model, double gigabytes, int count)
{
    double first, quantised, written, cached;
    int failed = load_rows(model, count, false, &first); /* starts the device's libraries */
    failed += load_rows(model, count, false, &quantised);
    failed += load_rows(model, count, true, &written);
    failed += load_rows(model, count, true, &cached);
    if (failed == 0)
        printf("load fp8 of %.2f GB in bf16: quantised in %.2f s, and written in %.2f s; from the "
               "cache in %.2f s\n",
               gigabytes, quantised, written, cached);
    return failed;
}

static int bench_rows(double gigabytes, const char *dir)
{
    char model[4096], command[4200];
    const int count = (int)(gigabytes * 1e9 / ((double)ROWS * COLS * 2) + 0.5);
    snprintf(model, sizeof model, "%s/kiln-fp8-%d", dir, (int)getpid());
    int failed = write_model(model, count ? count : 1) ? time_rows(model, gigabytes, count) : 1;
    snprintf(command, sizeof command, "rm -rf '%s'", model);
    failed += system(command) != 0;
    return failed;
}

static int bench(double gigabytes, const char *dir)
{
    char path[4096];
    struct kiln_error err;
    int failed = 0;
    snprintf(path, sizeof path, "%s/kiln-load-%d.safetensors", dir, (int)getpid());
    if (kt_device_open(0, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return EX_UNAVAILABLE;
    }
    const int count = (int)(gigabytes * 1e9 / ((double)ROWS * COLS * 2) + 0.5);
    for (int wide = 0; wide < 2; wide++) {
        if (!write_file(path, count ? count : 1, wide ? "F32" : "BF16", wide ? 4 : 2))
            return 1;
        for (int i = 0; i < 2; i++)
            failed += stream_file(path, wide ? KT_F32 : KT_BF16);
        unlink(path);
    }
    failed += kt_device_likes_e4m3(0) ? bench_rows(gigabytes, dir) : 0;
    return failed != 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streamed_weights_have_the_bits_of_mapped_ones),
        cmocka_unit_test(a_nan_is_named_at_the_end),
        cmocka_unit_test(rows_of_the_cache_are_those_made_here),
    };
    need_gpu();
    if (argc > 2 && strcmp(argv[1], "bench") == 0)
        return bench(atof(argv[2]), argc > 3 ? argv[3] : "/dev/shm");
    return cmocka_run_group_tests_name("load_cuda", tests, NULL, NULL);
}
