/* crosstab.c - see crosstab.h. */
#include "scheduler/cli/core/output/crosstab.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/text/html.h"
#include "schemas/text/utf8.h"

const struct kiln_crosstab_name kiln_crosstab_names[KILN_CROSSTAB_KEYS] = {
    [KILN_BY_SEED] = {"seed", "Seed"},
    [KILN_BY_STEPS] = {"steps", "Steps"},
    [KILN_BY_SIZE] = {"size", "Size"},
    [KILN_BY_GUIDANCE] = {"guidance", "Guidance"},
    [KILN_BY_LORAS] = {"loras", "LoRAs"},
    [KILN_BY_STYLE] = {"style", "Style"},
    [KILN_BY_MODE] = {"mode", "Made"},
    [KILN_BY_PROMPT] = {"prompt", "Prompt"},
    [KILN_BY_NEGATIVE] = {"negative_prompt", "Negative prompt"},
    [KILN_BY_MODEL] = {"model", "Model"},
    [KILN_BY_TELEPORT] = {"teleport", "Teleport"},
    [KILN_BY_ALIKE] = {"alike", "Alike"},
    [KILN_BY_TENANT] = {"tenant", "Tenant"},
    [KILN_BY_PRIORITY] = {"priority", "Priority"},
    [KILN_BY_CUSTOM_ID] = {"custom_id", "Custom id"},
    [KILN_BY_PARENT] = {"parent", "Made from"},
};

int kiln_crosstab_key(const char *name)
{
    for (int key = 0; key < KILN_CROSSTAB_KEYS; key++)
        if (strcmp(kiln_crosstab_names[key].name, name) == 0)
            return key;
    return -1;
}

void kiln_crosstab_value(const struct kiln_job_row *row, int key,
                         char out[KILN_CROSSTAB_VALUE_BYTES])
{
    const struct kiln_job *job = &row->job;
    char loras[KILN_LORA_SET_MAX];
    const char *text = NULL; /* of a key that is a text; "" or NULL is none */
    switch (key) {
    case KILN_BY_SEED:
        snprintf(out, KILN_CROSSTAB_VALUE_BYTES, "%" PRIu64, job->seed);
        return;
    case KILN_BY_STEPS:
        snprintf(out, KILN_CROSSTAB_VALUE_BYTES, "%u", job->steps);
        return;
    case KILN_BY_SIZE:
        snprintf(out, KILN_CROSSTAB_VALUE_BYTES, "%ux%u", job->width, job->height);
        return;
    case KILN_BY_GUIDANCE:
        snprintf(out, KILN_CROSSTAB_VALUE_BYTES, "%g", job->guidance);
        return;
    case KILN_BY_ALIKE:
        snprintf(out, KILN_CROSSTAB_VALUE_BYTES, "%u", job->alike);
        return;
    case KILN_BY_PRIORITY:
        snprintf(out, KILN_CROSSTAB_VALUE_BYTES, "%d", job->priority);
        return;
    case KILN_BY_PARENT:
        if (job->parent) {
            snprintf(out, KILN_CROSSTAB_VALUE_BYTES, "%" PRIu64, job->parent);
            return;
        }
        break;
    case KILN_BY_LORAS:
        kiln_lora_set_text(job->loras, job->lora_count, loras, sizeof loras);
        text = loras;
        break;
    case KILN_BY_STYLE:
        text = job->style;
        break;
    case KILN_BY_MODE:
        text = kiln_mode_shown(row->rendered_mode);
        break;
    case KILN_BY_PROMPT:
        text = job->prompt;
        break;
    case KILN_BY_NEGATIVE:
        text = job->negative_prompt;
        break;
    case KILN_BY_MODEL:
        text = row->model_name;
        break;
    case KILN_BY_TELEPORT:
        text = kiln_teleport_name(job->teleport);
        break;
    case KILN_BY_TENANT:
        text = job->tenant;
        break;
    case KILN_BY_CUSTOM_ID:
        text = job->custom_id;
        break;
    default:
        break;
    }
    kiln_utf8_copy(out, KILN_CROSSTAB_VALUE_BYTES, text && text[0] ? text : "none");
}

