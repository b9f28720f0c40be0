/* rule.c - when a coarse mode is as good as exact, and what kiln.json then says; see coarse.h.
 *
 * A mode is offered at a size if each loss, with its standard error, stays within a limit
 * (figures.h).  Fewer than PROMPTS_MIN prompts say too little about the error itself.
 *
 * What is in a picture is decided at the small size, so a small size is good if attributes and
 * whole prompts hold from it, whatever becomes of sharpness and spread.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "storage/formats/card/model_card.h"
#include "worker/bench/coarse/coarse.h"
#include "worker/engine/renderer.h"

/* In points of 100. */
#define SHARPNESS_LOSS 3.0
#define SPREAD_LOSS 5.0
#define PROMPTS_MIN 30

/* --- the rule --------------------------------------------------------------------------------- */

/* A LoRA that the judge does not know may have lost its style unseen. */
static bool style_holds(const struct kiln_coarse_table *table, const struct kiln_coarse_row *row,
                        char why[KILN_FIGURE_WHY])
{
    if (table->lora < 0)
        return true;
    if (table->style < 0)
        return kiln_figure_within("style", NAN, NAN, KILN_CARD_LOSS_STYLE, why);
    return kiln_figure_share_within("style", row->to_style, (double)row->pictures,
                                    KILN_CARD_LOSS_STYLE, why);
}

bool kiln_coarse_content_holds(const struct kiln_coarse_row *row, char why[KILN_FIGURE_WHY])
{
    why[0] = '\0';
    if (row->prompts < PROMPTS_MIN) {
        snprintf(why, KILN_FIGURE_WHY, "%zu %s too few to tell", row->prompts,
                 row->prompts == 1 ? "prompt is" : "prompts are");
        return false;
    }
    bool good = kiln_figure_share_within("attributes", row->to_attributes, row->asked,
                                         KILN_CARD_LOSS_ATTRIBUTES, why);
    return kiln_figure_share_within("whole prompts", row->to_whole, (double)row->pictures,
                                    KILN_CARD_LOSS_WHOLE, why) &&
           good;
}

bool kiln_coarse_holds(const struct kiln_coarse_table *table, int run, char why[KILN_FIGURE_WHY])
{
    struct kiln_coarse_row row;
    kiln_coarse_row_fill(table, run, &row);
    bool good = kiln_coarse_content_holds(&row, why);
    good = style_holds(table, &row, why) && good;
    good = kiln_figure_within("sharpness", 100 - 100 * row.of_sharpness.value,
                              100 * row.of_sharpness.error, SHARPNESS_LOSS, why) &&
           good;
    return kiln_figure_within("spread", 100 - 100 * row.of_spread.value, 100 * row.of_spread.error,
                              SPREAD_LOSS, why) &&
           good;
}

/* --- what the card says ----------------------------------------------------------------------- */

/* Run number of a mode: the modes follow exact. */
static int run_of(int mode)
{
    return 1 + mode;
}

static bool same_size(struct kiln_picture_size a, struct kiln_picture_size b)
{
    return a.width == b.width && a.height == b.height;
}

/* Whether a mode holds at a size with a LoRA (-1: none), in every dtype; `why` of the first where
 * it does not. */
static bool holds_at(const struct kiln_coarse *bench, int mode, struct kiln_picture_size size,
                     int lora, char why[KILN_FIGURE_WHY])
{
    bool any = false;
    for (int i = 0; i < bench->table_count; i++) {
        const struct kiln_coarse_table *table = &bench->tables[i];
        if (table->lora != lora || !same_size(table->size, size))
            continue;
        if (!kiln_coarse_holds(table, run_of(mode), why))
            return false;
        any = true;
    }
    return any;
}

static struct kiln_picture_size size_at(const struct kiln_coarse *bench, int i)
{
    return bench->tables[i].size; /* the first tables are those of the sizes without LoRAs */
}

