/* size_watch.c - see size_watch.h. */
#include "scheduler/cli/jobs/enqueue/size_watch.h"

#include <stdlib.h>
#include <string.h>

void kiln_size_watch_open(const struct kiln_cli *cli, struct kiln_size_watch *ret)
{
    struct kiln_error unread;
    const char *model = kiln_config_text(cli->config, KILN_KEY_MODEL);
    *ret = (struct kiln_size_watch){.cli = cli, .model = model};
    /* Test cards have any size. */
    const bool cards = strcmp(kiln_config_text(cli->config, KILN_KEY_ENGINE), "testcard") == 0;
    const bool heard = !cli->silent; /* a request to the gallery: nobody reads warnings */
    struct kiln_model_card *card = model[0] && !cards && heard ? malloc(sizeof *card) : NULL;
    if (card && kiln_model_card_read(model, card, &unread) == 0 && card->size_count > 0)
        ret->card = card;
    else
        free(card);
}

void kiln_size_watch_see(struct kiln_size_watch *watch, uint32_t width, uint32_t height)
{
    if (!watch->card || watch->told_count == KILN_SIZES_TOLD ||
        kiln_model_card_knows(watch->card, width, height))
        return;
    for (int i = 0; i < watch->told_count; i++)
        if (watch->told[i].width == width && watch->told[i].height == height)
            return;
    char sizes[256];
    watch->told[watch->told_count++] = (struct kiln_picture_size){width, height};
    const char *slash = strrchr(watch->model, '/');
    kiln_warn(watch->cli,
              "model %s was not made for %ux%u, so such pictures may be poor; it knows %s",
              slash && slash[1] ? slash + 1 : watch->model, width, height,
              kiln_model_card_sizes_text(watch->card, sizes, sizeof sizes));
}

void kiln_size_watch_release(struct kiln_size_watch *watch)
{
    free(watch->card);
    watch->card = NULL;
}
