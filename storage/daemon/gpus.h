/* gpus.h - the NVIDIA GPUs that this process may use, read from files of the driver and the
 * kernel, without loading CUDA.
 *
 * They are ordered by PCI address, as nvidia-smi does, and CUDA if CUDA_DEVICE_ORDER is PCI_BUS_ID,
 * which kiln-worker sets.  CUDA_VISIBLE_DEVICES chooses among them
 * as it does for CUDA: place N of this list is cuda:N.
 */
#ifndef KILN_GPUS_H
#define KILN_GPUS_H

#include <stddef.h>

#define KILN_GPUS_MAX 64

struct kiln_gpu {
    char bus[32];  /* "0000:1b:00.0"; "" = unknown */
    char uuid[64]; /* "GPU-..."; "" = unknown */
    int minor;     /* /dev/nvidia<minor> */
    int node;      /* of its memory; -1: none, or unknown */
};

/* root: a prefix of every path, "" outside tests.  visible: the value of CUDA_VISIBLE_DEVICES, NULL
 * if it is not set.  Returns how many of ret[KILN_GPUS_MAX] are filled. */
int kiln_gpus_list(const char *root, const char *visible, struct kiln_gpu *ret);

/* The processors beside a node's memory as "0-15,64-79"; "" if unknown. */
void kiln_node_processors(const char *root, int node, char *out, size_t size);

#endif
