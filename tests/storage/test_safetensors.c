/* test_safetensors.c - what a safetensors file may be, and everything it may not.
 *
 * Hostile files are handed over in memory of their exact size, so that a sanitizer sees any read
 * beyond them; files on disk are cut and changed under an open reader.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "storage/formats/safetensors.h"
#include "tests/support/files.h"

/* --- building files --------------------------------------------------------------------------- */

struct bytes {
    uint8_t *data;
    size_t size;
};

/* A file with this header text, its true length in front, and data_size counted bytes behind. */
static struct bytes file_with(const char *header, size_t data_size)
{
    uint64_t n = strlen(header);
    struct bytes b = {malloc(8 + n + data_size), 8 + n + data_size};
    assert_non_null(b.data);
    memcpy(b.data, &n, 8);
    memcpy(b.data + 8, header, n);
    for (size_t i = 0; i < data_size; i++)
        b.data[8 + n + i] = (uint8_t)i;
    return b;
}

static void write_file(const char *path, struct bytes b)
{
    kiln_test_write_bytes(path, b.data, b.size);
}

/* Opens the bytes, which must fail with this code and a text that holds word and the file. */
static void assert_refused_bytes(struct bytes b, int code, const char *word)
{
    struct kiln_error err = {0};
    struct kiln_st *st = NULL;
    int rc = kiln_st_open_memory(b.data, b.size, "hostile.safetensors", &st, &err);
    if (rc != code || !strstr(err.text, word) || !strstr(err.text, "hostile.safetensors"))
        fail_msg("expected code %d with \"%s\", got %d: %s", code, word, rc, err.text);
    assert_null(st);
    free(b.data);
}

static void assert_refused(const char *header, size_t data_size, int code, const char *word)
{
    assert_refused_bytes(file_with(header, data_size), code, word);
}

static void assert_open_fails(const char *path, int code, const char *word)
{
    struct kiln_error err = {0};
    struct kiln_st *st = NULL;
    int rc = kiln_st_open(path, &st, &err);
    if (rc != code || !strstr(err.text, word))
        fail_msg("%s: expected code %d with \"%s\", got %d: %s", path, code, word, rc, err.text);
    assert_null(st);
}

#define GOOD                                                                                       \
    "{\"__metadata__\":{\"format\":\"pt\"},"                                                       \
    "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"                           \
    "\"a\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[24,26]},"                            \
    "\"z\":{\"dtype\":\"U8\",\"shape\":[0,7],\"data_offsets\":[26,26]}}  "

/* --- good files ------------------------------------------------------------------------------- */

