/* model_card.c - what follows from kiln.json; see model_card.h. */
#include "storage/formats/card/model_card.h"

#include <stdio.h>
#include <string.h>

#include "storage/formats/card/model_card_parts.h"
#include "storage/formats/file_hash.h"

static bool within(const struct kiln_card_sizes *sizes, uint32_t count,
                   const struct kiln_card_picture *p)
{
    return kiln_card_sizes_have(sizes, count, p->width, p->height);
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

int kiln_card_weights_check(const struct kiln_model_card *card, const char *dir,
                            struct kiln_error *err)
{
    char path[KILN_CARD_PATH_MAX], sha256[KILN_FILE_HASH_MAX];
    for (uint32_t i = 0; i < card->weight_count; i++) {
        kiln_card_weights_path(&card->weights[i], dir, path);
        if (!kiln_file_hash(path, sha256))
            return kiln_fail(err, KILN_NOT_FOUND,
                             "%s, which " KILN_MODEL_CARD " names for steps %u to %u, cannot be "
                             "read",
                             path, card->weights[i].first + 1, card->weights[i].end);
        if (strcmp(sha256, card->weights[i].sha256) != 0)
            return kiln_fail(err, KILN_CORRUPT,
                             "%s is another file than the one that " KILN_MODEL_CARD " names: its "
                             "SHA-256 is %.16s..., not %.16s...",
                             path, sha256, card->weights[i].sha256);
    }
    return 0;
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
                 " was not measured with %s; kiln bench "
                 "coarse --dtype %s --write does that",
                 dtype, dtype);
    if (why[0])
        card->coarse = (struct kiln_mode){.kind = KILN_MODE_EXACT};
    return !why[0];
}
