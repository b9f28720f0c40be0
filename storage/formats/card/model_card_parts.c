/* model_card_parts.c - see model_card_parts.h. */
#include "storage/formats/card/model_card_parts.h"

#include <string.h>

#include "schemas/job/sizes.h"

int kiln_card_refuse(const char *key, struct kiln_error *err)
{
    struct kiln_error why = *err;
    return kiln_fail(err, why.code == KILN_NO_MEMORY ? why.code : KILN_CONFIG, "\"%s\": %s", key,
                     why.text);
}

/* A text of at most KILN_CARD_TEXT - 1 bytes. */
int kiln_card_text(const struct kiln_json_value *value, char text[KILN_CARD_TEXT],
                   struct kiln_error *err)
{
    size_t len;
    if (value->type != KILN_JSON_STRING)
        return kiln_fail(err, KILN_CONFIG, "expected text, found %s",
                         kiln_json_type_name(value->type));
    if (!kiln_json_string(value, text, KILN_CARD_TEXT, &len))
        return kiln_fail(err, KILN_CONFIG, "text of more than %d bytes", KILN_CARD_TEXT - 1);
    return 0;
}

/* "WIDTHxHEIGHT" alone, without the names of sizes.h. */
int kiln_card_size(const char *text, size_t len, struct kiln_picture_size *ret,
                   struct kiln_error *err)
{
    if (memchr(text, ':', len))
        return kiln_fail(err, KILN_CONFIG, "\"%.*s\": a size here is WIDTHxHEIGHT", (int)len, text);
    return kiln_size_parse(text, len, 0, &ret->width, &ret->height, err);
}

/* "WIDTHxHEIGHT" or "WIDTHxHEIGHT..WIDTHxHEIGHT". */
int kiln_card_bounds(const char *text, struct kiln_card_sizes *ret, struct kiln_error *err)
{
    struct kiln_picture_size min, max;
    const char *dots = strstr(text, ".."), *high = dots ? dots + 2 : text;
    int code = kiln_card_size(text, dots ? (size_t)(dots - text) : strlen(text), &min, err);
    code = code ? code : kiln_card_size(high, strlen(high), &max, err);
    if (code != 0)
        return code;
    if (min.width > max.width || min.height > max.height)
        return kiln_fail(err, KILN_CONFIG, "\"%s\": the first size is larger than the second",
                         text);
    *ret = (struct kiln_card_sizes){min.width, min.height, max.width, max.height};
    return 0;
}

int kiln_card_sha256(const struct kiln_json_value *value, char ret[KILN_CARD_SHA256],
                     struct kiln_error *err)
{
    char text[KILN_CARD_SHA256];
    size_t len = 0;
    if (value->type != KILN_JSON_STRING || !kiln_json_string(value, text, sizeof text, &len) ||
        len != KILN_CARD_SHA256 - 1 || strspn(text, "0123456789abcdef") != len)
        return kiln_fail(err, KILN_CONFIG, "\"sha256\": expected 64 hex digits");
    memcpy(ret, text, sizeof text);
    return 0;
}

int kiln_card_strength(const struct kiln_json_value *value, double *ret, struct kiln_error *err)
{
    if (value->type == KILN_JSON_NUMBER && kiln_json_double(value, ret) && *ret > 0 &&
        *ret <= KILN_LORA_SCALE_MAX)
        return 0;
    return kiln_fail(err, KILN_CONFIG, "\"strength\": expected a number above 0, %g at most",
                     KILN_LORA_SCALE_MAX);
}

/* A list of at most `most` values, each read by `each`. */
int kiln_card_values(const struct kiln_json_value *value, uint32_t most, const char *what,
                     int (*each)(const struct kiln_json_value *element, void *ret,
                                 struct kiln_error *err),
                     void *ret, struct kiln_error *err)
{
    struct kiln_json_reader reader;
    struct kiln_json_value element;
    bool more = false;
    uint32_t count = 0;
    if (value->type != KILN_JSON_ARRAY)
        return kiln_fail(err, KILN_CONFIG, "expected a list, found %s",
                         kiln_json_type_name(value->type));
    int code = kiln_json_open(&reader, value->text, value->len, KILN_JSON_ARRAY, err);
    while (code == 0 && (code = kiln_json_next(&reader, NULL, &element, &more, err)) == 0 && more)
        code = ++count > most ? kiln_fail(err, KILN_CONFIG, "at most %u %s are allowed", most, what)
                              : each(&element, ret, err);
    return code;
}

/* A list of at most `most` texts, each read by `each` as element number *count of a list in ret. */
int kiln_card_list(const struct kiln_json_value *value, uint32_t *count, uint32_t most,
                   int (*each)(const char *text, void *ret, struct kiln_error *err), void *ret,
                   struct kiln_error *err)
{
    struct kiln_json_reader reader;
    struct kiln_json_value element;
    char text[KILN_CARD_TEXT];
    bool more = false;
    *count = 0;
    if (value->type != KILN_JSON_ARRAY)
        return kiln_fail(err, KILN_CONFIG, "expected a list, found %s",
                         kiln_json_type_name(value->type));
    int code = kiln_json_open(&reader, value->text, value->len, KILN_JSON_ARRAY, err);
    while (code == 0 && (code = kiln_json_next(&reader, NULL, &element, &more, err)) == 0 && more) {
        if (*count == most)
            return kiln_fail(err, KILN_CONFIG, "at most %u sizes are allowed", most);
        code = kiln_card_text(&element, text, err);
        code = code ? code : each(text, ret, err);
        *count += code == 0;
    }
    return code;
}

