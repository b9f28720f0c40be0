/* test_picture_write.c - pictures as WebP, PNG and JPEG with what made them inside.  What other
 * programs read of it is in tests/cli/test_export_directory.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/formats/pictures/picture_write.h"
#include "tests/support/picture.h"

static const struct kiln_webp_options usual = {.quality = 85, .method = 4};

static void names_say_the_format(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int format;
    } rows[] = {{"a.png", KILN_PICTURE_PNG},        {"x/b.JPG", KILN_PICTURE_JPEG},
                {"c.Jpeg", KILN_PICTURE_JPEG},      {"d.webp", KILN_PICTURE_WEBP},
                {"d", KILN_PICTURE_WEBP},           {"tmp.Xy12", KILN_PICTURE_WEBP},
                {"a.png/d", KILN_PICTURE_WEBP},     {"e.gif", -1},
                {"/dev/stdout", KILN_PICTURE_WEBP}, {"f.TIFF", -1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (kiln_picture_format_of_path(rows[i].path) != rows[i].format)
            fail_msg("%s", rows[i].path);
    assert_int_equal(kiln_picture_format_by_name("gif"), -1);
}

static void parameters_are_lines_that_others_read(void **state)
{
    (void)state;
    const struct kiln_webp_about about = {.prompt = "a cat,\nby night",
                                          .negative_prompt = "fog",
                                          .model = "z, turbo",
                                          .lora_set = "ink:0.8+noir:1",
                                          .mode = "start=3",
                                          .seed = UINT64_MAX,
                                          .width = 64,
                                          .height = 128,
                                          .steps = 8,
                                          .guidance = 0.5};
    char *text = kiln_picture_parameters(&about, "0123456789abcdef");
    assert_string_equal(text, "a cat,\nby night <lora:ink:0.8> <lora:noir:1>\n"
                              "Negative prompt: fog\n"
                              "Steps: 8, Sampler: Euler, CFG scale: 1.5, Seed: 18446744073709551615"
                              ", Size: 64x128, Model hash: 0123456789, Model: \"z, turbo\", "
                              "Kiln mode: start=3, Version: Kiln");
    free(text);
    const struct kiln_webp_about bare = {.prompt = "", .width = 64, .height = 64, .steps = 1};
    text = kiln_picture_parameters(&bare, NULL);
    assert_string_equal(text, "\nNegative prompt: \n"
                              "Steps: 1, Sampler: Euler, CFG scale: 1, Seed: 0, Size: 64x64, "
                              "Version: Kiln");
    free(text);
}

/* UTF-16, big endian, after eight bytes of code; what is no UTF-8 becomes U+FFFD. */
static void exif_has_the_text(void **state)
{
    (void)state;
    size_t size;
    uint8_t *exif = kiln_picture_exif("a\xff\xf0\x9f\x90\x88", &size);
    assert_memory_equal(exif, "MM\0*\0\0\0\x08", 8);
    static const uint8_t comment[] = {'U', 'N', 'I',  'C',  'O',  'D',  'E',  0,
                                      0,   'a', 0xFF, 0xFD, 0xD8, 0x3D, 0xDC, 0x08};
    assert_memory_equal(exif + size - sizeof comment, comment, sizeof comment);
    free(exif);
}

static void what_is_added_to_webp_comes_off_again(void **state)
{
    (void)state;
    uint8_t *rgb = test_picture(97, 64, 3, 16);
    struct kiln_error err;
    static const struct kiln_picture_metadata metadata = {"prompt\nSteps: 1", "<x:xmpmeta/>"};
    for (int with_xmp = 0; with_xmp < 2; with_xmp++) {
        struct kiln_webp_options options = usual;
        options.xmp = with_xmp ? "<own/>" : NULL;
        options.xmp_len = with_xmp ? 6 : 0;
        uint8_t *plain, *whole, *back;
        size_t plain_size, whole_size, back_size;
        char *xmp;
        assert_int_equal(kiln_webp_encode(rgb, 97, 64, &options, &plain, &plain_size, &err), 0);
        assert_int_equal(
            kiln_webp_annotate(plain, plain_size, &metadata, &whole, &whole_size, &err), 0);
        assert_int_equal(kiln_webp_xmp(whole, whole_size, &xmp, &err), 0);
        assert_string_equal(xmp, with_xmp ? "<own/>" : "<x:xmpmeta/>"); /* its own one stays */
        free(xmp);
        assert_int_equal(kiln_webp_strip(whole, whole_size, !with_xmp, &back, &back_size, &err), 0);
        assert_int_equal(back_size, plain_size);
        assert_memory_equal(back, plain, plain_size);
        free(back);
        for (size_t cut = 0; cut < whole_size; cut += 37) { /* damaged: an error or other bytes */
            if (kiln_webp_strip(whole, cut, true, &back, &back_size, &err) == 0)
                free(back);
        }
        free(plain);
        free(whole);
    }
    free(rgb);
}

static void each_format_reads_back(void **state)
{
    (void)state;
    static char long_text[70000];
    memset(long_text, 'x', sizeof long_text - 1);
    static const struct kiln_picture_metadata kinds[] = {
        {NULL, NULL}, {"plain", "<x/>"}, {"\xe7\x8c\xab", NULL}, {long_text, long_text}};
    uint8_t *rgb = test_picture(80, 48, 5, 16);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (int f = KILN_PICTURE_WEBP; f <= KILN_PICTURE_JPEG; f++) {
            enum kiln_picture_format format = (enum kiln_picture_format)f, got;
            struct kiln_picture_pixels pixels;
            struct kiln_error err = {0};
            uint32_t width, height;
            uint8_t *data;
            size_t size;
            if (kiln_picture_write(format, rgb, 80, 48, &usual, &kinds[kind], &data, &size, &err))
                fail_msg("format %d, kind %zu: %s", f, kind, err.text);
            assert_int_equal(kiln_picture_probe(data, size, &got, &width, &height, &err), 0);
            assert_true(got == format && width == 80 && height == 48);
            if (kiln_picture_read(data, size, &pixels, &err))
                fail_msg("format %d, kind %zu: %s", f, kind, err.text);
            double psnr = test_psnr(rgb, pixels.rgb, 80, 48);
            if (format == KILN_PICTURE_PNG)
                assert_memory_equal(rgb, pixels.rgb, 80 * 48 * 3);
            else
                assert_true(psnr > 28);
            free(pixels.rgb);
            free(data);
        }
    free(rgb);
}

static void a_damaged_object_is_an_error(void **state)
{
    (void)state;
    static const struct kiln_picture_metadata none;
    struct kiln_error err;
    uint8_t *data;
    size_t size;
    for (int f = KILN_PICTURE_WEBP; f <= KILN_PICTURE_JPEG; f++)
        assert_int_equal(kiln_picture_convert((enum kiln_picture_format)f,
                                              (const uint8_t *)"RIFF----WEBP", 12, &none, &data,
                                              &size, &err),
                         KILN_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_say_the_format),
        cmocka_unit_test(parameters_are_lines_that_others_read),
        cmocka_unit_test(exif_has_the_text),
        cmocka_unit_test(what_is_added_to_webp_comes_off_again),
        cmocka_unit_test(each_format_reads_back),
        cmocka_unit_test(a_damaged_object_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
