/* picture_header.c - format, size and orientation of a picture file, without a decoder.
 *
 *     JPEG  FF D8, then segments FF marker length ...: SOFn has the size, APP1 has EXIF or XMP;
 *           the walk ends at the first scan
 *     PNG   8 bytes, then chunks length type data CRC: IHDR has the size, acTL says that the
 *           file is an animation, eXIf and iTXt have EXIF and XMP, before or behind the pixels
 *
 *     WebP  RIFF length WEBP, then chunks type length data: "EXIF" and "XMP "
 *
 * Every length is checked against the bytes that are left.
 */
#include <string.h>
#include <webp/decode.h>

#include "schemas/limits.h"
#include "storage/formats/pictures/picture_parts.h"

/* Bytes that are still to be read. */
struct span {
    const uint8_t *at;
    size_t left;
};

static bool starts(const struct span *s, const void *what, size_t len)
{
    return s->left >= len && memcmp(s->at, what, len) == 0;
}

/* Moves past len bytes, at most to the end. */
static void skip(struct span *s, size_t len)
{
    len = len < s->left ? len : s->left;
    s->at += len;
    s->left -= len;
}

static uint32_t big16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static uint32_t big32(const uint8_t *p)
{
    return big16(p) << 16 | big16(p + 2);
}

static uint32_t little32(const uint8_t *p)
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

/* --- orientation ------------------------------------------------------------------------------ */

/* What was found so far; 0 is nothing.  EXIF goes before XMP. */
struct orientation {
    int exif, xmp;
};

static uint32_t tiff_number(const uint8_t *p, int bytes, bool big)
{
    uint32_t n = 0;
    for (int i = 0; i < bytes; i++)
        n = n << 8 | p[big ? i : bytes - 1 - i];
    return n;
}

/* Tag 0x0112 of the first directory: 12 bytes an entry, tag, type, count, value. */
static void read_exif(struct span exif, struct orientation *found)
{
    while (starts(&exif, "Exif\0", 6))
        skip(&exif, 6);
    const bool big = starts(&exif, "MM\0*", 4);
    if (!big && !starts(&exif, "II*", 4))
        return;
    struct span directory = exif;
    skip(&directory, exif.left >= 8 ? tiff_number(exif.at + 4, 4, big) : exif.left);
    uint32_t entries = directory.left >= 2 ? tiff_number(directory.at, 2, big) : 0;
    skip(&directory, 2);
    for (; entries > 0 && directory.left >= 12; entries--, skip(&directory, 12)) {
        const uint8_t *entry = directory.at;
        const uint32_t type = tiff_number(entry + 2, 2, big);
        const bool number = type == 3 || type == 4; /* of 2 or 4 bytes */
        if (tiff_number(entry, 2, big) == 0x0112 && number && tiff_number(entry + 4, 4, big) == 1) {
            uint32_t value = tiff_number(entry + 8, type == 3 ? 2 : 4, big);
            found->exif = value >= 1 && value <= 8 ? (int)value : 1;
        }
    }
}

/* The first tiff:Orientation="N" or tiff:Orientation>N of the packet. */
static void read_xmp(struct span xmp, struct orientation *found)
{
    static const char name[] = "tiff:Orientation";
    const uint8_t *at;
    while ((at = memmem(xmp.at, xmp.left, name, sizeof name - 1))) {
        skip(&xmp, (size_t)(at - xmp.at) + sizeof name - 1);
        size_t mark = starts(&xmp, "=\"", 2) ? 2 : starts(&xmp, ">", 1) ? 1 : 0;
        if (mark && xmp.left > mark && xmp.at[mark] >= '0' && xmp.at[mark] <= '9') {
            found->xmp = xmp.at[mark] - '0';
            return;
        }
    }
}

/* --- JPEG ------------------------------------------------------------------------------------- */

static void read_app1(struct span segment, struct orientation *found)
{
    static const char xmp[] = "http://ns.adobe.com/xap/1.0/"; /* and its NUL */
    if (starts(&segment, "Exif\0", 6) && !found->exif) {
        read_exif(segment, found);
    } else if (starts(&segment, xmp, sizeof xmp)) {
        skip(&segment, sizeof xmp);
        read_xmp(segment, found);
    }
}

