/* model_card.c - reads kiln.json.
 *
 * A misspelt value must not silently turn coarse off, so each known key is checked in full.  Keys
 * of later releases are passed over: an older worker can use the same model directory.
 */
#include "storage/formats/model_card.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/job/sizes.h"
#include "schemas/text/json.h"
#include "storage/formats/json_bounds.h"
#include "storage/formats/regular.h"

#define CARD_BYTES_MAX (256 * 1024)
#define CARD_DEPTH_MAX KILN_JSON_DEPTH
#define CARD_VALUES_MAX 16384
#define TEXT_MAX 64 /* bytes of a mode or a size */
#define PATH_BYTES_MAX 4096

/* Turns an error inside the file into one that names the file and the key. */
static int refuse(const char *key, struct kiln_error *err)
{
    struct kiln_error why = *err;
    return kiln_fail(err, why.code == KILN_NO_MEMORY ? why.code : KILN_CONFIG, "\"%s\": %s", key,
                     why.text);
}

/* A text of at most TEXT_MAX - 1 bytes. */
static int read_text(const struct kiln_json_value *value, char text[TEXT_MAX],
                     struct kiln_error *err)
{
    size_t len;
    if (value->type != KILN_JSON_STRING)
        return kiln_fail(err, KILN_CONFIG, "expected text, found %s",
                         kiln_json_type_name(value->type));
    if (!kiln_json_string(value, text, TEXT_MAX, &len))
        return kiln_fail(err, KILN_CONFIG, "text of more than %d bytes", TEXT_MAX - 1);
    return 0;
}

/* "WIDTHxHEIGHT" alone, without the names of sizes.h. */
static int read_size(const char *text, size_t len, struct kiln_picture_size *ret,
                     struct kiln_error *err)
{
    if (memchr(text, ':', len))
        return kiln_fail(err, KILN_CONFIG, "\"%.*s\": a size here is WIDTHxHEIGHT", (int)len, text);
    return kiln_size_parse(text, len, &ret->width, &ret->height, err);
}

/* "WIDTHxHEIGHT" or "WIDTHxHEIGHT..WIDTHxHEIGHT". */
static int read_sizes(const char *text, struct kiln_card_sizes *ret, struct kiln_error *err)
{
    struct kiln_picture_size min, max;
    const char *dots = strstr(text, ".."), *high = dots ? dots + 2 : text;
    int code = read_size(text, dots ? (size_t)(dots - text) : strlen(text), &min, err);
    code = code ? code : read_size(high, strlen(high), &max, err);
    if (code != 0)
        return code;
    if (min.width > max.width || min.height > max.height)
        return kiln_fail(err, KILN_CONFIG, "\"%s\": the first size is larger than the second",
                         text);
    *ret = (struct kiln_card_sizes){min.width, min.height, max.width, max.height};
    return 0;
}

/* A list of at most `most` texts, each read by `each` as element number *count of a list in ret. */
static int read_list(const struct kiln_json_value *value, uint32_t *count, uint32_t most,
                     int (*each)(const char *text, void *ret, struct kiln_error *err), void *ret,
                     struct kiln_error *err)
{
    struct kiln_json_reader reader;
    struct kiln_json_value element;
    char text[TEXT_MAX];
    bool more = false;
    *count = 0;
    if (value->type != KILN_JSON_ARRAY)
        return kiln_fail(err, KILN_CONFIG, "expected a list, found %s",
                         kiln_json_type_name(value->type));
    int code = kiln_json_open(&reader, value->text, value->len, KILN_JSON_ARRAY, err);
    while (code == 0 && (code = kiln_json_next(&reader, NULL, &element, &more, err)) == 0 && more) {
        if (*count == most)
            return kiln_fail(err, KILN_CONFIG, "at most %u sizes are allowed", most);
        code = read_text(&element, text, err);
        code = code ? code : each(text, ret, err);
        *count += code == 0;
    }
    return code;
}

static int read_small(const char *text, void *ret, struct kiln_error *err)
{
    struct kiln_model_card *card = ret;
    return read_size(text, strlen(text), &card->coarse_sizes[card->coarse_size_count], err);
}

static int read_for(const char *text, void *ret, struct kiln_error *err)
{
    struct kiln_model_card *card = ret;
    return read_sizes(text, &card->coarse_for[card->coarse_for_count], err);
}

/* "S+L", as in a job's key coarse. */
static int read_auto(const struct kiln_json_value *value, struct kiln_model_card *card,
                     struct kiln_error *err)
{
    char text[TEXT_MAX];
    int code = read_text(value, text, err);
    if (code != 0)
        return code;
    if (!kiln_mode_parse_coarse(text, &card->coarse) || card->coarse.kind == KILN_MODE_COARSE_AUTO)
        return kiln_fail(err, KILN_CONFIG, "\"%s\": expected \"off\" or \"S+L\", such as \"4+3\"",
                         text);
    return 0;
}

