/* card.c - see card.h. */
#include "worker/bench/measured/card.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/formats/card/model_card.h"
#include "storage/formats/regular.h"
#include "storage/formats/replace.h"

#define CARD_BYTES_MAX (256 * 1024)
#define PATH_SIZE 4096
#define LINE_MAX_BYTES 100

static int path_of(const char *model, char path[PATH_SIZE], struct kiln_error *err)
{
    if (snprintf(path, PATH_SIZE, "%s/" KILN_MODEL_CARD, model) >= PATH_SIZE)
        return kiln_fail(err, KILN_BAD_INPUT, "model: the path %.80s... is too long", model);
    return 0;
}

int kiln_measured_card_read(const char *model, json_t **ret, struct kiln_error *err)
{
    struct kiln_model_card card;
    char path[PATH_SIZE], *text;
    size_t len;
    json_error_t where;
    *ret = NULL;
    int code = path_of(model, path, err);
    code = code ? code : kiln_model_card_read(model, &card, err);
    if (code)
        return code;
    code = kiln_regular_read(path, CARD_BYTES_MAX, &text, &len, err);
    if (code == KILN_NOT_FOUND) {
        *ret = json_object();
        return *ret ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for %s", path);
    }
    if (code)
        return code;
    *ret = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
    free(text);
    return *ret ? 0 : kiln_fail(err, KILN_CONFIG, "%s:%d: %s", path, where.line, where.text);
}

static void put(FILE *out, const json_t *value, int indent, int used, bool lines);

static void put_members(FILE *out, const json_t *object, int indent)
{
    const char *key;
    json_t *member;
    bool first = true;
    json_object_foreach((json_t *)object, key, member)
    {
        const int at = fprintf(out, "%s\n%*s\"%s\": ", first ? "" : ",", indent, "", key);
        put(out, member, indent, at, strcmp(key, "rows") == 0);
        first = false;
    }
}

/* A value on one line if that is short, else its members on lines of their own; lines: each of
 * these stays one, however long, as the row of a table. */
static void put(FILE *out, const json_t *value, int indent, int used, bool lines)
{
    char *flat = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    const bool whole = json_is_object(value), list = json_is_array(value);
    if (!flat || (!whole && !list) || used + (int)strlen(flat) < LINE_MAX_BYTES) {
        fputs(flat ? flat : "null", out);
        free(flat);
        return;
    }
    free(flat);
    json_t *member;
    size_t i;
    fputc(whole ? '{' : '[', out);
    if (whole)
        put_members(out, value, indent + 1);
    json_array_foreach(value, i, member)
    {
        fprintf(out, "%s\n%*s", i ? "," : "", indent + 1, "");
        put(out, member, indent + 1, lines ? -LINE_MAX_BYTES * 8 : indent + 1, false);
    }
    fprintf(out, "\n%*s%c", indent, "", whole ? '}' : ']');
}

int kiln_measured_card_write(const char *model, const char *key, json_t *value,
                             struct kiln_error *err)
{
    char path[PATH_SIZE], *text = NULL;
    struct kiln_model_card card;
    size_t len = 0;
    json_t *whole;
    int code = path_of(model, path, err);
    code = code ? code : kiln_measured_card_read(model, &whole, err);
    if (code)
        return code;
    FILE *out = open_memstream(&text, &len);
    if (out && json_object_set(whole, key, value) == 0)
        put(out, whole, 0, 0, false);
    if (!out || fputc('\n', out) == EOF || fclose(out) != 0)
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory to write %s", path);
    code = code ? code : kiln_model_card_parse(text, len, path, &card, err);
    code = code ? code : kiln_replace(path, text, 0644, err);
    free(text);
    json_decref(whole);
    return code;
}
