/* model_card_read.c - reads kiln.json.
 *
 * A misspelt value must not silently turn coarse off, so each known key is checked in full.  Keys
 * of later releases are passed over: an older worker can use the same model directory.
 */
#include "storage/formats/card/model_card.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/job/sizes.h"
#include "schemas/names.h"
#include "schemas/text/json.h"
#include "storage/formats/card/model_card_parts.h"
#include "storage/formats/json_bounds.h"
#include "storage/formats/regular.h"

#define CARD_BYTES_MAX (256 * 1024)
#define CARD_DEPTH_MAX KILN_JSON_DEPTH
#define CARD_VALUES_MAX 32768
#define PATH_BYTES_MAX 4096

static int read_small(const char *text, void *ret, struct kiln_error *err)
{
    struct kiln_model_card *card = ret;
    return kiln_card_size(text, strlen(text), &card->coarse_sizes[card->coarse_size_count], err);
}

static int read_for(const char *text, void *ret, struct kiln_error *err)
{
    struct kiln_model_card *card = ret;
    return kiln_card_bounds(text, &card->coarse_for[card->coarse_for_count], err);
}

/* "S+L" or "S+M+L", as in a job's key coarse. */
static int read_auto(const struct kiln_json_value *value, struct kiln_model_card *card,
                     struct kiln_error *err)
{
    char text[KILN_CARD_TEXT];
    int code = kiln_card_text(value, text, err);
    if (code != 0)
        return code;
    if (!kiln_mode_parse_coarse(text, &card->coarse) || card->coarse.kind == KILN_MODE_COARSE_AUTO)
        return kiln_fail(err, KILN_CONFIG,
                         "\"%s\": expected \"off\", \"S+L\" or \"S+M+L\", such as \"4+3\"", text);
    return 0;
}

static int read_lora_size(const char *text, void *ret, struct kiln_error *err)
{
    struct kiln_card_lora *lora = ret;
    return kiln_card_bounds(text, &lora->sizes[lora->size_count], err);
}