/* A number of steps. */
static int read_count(const struct kiln_json_value *value, uint32_t *ret, struct kiln_error *err)
{
    uint64_t steps;
    if (value->type != KILN_JSON_NUMBER || !kiln_json_u64(value, &steps) ||
        steps < KILN_STEPS_MIN || steps > KILN_STEPS_MAX)
        return kiln_fail(err, KILN_CONFIG, "expected a number of steps, %d to %d", KILN_STEPS_MIN,
                         KILN_STEPS_MAX);
    *ret = (uint32_t)steps;
    return 0;
}

static int read_lora_size(const char *text, void *ret, struct kiln_error *err)
{
    struct kiln_card_lora *lora = ret;
    return read_sizes(text, &lora->sizes[lora->size_count], err);
}

static int read_lora_key(const struct kiln_json_value *key, const struct kiln_json_value *value,
                         struct kiln_card_lora *lora, struct kiln_error *err)
{
    char text[KILN_CARD_SHA256];
    size_t len = 0;
    if (kiln_json_equals(key, "sha256")) {
        if (value->type != KILN_JSON_STRING || !kiln_json_string(value, text, sizeof text, &len) ||
            len != KILN_CARD_SHA256 - 1 || strspn(text, "0123456789abcdef") != len)
            return kiln_fail(err, KILN_CONFIG, "\"sha256\": expected 64 hex digits");
        memcpy(lora->sha256, text, sizeof text);
    }
    if (kiln_json_equals(key, "strength") &&
        (value->type != KILN_JSON_NUMBER || !kiln_json_double(value, &lora->strength) ||
         !(lora->strength > 0 && lora->strength <= KILN_LORA_SCALE_MAX)))
        return kiln_fail(err, KILN_CONFIG, "\"strength\": expected a number above 0, %g at most",
                         KILN_LORA_SCALE_MAX);
    if (kiln_json_equals(key, "for") &&
        read_list(value, &lora->size_count, KILN_CARD_LORA_SIZES, read_lora_size, lora, err))
        return refuse("for", err);
    return 0;
}

/* {"sha256": ..., "strength": 1, "for": [sizes]} */
static int read_lora(const struct kiln_json_value *value, struct kiln_card_lora *lora,
                     struct kiln_error *err)
{
    struct kiln_json_reader reader;
    struct kiln_json_value key, member;
    bool more = false;
    *lora = (struct kiln_card_lora){.strength = 1};
    if (value->type != KILN_JSON_OBJECT)
        return kiln_fail(err, KILN_CONFIG, "expected an object, found %s",
                         kiln_json_type_name(value->type));
    int code = kiln_json_open(&reader, value->text, value->len, KILN_JSON_OBJECT, err);
    while (code == 0 && (code = kiln_json_next(&reader, &key, &member, &more, err)) == 0 && more)
        code = read_lora_key(&key, &member, lora, err);
    if (code == 0 && !lora->sha256[0])
        code = kiln_fail(err, KILN_CONFIG, "a LoRA without \"sha256\"");
    return code;
}

static int read_loras(const struct kiln_json_value *value, struct kiln_model_card *card,
                      struct kiln_error *err)
{
    struct kiln_json_reader reader;
    struct kiln_json_value element;
    bool more = false;
    card->coarse_lora_count = 0;
    if (value->type != KILN_JSON_ARRAY)
        return kiln_fail(err, KILN_CONFIG, "expected a list, found %s",
                         kiln_json_type_name(value->type));
    int code = kiln_json_open(&reader, value->text, value->len, KILN_JSON_ARRAY, err);
    while (code == 0 && (code = kiln_json_next(&reader, NULL, &element, &more, err)) == 0 && more) {
        if (card->coarse_lora_count == KILN_LIST_MAX)
            return kiln_fail(err, KILN_CONFIG, "at most %d LoRAs are allowed", KILN_LIST_MAX);
        code = read_lora(&element, &card->coarse_loras[card->coarse_lora_count], err);
        card->coarse_lora_count += code == 0;
    }
    return code;
}

