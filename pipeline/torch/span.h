/* span.h - how long it takes a device from one moment of its main stream to a later one, gaps
 * included: for benchmarks of what lies between two pieces of work.
 *
 * All functions accept NULL, which measures nothing.  One thread.
 */
#ifndef KILN_TORCH_SPAN_H
#define KILN_TORCH_SPAN_H

#ifdef __cplusplus
extern "C" {
#endif

struct kt_span;
struct kt_span *kt_span_new(int device); /* NULL: no memory */
void kt_span_free(struct kt_span *s);

void kt_span_begin(struct kt_span *s); /* again: from here, if it has not ended */
void kt_span_end(struct kt_span *s);   /* the first one after a begin counts */
/* Waits for the end and returns the milliseconds; -1 if there was none.  Forgets them. */
double kt_span_take(struct kt_span *s);

#ifdef __cplusplus
}
#endif
#endif
