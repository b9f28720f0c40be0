/* room.c - see room.h. */
#include "schemas/room.h"

#include <stdlib.h>

#define ROOM_FIRST 16

void *kiln_room(void *at, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return at;
    size_t bigger = *room ? *room * 2 : ROOM_FIRST;
    void *grown = realloc(at, bigger * size);
    if (grown)
        *room = bigger;
    return grown;
}
