/* modules.c - see modules.h. */
#include "pipeline/lora/file/modules.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENDING ".weight"

static bool is_module(const struct kiln_st_tensor *t)
{
    const size_t len = strlen(t->name), ending = sizeof ENDING - 1;
    return t->ndim == 2 && len > ending && strcmp(t->name + len - ending, ENDING) == 0;
}

int kiln_lora_modules_open(const char *dir, struct kiln_lora_modules *ret, struct kiln_error *err)
{
    struct kiln_lora_modules m = {0};
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/transformer", dir);
    int rc = kiln_st_open(path, &m.st, err);
    if (rc)
        return rc;
    const size_t count = kiln_st_count(m.st);
    m.at = calloc(count + 1, sizeof *m.at);
    m.names = calloc(count + 1, KILN_ST_NAME_MAX + 1);
    if (!m.at || !m.names) {
        kiln_lora_modules_close(&m);
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for its modules", path);
    }
    for (size_t i = 0; i < count; i++) {
        const struct kiln_st_tensor *t = kiln_st_at(m.st, i);
        if (!is_module(t))
            continue;
        char *name = m.names + m.count * (KILN_ST_NAME_MAX + 1);
        snprintf(name, KILN_ST_NAME_MAX + 1, "%.*s", (int)(strlen(t->name) - sizeof ENDING + 1),
                 t->name);
        m.at[m.count++] = (struct kiln_lora_module){name, t->shape[0], t->shape[1]};
    }
    *ret = m;
    return 0;
}

void kiln_lora_modules_close(struct kiln_lora_modules *modules)
{
    kiln_st_close(modules->st);
    free(modules->at);
    free(modules->names);
    *modules = (struct kiln_lora_modules){0};
}

const struct kiln_st_tensor *kiln_lora_modules_weight(const struct kiln_lora_modules *modules,
                                                      size_t i)
{
    char name[KILN_ST_NAME_MAX + sizeof ENDING];
    snprintf(name, sizeof name, "%s" ENDING, modules->at[i].name);
    return kiln_st_find(modules->st, name);
}