static int read_lora_key(const struct kiln_json_value *key, const struct kiln_json_value *value,
                         struct kiln_card_lora *lora, struct kiln_error *err)
{
    if (kiln_json_equals(key, "sha256"))
        return kiln_card_sha256(value, lora->sha256, err);
    if (kiln_json_equals(key, "strength"))
        return kiln_card_strength(value, &lora->strength, err);
    if (kiln_json_equals(key, "for") &&
        kiln_card_list(value, &lora->size_count, KILN_CARD_LORA_SIZES, read_lora_size, lora, err))
        return kiln_card_refuse("for", err);
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

static int read_next_lora(const struct kiln_json_value *value, void *ret, struct kiln_error *err)
{
    struct kiln_model_card *card = ret;
    int code = read_lora(value, &card->coarse_loras[card->coarse_lora_count], err);
    card->coarse_lora_count += code == 0;
    return code;
}

/* One key of "coarse". */
static int read_coarse_key(const struct kiln_json_value *key, const struct kiln_json_value *value,
                           void *ret, struct kiln_error *err)
{
    struct kiln_model_card *card = ret;
    if (kiln_json_equals(key, "auto"))
        return read_auto(value, card, err) ? kiln_card_refuse("coarse.auto", err) : 0;
    if (kiln_json_equals(key, "steps"))
        return kiln_card_count(value, &card->coarse_steps, err)
                   ? kiln_card_refuse("coarse.steps", err)
                   : 0;
    if (kiln_json_equals(key, "sizes"))
        return kiln_card_list(value, &card->coarse_size_count, KILN_LIST_MAX, read_small, card, err)
                   ? kiln_card_refuse("coarse.sizes", err)
                   : 0;
    if (kiln_json_equals(key, "for"))
        return kiln_card_list(value, &card->coarse_for_count, KILN_LIST_MAX, read_for, card, err)
                   ? kiln_card_refuse("coarse.for", err)
                   : 0;
    if (kiln_json_equals(key, "loras")) {
        card->coarse_lora_count = 0;
        return kiln_card_values(value, KILN_LIST_MAX, "LoRAs", read_next_lora, card, err)
                   ? kiln_card_refuse("coarse.loras", err)
                   : 0;
    }
    if (kiln_json_equals(key, "model"))
        return kiln_card_model(value, card->coarse_model, err)
                   ? kiln_card_refuse("coarse.model", err)
                   : 0;
    if (kiln_json_equals(key, "dtypes"))
        return kiln_card_dtypes(value, &card->coarse_dtypes, err)
                   ? kiln_card_refuse("coarse.dtypes", err)
                   : 0;
    return 0;
}

static int read_coarse(const struct kiln_json_value *value, struct kiln_model_card *card,
                       struct kiln_error *err)
{
    card->coarse_steps = KILN_STEPS_DEFAULT;
    int code = kiln_card_object("coarse", value, read_coarse_key, card, err);
    if (code == 0 && card->coarse.kind == KILN_MODE_COARSE &&
        card->coarse.small + card->coarse.middle > card->coarse_steps)
        code = kiln_fail(err, KILN_CONFIG, "\"coarse.auto\": %u small steps of a schedule of %u",
                         card->coarse.small + card->coarse.middle, card->coarse_steps);
    return code;
}

/* A noise level; they fall from near 1 and stay above 0. */
static int read_sigma(const struct kiln_json_value *value, void *ret, struct kiln_error *err)
{
    struct kiln_model_card *card = ret;
    const uint32_t i = card->sigma_count;
    double sigma;
    if (value->type != KILN_JSON_NUMBER || !kiln_json_double(value, &sigma) ||
        !(i == 0 ? sigma >= KILN_SIGMA_FIRST_MIN && sigma <= 1
                 : sigma > 0 && sigma < card->sigmas[i - 1]))
        return kiln_fail(err, KILN_CONFIG,
                         "number %u: expected noise levels that fall from 1, or from %g at least, "
                         "and stay above 0; the last step goes to 0 by itself",
                         i + 1, KILN_SIGMA_FIRST_MIN);
    card->sigmas[card->sigma_count++] = sigma;
    return 0;
}

static int read_sigmas(const struct kiln_json_value *value, struct kiln_model_card *card,
                       struct kiln_error *err)
{
    card->sigma_count = 0;
    int code = kiln_card_values(value, KILN_STEPS_MAX, "sigmas", read_sigma, card, err);
    if (code == 0 && card->sigma_count == 0)
        code = kiln_fail(err, KILN_CONFIG, "expected at least one noise level");
    return code;
}

/* --- weights for some of the steps ------------------------------------------------------------ */

/* [FIRST, LAST], counted from 1. */
static int read_range(const struct kiln_json_value *value, struct kiln_card_weights *w,
                      struct kiln_error *err)
{
    struct kiln_json_reader reader;
    struct kiln_json_value element;
    uint32_t steps[2], count = 0;
    bool more = false;
    int code = value->type == KILN_JSON_ARRAY
                   ? kiln_json_open(&reader, value->text, value->len, KILN_JSON_ARRAY, err)
                   : KILN_CONFIG;
    while (code == 0 && (code = kiln_json_next(&reader, NULL, &element, &more, err)) == 0 && more &&
           count < 2)
        code = kiln_card_count(&element, &steps[count++], err);
    if (code || count != 2 || more || steps[0] > steps[1])
        return kiln_fail(err, KILN_CONFIG,
                         "\"steps\": expected the first and the last step, such as [1, 2]");
    w->first = steps[0] - 1;
    w->end = steps[1];
    return 0;
}

/* A path inside the model's directory: of a LoRA's file, or of a transformer's folder.  That of a
 * folder has one form only: it is what the engine knows the transformer by. */
static int read_path(const struct kiln_json_value *value, const char *key,
                     struct kiln_card_weights *w, struct kiln_error *err)
{
    char *path = w->path;
    size_t len;
    if (path[0])
        return kiln_fail(err, KILN_CONFIG, "\"%s\": names weights beside another name of weights",
                         key);
    w->transformer = strcmp(key, "transformer") == 0;
    if (value->type != KILN_JSON_STRING || !kiln_json_string(value, path, KILN_CARD_PATH, &len) ||
        len == 0 || strlen(path) != len || path[0] == '/' || strstr(path, ".."))
        return kiln_fail(err, KILN_CONFIG,
                         "\"%s\": expected the path of a %s inside the model's directory, of at "
                         "most %d bytes and without \"..\"",
                         key, w->transformer ? "folder" : "file", KILN_CARD_PATH - 1);
    if (!w->transformer)
        return 0;
    if (path[len - 1] == '/' || path[0] == '.' || strstr(path, "//") || strstr(path, "/."))
        return kiln_fail(err, KILN_CONFIG,
                         "\"transformer\": \"%.80s\": expected names with one \"/\" between them, "
                         "none of which begins with \".\"",
                         path);
    if (strcmp(path, "transformer") == 0)
        return kiln_fail(err, KILN_CONFIG,
                         "\"transformer\": \"transformer\" is what steps without an entry have; "
                         "name another folder");
    return 0;
}

/* A misspelt key of "schedule" would give other pictures than were meant. */
static int refuse_unknown(const struct kiln_json_value *key, const char *known,
                          struct kiln_error *err)
{
    char text[KILN_CARD_TEXT];
    const int code = kiln_card_text(key, text, err);
    return code ? code
                : kiln_fail(err, KILN_CONFIG, "unknown key \"%.60s\"; there are %s", text, known);
}

static int read_weights_key(const struct kiln_json_value *key, const struct kiln_json_value *value,
                            struct kiln_card_weights *w, struct kiln_error *err)
{
    if (kiln_json_equals(key, "steps"))
        return read_range(value, w, err);
    if (kiln_json_equals(key, "lora"))
        return read_path(value, "lora", w, err);
    if (kiln_json_equals(key, "transformer"))
        return read_path(value, "transformer", w, err);
    if (kiln_json_equals(key, "sha256"))
        return kiln_card_sha256(value, w->sha256, err);
    if (!kiln_json_equals(key, "scale"))
        return refuse_unknown(key, "\"steps\", \"lora\", \"transformer\", \"sha256\", \"scale\"",
                              err);
    if (value->type != KILN_JSON_NUMBER || !kiln_json_double(value, &w->scale) ||
        !(w->scale >= -KILN_LORA_SCALE_MAX && w->scale <= KILN_LORA_SCALE_MAX))
        return kiln_fail(err, KILN_CONFIG, "\"scale\": expected a number from -%g to %g",
                         KILN_LORA_SCALE_MAX, KILN_LORA_SCALE_MAX);
    return 0;
}

/* {"steps": [1, 2], "lora": PATH, "sha256": ..., "scale": 1}, or with "transformer": FOLDER */
static int read_weights(const struct kiln_json_value *value, void *ret, struct kiln_error *err)
{
    struct kiln_model_card *card = ret;
    struct kiln_card_weights w = {.scale = 1};
    struct kiln_json_reader reader;
    struct kiln_json_value key, member;
    bool more = false;
    if (value->type != KILN_JSON_OBJECT)
        return kiln_fail(err, KILN_CONFIG, "expected an object, found %s",
                         kiln_json_type_name(value->type));
    int code = kiln_json_open(&reader, value->text, value->len, KILN_JSON_OBJECT, err);
    while (code == 0 && (code = kiln_json_next(&reader, &key, &member, &more, err)) == 0 && more)
        code = read_weights_key(&key, &member, &w, err);
    const char *missing = !w.end         ? "\"steps\""
                          : !w.path[0]   ? "\"lora\" or \"transformer\""
                          : !w.sha256[0] ? "\"sha256\""
                                         : NULL;
    if (code == 0 && missing)
        code = kiln_fail(err, KILN_CONFIG, "number %u lacks %s", card->weight_count + 1, missing);
    if (code == 0 && w.transformer && w.scale != 1)
        code = kiln_fail(err, KILN_CONFIG, "number %u: \"scale\" is for LoRAs, not transformers",
                         card->weight_count + 1);
    if (code == 0)
        card->weights[card->weight_count++] = w;
    return code;
}

/* One key of "schedule". */
static int read_schedule_key(const struct kiln_json_value *key, const struct kiln_json_value *value,
                             void *ret, struct kiln_error *err)
{
    struct kiln_model_card *card = ret;
    if (kiln_json_equals(key, "steps"))
        return kiln_card_count(value, &card->steps, err) ? kiln_card_refuse("schedule.steps", err)
                                                         : 0;
    if (kiln_json_equals(key, "sigmas"))
        return read_sigmas(value, card, err) ? kiln_card_refuse("schedule.sigmas", err) : 0;
    if (kiln_json_equals(key, "weights")) {
        card->weight_count = 0;
        return kiln_card_values(value, KILN_STEP_LORAS_MAX, "weights", read_weights, card, err)
                   ? kiln_card_refuse("schedule.weights", err)
                   : 0;
    }
    if (!kiln_json_equals(key, "noise"))
        return refuse_unknown(key, "\"steps\", \"sigmas\", \"noise\", \"weights\"", err)
                   ? kiln_card_refuse("schedule", err)
                   : 0;
    if (value->type != KILN_JSON_NUMBER || !kiln_json_double(value, &card->noise) ||
        !(card->noise >= 0 && card->noise <= 1))
        return kiln_fail(err, KILN_CONFIG, "\"schedule.noise\": expected a number from 0 to 1");
    return 0;
}

/* A step has one transformer. */
static int check_overlap(const struct kiln_model_card *card, uint32_t number,
                         struct kiln_error *err)
{
    const struct kiln_card_weights *w = &card->weights[number];
    for (uint32_t i = 0; i < number && w->transformer; i++) {
        const struct kiln_card_weights *other = &card->weights[i];
        if (other->transformer && other->first < w->end && w->first < other->end)
            return kiln_fail(err, KILN_CONFIG,
                             "\"schedule.weights\": number %u: its steps are also those of the "
                             "transformer of number %u",
                             number + 1, i + 1);
    }
    return 0;
}

static int read_schedule(const struct kiln_json_value *value, struct kiln_model_card *card,
                         struct kiln_error *err)
{
    int code = kiln_card_object("schedule", value, read_schedule_key, card, err);
    if (code == 0 && card->sigma_count > 0 && card->steps == 0)
        card->steps = card->sigma_count;
    if (code == 0 && card->sigma_count > 0 && card->steps != card->sigma_count)
        code = kiln_fail(err, KILN_CONFIG, "\"schedule\": %u steps, but %u sigmas", card->steps,
                         card->sigma_count);
    if (code == 0 && card->weight_count > 0 && card->steps == 0)
        code = kiln_fail(err, KILN_CONFIG, "\"schedule\": weights, but no number of steps");
    for (uint32_t i = 0; i < card->weight_count && code == 0; i++)
        if (card->weights[i].end > card->steps)
            code = kiln_fail(err, KILN_CONFIG, "\"schedule.weights\": number %u: step %u of %u",
                             i + 1, card->weights[i].end, card->steps);
        else
            code = check_overlap(card, i, err);
    return code;
}

/* A size that the model renders well. */
static int read_known(const char *text, void *ret, struct kiln_error *err)
{
    struct kiln_model_card *card = ret;
    return kiln_card_bounds(text, &card->sizes[card->size_count], err);
}

/* A size, or sizes within bounds, and the most variety there. */
static int read_variety_size(const struct kiln_json_value *key, const struct kiln_json_value *value,
                             void *ret, struct kiln_error *err)
{
    struct kiln_model_card *card = ret;
    struct kiln_card_variety variety;
    char text[KILN_CARD_TEXT];
    int code = card->variety_count < KILN_LIST_MAX
                   ? kiln_card_text(key, text, err)
                   : kiln_fail(err, KILN_CONFIG, "at most %d sizes are allowed", KILN_LIST_MAX);
    code = code ? code : kiln_card_bounds(text, &variety.sizes, err);
    if (code == 0 && (value->type != KILN_JSON_NUMBER || !kiln_json_double(value, &variety.most) ||
                      !(variety.most >= 0 && variety.most <= 1)))
        code = kiln_fail(err, KILN_CONFIG, "%s: expected a number from 0 to 1", text);
    if (code)
        return kiln_card_refuse("variety.most", err);
    card->variety[card->variety_count++] = variety;
    return 0;
}

/* {"most": {"256x256": 0.4}} */
static int read_variety_key(const struct kiln_json_value *key, const struct kiln_json_value *value,
                            void *ret, struct kiln_error *err)
{
    struct kiln_model_card *card = ret;
    if (!kiln_json_equals(key, "most"))
        return 0;
    card->variety_count = 0;
    return kiln_card_object("variety.most", value, read_variety_size, card, err);
}

/* "base" or "variant". */
static int read_name(const char *key, const struct kiln_json_value *value,
                     char ret[KILN_NAME_MAX + 1], struct kiln_error *err)
{
    char text[KILN_CARD_TEXT];
    int code = kiln_card_text(value, text, err);
    if (code == 0 && !kiln_name_valid(text, strlen(text), KILN_NAME_MAX))
        code = kiln_fail(err, KILN_CONFIG, "expected a name of up to %d " KILN_NAME_RULE,
                         KILN_NAME_MAX);
    if (code)
        return kiln_card_refuse(key, err);
    snprintf(ret, KILN_NAME_MAX + 1, "%s", text);
    return 0;
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
        else if (kiln_json_equals(&key, "sizes"))
            code = kiln_card_list(&value, &card.size_count, KILN_LIST_MAX, read_known, &card, &why)
                       ? kiln_card_refuse("sizes", &why)
                       : 0;
        else if (kiln_json_equals(&key, "base"))
            code = read_name("base", &value, card.base, &why);
        else if (kiln_json_equals(&key, "variant"))
            code = read_name("variant", &value, card.variant, &why);
        else if (kiln_json_equals(&key, "teleport"))
            code = kiln_card_reuse_read(&value, &card.reuse, &why);
        else if (kiln_json_equals(&key, "variety"))
            code = kiln_card_object("variety", &value, read_variety_key, &card, &why);
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