static void test_reads_a_good_file(void **state)
{
    (void)state;
    struct bytes b = file_with(GOOD, 26);
    struct kiln_error err;
    struct kiln_st *st;
    assert_int_equal(kiln_st_open_memory(b.data, b.size, "good", &st, &err), 0);
    assert_int_equal(kiln_st_count(st), 3);
    assert_string_equal(kiln_st_at(st, 0)->name, "a");
    assert_string_equal(kiln_st_at(st, 2)->name, "z");
    assert_null(kiln_st_at(st, 3));
    const struct kiln_st_tensor *t = kiln_st_find(st, "b");
    assert_non_null(t);
    assert_int_equal(t->dtype, KILN_ST_F32);
    assert_int_equal(t->ndim, 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(t->size, 24);
    assert_int_equal(((const uint8_t *)t->data)[23], 23);
    assert_int_equal(kiln_st_find(st, "z")->size, 0);
    assert_null(kiln_st_find(st, "__metadata__"));
    assert_string_equal(kiln_st_metadata(st, "format"), "pt");
    assert_null(kiln_st_metadata(st, "other"));
    assert_int_equal(kiln_st_check(st, &err), 0);
    kiln_st_close(st);
    free(b.data);
}

static void test_every_dtype_survives_a_round_trip(void **state)
{
    (void)state;
    uint8_t values[32];
    struct kiln_st_tensor tensors[KILN_ST_DTYPE_COUNT];
    char names[KILN_ST_DTYPE_COUNT][8];
    for (size_t i = 0; i < sizeof values; i++)
        values[i] = (uint8_t)(7 * i + 1);
    for (int i = 0; i < KILN_ST_DTYPE_COUNT; i++) {
        size_t size = kiln_st_dtype_size((enum kiln_st_dtype)i);
        snprintf(names[i], sizeof names[i], "t%d", i);
        tensors[i] =
            (struct kiln_st_tensor){names[i], (enum kiln_st_dtype)i, 2, {2, 2}, values, 4 * size};
    }
    const char *metadata[] = {"sigma", "0.5", "model", "abc", NULL};
    uint8_t *data, *again;
    size_t size, size_again;
    struct kiln_error err;
    assert_int_equal(kiln_st_encode(tensors, KILN_ST_DTYPE_COUNT, metadata, &data, &size, &err), 0);
    uint64_t header;
    memcpy(&header, data, 8);
    assert_int_equal(header % 8, 0);
    struct kiln_st *st;
    assert_int_equal(kiln_st_open_memory(data, size, "round trip", &st, &err), 0);
    for (int i = 0; i < KILN_ST_DTYPE_COUNT; i++) {
        const struct kiln_st_tensor *t = kiln_st_find(st, names[i]);
        assert_non_null(t);
        assert_int_equal(t->dtype, i);
        assert_int_equal(t->size, tensors[i].size);
        assert_memory_equal(t->data, values, t->size);
        assert_int_equal(
            (uintptr_t)((const uint8_t *)t->data - data) % kiln_st_dtype_size(t->dtype), 0);
    }
    assert_string_equal(kiln_st_metadata(st, "sigma"), "0.5");
    kiln_st_close(st);

    /* Another order of the same tensors gives the same bytes. */
    struct kiln_st_tensor swapped = tensors[0];
    tensors[0] = tensors[5];
    tensors[5] = swapped;
    assert_int_equal(
        kiln_st_encode(tensors, KILN_ST_DTYPE_COUNT, metadata, &again, &size_again, &err), 0);
    assert_int_equal(size, size_again);
    assert_memory_equal(data, again, size);
    free(data);
    free(again);
}

static void test_write_replaces_the_file_whole(void **state)
{
    (void)state;
    float values[3] = {1, 2, 3};
    struct kiln_st_tensor t = {"v", KILN_ST_F32, 1, {3}, values, sizeof values};
    struct kiln_error err;
    struct kiln_st *old, *st;
    assert_int_equal(kiln_st_write("out.safetensors", &t, 1, NULL, &err), 0);
    assert_int_equal(kiln_st_open("out.safetensors", &old, &err), 0);
    values[0] = 9;
    assert_int_equal(kiln_st_write("out.safetensors", &t, 1, NULL, &err), 0);
    assert_int_equal(kiln_st_open("out.safetensors", &st, &err), 0);
    /* The first reader keeps its own bytes: the name was moved, the file was not written to. */
    assert_true(((const float *)kiln_st_find(old, "v")->data)[0] == 1);
    assert_true(((const float *)kiln_st_find(st, "v")->data)[0] == 9);
    assert_int_equal(kiln_st_check(old, &err), 0);
    kiln_st_close(old);
    kiln_st_close(st);
    assert_int_equal(kiln_st_write("no/such/dir/x.safetensors", &t, 1, NULL, &err), KILN_IO);
    assert_non_null(strstr(err.text, "no/such/dir"));
}

/* A limit on the size of files stands for the full disk. */
static void test_full_disk_leaves_no_file(void **state)
{
    (void)state;
    static uint8_t big[1 << 20];
    struct kiln_st_tensor t = {"v", KILN_ST_U8, 1, {sizeof big}, big, sizeof big};
    struct rlimit before, small;
    struct kiln_error err;
    assert_int_equal(mkdir("full", 0700), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = sizeof big / 2;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int rc = kiln_st_write("full/x.safetensors", &t, 1, NULL, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, KILN_IO);
    assert_non_null(strstr(err.text, "full/x.safetensors"));
    assert_int_equal(rmdir("full"), 0); /* nothing is left in it */
}

static void test_encode_refuses_what_readers_would(void **state)
{
    (void)state;
    float v[2] = {0};
    uint8_t *data = NULL;
    size_t size;
    struct kiln_error err;
    struct kiln_st_tensor wrong_size = {"v", KILN_ST_F32, 1, {3}, v, sizeof v};
    struct kiln_st_tensor unnamed = {"", KILN_ST_F32, 1, {2}, v, sizeof v};
    struct kiln_st_tensor reserved = {"__metadata__", KILN_ST_F32, 1, {2}, v, sizeof v};
    struct kiln_st_tensor not_utf8 = {"\xff", KILN_ST_F32, 1, {2}, v, sizeof v};
    struct kiln_st_tensor twice[2] = {{"v", KILN_ST_F32, 1, {2}, v, sizeof v},
                                      {"v", KILN_ST_U8, 1, {2}, v, 2}};
    assert_int_equal(kiln_st_encode(&wrong_size, 1, NULL, &data, &size, &err), KILN_BAD_INPUT);
    assert_int_equal(kiln_st_encode(&unnamed, 1, NULL, &data, &size, &err), KILN_BAD_INPUT);
    assert_int_equal(kiln_st_encode(&reserved, 1, NULL, &data, &size, &err), KILN_BAD_INPUT);
    assert_int_equal(kiln_st_encode(&not_utf8, 1, NULL, &data, &size, &err), KILN_BAD_INPUT);
    assert_int_equal(kiln_st_encode(twice, 2, NULL, &data, &size, &err), KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "two tensors are named v"));
    assert_null(data);
}

/* --- hostile headers -------------------------------------------------------------------------- */

static void test_refuses_lying_lengths(void **state)
{
    (void)state;
    const uint64_t lies[] = {(uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 7, KILN_ST_HEADER_MAX + 1};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct bytes b = file_with(GOOD, 26);
        memcpy(b.data, &lies[i], 8);
        assert_refused_bytes(b, KILN_CORRUPT, "is announced");
    }
    struct bytes b = file_with("{}", 0);
    uint64_t one_more = 3;
    memcpy(b.data, &one_more, 8);
    assert_refused_bytes(b, KILN_CORRUPT, "is announced");
    assert_refused("", 0, KILN_CORRUPT, "does not start with '{'");
}

static void test_refuses_bad_json(void **state)
{
    (void)state;
    assert_refused("[]", 0, KILN_CORRUPT, "does not start with '{'");
    assert_refused(" {}", 0, KILN_CORRUPT, "does not start with '{'");
    assert_refused("{} x", 0, KILN_CORRUPT, "end of file expected");
    assert_refused("{\"a\":", 0, KILN_CORRUPT, "header byte");
    assert_refused("{\"a\xff\":1}", 0, KILN_CORRUPT, "decode byte 0xff");
    assert_refused("{\"a\\u0000b\":1}", 0, KILN_CORRUPT, "header byte");
    assert_refused("{\"a\":[[[[1]]]]}", 0, KILN_CORRUPT, "nests deeper");
    assert_refused("{\"a\":7}", 0, KILN_CORRUPT, "tensor a is not");
    assert_refused("{\"__metadata__\":{\"k\":1}}", 0, KILN_CORRUPT, "value \"k\"");
    assert_refused("{\"__metadata__\":[]}", 0, KILN_CORRUPT, "__metadata__");
}

static void test_refuses_duplicate_names(void **state)
{
    (void)state;
#define A "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}"
#define A_AGAIN "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}"
    assert_refused("{" A "," A "}", 2, KILN_CORRUPT, "duplicate");
    assert_refused("{" A "," A_AGAIN "}", 2, KILN_CORRUPT, "duplicate");
    assert_refused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, KILN_CORRUPT, "duplicate");
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],"
                   "\"data_offsets\":[0,1]}}",
                   1, KILN_CORRUPT, "duplicate");
}

