/* worker_names.c - names of workers by host and device, and which worker of a plan a word means. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/fleet/worker_show.h"
#include "schemas/digest.h"
#include "schemas/names.h"

#define HOST_SIZE 65  /* of a name that gethostname gives */
#define HOST_SHOWN 14 /* at most so much of it begins the name of a worker */

void kiln_worker_name_of(const char *on_host, const char *on, unsigned number,
                         char out[KILN_PROCESS_NAME_MAX])
{
    char host[HOST_SIZE] = "worker", device[32], hex[5];
    const bool gpu = strncmp(on, "cuda:", 5) == 0;
    uint8_t digest[KILN_SHA256_SIZE];
    if (on_host)
        snprintf(host, sizeof host, "%s", on_host);
    else
        (void)gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = '\0';
    if (strlen(host) > HOST_SHOWN) {
        kiln_sha256(host, strlen(host), digest);
        kiln_hex(digest, 2, hex);
        snprintf(host + HOST_SHOWN - 5, 6, "-%s", hex);
    }
    snprintf(device, sizeof device, "%s%.24s", gpu ? "gpu" : "", gpu ? on + 5 : on);
    if (!kiln_name_valid(host, strlen(host), HOST_SHOWN))
        snprintf(host, sizeof host, "worker");
    if (number)
        snprintf(out, KILN_PROCESS_NAME_MAX, "%.14s-%.8s-%u", host, device,
                 number % KILN_GUARD_MAX);
    else
        snprintf(out, KILN_PROCESS_NAME_MAX, "%.14s-%.8s", host, device);
}

bool kiln_worker_is_before(const char *name, const char *other)
{
    const int number = kiln_stack_worker_number(name);
    return number >= 0 && number < kiln_stack_worker_number(other);
}

/* The name that `worker start` would have given to a worker of the stack, "" for any other. */
static void name_by_device(const struct kiln_guard_plan *plan, int at,
                           char out[KILN_PROCESS_NAME_MAX])
{
    const struct kiln_guard_row *row = &plan->at[at];
    unsigned before = 0;
    out[0] = '\0';
    if (kiln_stack_worker_number(row->name) < 0)
        return;
    for (int i = 0; i < plan->count; i++)
        before += kiln_worker_is_before(plan->at[i].name, row->name) &&
                  strcmp(plan->at[i].device, row->device) == 0;
    kiln_worker_name_of(NULL, row->device, before, out);
}

struct kiln_guard_row *kiln_worker_row_meant(struct kiln_guard_plan *plan, const char *word)
{
    struct kiln_guard_row *row = kiln_guard_row(plan, word);
    int meant = row != NULL;
    for (int by_device = 0; meant == 0 && by_device < 2; by_device++)
        for (int i = 0; i < plan->count; i++) {
            char name[KILN_PROCESS_NAME_MAX];
            name_by_device(plan, i, name);
            if (!kiln_worker_meant(by_device ? name : plan->at[i].name, word))
                continue;
            row = &plan->at[i];
            meant++;
        }
    return meant == 1 ? row : NULL;
}
