/* ratings.h - how people like the pictures with LoRAs that loras "auto" chose, for `kiln lora
 * learn`.
 *
 * A rating is the vote on a picture; a favourite without a vote counts as +1.  It counts for the
 * LoRA whatever its name is now, while its file is the one that was chosen.
 */
#ifndef KILN_LEDGER_LORA_RATINGS_H
#define KILN_LEDGER_LORA_RATINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/error.h"
#include "schemas/limits.h"

struct kiln_ledger;

struct kiln_lora_ratings {
    char name[KILN_NAME_MAX + 1];
    uint64_t liked, rated;           /* pictures with this LoRA */
    uint64_t pool_liked, pool_rated; /* with any, the same in each row */
    double bias;                     /* what the registry has */
    bool seen;                       /* a LoRA of lora_dir, whose texts are not the registry's */
};
typedef int kiln_each_lora_ratings(void *arg, const struct kiln_lora_ratings *row,
                                   struct kiln_error *err);

/* The LoRAs of now that have a rating or a bias, in order of the names. */
int kiln_lora_ratings(struct kiln_ledger *ledger, const char *pool, kiln_each_lora_ratings *each,
                      void *arg, struct kiln_error *err) KILN_MUST_CHECK;

#endif
