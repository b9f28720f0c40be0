/* intake.h - from the intake stream into the ledger.
 *
 *     read (own pending entries first, then new ones; now and then those of a dead consumer)
 *       -> decode, expand, validate   (schemas/wire/wire.h, schemas/job/: as `kiln enqueue`)
 *       -> insert in bulk             (idempotent: batch and key decide); of a full page under way
 *                                     while the next one is read, decoded and routed
 *       -> refusals, receipts
 *       -> acknowledge, which a full Redis needs before it takes anything
 *
 * Nothing is acknowledged before the ledger has it, so a crash anywhere repeats work that changes
 * nothing.  A bad entry is refused with its reason and never holds up the next one; one that even
 * the ledger refuses, or whose batch cannot be read, is set aside: it goes into the stream
 * kiln:{POOL}:refused, with the reason.  A server that is away, or a Postgres that is full, holds
 * everything up, in the stream, until it is back; nothing else does.
 *
 * There is one consumer name for all leaders: a new leader finds its predecessor's entries as its
 * own.  One thread; its own connections.
 */
#ifndef KILN_INTAKE_H
#define KILN_INTAKE_H

#include <stdint.h>

#include "schemas/config/config.h"
#include "schemas/error.h"

struct kiln_intake;
struct kiln_routes; /* scheduler/intake/routes.h */

struct kiln_intake_counts {
    uint64_t entries, inserted, duplicate, refused, unreadable, set_aside;
};

/* config and routes, which chooses the LoRAs, are borrowed for the intake's life. */
int kiln_intake_open(const struct kiln_config *config, struct kiln_routes *routes,
                     struct kiln_intake **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_intake_close(struct kiln_intake *intake); /* accepts NULL */

/* Takes in what waits, at most a few thousand entries; waits block_ms for the first one.
 * The insertion of a full page may be left under way, for the next call or the close to end.
 * *ret_inserted = jobs that are new in the ledger since the last call.  On failure everything
 * unfinished stays pending and the next call tries it again. */
int kiln_intake_step(struct kiln_intake *intake, uint32_t block_ms, uint64_t *ret_inserted,
                     struct kiln_error *err) KILN_MUST_CHECK;
void kiln_intake_counts(const struct kiln_intake *intake, struct kiln_intake_counts *ret);

#endif
