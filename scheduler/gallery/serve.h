/* serve.h - the life of `kiln gallery serve`. */
#ifndef KILN_GALLERY_SERVE_H
#define KILN_GALLERY_SERVE_H

#include "scheduler/cli/core/cli.h"

struct kiln_gallery_app;

kiln_verb_function kiln_gallery_serve_verb;
/* Which pictures the settings allow to be shown. */
void kiln_gallery_levels(const struct kiln_config *config, struct kiln_gallery_app *app);

#endif
