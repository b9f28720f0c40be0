/* tokenize.c - `kiln tokenize`: one line of JSON ids for each input line, a JSON string.
 *
 * A bad line ends the run with its number and exit status 65, because a gap would mislead a user
 * who compares tokenizers.  The ids of the lines before it are printed.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "pipeline/diffusionz_batch.h"
#include "worker/verbs/options.h"
#include "worker/verbs/verbs.h"

#define LINE_MAX_BYTES (16 << 20) /* a text of up to 16 MiB as JSON */

static const char usage[] =
    "Usage: kiln tokenize [--model DIR] [--raw] [--json]\n"
    "\n"
    "Reads lines, each a JSON string, and prints the token ids of each as one JSON\n"
    "list a line, at most 512, as the model would see them.\n"
    "\n"
    "  --model DIR  diffusers layout; only its tokenizer folder is read (the model of\n"
    "               the settings, else the demo model)\n"
    "  --raw        the text alone, not wrapped in the chat template\n"
    "\n"
    "Examples:\n"
    "  echo '\"a red star\"' | kiln tokenize --model pipeline/models/sketch\n"
    "  jq -c .prompt prompts.jsonl | kiln tokenize --model /models/turbo --raw\n";

static int tokenize_line(const DiffusionZTokenizer *tokenizer, bool raw, const char *line,
                         size_t length, size_t number, struct kiln_error *err)
{
    json_error_t where;
    int32_t *ids;
    size_t count;
    json_t *text = json_loadb(line, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &where);
    if (!text)
        return kiln_fail(err, KILN_BAD_INPUT, "line %zu, byte %d: %s", number, where.position,
                         where.text);
    if (!json_is_string(text)) {
        json_decref(text);
        return kiln_fail(err, KILN_BAD_INPUT, "line %zu: expected a JSON string", number);
    }
    int code = diffusionz_tokenize(tokenizer, json_string_value(text), json_string_length(text),
                                   raw, &ids, &count);
    json_decref(text);
    if (code != 0)
        return kiln_fail(err, code, "line %zu: %s", number, diffusionz_last_error());
    putchar('['); /* ids are printed at once, so that a million lines need the memory of one */
    for (size_t i = 0; i < count; i++)
        printf(i ? ", %d" : "%d", ids[i]);
    if (fputs("]\n", stdout) < 0)
        code = kiln_fail(err, KILN_IO, "writing the ids: %s", strerror(errno));
    diffusionz_free_ids(ids);
    return code;
}

static int tokenize_stream(const char *model, bool raw, FILE *in, struct kiln_error *err)
{
    char *line = NULL;
    size_t room = 0, number = 0;
    ssize_t length;
    DiffusionZTokenizer *tokenizer = NULL;
    int code = diffusionz_open_tokenizer(model, &tokenizer);
    if (code != 0)
        return kiln_fail(err, code, "%s", diffusionz_last_error());
    while (code == 0 && (length = getline(&line, &room, in)) >= 0) {
        number++;
        if (length > LINE_MAX_BYTES)
            code = kiln_fail(err, KILN_BAD_INPUT, "line %zu: %zd bytes; the limit is %d", number,
                             length, LINE_MAX_BYTES);
        else
            code = tokenize_line(tokenizer, raw, line, (size_t)length, number, err);
    }
    free(line);
    diffusionz_free_tokenizer(tokenizer);
    if (code == 0 && (ferror(in) || fflush(stdout) != 0))
        code = kiln_fail(err, KILN_IO, "%s: %s", ferror(in) ? "reading the lines" : "writing",
                         strerror(errno));
    return code;
}

int kiln_verb_tokenize(int argc, char **argv)
{
    const char *model = NULL;
    bool raw = false, json, help; /* the output is JSON in any case */
    struct kiln_error err;
    const struct kiln_verb_option table[] = {{"model", kiln_take_text, .to = &model},
                                             {"raw", NULL, .to = &raw},
                                             {"json", NULL, .to = &json},
                                             {0}};
    int code = kiln_verb_options("tokenize", argc, argv, table, &help, &err);
    if (code == 0 && help) {
        fputs(usage, stdout);
        return EX_OK;
    }
    if (code == 0 && !model)
        code = kiln_fail(&err, KILN_BAD_INPUT, "--model DIR is missing");
    const bool mistaken = code != 0; /* on the command line */
    code = code ? code : tokenize_stream(model, raw, stdin, &err);
    if (code == 0)
        return EX_OK;
    const int status = kiln_verb_fail("tokenize", &err);
    return mistaken ? EX_USAGE : status;
}
