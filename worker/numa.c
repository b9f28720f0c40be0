/* numa.c - see numa.h.
 *
 * The node comes from the files of driver and kernel, since CUDA itself is loaded only later, by a
 * thread that must run in the right place already.  No libnuma: one list to read, two system calls.
 * Memory of the node is preferred and not demanded: when it is full, far memory beats none.
 */
#include "worker/numa.h"

#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "schemas/telemetry/log.h"
#include "storage/daemon/gpus.h"

#define ORDER "CUDA_DEVICE_ORDER"
#define BY_ADDRESS "PCI_BUS_ID"
#define LIST_BYTES 1024
#define NODES_MAX 64 /* bits of the mask below */

void kiln_numa_order_gpus(void)
{
    (void)setenv(ORDER, BY_ADDRESS, 0);
}

int kiln_numa_node(const char *root, const char *device, char *bus, size_t size, const char **why)
{
    struct kiln_gpu gpus[KILN_GPUS_MAX];
    const char *order = getenv(ORDER), *number = strchr(device, ':');
    int count = kiln_gpus_list(root, getenv("CUDA_VISIBLE_DEVICES"), gpus);
    int n = number ? atoi(number + 1) : 0;
    bus[0] = '\0';
    *why = "the system does not show the GPU";
    if (n < 0 || n >= count)
        return -1;
    *why = ORDER " is not " BY_ADDRESS;
    if (count > 1 && order && strcmp(order, BY_ADDRESS) != 0)
        return -1;
    *why = "the system does not tell the GPU's address";
    if (!gpus[n].bus[0])
        return -1;
    snprintf(bus, size, "%s", gpus[n].bus);
    *why = "the GPU belongs to no node";
    return gpus[n].node;
}

bool kiln_numa_processors(const char *text, cpu_set_t *ret)
{
    CPU_ZERO(ret);
    for (const char *at = text; *at;) {
        char *end;
        unsigned long from = strtoul(at, &end, 10), to = from;
        if (end == at)
            return false;
        if (*end == '-') {
            at = end + 1;
            to = strtoul(at, &end, 10);
        }
        if (end == at || to < from || to >= CPU_SETSIZE || (*end && *end != ','))
            return false;
        for (; from <= to; from++)
            CPU_SET(from, ret);
        at = *end ? end + 1 : end;
    }
    return CPU_COUNT(ret) > 0;
}

bool kiln_numa_bind(const char *root, int node, const char **why)
{
    char list[LIST_BYTES];
    cpu_set_t allowed, beside;
    unsigned long mask = node < NODES_MAX ? 1ul << node : 0;
    kiln_node_processors(root, node, list, sizeof list);
    *why = "the system does not name the node's processors";
    if (!kiln_numa_processors(list, &beside))
        return false;
    *why = "none of the node's processors is allowed here";
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return false;
    CPU_AND(&beside, &beside, &allowed);
    if (CPU_COUNT(&beside) == 0)
        return false;
    *why = "the system refuses";
    if (sched_setaffinity(0, sizeof beside, &beside) != 0)
        return false;
    /* A container may forbid this one; a thread's own memory then comes from where it runs. */
    (void)syscall(SYS_set_mempolicy, MPOL_PREFERRED, &mask, NODES_MAX + 1);
    return true;
}

void kiln_numa_pin(const struct kiln_config *config)
{
    const char *device = kiln_config_text(config, KILN_KEY_DEVICE), *why;
    char bus[32];
    bool off = strcmp(kiln_config_text(config, KILN_KEY_NUMA), "off") == 0;
    if (off || strncmp(device, "cuda", 4) != 0)
        return;
    int node = kiln_numa_node("", device, bus, sizeof bus, &why);
    bool bound = node >= 0 && kiln_numa_bind("", node, &why);
    if (bound)
        kiln_log(KILN_LOG_INFO, "numa_bound", kiln_f("device", "%s", device),
                 kiln_f("bus", "%s", bus), kiln_f("node", "%d", node));
    else
        kiln_log(KILN_LOG_INFO, "numa_unbound", kiln_f("device", "%s", device),
                 kiln_f("bus", "%s", bus), kiln_f("why", "%s", why));
}
