/* test_pdq.c - hashes of pictures, against those of the authors' program, and what they are for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/formats/pictures/pdq.h"
#include "storage/formats/pictures/picture_read.h"
#include "storage/formats/pictures/picture_resize.h"
#include "storage/formats/regular.h"

static struct kiln_picture_pixels read_picture(const char *name)
{
    char path[512];
    struct kiln_error err = {0};
    struct kiln_picture_pixels pixels = {0};
    size_t size;
    snprintf(path, sizeof path, "%s/tests/golden/%s", getenv("KILN_SOURCE"), name);
    char *file;
    assert_int_equal(kiln_regular_read(path, 1 << 20, &file, &size, &err), 0);
    assert_int_equal(kiln_picture_read((const uint8_t *)file, size, &pixels, &err), 0);
    free(file);
    return pixels;
}

static void hash(const struct kiln_picture_pixels *pixels, struct kiln_pdq *ret)
{
    struct kiln_error err = {0};
    assert_int_equal(kiln_pdq(pixels->rgb, pixels->width, pixels->height, ret, &err), 0);
}

static void text_of(const uint8_t *bytes, char *ret)
{
    for (int i = 0; i < KILN_PDQ_BYTES; i++)
        snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

/* A line: name, quality, and the hash of each turn. */
static void hashes_are_those_of_the_authors_program(void **state)
{
    (void)state;
    char path[512], line[1024];
    int lines = 0;
    snprintf(path, sizeof path, "%s/tests/golden/pictures/pdq.tsv", getenv("KILN_SOURCE"));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (; fgets(line, sizeof line, file); lines++) {
        struct kiln_pdq got[KILN_PDQ_TURNS];
        char *save, text[2 * KILN_PDQ_BYTES + 1];
        struct kiln_picture_pixels pixels = read_picture(strtok_r(line, "\t\n", &save));
        hash(&pixels, got);
        assert_int_equal(got[0].quality, atoi(strtok_r(NULL, "\t\n", &save)));
        for (int turn = 0; turn < KILN_PDQ_TURNS; turn++) {
            text_of(got[turn].hash, text);
            assert_string_equal(text, strtok_r(NULL, "\t\n", &save));
            assert_int_equal(got[turn].quality, got[0].quality);
        }
        free(pixels.rgb);
    }
    fclose(file);
    assert_true(lines >= 9);
}

static void a_smaller_copy_is_near_and_strangers_are_far(void **state)
{
    (void)state;
    struct kiln_picture_pixels night = read_picture("sketch/night.webp"), small = {0};
    struct kiln_picture_pixels other = read_picture("sketch/checks.webp");
    struct kiln_pdq of_night[KILN_PDQ_TURNS], of_small[KILN_PDQ_TURNS], of_other[KILN_PDQ_TURNS];
    struct kiln_error err = {0};
    small.width = night.width * 3 / 5, small.height = night.height * 3 / 5;
    assert_int_equal(kiln_picture_resize(night.rgb, night.width, night.height, small.width,
                                         small.height, &small.rgb, &err),
                     0);
    hash(&night, of_night), hash(&small, of_small), hash(&other, of_other);
    assert_true(kiln_pdq_distance(of_night[0].hash, of_small[0].hash) <= KILN_PDQ_NEAR);
    assert_true(kiln_pdq_distance(of_night[0].hash, of_other[0].hash) > 90);
    assert_int_equal(kiln_pdq_distance(of_night[0].hash, of_night[0].hash), 0);
    free(night.rgb), free(small.rgb), free(other.rgb);
}

static void flat_and_tiny_pictures_have_no_quality(void **state)
{
    (void)state;
    static uint8_t rgb[64 * 64 * 3];
    struct kiln_pdq got[KILN_PDQ_TURNS];
    struct kiln_picture_pixels flat = {rgb, 64, 64}, tiny = {rgb, 4, 64};
    const uint8_t none[KILN_PDQ_BYTES] = {0};
    memset(rgb, 90, sizeof rgb);
    hash(&flat, got);
    assert_int_equal(got[0].quality, 0);
    memset(rgb, 255, 7);
    hash(&tiny, got);
    assert_int_equal(got[0].quality, 0);
    assert_memory_equal(got[0].hash, none, sizeof none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_those_of_the_authors_program),
        cmocka_unit_test(a_smaller_copy_is_near_and_strangers_are_far),
        cmocka_unit_test(flat_and_tiny_pictures_have_no_quality),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
