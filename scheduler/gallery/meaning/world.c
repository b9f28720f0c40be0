/* world.c - see world.h. */
#include "scheduler/gallery/meaning/world.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/room.h"

void kiln_world_free(struct kiln_world *world)
{
    if (!world)
        return;
    free(world->places), free(world->prompts), free(world->addresses);
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
    kiln_row_address *addresses =
        kiln_room(world->addresses, rows, &world->addresses_room, sizeof *addresses);
    if (!addresses)
        return kiln_world_no_memory(err);
    world->addresses = addresses;
    int code = kiln_vector_index_add(world->index, v->row, v->scale, &at, err);
    if (code != 0)
        return code;
    world->prompts[at] = prompt;
    world->addresses[at] = v->address;
    world->places[prompt] = at;
    return 0;
}

void kiln_world_row(const struct kiln_world *world, uint32_t row, struct kiln_prompt_row *ret)
{
    kiln_catalogue_hash(world->catalogue, world->prompts[row], ret->prompt_hash);
    ret->address = world->addresses[row];
}
