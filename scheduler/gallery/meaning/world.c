/* world.c - see world.h. */
#include "scheduler/gallery/meaning/world.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/room.h"

#define FIRST_TOKENS 1024 /* rows; there are none where the embedder gives no tokens */

void kiln_world_free(struct kiln_world *world)
{
    if (!world)
        return;
    for (size_t row = 0; row < world->tokens_room; row++)
        free(world->tokens[row].at);
    free(world->places), free(world->prompts), free(world->tokens);
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
    world->tokens_limit = KILN_MEANING_TOKENS_BYTES;
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

/* Room for the tokens of `rows` rows, all without any at first. */
static bool fit_tokens(struct kiln_world *world, uint32_t rows)
{
    size_t room = world->tokens_room;
    while (room < rows)
        room = room ? 2 * room : FIRST_TOKENS;
    if (room == world->tokens_room)
        return true;
    struct kiln_prompt_tokens *tokens = realloc(world->tokens, room * sizeof *tokens);
    if (!tokens)
        return false;
    memset(tokens + world->tokens_room, 0, (room - world->tokens_room) * sizeof *tokens);
    world->tokens = tokens, world->tokens_room = room;
    return true;
}

/* Makes room for so many bytes: the tokens of the first rows go. */
static void release_tokens(struct kiln_world *world, size_t size)
{
    while (world->tokens_bytes + size > world->tokens_limit &&
           world->tokens_released < world->tokens_room) {
        struct kiln_prompt_tokens *first = &world->tokens[world->tokens_released++];
        world->tokens_bytes -= first->size;
        free(first->at);
        *first = (struct kiln_prompt_tokens){NULL, 0};
    }
}

static void keep_tokens(struct kiln_world *world, uint32_t row, const struct kiln_prompt_vector *v)
{
    if (!v->tokens || !fit_tokens(world, row + 1))
        return;
    release_tokens(world, v->tokens_size);
    uint8_t *at = malloc(v->tokens_size);
    if (!at)
        return;
    memcpy(at, v->tokens, v->tokens_size);
    world->tokens[row] = (struct kiln_prompt_tokens){at, v->tokens_size};
    world->tokens_bytes += v->tokens_size;
}

struct kiln_prompt_tokens kiln_world_tokens(const struct kiln_world *world, uint32_t row)
{
    return row < world->tokens_room ? world->tokens[row] : (struct kiln_prompt_tokens){NULL, 0};
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
    int code = kiln_vector_index_add(world->index, v->row, v->scale, v->sketch, &at, err);
    if (code != 0)
        return code;
    world->prompts[at] = prompt;
    keep_tokens(world, at, v);
    world->places[prompt] = at;
    return 0;
}
