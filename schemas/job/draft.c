/* draft.c - reads a job line into values by key, and counts the jobs that it makes.
 *
 * First, every member is stored by its key; an unknown key or one given twice is refused.  Then
 * the overrides (--set) replace values of the line.  Prompt, sizes, styles and seeds can multiply a
 * line, so they are checked and counted here.  All other values are kept as text; build.c parses
 * them for each job.  For the usual line of one job nothing is parsed twice.
 */
#include "schemas/job/draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/job/sizes.h"
#include "schemas/job/template.h"
#include "schemas/limits.h"
#include "schemas/names.h"
#include "schemas/text/utf8.h"

/* --- the members of the object ------------------------------------------------------------- */

/* Stores the values of one object.  *ret_seen gets a bit for each key, by which a key that is given
 * twice is refused. */
static int read_members(struct kiln_draft *draft, const char *text, size_t len, uint64_t *ret_seen,
                        struct kiln_error *err)
{
    struct kiln_json_reader reader;
    uint64_t seen = 0;
    int code = kiln_json_open(&reader, text, len, KILN_JSON_OBJECT, err);
    while (!code) {
        struct kiln_json_value name, value;
        bool more;
        code = kiln_json_next(&reader, &name, &value, &more, err);
        if (code || !more)
            break;
        char decoded[64], hint[KILN_JOB_KEY_HINT_MAX];
        int key = -1;
        if (!name.escaped)
            key = kiln_job_key_find(name.text, name.len);
        else if (kiln_json_string(&name, decoded, sizeof decoded, &len))
            key = kiln_job_key_find(decoded, len);
        if (key < 0) {
            kiln_job_key_hint(name.text, name.len, hint);
            len = name.len < 64 ? name.len : kiln_utf8_whole(name.text, 64);
            return kiln_fail(err, KILN_BAD_INPUT, "unknown key \"%.*s\"; %s", (int)len, name.text,
                             hint);
        }
        if (seen & (uint64_t)1 << key)
            return kiln_fail(err, KILN_BAD_INPUT, "key \"%s\" is given twice",
                             kiln_job_keys[key].name);
        seen |= (uint64_t)1 << key;
        draft->values[key] = value;
    }
    draft->present |= seen;
    *ret_seen = seen;
    return code;
}

/* Reads the overrides in place of values of the line.  A size also replaces width and height, and
 * width or height also replaces a size; other LoRAs take the words of those before away. */
static int read_overrides(struct kiln_draft *draft, struct kiln_error *err)
{
    const char *text = draft->context->overrides;
    const uint64_t sides = (uint64_t)1 << KILN_JOB_KEY_WIDTH | (uint64_t)1 << KILN_JOB_KEY_HEIGHT;
    const uint64_t size = (uint64_t)1 << KILN_JOB_KEY_SIZE;
    const uint64_t loras = (uint64_t)1 << KILN_JOB_KEY_LORAS;
    const uint64_t routed = (uint64_t)1 << KILN_JOB_KEY_ROUTED;
    uint64_t seen;
    if (!text)
        return 0;
    int code = read_members(draft, text, strlen(text), &seen, err);
    if (code)
        return kiln_fail_in(err, "override");
    if (seen & size && !(seen & sides))
        draft->present &= ~sides;
    if (seen & sides && !(seen & size))
        draft->present &= ~size;
    if (seen & loras && !(seen & routed))
        draft->present &= ~routed;
    return 0;
}

/* --- axes ---------------------------------------------------------------------------------- */

typedef int each_element(struct kiln_draft *draft, const struct kiln_json_value *value,
                         struct kiln_error *err);