static void test_refuses_bad_places(void **state)
{
    (void)state;
#define T(name, shape, from, to)                                                                   \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"
    assert_refused("{" T("a", "[4]", "0", "4") "," T("b", "[4]", "2", "6") "}", 6, KILN_CORRUPT,
                   "overlaps");
    assert_refused("{" T("a", "[4]", "0", "4") "," T("b", "[4]", "0", "4") "}", 4, KILN_CORRUPT,
                   "overlaps");
    assert_refused("{" T("a", "[4]", "0", "4") "," T("b", "[4]", "5", "9") "}", 9, KILN_CORRUPT,
                   "hole");
    assert_refused("{" T("a", "[4]", "1", "5") "}", 5, KILN_CORRUPT, "hole");
    assert_refused("{" T("a", "[0]", "3", "3") "," T("b", "[4]", "0", "4") "}", 4, KILN_CORRUPT,
                   "tensor a overlaps");
    assert_refused("{" T("a", "[4]", "0", "4") "}", 5, KILN_CORRUPT, "follow the last tensor");
    assert_refused("{}", 1, KILN_CORRUPT, "follow the last tensor");
    assert_refused("{" T("a", "[5]", "0", "5") "}", 4, KILN_CORRUPT,
                   "tensor a lies at [0, 5) of 4 data bytes: the file is cut short, fetch it anew");
    assert_refused("{" T("a", "[4]", "4", "0") "}", 4, KILN_CORRUPT, "tensor a lies at");
    assert_refused("{" T("a", "[4]", "-4", "0") "}", 4, KILN_CORRUPT, "tensor a lies at");
    assert_refused("{" T("a", "[4]", "0", "4.0") "}", 4, KILN_CORRUPT, "data_offsets");
    assert_refused("{" T("a", "[4]", "0", "9223372036854775807") "}", 4, KILN_CORRUPT, "lies at");
    assert_refused("{" T("a", "[4]", "0", "9223372036854775808") "}", 4, KILN_CORRUPT,
                   "too big integer");
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]}}", 1,
                   KILN_CORRUPT, "data_offsets");
}

