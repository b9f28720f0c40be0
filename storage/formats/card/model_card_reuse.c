/* model_card_reuse.c - the object "teleport" of kiln.json: what runs from stored latents may skip.
 *
 *     {"model": "572f17112d631616", "dtypes": ["bf16"], "steps": 8, "soften": [8, 4], "rows":
 *       [{"class": "same_prompt", "depth": 1, "donors": 4, "uses": 4, "variety": 0.99,
 *         "loss": [0.1, 0.4], "for": ["256x256"]}], "small": {"rows": [...]},
 *      "coarse": {"mode": "4+2", "rows": [...]},
 *      "loras": [{"sha256": 64 hex digits, "strength": 1, "rows": [...]}]}
 */
#include <stdlib.h>
#include <string.h>

#include "storage/formats/card/model_card_parts.h"

#define COUNT_MAX 1000000 /* of donors and uses */
#define LOSS_MAX 100      /* points */
#define CHANGE_MAX 1000   /* times the size of the start */

/* A number between the bounds. */
static int read_number(const struct kiln_json_value *value, double min, double max, double *ret,
                       struct kiln_error *err)
{
    if (value->type != KILN_JSON_NUMBER || !kiln_json_double(value, ret) ||
        !(*ret >= min && *ret <= max))
        return kiln_fail(err, KILN_CONFIG, "expected a number from %g to %g", min, max);
    return 0;
}

static int read_whole(const struct kiln_json_value *value, uint32_t max, uint32_t *ret,
                      struct kiln_error *err)
{
    uint64_t number;
    if (value->type != KILN_JSON_NUMBER || !kiln_json_u64(value, &number) || number < 1 ||
        number > max)
        return kiln_fail(err, KILN_CONFIG, "expected a whole number from 1 to %u", max);
    *ret = (uint32_t)number;
    return 0;
}

static int read_class(const struct kiln_json_value *value, enum kiln_reuse_class *ret,
                      struct kiln_error *err)
{
    char text[KILN_CARD_TEXT];
    int code = kiln_card_text(value, text, err);
    if (code != 0)
        return code;
    *ret = KILN_REUSE_NONE;
    for (int i = 1; i < KILN_REUSE_CLASS_COUNT; i++)
        if (strcmp(text, kiln_reuse_class_name((enum kiln_reuse_class)i)) == 0)
            *ret = (enum kiln_reuse_class)i;
    return *ret ? 0
                : kiln_fail(err, KILN_CONFIG,
                            "\"%s\": expected \"same_prompt\", \"canonical\", \"reworded\" or "
                            "\"donor_says_more\"",
                            text);
}

/* Two numbers. */
struct two {
    double at[2];
    uint32_t count;
};

static int read_loss(const struct kiln_json_value *value, void *ret, struct kiln_error *err)
{
    struct two *losses = ret;
    return read_number(value, -LOSS_MAX, LOSS_MAX, &losses->at[losses->count++], err);
}

/* [LEAST, MOST] */
static int read_bound(const struct kiln_json_value *value, void *ret, struct kiln_error *err)
{
    struct two *bounds = ret;
    return read_number(value, 0, CHANGE_MAX, &bounds->at[bounds->count++], err);
}

static int read_change(const struct kiln_json_value *value, struct kiln_card_reuse_row *row,
                       struct kiln_error *err)
{
    struct two bounds = {{0}, 0};
    int code = kiln_card_values(value, 2, "bounds", read_bound, &bounds, err);
    if (code == 0 && (bounds.count != 2 || !(bounds.at[1] > 0) || bounds.at[0] > bounds.at[1]))
        code = kiln_fail(err, KILN_CONFIG,
                         "expected two numbers: the least change, and the most, above 0");
    row->change[0] = bounds.at[0];
    row->change[1] = bounds.at[1];
    return code;
}

/* [ATTRIBUTES, WHOLE PROMPTS] */
static int read_losses(const struct kiln_json_value *value, struct kiln_card_reuse_row *row,
                       struct kiln_error *err)
{
    struct two losses = {{0}, 0};
    int code = kiln_card_values(value, 2, "losses", read_loss, &losses, err);
    if (code == 0 && losses.count != 2)
        code = kiln_fail(err, KILN_CONFIG, "expected two numbers: attributes and whole prompts");
    row->loss_attributes = losses.at[0];
    row->loss_whole = losses.at[1];
    return code;
}

