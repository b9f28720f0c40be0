/* paths.h - directories and files that several verbs look for. */
#ifndef KILN_CLI_PATHS_H
#define KILN_CLI_PATHS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "schemas/error.h"

/* Joins into out[PATH_MAX]; a path that does not fit becomes "", which no call accepts. */
char *kiln_join(char *out, const char *dir, const char *name);

/* Makes a directory and those above it that are missing. */
int kiln_make_path(const char *path, struct kiln_error *err) KILN_MUST_CHECK;

/* Removes a directory and everything in it; links are not followed. */
void kiln_remove_tree(const char *path);

/* Where the programs are, into out[PATH_MAX]. */
int kiln_program_dir(char *out, struct kiln_error *err) KILN_MUST_CHECK;

/* The directory at `tree` beside a build, or at `share` beside an installation, that has the file
 * `probe`: malloc'd, or NULL. */
char *kiln_find_shipped(const char *program_dir, const char *tree, const char *share,
                        const char *probe);
/* The demo model of a source tree or of an installation, for commands without --model: malloc'd;
 * NULL if it does not exist. */
char *kiln_demo_model(const char *program_dir);

/* The size that a model renders best, "512x512" (kiln_model_side); false if it is not known. */
bool kiln_model_size(const char *model, char *out, size_t size);

#endif
