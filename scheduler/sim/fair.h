/* fair.h - how far apart tenants came while both had work waiting.
 *
 * Sheng et al. (VTC, arXiv 2401.00588) bound the unfairness of a scheduler by the service that two
 * clients receive in any interval in which both are backlogged throughout:
 *
 *     gap = max over tenants f, g and intervals [t1, t2] in which both always have a job waiting
 *           of | W_f(t1, t2) - W_g(t1, t2) |
 *
 * W is in GPU-seconds: compute and the switches that the tenant's jobs caused, counted when the
 * job starts.  A tenant that asks for less than its share, or for nothing, is nobody's measure.
 * Pairs are kept exactly for the KILN_FAIR_TENANTS tenants with the most work; the others are few
 * GPU-seconds each and are left out.
 */
#ifndef KILN_SIM_FAIR_H
#define KILN_SIM_FAIR_H

#include <stdint.h>

#define KILN_FAIR_TENANTS 256

struct kiln_fair;

/* work_s: of each tenant in the whole trace.  NULL: no memory. */
struct kiln_fair *kiln_fair_new(const double *work_s, uint32_t tenants);
void kiln_fair_free(struct kiln_fair *fair); /* accepts NULL */

/* A job of the tenant begins to wait; one starts and takes so many seconds. */
void kiln_fair_arrived(struct kiln_fair *fair, uint32_t tenant);
void kiln_fair_started(struct kiln_fair *fair, uint32_t tenant, double seconds);
double kiln_fair_gap(const struct kiln_fair *fair);

#endif