static bool is_frame(int marker)
{
    return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

/* The next marker, past bytes that belong to none, as decoders look for it; 0 at the end. */
static int next_marker(struct span *s)
{
    for (;;) {
        const uint8_t *at = memchr(s->at, 0xFF, s->left);
        skip(s, at ? (size_t)(at - s->at) : s->left);
        while (starts(s, "\xFF", 1))
            skip(s, 1);
        if (s->left == 0)
            return 0;
        int marker = s->at[0];
        skip(s, 1);
        if (marker != 0)
            return marker;
    }
}

static int read_jpeg(struct span s, struct kiln_picture_header *h, struct orientation *found,
                     struct kiln_error *err)
{
    int marker;
    skip(&s, 2);
    while ((marker = next_marker(&s)) != 0xDA && marker != 0xD9 && marker != 0) {
        if (marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8))
            continue; /* without a length */
        const uint32_t length = s.left >= 2 ? big16(s.at) : 0;
        if (length < 2 || length > s.left)
            break;
        if (is_frame(marker) && length >= 8 && !h->width) {
            h->height = big16(s.at + 3);
            h->width = big16(s.at + 5);
        } else if (marker == 0xE1) {
            read_app1((struct span){s.at + 2, length - 2}, found);
        }
        skip(&s, length);
    }
    return marker == 0xDA ? 0
                          : kiln_fail(err, KILN_CORRUPT, "the JPEG file ends before its pixels");
}

/* --- PNG -------------------------------------------------------------------------------------- */

/* International text: keyword, 0, whether compressed, method, language, 0, translation, 0, text. */
static void read_itxt(struct span text, struct orientation *found)
{
    static const char keyword[] = "XML:com.adobe.xmp"; /* and its NUL */
    if (!starts(&text, keyword, sizeof keyword))
        return;
    skip(&text, sizeof keyword);
    const bool plain = starts(&text, "\0", 1);
    skip(&text, 2);
    for (int i = 0; i < 2; i++) {
        const uint8_t *end = memchr(text.at, 0, text.left);
        skip(&text, end ? (size_t)(end - text.at) + 1 : text.left);
    }
    if (plain)
        read_xmp(text, found);
}

static int read_png(struct span s, struct kiln_picture_header *h, struct orientation *found,
                    struct kiln_error *err)
{
    bool pixels = false;
    skip(&s, 8);
    if (!starts(&s, "\0\0\0\x0DIHDR", 8) || s.left < 25)
        return kiln_fail(err, KILN_CORRUPT, "the PNG file has no header");
    h->width = big32(s.at + 8);
    h->height = big32(s.at + 12);
    while (s.left >= 12) {
        const uint32_t length = big32(s.at);
        const uint8_t *type = s.at + 4;
        if (length > s.left - 12)
            break;
        const struct span data = {s.at + 8, length};
        if (memcmp(type, "IEND", 4) == 0)
            return 0;
        if (memcmp(type, "acTL", 4) == 0 && !pixels && length >= 4 && big32(data.at) > 1)
            return kiln_fail(err, KILN_UNSUPPORTED,
                             "the PNG file is an animation of %u frames; save one of them as a "
                             "picture",
                             big32(data.at));
        if (memcmp(type, "IDAT", 4) == 0)
            pixels = true;
        else if (memcmp(type, "eXIf", 4) == 0)
            read_exif(data, found);
        else if (memcmp(type, "iTXt", 4) == 0)
            read_itxt(data, found);
        skip(&s, (size_t)length + 12);
    }
    return kiln_fail(err, KILN_CORRUPT, "the PNG file ends before its last chunk");
}

/* --- WebP ------------------------------------------------------------------------------------- */

