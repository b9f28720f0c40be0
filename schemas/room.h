/* room.h - arrays that grow. */
#ifndef KILN_ROOM_H
#define KILN_ROOM_H

#include <stddef.h>

/* Room for one more element behind `count`: the array itself while it has some, else the array in a
 * new place with twice as much, which *room then says.  NULL: no memory, and the old array is as it
 * was.
 *
 *     struct thing *at = kiln_room(list->at, list->count, &list->room, sizeof *at);
 *     if (!at)
 *         return kiln_fail(err, KILN_NO_MEMORY, "no memory for things");
 *     list->at = at;
 *     list->at[list->count++] = *thing;
 */
void *kiln_room(void *at, size_t count, size_t *room, size_t size);

#endif
