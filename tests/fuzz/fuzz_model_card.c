/* fuzz_model_card.c - any bytes as kiln.json: what is accepted is within the limits, and what auto
 * means for any size is a mode that exists. */
#include <string.h>

#include "storage/formats/model_card.h"
#include "tests/fuzz/fuzz.h"

static void check_size(struct kiln_picture_size size)
{
    fuzz_require(size.width >= KILN_SIDE_MIN && size.width <= KILN_SIDE_MAX);
    fuzz_require(size.height >= KILN_SIDE_MIN && size.height <= KILN_SIDE_MAX);
}

static void check_mode(const struct kiln_model_card *card, uint32_t width, uint32_t height)
{
    const struct kiln_mode wanted = {.kind = KILN_MODE_COARSE_AUTO};
    struct kiln_mode mode =
        kiln_model_card_mode(card, &wanted, width, height, card->coarse_steps, 0);
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
        check_mode(&card, sizes->width_min, sizes->height_max);
    }
    check_mode(&card, KILN_SIDE_MIN, KILN_SIDE_MAX);
    return 0;
}
