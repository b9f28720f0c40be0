/* target.h - what a request line and a form say: path, arguments.  Pure; trusts nothing.
 *
 * libmicrohttpd hands out paths that are decoded already (%2f has become a slash, %00 ends a
 * value), so the raw request line is read here instead.  A path never becomes a file's name: routes
 * compare it, and what is inside it is digits or a word that is looked up.
 */
#ifndef KILN_GALLERY_TARGET_H
#define KILN_GALLERY_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define KILN_WEB_TARGET_MAX 4096 /* bytes of path and query, as sent */
#define KILN_WEB_FORM_MAX 16384  /* bytes of a form */
#define KILN_WEB_ARGS_MAX 48

struct kiln_web_arg {
    const char *name, *value; /* decoded, valid UTF-8 without NUL; "" for a name alone */
};

struct kiln_web_args {
    struct kiln_web_arg at[KILN_WEB_ARGS_MAX];
    size_t count;
};

struct kiln_web_target {
    char *bytes;      /* the memory of all below */
    const char *path; /* decoded, begins with '/' */
    struct kiln_web_args args;
};

/* Reads "/path?name=value&...".  KILN_BAD_INPUT: a broken escape, a NUL or control character,
 * invalid UTF-8, "." or ".." or nothing between two slashes; KILN_FULL: too long or too many
 * arguments. */
int kiln_web_target_parse(const char *text, size_t len, struct kiln_web_target *ret,
                          struct kiln_error *err) KILN_MUST_CHECK;
/* Reads a body of application/x-www-form-urlencoded; ret->path is "". */
int kiln_web_form_parse(const char *text, size_t len, struct kiln_web_target *ret,
                        struct kiln_error *err) KILN_MUST_CHECK;
void kiln_web_target_release(struct kiln_web_target *target); /* accepts a zeroed one */

/* The first value of the name; NULL if it was not given, or is empty: a form sends every field. */
const char *kiln_web_arg(const struct kiln_web_args *args, const char *name);
/* A job's id, 1 .. 2^63 - 1: text[0..len) is decimal digits alone. */
bool kiln_web_id(const char *text, size_t len, uint64_t *ret);

#endif
