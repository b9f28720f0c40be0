/* json.c - parses brackets and separators, and checks every value.
 *
 * The parser moves forward through the text; it copies nothing and builds no tree.  It returns a
 * member only after it has checked the whole value, nested values by recursion that
 * KILN_JSON_DEPTH bounds.  So a caller that opens a second reader on a value (the loras of a line,
 * the jobs of an assignment) reads text that is known to be valid.  Each nested reader reads its
 * text once more, which is cheaper than a tree.
 *
 * Duplicate keys are not detected here: callers keep a bit for each key that they know.
 */
#include "schemas/text/json.h"

#include <string.h>

#include "schemas/text/json_scan.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_space(struct kiln_json_reader *reader)
{
    while (reader->at < reader->end && is_space(*reader->at))
        reader->at++;
}

/* The message has the position in the opened text, in bytes from 1. */
static int fault(const struct kiln_json_reader *reader, struct kiln_error *err, const char *what)
{
    size_t byte = (size_t)(reader->at - reader->start) + 1;
    if (reader->at >= reader->end)
        return kiln_fail(err, KILN_BAD_INPUT, "not valid JSON: it ends at byte %zu, but %s",
                         byte - 1, what);
    return kiln_fail(err, KILN_BAD_INPUT, "not valid JSON at byte %zu: %s", byte, what);
}

static int expect(struct kiln_json_reader *reader, char c, const char *what, struct kiln_error *err)
{
    skip_space(reader);
    if (reader->at >= reader->end || *reader->at != c)
        return fault(reader, err, what);
    reader->at++;
    return 0;
}

static int read_value(struct kiln_json_reader *reader, int depth, struct kiln_json_value *ret,
                      struct kiln_error *err);

static int read_string(struct kiln_json_reader *reader, struct kiln_json_value *ret,
                       struct kiln_error *err)
{
    const char *what = NULL;
    ret->type = KILN_JSON_STRING;
    ret->text = reader->at + 1;
    ret->escaped = false;
    reader->at = kiln_json_scan_string(reader->at + 1, reader->end, &ret->escaped, &what);
    if (what)
        return fault(reader, err, what);
    ret->len = (size_t)(reader->at - ret->text);
    reader->at++;
    return 0;
}

/* One member of an object or element of an array: the separator, the key if there is one, the
 * value. */
static int read_member(struct kiln_json_reader *reader, bool first, int depth,
                       struct kiln_json_value *key, struct kiln_json_value *value,
                       struct kiln_error *err)
{
    int code = 0;
    if (!first)
        code = expect(reader, ',', "a ',' or the closing bracket belongs here", err);
    if (code)
        return code;
    skip_space(reader);
    if (key) {
        if (reader->at >= reader->end || *reader->at != '"')
            return fault(reader, err, "a key in double quotes belongs here");
        code = read_string(reader, key, err);
        if (!code)
            code = expect(reader, ':', "a ':' belongs after a key", err);
    }
    return code ? code : read_value(reader, depth, value, err);
}

/* Checks an object or array and skips it. */
static int read_nested(struct kiln_json_reader *reader, int depth, char close, bool keys,
                       struct kiln_error *err)
{
    if (depth >= KILN_JSON_DEPTH)
        return fault(reader, err, "it is nested too deeply");
    reader->at++;
    for (bool first = true;; first = false) {
        skip_space(reader);
        if (reader->at < reader->end && *reader->at == close) {
            reader->at++;
            return 0;
        }
        struct kiln_json_value key, value;
        int code = read_member(reader, first, depth + 1, keys ? &key : NULL, &value, err);
        if (code)
            return code;
    }
}

/* true, false or null.  The message mentions NaN and Infinity, which people try. */
static int read_word(struct kiln_json_reader *reader, struct kiln_json_value *ret,
                     struct kiln_error *err)
{
    static const struct {
        const char *word;
        enum kiln_json_type type;
    } words[] = {{"true", KILN_JSON_TRUE}, {"false", KILN_JSON_FALSE}, {"null", KILN_JSON_NULL}};
    size_t left = (size_t)(reader->end - reader->at);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t len = strlen(words[i].word);
        if (left >= len && memcmp(reader->at, words[i].word, len) == 0) {
            reader->at += len;
            ret->type = words[i].type;
            return 0;
        }
    }
    if (left > 0 && strchr("NIni", *reader->at))
        return fault(reader, err,
                     "a value belongs here (NaN and Infinity are not numbers in JSON)");
    return fault(reader, err, "a value belongs here");
}

static int read_value(struct kiln_json_reader *reader, int depth, struct kiln_json_value *ret,
                      struct kiln_error *err)
{
    skip_space(reader);
    char c = reader->at < reader->end ? *reader->at : '\0';
    const char *start = reader->at;
    int code;
    if (c == '"')
        return read_string(reader, ret, err);
    ret->escaped = false;
    if (c == '{' || c == '[') {
        ret->type = c == '{' ? KILN_JSON_OBJECT : KILN_JSON_ARRAY;
        code = read_nested(reader, depth, c == '{' ? '}' : ']', c == '{', err);
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        const char *what = NULL;
        ret->type = KILN_JSON_NUMBER;
        reader->at = kiln_json_scan_number(reader->at, reader->end, &what);
        code = what ? fault(reader, err, what) : 0;
    } else {
        code = read_word(reader, ret, err);
    }
    ret->text = start;
    ret->len = (size_t)(reader->at - start);
    return code;
}

int kiln_json_open(struct kiln_json_reader *reader, const char *text, size_t len,
                   enum kiln_json_type type, struct kiln_error *err)
{
    bool object = type == KILN_JSON_OBJECT;
    *reader = (struct kiln_json_reader){text, text, text + len, object ? '}' : ']', true};
    return expect(
        reader, object ? '{' : '[',
        object ? "a '{' belongs here, a job or message is an object" : "a '[' belongs here", err);
}

int kiln_json_next(struct kiln_json_reader *reader, struct kiln_json_value *key,
                   struct kiln_json_value *value, bool *ret_more, struct kiln_error *err)
{
    skip_space(reader);
    if (reader->at < reader->end && *reader->at == reader->close) {
        reader->at++;
        skip_space(reader);
        if (reader->at < reader->end)
            return fault(reader, err, "nothing may follow the closing bracket");
        *ret_more = false;
        return 0;
    }
    bool first = reader->first;
    reader->first = false;
    *ret_more = true;
    return read_member(reader, first, 1, key, value, err);
}

const char *kiln_json_type_name(enum kiln_json_type type)
{
    static const char *const names[] = {"null", "false",  "true",     "a number",
                                        "text", "a list", "an object"};
    return names[type];
}
