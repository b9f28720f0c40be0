/* doctor.h - what `kiln doctor` asks the ledger: our rights, and what makes no progress. */
#ifndef KILN_LEDGER_DOCTOR_H
#define KILN_LEDGER_DOCTOR_H

#include "storage/ledger/read/read.h"

struct kiln_rights {
    char user[64];
    bool read, take_in, move,
        schema; /* see jobs; add them; change their state; change the tables */
};
int kiln_ledger_rights(struct kiln_ledger *ledger, struct kiln_rights *ret,
                       struct kiln_error *err) KILN_MUST_CHECK;

/* An enqueue call whose lines stopped coming. */
struct kiln_stuck_row {
    const char *batch;
    uint64_t announced, come; /* announced 0: it never said how many */
    int64_t last_ms;          /* when the last line came */
};
typedef int kiln_each_stuck(void *arg, const struct kiln_stuck_row *row, struct kiln_error *err);
/* Enqueue calls of the pool that are incomplete and have sent nothing for silent_s. */
int kiln_ledger_stuck(struct kiln_ledger *ledger, const char *pool, int64_t silent_s,
                      kiln_each_stuck *each, void *arg, struct kiln_error *err) KILN_MUST_CHECK;

/* Queued jobs with the same requirements for a worker. */
struct kiln_need_row {
    const char *model, *batch; /* "": the pool's model; the first batch that has such jobs */
    uint32_t width, height;
    uint64_t jobs, unfit; /* unfit: those whose last try ended for want of memory */
};
typedef int kiln_each_need(void *arg, const struct kiln_need_row *row, struct kiln_error *err);
int kiln_ledger_needs(struct kiln_ledger *ledger, const char *pool, kiln_each_need *each, void *arg,
                      struct kiln_error *err) KILN_MUST_CHECK;

/* The LoRAs of queued jobs of the pool's model whose files are not in the store. */
typedef int kiln_each_lora(void *arg, const char *name, uint64_t jobs, const char *batch,
                           struct kiln_error *err);
int kiln_ledger_needed_loras(struct kiln_ledger *ledger, const char *pool, kiln_each_lora *each,
                             void *arg, struct kiln_error *err) KILN_MUST_CHECK;

/* Where the server lives. */
struct kiln_ledger_site {
    bool local;     /* on this machine */
    long pid;       /* of the process that serves us */
    char dir[4096]; /* its data; "": our user may not know */
};
int kiln_ledger_site(struct kiln_ledger *ledger, struct kiln_ledger_site *ret,
                     struct kiln_error *err) KILN_MUST_CHECK;

#endif
