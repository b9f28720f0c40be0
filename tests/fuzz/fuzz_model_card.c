/* fuzz_model_card.c - any bytes as kiln.json: what is accepted is within the limits, and what auto
 * means for any size is a mode that exists. */
#include <string.h>

#include "storage/formats/card/model_card.h"
#include "tests/fuzz/fuzz.h"

static void check_size(struct kiln_picture_size size)
{
    fuzz_require(size.width >= KILN_SIDE_MIN && size.width <= KILN_SIDE_MAX);
    fuzz_require(size.height >= KILN_SIDE_MIN && size.height <= KILN_SIDE_MAX);
}

static void check_mode(const struct kiln_model_card *card, uint32_t width, uint32_t height,
                       const struct kiln_card_lora *lora)
{
    const struct kiln_mode wanted = {.kind = KILN_MODE_COARSE_AUTO};
    const struct kiln_card_picture picture = {.width = width,
                                              .height = height,
                                              .steps = card->coarse_steps,
                                              .lora_count = lora != NULL,
                                              .lora_sha256 = lora ? lora->sha256 : NULL,
                                              .lora_scale = lora ? lora->strength : 0};
    struct kiln_mode mode = kiln_model_card_mode(card, &wanted, &picture);
    struct kiln_mode again;
    char text[KILN_MODE_MAX];
    kiln_mode_text(&mode, text);
    fuzz_require(kiln_mode_parse(text, &again) && again.kind == mode.kind);
    fuzz_require(mode.kind == KILN_MODE_EXACT || mode.kind == KILN_MODE_COARSE);
    fuzz_require(mode.kind == KILN_MODE_EXACT || mode.small <= card->coarse_steps);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kiln_model_card card;
    struct kiln_error err = {0};
    if (kiln_model_card_parse((const char *)data, size, "m/kiln.json", &card, &err)) {
        fuzz_require(err.code == KILN_CONFIG && strstr(err.text, "m/kiln.json"));
        return 0;
    }
    fuzz_require(card.coarse_size_count <= KILN_LIST_MAX && card.coarse_for_count <= KILN_LIST_MAX);
    for (uint32_t i = 0; i < card.coarse_size_count; i++)
        check_size(card.coarse_sizes[i]);
    for (uint32_t i = 0; i < card.coarse_for_count; i++) {
        const struct kiln_card_sizes *sizes = &card.coarse_for[i];
        check_size((struct kiln_picture_size){sizes->width_min, sizes->height_min});
        check_size((struct kiln_picture_size){sizes->width_max, sizes->height_max});
        check_mode(&card, sizes->width_min, sizes->height_max, NULL);
    }
    fuzz_require(card.coarse_lora_count <= KILN_LIST_MAX);
    for (uint32_t i = 0; i < card.coarse_lora_count; i++) {
        const struct kiln_card_lora *lora = &card.coarse_loras[i];
        fuzz_require(strlen(lora->sha256) == KILN_CARD_SHA256 - 1 && lora->strength > 0);
        fuzz_require(lora->size_count <= KILN_CARD_LORA_SIZES);
        for (uint32_t k = 0; k < lora->size_count; k++)
            check_mode(&card, lora->sizes[k].width_max, lora->sizes[k].height_min, lora);
    }
    fuzz_require(card.weight_count <= KILN_STEP_LORAS_MAX);
    for (uint32_t i = 0; i < card.weight_count; i++) {
        const struct kiln_card_weights *w = &card.weights[i];
        fuzz_require(w->first < w->end && w->end <= card.steps && card.steps <= KILN_STEPS_MAX);
        fuzz_require(w->path[0] && w->path[0] != '/' && !strstr(w->path, ".."));
        fuzz_require(strlen(w->sha256) == KILN_CARD_SHA256 - 1);
    }
    check_mode(&card, KILN_SIDE_MIN, KILN_SIDE_MAX, NULL);
    return 0;
}
