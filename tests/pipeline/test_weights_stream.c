/* test_weights_stream.c - weights streamed from files, here to the CPU: the same bits as from a
 * mapping, and the words about files that are not what they should be; and drawn weights.
 */
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/diffusionz_batch.h"
#include "pipeline/torch/load.h"
#include "pipeline/weights/stream.h"
#include "tests/pipeline/abi.h"
#include "tests/support/measure.h"

#define PATH "weights.safetensors"

static enum kt_dtype kt_of(enum kiln_st_dtype dtype)
{
    return dtype == KILN_ST_F32 ? KT_F32 : dtype == KILN_ST_F16 ? KT_F16 : KT_BF16;
}

/* The values of a tensor that was streamed, beside those of one copied from the mapping. */
static void compare(struct kiln_weights_stream *ws, struct kt_scope *s, const struct kiln_st *st,
                    size_t index, enum kt_dtype to)
{
    struct kiln_error err = {0};
    const struct kiln_st_tensor *t = kiln_st_at(st, index);
    size_t count = t->size / kiln_st_dtype_size(t->dtype);
    float *want = calloc(count, sizeof *want), *got = calloc(count, sizeof *got);
    kt streamed = kiln_weights_stream_load(ws, s, index, kt_of(t->dtype), to, &err);
    kt mapped = kt_from_host(s, t->data, kt_of(t->dtype), to, (int)t->ndim, t->shape);
    assert_int_equal(err.code, 0);
    assert_int_equal(kt_dtype_of(streamed), to);
    kt_to_host_f32(s, mapped, want, count);
    kt_to_host_f32(s, streamed, got, count);
    if (kt_scope_check(s, &err))
        fail_msg("%s", err.text);
    assert_memory_equal(got, want, count * sizeof *want);
    free(want);
    free(got);
}

static void streamed_weights_have_the_bits_of_mapped_ones(void **state)
{
    (void)state;
    const char *const folders[] = {"models/plain/transformer", "models/plain/vae"};
    const enum kt_dtype to[] = {KT_F32, KT_BF16};
    for (size_t f = 0; f < 2; f++)
        for (size_t d = 0; d < 2; d++) {
            struct kiln_error err;
            struct kiln_st *st;
            struct kiln_weights_stream *ws;
            assert_int_equal(kiln_st_open(golden(folders[f]), &st, &err), 0);
            assert_int_equal(kiln_weights_stream_open(st, KT_CPU, &ws, &err), 0);
            struct kt_scope *s = kt_scope_new(KT_CPU);
            for (size_t i = 0; i < kiln_st_count(st); i++)
                compare(ws, s, st, i, to[d]);
            assert_int_equal(kiln_weights_stream_close(ws, &err), 0);
            kt_scope_free(s);
            kiln_st_close(st);
        }
}

/* Weights out of nothing: the same for one seed whatever the dtype, normal, of any number. */
static void drawn_weights_are_those_of_their_seed(void **state)
{
    (void)state;
    const int64_t count = ((int64_t)1 << 22) + 77;
    float *values = malloc((size_t)count * sizeof *values);
    float *rounded = malloc((size_t)count * sizeof *rounded);
    struct kiln_error err;
    struct kt_scope *s = kt_scope_new(KT_CPU);
    kt_to_host_f32(s, kt_normal(s, 5, 1, 0.5, KT_F32, 1, &count), values, (size_t)count);
    kt narrow = kt_to(s, kt_normal(s, 5, 1, 0.5, KT_F32, 1, &count), KT_BF16);
    kt_to_host_f32(s, narrow, rounded, (size_t)count);
    double sum = 0, square = 0, off = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += (double)values[i];
        square += pow((double)values[i] - 1, 2);
        off = test_worse(off, fabs((double)(rounded[i] - values[i])));
    }
    assert_true(fabs(sum / (double)count - 1) < 0.002);
    assert_true(fabs(sqrt(square / (double)count) - 0.5) < 0.002);
    assert_true(off < 0.02);
    kt_to_host_f32(s, kt_normal(s, 5, 1, 0.5, KT_BF16, 1, &count), values, (size_t)count);
    assert_memory_equal(values, rounded, (size_t)count * sizeof *values);
    kt_to_host_f32(s, kt_normal(s, 6, 1, 0.5, KT_BF16, 1, &count), values, (size_t)count);
    assert_memory_not_equal(values, rounded, (size_t)count * sizeof *values);
    assert_int_equal(kt_scope_check(s, &err), 0);
    kt_scope_free(s);
    free(values);
    free(rounded);
}

