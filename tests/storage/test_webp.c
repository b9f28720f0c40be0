/* test_webp.c - pixels to WebP and back; metadata in and out; damaged files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <webp/encode.h>
#include <webp/mux.h>

#include <cmocka.h>

#include "storage/formats/pictures/webp.h"
#include "tests/support/picture.h"
#include "tests/support/random.h"

#define PIXELS_MAX (2048u * 2048u)

static const struct kiln_webp_options usual = {.quality = 85, .method = 4};

struct file {
    uint8_t *data;
    size_t size;
};

static struct file encode(const uint8_t *rgb, uint32_t w, uint32_t h,
                          const struct kiln_webp_options *options)
{
    struct file file = {0};
    struct kiln_error err = {0};
    if (kiln_webp_encode(rgb, w, h, options, &file.data, &file.size, &err))
        fail_msg("%s", err.text);
    return file;
}

static void round_trip(uint32_t w, uint32_t h, const struct kiln_webp_options *options,
                       double psnr_min)
{
    uint8_t *rgb = test_picture(w, h, w + h, 16), *back = NULL;
    struct file file = encode(rgb, w, h, options);
    uint32_t got_w = 0, got_h = 0;
    struct kiln_error err = {0};
    if (kiln_webp_decode(file.data, file.size, PIXELS_MAX, &back, &got_w, &got_h, &err))
        fail_msg("%s", err.text);
    assert_int_equal(got_w, w);
    assert_int_equal(got_h, h);
    double psnr = test_psnr(rgb, back, w, h);
    if (psnr < psnr_min)
        fail_msg("%ux%u: %.1f dB, at least %.1f wanted", w, h, psnr, psnr_min);
    free(rgb);
    free(back);
    free(file.data);
}

static void lossy_is_close(void **state)
{
    (void)state;
    round_trip(256, 256, &usual, 30);
    round_trip(333, 97, &usual, 30);
    round_trip(1, 1, &usual, 20);
    round_trip(17, 1, &usual, 20);
}

static void lossless_is_exact(void **state)
{
    (void)state;
    struct kiln_webp_options options = {.quality = 50, .method = 2, .lossless = 1};
    round_trip(128, 80, &options, 99);
    round_trip(1, 3, &options, 99);
    options.xmp = "<x/>";
    options.xmp_len = 4;
    round_trip(33, 31, &options, 99);
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{0, 1}, {1, 0}, {16384, 1}, {1, 16384}, {0xffffffff, 1}};
    uint8_t rgb[3] = {0}, *data = NULL;
    size_t size = 0;
    struct kiln_error err = {0};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(
            kiln_webp_encode(rgb, sizes[i][0], sizes[i][1], &usual, &data, &size, &err),
            KILN_BAD_INPUT);
    const struct kiln_webp_options bad[] = {{.quality = -1, .method = 4},
                                            {.quality = 101, .method = 4},
                                            {.quality = (float)__builtin_nan(""), .method = 4},
                                            {.quality = 85, .method = 7},
                                            {.quality = 85, .method = -1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(kiln_webp_encode(rgb, 1, 1, &bad[i], &data, &size, &err), KILN_BAD_INPUT);
    assert_null(data);
}

static char *xmp_of(struct file file)
{
    char *xmp = NULL;
    struct kiln_error err = {0};
    if (kiln_webp_xmp(file.data, file.size, &xmp, &err))
        fail_msg("%s", err.text);
    return xmp;
}

static void metadata_comes_back(void **state)
{
    (void)state;
    struct kiln_webp_about about = {.prompt = "a <cat> & a \"dog\"\n]]> \xf0\x9f\x94\xa5",
                                    .negative_prompt = "",
                                    .model = "zimage",
                                    .lora_set = "ink:0.8",
                                    .seed = 18446744073709551615u,
                                    .width = 64,
                                    .height = 48,
                                    .steps = 8,
                                    .guidance = 1.5};
    uint8_t *rgb = test_picture(64, 48, 3, 8), *back = NULL;
    char *packet = kiln_webp_xmp_packet(&about);
    assert_non_null(packet);
    struct kiln_webp_options with = usual;
    with.xmp = packet;
    with.xmp_len = strlen(packet);
    struct file plain = encode(rgb, 64, 48, &usual), labelled = encode(rgb, 64, 48, &with);
    char *none = xmp_of(plain), *xmp = xmp_of(labelled);
    assert_null(none);
    assert_string_equal(xmp, packet);
    static const char *const parts[] = {
        ">http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia<",
        "<kiln:prompt>a &lt;cat&gt; &amp; a \"dog\"\n]]&gt; \xf0\x9f\x94\xa5</kiln:prompt>",
        "<kiln:seed>18446744073709551615</kiln:seed>",
        "<kiln:guidance>1.5</kiln:guidance>",
        "<kiln:lora_set>ink:0.8</kiln:lora_set>",
        "<kiln:steps>8</kiln:steps>"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(xmp, parts[i]))
            fail_msg("no %s in %s", parts[i], xmp);
    assert_null(strstr(xmp, "negative"));
    assert_null(strstr(xmp, "<kiln:mode>")); /* exact, from noise, of no other job */
    assert_null(strstr(xmp, "kiln:forwards"));
    assert_null(strstr(xmp, "kiln:parent"));
    uint32_t w, h;
    struct kiln_error err = {0};
    assert_int_equal(kiln_webp_decode(labelled.data, labelled.size, 64 * 48, &back, &w, &h, &err),
                     0);
    assert_int_equal(memcmp(labelled.data + 12, "VP8X", 4), 0);
    free(xmp);
    free(packet);
    free(rgb);
    free(back);
    free(plain.data);
    free(labelled.data);
}

