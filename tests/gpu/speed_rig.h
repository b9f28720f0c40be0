/* speed_rig.h - what the benches of kernels share: memory, a stream, and the time of a launch.
 * bench_kernels.c says how it is taken.
 */
#ifndef KILN_TEST_SPEED_RIG_H
#define KILN_TEST_SPEED_RIG_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

#include "schemas/error.h"

#define POOLS 8
#define POOL_BYTES ((size_t)1 << 30)

/* Operands come from here: random bf16 of about unit size. */
extern char *pools[POOLS];
extern cudaStream_t stream;
extern struct kiln_error err; /* what a launcher says */

/* End the program, with the reason, where something has failed. */
void must(cudaError_t code, const char *what);
void must_launch(int code);

/* Opens the device, fills the pools and times a copy; with tsv all is printed by tabs. */
void speed_begin(bool tsv);
/* Fills the pools again: what kernels have left of one another's operands may be no numbers, which
 * take the longer way through a division. */
void fill_pools(void);
/* 64 KiB each in pools[7], which are read by every row and stay in the caches; 4 and 5 are zeros.
 */
void *weights_at(size_t slot);
/* Prints how fast `queue` moves as many bytes, a * where they fit into the cache, and how long a
 * copy of as many takes. */
void report(const char *kernel, const char *shape, double bytes, void (*queue)(void));
/* The same for a kernel that is bound by its products: how many it makes, and their sums. */
void report_products(const char *kernel, const char *shape, double flop, void (*queue)(void));

/* The kernels of the autoencoder (speed_pictures.c). */
void bench_pictures(void);

#endif