static void test_refuses_bad_shapes_and_dtypes(void **state)
{
    (void)state;
    assert_refused("{" T("a", "[5]", "0", "4") "}", 4, KILN_CORRUPT, "needs 5 bytes");
    assert_refused("{" T("a", "[4611686018427387904,4]", "0", "4") "}", 4, KILN_CORRUPT,
                   "overflows");
    assert_refused("{" T("a", "[0,4611686018427387904,4]", "0", "0") "}", 0, KILN_CORRUPT,
                   "overflows");
    assert_refused("{" T("a", "[-4]", "0", "4") "}", 4, KILN_CORRUPT, "dimension 0");
    assert_refused("{" T("a", "[4,1.0]", "0", "4") "}", 4, KILN_CORRUPT, "dimension 1");
    assert_refused("{" T("a", "4", "0", "4") "}", 4, KILN_CORRUPT, "no shape");
    assert_refused("{" T("a", "[1,1,1,1,1,1,1,1,4]", "0", "4") "}", 4, KILN_UNSUPPORTED,
                   "9 dimensions");
    assert_refused("{\"a\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8,
                   KILN_UNSUPPORTED, "dtype \"C64\"");
    assert_refused("{\"a\":{\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,8]}}", 8, KILN_CORRUPT,
                   "no dtype");
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1}}", 1,
                   KILN_CORRUPT, "tensor a is not");
    assert_refused("{" T("", "[4]", "0", "4") "}", 4, KILN_UNSUPPORTED, "tensor name");
}

static void test_refuses_long_names(void **state)
{
    (void)state;
    char header[KILN_ST_NAME_MAX + 128], name[KILN_ST_NAME_MAX + 2];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    snprintf(header, sizeof header,
             "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", name);
    assert_refused(header, 1, KILN_UNSUPPORTED, "257 bytes");
}

