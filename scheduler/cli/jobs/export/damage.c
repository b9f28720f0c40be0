/* damage.c - see damage.h. */
#include "scheduler/cli/jobs/export/damage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/room.h"

int kiln_damages_add(struct kiln_damages *damages, uint64_t job, const char *role, const char *why,
                     struct kiln_error *err)
{
    struct kiln_damage *at = kiln_room(damages->at, damages->count, &damages->room, sizeof *at);
    if (at)
        damages->at = at;
    char *copy = strdup(why);
    if (!at || !copy) {
        free(copy);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the list of damaged objects");
    }
    at += damages->count++;
    *at = (struct kiln_damage){.job = job, .why = copy};
    snprintf(at->role, sizeof at->role, "%s", role);
    return 0;
}

static int by_object(const void *a, const void *b)
{
    const struct kiln_damage *x = a, *y = b;
    return x->job != y->job ? (x->job > y->job) - (x->job < y->job) : strcmp(x->role, y->role);
}

void kiln_damages_sort(struct kiln_damages *damages)
{
    if (damages->count)
        qsort(damages->at, damages->count, sizeof *damages->at, by_object);
}

struct kiln_damage *kiln_damages_find(struct kiln_damages *damages, uint64_t job, const char *role)
{
    struct kiln_damage wanted = {.job = job};
    snprintf(wanted.role, sizeof wanted.role, "%s", role);
    return damages->count ? bsearch(&wanted, damages->at, damages->count, sizeof wanted, by_object)
                          : NULL;
}

void kiln_damages_release(struct kiln_damages *damages)
{
    for (size_t i = 0; i < damages->count; i++)
        free(damages->at[i].why);
    free(damages->at);
    *damages = (struct kiln_damages){0};
}
