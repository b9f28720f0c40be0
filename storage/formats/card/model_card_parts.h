/* model_card_parts.h - the forms of values that the parts of kiln.json share; private to the files
 * model_card*.c.
 *
 * Each reader refuses another form with KILN_CONFIG and a sentence without the key, which the
 * caller adds.
 */
#ifndef KILN_MODEL_CARD_PARTS_H
#define KILN_MODEL_CARD_PARTS_H

#include "schemas/text/json.h"
#include "storage/formats/card/model_card.h"

#define KILN_CARD_TEXT 64 /* bytes of a mode, a size or a name, with the NUL */

/* Turns an error inside the file into one that names the key; returns its code. */
int kiln_card_refuse(const char *key, struct kiln_error *err);

/* A text of at most KILN_CARD_TEXT - 1 bytes. */
int kiln_card_text(const struct kiln_json_value *value, char text[KILN_CARD_TEXT],
                   struct kiln_error *err) KILN_MUST_CHECK;
/* "WIDTHxHEIGHT", and "WIDTHxHEIGHT" or "WIDTHxHEIGHT..WIDTHxHEIGHT". */
int kiln_card_size(const char *text, size_t len, struct kiln_picture_size *ret,
                   struct kiln_error *err) KILN_MUST_CHECK;
int kiln_card_bounds(const char *text, struct kiln_card_sizes *ret,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* A number of steps. */
int kiln_card_count(const struct kiln_json_value *value, uint32_t *ret,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* The hash of a model; names of number formats. */
int kiln_card_model(const struct kiln_json_value *value, char ret[KILN_CARD_MODEL],
                    struct kiln_error *err) KILN_MUST_CHECK;
int kiln_card_dtypes(const struct kiln_json_value *value, struct kiln_card_dtypes *ret,
                     struct kiln_error *err) KILN_MUST_CHECK;

/* The hash of a LoRA's file, and the strength that it was measured with. */
int kiln_card_sha256(const struct kiln_json_value *value, char ret[KILN_CARD_SHA256],
                     struct kiln_error *err) KILN_MUST_CHECK;
int kiln_card_strength(const struct kiln_json_value *value, double *ret,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* Whether it is the picture's only LoRA, and no stronger in it.  Strengths are compared as LoRA
 * sets name them, with four digits: a job, the set that the ledger has of it and the float of a
 * command line then have the same rows. */
bool kiln_card_lora_is(const char *sha256, double strength,
                       const struct kiln_card_picture *picture);

/* A list of at most `most` values, each read by `each`; of texts, each as number *count in ret. */
int kiln_card_values(const struct kiln_json_value *value, uint32_t most, const char *what,
                     int (*each)(const struct kiln_json_value *element, void *ret,
                                 struct kiln_error *err),
                     void *ret, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_card_list(const struct kiln_json_value *value, uint32_t *count, uint32_t most,
                   int (*each)(const char *text, void *ret, struct kiln_error *err), void *ret,
                   struct kiln_error *err) KILN_MUST_CHECK;

/* The keys of an object, each read by `each`. */
typedef int kiln_card_each(const struct kiln_json_value *key, const struct kiln_json_value *value,
                           void *ret, struct kiln_error *err);
int kiln_card_object(const char *name, const struct kiln_json_value *value, kiln_card_each *each,
                     void *ret, struct kiln_error *err) KILN_MUST_CHECK;

/* Whether one of the bounds holds the size. */
bool kiln_card_sizes_have(const struct kiln_card_sizes *sizes, uint32_t count, uint32_t width,
                          uint32_t height);
/* Whether a measurement in these formats holds for this one; none named: it holds for all. */
bool kiln_card_dtypes_have(const struct kiln_card_dtypes *dtypes, const char *dtype);

/* --- model_card_reuse.c ---------------------------------------------------------------------- */
/* The object "teleport". */
int kiln_card_reuse_read(const struct kiln_json_value *value, struct kiln_card_reuse *ret,
                         struct kiln_error *err) KILN_MUST_CHECK;

#endif
