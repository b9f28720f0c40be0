/* size_watch.h - warns about pictures of sizes that the model was not made for. */
#ifndef KILN_ENQUEUE_SIZE_WATCH_H
#define KILN_ENQUEUE_SIZE_WATCH_H

#include "scheduler/cli/core/cli.h"
#include "storage/formats/card/model_card.h"

#define KILN_SIZES_TOLD 4 /* each once; a sweep over many sizes need not name all of them */

struct kiln_size_watch {
    const struct kiln_cli *cli;
    struct kiln_model_card
        *card; /* NULL: it says nothing about sizes, or cannot be seen from here */
    const char *model;
    struct kiln_picture_size told[KILN_SIZES_TOLD];
    int told_count;
};

/* Reads the kiln.json of the setting `model`; what is wrong with it is reported elsewhere. */
void kiln_size_watch_open(const struct kiln_cli *cli, struct kiln_size_watch *ret);
/* Says so if the model does not know this size, once a size. */
void kiln_size_watch_see(struct kiln_size_watch *watch, uint32_t width, uint32_t height);
void kiln_size_watch_release(struct kiln_size_watch *watch);

#endif
