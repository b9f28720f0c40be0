/* desk.h - the thread that embeds prompts for the intake: a bounded queue, passes of several texts,
 * and a memo.
 *
 *     intake:  kiln_desk_prepare(texts of some jobs)   waits until all their vectors are there
 *              kiln_desk_find(text)                    for each, while it routes these jobs
 *     thread:  up to KILN_EMBEDDING_TOGETHER texts of the queue  ->  memo
 *
 * A text is embedded once while the memo has it.  If the time is over, the texts stay in the queue
 * and the next call finds them done.
 */
#ifndef KILN_EMBEDDING_DESK_H
#define KILN_EMBEDDING_DESK_H

#include "scheduler/embedding/model.h"

#define KILN_DESK_TEXTS 1024             /* of one call, and in the queue */
#define KILN_DESK_MEMO_BYTES (64L << 20) /* about; at least four calls' texts */

struct kiln_desk;

/* Starts the thread.  model must outlive it. */
int kiln_desk_open(const struct kiln_embedding_model *model, struct kiln_desk **ret,
                   struct kiln_error *err) KILN_MUST_CHECK;
void kiln_desk_close(struct kiln_desk *desk); /* accepts NULL; waits for the pass that runs */

/* texts: at most KILN_DESK_TEXTS; copied.  KILN_TIMEOUT after limit_ms.  KILN_UNAVAILABLE: the
 * embedder failed, with its reason; the next call tries again.  One thread at a time. */
int kiln_desk_prepare(struct kiln_desk *desk, const char *const *texts, size_t count,
                      int limit_ms, struct kiln_error *err) KILN_MUST_CHECK;
/* Copies the vector of a text of the last call; false: it was not among its texts. */
bool kiln_desk_find(struct kiln_desk *desk, const char *text, int8_t *row);
/* Texts that were embedded since the start. */
uint64_t kiln_desk_embedded(struct kiln_desk *desk);

#endif