/* One key of "coarse". */
static int read_coarse_key(const struct kiln_json_value *key, const struct kiln_json_value *value,
                           struct kiln_model_card *card, struct kiln_error *err)
{
    if (kiln_json_equals(key, "auto"))
        return read_auto(value, card, err) ? refuse("coarse.auto", err) : 0;
    if (kiln_json_equals(key, "steps"))
        return read_count(value, &card->coarse_steps, err) ? refuse("coarse.steps", err) : 0;
    if (kiln_json_equals(key, "sizes"))
        return read_list(value, &card->coarse_size_count, KILN_LIST_MAX, read_small, card, err)
                   ? refuse("coarse.sizes", err)
                   : 0;
    if (kiln_json_equals(key, "for"))
        return read_list(value, &card->coarse_for_count, KILN_LIST_MAX, read_for, card, err)
                   ? refuse("coarse.for", err)
                   : 0;
    if (kiln_json_equals(key, "loras"))
        return read_loras(value, card, err) ? refuse("coarse.loras", err) : 0;
    return 0;
}

/* The keys of an object, each read by `each`. */
static int read_object(const char *name, const struct kiln_json_value *value,
                       int (*each)(const struct kiln_json_value *key,
                                   const struct kiln_json_value *value,
                                   struct kiln_model_card *card, struct kiln_error *err),
                       struct kiln_model_card *card, struct kiln_error *err)
{
    struct kiln_json_reader reader;
    struct kiln_json_value key, member;
    bool more = false;
    if (value->type != KILN_JSON_OBJECT)
        return kiln_fail(err, KILN_CONFIG, "\"%s\": expected an object, found %s", name,
                         kiln_json_type_name(value->type));
    int code = kiln_json_open(&reader, value->text, value->len, KILN_JSON_OBJECT, err);
    while (code == 0 && (code = kiln_json_next(&reader, &key, &member, &more, err)) == 0 && more)
        code = each(&key, &member, card, err);
    return code;
}

static int read_coarse(const struct kiln_json_value *value, struct kiln_model_card *card,
                       struct kiln_error *err)
{
    card->coarse_steps = KILN_STEPS_DEFAULT;
    int code = read_object("coarse", value, read_coarse_key, card, err);
    if (code == 0 && card->coarse.kind == KILN_MODE_COARSE &&
        card->coarse.small > card->coarse_steps)
        code = kiln_fail(err, KILN_CONFIG, "\"coarse.auto\": %u small steps of a schedule of %u",
                         card->coarse.small, card->coarse_steps);
    return code;
}

/* Noise levels from 1 down, above 0. */
static int read_sigmas(const struct kiln_json_value *value, struct kiln_model_card *card,
                       struct kiln_error *err)
{
    struct kiln_json_reader reader;
    struct kiln_json_value element;
    bool more = false;
    if (value->type != KILN_JSON_ARRAY)
        return kiln_fail(err, KILN_CONFIG, "expected a list, found %s",
                         kiln_json_type_name(value->type));
    int code = kiln_json_open(&reader, value->text, value->len, KILN_JSON_ARRAY, err);
    double above = 2;
    card->sigma_count = 0;
    while (code == 0 && (code = kiln_json_next(&reader, NULL, &element, &more, err)) == 0 && more) {
        double sigma;
        if (card->sigma_count == KILN_STEPS_MAX)
            return kiln_fail(err, KILN_CONFIG, "at most %d sigmas are allowed", KILN_STEPS_MAX);
        if (element.type != KILN_JSON_NUMBER || !kiln_json_double(&element, &sigma) ||
            !(sigma > 0 && sigma < above && (card->sigma_count > 0 || sigma == 1)))
            return kiln_fail(err, KILN_CONFIG,
                             "number %u: expected noise levels that fall from 1 and stay above 0; "
                             "the last step goes to 0 by itself",
                             card->sigma_count + 1);
        card->sigmas[card->sigma_count++] = above = sigma;
    }
    if (code == 0 && card->sigma_count == 0)
        code = kiln_fail(err, KILN_CONFIG, "expected at least one noise level");
    return code;
}

/* One key of "schedule". */
static int read_schedule_key(const struct kiln_json_value *key, const struct kiln_json_value *value,
                             struct kiln_model_card *card, struct kiln_error *err)
{
    if (kiln_json_equals(key, "steps"))
        return read_count(value, &card->steps, err) ? refuse("schedule.steps", err) : 0;
    if (kiln_json_equals(key, "sigmas"))
        return read_sigmas(value, card, err) ? refuse("schedule.sigmas", err) : 0;
    return 0;
}

static int read_schedule(const struct kiln_json_value *value, struct kiln_model_card *card,
                         struct kiln_error *err)
{
    int code = read_object("schedule", value, read_schedule_key, card, err);
    if (code == 0 && card->sigma_count > 0 && card->steps == 0)
        card->steps = card->sigma_count;
    if (code == 0 && card->sigma_count > 0 && card->steps != card->sigma_count)
        code = kiln_fail(err, KILN_CONFIG, "\"schedule\": %u steps, but %u sigmas", card->steps,
                         card->sigma_count);
    return code;
}

