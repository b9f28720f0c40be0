/* serve.h - the life of `kiln gallery serve`. */
#ifndef KILN_GALLERY_SERVE_H
#define KILN_GALLERY_SERVE_H

#include "scheduler/cli/core/cli.h"

kiln_verb_function kiln_gallery_verb;

#endif
