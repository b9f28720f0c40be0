/* lanes.h - what a GPU does while the host goes on: two lanes, results on their way, graphs.
 *
 * Operations on a GPU only start.  They queue up in a lane, and a GPU has two: the main one, and a
 * side lane whose work fills what the main one leaves idle.  A scope's operations go to its lane.
 * The two know nothing of each other: kt_follow() puts an order between them, and a tensor of one
 * lane that the other reads must be kept until a fetch made behind the reading has arrived.
 *
 * On the CPU all is done at once, and lanes, fetches and waits cost nothing.
 */
#ifndef KILN_LANES_H
#define KILN_LANES_H

#include "pipeline/torch/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A scope inside parent, as kt_scope_child makes, whose operations go to the side lane; so do those
 * of its children. */
struct kt_scope *kt_scope_side(struct kt_scope *parent);
/* What s is asked from now on starts when all that other's lane was asked until now is done. */
void kt_follow(struct kt_scope *s, const struct kt_scope *other);

/* --- results on their way to host memory ----------------------------------------------------- */
/* Copies x, as it is at this point of s's lane.  NULL if s has failed.  Freed with kt_fetch_free,
 * at any time, which accepts NULL; s may go before it. */
struct kt_fetch;
struct kt_fetch *kt_fetch_start(struct kt_scope *s, kt x);
bool kt_fetch_arrived(const struct kt_fetch *f);
/* How many seconds the process waits at most for one to arrive, 600 at first; less than 1 changes
 * nothing.  Returns what it was. */
int kt_patience(int seconds);
/* Returns when it has arrived; KILN_DEVICE if the device died of what was before it, or is silent
 * for longer than that. */
int kt_fetch_wait(struct kt_fetch *f, struct kiln_error *err) KILN_MUST_CHECK;
/* The values in their own dtype, dense; valid once it has arrived, until it is freed. */
const void *kt_fetch_data(const struct kt_fetch *f, size_t *ret_bytes);
void kt_fetch_free(struct kt_fetch *f);

/* --- graphs ---------------------------------------------------------------------------------- */
/* A sequence of operations recorded once and replayed as one: the same kernels on the same memory,
 * without the host's part.  Recording computes nothing and must neither wait nor copy from the
 * host; what it allocates belongs to the graph.  What goes to a side lane meanwhile is recorded as
 * work beside the main lane's, and must be followed before the end.  All graphs of a device share
 * that memory, which the last one gives back: of two replays the later one destroys what the
 * earlier one left there, so results belong in tensors from outside. */
struct kt_graph;
bool kt_graphs(int device); /* whether the device has them: CUDA that is open */
/* Records what is asked of s and its children from here on, and nothing else.  s should be a scope
 * of its own: an operation that fails while recording leaves its error there, and no graph.  To be
 * ended by the same thread; others that want to record wait. */
struct kt_graph *kt_graph_begin(struct kt_scope *s);
/* Ends the recording in any case.  False, with s failed and g freed, if there is no graph. */
bool kt_graph_end(struct kt_graph *g, struct kt_scope *s);
void kt_graph_replay(struct kt_graph *g, struct kt_scope *s);
size_t kt_graph_bytes(const struct kt_graph *g); /* by which it has let the shared memory grow */
void kt_graph_free(struct kt_graph *g);          /* waits for the device; accepts NULL */

#ifdef __cplusplus
}
#endif
#endif
