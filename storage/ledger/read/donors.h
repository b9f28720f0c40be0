/* donors.h - the stored latents from which other runs may begin, followed as they come and go.
 *
 * A donor is the clean final latent of a done job that ran in full, without guidance, with one LoRA
 * at most, whose file is known: exact or coarse first, never itself from a start or a donor.  A
 * reader first gives all of them, newest first, then what changed, by the watermark of changes.h:
 * nothing that commits late is missed.  It keeps no place of its own in the ledger: after a restart
 * it gives all again.
 *
 * One thread uses a reader.  It holds a page of rows in memory.
 */
#ifndef KILN_LEDGER_DONORS_H
#define KILN_LEDGER_DONORS_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/config/config.h"
#include "schemas/error.h"
#include "schemas/job.h"

struct kiln_donors;

struct kiln_donor_row {
    uint64_t job;
    bool gone;            /* it is no donor any more, or never was; the rest is empty */
    char prompt_hash[65]; /* kiln_prompt_hash */
    uint32_t width, height, steps;
    char model[KILN_NAME_MAX + 1]; /* as its job names it */
    char model_hash[65];
    char lora_set[KILN_LORA_SET_MAX]; /* kiln_lora_set_key; "": none */
    bool coarse;                      /* it was rendered coarse first */
    int64_t created_ms;               /* of the latent, by the database's clock */
    uint32_t uses;                    /* pictures that began from it */
    const char *prompt;               /* as it was rendered; lent for the call, as the next */
    const char *negative_prompt;
};
/* Returns non-zero to stop. */
typedef int kiln_each_donor(void *arg, const struct kiln_donor_row *row);

/* Does not connect.  config must outlive the reader; the pool is its setting. */
int kiln_donors_open(const struct kiln_config *config, const char *name, struct kiln_donors **ret,
                     struct kiln_error *err) KILN_MUST_CHECK;
void kiln_donors_close(struct kiln_donors *donors); /* accepts NULL */

/* A page of rows.  *ret_complete: all donors were given once.  *ret_more: call again at once.
 * After an error the page is read again. */
int kiln_donors_step(struct kiln_donors *donors, kiln_each_donor *each, void *arg,
                     bool *ret_complete, bool *ret_more, struct kiln_error *err) KILN_MUST_CHECK;

#endif
