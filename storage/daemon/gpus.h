/* gpus.h - the NVIDIA GPUs that this process may use, by the files of driver and kernel alone:
 * no CUDA is loaded for it.
 *
 * Their order is that of their PCI addresses, which nvidia-smi has too, and CUDA where
 * CUDA_DEVICE_ORDER is PCI_BUS_ID; kiln-worker sets that.  CUDA_VISIBLE_DEVICES chooses among them
 * as it does for CUDA: place N of this list is cuda:N.
 */
#ifndef KILN_GPUS_H
#define KILN_GPUS_H

#include <stddef.h>

#define KILN_GPUS_MAX 64

struct kiln_gpu {
    char bus[32];  /* "0000:1b:00.0"; "" = the system does not tell */
    char uuid[64]; /* "GPU-..."; "" as well */
    int minor;     /* /dev/nvidia<minor> */
    int node;      /* of its memory; -1: there are no nodes, or nobody says */
};

/* root is put before every path: "" but for tests.  visible: what CUDA_VISIBLE_DEVICES says, NULL
 * if it is not set.  Returns how many of ret[KILN_GPUS_MAX] are filled. */
int kiln_gpus_list(const char *root, const char *visible, struct kiln_gpu *ret);

/* The processors beside a node's memory as "0-15,64-79"; "" if nobody says. */
void kiln_node_processors(const char *root, int node, char *out, size_t size);

#endif
