/* change.h - changes of the registry of LoRAs.
 *
 * A change names the row that it starts from, so two people cannot overwrite each other's change
 * without a word.  Each may be repeated.
 */
#ifndef KILN_LEDGER_LORA_CHANGE_H
#define KILN_LEDGER_LORA_CHANGE_H

#include "storage/ledger/lora/lora.h"

/* What a row shall be. */
struct kiln_lora_change {
    uint64_t ends; /* the row that it replaces; 0: a new LoRA */
    const char *name, *tenant;
    const struct kiln_lora_file_facts *file; /* of a new file, or with sha256 alone as before */
    bool new_file;                           /* all facts of it count */
    bool enabled, routable, seen;
    const char *who;
    const char *entry; /* a JSON object; NULL: remove the LoRA */
};

/* *ret_version: the registry's that holds the change.  KILN_EXISTS: another LoRA has the name;
 * KILN_STALE: somebody else has changed the LoRA meanwhile. */
int kiln_lora_change(struct kiln_ledger *ledger, const char *pool,
                     const struct kiln_lora_change *change, uint64_t *ret_version,
                     struct kiln_error *err) KILN_MUST_CHECK;

/* The bytes of all files that the store has, of all pools, and whether this file is among them. */
int kiln_lora_stored(struct kiln_ledger *ledger, const char *sha256, uint64_t *ret_bytes,
                     bool *ret_there, struct kiln_error *err) KILN_MUST_CHECK;

/* How many queued and assigned jobs of the pool need the LoRA: by its name, or by its file. */
int kiln_lora_waiting(struct kiln_ledger *ledger, const char *pool, const char *name,
                      const char *sha256, uint64_t *ret, struct kiln_error *err) KILN_MUST_CHECK;

#endif
