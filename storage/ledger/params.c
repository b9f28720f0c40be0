/* params.c - the parameters of a statement, arrays among them, as libpq takes them.
 *
 * Single values travel as text.  Arrays, which carry the bulk of intake, travel in the server's
 * binary format: a head (dimensions, has-nulls, element type, length, lower bound) and then each
 * element as length and bytes, all big endian.  Nothing needs to be escaped.
 */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/text/utf8.h"
#include "storage/ledger/internal.h"

#define ARRAY_HEAD 20 /* bytes */

static void add(struct kiln_params *params, const char *value, int length, int format)
{
    if (params->count == KILN_PARAMS_MAX) { /* a statement of ours with too many parameters */
        params->short_of_memory = true;
        return;
    }
    params->values[params->count] = value;
    params->lengths[params->count] = length;
    params->formats[params->count] = format;
    params->count++;
}

/* Where the text of the next number goes. */
static char *scratch(struct kiln_params *params)
{
    return params->scratch[params->count < KILN_PARAMS_MAX ? params->count : 0];
}

/* The server refuses text that is not UTF-8, and an error message may quote such bytes.  So every
 * text is cleaned here. */
void kiln_bind_text(struct kiln_params *params, const char *text)
{
    if (!text || params->count == KILN_PARAMS_MAX || kiln_utf8_valid(text, strlen(text), NULL)) {
        add(params, text, 0, 0);
        return;
    }
    char *copy = strdup(text);
    if (!copy) {
        params->short_of_memory = true;
        return;
    }
    kiln_utf8_clean(copy, strlen(copy));
    params->owned[params->count] = copy;
    add(params, copy, 0, 0);
}

void kiln_bind_copy(struct kiln_params *params, const char *text)
{
    char *copy = scratch(params);
    kiln_utf8_copy(copy, sizeof params->scratch[0], text);
    kiln_utf8_clean(copy, strlen(copy));
    add(params, copy, 0, 0);
}

void kiln_bind_i64(struct kiln_params *params, int64_t value)
{
    char *text = scratch(params);
    snprintf(text, sizeof params->scratch[0], "%" PRId64, value);
    add(params, text, 0, 0);
}

void kiln_bind_u64(struct kiln_params *params, uint64_t value)
{
    char *text = scratch(params);
    snprintf(text, sizeof params->scratch[0], "%" PRIu64, value);
    add(params, text, 0, 0);
}

void kiln_bind_double(struct kiln_params *params, double value)
{
    char *text = scratch(params);
    snprintf(text, sizeof params->scratch[0], "%.17g", value);
    add(params, text, 0, 0);
}

void kiln_bind_bool(struct kiln_params *params, bool value)
{
    add(params, value ? "t" : "f", 0, 0);
}

/* --- arrays ---------------------------------------------------------------------------------- */

/* Room for more bytes at the end, or NULL. */
static char *extend(struct kiln_array *array, size_t more)
{
    if (array->short_of_memory)
        return NULL;
    if (array->len + more > array->size) {
        size_t size = array->size * 2 + more + 256;
        char *bytes = realloc(array->bytes, size);
        if (!bytes) {
            array->short_of_memory = true;
            return NULL;
        }
        array->bytes = bytes;
        array->size = size;
    }
    char *at = array->bytes + array->len;
    array->len += more;
    return at;
}

static void put32(char *at, uint32_t value)
{
    value = htobe32(value);
    memcpy(at, &value, 4);
}

static void put_element(struct kiln_array *array, const void *bytes, uint32_t len)
{
    char *at = extend(array, 4 + (size_t)len);
    if (!at)
        return;
    put32(at, len);
    memcpy(at + 4, bytes, len);
    array->count++;
}

void kiln_array_start(struct kiln_array *array, enum kiln_array_type type)
{
    *array = (struct kiln_array){.type = type};
    char *head = extend(array, ARRAY_HEAD);
    if (head)
        memset(head, 0, ARRAY_HEAD);
}

void kiln_array_text(struct kiln_array *array, const char *text)
{
    if (text) {
        size_t len = strlen(text);
        put_element(array, text, (uint32_t)len);
        if (!array->short_of_memory)
            kiln_utf8_clean(array->bytes + array->len - len, len);
        return;
    }
    char *at = extend(array, 4);
    if (!at)
        return;
    put32(at, UINT32_MAX); /* length -1: NULL */
    put32(array->bytes + 4, 1);
    array->count++;
}

void kiln_array_int(struct kiln_array *array, int64_t value)
{
    uint64_t eight = htobe64((uint64_t)value);
    uint32_t four = htobe32((uint32_t)value);
    uint16_t two = htobe16((uint16_t)value);
    uint8_t one = value != 0;
    switch (array->type) {
    case KILN_ARRAY_INT8:
        put_element(array, &eight, 8);
        break;
    case KILN_ARRAY_INT4:
        put_element(array, &four, 4);
        break;
    case KILN_ARRAY_INT2:
        put_element(array, &two, 2);
        break;
    default:
        put_element(array, &one, 1);
    }
}

void kiln_array_double(struct kiln_array *array, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, 8);
    bits = htobe64(bits);
    put_element(array, &bits, 8);
}

void kiln_bind_array(struct kiln_params *params, struct kiln_array *array)
{
    if (array->short_of_memory || params->count == KILN_PARAMS_MAX) {
        free(array->bytes);
        params->short_of_memory = true;
        *array = (struct kiln_array){0};
        return;
    }
    put32(array->bytes, array->count > 0); /* dimensions: an empty array has none */
    put32(array->bytes + 8, (uint32_t)array->type);
    put32(array->bytes + 12, array->count);
    put32(array->bytes + 16, 1); /* lower bound */
    params->owned[params->count] = array->bytes;
    add(params, array->bytes, (int)(array->count ? array->len : 12), 1);
    *array = (struct kiln_array){0};
}

void kiln_bind_shared(struct kiln_params *params, struct kiln_array *array)
{
    if (array->count > 1 && !array->short_of_memory) {
        const char *first = array->bytes + ARRAY_HEAD;
        uint32_t len;
        memcpy(&len, first, 4);
        len = be32toh(len);
        const size_t size = 4 + (len == UINT32_MAX ? 0 : (size_t)len); /* UINT32_MAX: NULL */
        bool same = array->len == ARRAY_HEAD + size * array->count;
        for (uint32_t i = 1; i < array->count && same; i++)
            same = memcmp(first, first + i * size, size) == 0;
        if (same) {
            array->count = 1;
            array->len = ARRAY_HEAD + size;
        }
    }
    kiln_bind_array(params, array);
}

void kiln_params_release(struct kiln_params *params)
{
    for (int i = 0; i < params->count; i++)
        free(params->owned[i]);
    memset(params, 0, sizeof *params);
}