static void a_packet_says_how_the_run_began(void **state)
{
    (void)state;
    struct kiln_webp_about about = {.mode = "inpaint=5",
                                    .start = "inputs/00.png",
                                    .mask = "inputs/01.png",
                                    .parent = 4711,
                                    .steps = 8,
                                    .forwards = 3};
    char *packet = kiln_webp_xmp_packet(&about);
    assert_non_null(packet);
    assert_non_null(strstr(packet, "<kiln:mode>inpaint=5</kiln:mode>\n"
                                   "<kiln:start>inputs/00.png</kiln:start>\n"
                                   "<kiln:mask>inputs/01.png</kiln:mask>\n"
                                   "<kiln:forwards>3</kiln:forwards>\n"
                                   "<kiln:parent>4711</kiln:parent>\n"));
    free(packet);
}

/* Whatever the prompt, the packet is text that XML 1.0 allows. */
static void a_packet_is_always_valid_xml(void **state)
{
    (void)state;
    struct kiln_webp_about about = {
        .prompt = "\x01 tab\t cr\r del\x7f \xff \xc3 \xed\xa0\x80 \xef\xbf\xbf end"};
    char *packet = kiln_webp_xmp_packet(&about);
    assert_non_null(packet);
    assert_non_null(strstr(packet, "<kiln:prompt>\xEF\xBF\xBD tab\t cr&#13; del\x7f \xEF\xBF\xBD "
                                   "\xEF\xBF\xBD \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD "
                                   "\xEF\xBF\xBD end</kiln:prompt>"));
    free(packet);
    char *label = kiln_webp_xmp_packet(NULL);
    assert_non_null(label);
    assert_non_null(strstr(label, "trainedAlgorithmicMedia"));
    assert_null(strstr(label, "<kiln:"));
    free(label);
}

