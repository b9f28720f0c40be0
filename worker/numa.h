/* numa.h - runs a worker on the processors beside its GPU.  On a host with several sockets,
 * pictures and LoRAs would otherwise cross the link between the sockets twice. */
#ifndef KILN_NUMA_H
#define KILN_NUMA_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#include "schemas/config/config.h"

/* CUDA's numbers become those of nvidia-smi and storage/daemon/gpus.h, unless the environment says
 * otherwise.  Before CUDA is loaded and before there are threads. */
void kiln_numa_order_gpus(void);

/* Binds the process, and every thread that it starts from now on, to the processors beside the
 * memory of its GPU, and prefers that memory.  What the system does not allow is logged and
 * skipped. */
void kiln_numa_pin(const struct kiln_config *config);

/* --- the parts of it, for tests --------------------------------------------------------------- */
/* The node of device "cuda:N", its GPU's address in bus; -1 with the reason in why. */
int kiln_numa_node(const char *root, const char *device, char *bus, size_t size, const char **why);
/* "0-3,8" as a set; false if it is no such list, or names nothing. */
bool kiln_numa_processors(const char *text, cpu_set_t *ret);
/* Binds to those of the node's processors that this process may use at all. */
bool kiln_numa_bind(const char *root, int node, const char **why);

#endif
