/* test_picture_read.c - the picture files that people give: the pixels that diffusers sees in them,
 * and refusals of what is no picture, too large, animated, damaged or cut.
 *
 * tests/golden/pictures has files of every kind and their pixels; scripts/golden_pictures.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jpeglib.h>
#include <png.h>
#include <webp/mux.h>

#include "schemas/limits.h"
#include "storage/formats/pictures/picture_read.h"
#include "storage/formats/safetensors.h"
#include "tests/support/picture.h"
#include "tests/support/random.h"

#define FILE_MAX (64 * 1024) /* of the golden files */

struct file {
    uint8_t *data; /* malloc'd, exactly size bytes, so that overreads are seen */
    size_t size;
};

static const char *golden(const char *name)
{
    static char path[4096];
    const char *source = getenv("KILN_SOURCE");
    snprintf(path, sizeof path, "%s/tests/golden/pictures/%s", source ? source : ".", name);
    return path;
}

static struct file file_of(const void *bytes, size_t size)
{
    struct file f = {malloc(size ? size : 1), size};
    assert_non_null(f.data);
    memcpy(f.data, bytes, size);
    return f;
}

static struct file file_named(const char *name)
{
    static uint8_t bytes[FILE_MAX];
    FILE *in = fopen(golden(name), "rb");
    if (!in)
        fail_msg("%s cannot be opened", golden(name));
    size_t size = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    assert_true(size > 0 && size < sizeof bytes);
    return file_of(bytes, size);
}

/* The code of reading the file; probe and reader never contradict each other. */
static int read_file(const struct file *f, struct kiln_picture_pixels *ret, struct kiln_error *err)
{
    enum kiln_picture_format format;
    struct kiln_picture_pixels p = {0};
    struct kiln_error first = {0};
    uint32_t width = 0, height = 0;
    int probed = kiln_picture_probe(f->data, f->size, &format, &width, &height, &first);
    int code = kiln_picture_read(f->data, f->size, &p, err);
    if (probed) {
        assert_int_equal(code, probed);
        assert_string_equal(err->text, first.text);
    }
    if (code) {
        assert_int_equal(err->code, code);
        assert_true(err->text[0] && !p.rgb);
    } else {
        assert_int_equal(p.width, width);
        assert_int_equal(p.height, height);
    }
    if (ret)
        *ret = p;
    else
        free(p.rgb);
    return code;
}

static void expect_refusal(const struct file *f, int code, const char *part)
{
    struct kiln_error err = {0};
    int got = read_file(f, NULL, &err);
    printf("    %s\n", err.text);
    assert_int_equal(got, code);
    if (!strstr(err.text, part))
        fail_msg("\"%s\" does not say \"%s\"", err.text, part);
}

/* --- pixels ----------------------------------------------------------------------------------- */

static void check_pixels(const struct kiln_st_tensor *want)
{
    struct file f = file_named(want->name);
    struct kiln_picture_pixels got;
    struct kiln_error err = {0};
    enum kiln_picture_format format;
    uint32_t width, height;
    if (read_file(&f, &got, &err))
        fail_msg("%s: %s", want->name, err.text);
    if (got.height != want->shape[0] || got.width != want->shape[1])
        fail_msg("%s: %ux%u pixels, expected %lldx%lld", want->name, got.width, got.height,
                 (long long)want->shape[1], (long long)want->shape[0]);
    const uint8_t *bytes = want->data;
    for (size_t i = 0; i < want->size; i++)
        if (got.rgb[i] != bytes[i])
            fail_msg("%s: pixel %zu, channel %zu: %u, expected %u", want->name, i / 3, i % 3,
                     got.rgb[i], bytes[i]);
    assert_int_equal(kiln_picture_probe(f.data, f.size, &format, &width, &height, &err), 0);
    assert_string_equal(strrchr(want->name, '.') + 1, kiln_picture_extension(format));
    free(got.rgb);
    free(f.data);
}

