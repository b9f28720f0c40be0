/* test_picture_resize.c - pictures in other sizes have Pillow's bytes; the size of a job that names
 * none.  tests/golden/pictures; scripts/golden_pictures.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/limits.h"
#include "storage/formats/pictures/picture_resize.h"
#include "storage/formats/safetensors.h"

static struct kiln_st *st;

static int open_vectors(void **state)
{
    (void)state;
    char path[4096];
    struct kiln_error err;
    const char *source = getenv("KILN_SOURCE");
    snprintf(path, sizeof path, "%s/tests/golden/pictures/pixels.safetensors",
             source ? source : ".");
    if (kiln_st_open(path, &st, &err) == 0)
        return 0;
    printf("%s\n", err.text);
    return -1;
}

static int close_vectors(void **state)
{
    (void)state;
    kiln_st_close(st);
    return 0;
}

/* Tensors resize/NAME/WIDTHxHEIGHT are made of resize/NAME. */
static void the_bytes_are_those_of_pillow(void **state)
{
    (void)state;
    int sizes = 0;
    for (size_t i = 0; i < kiln_st_count(st); i++) {
        const struct kiln_st_tensor *want = kiln_st_at(st, i);
        char name[64];
        if (sscanf(want->name, "resize/%63[a-z]/", name) != 1 ||
            strrchr(want->name, '/') == strchr(want->name, '/'))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(strrchr(want->name, '/') - want->name),
                 want->name);
        const struct kiln_st_tensor *from = kiln_st_find(st, name);
        struct kiln_error err;
        uint8_t *got = NULL;
        assert_non_null(from);
        if (kiln_picture_resize(from->data, (uint32_t)from->shape[1], (uint32_t)from->shape[0],
                                (uint32_t)want->shape[1], (uint32_t)want->shape[0], &got, &err))
            fail_msg("%s: %s", want->name, err.text);
        const uint8_t *bytes = want->data;
        for (size_t k = 0; k < want->size; k++)
            if (got[k] != bytes[k])
                fail_msg("%s: byte %zu is %u, expected %u", want->name, k, got[k], bytes[k]);
        free(got);
        sizes++;
    }
    printf("    %d sizes\n", sizes);
    assert_true(sizes >= 11);
}

/* Black, white and checks in the extremes: sums stay within 32 bits, ends within 0 to 255. */
static void extremes_stay_in_range(void **state)
{
    (void)state;
    enum { WIDTH = 97, HEIGHT = 61 };
    static uint8_t rgb[HEIGHT][WIDTH][3];
    static const uint32_t sizes[][2] = {{1, 1}, {2, 500}, {500, 2}, {96, 62}, {970, 610}, {13, 7}};
    for (int kind = 0; kind < 4; kind++) {
        for (int y = 0; y < HEIGHT; y++)
            for (int x = 0; x < WIDTH; x++)
                memset(rgb[y][x],
                       kind == 0   ? 0
                       : kind == 1 ? 255
                       : kind == 2 ? 255 * ((x + y) % 2)
                                   : 255 * ((x / 3 + y / 3) % 2),
                       3);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct kiln_error err;
            uint8_t *out = NULL;
            assert_int_equal(
                kiln_picture_resize(rgb[0][0], WIDTH, HEIGHT, sizes[i][0], sizes[i][1], &out, &err),
                0);
            for (size_t k = 0; kind < 2 && k < (size_t)sizes[i][0] * sizes[i][1] * 3; k++)
                assert_int_equal(out[k], rgb[0][0][0]);
            free(out);
        }
    }
}

static void bad_sides_are_refused(void **state)
{
    (void)state;
    static const uint32_t sides[][4] = {{0, 1, 1, 1},
                                        {1, 0, 1, 1},
                                        {1, 1, 0, 1},
                                        {1, 1, 1, 0},
                                        {1, 1, KILN_PICTURE_SIDE_MAX + 1, 1}};
    const uint8_t rgb[3] = {1, 2, 3};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        struct kiln_error err;
        uint8_t *out = NULL;
        const uint32_t *s = sides[i];
        assert_int_equal(kiln_picture_resize(rgb, s[0], s[1], s[2], s[3], &out, &err),
                         KILN_BAD_INPUT);
        assert_non_null(strstr(err.text, "cannot be resized"));
        assert_null(out);
    }
}

static void a_job_without_a_size_takes_the_pictures(void **state)
{
    (void)state;
    static const uint32_t cases[][4] = {{1024, 768, 1024, 768},
                                        {1023, 79, 1008, 64},
                                        {15, 2049, 0, 2048},
                                        {4000, 3000, 4000, 2992}};
    uint32_t width, height;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kiln_picture_job_size(cases[i][0], cases[i][1], &width, &height);
        assert_int_equal(width, cases[i][2]);
        assert_int_equal(height, cases[i][3]);
    }
    const struct kiln_st_tensor *from = kiln_st_find(st, "resize/large");
    const struct kiln_st_tensor *want = kiln_st_find(st, "job_size/large");
    assert_true(from && want);
    const int32_t *sides = want->data;
    kiln_picture_job_size((uint32_t)from->shape[1], (uint32_t)from->shape[0], &width, &height);
    assert_int_equal(width, sides[0]);
    assert_int_equal(height, sides[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_are_those_of_pillow),
        cmocka_unit_test(extremes_stay_in_range),
        cmocka_unit_test(bad_sides_are_refused),
        cmocka_unit_test(a_job_without_a_size_takes_the_pictures),
    };
    return cmocka_run_group_tests(tests, open_vectors, close_vectors);
}