/* --- files that are not right ------------------------------------------------------------------
 */

static struct kiln_st *write_and_open(float second)
{
    const float values[4] = {1, second, 3, 4}, fine[2] = {1, 2};
    const struct kiln_st_tensor tensors[2] = {
        {.name = "a.fine", .dtype = KILN_ST_F32, .ndim = 1, .shape = {2}, .data = fine, .size = 8},
        {.name = "b.odd",
         .dtype = KILN_ST_F32,
         .ndim = 1,
         .shape = {4},
         .data = values,
         .size = 16}};
    struct kiln_error err;
    struct kiln_st *st;
    assert_int_equal(kiln_st_write(PATH, tensors, 2, NULL, &err), 0);
    assert_int_equal(kiln_st_open(PATH, &st, &err), 0);
    return st;
}

/* Loads both tensors after `meddle` has had its way with the file; what closing says. */
static int load_all(struct kiln_st *st, void (*meddle)(void), struct kiln_error *err)
{
    struct kiln_error first = {0};
    struct kiln_weights_stream *ws;
    assert_int_equal(kiln_weights_stream_open(st, KT_CPU, &ws, err), 0);
    struct kt_scope *s = kt_scope_new(KT_CPU);
    if (meddle)
        meddle();
    for (size_t i = 0; i < 2; i++)
        (void)kiln_weights_stream_load(ws, s, i, KT_F32, KT_BF16, &first);
    int code = kiln_weights_stream_close(ws, err);
    kt_scope_free(s);
    kiln_st_close(st);
    return code;
}

struct told {
    char what[512];
    uint64_t bytes, of;
    int count;
};

static void take_note(void *arg, const char *what, uint64_t bytes, uint64_t of)
{
    struct told *told = arg;
    if (of) /* and not the device, which comes last */
        *told = (struct told){.bytes = bytes, .of = of, .count = told->count + 1};
    if (of)
        snprintf(told->what, sizeof told->what, "%s", what);
}

/* Before a tensor and behind each piece of it; by nobody once nobody asks. */
static void what_is_read_is_told(void **state)
{
    (void)state;
    struct kiln_error err;
    struct told told = {.count = 0};
    diffusionz_watch(take_note, &told);
    assert_int_equal(load_all(write_and_open(2), NULL, &err), 0);
    assert_string_equal(told.what, PATH);
    assert_int_equal(told.of, 24);
    assert_int_equal(told.bytes, 24);
    assert_int_equal(told.count, 4);
    diffusionz_watch(NULL, NULL);
    assert_int_equal(load_all(write_and_open(2), NULL, &err), 0);
    assert_int_equal(told.count, 4);
}

static void values_that_are_not_finite_are_named(void **state)
{
    (void)state;
    const float odd[] = {INFINITY, -INFINITY, NAN};
    struct kiln_error err;
    assert_int_equal(load_all(write_and_open(2), NULL, &err), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(load_all(write_and_open(odd[i]), NULL, &err), KILN_CORRUPT);
        assert_non_null(strstr(err.text, "tensor b.odd holds values that are not finite"));
    }
}

static void write_into(void)
{
    int fd = open(PATH, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "\x40", 1, lseek(fd, 0, SEEK_END) - 1), 1);
    const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = 1}};
    assert_int_equal(futimens(fd, times), 0); /* coarse clocks may not have moved on */
    close(fd);
}

static void cut(void)
{
    assert_int_equal(truncate(PATH, 100), 0);
}

static void a_file_that_is_changed_meanwhile_is_named(void **state)
{
    (void)state;
    struct kiln_error err;
    assert_int_equal(load_all(write_and_open(2), write_into, &err), KILN_CORRUPT);
    assert_non_null(strstr(err.text, PATH " was changed while it was open"));
    assert_int_equal(load_all(write_and_open(2), cut, &err), KILN_CORRUPT);
    assert_non_null(strstr(err.text, PATH " was changed while it was open"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streamed_weights_have_the_bits_of_mapped_ones),
        cmocka_unit_test(drawn_weights_are_those_of_their_seed),
        cmocka_unit_test(what_is_read_is_told),
        cmocka_unit_test(values_that_are_not_finite_are_named),
        cmocka_unit_test(a_file_that_is_changed_meanwhile_is_named),
    };
    return cmocka_run_group_tests_name("weights_stream", tests, NULL, NULL);
}