/* The mode that holds at most sizes; of several the fastest.  -1: none holds anywhere. */
static int choose(const struct kiln_coarse *bench)
{
    const struct kiln_coarse_options *o = &bench->options;
    int best = -1, best_count = 0;
    char why[KILN_FIGURE_WHY];
    for (int m = 0; m < o->mode_count; m++) {
        int count = 0;
        for (int s = 0; s < o->size_count; s++)
            count += holds_at(bench, m, size_at(bench, s), -1, why);
        const bool faster = best >= 0 && kiln_mode_forwards(&o->modes[m], 0) <
                                             kiln_mode_forwards(&o->modes[best], 0);
        if (count > best_count || (count == best_count && count > 0 && faster)) {
            best = m;
            best_count = count;
        }
    }
    return best;
}

static void append_size(json_t *list, struct kiln_picture_size size)
{
    char text[24];
    kiln_coarse_size_text(size, text);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), text) == 0)
            return;
    json_array_append_new(list, json_string(text));
}

/* Sizes with a LoRA (-1: none) at which the mode holds. */
static json_t *sizes_of(const struct kiln_coarse *bench, int mode, int lora, int most)
{
    char why[KILN_FIGURE_WHY];
    json_t *list = json_array();
    for (int s = 0; s < bench->options.size_count && mode >= 0; s++)
        if (holds_at(bench, mode, size_at(bench, s), -1, why) &&
            holds_at(bench, mode, size_at(bench, s), lora, why) &&
            json_array_size(list) < (size_t)most)
            append_size(list, size_at(bench, s));
    return list;
}

/* Whether a mode has the content of exact runs from this small size, at a size without a LoRA. */
static bool is_good_small(const struct kiln_coarse *bench, struct kiln_picture_size small)
{
    char why[KILN_FIGURE_WHY];
    struct kiln_coarse_row row;
    for (int i = 0; i < bench->table_count; i++)
        for (int m = 0; m < bench->options.mode_count; m++) {
            const struct kiln_coarse_table *table = &bench->tables[i];
            const bool third = table->runs[run_of(m)].mode.middle > 0;
            kiln_coarse_row_fill(table, run_of(m), &row);
            if (table->lora < 0 &&
                (same_size(table->small, small) || (third && same_size(table->smallest, small))) &&
                kiln_coarse_content_holds(&row, why))
                return true;
        }
    return false;
}

/* A worker takes the listed size that is nearest to half the side, the first of several, as the
 * tables did: the good ones stay in the order in which they were given. */
static json_t *small_sizes(const struct kiln_coarse *bench)
{
    const struct kiln_coarse_options *o = &bench->options;
    json_t *list = json_array();
    for (int i = 0; i < o->small_count; i++)
        if (is_good_small(bench, o->small[i]))
            append_size(list, o->small[i]);
    for (int i = 0; i < o->size_count && !o->small_count; i++) {
        const struct kiln_coarse_table *table = &bench->tables[i];
        if (is_good_small(bench, table->small))
            append_size(list, table->small);
        if (table->smallest.width > 0 && is_good_small(bench, table->smallest))
            append_size(list, table->smallest);
    }
    return list;
}

/* Whether a table has this small size, as "WxH", at either level. */
static bool is_measured_small(const struct kiln_coarse *bench, const char *text)
{
    char small[24], smallest[24];
    for (int i = 0; i < bench->table_count; i++) {
        kiln_coarse_size_text(bench->tables[i].small, small);
        kiln_coarse_size_text(bench->tables[i].smallest, smallest); /* "0x0" is in no kiln.json */
        if (strcmp(small, text) == 0 || strcmp(smallest, text) == 0)
            return true;
    }
    return false;
}

bool kiln_coarse_same_model(const struct kiln_coarse *bench, const json_t *before)
{
    const char *model = json_string_value(json_object_get(before, "model"));
    return model && strcmp(model, diffusionz_model_hash(bench->pictures.context)) == 0;
}

/* What `before` says of small sizes that were not measured now stays true of the same weights. */
static void keep_small_sizes(const struct kiln_coarse *bench, const json_t *before, json_t *list)
{
    size_t i;
    json_t *size;
    if (!kiln_coarse_same_model(bench, before))
        return;
    json_array_foreach(json_object_get(before, "sizes"), i, size)
    {
        if (!is_measured_small(bench, json_string_value(size)) &&
            json_array_size(list) < KILN_LIST_MAX)
            json_array_append(list, size);
    }
}

