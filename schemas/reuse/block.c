/* block.c - see block.h.
 *
 * A word counts by its wider meaning where it has one, as the guard lets "crimson" stand for "red".
 * Words that the guard may pass over on one side ("placed", "plain", a relation turned round) do
 * not count.
 */
#include "schemas/reuse/block.h"

#include <string.h>

#include "schemas/random.h"
#include "schemas/reuse/reading.h"

static uint64_t number_of(const struct kiln_token *token)
{
    size_t len;
    const char *meaning = kiln_token_meaning(token, &len);
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a, then mixed: sums and bits need all of it */
    if (token->sense && token->sense->wider) {
        meaning = token->sense->wider;
        len = strlen(meaning);
    }
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)meaning[i]) * 0x100000001b3u;
    h ^= (token->kind == KILN_SPLIT_QUOTE) | (uint64_t)(token->sense && token->sense->plural) << 1;
    return kiln_random_next(&h);
}

static void add(struct kiln_reuse_block *block, const struct kiln_token *token)
{
    switch (token->class) {
    case KILN_SENSE_OPAQUE:
    case KILN_SENSE_NAME:
    case KILN_SENSE_THING:
    case KILN_SENSE_BEING:
    case KILN_SENSE_PART:
    case KILN_SENSE_NUMBER:
    case KILN_SENSE_MATERIAL:
    case KILN_SENSE_SETTING:
    case KILN_SENSE_NEGATION:
        block->subject += number_of(token);
        break;
    case KILN_SENSE_DETAIL:
        if (strcmp(token->sense->meaning, "simple") == 0) /* a plain background is one */
            break;
        /* fall through */
    case KILN_SENSE_COLOUR:
    case KILN_SENSE_SHADE:
    case KILN_SENSE_SIZE:
    case KILN_SENSE_ZONE: {
        const uint64_t number = number_of(token);
        block->said |= UINT64_C(1) << (number & 63) | UINT64_C(1) << (number >> 6 & 63);
        break;
    }
    default:
        break;
    }
}

struct kiln_reuse_block kiln_reuse_block_of(const struct kiln_facts *facts)
{
    struct kiln_reuse_block block = {0};
    for (uint32_t i = 0; i < facts->count; i++)
        if (facts->items[i].token)
            add(&block, facts->items[i].token);
    for (uint32_t i = 0; i < facts->tokens.count; i++)
        if (facts->tokens.at[i].class == KILN_SENSE_STYLE)
            block.subject += number_of(&facts->tokens.at[i]);
    return block;
}
