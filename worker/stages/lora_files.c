/* lora_files.c - see lora_files.h. */
#include "worker/stages/lora_files.h"

#include <stdio.h>
#include <string.h>

#include "storage/formats/file_hash.h"

/* The intake has checked the names, so they cannot leave the directory. */
void kiln_lora_paths_fill(struct kiln_lora_paths *p, const struct kiln_config *config,
                          const struct kiln_assignment *assignment)
{
    const char *dir = kiln_config_text(config, KILN_KEY_LORA_DIR);
    p->count = (int32_t)assignment->lora_count;
    for (uint32_t i = 0; i < assignment->lora_count; i++) {
        snprintf(p->paths[i], KILN_LORA_PATH_MAX, "%s%s/%s.safetensors",
                 dir[0] ? dir : kiln_config_text(config, KILN_KEY_MODEL), dir[0] ? "" : "/loras",
                 assignment->loras[i].name);
        p->loras[i].path = p->paths[i];
        p->loras[i].weight = (float)assignment->loras[i].scale;
    }
}

/* The LoRA whose name comes next behind `after`, or -1. */
static int next_by_name(const struct kiln_assignment *assignment, const char *after)
{
    int next = -1;
    for (uint32_t i = 0; i < assignment->lora_count; i++) {
        const char *name = assignment->loras[i].name;
        if (strcmp(name, after) > 0 && (next < 0 || strcmp(name, assignment->loras[next].name) < 0))
            next = (int)i;
    }
    return next;
}

bool kiln_lora_files_text(const struct kiln_lora_paths *paths,
                          const struct kiln_assignment *assignment, char out[KILN_LORA_FILES_MAX])
{
    char hex[KILN_FILE_HASH_MAX];
    size_t len = 0;
    const char *name = "";
    out[0] = '\0';
    for (int i; (i = next_by_name(assignment, name)) >= 0;) {
        name = assignment->loras[i].name;
        if (!kiln_file_hash(paths->paths[i], hex)) {
            out[0] = '\0';
            return false;
        }
        len += (size_t)snprintf(out + len, KILN_LORA_FILES_MAX - len, "%s%s:%s", len ? "+" : "",
                                name, hex);
    }
    return true;
}
