/* occasion.c - see occasion.h. */
#include "worker/bench/measured/occasion.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "worker/state/device_class.h"

void kiln_measured_now(int32_t device, struct kiln_measured_at *ret)
{
    const time_t now = time(NULL);
    struct tm day;
    strftime(ret->date, sizeof ret->date, "%Y-%m-%d", gmtime_r(&now, &day));
    snprintf(ret->device, sizeof ret->device, device < 0 ? "cpu" : "cuda:%d", device);
    kiln_device_class(ret->device, ret->device_class, sizeof ret->device_class);
}

static bool is_local(const char *const *local, const char *word)
{
    for (; *local; local++)
        if (strcmp(word, *local) == 0)
            return true;
    return false;
}

void kiln_measured_command(const char *verb, const char *const *local, int argc, char **argv,
                           char *out, size_t size)
{
    size_t len = (size_t)snprintf(out, size, "kiln %s", verb);
    for (int i = 1; i < argc && len < size; i++) {
        if (is_local(local, argv[i])) {
            i++;
            continue;
        }
        const char *slash = strrchr(argv[i], '/');
        len += (size_t)snprintf(out + len, size - len, " %s", slash ? slash + 1 : argv[i]);
    }
}
