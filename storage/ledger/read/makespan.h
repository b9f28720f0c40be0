/* makespan.h - what the pictures of a batch cost: for its makespan over the lower bound. */
#ifndef KILN_LEDGER_MAKESPAN_H
#define KILN_LEDGER_MAKESPAN_H

#include <stdint.h>

#include "schemas/error.h"
#include "schemas/job.h"

struct kiln_ledger;

struct kiln_makespan {
    int64_t began_ms, ended_ms; /* first assignment of an attempt that made one, last
                                 * commit; the database's clock */
    uint64_t pictures;
    uint32_t workers;  /* that rendered at least one */
    uint64_t switches; /* changes of LoRA set, workers beginning with the bare model */
};
struct kiln_makespan_set {
    char lora_set[KILN_LORA_SET_MAX]; /* "": the bare model */
    double work_s, longest_s;         /* of its pictures, as their worker measured the attempts
                                       * that made them; loading the set is not in it */
};
typedef int kiln_each_makespan_set(void *arg, const struct kiln_makespan_set *set,
                                   struct kiln_error *err);

/* Reads the pictures of the batch's latest run: of the jobs that came in after all earlier ones had
 * ended, such as the new lines of an edited file; each is called once for each LoRA set.
 * KILN_NOT_FOUND: there is no such batch; one without pictures has zeros. */
int kiln_ledger_makespan(struct kiln_ledger *ledger, const char *pool, const char *batch,
                         struct kiln_makespan *ret, kiln_each_makespan_set *each, void *arg,
                         struct kiln_error *err) KILN_MUST_CHECK;

#endif