/* A number of steps. */
int kiln_card_count(const struct kiln_json_value *value, uint32_t *ret, struct kiln_error *err)
{
    uint64_t steps;
    if (value->type != KILN_JSON_NUMBER || !kiln_json_u64(value, &steps) ||
        steps < KILN_STEPS_MIN || steps > KILN_STEPS_MAX)
        return kiln_fail(err, KILN_CONFIG, "expected a number of steps, %d to %d", KILN_STEPS_MIN,
                         KILN_STEPS_MAX);
    *ret = (uint32_t)steps;
    return 0;
}

int kiln_card_object(const char *name, const struct kiln_json_value *value, kiln_card_each *each,
                     void *ret, struct kiln_error *err)
{
    struct kiln_json_reader reader;
    struct kiln_json_value key, member;
    bool more = false;
    if (value->type != KILN_JSON_OBJECT)
        return kiln_fail(err, KILN_CONFIG, "\"%s\": expected an object, found %s", name,
                         kiln_json_type_name(value->type));
    int code = kiln_json_open(&reader, value->text, value->len, KILN_JSON_OBJECT, err);
    while (code == 0 && (code = kiln_json_next(&reader, &key, &member, &more, err)) == 0 && more)
        code = each(&key, &member, ret, err);
    return code;
}

int kiln_card_model(const struct kiln_json_value *value, char ret[KILN_CARD_MODEL],
                    struct kiln_error *err)
{
    char text[KILN_CARD_TEXT];
    int code = kiln_card_text(value, text, err);
    if (code == 0 && (strlen(text) != KILN_CARD_MODEL - 1 ||
                      strspn(text, "0123456789abcdef") != KILN_CARD_MODEL - 1))
        code = kiln_fail(err, KILN_CONFIG, "\"%s\": expected the %d hex digits of a model's hash",
                         text, KILN_CARD_MODEL - 1);
    if (code == 0)
        memcpy(ret, text, KILN_CARD_MODEL);
    return code;
}

static int read_dtype(const struct kiln_json_value *value, void *ret, struct kiln_error *err)
{
    static const char *const names[KILN_CARD_DTYPES] = {"fp32", "bf16", "fp8"};
    struct kiln_card_dtypes *dtypes = ret;
    char text[KILN_CARD_TEXT];
    int code = kiln_card_text(value, text, err);
    for (size_t i = 0; i < KILN_CARD_DTYPES && code == 0; i++)
        if (strcmp(text, names[i]) == 0) {
            memcpy(dtypes->names[dtypes->count++], names[i], strlen(names[i]) + 1);
            return 0;
        }
    return code ? code
                : kiln_fail(err, KILN_CONFIG, "\"%s\": expected \"fp32\", \"bf16\" or \"fp8\"",
                            text);
}

int kiln_card_dtypes(const struct kiln_json_value *value, struct kiln_card_dtypes *ret,
                     struct kiln_error *err)
{
    ret->count = 0;
    return kiln_card_values(value, KILN_CARD_DTYPES, "dtypes", read_dtype, ret, err);
}

bool kiln_card_sizes_have(const struct kiln_card_sizes *sizes, uint32_t count, uint32_t width,
                          uint32_t height)
{
    for (uint32_t i = 0; i < count; i++)
        if (width >= sizes[i].width_min && width <= sizes[i].width_max &&
            height >= sizes[i].height_min && height <= sizes[i].height_max)
            return true;
    return false;
}

bool kiln_card_dtypes_have(const struct kiln_card_dtypes *dtypes, const char *dtype)
{
    bool has = dtypes->count == 0;
    for (uint32_t i = 0; i < dtypes->count; i++)
        has = has || strcmp(dtypes->names[i], dtype) == 0;
    return has;
}

struct kiln_card_picture kiln_card_picture_of(const struct kiln_job *job)
{
    const char *sha256 = job->loras[0].sha256;
    return (struct kiln_card_picture){.width = job->width,
                                      .height = job->height,
                                      .steps = job->steps,
                                      .guidance = job->guidance,
                                      .lora_count = job->lora_count,
                                      .lora_sha256 = sha256[0] ? sha256 : NULL,
                                      .lora_scale = job->loras[0].scale};
}

bool kiln_card_lora_is(const char *sha256, double strength, const struct kiln_card_picture *p)
{
    const size_t digits = p->lora_count == 1 && p->lora_sha256 ? strlen(p->lora_sha256) : 0;
    return digits >= KILN_LORA_KEY_DIGITS && strncmp(sha256, p->lora_sha256, digits) == 0 &&
           p->lora_scale >= 0 &&
           kiln_lora_set_scale(p->lora_scale) <= kiln_lora_set_scale(strength);
}