static int read_for(const char *text, void *ret, struct kiln_error *err)
{
    struct kiln_card_reuse_row *row = ret;
    return kiln_card_bounds(text, &row->sizes[row->size_count], err);
}

/* A row while it is read, and which keys it has had. */
struct reading {
    struct kiln_card_reuse_row row;
    bool has_variety, has_loss;
};

static int read_row_key(const struct kiln_json_value *key, const struct kiln_json_value *value,
                        void *ret, struct kiln_error *err)
{
    struct reading *reading = ret;
    struct kiln_card_reuse_row *row = &reading->row;
    if (kiln_json_equals(key, "class"))
        return read_class(value, &row->class, err) ? kiln_card_refuse("class", err) : 0;
    if (kiln_json_equals(key, "depth"))
        return kiln_card_count(value, &row->depth, err) ? kiln_card_refuse("depth", err) : 0;
    if (kiln_json_equals(key, "donors"))
        return read_whole(value, COUNT_MAX, &row->donors, err) ? kiln_card_refuse("donors", err)
                                                               : 0;
    if (kiln_json_equals(key, "uses"))
        return read_whole(value, COUNT_MAX, &row->uses, err) ? kiln_card_refuse("uses", err) : 0;
    if (kiln_json_equals(key, "variety")) {
        reading->has_variety = true;
        return read_number(value, 0, 2, &row->variety, err) ? kiln_card_refuse("variety", err) : 0;
    }
    if (kiln_json_equals(key, "loss")) {
        reading->has_loss = true;
        return read_losses(value, row, err) ? kiln_card_refuse("loss", err) : 0;
    }
    if (kiln_json_equals(key, "dtypes"))
        return kiln_card_dtypes(value, &row->dtypes, err) ? kiln_card_refuse("dtypes", err) : 0;
    if (kiln_json_equals(key, "change"))
        return read_change(value, row, err) ? kiln_card_refuse("change", err) : 0;
    if (kiln_json_equals(key, "for"))
        return kiln_card_list(value, &row->size_count, KILN_CARD_REUSE_SIZES, read_for, row, err)
                   ? kiln_card_refuse("for", err)
                   : 0;
    return 0;
}

/* But for bounds of the change and formats nothing has a default: a row says what was measured. */
static const char *missing(const struct reading *reading)
{
    const struct kiln_card_reuse_row *row = &reading->row;
    return !row->class             ? "class"
           : !row->depth           ? "depth"
           : !row->donors          ? "donors"
           : !row->uses            ? "uses"
           : !reading->has_variety ? "variety"
           : !reading->has_loss    ? "loss"
           : row->size_count == 0  ? "for"
                                   : NULL;
}

/* Adds a row; the caller's bound leaves room for it. */
static int add_row(const struct kiln_json_value *value, struct kiln_card_reuse_row *rows,
                   uint32_t *count, struct kiln_error *err)
{
    struct reading reading = {0};
    int code = kiln_card_object("rows", value, read_row_key, &reading, err);
    if (code == 0 && missing(&reading))
        code = kiln_fail(err, KILN_CONFIG, "number %u lacks \"%s\"", *count + 1, missing(&reading));
    if (code == 0)
        rows[(*count)++] = reading.row;
    return code;
}

static int read_row(const struct kiln_json_value *value, void *ret, struct kiln_error *err)
{
    struct kiln_card_reuse *reuse = ret;
    return add_row(value, reuse->rows, &reuse->row_count, err);
}

static int read_small_row(const struct kiln_json_value *value, void *ret, struct kiln_error *err)
{
    struct kiln_card_reuse *reuse = ret;
    return add_row(value, reuse->small_rows, &reuse->small_count, err);
}

static int read_coarse_row(const struct kiln_json_value *value, void *ret, struct kiln_error *err)
{
    struct kiln_card_reuse *reuse = ret;
    return add_row(value, reuse->coarse_rows, &reuse->coarse_count, err);
}

static int read_lora_row(const struct kiln_json_value *value, void *ret, struct kiln_error *err)
{
    struct kiln_card_reuse *reuse = ret;
    if (reuse->lora_row_count == KILN_CARD_LORA_ROWS)
        return kiln_fail(err, KILN_CONFIG, "all LoRAs together have more than %d rows",
                         KILN_CARD_LORA_ROWS);
    return add_row(value, reuse->lora_rows, &reuse->lora_row_count, err);
}

