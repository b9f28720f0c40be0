/* lora_paths.c - names to files; see lora_paths.h. */
#include "worker/stages/lora_paths.h"

#include <stdio.h>

/* Names were checked as names at intake, so they cannot climb out of the directory. */
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
