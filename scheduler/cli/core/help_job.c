/* help_job.c - `kiln help job`: every key of a job line.
 *
 * The keys and what their values must be are those of schemas/job/keys.c, what they are for stands
 * in schemas/job.schema.json, which is built in.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/help.h"
#include "schemas/embedded.h"
#include "schemas/job/keys.h"

/* A default as people write it in a line: text without quotes; "" if there is none. */
static const char *default_text(const json_t *rule, char *out, size_t size)
{
    json_t *value = json_object_get(rule, "default");
    out[0] = '\0';
    if (json_is_string(value))
        snprintf(out, size, "%s", json_string_value(value));
    else if (json_is_number(value))
        snprintf(out, size, "%g", json_number_value(value));
    else if (json_is_boolean(value))
        snprintf(out, size, "%s", json_is_true(value) ? "true" : "false");
    return out;
}

static json_t *default_json(const json_t *rule)
{
    json_t *value = json_object_get(rule, "default");
    double number = json_number_value(value);
    if (!value)
        return json_null();
    return json_is_number(value) && number == (double)(json_int_t)number
               ? json_integer((json_int_t)number)
               : json_incref(value);
}

static void print_key(const struct kiln_job_key_row *row, const json_t *rule)
{
    char usual[64];
    default_text(rule, usual, sizeof usual);
    kiln_help_print(stdout, 6, "  %s\n      %s\n      Must be %s.%s%s%s\n", row->name,
                    json_string_value(json_object_get(rule, "description")), row->help,
                    usual[0] ? " Default: " : "", usual, usual[0] ? "." : "");
}

int kiln_help_job(const struct kiln_cli *cli)
{
    json_error_t problem;
    /* The largest seed does not fit jansson's integers, but its doubles. */
    json_t *schema = json_loadb(kiln_embedded_job[0].text, kiln_embedded_job[0].size,
                                JSON_DECODE_INT_AS_REAL, &problem);
    json_t *rules = json_object_get(schema, "properties");
    int status = 0;
    if (!cli->json)
        kiln_help_print(stdout, 0,
                        "Keys of a job line: members of a JSON object, columns of a CSV file, and "
                        "of every line by --set KEY=VALUE.  Only a prompt is needed.\n\n");
    for (int key = 0; key < KILN_JOB_KEYS && status == 0; key++) {
        const struct kiln_job_key_row *row = &kiln_job_keys[key];
        json_t *rule = json_object_get(rules, row->name);
        if (cli->json)
            status = kiln_print_json(
                cli, json_pack("{s:s, s:s?, s:s, s:o}", "key", row->name, "meaning",
                               json_string_value(json_object_get(rule, "description")), "must_be",
                               row->help, "default", default_json(rule)));
        else
            print_key(row, rule);
    }
    json_decref(schema);
    return status;
}