static void the_pixels_are_those_of_diffusers(void **state)
{
    (void)state;
    struct kiln_st *st;
    struct kiln_error err;
    size_t files = 0;
    if (kiln_st_open(golden("pixels.safetensors"), &st, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < kiln_st_count(st); i++)
        if (strchr(kiln_st_at(st, i)->name, '.')) {
            check_pixels(kiln_st_at(st, i));
            files++;
        }
    printf("    %zu files\n", files);
    assert_true(files >= 50);
    kiln_st_close(st);
}

/* Writes JPEG of so many components; in and out are colour spaces of libjpeg. */
static struct file write_jpeg(const uint8_t *values, uint32_t width, uint32_t height,
                              int components, J_COLOR_SPACE in, J_COLOR_SPACE out)
{
    struct jpeg_compress_struct jpeg = {0};
    struct jpeg_error_mgr errors;
    unsigned char *data = NULL;
    unsigned long size = 0;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &data, &size);
    jpeg.image_width = width;
    jpeg.image_height = height;
    jpeg.input_components = components;
    jpeg.in_color_space = in;
    jpeg_set_defaults(&jpeg);
    jpeg_set_colorspace(&jpeg, out);
    jpeg_set_quality(&jpeg, 100, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    for (uint32_t y = 0; y < height; y++) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(values + (size_t)y * width * (size_t)components);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    struct file f = file_of(data, size);
    free(data);
    return f;
}

/* YCCK, which Photoshop writes, is the same picture as CMYK. */
static void inks_in_either_form_are_one_picture(void **state)
{
    (void)state;
    enum { WIDTH = 40, HEIGHT = 24 };
    static uint8_t inks[HEIGHT][WIDTH][4];
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            for (int c = 0; c < 4; c++)
                inks[y][x][c] = (uint8_t)(128 + 3 * x - 2 * y - 20 * c);
    struct file files[2] = {write_jpeg(inks[0][0], WIDTH, HEIGHT, 4, JCS_CMYK, JCS_CMYK),
                            write_jpeg(inks[0][0], WIDTH, HEIGHT, 4, JCS_CMYK, JCS_YCCK)};
    struct kiln_picture_pixels p[2];
    struct kiln_error err = {0};
    for (int i = 0; i < 2; i++)
        if (read_file(&files[i], &p[i], &err))
            fail_msg("%s", err.text);
    double psnr = test_psnr(p[0].rgb, p[1].rgb, WIDTH, HEIGHT);
    printf("    %.1f dB\n", psnr);
    assert_true(psnr > 38);
    for (int i = 0; i < 2; i++) {
        free(p[i].rgb);
        free(files[i].data);
    }
}

/* --- refusals --------------------------------------------------------------------------------- */

static void what_is_no_picture_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *said;
    } cases[] = {
        {"", 0, "an empty file"},
        {"x", 1, "no picture"},
        {"a red circle on a white page\n", 29, "no picture"},
        {"GIF89a\1\0\1\0\0\0\0;", 14, "GIF"},
        {"BM\0\0\0\0\0\0\0\0\0\0\0\0", 14, "BMP"},
        {"II*\0\10\0\0\0", 8, "TIFF"},
        {"\0\0\0\x1c"
         "ftypavif",
         12, "AVIF"},
        {"\0\0\0\x1c"
         "ftypheic",
         12, "HEIC"},
        {"RIFF\4\0\0\0WAVE", 12, "no picture"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct file f = file_of(cases[i].bytes, cases[i].size);
        expect_refusal(&f, KILN_UNSUPPORTED, cases[i].said);
        free(f.data);
    }
}

static void put_big(uint8_t *at, uint32_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
}

/* The first place of the bytes in the file. */
static uint8_t *place_of(const struct file *f, const char *bytes, size_t len)
{
    uint8_t *at = memmem(f->data, f->size, bytes, len);
    assert_non_null(at);
    return at;
}

