/* near.c - see near.h. */
#include "scheduler/cli/core/near.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/names.h"
#include "schemas/room.h"

#define TOLD 3

int kiln_near_add(void *arg, const char *name, struct kiln_error *err)
{
    struct kiln_near *near = arg;
    char **at = kiln_room(near->at, near->count, &near->room, sizeof *at);
    char *copy = at ? strdup(name) : NULL;
    near->at = at ? at : near->at;
    if (!copy)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a name");
    near->at[near->count++] = copy;
    return 0;
}

bool kiln_near_has(const struct kiln_near *near, const char *name)
{
    for (size_t i = 0; i < near->count; i++)
        if (strcmp(near->at[i], name) == 0)
            return true;
    return false;
}

/* The closest of what is left is moved to the front of it, TOLD times. */
bool kiln_near_list(struct kiln_near *near, const char *name, char *out, size_t size)
{
    size_t told = near->count < TOLD ? near->count : TOLD, len;
    snprintf(out, size, told ? "the nearest %s " : "", told > 1 ? "are" : "is");
    for (size_t i = 0; i < told; i++) {
        const char *found =
            kiln_closest(name, strlen(name), (const char *const *)near->at + i, near->count - i);
        size_t k = i;
        while (near->at[k] != found)
            k++;
        char *swapped = near->at[i];
        near->at[i] = near->at[k];
        near->at[k] = swapped;
        len = strlen(out);
        snprintf(out + len, size - len, "%s'%.60s'", i ? ", " : "", near->at[i]);
    }
    return told > 0;
}

int kiln_near_refuse(struct kiln_near *near, const char *what, const char *name,
                     struct kiln_error *err)
{
    char list[KILN_NEAR_LIST_MAX];
    if (!kiln_near_list(near, name, list, sizeof list))
        return kiln_fail(err, KILN_NOT_FOUND, "there is no %s '%.80s'; there is none at all", what,
                         name);
    return kiln_fail(err, KILN_NOT_FOUND, "there is no %s '%.80s'; %s", what, name, list);
}

void kiln_near_release(struct kiln_near *near)
{
    for (size_t i = 0; i < near->count; i++)
        free(near->at[i]);
    free(near->at);
    *near = (struct kiln_near){0};
}
