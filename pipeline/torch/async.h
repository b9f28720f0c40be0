/* async.h - a GPU's work beside the host's: two streams, copies to the host in flight, CUDA graphs.
 *
 * Operations on a GPU only start; they queue up in a CUDA stream.  Kiln uses two a device: the main
 * stream, and a side stream whose work fills what the main one leaves idle.  A scope belongs to one
 * of them.  The streams do not wait for each other unless kt_follow() says so.  A tensor of one
 * stream that the other reads must live until a fetch that was started after the read has arrived.
 *
 * On the CPU all work is done at once; streams, fetches and waits cost nothing.
 */
#ifndef KILN_TORCH_ASYNC_H
#define KILN_TORCH_ASYNC_H

#include "pipeline/torch/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A child scope, as by kt_scope_child, whose operations go to the side stream; so do those of its
 * children. */
struct kt_scope *kt_scope_side(struct kt_scope *parent);
/* Later operations of s wait for all work that is queued in other's stream now. */
void kt_follow(struct kt_scope *s, const struct kt_scope *other);

/* --- copies to host memory ------------------------------------------------------------------- */
/* Queues a copy of x in s's stream.  NULL if s has failed; s may be freed before the fetch. */
struct kt_fetch;
struct kt_fetch *kt_fetch_start(struct kt_scope *s, kt x);
bool kt_fetch_arrived(const struct kt_fetch *f);
/* Sets how many seconds this process waits for a silent device, 600 at first.  Values below 1 are
 * ignored.  Returns the previous limit. */
int kt_wait_limit(int seconds);
/* Waits for the copy.  KILN_DEVICE if earlier work failed or the device is silent beyond the limit.
 */
int kt_fetch_wait(struct kt_fetch *f, struct kiln_error *err) KILN_MUST_CHECK;
/* The values in their own dtype, dense; valid from arrival until the fetch is freed. */
const void *kt_fetch_data(const struct kt_fetch *f, size_t *ret_bytes);
void kt_fetch_free(struct kt_fetch *f); /* at any time; accepts NULL */

/* --- graphs ---------------------------------------------------------------------------------- */
/* A sequence of operations, recorded once and replayed without the host's part: the same kernels on
 * the same memory.  Recording computes nothing, and must neither wait nor copy from the host.  Work
 * for a side stream is recorded beside the main stream's, and must be followed before the end.
 * Memory that is allocated while recording belongs to the graph.  All graphs of a device share it:
 * a replay overwrites what another graph left there, so results belong in tensors from outside. */
struct kt_graph;
bool kt_graphs(int device); /* whether the device has them: CUDA that is open */
/* Records the operations of s and its children from here on.  Use a scope of its own: an operation
 * that fails leaves its error there, and there is no graph.  The same thread ends the recording;
 * other threads that want to record wait. */
struct kt_graph *kt_graph_begin(struct kt_scope *s);
/* Ends the recording in any case.  False, with s failed and g freed, if there is no graph. */
bool kt_graph_end(struct kt_graph *g, struct kt_scope *s);
void kt_graph_replay(struct kt_graph *g, struct kt_scope *s);
size_t kt_graph_bytes(const struct kt_graph *g); /* how much it made the shared memory grow */
void kt_graph_free(struct kt_graph *g);          /* waits for the device; accepts NULL */

#ifdef __cplusplus
}
#endif
#endif
