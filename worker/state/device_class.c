/* device_class.c - read from /proc: no driver has to be loaded for a name.
 *
 *     /proc/driver/nvidia/gpus/<bus id>/information   "Model:  NVIDIA H200", "Device Minor:  0"
 *     /proc/cpuinfo                                   "model name : AMD EPYC 9B45"
 *
 * storage/daemon/gpus.h knows which of the driver's GPUs is cuda:N.
 */
#include "worker/state/device_class.h"

#include <ctype.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/daemon/gpus.h"

#define LINE_MAX_BYTES 512

void kiln_device_class_of(const char *name, char *out, size_t size)
{
    size_t len = 0;
    for (; *name && len + 1 < size; name++) {
        unsigned char c = (unsigned char)*name;
        if (isalnum(c) && c < 128)
            out[len++] = (char)tolower(c);
        else if (len > 0 && out[len - 1] != '-')
            out[len++] = '-';
    }
    while (len > 0 && out[len - 1] == '-')
        len--;
    out[len] = '\0';
}

/* The value of the first line "key : value" of a file; false if there is none. */
static bool field(const char *path, const char *key, char *out, size_t size)
{
    char line[LINE_MAX_BYTES];
    bool found = false;
    FILE *file = fopen(path, "r");
    while (file && !found && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, key, strlen(key)) != 0)
            continue;
        colon++;
        colon += strspn(colon, " \t");
        snprintf(out, size, "%.*s", (int)strcspn(colon, "\n"), colon);
        found = true;
    }
    if (file)
        fclose(file);
    return found;
}

/* Of the GPU with that minor number, else of the first one. */
static bool gpu_name(int minor, char *out, size_t size)
{
    glob_t gpus;
    bool found = false, exact = false;
    if (glob("/proc/driver/nvidia/gpus/*/information", 0, NULL, &gpus) != 0)
        return false;
    for (size_t i = 0; i < gpus.gl_pathc && !exact; i++) {
        char name[LINE_MAX_BYTES], number[LINE_MAX_BYTES];
        if (!field(gpus.gl_pathv[i], "Model", name, sizeof name))
            continue;
        exact =
            field(gpus.gl_pathv[i], "Device Minor", number, sizeof number) && atoi(number) == minor;
        if (exact || !found)
            snprintf(out, size, "%s", name);
        found = true;
    }
    globfree(&gpus);
    return found;
}

/* The driver's number of cuda:N. */
static int minor_of(int number)
{
    struct kiln_gpu gpus[KILN_GPUS_MAX];
    int count = kiln_gpus_list("", getenv("CUDA_VISIBLE_DEVICES"), gpus);
    return number >= 0 && number < count ? gpus[number].minor : number;
}

void kiln_device_class(const char *device, char *out, size_t size)
{
    char name[LINE_MAX_BYTES];
    bool cuda = strncmp(device, "cuda", 4) == 0;
    const char *number = strchr(device, ':');
    bool known = cuda ? gpu_name(minor_of(number ? atoi(number + 1) : 0), name, sizeof name)
                      : field("/proc/cpuinfo", "model name", name, sizeof name);
    kiln_device_class_of(known ? name : cuda ? "cuda" : "cpu", out, size);
    if (out[0] == '\0')
        snprintf(out, size, "%s", cuda ? "cuda" : "cpu");
}