static int read_webp(struct span s, struct kiln_picture_header *h, struct orientation *found,
                     struct kiln_error *err)
{
    WebPBitstreamFeatures features;
    if (WebPGetFeatures(s.at, s.left, &features) != VP8_STATUS_OK)
        return kiln_fail(err, KILN_CORRUPT, "the headers of the WebP file are damaged or cut");
    if (features.has_animation)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "the WebP file is an animation; save one of its frames as a picture");
    h->width = (uint32_t)features.width;
    h->height = (uint32_t)features.height;
    const uint32_t whole = little32(s.at + 4);
    skip(&s, 8);
    if (whole > s.left)
        return kiln_fail(err, KILN_CORRUPT, "the WebP file is cut: %zu of its %u bytes are there",
                         s.left + 8, whole + 8);
    s.left = whole;
    skip(&s, 4);
    while (s.left >= 8) {
        const uint32_t length = little32(s.at + 4);
        if (length > s.left - 8)
            break;
        const struct span data = {s.at + 8, length};
        if (starts(&s, "EXIF", 4) && !found->exif)
            read_exif(data, found);
        else if (starts(&s, "XMP ", 4))
            read_xmp(data, found);
        skip(&s, 8 + (size_t)length + (length & 1));
    }
    return 0;
}

/* --- all -------------------------------------------------------------------------------------- */

/* What people have beside the three formats, so that the refusal can name it. */
static const char *name_of(const struct span *s)
{
    static const struct {
        size_t at, len;
        const char *bytes, *name;
    } known[] = {
        {0, 4, "GIF8", "GIF"},      {0, 2, "BM", "BMP"},        {0, 4, "II*\0", "TIFF"},
        {0, 4, "MM\0*", "TIFF"},    {4, 8, "ftypavif", "AVIF"}, {4, 8, "ftypheic", "HEIC"},
        {4, 8, "ftypmif1", "HEIC"}, {0, 4, "8BPS", "PSD"},      {0, 2, "\xFF\x0A", "JPEG XL"},
        {4, 4, "JXL ", "JPEG XL"},  {0, 4, "<svg", "SVG"},      {0, 4, "%PDF", "PDF"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct span from = *s;
        skip(&from, known[i].at);
        if (starts(&from, known[i].bytes, known[i].len))
            return known[i].name;
    }
    return NULL;
}

static int read_by_format(const struct span *s, struct kiln_picture_header *h,
                          struct orientation *found, struct kiln_error *err)
{
    if (starts(s, "\x89PNG\r\n\x1A\n", 8)) {
        h->format = KILN_PICTURE_PNG;
        return read_png(*s, h, found, err);
    }
    if (starts(s, "\xFF\xD8\xFF", 3)) {
        h->format = KILN_PICTURE_JPEG;
        return read_jpeg(*s, h, found, err);
    }
    if (s->left >= 12 && starts(s, "RIFF", 4) && memcmp(s->at + 8, "WEBP", 4) == 0) {
        h->format = KILN_PICTURE_WEBP;
        return read_webp(*s, h, found, err);
    }
    const char *name = name_of(s);
    return kiln_fail(err, KILN_UNSUPPORTED, "this is %s; WebP, PNG and JPEG files are read",
                     s->left == 0 ? "an empty file"
                     : name       ? name
                                  : "no picture");
}

int kiln_picture_header_read(const uint8_t *data, size_t size, struct kiln_picture_header *ret,
                             struct kiln_error *err)
{
    static const char *const names[] = {"WebP", "PNG", "JPEG"};
    struct kiln_picture_header h = {0};
    struct orientation found = {0};
    const struct span s = {data, size};
    if (size > KILN_PICTURE_FILE_MAX)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "the picture's file has %zu bytes; at most %d MiB are read", size,
                         KILN_PICTURE_FILE_MAX >> 20);
    int code = read_by_format(&s, &h, &found, err);
    if (code)
        return code;
    if (h.width == 0 || h.height == 0)
        return kiln_fail(err, KILN_CORRUPT, "the %s file declares a picture of %ux%u pixels",
                         names[h.format], h.width, h.height);
    if (h.width > KILN_PICTURE_SIDE_MAX || h.height > KILN_PICTURE_SIDE_MAX ||
        (uint64_t)h.width * h.height > KILN_PICTURE_PIXELS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "the %s file declares %ux%u pixels; at most %d pixels a side and %d "
                         "million in all are read",
                         names[h.format], h.width, h.height, KILN_PICTURE_SIDE_MAX,
                         KILN_PICTURE_PIXELS_MAX / 1000000);
    h.orientation = found.exif ? found.exif : found.xmp;
    *ret = h;
    return 0;
}
