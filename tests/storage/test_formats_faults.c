/* test_formats_faults.c - encoders, decoders and the signer while the n-th allocation fails, for
 * every n: an error that says so, nothing leaked, outputs untouched. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/err.h>

#include "storage/formats/latentfile.h"
#include "storage/formats/pictures/picture_read.h"
#include "storage/formats/pictures/picture_resize.h"
#include "storage/formats/pictures/webp.h"
#include "storage/objects/s3/sigv4.h"
#include "tests/support/picture.h"

#if defined(__SANITIZE_ADDRESS__) ||                                                               \
    defined(__SANITIZE_THREAD__) /* which has a malloc of its own */
#define OWN_MALLOC 0
#else
#define OWN_MALLOC 1
#endif

static int countdown; /* 0: nothing fails; 1: the next allocation does */
static long balance;  /* allocations not yet freed */

#if OWN_MALLOC
extern void *__libc_malloc(size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void __libc_free(void *data);

static void *counted(void *data)
{
    balance += data != NULL;
    return data;
}

static bool fails(void)
{
    if (countdown == 0 || --countdown > 0)
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return fails() ? NULL : counted(__libc_malloc(size));
}
void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : counted(__libc_calloc(count, size));
}
void *realloc(void *old, size_t size)
{
    if (fails())
        return NULL;
    return old ? __libc_realloc(old, size) : counted(__libc_realloc(old, size));
}
void free(void *data)
{
    balance -= data != NULL;
    __libc_free(data);
}
#endif

/* What is tried: returns a kiln_code, and frees what it got. */
typedef int attempt(struct kiln_error *err);

static uint8_t *picture;
static struct kiln_latent latent;
static uint8_t *webp_file, *latent_file;
static size_t webp_size, latent_size;

static int encode_webp(struct kiln_error *err)
{
    const struct kiln_webp_options options = {
        .quality = 85, .method = 4, .xmp = "<x:xmpmeta/>", .xmp_len = 12};
    uint8_t *data = NULL;
    size_t size = 0;
    int code = kiln_webp_encode(picture, 48, 32, &options, &data, &size, err);
    assert_true(code == 0 || (!data && size == 0));
    free(data);
    return code;
}

static int decode_webp(struct kiln_error *err)
{
    uint8_t *rgb = NULL;
    uint32_t width = 0, height = 0;
    int code = kiln_webp_decode(webp_file, webp_size, 1 << 20, &rgb, &width, &height, err);
    assert_true(code == 0 || (!rgb && width == 0));
    free(rgb);
    return code;
}

static int read_xmp(struct kiln_error *err)
{
    char *xmp = NULL;
    int code = kiln_webp_xmp(webp_file, webp_size, &xmp, err);
    assert_true(code == 0 || !xmp);
    free(xmp);
    return code;
}

static int make_xmp(struct kiln_error *err)
{
    const struct kiln_webp_about about = {.prompt = "a & b", .model = "m", .guidance = 0.5};
    char *packet = kiln_webp_xmp_packet(&about);
    int code = packet ? KILN_OK : kiln_fail(err, KILN_NO_MEMORY, "no memory");
    free(packet);
    return code;
}

/* One of the golden files, read beforehand. */
static uint8_t picture_file[64 * 1024];
static size_t picture_size;

static void load_picture(const char *name)
{
    char path[4096];
    const char *source = getenv("KILN_SOURCE");
    snprintf(path, sizeof path, "%s/tests/golden/pictures/%s", source ? source : ".", name);
    FILE *in = fopen(path, "rb");
    if (!in)
        fail_msg("%s cannot be opened", path);
    picture_size = fread(picture_file, 1, sizeof picture_file, in);
    fclose(in);
}

static int read_picture(struct kiln_error *err)
{
    struct kiln_picture_pixels p = {0};
    int code = kiln_picture_read(picture_file, picture_size, &p, err);
    assert_true(code == 0 || !p.rgb);
    free(p.rgb);
    return code;
}

static int resize_picture(struct kiln_error *err)
{
    uint8_t *rgb = NULL;
    int code = kiln_picture_resize(picture, 48, 32, 32, 48, &rgb, err);
    assert_true(code == 0 || !rgb);
    free(rgb);
    return code;
}