static json_t *loras_json(const struct kiln_coarse *bench, int mode)
{
    json_t *list = json_array();
    for (int l = 0; l < bench->options.lora_count; l++) {
        json_t *sizes = sizes_of(bench, mode, l, KILN_CARD_LORA_SIZES);
        if (json_array_size(sizes) > 0)
            json_array_append_new(list,
                                  json_pack("{s:s, s:s, s:f, s:O}", "name", bench->lora_name[l],
                                            "sha256", bench->lora_hash[l], "strength",
                                            (double)bench->options.loras[l].weight, "for", sizes));
        json_decref(sizes);
    }
    return list;
}

/* What is not offered, and why, as sentences. */
static json_t *words_json(const struct kiln_coarse *bench, int chosen)
{
    const struct kiln_coarse_options *o = &bench->options;
    json_t *list = json_array();
    for (int i = 0; i < bench->table_count; i++) {
        const struct kiln_coarse_table *table = &bench->tables[i];
        for (int m = 0; m < o->mode_count; m++) {
            char size[24], with[KILN_NAME_MAX + 16] = "", why[KILN_FIGURE_WHY];
            kiln_coarse_size_text(table->size, size);
            if (table->lora >= 0)
                snprintf(with, sizeof with, " with %s", bench->lora_name[table->lora]);
            const bool holds = kiln_coarse_holds(table, run_of(m), why);
            if (holds && m != chosen)
                snprintf(why, sizeof why, "as good as exact, but auto has one mode");
            if (!holds || m != chosen)
                json_array_append_new(
                    list, json_sprintf("%s at %s, %s%s: %s", table->runs[run_of(m)].name, size,
                                       kiln_dtype_names[table->dtype], with, why));
        }
    }
    return list;
}

json_t *kiln_coarse_card(const struct kiln_coarse *bench, const json_t *before)
{
    const int mode = choose(bench);
    json_t *dtypes = json_array(), *sizes = small_sizes(bench);
    keep_small_sizes(bench, before, sizes);
    for (int i = 0; i < bench->options.dtype_count; i++)
        json_array_append_new(dtypes, json_string(kiln_dtype_names[bench->options.dtypes[i]]));
    return json_pack("{s:s, s:s, s:o, s:i, s:o, s:o, s:o, s:o, s:o}", "auto",
                     mode < 0 ? "off" : bench->tables[0].runs[run_of(mode)].name, "model",
                     diffusionz_model_hash(bench->pictures.context), "dtypes", dtypes, "steps",
                     bench->options.steps, "sizes", sizes, "for",
                     sizes_of(bench, mode, -1, KILN_LIST_MAX), "loras", loras_json(bench, mode),
                     "not_offered", words_json(bench, mode), "measured",
                     kiln_coarse_json(bench, KILN_RUN_COARSE));
}

void kiln_coarse_card_print(const json_t *card, FILE *out)
{
    const char *mode = json_string_value(json_object_get(card, "auto"));
    size_t i;
    const json_t *value;
    fprintf(out, "\ncoarse \"auto\": %s", strcmp(mode, "off") == 0 ? "exact" : mode);
    json_array_foreach(json_object_get(card, "for"), i, value)
        fprintf(out, "%s%s", i ? ", " : " at ", json_string_value(value));
    json_array_foreach(json_object_get(card, "loras"), i, value)
        fprintf(out, "%s%s", i ? ", " : "; with one of the LoRAs ",
                json_string_value(json_object_get(value, "name")));
    fputs("\nnot offered:\n", out);
    json_array_foreach(json_object_get(card, "not_offered"), i, value)
        fprintf(out, "- %s\n", json_string_value(value));
    if (json_array_size(json_object_get(card, "not_offered")) == 0)
        fputs("- nothing: every mode measured is offered\n", out);
}
