/* openai.c - see openai.h.
 *
 * Values are copied as they stand, so a seed keeps its 64 bits and what the validator refuses is
 * what the client has written.
 */
#include "scheduler/cli/jobs/enqueue/openai.h"

#include <stdio.h>
#include <string.h>

#include "schemas/text/json.h"

enum outer { CUSTOM_ID, METHOD, URL, BODY, OUTER_KEYS };
static const char *const outer_names[OUTER_KEYS] = {"custom_id", "method", "url", "body"};

struct request {
    struct kiln_json_value at[OUTER_KEYS];
    bool has[OUTER_KEYS];
};

/* What a body may ask for beside the keys of a job line; value NULL: anything.  told: Kiln does not
 * do it, and whoever sends it hears of that. */
static const struct {
    const char *key, *value;
    bool told;
} others[] = {
    {"user", NULL, false},
    {"quality", "auto", false},
    {"quality", "standard", false},
    {"quality", "low", true},
    {"quality", "medium", true},
    {"quality", "high", true},
    {"quality", "hd", true},
    {"style", "vivid", true},
    {"style", "natural", true},
    {"background", "auto", false},
    {"background", "opaque", false},
    {"background", "transparent", true},
    {"output_format", "webp", false},
    {"output_format", "png", true},
    {"output_format", "jpeg", true},
    {"output_compression", NULL, true},
    {"moderation", "auto", false},
    {"moderation", "low", true},
    {"response_format", "b64_json", false},
    {"response_format", "url", true},
};
#define OTHERS (sizeof others / sizeof *others)
_Static_assert(OTHERS <= 32, "a bit each");

/* --- whether it is one ------------------------------------------------------------------------ */

static bool contains(const char *text, size_t len, const char *word)
{
    const size_t word_len = strlen(word);
    for (const char *at = text; (at = memchr(at, '"', (size_t)(text + len - at))) != NULL; at++)
        if ((size_t)(text + len - at) >= word_len && memcmp(at, word, word_len) == 0)
            return true;
    return false;
}

bool kiln_openai_is(const char *text, size_t len)
{
    struct kiln_json_reader reader;
    struct kiln_json_value key, value;
    bool more, other = false, url = false;
    if (!contains(text, len, "\"url\""))
        return false; /* nearly every job line: nothing is parsed twice */
    int code = kiln_json_open(&reader, text, len, KILN_JSON_OBJECT, NULL);
    while (!code && !(code = kiln_json_next(&reader, &key, &value, &more, NULL)) && more) {
        other = other || kiln_json_equals(&key, "body") || kiln_json_equals(&key, "method");
        url = url || kiln_json_equals(&key, "url");
    }
    return !code && other && url;
}

/* --- the request ------------------------------------------------------------------------------ */

static int read_request(const char *text, size_t len, struct request *request,
                        struct kiln_error *err)
{
    struct kiln_json_reader reader;
    struct kiln_json_value key, value;
    bool more;
    int code = kiln_json_open(&reader, text, len, KILN_JSON_OBJECT, err);
    while (!code && !(code = kiln_json_next(&reader, &key, &value, &more, err)) && more) {
        int which = 0;
        while (which < OUTER_KEYS && !kiln_json_equals(&key, outer_names[which]))
            which++;
        if (which == OUTER_KEYS)
            return kiln_fail(err, KILN_BAD_INPUT,
                             "unknown key \"%.*s\" of a request; there are custom_id, method, url "
                             "and body",
                             key.len < 64 ? (int)key.len : 64, key.text);
        if (request->has[which])
            return kiln_fail(err, KILN_BAD_INPUT, "key \"%s\" is given twice", outer_names[which]);
        request->has[which] = true;
        request->at[which] = value;
    }
    return code;
}

static int check_type(const struct request *request, enum outer which, enum kiln_json_type type,
                      struct kiln_error *err)
{
    if (!request->has[which])
        return kiln_fail(err, KILN_BAD_INPUT, "\"%s\" of the request is missing",
                         outer_names[which]);
    if (request->at[which].type == type)
        return 0;
    return kiln_fail(err, KILN_BAD_INPUT, "\"%s\" must be %s", outer_names[which],
                     kiln_json_type_name(type));
}

static int check_text(const struct request *request, enum outer which, const char *wanted,
                      struct kiln_error *err)
{
    const struct kiln_json_value *value = &request->at[which];
    int rc = check_type(request, which, KILN_JSON_STRING, err);
    if (rc || kiln_json_equals(value, wanted))
        return rc;
    return kiln_fail(err, KILN_BAD_INPUT,
                     "\"%s\" is \"%.*s\"; a batch of pictures has \"%s\" there", outer_names[which],
                     value->len < 64 ? (int)value->len : 64, value->text, wanted);
}

static int check_request(const struct request *request, struct kiln_error *err)
{
    int rc = check_type(request, CUSTOM_ID, KILN_JSON_STRING, err);
    rc = rc ? rc : check_text(request, METHOD, "POST", err);
    rc = rc ? rc : check_text(request, URL, KILN_OPENAI_URL, err);
    return rc ? rc : check_type(request, BODY, KILN_JSON_OBJECT, err);
}

