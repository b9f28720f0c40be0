/* options.h - the options of a verb as a table: for each its name, the check of its value, and
 * where the value goes.
 *
 *     const struct kiln_verb_option table[] = {
 *         {"steps", kiln_take_small, &steps, KILN_STEPS_MIN, KILN_STEPS_MAX},
 *         {"dtype", kiln_take_dtype, dtypes, .list = &count, .size = sizeof *dtypes, .most = 8},
 *         {"json", NULL, &json},
 *         {0},
 *     };
 */
#ifndef KILN_VERB_OPTIONS_H
#define KILN_VERB_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define KILN_VERB_OPTIONS_MAX 36
#define KILN_THREADS_MAX 1024 /* of --threads: more than any machine has cores */

struct kiln_verb_option;
/* Checks a value and stores it at option->to; KILN_BAD_INPUT or KILN_CONFIG names the option. */
typedef int kiln_take(const struct kiln_verb_option *option, char *value, struct kiln_error *err);

struct kiln_verb_option {
    const char *name; /* without dashes; one letter is "-n" */
    kiln_take *take;  /* NULL: a switch without a value */
    void *to;         /* what take says; a bool for a switch */
    uint64_t min, max;
    /* Values between commas: to is an array, size the bytes of one value, *list their number, at
     * most `most`.  The last list given counts. */
    int *list;
    size_t size;
    int most;
};

kiln_take kiln_take_text;   /* const char *: the value as it is, borrowed */
kiln_take kiln_take_prompt; /* the same: UTF-8, not longer than a prompt */
kiln_take kiln_take_whole;  /* uint64_t in [min, max] */
kiln_take kiln_take_small;  /* the same as int32_t */
kiln_take kiln_take_number; /* double in [min, max] */
kiln_take kiln_take_side;   /* int32_t: pixels of a side of a picture */
kiln_take kiln_take_device; /* int32_t: -1 for "cpu", N for "cuda:N" */
kiln_take kiln_take_dtype;  /* int32_t: enum diffusionz_dtype */
kiln_take kiln_take_coarse; /* struct kiln_mode: "off" or steps; with max 1 "auto" as well */
/* DiffusionZLora: FILE or FILE:W, cut at the colon; the option may be given `most` times.  A colon
 * without a number after it belongs to the name, unless only the part before it is a file; so does
 * any colon if only the whole name is one. */
kiln_take kiln_take_lora;
/* The same by "none" or "ink:0.8+paper", as in a job line: all of them. */
kiln_take kiln_take_loras;

/* Reads the command line of "kiln VERB"; argv[0] is replaced.  --help and -h set *ret_help and end
 * it.  KILN_BAD_INPUT or KILN_CONFIG for a mistake. */
int kiln_verb_options(const char *verb, int argc, char **argv, const struct kiln_verb_option *table,
                      bool *ret_help, struct kiln_error *err) KILN_MUST_CHECK;

#endif
