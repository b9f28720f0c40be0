/* move.h - the moves a job can make, for the files of the ledger. */
#ifndef KILN_LEDGER_MOVE_H
#define KILN_LEDGER_MOVE_H

#include "storage/ledger/internal.h"

enum kiln_move {
    KILN_MOVE_ASSIGN,       /* queued -> assigned */
    KILN_MOVE_COMMIT,       /* assigned -> done, with the rows of the picture */
    KILN_MOVE_RETURN,       /* assigned -> queued, or failed */
    KILN_MOVE_CANCEL,       /* queued, assigned -> cancelled: one job */
    KILN_MOVE_CANCEL_BATCH, /* the same, a page of a batch */
    KILN_MOVE_RETRY,        /* failed, cancelled -> queued: one job */
    KILN_MOVE_RETRY_BATCH,
    KILN_MOVE_RETRY_DUE, /* cancelled -> queued: those that a backfill is due to make */
    KILN_MOVE_COUNT
};

/* Binds the first parameters: $1 the states the move may start from, $2 the state it leads to and,
 * for a return, $3 the other one.  The caller binds the rest and runs the statement. */
const struct kiln_statement *kiln_move_begin(enum kiln_move move, struct kiln_params *params);

/* The last statement of kiln_ledger_run_many for moves that do not wait for the disk (flush "off").
 * It writes a record into the server's log and waits for the disk: that covers all before it. */
extern const struct kiln_statement kiln_flush_statement;

#endif
