/* worker_names.c - names of workers by host and device, and which worker of a plan a word means. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/stack/guard.h"
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

bool kiln_worker_id_fits(const char *id, const char *device)
{
    char first[KILN_PROCESS_NAME_MAX];
    kiln_worker_name_of(NULL, device, 0, first);
    const size_t len = strlen(first);
    return strncmp(id, first, len) == 0 && (id[len] == '\0' || id[len] == '-');
}

void kiln_worker_id_set(struct kiln_guard_plan *plan, struct kiln_guard_row *row)
{
    char id[KILN_PROCESS_NAME_MAX];
    unsigned number = 0;
    do
        kiln_worker_name_of(NULL, row->device, number++, id);
    while (kiln_guard_row_of_id(plan, id) && number < KILN_GUARD_MAX);
    snprintf(row->id, sizeof row->id, "%s", id);
}

struct kiln_guard_row *kiln_worker_row_meant(struct kiln_guard_plan *plan, const char *word)
{
    struct kiln_guard_row *row = kiln_guard_row_of_id(plan, word);
    int meant = 0;
    if (!row)
        row = kiln_guard_row(plan, word);
    if (row)
        return row;
    for (int i = 0; i < plan->count; i++)
        if (kiln_worker_meant(plan->at[i].id, word)) {
            row = &plan->at[i];
            meant++;
        }
    return meant == 1 ? row : NULL;
}
