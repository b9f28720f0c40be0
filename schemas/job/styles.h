/* styles.h - style presets: words around a prompt.
 *
 * The built-in ones are schemas/styles.json; a user's file has the same form and adds to them or
 * replaces one of the same name:  {"ink": {"prefix": "", "suffix": ", ink drawing", "negative":
 * ""}}
 */
#ifndef KILN_STYLES_H
#define KILN_STYLES_H

#include <stddef.h>

#include "schemas/error.h"

struct kiln_style {
    char *name, *prefix, *suffix, *negative;
};

struct kiln_styles;

/* The presets built into the programs; never freed.  NULL only when memory is short. */
const struct kiln_styles *kiln_styles_builtin(void);

/* The built-in presets and those of a file's text; path is for errors.  Free with kiln_styles_free.
 */
int kiln_styles_parse(const char *text, size_t len, const char *path, struct kiln_styles **ret,
                      struct kiln_error *err) KILN_MUST_CHECK;
void kiln_styles_free(struct kiln_styles *styles); /* accepts NULL */

/* The part of a prompt that has the words of the style around it; all of it if they are not. */
const char *kiln_style_own(const struct kiln_style *style, const char *prompt, size_t *ret_len);
/* How many bytes of a negative prompt are in front of the words of the style. */
size_t kiln_style_own_negative(const struct kiln_style *style, const char *negative);

/* Borrowed, or NULL.  The index runs over all, sorted by name. */
const struct kiln_style *kiln_styles_find(const struct kiln_styles *styles, const char *name,
                                          size_t len);
const struct kiln_style *kiln_styles_at(const struct kiln_styles *styles, size_t index);
size_t kiln_styles_count(const struct kiln_styles *styles);

#endif