static void the_size_is_checked_before_decoding(void **state)
{
    (void)state;
    uint8_t *rgb = test_picture(100, 100, 3, 0), *back = NULL;
    struct file file = encode(rgb, 100, 100, &usual);
    struct kiln_error err = {0};
    uint32_t w, h;
    assert_int_equal(kiln_webp_decode(file.data, file.size, 9999, &back, &w, &h, &err),
                     KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "100x100"));
    assert_int_equal(kiln_webp_decode(file.data, file.size, 10000, &back, &w, &h, &err), 0);
    free(back);
    /* A header that claims 16383x16383 in front of a small body. */
    back = NULL;
    file.data[26] = 0xff;
    file.data[27] = 0x3f;
    file.data[28] = 0xff;
    file.data[29] = 0x3f;
    assert_int_equal(kiln_webp_decode(file.data, file.size, PIXELS_MAX, &back, &w, &h, &err),
                     KILN_BAD_INPUT);
    assert_null(back);
    free(rgb);
    free(file.data);
}

/* Halved into the middle of a larger picture: the mean of each square of four, nothing around it.
 */
static void a_picture_is_scaled_into_a_window(void **state)
{
    (void)state;
    enum { SIDE = 64, WIDE = 50, HIGH = 40, LEFT = 7, TOP = 3 };
    uint8_t *rgb = test_picture(SIDE, SIDE, 9, 0);
    struct kiln_webp_options exact = {.quality = 20, .lossless = 1};
    struct file file = encode(rgb, SIDE, SIDE, &exact);
    uint8_t canvas[HIGH][WIDE][3], halved[SIDE / 2][SIDE / 2][3], seen[SIDE / 2][SIDE / 2][3];
    memset(canvas, 77, sizeof canvas);
    struct kiln_error err = {0};
    struct kiln_webp_window into = {canvas[TOP][LEFT], SIDE / 2, SIDE / 2, sizeof canvas[0]};
    assert_int_equal(kiln_webp_decode_scaled(file.data, file.size, PIXELS_MAX, &into, &err), 0);
    for (int y = 0; y < HIGH; y++) {
        for (int x = 0; x < WIDE; x++) {
            int ty = y - TOP, tx = x - LEFT;
            bool inside = ty >= 0 && ty < SIDE / 2 && tx >= 0 && tx < SIDE / 2;
            for (int c = 0; c < 3; c++) {
                if (!inside) {
                    assert_int_equal(canvas[y][x][c], 77);
                    continue;
                }
                const uint8_t *at = rgb + (2 * ty * SIDE + 2 * tx) * 3 + c;
                int sum = at[0] + at[3] + at[SIDE * 3] + at[SIDE * 3 + 3];
                halved[ty][tx][c] = (uint8_t)((sum + 2) / 4);
                seen[ty][tx][c] = canvas[y][x][c];
            }
        }
    }
    double psnr = test_psnr(&halved[0][0][0], &seen[0][0][0], SIDE / 2, SIDE / 2);
    if (psnr < 45)
        fail_msg("%.1f dB, at least 45 wanted", psnr);
    into.height = 0;
    assert_int_equal(kiln_webp_decode_scaled(file.data, file.size, PIXELS_MAX, &into, &err),
                     KILN_BAD_INPUT);
    into.height = 1;
    assert_int_equal(kiln_webp_decode_scaled(file.data, file.size - 1, PIXELS_MAX, &into, &err),
                     KILN_CORRUPT);
    assert_int_equal(kiln_webp_decode_scaled(file.data, file.size, SIDE * SIDE - 1, &into, &err),
                     KILN_BAD_INPUT);
    free(rgb);
    free(file.data);
}

/* Reads a damaged file every way; whatever is said, nothing may break or leak. */
static int read_all_ways(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1), *rgb = NULL; /* exact size: overreads are seen */
    assert_non_null(copy);
    memcpy(copy, data, size);
    char *xmp = NULL;
    uint32_t w, h;
    struct kiln_error err = {0};
    int xmp_code = kiln_webp_xmp(copy, size, &xmp, &err);
    int code = kiln_webp_decode(copy, size, PIXELS_MAX, &rgb, &w, &h, &err);
    free(rgb);
    free(xmp);
    free(copy);
    return code ? code : xmp_code;
}