/* Calls `each` for the value, or for every element if it is a list of texts. */
static int read_list(struct kiln_draft *draft, enum kiln_job_key key, each_element *each,
                     struct kiln_error *err)
{
    const struct kiln_json_value *value = &draft->values[key];
    struct kiln_json_reader reader;
    struct kiln_json_value element;
    if (value->type == KILN_JSON_STRING)
        return each(draft, value, err);
    if (value->type != KILN_JSON_ARRAY)
        return kiln_draft_wrong(draft, key, err);
    int code = kiln_json_open(&reader, value->text, value->len, KILN_JSON_ARRAY, err);
    for (size_t count = 0; !code; count++) {
        bool more;
        code = kiln_json_next(&reader, NULL, &element, &more, err);
        if (!code && !more)
            return count > 0 ? 0 : kiln_draft_wrong(draft, key, err);
        if (!code && (element.type != KILN_JSON_STRING || count == KILN_LIST_MAX))
            return kiln_draft_wrong(draft, key, err);
        if (!code)
            code = each(draft, &element, err);
    }
    return code;
}

static int add_size(struct kiln_draft *draft, const struct kiln_json_value *value,
                    struct kiln_error *err)
{
    char text[64];
    size_t len;
    if (!kiln_json_string(value, text, sizeof text, &len))
        return kiln_draft_wrong(draft, KILN_JOB_KEY_SIZE, err);
    uint32_t width, height;
    int code = kiln_size_parse(text, len, draft->context->own, &width, &height, err);
    if (code)
        return code;
    draft->sizes[draft->size_count].width = width;
    draft->sizes[draft->size_count++].height = height;
    return 0;
}

/* The sizes: those of "size", or the one of width and height, or the default. */
static int read_sizes(struct kiln_draft *draft, struct kiln_error *err)
{
    bool width = kiln_draft_has(draft, KILN_JOB_KEY_WIDTH);
    bool height = kiln_draft_has(draft, KILN_JOB_KEY_HEIGHT);
    if (kiln_draft_has(draft, KILN_JOB_KEY_SIZE)) {
        if (width || height)
            return kiln_fail(err, KILN_BAD_INPUT, "size and %s are both given; keep one",
                             width && height ? "width and height"
                             : width         ? "width"
                                             : "height");
        return read_list(draft, KILN_JOB_KEY_SIZE, add_size, err);
    }
    if (width != height)
        return kiln_fail(err, KILN_BAD_INPUT, "%s is given without %s", width ? "width" : "height",
                         width ? "height" : "width");
    draft->size_count = 1;
    const struct kiln_job_context *context = draft->context;
    draft->sizes[0].width = context->width ? context->width : KILN_SIDE_DEFAULT;
    draft->sizes[0].height = context->height ? context->height : KILN_SIDE_DEFAULT;
    static const enum kiln_job_key keys[2] = {KILN_JOB_KEY_WIDTH, KILN_JOB_KEY_HEIGHT};
    uint32_t *const sides[2] = {&draft->sizes[0].width, &draft->sizes[0].height};
    int code = 0;
    for (int i = 0; i < 2 && width && !code; i++) {
        const struct kiln_json_value *value = &draft->values[keys[i]];
        int64_t side;
        if (value->type != KILN_JSON_NUMBER || !kiln_json_i64(value, &side))
            return kiln_draft_wrong(draft, keys[i], err);
        code = kiln_side_check(kiln_job_keys[keys[i]].name, side, err);
        *sides[i] = (uint32_t)side;
    }
    return code;
}

/* Suggests the nearest preset, or lists all presets if none is near. */
static int unknown_style(const struct kiln_styles *styles, const char *name, struct kiln_error *err)
{
    const char *near = NULL;
    size_t best = strlen(name) / 3 > 1 ? strlen(name) / 3 : 1;
    for (size_t i = 0; i < kiln_styles_count(styles); i++) {
        const char *known = kiln_styles_at(styles, i)->name;
        size_t distance = kiln_edit_distance(name, strlen(name), known, strlen(known), best);
        if (distance <= best && (!near || distance < best)) {
            near = known;
            best = distance;
        }
    }
    if (near)
        return kiln_fail(err, KILN_BAD_INPUT, "unknown style \"%s\"; did you mean \"%s\"?", name,
                         near);
    char known[512];
    size_t len = 0;
    for (size_t i = 0; i < kiln_styles_count(styles) && len < sizeof known; i++)
        len += (size_t)snprintf(known + len, sizeof known - len, "%s%s", i ? ", " : "",
                                kiln_styles_at(styles, i)->name);
    return kiln_fail(err, KILN_BAD_INPUT, "unknown style \"%s\"; known are %s%s", name, known,
                     len < sizeof known ? "" : "...");
}