/* Headers alone decide: none of these could be decoded, and nothing is allocated for them. */
static void sizes_are_checked_before_memory_is_taken(void **state)
{
    (void)state;
    static const uint32_t sides[][2] = {
        {16384, 8192}, {8192, 16384}, {KILN_PICTURE_SIDE_MAX + 1, 1}, {65535, 65535}};
    struct file png = file_named("rgb8.png"), jpeg = file_named("progressive.jpg");
    uint8_t *frame = place_of(&jpeg, "\xFF\xC2", 2);
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        put_big(png.data + 16, sides[i][0], 4);
        put_big(png.data + 20, sides[i][1], 4);
        expect_refusal(&png, KILN_BAD_INPUT, "pixels a side");
        put_big(frame + 5, sides[i][1], 2);
        put_big(frame + 7, sides[i][0], 2);
        expect_refusal(&jpeg, KILN_BAD_INPUT, "pixels a side");
    }
    put_big(png.data + 16, 0xffffffff, 4);
    expect_refusal(&png, KILN_BAD_INPUT, "pixels a side");
    put_big(png.data + 16, 0, 4);
    expect_refusal(&png, KILN_CORRUPT, "0x65535");
    put_big(frame + 7, 0, 2);
    expect_refusal(&jpeg, KILN_CORRUPT, "JPEG file declares");
    struct file webp = file_named("lossy.webp");
    put_big(webp.data + 26, 0xff3fff3f, 4);
    expect_refusal(&webp, KILN_BAD_INPUT, "16383x16383");
    struct file large = {png.data, (size_t)KILN_PICTURE_FILE_MAX + 1}; /* not read that far */
    expect_refusal(&large, KILN_BAD_INPUT, "at most 64 MiB");
    free(png.data);
    free(jpeg.data);
    free(webp.data);
}

static void append(png_structp png, png_bytep bytes, size_t size)
{
    struct file *f = png_get_io_ptr(png);
    f->data = realloc(f->data, f->size + size);
    assert_non_null(f->data);
    memcpy(f->data + f->size, bytes, size);
    f->size += size;
}