static void cut_files_are_errors(void **state)
{
    (void)state;
    uint8_t *rgb = test_picture(40, 30, 3, 30);
    struct kiln_webp_options options[] = {usual, {.quality = 20, .lossless = 1}};
    for (int i = 0; i < 4; i++) {
        struct kiln_webp_options with = options[i / 2];
        with.xmp = i % 2 ? "<x:xmpmeta/>" : NULL;
        with.xmp_len = 12;
        struct file file = encode(rgb, 40, 30, &with);
        for (size_t cut = 0; cut < file.size; cut++)
            assert_int_equal(read_all_ways(file.data, cut), KILN_CORRUPT);
        assert_int_equal(read_all_ways(file.data, file.size), 0);
        free(file.data);
    }
    free(rgb);
}

static void flipped_bits_never_break_the_reader(void **state)
{
    (void)state;
    uint8_t *rgb = test_picture(40, 30, 3, 30);
    struct kiln_webp_options with = usual;
    with.xmp = "<x:xmpmeta/>";
    with.xmp_len = 12;
    struct file file = encode(rgb, 40, 30, &with);
    struct test_random random = {5};
    int refused = 0;
    for (int i = 0; i < 3000; i++) {
        size_t bit = test_random_below(&random, (uint32_t)file.size * 8);
        file.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        refused += read_all_ways(file.data, file.size) != 0;
        file.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    print_message("%d of 3000 single flips were noticed\n", refused);
    assert_true(refused > 0);
    free(file.data);
    free(rgb);
}

static void animations_are_refused(void **state)
{
    (void)state;
    uint8_t *rgb = test_picture(16, 16, 3, 0), *back = NULL;
    struct file frame = encode(rgb, 16, 16, &usual);
    WebPMux *mux = WebPMuxNew();
    WebPMuxFrameInfo info = {.bitstream = {frame.data, frame.size},
                             .duration = 10,
                             .id = WEBP_CHUNK_ANMF,
                             .dispose_method = WEBP_MUX_DISPOSE_NONE,
                             .blend_method = WEBP_MUX_NO_BLEND};
    assert_int_equal(WebPMuxPushFrame(mux, &info, 1), WEBP_MUX_OK);
    assert_int_equal(WebPMuxPushFrame(mux, &info, 1), WEBP_MUX_OK);
    WebPMuxAnimParams params = {0};
    assert_int_equal(WebPMuxSetAnimationParams(mux, &params), WEBP_MUX_OK);
    WebPData whole = {0};
    assert_int_equal(WebPMuxAssemble(mux, &whole), WEBP_MUX_OK);
    struct kiln_error err = {0};
    uint32_t w, h;
    assert_int_equal(kiln_webp_decode(whole.bytes, whole.size, PIXELS_MAX, &back, &w, &h, &err),
                     KILN_UNSUPPORTED);
    WebPDataClear(&whole);
    WebPMuxDelete(mux);
    free(frame.data);
    free(rgb);
}

static void says_how_long_it_takes(void **state)
{
    (void)state;
    static const uint32_t sides[] = {1024, 512, 256};
    for (int i = 0; i < 3; i++) {
        uint8_t *rgb = test_picture(sides[i], sides[i], 9, 24);
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        struct file file = encode(rgb, sides[i], sides[i], &usual);
        clock_gettime(CLOCK_MONOTONIC, &b);
        print_message("%u px: %.1f ms, %zu bytes\n", sides[i],
                      (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6,
                      file.size);
        assert_true(file.size > 1000);
        free(file.data);
        free(rgb);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lossy_is_close),
        cmocka_unit_test(lossless_is_exact),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(metadata_comes_back),
        cmocka_unit_test(a_packet_says_how_the_run_began),
        cmocka_unit_test(a_packet_is_always_valid_xml),
        cmocka_unit_test(the_size_is_checked_before_decoding),
        cmocka_unit_test(a_picture_is_scaled_into_a_window),
        cmocka_unit_test(cut_files_are_errors),
        cmocka_unit_test(flipped_bits_never_break_the_reader),
        cmocka_unit_test(animations_are_refused),
        cmocka_unit_test(says_how_long_it_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
