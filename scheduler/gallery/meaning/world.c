/* world.c - see world.h. */
#include "scheduler/gallery/meaning/world.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/captions/token_rows.h"
#include "schemas/room.h"
#include "schemas/telemetry/log.h"

_Static_assert(KILN_TOKEN_ROWS_MAX *(KILN_TOKEN_DIMS_MAX + 8) + 4 <= KILN_TOKENS_SIZE_MAX,
               "the tokens of every caption fit");

void kiln_world_free(struct kiln_world *world)
{
    if (!world)
        return;
    free(world->places), free(world->prompts), free(world->tokens);
    kiln_token_file_drop(world->file);
    kiln_catalogue_free(world->catalogue);
    kiln_vector_index_free(world->index);
    free(world);
}

int kiln_world_new(size_t dims, struct kiln_world **ret, struct kiln_error *err)
{
    struct kiln_world *world = calloc(1, sizeof *world);
    if (!world)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the gallery's prompts");
    static _Atomic uint64_t worlds;
    world->number = atomic_fetch_add(&worlds, 1) + 1;
    int code = kiln_catalogue_new(&world->catalogue, err);
    if (code == 0)
        code = kiln_vector_index_new((int64_t)dims, &world->index, err);
    if (code != 0) {
        kiln_world_free(world);
        return code;
    }
    *ret = world;
    return 0;
}

int kiln_world_no_memory(struct kiln_error *err)
{
    return kiln_fail(err, KILN_NO_MEMORY, "no memory for more prompts of the gallery");
}

int kiln_world_put_picture(struct kiln_world *world, const struct kiln_prompt_picture *p,
                           struct kiln_error *err)
{
    uint32_t prompt;
    int code = kiln_catalogue_put(world->catalogue, p, &prompt, err);
    if (code == KILN_BAD_INPUT) /* a row that no worker wrote: it is found by its words alone */
        return 0;
    if (code != 0)
        return code;
    while (world->prompt_count <= prompt) {
        uint32_t *places =
            kiln_room(world->places, world->prompt_count, &world->places_room, sizeof *places);
        if (!places)
            return kiln_world_no_memory(err);
        world->places = places;
        world->places[world->prompt_count++] = KILN_NONE;
    }
    /* One without a vector whose last picture went, and that has one again. */
    if (world->places[prompt] == KILN_NONE && prompt < world->waiting)
        world->waiting = prompt;
    return 0;
}

int kiln_world_put_vector(struct kiln_world *world, uint32_t prompt,
                          const struct kiln_prompt_vector *v, struct kiln_error *err)
{
    const uint32_t rows = kiln_vector_index_count(world->index);
    uint32_t at;
    if (world->places[prompt] != KILN_NONE)
        return 0;
    uint32_t *prompts = kiln_room(world->prompts, rows, &world->prompts_room, sizeof *prompts);
    if (!prompts)
        return kiln_world_no_memory(err);
    world->prompts = prompts;
    kiln_token_place *tokens = kiln_room(world->tokens, rows, &world->tokens_room, sizeof *tokens);
    if (!tokens)
        return kiln_world_no_memory(err);
    world->tokens = tokens;
    int code = kiln_vector_index_add(world->index, v->row, v->scale, &at, err);
    if (code != 0)
        return code;
    world->prompts[at] = prompt;
    world->tokens[at] = 0;
    world->places[prompt] = at;
    return 0;
}

kiln_token_place kiln_world_keep(struct kiln_world *world, const uint8_t *tokens, size_t size)
{
    kiln_token_place place = 0;
    struct kiln_error why;
    if (world->file_failed || size > KILN_TOKENS_SIZE_MAX) /* a row of the ledger may lie */
        return 0;
    int code = world->file ? 0 : kiln_token_file_new(&world->file, &why);
    if (code == 0)
        code = kiln_token_file_add(world->file, tokens, size, &place, &why);
    if (code != 0) {
        world->file_failed = true;
        kiln_log(KILN_LOG_WARNING, "tokens_not_kept", kiln_f("reason", "%s", why.text),
                 kiln_f("effect", "searches by meaning are slower; make room there and restart the "
                                  "gallery"));
    }
    return place;
}

void kiln_world_put_tokens(struct kiln_world *world, uint32_t prompt, kiln_token_place place)
{
    if (world->places[prompt] < KILN_NO_EVIDENCE)
        world->tokens[world->places[prompt]] = place;
}
