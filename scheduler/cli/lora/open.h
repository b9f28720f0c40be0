/* open.h - the registry, or a loras.json in its place, opened as a snapshot of the router. */
#ifndef KILN_CLI_LORA_OPEN_H
#define KILN_CLI_LORA_OPEN_H

#include "scheduler/router/router.h"

struct kiln_ledger;

/* Reads and builds it; the version is the file's hash, so that a changed file is another version.
 * Free *ret before *lexicon. */
int kiln_loras_open(const char *path, struct kiln_lexicon **lexicon, struct kiln_router **ret,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* The pool's registry at a version (storage/ledger/lora/lora.h). */
int kiln_loras_open_registry(struct kiln_ledger *ledger, const char *pool, uint64_t version,
                             struct kiln_lexicon **lexicon, struct kiln_router **ret,
                             struct kiln_error *err) KILN_MUST_CHECK;

#endif
