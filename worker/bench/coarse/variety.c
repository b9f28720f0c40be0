/* variety.c - how much variety costs little, and what kiln.json then says; see coarse.h.
 *
 * At a size it is the largest value up to which every measured one has the content of exact runs
 * (rule.c), in every number format: a job may ask for any value below it.
 */
#include <math.h>
#include <string.h>

#include "worker/bench/coarse/coarse.h"
#include "worker/engine/renderer.h"

/* The least variety of a table that costs too much, above 1 if none does; adds why to `words`.
 * *ret_any: whether one was measured. */
static double too_much(const struct kiln_coarse_table *table, json_t *words, bool *ret_any)
{
    char size[24], why[KILN_FIGURE_WHY];
    double least = 2;
    kiln_coarse_size_text(table->size, size);
    for (int run = 0; run < table->run_count; run++) {
        struct kiln_coarse_row row;
        if (table->lora >= 0 || table->runs[run].kind != KILN_RUN_VARIETY)
            continue;
        kiln_coarse_row_fill(table, run, &row);
        *ret_any = *ret_any || row.prompts > 0;
        if (kiln_coarse_content_holds(&row, why))
            continue;
        least = fmin(least, table->runs[run].mode.variety);
        json_array_append_new(words, json_sprintf("%s at %s, %s: %s", table->runs[run].name, size,
                                                  kiln_dtype_names[table->dtype], why));
    }
    return least;
}

/* The sizes of this measurement, and those that `before` has of the same weights. */
static json_t *most_json(const struct kiln_coarse *bench, const json_t *before, json_t *words)
{
    const struct kiln_coarse_options *o = &bench->options;
    json_t *most = json_object();
    if (kiln_coarse_same_model(bench, before))
        json_object_update(most, json_object_get(before, "most"));
    for (int s = 0; s < o->size_count; s++) {
        double least = 2, value = 0;
        bool measured = false;
        char size[24];
        for (int i = s; i < bench->table_count; i += o->size_count) /* those of the size: plan.c */
            least = fmin(least, too_much(&bench->tables[i], words, &measured));
        for (int i = 0; i < o->variety_count; i++)
            if (o->varieties[i] < least)
                value = fmax(value, o->varieties[i]);
        kiln_coarse_size_text(bench->tables[s].size, size);
        if (measured)
            json_object_set_new(most, size, json_real(value));
    }
    return most;
}

json_t *kiln_coarse_variety(const struct kiln_coarse *bench, const json_t *before)
{
    json_t *words = json_array(), *most = most_json(bench, before, words);
    return json_pack("{s:s, s:o, s:o, s:o}", "model",
                     diffusionz_model_hash(bench->pictures.context), "most", most, "not_offered",
                     words, "measured", kiln_coarse_json(bench, KILN_RUN_VARIETY));
}

void kiln_coarse_variety_print(const json_t *variety, FILE *out)
{
    const char *size;
    json_t *value, *words = json_object_get(variety, "not_offered");
    size_t i;
    bool first = true;
    json_object_foreach(json_object_get(variety, "most"), size, value)
    {
        fprintf(out, "%s up to %g at %s", first ? "\nvariety:" : ",", json_number_value(value),
                size);
        first = false;
    }
    fputs(json_array_size(words) > 0 ? "\nmore costs too much:\n" : "\n", out);
    json_array_foreach(words, i, value) fprintf(out, "- %s\n", json_string_value(value));
}
