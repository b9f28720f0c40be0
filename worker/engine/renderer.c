/* renderer.c - picks a renderer. */
#include "worker/engine/renderer.h"

#include <string.h>

int kiln_renderer_open(const struct kiln_config *config, struct kiln_load_watch *watch,
                       struct kiln_renderer **ret, struct kiln_error *err)
{
    if (strcmp(kiln_config_text(config, KILN_KEY_ENGINE), "testcard") == 0)
        return kiln_renderer_testcard_open(ret, err);
    return kiln_renderer_pipeline_open(config, watch, ret, err);
}

void kiln_renderer_close(struct kiln_renderer *renderer)
{
    if (renderer)
        renderer->close(renderer);
}
