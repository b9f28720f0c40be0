/* verbs.h - the verbs of `kiln` that need the model and no queue.
 *
 * kiln executes kiln-worker for them, so that it loads no LibTorch itself.  They return an exit
 * status of sysexits.h.
 */
#ifndef KILN_VERBS_H
#define KILN_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"
#include "storage/formats/pictures/picture_read.h"

int kiln_verb_render(int argc, char **argv);
int kiln_verb_tokenize(int argc, char **argv);
int kiln_verb_version(void); /* of kiln-worker itself: `--version` */

/* Prints "kiln VERB: text" and returns the code's exit status. */
int kiln_verb_fail(const char *verb, const struct kiln_error *err);

/* --- files ------------------------------------------------------------------------------------ */
/* Writes under a temporary name first, so that a reader never finds half a file.  An existing file
 * keeps its mode; a link is followed.  What is not a regular file (a pipe, /dev/null) is written to
 * and not replaced. */
int kiln_verb_write(const char *path, const void *data, size_t size,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* As WebP, PNG or JPEG, by the ending of the path, which kiln_picture_format_of_path knows. */
int kiln_verb_write_picture(const char *path, const uint8_t *rgb, int32_t width, int32_t height,
                            bool lossless, struct kiln_error *err) KILN_MUST_CHECK;
/* What a run starts from: its size, and the pictures of the files of --init and --mask. */
struct kiln_verb_start {
    int32_t width, height;
    uint32_t own_width, own_height;  /* of the picture's file */
    uint8_t *rgb;                    /* of that size; malloc'd */
    struct kiln_picture_pixels mask; /* of its own size; malloc'd */
};
/* Reads the picture of a file.  It is resized to the start's width and height; if both are 0 they
 * become its own size, rounded down to sides that a picture may have. */
int kiln_verb_read_picture(const char *path, struct kiln_verb_start *start,
                           struct kiln_error *err) KILN_MUST_CHECK;
/* Reads the mask of a picture that has been read, which it must fit. */
int kiln_verb_read_mask(const char *path, struct kiln_verb_start *start,
                        struct kiln_error *err) KILN_MUST_CHECK;
/* Checks that a file can be written there, before there is anything to write.  name: of the option.
 */
int kiln_verb_may_write(const char *name, const char *path, struct kiln_error *err) KILN_MUST_CHECK;
/* Whether writing b would replace a; false for /dev/null, which accepts both. */
bool kiln_verb_same_file(const char *a, const char *b);

#endif
