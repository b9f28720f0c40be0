/* model_watch.c - see model_watch.h. */
#include "scheduler/cli/jobs/enqueue/model_watch.h"

#include <stdlib.h>
#include <string.h>

#include "storage/formats/card/model_words.h"

#define PROMPTS_MAX 1000 /* that are looked at: a warning early in a long file is enough */

void kiln_model_watch_open(const struct kiln_cli *cli, struct kiln_model_watch *ret)
{
    struct kiln_error unread;
    const char *dir = kiln_config_text(cli->config, KILN_KEY_MODEL), *slash = strrchr(dir, '/');
    *ret = (struct kiln_model_watch){.cli = cli, .model = slash && slash[1] ? slash + 1 : dir};
    /* Test cards show any prompt at any size; of a request to the gallery nobody reads warnings. */
    if (!dir[0] || cli->silent ||
        strcmp(kiln_config_text(cli->config, KILN_KEY_ENGINE), "testcard") == 0)
        return;
    ret->card = malloc(sizeof *ret->card);
    if (ret->card && kiln_model_card_read(dir, ret->card, &unread)) {
        free(ret->card);
        ret->card = NULL;
    }
    ret->words = kiln_model_words_own(dir);
}

static void see_size(struct kiln_model_watch *watch, uint32_t width, uint32_t height)
{
    if (!watch->card || watch->size_count == KILN_WATCH_TOLD ||
        kiln_model_card_knows(watch->card, width, height))
        return;
    for (int i = 0; i < watch->size_count; i++)
        if (watch->sizes[i].width == width && watch->sizes[i].height == height)
            return;
    char sizes[256];
    watch->sizes[watch->size_count++] = (struct kiln_picture_size){width, height};
    kiln_warn(
        watch->cli, "model %s was not made for %ux%u, so such pictures may be poor; it knows %s",
        watch->model, width, height, kiln_model_card_sizes_text(watch->card, sizes, sizeof sizes));
}

static void see_variety(struct kiln_model_watch *watch, const struct kiln_job *job)
{
    char why[KILN_CARD_WHY];
    if (!watch->card || watch->variety_told ||
        !kiln_model_card_too_varied(watch->card, job->mode.variety, job->width, job->height, why))
        return;
    watch->variety_told = true;
    kiln_warn(watch->cli, "model %s: %s", watch->model, why);
}

static void see_guidance(struct kiln_model_watch *watch, const struct kiln_job *job)
{
    char why[KILN_CARD_WHY];
    if (!watch->card || watch->guidance_told ||
        !kiln_model_card_unguided(watch->card, job->guidance, why))
        return;
    watch->guidance_told = true;
    kiln_warn(watch->cli, "model %s: %s", watch->model, why);
}

static void see_noun(struct kiln_model_watch *watch, const char *prompt)
{
    struct kiln_error unread;
    if (!watch->words || watch->noun_count == KILN_WATCH_TOLD || watch->looked == PROMPTS_MAX)
        return;
    watch->looked++;
    char *noun = watch->nouns[watch->noun_count];
    if (kiln_reuse_unknown_noun(watch->words, prompt, noun, &unread) || !noun[0])
        return;
    for (int i = 0; i < watch->noun_count; i++)
        if (strcmp(watch->nouns[i], noun) == 0)
            return;
    watch->noun_count++;
    kiln_warn(
        watch->cli,
        "model %s was not taught '%s' and makes a guess; README.md of the model lists what it "
        "knows",
        watch->model, noun);
}

void kiln_model_watch_see(struct kiln_model_watch *watch, const struct kiln_job *job)
{
    see_size(watch, job->width, job->height);
    see_variety(watch, job);
    see_guidance(watch, job);
    see_noun(watch, job->prompt);
}

void kiln_model_watch_release(struct kiln_model_watch *watch)
{
    free(watch->card);
    kiln_reuse_words_free(watch->words);
    watch->card = NULL;
    watch->words = NULL;
}
