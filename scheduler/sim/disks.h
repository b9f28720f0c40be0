/* disks.h - the LoRA files on the disks of simulated workers.
 *
 * A worker that changes to a set first fetches those of its files that its disk lacks, one after
 * the other; the files that it used longest ago make room.  Files are named by LoRA, whatever else
 * is in the set.
 */
#ifndef KILN_SIM_DISKS_H
#define KILN_SIM_DISKS_H

#include "scheduler/sim/trace.h"
#include "schemas/limits.h"

#define KILN_SIM_DISK_MIN KILN_LORAS_MAX /* files: one set must fit */
#define KILN_SIM_DISK_MAX 256            /* KILN_HEARTBEAT_FILES_MAX: a worker tells no more */

struct kiln_disks;

/* files: that each disk holds.  NULL: no memory. */
struct kiln_disks *kiln_disks_new(uint32_t workers, uint32_t files);
void kiln_disks_free(struct kiln_disks *disks); /* accepts NULL */

/* The worker gets the files of a set of the trace ("a+b"); how many it lacked. */
uint32_t kiln_disks_use(struct kiln_disks *disks, uint32_t worker, const char *set);
/* What is on its disk, the last used first; valid until the worker's next use. */
const uint64_t *kiln_disks_files(const struct kiln_disks *disks, uint32_t worker,
                                 uint32_t *ret_count);

/* The set as the policy knows sets, each name with the hash of its file behind it: "a@...+b@...".
 */
void kiln_disks_set_text(const char *set, char *out, size_t size);

#endif