/* Of the LoRA that is read now, the one behind those that were counted. */
static int read_lora_key(const struct kiln_json_value *key, const struct kiln_json_value *value,
                         void *ret, struct kiln_error *err)
{
    struct kiln_card_reuse *reuse = ret;
    struct kiln_card_reuse_lora *lora = &reuse->loras[reuse->lora_count];
    if (kiln_json_equals(key, "sha256"))
        return kiln_card_sha256(value, lora->sha256, err);
    if (kiln_json_equals(key, "strength"))
        return kiln_card_strength(value, &lora->strength, err);
    if (!kiln_json_equals(key, "rows"))
        return 0;
    reuse->lora_row_count = lora->first;
    int code = kiln_card_values(value, KILN_CARD_REUSE_ROWS, "rows", read_lora_row, reuse, err);
    lora->count = reuse->lora_row_count - lora->first;
    return code ? kiln_card_refuse("rows", err) : 0;
}

static int read_lora(const struct kiln_json_value *value, void *ret, struct kiln_error *err)
{
    struct kiln_card_reuse *reuse = ret;
    struct kiln_card_reuse_lora *lora = &reuse->loras[reuse->lora_count];
    *lora = (struct kiln_card_reuse_lora){.strength = 1, .first = reuse->lora_row_count};
    int code = kiln_card_object("loras", value, read_lora_key, reuse, err);
    if (code == 0 && !lora->sha256[0])
        code = kiln_fail(err, KILN_CONFIG, "a LoRA without \"sha256\"");
    reuse->lora_count += code == 0;
    return code;
}

static int read_coarse_mode(const struct kiln_json_value *value, struct kiln_mode *ret,
                            struct kiln_error *err)
{
    char text[KILN_CARD_TEXT];
    int code = kiln_card_text(value, text, err);
    if (code == 0 && !(kiln_mode_parse_coarse(text, ret) && ret->kind == KILN_MODE_COARSE))
        code = kiln_fail(err, KILN_CONFIG, "\"%s\": expected steps such as \"4+2\"", text);
    return code;
}

static int read_coarse_key(const struct kiln_json_value *key, const struct kiln_json_value *value,
                           void *ret, struct kiln_error *err)
{
    struct kiln_card_reuse *reuse = ret;
    if (kiln_json_equals(key, "mode"))
        return read_coarse_mode(value, &reuse->coarse, err)
                   ? kiln_card_refuse("teleport.coarse.mode", err)
                   : 0;
    if (!kiln_json_equals(key, "rows"))
        return 0;
    reuse->coarse_count = 0;
    return kiln_card_values(value, KILN_CARD_SMALL_ROWS, "rows", read_coarse_row, reuse, err)
               ? kiln_card_refuse("teleport.coarse.rows", err)
               : 0;
}

static int read_small_key(const struct kiln_json_value *key, const struct kiln_json_value *value,
                          void *ret, struct kiln_error *err)
{
    struct kiln_card_reuse *reuse = ret;
    if (!kiln_json_equals(key, "rows"))
        return 0;
    reuse->small_count = 0;
    return kiln_card_values(value, KILN_CARD_SMALL_ROWS, "rows", read_small_row, reuse, err)
               ? kiln_card_refuse("teleport.small.rows", err)
               : 0;
}

static int read_side(const struct kiln_json_value *value, void *ret, struct kiln_error *err)
{
    struct kiln_card_reuse *reuse = ret;
    double side;
    int code = read_number(value, 0, KILN_CARD_SOFTEN_MAX, &side, err);
    if (code == 0 && side != (uint32_t)side)
        code = kiln_fail(err, KILN_CONFIG, "expected whole numbers");
    if (code == 0)
        reuse->soften[reuse->soften_count++] = (uint32_t)side;
    return code;
}

