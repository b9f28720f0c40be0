/* crosstab.h - the pictures of a batch as a table over two of its settings ("X/Y sheet").
 *
 * Each pair of values has one picture, the last that was placed there.  The gallery's page /sheet
 * and `kiln export --grid` are both made of it.
 */
#ifndef KILN_CLI_CROSSTAB_H
#define KILN_CLI_CROSSTAB_H

#include "schemas/text/text.h"
#include "storage/ledger/read/read.h"

#define KILN_CROSSTAB_VALUES 24 /* of an axis */
#define KILN_CROSSTAB_VALUE_BYTES 120

enum kiln_crosstab_key {
    KILN_BY_SEED,
    KILN_BY_STEPS,
    KILN_BY_SIZE,
    KILN_BY_GUIDANCE,
    KILN_BY_LORAS,
    KILN_BY_STYLE,
    KILN_BY_MODE,
    KILN_BY_PROMPT,
    KILN_BY_NEGATIVE,
    KILN_BY_MODEL, /* as the worker has it */
    KILN_BY_TELEPORT,
    KILN_BY_ALIKE,
    KILN_BY_TENANT,
    KILN_BY_PRIORITY,
    KILN_BY_CUSTOM_ID,
    KILN_BY_PARENT,
    KILN_CROSSTAB_KEYS
};
struct kiln_crosstab_name {
    const char *name, *label; /* on command lines and in addresses; for people */
};
extern const struct kiln_crosstab_name kiln_crosstab_names[KILN_CROSSTAB_KEYS];
#define KILN_CROSSTAB_ALLOWED                                                                      \
    "seed, steps, size, guidance, loras, style, mode, prompt, negative_prompt, model, teleport, "  \
    "alike, tenant, priority, custom_id or parent"

struct kiln_axis {
    int key; /* enum kiln_crosstab_key */
    char values[KILN_CROSSTAB_VALUES][KILN_CROSSTAB_VALUE_BYTES];
    int count;
    bool more; /* there are values that have no place */
};
struct kiln_cell {
    uint64_t job;          /* 0: none */
    struct kiln_text html; /* what stands in it: of the caller */
};
struct kiln_crosstab { /* large: allocate it; zero but for x.key and y.key */
    struct kiln_axis x, y;
    struct kiln_cell cells[KILN_CROSSTAB_VALUES][KILN_CROSSTAB_VALUES]; /* [y][x] */
};

int kiln_crosstab_key(const char *name); /* -1: there is no such key */
/* What a job has under a key, for people. */
void kiln_crosstab_value(const struct kiln_job_row *row, int key,
                         char out[KILN_CROSSTAB_VALUE_BYTES]);
/* The cell of two values, NULL if an axis has no place left. */
struct kiln_cell *kiln_crosstab_cell(struct kiln_crosstab *table, const char *x, const char *y);
/* Appends the table as HTML, its values in order: numbers inside texts count as numbers. */
void kiln_crosstab_write(const struct kiln_crosstab *table, struct kiln_text *out);
void kiln_crosstab_release(struct kiln_crosstab *table); /* the texts of its cells */

#endif
