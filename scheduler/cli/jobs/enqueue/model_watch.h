/* model_watch.h - warns about what the model was not made for: sizes, nouns that it was never
 * taught, more variety than was measured to cost little, and guidance. */
#ifndef KILN_ENQUEUE_MODEL_WATCH_H
#define KILN_ENQUEUE_MODEL_WATCH_H

#include "scheduler/cli/core/cli.h"
#include "schemas/job.h"
#include "schemas/reuse/known.h"
#include "storage/formats/card/model_card.h"

#define KILN_WATCH_TOLD 4 /* sizes, and nouns; each once.  A sweep need not name all of them */

struct kiln_model_watch {
    const struct kiln_cli *cli;
    struct kiln_model_card *card;   /* NULL: cannot be seen from here */
    struct kiln_reuse_words *words; /* NULL: the model has no lists of its own */
    const char *model;              /* its directory's name */
    struct kiln_picture_size sizes[KILN_WATCH_TOLD];
    char nouns[KILN_WATCH_TOLD][KILN_NOUN_MAX];
    int size_count, noun_count, looked; /* looked: prompts */
    bool variety_told, guidance_told;
};

/* Reads kiln.json and words.txt of the setting `model`; what is wrong with them is reported
 * elsewhere. */
void kiln_model_watch_open(const struct kiln_cli *cli, struct kiln_model_watch *ret);
/* Says so if the model does not know the job's size, or a noun of its prompt, once for each; and
 * once if it has more variety than was measured, or guidance that the model does without. */
void kiln_model_watch_see(struct kiln_model_watch *watch, const struct kiln_job *job);
void kiln_model_watch_release(struct kiln_model_watch *watch);

#endif
