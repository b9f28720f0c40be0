/* renderer.c - picks a renderer. */
#include "worker/engine/renderer.h"

#include <string.h>

#include "schemas/telemetry/log.h"

/* What does not hold for the model that was loaded is said once. */
static void settle(struct kiln_renderer *renderer)
{
    char why[KILN_CARD_WHY];
    if (renderer->dtype &&
        !kiln_model_card_fits(&renderer->card, renderer->model_hash, renderer->dtype, why))
        kiln_log(KILN_LOG_WARNING, "coarse_auto_off", kiln_f("why", "%s", why));
}

/* The card comes first: loading a model takes minutes. */
int kiln_renderer_open(const struct kiln_config *config, struct kiln_load_watch *watch,
                       struct kiln_renderer **ret, struct kiln_error *err)
{
    const char *dir = kiln_config_text(config, KILN_KEY_MODEL);
    struct kiln_model_card card = {0};
    int code = dir[0] ? kiln_model_card_read(dir, &card, err) : 0;
    code = code ? code : kiln_card_weights_check(&card, dir, err);
    if (code != 0)
        return code;
    if (strcmp(kiln_config_text(config, KILN_KEY_ENGINE), "testcard") == 0)
        code = kiln_renderer_testcard_open(ret, err);
    else
        code = kiln_renderer_pipeline_open(config, watch, ret, err);
    if (code != 0)
        return code;
    (*ret)->card = card;
    (*ret)->model_dir = dir;
    settle(*ret);
    return 0;
}

void kiln_renderer_close(struct kiln_renderer *renderer)
{
    if (renderer)
        renderer->close(renderer);
}
