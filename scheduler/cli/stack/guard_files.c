/* guard_files.c - the files of the guard: its plan, its report, and logs that do not fill the disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scheduler/cli/stack/guard.h"
#include "storage/formats/replace.h"

#define REPORT "run/crew.json"
#define CRASHES 5
#define WITHIN_S 300
#define LOG_BYTES (16 << 20)
#define PIECE 65536

static bool read_row(const json_t *row, struct kiln_guard_row *ret)
{
    const char *name, *id = NULL, *device;
    int wanted, turn;
    if (json_unpack((json_t *)row, "{s:s, s?s, s:s, s:b, s:i}", "name", &name, "id", &id, "device",
                    &device, "wanted", &wanted, "turn", &turn))
        return false;
    id = id ? id : name; /* in a plan of an earlier release */
    ret->wanted = wanted;
    ret->turn = (uint32_t)turn;
    return snprintf(ret->name, sizeof ret->name, "%s", name) < (int)sizeof ret->name &&
           snprintf(ret->id, sizeof ret->id, "%s", id) < (int)sizeof ret->id &&
           snprintf(ret->device, sizeof ret->device, "%s", device) < (int)sizeof ret->device;
}

int kiln_guard_read(const struct kiln_stack *stack, struct kiln_guard_plan *ret,
                    struct kiln_error *err)
{
    char path[PATH_MAX];
    json_error_t why;
    const char *config = NULL;
    json_t *rows = NULL;
    json_int_t within_s, log_bytes;
    *ret =
        (struct kiln_guard_plan){.crashes = CRASHES, .within_s = WITHIN_S, .log_bytes = LOG_BYTES};
    if (access(kiln_join(path, stack->dir, KILN_GUARD_PLAN), F_OK) != 0)
        return 0;
    json_t *plan = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    bool ok = plan && json_unpack(plan, "{s:i, s:I, s:I, s:s, s:o}", "crashes", &ret->crashes,
                                  "within_s", &within_s, "log_bytes", &log_bytes, "config", &config,
                                  "workers", &rows) == 0;
    ok = ok && json_is_array(rows) && json_array_size(rows) <= KILN_GUARD_MAX;
    for (size_t i = 0; ok && i < json_array_size(rows); i++)
        ok = read_row(json_array_get(rows, i), &ret->at[ret->count++]);
    if (ok) {
        ret->within_s = within_s;
        ret->log_bytes = log_bytes;
        snprintf(ret->config, sizeof ret->config, "%s", config);
    }
    json_decref(plan);
    return ok ? 0
              : kiln_fail(err, KILN_CORRUPT,
                          "%s is not a plan of workers (%s); remove it and start the workers again",
                          path, plan ? "unknown format" : why.text);
}

int kiln_guard_write(const struct kiln_stack *stack, const struct kiln_guard_plan *plan,
                     struct kiln_error *err)
{
    char path[PATH_MAX];
    json_t *rows = json_array();
    for (int i = 0; i < plan->count; i++) {
        const struct kiln_guard_row *row = &plan->at[i];
        json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:b, s:i}", "name", row->name, "id",
                                              row->id, "device", row->device, "wanted",
                                              (int)row->wanted, "turn", (int)row->turn));
    }
    json_t *value = json_pack("{s:i, s:I, s:I, s:s, s:o}", "crashes", plan->crashes, "within_s",
                              (json_int_t)plan->within_s, "log_bytes", (json_int_t)plan->log_bytes,
                              "config", plan->config, "workers", rows);
    int rc = kiln_replace_json(kiln_join(path, stack->dir, KILN_GUARD_PLAN), value, err);
    json_decref(value);
    return rc;
}

struct kiln_guard_row *kiln_guard_row(struct kiln_guard_plan *plan, const char *name)
{
    for (int i = 0; i < plan->count; i++)
        if (strcmp(plan->at[i].name, name) == 0)
            return &plan->at[i];
    return NULL;
}

struct kiln_guard_row *kiln_guard_row_of_id(struct kiln_guard_plan *plan, const char *id)
{
    for (int i = 0; i < plan->count; i++)
        if (strcmp(plan->at[i].id, id) == 0)
            return &plan->at[i];
    return NULL;
}

void kiln_guard_id(const struct kiln_stack *stack, const char *name,
                   char out[KILN_PROCESS_NAME_MAX])
{
    struct kiln_error err;
    struct kiln_guard_plan *plan = malloc(sizeof *plan);
    const struct kiln_guard_row *row =
        plan && kiln_guard_read(stack, plan, &err) == 0 ? kiln_guard_row(plan, name) : NULL;
    snprintf(out, KILN_PROCESS_NAME_MAX, "%s", row ? row->id : name);
    free(plan);
}

