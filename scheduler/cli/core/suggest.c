/* suggest.c - see suggest.h. */
#include "scheduler/cli/core/suggest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/core/cli.h"
#include "schemas/names.h"
#include "schemas/room.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/batch.h"
#include "storage/ledger/read/read.h"

#define SUGGESTED 3

int kiln_suggest_add(void *arg, const char *name, struct kiln_error *err)
{
    struct kiln_suggest *names = arg;
    char **at = kiln_room(names->at, names->count, &names->room, sizeof *at);
    char *copy = at ? strdup(name) : NULL;
    names->at = at ? at : names->at;
    if (!copy)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a name");
    names->at[names->count++] = copy;
    return 0;
}

bool kiln_suggest_has(const struct kiln_suggest *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->at[i], name) == 0)
            return true;
    return false;
}

/* Moves the closest of the remaining names to their front, SUGGESTED times. */
bool kiln_suggest_list(struct kiln_suggest *names, const char *name, char *out, size_t size)
{
    size_t count = names->count < SUGGESTED ? names->count : SUGGESTED, len;
    snprintf(out, size, count ? "the nearest %s " : "", count > 1 ? "are" : "is");
    for (size_t i = 0; i < count; i++) {
        const char *found =
            kiln_closest(name, strlen(name), (const char *const *)names->at + i, names->count - i);
        size_t k = i;
        while (names->at[k] != found)
            k++;
        char *swapped = names->at[i];
        names->at[i] = names->at[k];
        names->at[k] = swapped;
        len = strlen(out);
        snprintf(out + len, size - len, "%s'%.60s'", i ? ", " : "", names->at[i]);
    }
    return count > 0;
}

int kiln_suggest_refuse(struct kiln_suggest *names, int rc, const char *what, const char *name,
                        struct kiln_error *err)
{
    char list[KILN_SUGGEST_LIST_MAX];
    if (rc == 0 && kiln_suggest_list(names, name, list, sizeof list))
        rc = kiln_fail(err, KILN_NOT_FOUND, "there is no %s '%.80s'; %s", what, name, list);
    else if (rc == 0)
        rc = kiln_fail(err, KILN_NOT_FOUND, "there is no %s '%.80s'; there are none at all", what,
                       name);
    kiln_suggest_release(names);
    return rc;
}

void kiln_suggest_release(struct kiln_suggest *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->at[i]);
    free(names->at);
    *names = (struct kiln_suggest){0};
}

static int add_name(void *arg, const struct kiln_batch_row *batch, struct kiln_error *err)
{
    return kiln_suggest_add(arg, batch->name, err);
}

static int ignore_job(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    (void)arg, (void)row, (void)err;
    return 0;
}

/* Whether the word is the number of a job in the pool. */
static bool is_job(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *word)
{
    struct kiln_error none;
    char *end;
    unsigned long long job = strtoull(word, &end, 10);
    return word[0] >= '1' && word[0] <= '9' && !*end && job <= INT64_MAX &&
           kiln_ledger_job(ledger, kiln_pool(cli), job, ignore_job, NULL, &none) == 0;
}

int kiln_check_batch(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                     struct kiln_error *err)
{
    struct kiln_suggest names = {0};
    uint64_t id;
    int rc = kiln_ledger_batch_id(ledger, kiln_pool(cli), batch, &id, err);
    if (rc != KILN_NOT_FOUND)
        return rc;
    if (is_job(cli, ledger, batch))
        return kiln_fail(err, KILN_NOT_FOUND,
                         "there is no batch '%s'; `kiln show %s` shows the job of that number",
                         batch, batch);
    rc = kiln_ledger_batches(ledger, kiln_pool(cli), NULL, add_name, &names, err);
    return kiln_suggest_refuse(&names, rc, "batch", batch, err);
}

/* A name as it is written now: "a-gpu0-1" for "a-cuda0-1", "gpu0" for "cuda:0". */
static void modern(const char *name, char *out, size_t size)
{
    const char *at = NULL, *digits;
    for (const char *next = strstr(name, "cuda"); next; next = strstr(next + 1, "cuda"))
        at = next == name || next[-1] == '-' ? next : at;
    digits = at ? at + 4 + (at[4] == '-' || at[4] == ':') : "";
    if (*digits >= '0' && *digits <= '9')
        snprintf(out, size, "%.*sgpu%s", (int)(at - name), name, digits);
    else
        snprintf(out, size, "%s", name);
}

bool kiln_worker_meant(const char *name, const char *word)
{
    char full[KILN_NAME_MAX + 8], part[KILN_NAME_MAX + 8];
    modern(name, full, sizeof full);
    modern(word, part, sizeof part);
    size_t len = strlen(full), end = strlen(part);
    return end > 0 && end <= len && strcmp(full + len - end, part) == 0 &&
           (end == len || full[len - end - 1] == '-');
}

int kiln_no_job(struct kiln_cli *cli, struct kiln_ledger *ledger, uint64_t job, int rc,
                struct kiln_error *err)
{
    struct kiln_error none;
    char name[24];
    snprintf(name, sizeof name, "%" PRIu64, job);
    if (rc != KILN_NOT_FOUND || kiln_check_batch(cli, ledger, name, &none))
        return rc;
    return kiln_fail(err, rc, "there is no job %s, but a batch has that name: use --batch %s", name,
                     name);
}

int kiln_check_job(struct kiln_cli *cli, struct kiln_ledger *ledger, uint64_t job,
                   struct kiln_error *err)
{
    return kiln_no_job(cli, ledger, job,
                       kiln_ledger_job(ledger, kiln_pool(cli), job, ignore_job, NULL, err), err);
}
