/* screen.h - `kiln watch` as a full screen, with ncurses. */
#ifndef KILN_CLI_WATCH_SCREEN_H
#define KILN_CLI_WATCH_SCREEN_H

#include "scheduler/cli/fleet/snapshot.h"

/* Shows the fleet until q, a signal, or the end of the batch (NULL: none is watched); *ret_over and
 * *ret_batch are about the batch.  KILN_UNSUPPORTED: this terminal cannot show it. */
int kiln_watch_screen(struct kiln_cli *cli, const char *batch, long interval_s, bool *ret_over,
                      struct kiln_progress *ret_batch, struct kiln_error *err) KILN_MUST_CHECK;

#endif