static int read_key(const struct kiln_json_value *key, const struct kiln_json_value *value,
                    void *ret, struct kiln_error *err)
{
    struct kiln_card_reuse *reuse = ret;
    if (kiln_json_equals(key, "model"))
        return kiln_card_model(value, reuse->model, err) ? kiln_card_refuse("teleport.model", err)
                                                         : 0;
    if (kiln_json_equals(key, "dtypes"))
        return kiln_card_dtypes(value, &reuse->dtypes, err)
                   ? kiln_card_refuse("teleport.dtypes", err)
                   : 0;
    if (kiln_json_equals(key, "steps"))
        return kiln_card_count(value, &reuse->steps, err) ? kiln_card_refuse("teleport.steps", err)
                                                          : 0;
    if (kiln_json_equals(key, "soften")) {
        reuse->soften_count = 0;
        return kiln_card_values(value, KILN_CARD_SOFTEN, "depths", read_side, reuse, err)
                   ? kiln_card_refuse("teleport.soften", err)
                   : 0;
    }
    if (kiln_json_equals(key, "rows")) {
        reuse->row_count = 0;
        return kiln_card_values(value, KILN_CARD_REUSE_ROWS, "rows", read_row, reuse, err)
                   ? kiln_card_refuse("teleport.rows", err)
                   : 0;
    }
    if (kiln_json_equals(key, "loras")) {
        reuse->lora_count = reuse->lora_row_count = 0;
        return kiln_card_values(value, KILN_CARD_REUSE_LORAS, "LoRAs", read_lora, reuse, err)
                   ? kiln_card_refuse("teleport.loras", err)
                   : 0;
    }
    if (kiln_json_equals(key, "coarse"))
        return kiln_card_object("teleport.coarse", value, read_coarse_key, reuse, err);
    return kiln_json_equals(key, "small")
               ? kiln_card_object("teleport.small", value, read_small_key, reuse, err)
               : 0;
}

int kiln_card_reuse_read(const struct kiln_json_value *value, struct kiln_card_reuse *ret,
                         struct kiln_error *err)
{
    ret->steps = KILN_STEPS_DEFAULT;
    int code = kiln_card_object("teleport", value, read_key, ret, err);
    if (code == 0 && ret->coarse_count > 0 && ret->coarse.kind != KILN_MODE_COARSE)
        code = kiln_fail(err, KILN_CONFIG, "\"teleport.coarse\": its rows need a \"mode\"");
    for (uint32_t table = 0; table < KILN_REUSE_LORA + ret->lora_count; table++) {
        static const char *const names[] = {"", "small.", "coarse.", "loras."};
        const uint32_t steps = table == KILN_REUSE_COARSE ? ret->coarse.small : ret->steps;
        uint32_t count;
        const struct kiln_card_reuse_row *rows =
            kiln_card_reuse_rows(ret, (enum kiln_reuse_table)table, &count);
        for (uint32_t i = 0; i < count && code == 0; i++)
            if (rows[i].depth >= steps)
                code = kiln_fail(err, KILN_CONFIG,
                                 "\"teleport.%srows\": number %u: depth %u of %u steps leaves "
                                 "none",
                                 names[table < KILN_REUSE_LORA ? table : KILN_REUSE_LORA], i + 1,
                                 rows[i].depth, steps);
    }
    return code;
}

bool kiln_card_reuse_table_of(const struct kiln_card_reuse *reuse, const struct kiln_job *job,
                              bool small, bool coarse, enum kiln_reuse_table *ret)
{
    const struct kiln_card_picture picture = kiln_card_picture_of(job);
    *ret = coarse ? KILN_REUSE_COARSE : small ? KILN_REUSE_SMALL : KILN_REUSE_OWN;
    if (job->lora_count == 0)
        return true;
    for (uint32_t i = 0; i < reuse->lora_count && !small && !coarse; i++) {
        *ret = (enum kiln_reuse_table)(KILN_REUSE_LORA + i);
        if (kiln_card_lora_is(reuse->loras[i].sha256, reuse->loras[i].strength, &picture))
            return true;
    }
    return false;
}

bool kiln_card_reuse_offers(const struct kiln_card_reuse *reuse)
{
    uint32_t count = reuse->row_count + reuse->small_count + reuse->coarse_count;
    for (uint32_t i = 0; i < reuse->lora_count; i++)
        count += reuse->loras[i].count;
    return count > 0;
}