/* All that is allowed, in a file of a few kilobytes: white, one bit a pixel. */
static void the_largest_size_is_read(void **state)
{
    (void)state;
    enum { SIDE = 8192 };
    static uint8_t row[SIDE / 8];
    struct file f = {NULL, 0};
    struct kiln_picture_pixels p;
    struct kiln_error err = {0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    assert_true(png && info && (uint64_t)SIDE * SIDE == KILN_PICTURE_PIXELS_MAX);
    memset(row, 0xff, sizeof row);
    png_set_write_fn(png, &f, append, NULL);
    png_set_IHDR(png, info, SIDE, SIDE, 1, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (int y = 0; y < SIDE; y++)
        png_write_row(png, row);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    printf("    %zu bytes\n", f.size);
    if (read_file(&f, &p, &err))
        fail_msg("%s", err.text);
    assert_int_equal(p.width, SIDE);
    assert_int_equal(p.rgb[(size_t)SIDE * SIDE * 3 - 1], 255);
    free(p.rgb);
    free(f.data);
}

static struct file insert(const struct file *f, size_t at, const void *bytes, size_t len)
{
    struct file longer = {malloc(f->size + len), f->size + len};
    assert_non_null(longer.data);
    memcpy(longer.data, f->data, at);
    memcpy(longer.data + at, bytes, len);
    memcpy(longer.data + at + len, f->data + at, f->size - at);
    return longer;
}

static void animations_are_refused(void **state)
{
    (void)state;
    /* acTL: so many frames, for ever.  One frame is a picture. */
    static const char two[] = "\0\0\0\10acTL\0\0\0\2\0\0\0\0\xF3\x8D\x93\x70";
    static const char one[] = "\0\0\0\10acTL\0\0\0\1\0\0\0\0\xB4\x2D\xE9\xA0";
    struct kiln_error err = {0};
    struct file png = file_named("rgb8.png");
    struct file moving = insert(&png, 33, two, sizeof two - 1);
    struct file still = insert(&png, 33, one, sizeof one - 1);
    expect_refusal(&moving, KILN_UNSUPPORTED, "an animation of 2 frames");
    if (read_file(&still, NULL, &err))
        fail_msg("%s", err.text);
    struct file frame = file_named("lossless.webp");
    WebPMux *mux = WebPMuxNew();
    const WebPMuxFrameInfo info = {.bitstream = {frame.data, frame.size},
                                   .duration = 10,
                                   .id = WEBP_CHUNK_ANMF,
                                   .dispose_method = WEBP_MUX_DISPOSE_NONE,
                                   .blend_method = WEBP_MUX_NO_BLEND};
    const WebPMuxAnimParams params = {0};
    WebPData whole = {0};
    for (int i = 0; i < 2; i++)
        assert_int_equal(WebPMuxPushFrame(mux, &info, 1), WEBP_MUX_OK);
    assert_int_equal(WebPMuxSetAnimationParams(mux, &params), WEBP_MUX_OK);
    assert_int_equal(WebPMuxAssemble(mux, &whole), WEBP_MUX_OK);
    struct file webp = file_of(whole.bytes, whole.size);
    expect_refusal(&webp, KILN_UNSUPPORTED, "an animation");
    WebPDataClear(&whole);
    WebPMuxDelete(mux);
    free(png.data), free(moving.data), free(still.data), free(frame.data), free(webp.data);
}

static void odd_jpegs_are_named(void **state)
{
    (void)state;
    static uint8_t values[16 * 16 * 2];
    struct file two = write_jpeg(values, 16, 16, 2, JCS_UNKNOWN, JCS_UNKNOWN);
    expect_refusal(&two, KILN_CORRUPT, "2 components");
    struct file f = file_named("colours444.jpg");
    uint8_t *frame = place_of(&f, "\xFF\xC0", 2);
    frame[4] = 12;
    expect_refusal(&f, KILN_CORRUPT, "precision 12");
    frame[4] = 8;
    frame[1] = 0xC3; /* lossless */
    expect_refusal(&f, KILN_CORRUPT, "cannot be decoded");
    free(two.data);
    free(f.data);
}

/* A small file whose first scan comes again and again: each costs the time of a picture. */
static void endless_scans_are_refused(void **state)
{
    (void)state;
    enum { TIMES = 80 };
    struct file f = file_named("progressive.jpg");
    const size_t first = (size_t)(place_of(&f, "\xFF\xDA", 2) - f.data);
    size_t end = first + 2;
    while (f.data[end] != 0xFF || f.data[end + 1] == 0)
        end++;
    const size_t scan = end - first;
    struct file longer = {malloc(f.size + TIMES * scan), f.size + TIMES * scan};
    assert_non_null(longer.data);
    memcpy(longer.data, f.data, first);
    for (size_t i = 0; i < TIMES; i++)
        memcpy(longer.data + first + i * scan, f.data + first, scan);
    memcpy(longer.data + first + TIMES * scan, f.data + first, f.size - first);
    expect_refusal(&longer, KILN_CORRUPT, "more than 64 scans");
    free(f.data);
    free(longer.data);
}

/* --- damage ----------------------------------------------------------------------------------- */

static const char *const samples[] = {
    "interlaced_palette.png", "rgba16.png", "exif_behind.png", "xmp.png",      "colours420.jpg",
    "progressive.jpg",        "cmyk.jpg",   "exif5.jpg",       "restarts.jpg", "lossy_alpha.webp",
    "lossless_alpha.webp",    "exif6.webp",
};
#define SAMPLES (sizeof samples / sizeof *samples)

static void cut_files_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        struct file f = file_named(samples[i]);
        for (size_t cut = 0; cut < f.size; cut++) {
            struct file part = file_of(f.data, cut);
            struct kiln_error err = {0};
            int code = read_file(&part, NULL, &err);
            if (code != KILN_CORRUPT && code != KILN_UNSUPPORTED)
                fail_msg("%s, cut to %zu of %zu bytes: code %d", samples[i], cut, f.size, code);
            free(part.data);
        }
        free(f.data);
    }
}