int kiln_model_card_parse(const char *text, size_t len, const char *path,
                          struct kiln_model_card *ret, struct kiln_error *err)
{
    struct kiln_json_reader reader;
    struct kiln_json_value key, value;
    struct kiln_model_card card = {0};
    struct kiln_error why;
    bool more = false;
    int code = kiln_json_bounds(text, len, CARD_DEPTH_MAX, CARD_VALUES_MAX, "the file", &why);
    code = code ? code : kiln_json_open(&reader, text, len, KILN_JSON_OBJECT, &why);
    while (code == 0 && (code = kiln_json_next(&reader, &key, &value, &more, &why)) == 0 && more)
        if (kiln_json_equals(&key, "coarse"))
            code = read_coarse(&value, &card, &why);
        else if (kiln_json_equals(&key, "schedule"))
            code = read_schedule(&value, &card, &why);
    if (code != 0)
        return kiln_fail(err, code == KILN_NO_MEMORY ? code : KILN_CONFIG,
                         "%s: %s (correct or remove the file)", path, why.text);
    *ret = card;
    return 0;
}

int kiln_model_card_read(const char *dir, struct kiln_model_card *ret, struct kiln_error *err)
{
    char path[PATH_BYTES_MAX], *text;
    struct kiln_error why;
    size_t len;
    if ((size_t)snprintf(path, sizeof path, "%s/" KILN_MODEL_CARD, dir) >= sizeof path)
        return kiln_fail(err, KILN_CONFIG, "model: the path %.80s... is too long", dir);
    int code = kiln_regular_read(path, CARD_BYTES_MAX, &text, &len, &why);
    if (code == KILN_NOT_FOUND) {
        *ret = (struct kiln_model_card){0};
        return 0;
    }
    if (code != 0)
        return kiln_fail(err, code == KILN_NO_MEMORY ? code : KILN_CONFIG, "%s", why.text);
    code = kiln_model_card_parse(text, len, path, ret, err);
    free(text);
    return code;
}

static bool within(const struct kiln_card_sizes *sizes, uint32_t count,
                   const struct kiln_card_picture *p)
{
    for (uint32_t i = 0; i < count; i++)
        if (p->width >= sizes[i].width_min && p->width <= sizes[i].width_max &&
            p->height >= sizes[i].height_min && p->height <= sizes[i].height_max)
            return true;
    return false;
}

/* Whether the picture's LoRA, if it has one, was measured at its size.  Strengths are compared as
 * the engine takes them: 0.8 of a job line and the float of a command line are then one. */
static bool loras_hold(const struct kiln_model_card *card, const struct kiln_card_picture *p)
{
    const float scale = (float)p->lora_scale;
    if (p->lora_count == 0)
        return true;
    for (uint32_t i = 0; p->lora_count == 1 && p->lora_sha256 && i < card->coarse_lora_count; i++) {
        const struct kiln_card_lora *lora = &card->coarse_loras[i];
        if (strcmp(lora->sha256, p->lora_sha256) == 0 && scale >= 0 &&
            scale <= (float)lora->strength && within(lora->sizes, lora->size_count, p))
            return true;
    }
    return false;
}

struct kiln_mode kiln_model_card_mode(const struct kiln_model_card *card,
                                      const struct kiln_mode *mode,
                                      const struct kiln_card_picture *p)
{
    struct kiln_mode ret = {.kind = KILN_MODE_EXACT};
    if (mode->kind != KILN_MODE_COARSE_AUTO)
        return *mode;
    if (p->steps == card->coarse_steps && p->guidance == 0 && mode->variety == 0 &&
        within(card->coarse_for, card->coarse_for_count, p) && loras_hold(card, p))
        ret = card->coarse;
    ret.variety = mode->variety;
    return ret;
}

int kiln_model_card_steps(const struct kiln_config *config, uint32_t *ret, struct kiln_error *err)
{
    const char *dir = kiln_config_text(config, KILN_KEY_MODEL);
    struct kiln_model_card card = {0};
    *ret = (uint32_t)kiln_config_int(config, KILN_KEY_DEFAULT_STEPS);
    if (*ret > 0)
        return 0;
    int code = dir[0] ? kiln_model_card_read(dir, &card, err) : 0;
    if (code == 0)
        *ret = card.steps > 0 ? card.steps : KILN_STEPS_DEFAULT;
    return code;
}

const double *kiln_model_card_sigmas(const struct kiln_model_card *card, uint32_t steps)
{
    return card->sigma_count > 0 && card->sigma_count == steps ? card->sigmas : NULL;
}
