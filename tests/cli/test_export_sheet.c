/* test_export_sheet.c - a contact sheet holds every picture, in order, in its proportions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "scheduler/cli/jobs/export/sheet.h"
#include "storage/formats/pictures/webp.h"
#include "tests/support/files.h"

#define PAPER 0xe2

/* The bits of a number as red, green and blue: far apart, and far from mixtures with the paper. */
static uint8_t channel(uint32_t which, int c)
{
    return which >> c & 1 ? 200 : 0;
}

/* A plain picture whose colour says which one it is. */
static void write_plain(const char *path, uint32_t width, uint32_t height, uint32_t which)
{
    uint8_t *rgb = malloc((size_t)width * height * 3), *data = NULL;
    assert_non_null(rgb);
    for (size_t i = 0; i < (size_t)width * height * 3; i++)
        rgb[i] = channel(which, (int)(i % 3));
    struct kiln_webp_options options = {.quality = 20, .lossless = 1};
    size_t size = 0;
    assert_int_equal(kiln_webp_encode(rgb, width, height, &options, &data, &size, NULL), 0);
    kiln_test_write_bytes(path, data, size);
    free(rgb);
    free(data);
}

struct image {
    uint8_t *rgb;
    uint32_t width, height;
};

static struct image read_image(const char *path)
{
    static uint8_t data[1 << 20];
    struct image image = {0};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    assert_int_equal(
        kiln_webp_decode(data, size, 1 << 26, &image.rgb, &image.width, &image.height, NULL), 0);
    return image;
}

static bool is_of(const struct image *image, uint32_t x, uint32_t y, uint32_t which)
{
    const uint8_t *at = image->rgb + ((size_t)y * image->width + x) * 3;
    for (int c = 0; c < 3; c++)
        if (abs(at[c] - channel(which, c)) > 40)
            return false;
    return true;
}

/* The box of a picture in the sheet, left, top, right, bottom. */
static void find(const struct image *image, uint32_t which, uint32_t box[4])
{
    uint32_t rows[1024] = {0}, columns[1024] = {0};
    assert_in_range(image->width, 1, 1023);
    assert_in_range(image->height, 1, 1023);
    for (uint32_t y = 0; y < image->height; y++) {
        for (uint32_t x = 0; x < image->width; x++) {
            rows[y] += is_of(image, x, y, which);
            columns[x] += is_of(image, x, y, which);
        }
    }
    for (int axis = 0; axis < 2; axis++) {
        const uint32_t *lines = axis == 0 ? columns : rows;
        box[axis] = UINT32_MAX;
        box[axis + 2] = 0;
        for (uint32_t i = 0; i < 1024; i++) {
            if (lines[i] < 50)
                continue;
            box[axis] = i < box[axis] ? i : box[axis];
            box[axis + 2] = i + 1;
        }
    }
}

static void every_picture_has_its_place(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{256, 256}, {512, 288}, {288, 512}, {64, 64},
                                        {640, 320}, {128, 128}, {100, 75}};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    struct kiln_sheet *sheet = kiln_sheet_new(3);
    assert_non_null(sheet);
    for (uint32_t i = 0; i < COUNT; i++) {
        char path[32];
        snprintf(path, sizeof path, "p%u.webp", i);
        write_plain(path, sizes[i][0], sizes[i][1], i);
        assert_int_equal(kiln_sheet_add(sheet, path, sizes[i][0], sizes[i][1], NULL), 0);
    }
    struct kiln_error err = {0};
    if (kiln_sheet_write(sheet, "sheet.webp", &err))
        fail_msg("%s", err.text);
    kiln_sheet_free(sheet);
    assert_int_not_equal(access("sheet.webp.part", F_OK), 0);
    struct image image = read_image("sheet.webp");
    assert_int_equal(image.width, 3 * 200 + 4 * 8);
    assert_in_range(image.rgb[0], PAPER - 3, PAPER + 3); /* a margin around everything */
    uint32_t x = 0, y = 0, right = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t box[4];
        find(&image, i, box);
        if (box[2] <= box[0])
            fail_msg("picture %u is not there", i);
        double want = (double)sizes[i][0] / sizes[i][1];
        double got = (double)(box[2] - box[0]) / (box[3] - box[1]);
        if (got < want * 0.95 || got > want * 1.05)
            fail_msg("picture %u is %.3f wide for its height, not %.3f", i, got, want);
        assert_true(box[1] > y || (box[0] > x && box[1] + 4 > y)); /* right of the last, or below */
        x = box[0];
        y = box[1];
        right = box[2] > right ? box[2] : right;
    }
    assert_in_range(right, image.width - 8 - 2, image.width - 8);
    free(image.rgb);
}

/* One short row is not blown up to the full width. */
static void a_short_row_keeps_its_height(void **state)
{
    (void)state;
    struct kiln_sheet *sheet = kiln_sheet_new(6);
    write_plain("one.webp", 512, 512, 1);
    assert_int_equal(kiln_sheet_add(sheet, "one.webp", 512, 512, NULL), 0);
    assert_int_equal(kiln_sheet_write(sheet, "short.webp", NULL), 0);
    kiln_sheet_free(sheet);
    struct image image = read_image("short.webp");
    assert_int_equal(image.width, 6 * 200 + 7 * 8);
    assert_int_equal(image.height, 200 + 2 * 8);
    free(image.rgb);
}

static void what_cannot_be_is_said(void **state)
{
    (void)state;
    struct kiln_error err = {0};
    struct kiln_sheet *sheet = kiln_sheet_new(1);
    assert_int_equal(kiln_sheet_write(sheet, "none.webp", &err), KILN_BAD_INPUT);
    assert_int_equal(kiln_sheet_add(sheet, "absent.webp", 64, 64, NULL), 0);
    assert_int_equal(kiln_sheet_write(sheet, "none.webp", &err), KILN_IO);
    assert_non_null(strstr(err.text, "absent.webp"));
    for (int i = 1; i < KILN_SHEET_PICTURES; i++)
        assert_int_equal(kiln_sheet_add(sheet, "absent.webp", 64, 64, NULL), 0);
    assert_int_equal(kiln_sheet_add(sheet, "absent.webp", 64, 64, &err), KILN_BAD_INPUT);
    assert_int_equal(kiln_sheet_write(sheet, "none.webp", &err), KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "4096 pictures in 1 columns"));
    kiln_sheet_free(sheet);

    sheet = kiln_sheet_new(1);
    kiln_test_write("damaged.webp", "RIFF no picture");
    assert_int_equal(kiln_sheet_add(sheet, "damaged.webp", 64, 64, NULL), 0);
    assert_int_equal(kiln_sheet_write(sheet, "none.webp", &err), KILN_CORRUPT);
    assert_non_null(strstr(err.text, "damaged.webp"));
    write_plain("damaged.webp", 64, 64, 9);
    assert_int_equal(kiln_sheet_write(sheet, "nowhere/none.webp", &err), KILN_IO);
    assert_int_not_equal(access("none.webp", F_OK), 0);
    kiln_sheet_free(sheet);
    kiln_sheet_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_picture_has_its_place),
                                       cmocka_unit_test(a_short_row_keeps_its_height),
                                       cmocka_unit_test(what_cannot_be_is_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