static void what_follows_a_picture_is_ignored(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        struct file f = file_named(samples[i]);
        struct file longer = insert(&f, f.size, "\xFF\xD8\0RIFFIDAT", 11);
        struct kiln_picture_pixels a, b;
        struct kiln_error err = {0};
        assert_int_equal(read_file(&f, &a, &err), 0);
        if (read_file(&longer, &b, &err))
            fail_msg("%s: %s", samples[i], err.text);
        assert_memory_equal(a.rgb, b.rgb, (size_t)a.width * a.height * 3);
        free(a.rgb), free(b.rgb);
        free(f.data), free(longer.data);
    }
}

/* Whatever is said, nothing may break or leak; sizes stay small, for the time's sake. */
static void flipped_bits_never_break_the_reader(void **state)
{
    (void)state;
    struct test_random random = {5};
    int refused = 0, tried = 0;
    for (size_t i = 0; i < SAMPLES; i++) {
        struct file f = file_named(samples[i]);
        for (int n = 0; n < 400; n++) {
            enum kiln_picture_format format;
            uint32_t width = 0, height = 0;
            struct kiln_error err = {0};
            size_t bit = test_random_below(&random, (uint32_t)f.size * 8);
            f.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            int code = kiln_picture_probe(f.data, f.size, &format, &width, &height, &err);
            if (code || (uint64_t)width * height < 1 << 20) {
                refused += read_file(&f, NULL, &err) != 0;
                tried++;
            }
            f.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        free(f.data);
    }
    print_message("%d of %d single flips were noticed\n", refused, tried);
    assert_true(refused > 0 && refused < tried);
}

/* Directories that lie about where they are and how long: the picture is not turned. */
static void hostile_exif_turns_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
    } cases[] = {
        {"II*\0\xff\xff\xff\xff", 8},
        {"MM\0*\0\0\0\10\xff\xff\1\x12", 12},
        {"II*\0\0\0\0\0\0\0", 10},
        {"Exif\0\0Exif\0\0Exif", 16},
        {"Exif\0\0II*\0", 10},
        {"II*\0\10\0\0\0\1\0\x12\1\3\0\2\0\0\0\6\0\0\0", 22}, /* two numbers */
        {"II*\0\10\0\0\0\1\0\x12\1\2\0\1\0\0\0\6\0\0\0", 22}, /* a text */
        {"", 0},
    };
    struct file png = file_named("rgb8.png");
    struct kiln_picture_pixels plain, p;
    struct kiln_error err = {0};
    assert_int_equal(read_file(&png, &plain, &err), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t chunk[64] = {0}; /* the CRC is wrong, and nobody reads it */
        put_big(chunk, (uint32_t)cases[i].size, 4);
        memcpy(chunk + 4, "eXIf", 4);
        memcpy(chunk + 8, cases[i].bytes, cases[i].size);
        struct file f = insert(&png, 33, chunk, cases[i].size + 12);
        if (read_file(&f, &p, &err))
            fail_msg("case %zu: %s", i, err.text);
        assert_int_equal(p.width, plain.width);
        assert_memory_equal(p.rgb, plain.rgb, (size_t)p.width * p.height * 3);
        free(p.rgb);
        free(f.data);
    }
    free(plain.rgb);
    free(png.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pixels_are_those_of_diffusers),
        cmocka_unit_test(inks_in_either_form_are_one_picture),
        cmocka_unit_test(what_is_no_picture_is_named),
        cmocka_unit_test(sizes_are_checked_before_memory_is_taken),
        cmocka_unit_test(the_largest_size_is_read),
        cmocka_unit_test(animations_are_refused),
        cmocka_unit_test(odd_jpegs_are_named),
        cmocka_unit_test(endless_scans_are_refused),
        cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(what_follows_a_picture_is_ignored),
        cmocka_unit_test(flipped_bits_never_break_the_reader),
        cmocka_unit_test(hostile_exif_turns_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
