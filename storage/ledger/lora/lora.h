/* lora.h - the registry of LoRAs: names, the file behind each, and the texts that choose it.
 *
 * A LoRA at a moment is a row, which never changes: a change of its file, name or texts ends the
 * row and makes another, and raises the version of the pool's registry in the same transaction.  So
 * an old version can be read again as it was, and an old choice can be explained.
 *
 * Files are identified by SHA-256.  A job line names a LoRA, and the intake writes down its file:
 * job.loras has [{"name", "scale", "sha256"}].  A file that some row or job names stays in the
 * store as kiln_lora_key(sha256) of schemas/job/inputs.h (upkeep/garbage.h).
 */
#ifndef KILN_LEDGER_LORA_H
#define KILN_LEDGER_LORA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"
#include "schemas/job.h"
#include "schemas/job/inputs.h"
#include "schemas/limits.h"

struct kiln_ledger;

#define KILN_LORA_NOW UINT64_MAX /* the newest version */

/* --- a pool's registry at one version, for the intake ----------------------------------------- */

struct kiln_lora_name {
    char name[KILN_NAME_MAX + 1];
    char tenant[KILN_NAME_MAX + 1]; /* whose alone it is; "": everybody's */
    char sha256[KILN_LORA_SHA256_MAX];
    uint64_t bytes;
    bool routable;
    bool stored; /* the store has the file; else it is only in directories of LoRAs */
};

struct kiln_lora_list {
    uint64_t version;          /* 0: no LoRA was ever registered */
    struct kiln_lora_name *at; /* in byte order of the names; all that a job line may name */
    size_t count;
    char *texts; /* {"loras":[...]} of the routable ones, in the same order, as loras.json */
    size_t texts_len;
};

/* Reads the registry at a version; KILN_LORA_NOW: as it is now, but only if its version is not
 * `have` (*ret_changed; else *ret stays as it is).  With nothing new this reads one row.
 * KILN_NOT_FOUND: a version that is not there yet. */
int kiln_lora_list(struct kiln_ledger *ledger, const char *pool, uint64_t version, uint64_t have,
                   struct kiln_lora_list *ret, bool *ret_changed,
                   struct kiln_error *err) KILN_MUST_CHECK;
void kiln_lora_list_release(struct kiln_lora_list *list); /* takes a zeroed one */

/* NULL: the registry has no LoRA of that name. */
const struct kiln_lora_name *kiln_lora_find(const struct kiln_lora_list *list, const char *name);

/* Gives each LoRA of the job that has no hash the hash of its file, which may be in the store or in
 * directories of LoRAs alone.  One that the registry does not have gets none: each worker uses its
 * own file of that name.  KILN_BAD_INPUT: a LoRA of another tenant. */
int kiln_lora_pin(const struct kiln_lora_list *list, struct kiln_job *job,
                  struct kiln_error *err) KILN_MUST_CHECK;

/* --- files of a directory of LoRAs ------------------------------------------------------------ */

/* A LoRA that was found as NAME.safetensors in lora_dir, with the texts of the loras.json beside
 * it; without, no prompt is routed to it.  Nothing changes if the registry has this file and these
 * texts under the name, nor if somebody has added a LoRA of that name, which counts instead.
 * *ret_sha256: the file that the name stands for from now on.  A caller that gets another hash than
 * it gave reads the list again. */
struct kiln_lora_seen {
    const char *name, *sha256;
    const char *tenant; /* whose alone it is; "": everybody's */
    uint64_t bytes;
    const char *entry; /* a JSON object with the name; NULL: without texts */
    bool enabled, routable;
};
int kiln_lora_register_seen(struct kiln_ledger *ledger, const char *pool,
                            const struct kiln_lora_seen *seen,
                            char ret_sha256[KILN_LORA_SHA256_MAX],
                            struct kiln_error *err) KILN_MUST_CHECK;

/* Ends the LoRAs that were found in such a directory and are not among the names of its files. */
int kiln_lora_end_seen(struct kiln_ledger *ledger, const char *pool, const char *const *names,
                       size_t count, uint32_t *ret_ended, struct kiln_error *err) KILN_MUST_CHECK;

/* --- rows, for people ------------------------------------------------------------------------- */

struct kiln_lora_file_facts {
    char sha256[KILN_LORA_SHA256_MAX];
    uint64_t bytes;
    uint32_t rank, modules; /* 0: not measured */
    double strength;        /* root mean square of |change| / |weight|; below 0: not measured */
    bool stored;
};

struct kiln_lora_row {
    uint64_t id;           /* of the row */
    uint64_t lora;         /* the same through all changes */
    uint64_t since, until; /* versions of the registry; until 0: now */
    int64_t at_ms;
    char name[KILN_NAME_MAX + 1], tenant[KILN_NAME_MAX + 1];
    const char *who; /* lent for the call */
    const char
        *entry; /* its texts and numbers, a JSON object as in loras.json; lent for the call */
    bool enabled, routable, seen;
    struct kiln_lora_file_facts file;
};
typedef int kiln_each_lora_row(void *arg, const struct kiln_lora_row *row, struct kiln_error *err);

/* The rows at a version, in order of the names; name NULL: all. */
int kiln_lora_rows(struct kiln_ledger *ledger, const char *pool, uint64_t version, const char *name,
                   kiln_each_lora_row *each, void *arg, struct kiln_error *err) KILN_MUST_CHECK;
/* All rows of one LoRA, oldest first, removed or not. */
int kiln_lora_history(struct kiln_ledger *ledger, uint64_t lora, kiln_each_lora_row *each,
                      void *arg, struct kiln_error *err) KILN_MUST_CHECK;

#endif