/* The place of a value on its axis, or -1 if there is none left. */
static int place_of(struct kiln_axis *axis, const char *value)
{
    for (int i = 0; i < axis->count; i++)
        if (strcmp(axis->values[i], value) == 0)
            return i;
    if (axis->count == KILN_CROSSTAB_VALUES) {
        axis->more = true;
        return -1;
    }
    snprintf(axis->values[axis->count], KILN_CROSSTAB_VALUE_BYTES, "%s", value);
    return axis->count++;
}

struct kiln_cell *kiln_crosstab_cell(struct kiln_crosstab *table, const char *x, const char *y)
{
    int column = place_of(&table->x, x), line = place_of(&table->y, y);
    return column >= 0 && line >= 0 ? &table->cells[line][column] : NULL;
}

/* --- as HTML ---------------------------------------------------------------------------------- */

struct order {
    const char *value;
    int at;
};

/* "8" before "10", "512x512" before "1024x768". */
static int by_value(const void *a, const void *b)
{
    return strverscmp(((const struct order *)a)->value, ((const struct order *)b)->value);
}

static void sort(const struct kiln_axis *axis, struct order order[KILN_CROSSTAB_VALUES])
{
    for (int i = 0; i < axis->count; i++)
        order[i] = (struct order){axis->values[i], i};
    qsort(order, (size_t)axis->count, sizeof *order, by_value);
}

static void add_heading(struct kiln_text *out, const char *scope, const char *text)
{
    kiln_text_printf(out, "<th scope=\"%s\" dir=\"auto\">", scope);
    char piece[KILN_HTML_PIECE];
    for (size_t len; (len = kiln_html_next(&text, piece)) > 0;)
        kiln_text_add(out, piece, len);
    kiln_text_puts(out, "</th>");
}

void kiln_crosstab_write(const struct kiln_crosstab *table, struct kiln_text *out)
{
    struct order columns[KILN_CROSSTAB_VALUES], lines[KILN_CROSSTAB_VALUES];
    sort(&table->x, columns);
    sort(&table->y, lines);
    kiln_text_printf(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Sheet\">"
        "<table class=\"sheet\"><thead><tr><th scope=\"col\">%s \xe2\x86\x93 &nbsp; %s "
        "\xe2\x86\x92</th>",
        kiln_crosstab_names[table->y.key].label, kiln_crosstab_names[table->x.key].label);
    for (int x = 0; x < table->x.count; x++)
        add_heading(out, "col", columns[x].value);
    kiln_text_puts(out, "</tr></thead><tbody>");
    for (int y = 0; y < table->y.count; y++) {
        kiln_text_puts(out, "<tr>");
        add_heading(out, "row", lines[y].value);
        for (int x = 0; x < table->x.count; x++) {
            const struct kiln_text *html = &table->cells[lines[y].at][columns[x].at].html;
            kiln_text_puts(out, "<td>");
            kiln_text_add(out, html->at ? html->at : "", html->len);
            kiln_text_puts(out, "</td>");
        }
        kiln_text_puts(out, "</tr>\n");
    }
    kiln_text_puts(out, "</tbody></table></div>");
    if (table->x.more || table->y.more)
        kiln_text_printf(out, "<p>Only the first %d values of each setting are shown.</p>",
                         KILN_CROSSTAB_VALUES);
}

void kiln_crosstab_release(struct kiln_crosstab *table)
{
    for (int i = 0; i < KILN_CROSSTAB_VALUES * KILN_CROSSTAB_VALUES; i++)
        kiln_text_release(&table->cells[i / KILN_CROSSTAB_VALUES][i % KILN_CROSSTAB_VALUES].html);
}
