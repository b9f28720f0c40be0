/* ask.h - a question to the leading scheduler, whose memory alone knows the answer. */
#ifndef KILN_CLI_ASK_H
#define KILN_CLI_ASK_H

#include "scheduler/cli/core/cli.h"

/* Why the job waits, or (job 0) what waits in which group; bus.md has the answers.  Waits two
 * seconds at most: *ret is NULL, and that is no error, if nobody has answered by then.  The caller
 * frees *ret with json_decref. */
int kiln_ask(struct kiln_cli *cli, uint64_t job, json_t **ret,
             struct kiln_error *err) KILN_MUST_CHECK;

#endif
