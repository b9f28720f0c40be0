/* param_table.c - see param_table.h. */
#include "pipeline/weights/param_table.h"

#include <stdlib.h>

#include "schemas/room.h"

bool kiln_param_table_add(struct kiln_param_table *params, const struct kiln_param *param)
{
    struct kiln_param *items =
        kiln_room(params->items, params->count, &params->capacity, sizeof *items);
    if (!items)
        return false;
    params->items = items;
    params->items[params->count++] = *param;
    return true;
}

void kiln_param_table_release(struct kiln_param_table *params)
{
    free(params->items);
    *params = (struct kiln_param_table){0};
}