/* Adds one name of "style" to the styles; "none" is a style that adds no words. */
static int add_style(struct kiln_draft *draft, const struct kiln_json_value *value,
                     struct kiln_error *err)
{
    const struct kiln_styles *styles = draft->context->styles;
    char name[KILN_NAME_MAX + 1];
    size_t len;
    if (!kiln_json_string(value, name, sizeof name, &len))
        return kiln_draft_wrong(draft, KILN_JOB_KEY_STYLE, err);
    if (!styles)
        styles = kiln_styles_builtin();
    const struct kiln_style *style = kiln_styles_find(styles, name, len);
    if (!style)
        return unknown_style(styles, name, err);
    draft->styles[draft->style_count++] = strcmp(name, "none") == 0 ? NULL : style;
    return 0;
}

static int read_styles(struct kiln_draft *draft, struct kiln_error *err)
{
    if (!kiln_draft_has(draft, KILN_JOB_KEY_STYLE)) {
        draft->styles[0] = NULL;
        draft->style_count = 1;
        return 0;
    }
    if (kiln_draft_has(draft, KILN_JOB_KEY_STYLED))
        return kiln_fail(err, KILN_BAD_INPUT, "style and styled are both given; keep one");
    int code = read_list(draft, KILN_JOB_KEY_STYLE, add_style, err);
    /* A template is at least as long as any of its prompts, so this holds for all of them. */
    for (uint32_t i = 0; i < draft->style_count && !code; i++) {
        const struct kiln_style *style = draft->styles[i];
        size_t len = draft->prompt_len;
        len += style ? strlen(style->prefix) + strlen(style->suffix) : 0;
        if (len > KILN_PROMPT_MAX)
            code = kiln_fail(err, KILN_BAD_INPUT,
                             "prompt is %zu bytes with the words of its style; the limit is %d",
                             len, KILN_PROMPT_MAX);
    }
    return code;
}

/* A seed that is given as text: "FIRST-LAST" or "N". */
static int read_seed_range(struct kiln_draft *draft, struct kiln_error *err)
{
    char text[64];
    size_t len;
    uint64_t last;
    if (!kiln_json_string(&draft->values[KILN_JOB_KEY_SEED], text, sizeof text, &len))
        return kiln_draft_wrong(draft, KILN_JOB_KEY_SEED, err);
    size_t dash = strcspn(text, "-");
    struct kiln_json_value first_digits = {KILN_JSON_NUMBER, false, text, dash};
    struct kiln_json_value last_digits = {KILN_JSON_NUMBER, false, text + dash + 1, 0};
    last_digits.len = dash < len ? len - dash - 1 : 0;
    bool digits = strspn(text, "0123456789-") == len && dash > 0;
    if (!digits || !kiln_json_u64(&first_digits, &draft->seed_first))
        return kiln_draft_wrong(draft, KILN_JOB_KEY_SEED, err);
    if (dash == len)
        return 0;
    if (last_digits.len == 0 || !kiln_json_u64(&last_digits, &last) || last < draft->seed_first)
        return kiln_draft_wrong(draft, KILN_JOB_KEY_SEED, err);
    if (last - draft->seed_first >= KILN_EXPAND_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "seed: the range \"%s\" has more than %d seeds", text,
                         KILN_EXPAND_MAX);
    if (kiln_draft_has(draft, KILN_JOB_KEY_COUNT))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "count and a range of seeds are both given; the range says how many");
    draft->seed_count = last - draft->seed_first + 1;
    return 0;
}

