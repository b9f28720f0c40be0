/* export.h - `kiln gallery export "red star" --out DIR`: what a search finds, as `kiln export`
 * writes a batch. */
#ifndef KILN_GALLERY_EXPORT_H
#define KILN_GALLERY_EXPORT_H

#include "scheduler/cli/core/cli.h"

kiln_verb_function kiln_gallery_export_verb;

#endif