bool kiln_card_reuse_serves(const struct kiln_card_reuse *reuse, const char *lora_set)
{
    const char *scale = strrchr(lora_set, ':'), *file = strrchr(lora_set, '@');
    if (lora_set[0] == '\0')
        return reuse->row_count + reuse->small_count + reuse->coarse_count > 0;
    if (!scale || !file || strchr(lora_set, '+')) /* one that is not registered, or several */
        return false;
    const struct kiln_card_picture picture = {
        .lora_count = 1, .lora_sha256 = file + 1, .lora_scale = strtod(scale + 1, NULL)};
    bool found = false;
    for (uint32_t i = 0; i < reuse->lora_count && !found; i++)
        found = reuse->loras[i].count > 0 &&
                kiln_card_lora_is(reuse->loras[i].sha256, reuse->loras[i].strength, &picture);
    return found;
}

uint32_t kiln_card_reuse_soften(const struct kiln_card_reuse *reuse, uint32_t depth)
{
    return depth <= reuse->soften_count ? reuse->soften[depth - 1] : 0;
}

const struct kiln_card_reuse_row *kiln_card_reuse_rows(const struct kiln_card_reuse *reuse,
                                                       enum kiln_reuse_table table,
                                                       uint32_t *ret_count)
{
    switch (table) {
    case KILN_REUSE_OWN:
        *ret_count = reuse->row_count;
        return reuse->rows;
    case KILN_REUSE_SMALL:
        *ret_count = reuse->small_count;
        return reuse->small_rows;
    case KILN_REUSE_COARSE:
        *ret_count = reuse->coarse_count;
        return reuse->coarse_rows;
    default:
        *ret_count = reuse->loras[table - KILN_REUSE_LORA].count;
        return reuse->lora_rows + reuse->loras[table - KILN_REUSE_LORA].first;
    }
}

bool kiln_card_reuse_at(const struct kiln_card_reuse_row *row, uint32_t width, uint32_t height)
{
    return kiln_card_sizes_have(row->sizes, row->size_count, width, height);
}

static bool is_of(const struct kiln_card_reuse_row *row, const struct kiln_card_reuse_run *run)
{
    return row->class == run->class && row->depth == run->depth &&
           kiln_card_reuse_at(row, run->width, run->height);
}

static bool is_in(const struct kiln_card_reuse *reuse, const struct kiln_card_reuse_row *row,
                  const char *dtype)
{
    return kiln_card_dtypes_have(row->dtypes.count > 0 ? &row->dtypes : &reuse->dtypes, dtype);
}

static void keep_rows(const struct kiln_card_reuse *reuse, struct kiln_card_reuse_row *rows,
                      uint32_t *count, const char *dtype)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *count; i++)
        if (is_in(reuse, &rows[i], dtype))
            rows[kept++] = rows[i];
    *count = kept;
}

void kiln_card_reuse_keep(struct kiln_card_reuse *reuse, const char *dtype)
{
    keep_rows(reuse, reuse->rows, &reuse->row_count, dtype);
    keep_rows(reuse, reuse->small_rows, &reuse->small_count, dtype);
    keep_rows(reuse, reuse->coarse_rows, &reuse->coarse_count, dtype);
    for (uint32_t i = 0; i < reuse->lora_count; i++)
        keep_rows(reuse, reuse->lora_rows + reuse->loras[i].first, &reuse->loras[i].count, dtype);
}

bool kiln_card_reuse_fits(const struct kiln_card_reuse *reuse,
                          const struct kiln_card_reuse_run *run, const char *model_hash,
                          const char *dtype)
{
    uint32_t count;
    const struct kiln_card_reuse_row *rows = kiln_card_reuse_rows(reuse, run->table, &count);
    bool found = false;
    for (uint32_t i = 0; i < count && !found; i++)
        found = is_of(&rows[i], run) && is_in(reuse, &rows[i], dtype);
    return found && (!reuse->model[0] || strcmp(reuse->model, model_hash) == 0);
}

bool kiln_card_reuse_bounds(const struct kiln_card_reuse *reuse,
                            const struct kiln_card_reuse_run *run, double ret[2])
{
    uint32_t count;
    const struct kiln_card_reuse_row *rows = kiln_card_reuse_rows(reuse, run->table, &count);
    for (uint32_t i = 0; i < count; i++)
        if (is_of(&rows[i], run) && rows[i].change[1] > 0) {
            memcpy(ret, rows[i].change, sizeof rows[i].change);
            return true;
        }
    return false;
}
