/* room.h - arrays that grow. */
#ifndef KILN_ROOM_H
#define KILN_ROOM_H

#include <stddef.h>

/* Makes room for one more element after `count`: returns the array itself, or a copy twice as
 * large, and *room is then the new size.  NULL: no memory; the old array is unchanged.
 *
 *     struct thing *at = kiln_room(list->at, list->count, &list->room, sizeof *at);
 *     if (!at)
 *         return kiln_fail(err, KILN_NO_MEMORY, "no memory for things");
 *     list->at = at;
 *     list->at[list->count++] = *thing;
 */
void *kiln_room(void *at, size_t count, size_t *room, size_t size);

#endif