/* The seeds: a range; or `count` seeds from the given one on; or `count` jobs without a seed yet.
 */
static int read_seeds(struct kiln_draft *draft, struct kiln_error *err)
{
    const struct kiln_json_value *value = &draft->values[KILN_JOB_KEY_SEED];
    int64_t count;
    int code = kiln_draft_whole(draft, KILN_JOB_KEY_COUNT, 1, &count, err);
    if (code)
        return code;
    draft->seed_count = (uint64_t)count;
    draft->has_seed = kiln_draft_has(draft, KILN_JOB_KEY_SEED);
    if (!draft->has_seed)
        return 0;
    if (value->type == KILN_JSON_STRING)
        code = read_seed_range(draft, err);
    else if (value->type != KILN_JSON_NUMBER || !kiln_json_u64(value, &draft->seed_first))
        code = kiln_draft_wrong(draft, KILN_JOB_KEY_SEED, err);
    if (!code && draft->seed_count - 1 > UINT64_MAX - draft->seed_first)
        code = kiln_fail(err, KILN_BAD_INPUT, "seed: %llu and the %llu after it exceed 64 bits",
                         (unsigned long long)draft->seed_first,
                         (unsigned long long)draft->seed_count - 1);
    return code;
}

/* Decodes the prompt and counts the choices of a template; build.c makes the prompt of each choice.
 */
static int read_prompt(struct kiln_draft *draft, struct kiln_error *err)
{
    if (!kiln_draft_has(draft, KILN_JOB_KEY_PROMPT))
        return kiln_fail(err, KILN_BAD_INPUT, "prompt is missing");
    int code = kiln_draft_text(draft, KILN_JOB_KEY_PROMPT, NULL, &draft->prompt, err);
    if (!code)
        code = kiln_draft_bool(draft, KILN_JOB_KEY_TEMPLATE, true, &draft->template, err);
    if (code)
        return code;
    draft->prompt_len = strlen(draft->prompt);
    draft->prompt_count = 1;
    draft->template = draft->template && kiln_template_is(draft->prompt, draft->prompt_len);
    if (!draft->template)
        return 0;
    return kiln_template_count(draft->prompt, draft->prompt_len, KILN_EXPAND_MAX,
                               &draft->prompt_count, err);
}

int kiln_draft_open(struct kiln_draft *draft, const char *text, size_t len,
                    const struct kiln_job_context *context, struct kiln_error *err)
{
    static const struct kiln_job_context nothing_known;
    uint64_t seen;
    draft->context = context ? context : &nothing_known;
    draft->present = draft->style_count = draft->size_count = 0;
    draft->seed_first = 0;
    draft->prompt = NULL;
    if (len > KILN_LINE_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "the line is %zu bytes long; the limit is %d", len,
                         KILN_LINE_MAX);
    int code = read_members(draft, text, len, &seen, err);
    if (!code)
        code = read_overrides(draft, err);
    if (!code)
        code = read_prompt(draft, err);
    if (!code)
        code = read_sizes(draft, err);
    if (!code)
        code = read_styles(draft, err);
    if (!code)
        code = read_seeds(draft, err);
    if (!code) {
        /* Below 2^20 * 2^5 * 2^5 * 2^20: no overflow. */
        draft->total =
            draft->prompt_count * draft->style_count * draft->size_count * draft->seed_count;
        if (draft->total > KILN_EXPAND_MAX)
            code = kiln_fail(err, KILN_BAD_INPUT, "the line makes %llu pictures; the limit is %d",
                             (unsigned long long)draft->total, KILN_EXPAND_MAX);
    }
    if (code)
        kiln_draft_release(draft);
    return code;
}

void kiln_draft_release(struct kiln_draft *draft)
{
    free(draft->prompt);
    draft->prompt = NULL;
}
