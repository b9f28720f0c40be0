/* card.h - kiln.json of a model, as a bench writes it (schemas/model.md). */
#ifndef KILN_MEASURED_CARD_H
#define KILN_MEASURED_CARD_H

#include <jansson.h>

#include "schemas/error.h"

/* Reads the model's kiln.json, an empty object if it does not exist.  KILN_CONFIG if it is not
 * valid. */
int kiln_measured_card_read(const char *model, json_t **ret,
                            struct kiln_error *err) KILN_MUST_CHECK;
/* Replaces one object in it, "coarse" or "teleport"; the other keys stay.  KILN_CONFIG, with the
 * file as it was, if workers could not read the new one. */
int kiln_measured_card_write(const char *model, const char *key, json_t *value,
                             struct kiln_error *err) KILN_MUST_CHECK;

#endif