static int encode_latent(struct kiln_error *err)
{
    uint8_t *data = NULL;
    size_t size = 0;
    int code = kiln_latent_encode(&latent, KILN_LATENT_BF16_PLANES, 3, &data, &size, err);
    assert_true(code == 0 || (!data && size == 0));
    free(data);
    return code;
}

static int decode_latent(struct kiln_error *err)
{
    struct kiln_latent back = {0};
    enum kiln_latent_encoding encoding;
    int code = kiln_latent_decode(latent_file, latent_size, &back, &encoding, err);
    assert_true(code == 0 || (!back.values && back.states == 0));
    kiln_latent_release(&back);
    return code;
}

static const struct kiln_sigv4_pair headers[] = {{"Host", "h"}, {"x-amz-date", "d"}};
static const struct kiln_sigv4_pair query[] = {{"list-type", "2"}, {"prefix", "a b"}};
static const struct kiln_sigv4_request request = {.method = "GET",
                                                  .path = "/b",
                                                  .query = query,
                                                  .query_count = 2,
                                                  .headers = headers,
                                                  .header_count = 2,
                                                  .payload_hash = KILN_SIGV4_UNSIGNED,
                                                  .region = "r",
                                                  .service = "s3",
                                                  .time_s = 1};
static const struct kiln_sigv4_credentials keys = {"a", "b", "c"};

static int sign(struct kiln_error *err)
{
    char *text = NULL;
    int code = kiln_sigv4_authorization(&request, &keys, &text, err);
    assert_true(code == 0 || !text);
    free(text);
    return code;
}

static int presign(struct kiln_error *err)
{
    char *text = NULL;
    int code = kiln_sigv4_presign(&request, &keys, 60, &text, err);
    assert_true(code == 0 || !text);
    free(text);
    return code;
}

static void sweep(const char *name, attempt *try, bool any_code)
{
    struct kiln_error err = {0};
    ERR_raise(ERR_LIB_USER, ERR_R_MALLOC_FAILURE);
    ERR_clear_error();
    if (try(&err)) /* also what libraries allocate once and keep */
        fail_msg("%s: %s", name, err.text);
    for (int n = 1;; n++) {
        err.text[0] = '\0';
        long before = balance;
        countdown = n;
        int code = try(&err);
        bool beyond = countdown > 0;
        countdown = 0;
        ERR_clear_error(); /* OpenSSL keeps a text with its last error */
        if (balance != before)
            fail_msg("%s: %ld allocations leaked when the %d. failed", name, balance - before, n);
        if (code && (!err.text[0] || (!any_code && code != KILN_NO_MEMORY)))
            fail_msg("%s: code %d, '%s', when allocation %d failed", name, code, err.text, n);
        if (beyond) {
            assert_int_equal(code, KILN_OK);
            print_message("%s: %d allocations\n", name, n - 1);
            return;
        }
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    if (!OWN_MALLOC)
        skip();
    struct kiln_error err = {0};
    const struct kiln_webp_options options = {
        .quality = 85, .method = 4, .xmp = "<x:xmpmeta/>", .xmp_len = 12};
    picture = test_picture(48, 32, 1, 20);
    float values[2 * 4 * 3 * 5] = {1};
    latent = (struct kiln_latent){
        .states = 2, .channels = 4, .height = 3, .width = 5, .values = values, .model = "m"};
    assert_int_equal(kiln_webp_encode(picture, 48, 32, &options, &webp_file, &webp_size, &err), 0);
    assert_int_equal(
        kiln_latent_encode(&latent, KILN_LATENT_F32, 3, &latent_file, &latent_size, &err), 0);
    sweep("webp encode", encode_webp, false);
    sweep("webp decode", decode_webp, false);
    sweep("xmp read", read_xmp, true); /* libwebpmux does not say why it failed */
    sweep("xmp make", make_xmp, false);
    /* No lossless WebP: of libwebp 1.2.4 a failed allocation there ends the process. */
    static const char *const files[] = {"exif6.png", "interlaced_palette.png", "exif5.jpg",
                                        "cmyk.jpg",  "progressive.jpg",        "lossy.webp"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        load_picture(files[i]);
        sweep(files[i], read_picture, false);
    }
    sweep("resize", resize_picture, false);
    sweep("latent encode", encode_latent, false);
    sweep("latent decode", decode_latent, true);
    sweep("sign", sign, false);
    sweep("presign", presign, false);
    free(picture);
    free(webp_file);
    free(latent_file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
