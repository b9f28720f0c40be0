/* model_card.c - what follows from kiln.json; see model_card.h. */
#include "storage/formats/card/model_card.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/formats/card/model_card_parts.h"
#include "storage/formats/file_hash.h"
#include "storage/formats/regular.h"

#define CONFIG_BYTES_MAX (1 << 20)

static bool within(const struct kiln_card_sizes *sizes, uint32_t count,
                   const struct kiln_card_picture *p)
{
    return kiln_card_sizes_have(sizes, count, p->width, p->height);
}

/* Whether the picture's LoRA, if it has one, was measured at its size. */
static bool loras_hold(const struct kiln_model_card *card, const struct kiln_card_picture *p)
{
    if (p->lora_count == 0)
        return true;
    for (uint32_t i = 0; i < card->coarse_lora_count; i++) {
        const struct kiln_card_lora *lora = &card->coarse_loras[i];
        if (kiln_card_lora_is(lora->sha256, lora->strength, p) &&
            within(lora->sizes, lora->size_count, p))
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

struct kiln_mode kiln_model_card_mode_of(const struct kiln_model_card *card,
                                         const struct kiln_job *job)
{
    const struct kiln_card_picture picture = kiln_card_picture_of(job);
    return kiln_model_card_mode(card, &job->mode, &picture);
}

uint32_t kiln_model_side(const char *dir)
{
    char path[KILN_CARD_PATH_MAX], *text;
    size_t len;
    struct kiln_error unknown; /* opening the model reports it */
    if ((size_t)snprintf(path, sizeof path, "%s/vae/config.json", dir) >= sizeof path ||
        kiln_regular_read(path, CONFIG_BYTES_MAX, &text, &len, &unknown))
        return 0;
    json_t *config = json_loadb(text, len, 0, NULL);
    free(text);
    json_int_t side = json_integer_value(json_object_get(config, "sample_size"));
    json_decref(config);
    return side < KILN_SIDE_MIN || side > KILN_SIDE_MAX || side % KILN_SIDE_STEP != 0
               ? 0
               : (uint32_t)side;
}

void kiln_model_card_known(const struct kiln_config *config, struct kiln_model_card *ret)
{
    const char *dir = kiln_config_text(config, KILN_KEY_MODEL);
    struct kiln_error unread;
    if (!dir[0] || kiln_model_card_read(dir, ret, &unread))
        *ret = (struct kiln_model_card){0};
}

int kiln_model_card_context(const struct kiln_config *config, struct kiln_job_context *context,
                            struct kiln_error *err)
{
    const char *dir = kiln_config_text(config, KILN_KEY_MODEL);
    struct kiln_model_card card = {0};
    context->own = dir[0] ? kiln_model_side(dir) : 0;
    context->steps = (uint32_t)kiln_config_int(config, KILN_KEY_DEFAULT_STEPS);
    if (context->steps > 0)
        return 0;
    int code = dir[0] ? kiln_model_card_read(dir, &card, err) : 0;
    if (code == 0)
        context->steps = card.steps > 0 ? card.steps : KILN_STEPS_DEFAULT;
    return code;
}

bool kiln_model_card_knows(const struct kiln_model_card *card, uint32_t width, uint32_t height)
{
    const struct kiln_card_picture picture = {.width = width, .height = height};
    return card->size_count == 0 || within(card->sizes, card->size_count, &picture);
}

/* Appends "256x256..512x512" to a text of `len` bytes, and returns its length, cut or not. */
static size_t add_sizes(const struct kiln_card_sizes *s, char *out, size_t len, size_t size)
{
    if (len < size)
        len += (size_t)snprintf(out + len, size - len, "%ux%u", s->width_min, s->height_min);
    if (len < size && (s->width_min != s->width_max || s->height_min != s->height_max))
        len += (size_t)snprintf(out + len, size - len, "..%ux%u", s->width_max, s->height_max);
    return len;
}

const char *kiln_model_card_sizes_text(const struct kiln_model_card *card, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < card->size_count && len < size; i++) {
        len += (size_t)snprintf(out + len, size - len, "%s", i ? ", " : "");
        len = add_sizes(&card->sizes[i], out, len, size);
    }
    return out;
}

bool kiln_model_card_too_varied(const struct kiln_model_card *card, double variety, uint32_t width,
                                uint32_t height, char why[KILN_CARD_WHY])
{
    why[0] = '\0';
    if (!(variety > 0) || card->variety_count == 0)
        return false;
    for (uint32_t i = 0; i < card->variety_count; i++)
        if (variety <= card->variety[i].most &&
            kiln_card_sizes_have(&card->variety[i].sizes, 1, width, height))
            return false;
    size_t len = (size_t)snprintf(why, KILN_CARD_WHY,
                                  "variety %g at %ux%u: the picture may show less of what the "
                                  "prompt says; measured to cost next to nothing:",
                                  variety, width, height);
    for (uint32_t i = 0; i < card->variety_count && len < KILN_CARD_WHY; i++) {
        len += (size_t)snprintf(why + len, KILN_CARD_WHY - len, "%s up to %g at ", i ? "," : "",
                                card->variety[i].most);
        len = add_sizes(&card->variety[i].sizes, why, len, KILN_CARD_WHY);
    }
    return true;
}

bool kiln_model_card_unguided(const struct kiln_model_card *card, double guidance,
                              char why[KILN_CARD_WHY])
{
    const bool ret = guidance != 0 && card->noise > 0;
    why[0] = '\0';
    if (ret)
        snprintf(why, KILN_CARD_WHY,
                 "guidance %g: kiln.json says that this model's steps replace noise; such models "
                 "are made to run without guidance, so the picture may be poor; leave guidance out",
                 guidance);
    return ret;
}

const double *kiln_model_card_sigmas(const struct kiln_model_card *card, uint32_t steps)
{
    return card->sigma_count > 0 && card->sigma_count == steps ? card->sigmas : NULL;
}

int kiln_card_weights_check(const struct kiln_model_card *card, const char *dir,
                            struct kiln_error *err)
{
    int code = 0;
    for (uint32_t i = 0; i < card->weight_count && code == 0; i++)
        if (!card->weights[i].transformer)
            code = kiln_card_weights_are(&card->weights[i], dir, err);
    return code;
}

int kiln_card_weights_are(const struct kiln_card_weights *weights, const char *dir,
                          struct kiln_error *err)
{
    char path[KILN_CARD_PATH_MAX], sha256[KILN_FILE_HASH_MAX];
    kiln_card_weights_path(weights, dir, path);
    if (weights->transformer ? !kiln_folder_hash(path, sha256)
                             : !kiln_file_hash(path, UINT64_MAX, sha256))
        return kiln_fail(err, KILN_NOT_FOUND,
                         "%s, which " KILN_MODEL_CARD " names for steps %u to %u, cannot be read",
                         path, weights->first + 1, weights->end);
    if (strcmp(sha256, weights->sha256) == 0)
        return 0;
    if (weights->transformer)
        return kiln_fail(err, KILN_CORRUPT,
                         "%s is another transformer than the one that " KILN_MODEL_CARD
                         " names: `LC_ALL=C sha256sum *.safetensors | sha256sum` there is "
                         "%.16s..., not %.16s...",
                         path, sha256, weights->sha256);
    return kiln_fail(err, KILN_CORRUPT,
                     "%s is another file than the one that " KILN_MODEL_CARD " names: its SHA-256 "
                     "is %.16s..., not %.16s...",
                     path, sha256, weights->sha256);
}

void kiln_card_weights_path(const struct kiln_card_weights *weights, const char *dir,
                            char path[KILN_CARD_PATH_MAX])
{
    snprintf(path, KILN_CARD_PATH_MAX, "%s/%s", dir, weights->path);
}

bool kiln_model_card_fits(struct kiln_model_card *card, const char *model_hash, const char *dtype,
                          char why[KILN_CARD_WHY])
{
    const bool measured = kiln_card_dtypes_have(&card->coarse_dtypes, dtype);
    why[0] = '\0';
    if (card->coarse.kind != KILN_MODE_COARSE)
        return true;
    if (card->coarse_model[0] && strcmp(card->coarse_model, model_hash) != 0)
        snprintf(why, KILN_CARD_WHY,
                 "coarse \"auto\" is exact: " KILN_MODEL_CARD " was measured with other weights of "
                 "the model (%s, not %s); kiln bench coarse --write measures again",
                 card->coarse_model, model_hash);
    else if (!measured)
        snprintf(why, KILN_CARD_WHY,
                 "coarse \"auto\" is exact: " KILN_MODEL_CARD
                 " was not measured with %s; kiln bench coarse --dtype %s --write does that",
                 dtype, dtype);
    if (why[0])
        card->coarse = (struct kiln_mode){.kind = KILN_MODE_EXACT};
    return !why[0];
}