/* --- its body --------------------------------------------------------------------------------- */

/* Whether the member is one of OpenAI's own, which no job line has; null is as good as missing.
 * Adds its bit to *told. */
static bool is_other(const struct kiln_json_value *key, const struct kiln_json_value *value,
                     uint32_t *told, struct kiln_error *err)
{
    struct kiln_text known = {0};
    for (size_t i = 0; i < OTHERS; i++) {
        const char *wanted = others[i].value;
        if (!kiln_json_equals(key, others[i].key))
            continue;
        const bool none = value->type == KILN_JSON_NULL;
        if (none || !wanted ||
            (value->type == KILN_JSON_STRING && kiln_json_equals(value, wanted))) {
            *told |= others[i].told && !none ? UINT32_C(1) << i : 0;
            kiln_text_release(&known);
            return true;
        }
        kiln_text_printf(&known, "%s%s", known.len ? ", " : "", wanted);
    }
    const bool refused = known.len && !kiln_json_equals(key, "style"); /* jobs have styles, too */
    if (refused)
        kiln_fail(err, KILN_BAD_INPUT, "\"%.*s\" must be one of %s, or missing", (int)key->len,
                  key->text, known.at);
    kiln_text_release(&known);
    return refused;
}

void kiln_openai_others(uint32_t told, char ret[KILN_OPENAI_OTHERS_TEXT_MAX])
{
    size_t len = 0;
    ret[0] = '\0';
    for (size_t i = 0; i < OTHERS && len < KILN_OPENAI_OTHERS_TEXT_MAX; i++)
        if (told >> i & 1)
            len += (size_t)snprintf(ret + len, KILN_OPENAI_OTHERS_TEXT_MAX - len, "%s%s%s%s",
                                    len ? ", " : "", others[i].key, others[i].value ? " " : "",
                                    others[i].value ? others[i].value : "");
}

/* Only OpenAI has these; "dall-e-mini" is somebody else's. */
static bool is_theirs(const struct kiln_json_value *model)
{
    static const char *const families[] = {"gpt-image-", "chatgpt-image-"};
    if (model->type != KILN_JSON_STRING || model->len >= KILN_OPENAI_MODEL_MAX)
        return false;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (model->len > strlen(families[i]) &&
            strncmp(model->text, families[i], strlen(families[i])) == 0)
            return true;
    return kiln_json_equals(model, "dall-e-2") || kiln_json_equals(model, "dall-e-3");
}

/* A value as it stands in its text. */
static void put_value(struct kiln_text *out, const struct kiln_json_value *value)
{
    const bool quoted = value->type == KILN_JSON_STRING;
    kiln_text_puts(out, quoted ? "\"" : "");
    kiln_text_add(out, value->text, value->len);
    kiln_text_puts(out, quoted ? "\"" : "");
}

static int put_body(const struct kiln_json_value *body, struct kiln_text *out,
                    struct kiln_openai_passed *ret, struct kiln_error *err)
{
    struct kiln_json_reader reader;
    struct kiln_json_value key, value;
    bool more;
    int code = kiln_json_open(&reader, body->text, body->len, KILN_JSON_OBJECT, err);
    while (!code && !(code = kiln_json_next(&reader, &key, &value, &more, err)) && more) {
        struct kiln_error unfit = {0};
        if (is_other(&key, &value, &ret->others, &unfit)) {
            if (unfit.code)
                return kiln_fail(err, unfit.code, "%s", unfit.text);
            continue;
        }
        if (kiln_json_equals(&key, "custom_id"))
            return kiln_fail(err, KILN_BAD_INPUT, "\"custom_id\" stands beside the body");
        if (kiln_json_equals(&key, "size") && kiln_json_equals(&value, "auto"))
            continue;
        if (kiln_json_equals(&key, "model") && is_theirs(&value)) {
            snprintf(ret->model, sizeof ret->model, "%.*s", (int)value.len, value.text);
            continue;
        }
        kiln_text_puts(out, ",");
        if (kiln_json_equals(&key, "n"))
            kiln_text_puts(out, "\"count\"");
        else
            put_value(out, &key);
        kiln_text_puts(out, ":");
        put_value(out, &value);
    }
    return code;
}

int kiln_openai_line(const char *text, size_t len, struct kiln_text *out,
                     struct kiln_openai_passed *ret, struct kiln_error *err)
{
    *ret = (struct kiln_openai_passed){.others = 0};
    struct request request = {.has = {false}};
    int rc = read_request(text, len, &request, err);
    rc = rc ? rc : check_request(&request, err);
    if (rc)
        return rc;
    kiln_text_puts(out, "{\"custom_id\":");
    put_value(out, &request.at[CUSTOM_ID]);
    rc = put_body(&request.at[BODY], out, ret, err);
    kiln_text_puts(out, "}");
    return rc || !out->failed ? rc : kiln_fail(err, KILN_NO_MEMORY, "no memory for a line");
}