/* A header of many small values is refused before a parser makes sixteen times its size of it. */
static void test_refuses_many_values(void **state)
{
    (void)state;
    size_t n = 4 * 1024 * 1024;
    char *header = malloc(n + 64);
    assert_non_null(header);
    size_t at = (size_t)sprintf(header, "{\"a\":[");
    while (at < n)
        at += (size_t)sprintf(header + at, "0,");
    strcpy(header + at, "0]}");
    assert_refused(header, 0, KILN_UNSUPPORTED, "values");
    free(header);
}

static void test_refuses_too_many_tensors(void **state)
{
    (void)state;
    size_t size = 0, at = 1;
    char *header = malloc((size_t)(KILN_ST_TENSORS_MAX + 1) * 64 + 16);
    assert_non_null(header);
    header[0] = '{';
    for (size_t i = 0; i <= KILN_ST_TENSORS_MAX; i++)
        at += (size_t)sprintf(header + at,
                              "%s\"%zu\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                              i ? "," : "", i);
    strcpy(header + at, "}");
    assert_refused(header, size, KILN_UNSUPPORTED, "at most 65536");
    free(header);
}

static void test_refuses_every_cut(void **state)
{
    (void)state;
    struct bytes whole = file_with(GOOD, 26);
    for (size_t size = 0; size < whole.size; size++) {
        struct bytes cut = {malloc(size ? size : 1), size};
        assert_non_null(cut.data);
        memcpy(cut.data, whole.data, size);
        assert_refused_bytes(cut, KILN_CORRUPT, "hostile");
        write_file("cut.safetensors", (struct bytes){whole.data, size});
        assert_open_fails("cut.safetensors", KILN_CORRUPT, "cut.safetensors");
    }
    free(whole.data);
}

/* No flip of one bit may crash; what opens must still be a table whose tensors lie in the file. */
static void test_survives_every_flipped_bit(void **state)
{
    (void)state;
    struct bytes b = file_with(GOOD, 26);
    size_t opened = 0, refused = 0;
    for (size_t bit = 0; bit < (b.size - 26) * 8; bit++) {
        struct kiln_error err;
        struct kiln_st *st;
        b.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (kiln_st_open_memory(b.data, b.size, "flipped", &st, &err) == 0) {
            for (size_t i = 0; i < kiln_st_count(st); i++) {
                const struct kiln_st_tensor *t = kiln_st_at(st, i);
                assert_true((const uint8_t *)t->data >= b.data);
                assert_true((const uint8_t *)t->data + t->size <= b.data + b.size);
            }
            kiln_st_close(st);
            opened++;
        } else {
            assert_int_not_equal(err.code, 0);
            refused++;
        }
        b.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_true(opened > 0);
    assert_true(refused > opened);
    free(b.data);
}

/* --- files on disk ---------------------------------------------------------------------------- */

static void test_notices_a_file_cut_while_open(void **state)
{
    (void)state;
    struct kiln_error err;
    struct kiln_st *st;
    struct bytes b = file_with(GOOD, 26);
    write_file("live.safetensors", b);
    assert_int_equal(kiln_st_open("live.safetensors", &st, &err), 0);
    assert_int_equal(kiln_st_check(st, &err), 0);
    assert_int_equal(truncate("live.safetensors", 40), 0);
    assert_int_equal(kiln_st_check(st, &err), KILN_CORRUPT);
    assert_non_null(strstr(err.text, "live.safetensors was changed"));
    kiln_st_close(st);
    free(b.data);
}

static void test_refuses_what_is_no_file(void **state)
{
    (void)state;
    assert_open_fails("nothing.safetensors", KILN_NOT_FOUND, "nothing.safetensors");
    assert_int_equal(mkfifo("fifo.safetensors", 0600), 0);
    assert_open_fails("fifo.safetensors", KILN_BAD_INPUT, "not a regular file");
    assert_int_equal(mkdir("empty", 0700), 0);
    assert_open_fails("empty", KILN_NOT_FOUND, "no .safetensors file");
}

static void make_shards(const char *dir)
{
    char path[256];
    struct bytes one = file_with("{" T("a", "[2]", "0", "2") "}", 2);
    struct bytes two = file_with("{" T("b", "[3]", "0", "3") "}", 3);
    mkdir(dir, 0700);
    snprintf(path, sizeof path, "%s/model-00001-of-00002.safetensors", dir);
    write_file(path, one);
    snprintf(path, sizeof path, "%s/model-00002-of-00002.safetensors", dir);
    write_file(path, two);
    free(one.data);
    free(two.data);
}

#define SHARD_1 "model-00001-of-00002.safetensors"
#define SHARD_2 "model-00002-of-00002.safetensors"

static void test_opens_shards_through_their_index(void **state)
{
    (void)state;
    struct kiln_error err;
    struct kiln_st *st;
    make_shards("shards");
    kiln_test_write("shards/model.safetensors.index.json",
                    "{\"metadata\":{\"total_size\":5},"
                    "\"weight_map\":{\"a\":\"" SHARD_1 "\",\"b\":\"" SHARD_2 "\"}}");
    assert_int_equal(kiln_st_open("shards", &st, &err), 0);
    assert_int_equal(kiln_st_count(st), 2);
    assert_int_equal(kiln_st_find(st, "b")->size, 3);
    kiln_st_close(st);
    assert_int_equal(kiln_st_open("shards/model.safetensors.index.json", &st, &err), 0);
    kiln_st_close(st);
}

/* save_pretrained(variant="bf16") puts the variant before ".json", and the shards do not lead to
 * their index by name. */
static void test_opens_the_shards_of_a_variant(void **state)
{
    (void)state;
    struct kiln_error err;
    struct kiln_st *st;
    make_shards("variant");
    kiln_test_write("variant/model.safetensors.index.bf16.json",
                    "{\"metadata\":{\"total_size\":5},"
                    "\"weight_map\":{\"a\":\"" SHARD_1 "\",\"b\":\"" SHARD_2 "\"}}");
    if (kiln_st_open("variant", &st, &err))
        fail_msg("%s", err.text);
    assert_int_equal(kiln_st_count(st), 2);
    kiln_st_close(st);
    kiln_test_write("variant/model.safetensors.index.fp16.json", "{}");
    assert_open_fails("variant", KILN_BAD_INPUT, "name one");
}

/* How much the parser may build is bounded before it builds: forty times the bytes otherwise. */
static void test_bounds_what_an_index_holds(void **state)
{
    (void)state;
    static const char head[] = "{\"weight_map\":{},\"metadata\":[[]";
    const size_t count = (size_t)5 << 20;
    char *text = malloc(sizeof head + 3 * count + 3), *at = text;
    assert_non_null(text);
    at += sprintf(at, "%s", head);
    for (size_t i = 0; i < count; i++, at += 3)
        memcpy(at, ",[]", 3);
    memcpy(at, "]}", 3);
    mkdir("bounds", 0700);
    kiln_test_write("bounds/model.safetensors.index.json", text);
    assert_open_fails("bounds", KILN_UNSUPPORTED, "values");
    free(text);
    char deep[200] = "{\"weight_map\":";
    memset(deep + strlen(deep), '[', 100);
    kiln_test_write("bounds/model.safetensors.index.json", deep);
    assert_open_fails("bounds", KILN_CORRUPT, "nests deeper");
}

static void test_refuses_an_index_that_lies(void **state)
{
    (void)state;
    static const struct {
        const char *index, *word;
        int code;
    } cases[] = {
        {"{\"weight_map\":{\"a\":\"" SHARD_1 "\"}}", NULL, 0}, /* one shard of the two */
        {"{\"weight_map\":{\"a\":\"" SHARD_1 "\",\"c\":\"" SHARD_1 "\"}}", "tensor c is not in",
         KILN_CORRUPT},
        {"{\"weight_map\":{\"a\":\"" SHARD_2 "\"}}", "holds tensor b", KILN_CORRUPT},
        {"{\"weight_map\":{\"a\":\"" SHARD_2 "\",\"b\":\"" SHARD_1 "\"}}", "does not say so",
         KILN_CORRUPT},
        {"{\"weight_map\":{\"a\":\"../" SHARD_1 "\"}}", "not mapped to a file name", KILN_CORRUPT},
        {"{\"weight_map\":{\"a\":\".\"}}", "not mapped to a file name", KILN_CORRUPT},
        {"{\"weight_map\":{\"a\":\"\"}}", "not mapped to a file name", KILN_CORRUPT},
        {"{\"weight_map\":{\"a\":5}}", "not mapped to a file name", KILN_CORRUPT},
        {"{\"weight_map\":{\"a\":\"gone.safetensors\"}}", "gone.safetensors", KILN_NOT_FOUND},
        {"{\"weight_map\":{}}", "empty", KILN_CORRUPT},
        {"{}", "no \"weight_map\"", KILN_CORRUPT},
        {"{\"weight_map\":{\"a\":\"x\",\"a\":\"y\"}}", "duplicate", KILN_CORRUPT},
        {"{\"weight_map\"", "index.json:1", KILN_CORRUPT},
    };
    make_shards("lies");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kiln_test_write("lies/model.safetensors.index.json", cases[i].index);
        if (cases[i].code) {
            assert_open_fails("lies", cases[i].code, cases[i].word);
        } else {
            struct kiln_st *st;
            assert_int_equal(kiln_st_open("lies", &st, NULL), 0);
            kiln_st_close(st);
        }
    }
    struct bytes twin = file_with("{" T("a", "[2]", "0", "2") "}", 2);
    write_file("lies/" SHARD_2, twin);
    free(twin.data);
    kiln_test_write("lies/model.safetensors.index.json",
                    "{\"weight_map\":{\"a\":\"" SHARD_1 "\",\"b\":\"" SHARD_2 "\"}}");
    assert_open_fails("lies", KILN_CORRUPT, "tensor a is in two shards");
}

static void test_a_directory_names_its_file(void **state)
{
    (void)state;
    struct kiln_st *st;
    struct bytes b = file_with(GOOD, 26), other = file_with("{}", 0);
    assert_int_equal(mkdir("dir", 0700), 0);
    write_file("dir/lora.safetensors", b);
    assert_int_equal(kiln_st_open("dir", &st, NULL), 0); /* the only one */
    kiln_st_close(st);
    write_file("dir/more.safetensors", other);
    assert_open_fails("dir", KILN_BAD_INPUT, "several");
    write_file("dir/diffusion_pytorch_model.safetensors", b);
    assert_int_equal(kiln_st_open("dir", &st, NULL), 0);
    assert_int_equal(kiln_st_count(st), 3);
    kiln_st_close(st);
    free(b.data);
    free(other.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_a_good_file),
        cmocka_unit_test(test_every_dtype_survives_a_round_trip),
        cmocka_unit_test(test_write_replaces_the_file_whole),
        cmocka_unit_test(test_full_disk_leaves_no_file),
        cmocka_unit_test(test_encode_refuses_what_readers_would),
        cmocka_unit_test(test_refuses_lying_lengths),
        cmocka_unit_test(test_refuses_bad_json),
        cmocka_unit_test(test_refuses_duplicate_names),
        cmocka_unit_test(test_refuses_bad_places),
        cmocka_unit_test(test_refuses_bad_shapes_and_dtypes),
        cmocka_unit_test(test_refuses_long_names),
        cmocka_unit_test(test_refuses_many_values),
        cmocka_unit_test(test_refuses_too_many_tensors),
        cmocka_unit_test(test_refuses_every_cut),
        cmocka_unit_test(test_survives_every_flipped_bit),
        cmocka_unit_test(test_notices_a_file_cut_while_open),
        cmocka_unit_test(test_refuses_what_is_no_file),
        cmocka_unit_test(test_opens_shards_through_their_index),
        cmocka_unit_test(test_opens_the_shards_of_a_variant),
        cmocka_unit_test(test_bounds_what_an_index_holds),
        cmocka_unit_test(test_refuses_an_index_that_lies),
        cmocka_unit_test(test_a_directory_names_its_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
