/* json.h - typed reads from a JSON file; messages name the file and the key.
 *
 * The first error is kept, and later reads do nothing.  So a reader reads all keys and checks once.
 */
#ifndef KILN_MODEL_JSON_H
#define KILN_MODEL_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "schemas/error.h"

struct kiln_model_json {
    char path[4096];
    json_t *root;
    struct kiln_error error; /* code 0: no error so far */
};

/* KILN_NOT_FOUND, KILN_IO or KILN_BAD_INPUT (not JSON, not an object) go into c->error. */
void kiln_model_json_open(struct kiln_model_json *c, const char *dir, const char *name);
/* Frees the JSON; returns the error, if any, through err. */
int kiln_model_json_close(struct kiln_model_json *c, struct kiln_error *err) KILN_MUST_CHECK;

/* A required integer within min .. max. */
int kiln_model_int(struct kiln_model_json *c, const char *key, int min, int max);
/* The same, or fallback where the key is absent or null. */
int kiln_model_int_or(struct kiln_model_json *c, const char *key, int min, int max, int fallback);
double kiln_model_real_or(struct kiln_model_json *c, const char *key, double fallback);
bool kiln_model_bool_or(struct kiln_model_json *c, const char *key, bool fallback);
/* An array of integers within min .. max; returns how many (at most capacity, else an error). */
int kiln_model_ints(struct kiln_model_json *c, const char *key, int min, int max, int *out,
                    int capacity);
/* The key must be absent, null, or this value; otherwise KILN_UNSUPPORTED. */
void kiln_model_only_text(struct kiln_model_json *c, const char *key, const char *value);
void kiln_model_only_bool(struct kiln_model_json *c, const char *key, bool value);
void kiln_model_only_null(struct kiln_model_json *c, const char *key);
/* Sets the error: "<path>: <message>". */
void kiln_model_refuse(struct kiln_model_json *c, int code, const char *fmt, ...) KILN_PRINTF(3, 4);

#endif
