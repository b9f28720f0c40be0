/* picture_metadata.c - what made a picture, as other programs read it; see picture_write.h.
 *
 * The last line of the parameters is "NAME: VALUE, NAME: VALUE"; a value with a comma, a colon or a
 * quote is written as JSON writes a text, which the readers undo.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/text/text.h"
#include "schemas/text/utf8.h"
#include "storage/formats/pictures/picture_write.h"

#define HASH_DIGITS 10 /* of a model, as AUTOMATIC1111 shows it */

static void put_value(struct kiln_text *out, const char *name, const char *value)
{
    if (!value || !value[0])
        return;
    kiln_text_printf(out, ", %s: ", name);
    if (strpbrk(value, ",:\"\n"))
        kiln_text_json(out, value, strlen(value));
    else
        kiln_text_puts(out, value);
}

/* "ink:0.8+noir:1" as " <lora:ink:0.8> <lora:noir:1>". */
static void put_loras(struct kiln_text *out, const char *set)
{
    while (set && *set) {
        size_t len = strcspn(set, "+");
        kiln_text_printf(out, " <lora:%.*s>", (int)len, set);
        set += len + (set[len] == '+');
    }
}

char *kiln_picture_parameters(const struct kiln_webp_about *about, const char *model_hash)
{
    struct kiln_text out = {0};
    char hash[HASH_DIGITS + 1];
    kiln_text_puts(&out, about->prompt);
    put_loras(&out, about->lora_set);
    kiln_text_puts(&out, "\nNegative prompt: "); /* also an empty one: ComfyUI asks for the line */
    kiln_text_puts(&out, about->negative_prompt ? about->negative_prompt : "");
    kiln_text_printf(&out, "\nSteps: %u, Sampler: Euler, CFG scale: ", about->steps);
    kiln_text_double(&out, 1 + about->guidance);
    kiln_text_printf(&out, ", Seed: %" PRIu64 ", Size: %ux%u", about->seed, about->width,
                     about->height);
    snprintf(hash, sizeof hash, "%.*s", HASH_DIGITS, model_hash ? model_hash : "");
    put_value(&out, "Model hash", hash);
    put_value(&out, "Model", about->model);
    put_value(&out, "Kiln mode", about->mode);
    put_value(&out, "Kiln start", about->start);
    put_value(&out, "Kiln mask", about->mask);
    kiln_text_puts(&out, ", Version: Kiln");
    return kiln_text_take(&out);
}

/* --- EXIF ---------------------------------------------------------------------------------------
 */

static void put_u16(struct kiln_text *out, uint32_t value)
{
    const char bytes[2] = {(char)(value >> 8), (char)value};
    kiln_text_add(out, bytes, 2);
}

static void put_u32(struct kiln_text *out, uint32_t value)
{
    put_u16(out, value >> 16);
    put_u16(out, value & 0xFFFF);
}

static void put_tag(struct kiln_text *out, uint32_t tag, uint32_t type, uint32_t count,
                    uint32_t value)
{
    put_u16(out, tag);
    put_u16(out, type);
    put_u32(out, count);
    put_u32(out, value);
}

/* Bytes that are not UTF-8 become U+FFFD. */
static void put_utf16(struct kiln_text *out, const char *text)
{
    for (size_t left = strlen(text); left > 0;) {
        size_t len = kiln_utf8_length(text, left);
        uint32_t code = 0xFFFD;
        const unsigned char *at = (const unsigned char *)text;
        if (len == 1)
            code = at[0];
        else if (len == 2)
            code = (at[0] & 0x1Fu) << 6 | (at[1] & 0x3Fu);
        else if (len == 3)
            code = (at[0] & 0x0Fu) << 12 | (at[1] & 0x3Fu) << 6 | (at[2] & 0x3Fu);
        else if (len == 4)
            code = (at[0] & 0x07u) << 18 | (at[1] & 0x3Fu) << 12 | (at[2] & 0x3Fu) << 6 |
                   (at[3] & 0x3Fu);
        if (code >= 0x10000) {
            put_u16(out, 0xD800 + ((code - 0x10000) >> 10));
            put_u16(out, 0xDC00 + ((code - 0x10000) & 0x3FF));
        } else {
            put_u16(out, code);
        }
        len = len ? len : 1;
        text += len;
        left -= len;
    }
}

uint8_t *kiln_picture_exif(const char *parameters, size_t *ret_size)
{
    enum { ASCII = 2, LONG = 4, UNDEFINED = 7 };
    enum { HEADER = 8, IFD0 = 2 + 2 * 12 + 4, SOFTWARE = 6, EXIF = 2 + 2 * 12 + 4 };
    enum { SOFTWARE_AT = HEADER + IFD0, EXIF_AT = SOFTWARE_AT + SOFTWARE };
    enum { COMMENT_AT = EXIF_AT + EXIF };
    struct kiln_text comment = {0}, out = {0};
    kiln_text_add(&comment, "UNICODE", 8); /* with its NUL */
    put_utf16(&comment, parameters);

    kiln_text_add(&out, "MM\0*", 4);
    put_u32(&out, HEADER);
    put_u16(&out, 2);
    put_tag(&out, 0x0131, ASCII, sizeof "Kiln", SOFTWARE_AT);
    put_tag(&out, 0x8769, LONG, 1, EXIF_AT);
    put_u32(&out, 0);
    kiln_text_add(&out, "Kiln\0", SOFTWARE); /* of even length */
    put_u16(&out, 2);
    put_tag(&out, 0x9000, UNDEFINED, 4, 0x30323332); /* ExifVersion "0232" */
    put_tag(&out, 0x9286, UNDEFINED, (uint32_t)comment.len, COMMENT_AT);
    put_u32(&out, 0);
    kiln_text_add(&out, comment.at, comment.len);
    if (comment.failed)
        out.failed = true;
    kiln_text_release(&comment);
    *ret_size = out.len;
    return (uint8_t *)kiln_text_take(&out);
}
