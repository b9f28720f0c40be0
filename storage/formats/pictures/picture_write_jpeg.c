/* picture_write_jpeg.c - JPEG through libjpeg; see picture_write.h.
 *
 * libjpeg leaves by longjmp when it finds an error.  What must survive that lives in struct
 * encoder.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "storage/formats/pictures/picture_write.h"

#define CHANNELS 3
#define QUALITY 95             /* of a picture that WebP has compressed once already */
#define SEGMENT_MAX 65533u     /* bytes of one marker's data */
#define ROOM_MORE (256u << 10) /* beyond the pixels: markers, tables, metadata */

static const char exif_head[] = "Exif\0";                      /* and the NUL of the literal */
static const char xmp_head[] = "http://ns.adobe.com/xap/1.0/"; /* likewise */

struct encoder {
    struct jpeg_compress_struct jpeg; /* first: libjpeg hands out pointers to it */
    struct jpeg_error_mgr errors;
    jmp_buf out;
    unsigned char *data;
    unsigned long size;
    char text[JMSG_LENGTH_MAX];
};

static _Noreturn void leave(j_common_ptr jpeg)
{
    struct encoder *e = (struct encoder *)jpeg;
    e->errors.format_message(jpeg, e->text);
    longjmp(e->out, 1);
}

static void ignore(j_common_ptr jpeg, int level)
{
    (void)jpeg;
    (void)level;
}

/* One APP1 segment: its head with a NUL, and the data; nothing if that is too long. */
static void put_segment(j_compress_ptr jpeg, const char *head, size_t head_len, const uint8_t *data,
                        size_t size)
{
    if (!data || head_len + size > SEGMENT_MAX)
        return;
    jpeg_write_m_header(jpeg, JPEG_APP0 + 1, (unsigned)(head_len + size));
    for (size_t i = 0; i < head_len; i++)
        jpeg_write_m_byte(jpeg, head[i]);
    for (size_t i = 0; i < size; i++)
        jpeg_write_m_byte(jpeg, data[i]);
}

/* Owns nothing, because it may be left by longjmp. */
static bool write_all(struct encoder *e, const uint8_t *rgb, uint32_t width, uint32_t height,
                      const uint8_t *exif, size_t exif_size, const char *xmp)
{
    if (setjmp(e->out))
        return false;
    jpeg_create_compress(&e->jpeg);
    jpeg_mem_dest(&e->jpeg, &e->data, &e->size); /* if that is too short, into another one */
    e->jpeg.image_width = width;
    e->jpeg.image_height = height;
    e->jpeg.input_components = CHANNELS;
    e->jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&e->jpeg);
    jpeg_set_quality(&e->jpeg, QUALITY, TRUE);
    e->jpeg.optimize_coding = TRUE;
    e->jpeg.write_JFIF_header = exif == NULL; /* EXIF wants to be the first segment */
    jpeg_start_compress(&e->jpeg, TRUE);
    put_segment(&e->jpeg, exif_head, sizeof exif_head, exif, exif_size);
    put_segment(&e->jpeg, xmp_head, sizeof xmp_head, (const uint8_t *)xmp, xmp ? strlen(xmp) : 0);
    while (e->jpeg.next_scanline < height) {
        JSAMPROW row = (JSAMPROW)(rgb + (size_t)e->jpeg.next_scanline * width * CHANNELS);
        jpeg_write_scanlines(&e->jpeg, &row, 1);
    }
    jpeg_finish_compress(&e->jpeg);
    return true;
}

int kiln_jpeg_write(const uint8_t *rgb, uint32_t width, uint32_t height,
                    const struct kiln_picture_metadata *metadata, uint8_t **ret_data,
                    size_t *ret_size, struct kiln_error *err)
{
    struct encoder *e = calloc(1, sizeof *e);
    size_t exif_size = 0;
    uint8_t *exif =
        metadata->parameters ? kiln_picture_exif(metadata->parameters, &exif_size) : NULL;
    /* libjpeg frees a buffer of its own that is too short, but names the next one only at the end.
     */
    const size_t room = (size_t)width * height * CHANNELS + ROOM_MORE;
    uint8_t *own = malloc(room);
    if (!e || !own || (metadata->parameters && !exif)) {
        free(e);
        free(own);
        free(exif);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a JPEG file");
    }
    e->data = own;
    e->size = room;
    e->jpeg.err = jpeg_std_error(&e->errors);
    e->errors.error_exit = leave;
    e->errors.emit_message = ignore;
    bool good = write_all(e, rgb, width, height, exif, exif_size, metadata->xmp);
    jpeg_destroy_compress(&e->jpeg);
    free(exif);
    int code = good ? 0
                    : kiln_fail(err, KILN_INTERNAL, "jpeg encoding of %ux%u pixels failed: %s",
                                width, height, e->text);
    if (good) {
        *ret_data = e->data;
        *ret_size = e->size;
    }
    if (!good || e->data != own)
        free(own);
    free(e);
    return code;
}