int kiln_guard_add(struct kiln_guard_plan *plan, const char *name, struct kiln_guard_row **ret,
                   struct kiln_error *err)
{
    *ret = kiln_guard_row(plan, name);
    if (*ret)
        return 0;
    if (plan->count == KILN_GUARD_MAX)
        return kiln_fail(err, KILN_FULL, "a machine has at most %d workers", KILN_GUARD_MAX);
    *ret = &plan->at[plan->count++];
    **ret = (struct kiln_guard_row){.wanted = false};
    snprintf((*ret)->name, sizeof(*ret)->name, "%s", name);
    snprintf((*ret)->id, sizeof(*ret)->id, "%s", name);
    return 0;
}

bool kiln_guard_report(const struct kiln_stack *stack, const char *name,
                       struct kiln_guard_report *ret)
{
    char path[PATH_MAX];
    json_t *reports = json_load_file(kiln_join(path, stack->dir, REPORT), 0, NULL), *report;
    const char *worker, *state, *reason;
    int pid, restarts, turn;
    json_int_t since_ms = 0;
    size_t i;
    bool found = false;
    json_array_foreach(reports, i, report)
    {
        if (json_unpack(report, "{s:s, s:s, s:s, s:i, s:i, s:i, s?I}", "worker", &worker, "state",
                        &state, "reason", &reason, "pid", &pid, "restarts", &restarts, "turn",
                        &turn, "since_ms", &since_ms) != 0 ||
            strcmp(worker, name) != 0)
            continue;
        found = true;
        *ret = (struct kiln_guard_report){.pid = pid,
                                          .restarts = (uint32_t)restarts,
                                          .turn = (uint32_t)turn,
                                          .since_ms = since_ms};
        snprintf(ret->state, sizeof ret->state, "%s", state);
        snprintf(ret->reason, sizeof ret->reason, "%s", reason);
    }
    json_decref(reports);
    return found;
}

int kiln_guard_write_reports(const struct kiln_stack *stack, json_t *reports,
                             struct kiln_error *err)
{
    char path[PATH_MAX];
    int rc = kiln_replace_json(kiln_join(path, stack->dir, REPORT), reports, err);
    json_decref(reports);
    return rc;
}

/* --- logs -------------------------------------------------------------------------------------
 *
 * The writer keeps its file open for weeks, so renaming it would only rename where it writes.  The
 * content is copied and the file then truncated; the writer appends, so it continues at the start.
 * A line that comes between copying and truncating would be lost: copying continues until nothing
 * was added meanwhile, which leaves microseconds.
 */

/* Copies to the end, and what is added meanwhile. */
static bool copy_all(int from, int to)
{
    char piece[PIECE];
    for (ssize_t n; (n = read(from, piece, sizeof piece)) != 0;)
        if (n < 0 || kiln_write_all(to, piece, (size_t)n) != 0)
            return false;
    return true;
}

int kiln_log_rotate(const char *path, int64_t max, struct kiln_error *err)
{
    char first[PATH_MAX + 8], older[PATH_MAX + 8], newer[PATH_MAX + 8];
    struct kiln_part part;
    struct stat st;
    if (stat(path, &st) != 0 || st.st_size <= max)
        return 0;
    snprintf(first, sizeof first, "%s.1", path);
    int from = open(path, O_RDWR | O_CLOEXEC);
    if (from < 0)
        return kiln_fail(err, KILN_IO, "rotate %s: %s", path, strerror(errno));
    int rc = kiln_part_open(&part, first, 0600, err);
    if (rc == 0 && !copy_all(from, part.fd))
        rc = kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "rotate %s: %s", path,
                       strerror(errno));
    if (rc == 0) {
        for (int i = KILN_LOGS_KEPT - 1; i > 0; i--) {
            snprintf(newer, sizeof newer, "%s.%d", path, i);
            snprintf(older, sizeof older, "%s.%d", path, i + 1);
            (void)rename(newer, older); /* most are not there yet */
        }
        rc = kiln_part_keep(&part, false, err);
    } else {
        kiln_part_drop(&part); /* half a copy would take the room that is missing */
    }
    if (rc == 0 && ftruncate(from, 0) != 0)
        rc = kiln_fail(err, KILN_IO, "rotate %s: %s", path, strerror(errno));
    close(from);
    return rc;
}
