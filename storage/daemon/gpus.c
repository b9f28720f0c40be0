/* gpus.c - see gpus.h.
 *
 *     /proc/driver/nvidia/gpus/BUS/information       "GPU UUID: GPU-...", "Device Minor: 0"
 *     /dev/nvidia0                                   in a container only where it was given
 *     /sys/bus/pci/devices/BUS/numa_node             "1", or "-1"
 *     /sys/devices/system/node/node1/cpulist         "16-31"
 *
 * Some containers hide the first of these: then device files are counted, without addresses.
 */
#include "storage/daemon/gpus.h"

#include <ctype.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 512

/* The first line of a file without its end; false if there is none. */
static bool first_line(const char *path, char *out, size_t size)
{
    FILE *file = fopen(path, "re");
    bool found = file && fgets(out, (int)size, file) != NULL;
    if (file)
        fclose(file);
    if (found)
        out[strcspn(out, "\n")] = '\0';
    return found;
}

/* UUID and minor number; false without the latter. */
static bool read_information(const char *path, struct kiln_gpu *gpu)
{
    char line[LINE_BYTES];
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        (void)sscanf(line, "GPU UUID: %63s", gpu->uuid);
        (void)sscanf(line, "Device Minor: %d", &gpu->minor);
    }
    if (file)
        fclose(file);
    return gpu->minor >= 0;
}

static int read_node(const char *root, const char *bus)
{
    char path[PATH_MAX], text[32];
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/numa_node", root, bus);
    return first_line(path, text, sizeof text) ? atoi(text) : -1;
}

static bool has_device_file(const char *root, int minor)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/dev/nvidia%d", root, minor);
    return access(path, F_OK) == 0;
}

/* glob sorts, and addresses of one form sort as numbers do. */
static int list_by_driver(const char *root, struct kiln_gpu *ret)
{
    char pattern[PATH_MAX];
    glob_t found;
    int count = 0;
    snprintf(pattern, sizeof pattern, "%s/proc/driver/nvidia/gpus/*/information", root);
    if (glob(pattern, 0, NULL, &found) != 0)
        return 0;
    for (size_t i = 0; i < found.gl_pathc && count < KILN_GPUS_MAX; i++) {
        struct kiln_gpu gpu = {.minor = -1, .node = -1};
        char *end = strrchr(found.gl_pathv[i], '/');
        if (!read_information(found.gl_pathv[i], &gpu) || !has_device_file(root, gpu.minor))
            continue;
        *end = '\0';
        snprintf(gpu.bus, sizeof gpu.bus, "%s", strrchr(found.gl_pathv[i], '/') + 1);
        for (char *at = gpu.bus; *at; at++) /* /sys writes them small, the driver does not always */
            *at = (char)tolower((unsigned char)*at);
        gpu.node = read_node(root, gpu.bus);
        ret[count++] = gpu;
    }
    globfree(&found);
    return count;
}

static int list_by_files(const char *root, struct kiln_gpu *ret)
{
    int count = 0;
    for (int minor = 0; minor < KILN_GPUS_MAX; minor++)
        if (has_device_file(root, minor))
            ret[count++] = (struct kiln_gpu){.minor = minor, .node = -1};
    return count;
}

/* A number, or the beginning of a UUID; -1: none of them, behind which CUDA sees nothing more. */
static int find_visible(const struct kiln_gpu *all, int count, const char *word, size_t len)
{
    char *end;
    long number = strtol(word, &end, 10);
    if (len > 0 && end == word + len)
        return number >= 0 && number < count ? (int)number : -1;
    for (int i = 0; i < count; i++)
        if (len > 4 && strncmp(all[i].uuid, word, len) == 0)
            return i;
    return -1;
}

int kiln_gpus_list(const char *root, const char *visible, struct kiln_gpu *ret)
{
    struct kiln_gpu all[KILN_GPUS_MAX];
    int count = list_by_driver(root, all), chosen = 0;
    if (count == 0)
        count = list_by_files(root, all);
    if (!visible) {
        memcpy(ret, all, (size_t)count * sizeof *ret);
        return count;
    }
    for (const char *at = visible; *at && chosen < KILN_GPUS_MAX;) {
        size_t len = strcspn(at, ",");
        int which = find_visible(all, count, at, len);
        if (which < 0)
            break;
        ret[chosen++] = all[which];
        at += at[len] ? len + 1 : len;
    }
    return chosen;
}

void kiln_node_processors(const char *root, int node, char *out, size_t size)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/sys/devices/system/node/node%d/cpulist", root, node);
    if (node < 0 || !first_line(path, out, size))
        out[0] = '\0';
}
