/* lora.c - see lora.h. */
#include "storage/ledger/lora/lora.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/room.h"
#include "schemas/text/text.h"
#include "storage/ledger/internal.h"
#include "storage/ledger/lora/change.h"

#define AT_PRESENT "l.until IS NULL"
#define AT_VERSION "l.since <= $2::bigint AND (l.until > $2 OR l.until IS NULL)"

static int read_version(struct kiln_ledger *ledger, const char *pool, uint64_t *ret,
                        struct kiln_error *err)
{
    static const struct kiln_statement ask = {KILN_PLANNED_ONCE("lora_version"),
                                              "SELECT coalesce((SELECT version FROM lora_registry"
                                              " WHERE pool = $1::text), 0)"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    return kiln_ledger_ask(ledger, &ask, &params, KILN_FIELDS(*ret), err);
}

/* --- the list --------------------------------------------------------------------------------- */

void kiln_lora_list_release(struct kiln_lora_list *list)
{
    free(list->at);
    free(list->texts);
    *list = (struct kiln_lora_list){0};
}

struct list_walk {
    struct kiln_lora_list list;
    size_t room;
    struct kiln_text texts;
};

/* The first column is the version; without LoRAs it stands alone. */
static int add_name(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct list_walk *walk = arg;
    struct kiln_lora_list *list = &walk->list;
    const char *entry = kiln_row_text(rows, row, 7);
    list->version = kiln_row_u64(rows, row, 0);
    if (!kiln_row_text(rows, row, 1))
        return 0;
    struct kiln_lora_name *at = kiln_room(list->at, list->count, &walk->room, sizeof *at);
    if (!at)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the registry of LoRAs");
    list->at = at;
    at = &list->at[list->count++];
    KILN_READ(rows, row, 1, at->name, at->tenant, at->sha256, at->bytes, at->routable,
              at->stored);
    if (entry) {
        kiln_text_puts(&walk->texts, walk->texts.len ? "," : "{\"loras\":[");
        kiln_text_puts(&walk->texts, entry);
    }
    return 0;
}

/* The statement is one, so the version is that of the rows. */
static int read_list(struct kiln_ledger *ledger, const char *pool, uint64_t version,
                     struct kiln_lora_list *ret, struct kiln_error *err)
{
#define LIST(version, when)                                                                        \
    "SELECT r.version, l.name, l.tenant, l.sha256, f.bytes, l.routable, f.stored,"                 \
    " CASE WHEN l.routable THEN l.entry::text END FROM (SELECT " version " AS version) r"          \
    " LEFT JOIN lora l ON l.pool = $1::text AND " when " LEFT JOIN lora_file f USING (sha256)"     \
    " ORDER BY l.name"
    static const struct kiln_statement statements[] = {
        {"lora_list",
         LIST("coalesce((SELECT version FROM lora_registry WHERE pool = $1), 0)", AT_PRESENT)},
        {"lora_list_at", LIST("$2::bigint", AT_VERSION)}};
    const bool past = version != KILN_LORA_NOW;
    struct list_walk walk = {0};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    if (past)
        KILN_BIND(&params, version);
    int rc = kiln_ledger_run_each(ledger, &statements[past], &params, add_name, &walk, err);
    kiln_text_puts(&walk.texts, walk.texts.len ? "]}" : "{\"loras\":[]}");
    walk.list.texts_len = walk.texts.len;
    if (rc == 0 && !(walk.list.texts = kiln_text_take(&walk.texts)))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for the registry of LoRAs");
    kiln_text_release(&walk.texts);
    if (rc)
        kiln_lora_list_release(&walk.list);
    else
        *ret = walk.list;
    return rc;
}

int kiln_lora_list(struct kiln_ledger *ledger, const char *pool, uint64_t version, uint64_t have,
                   struct kiln_lora_list *ret, bool *ret_changed, struct kiln_error *err)
{
    uint64_t newest = 0;
    int rc = read_version(ledger, pool, &newest, err);
    if (rc)
        return rc;
    if (version != KILN_LORA_NOW && version > newest)
        return kiln_fail(err, KILN_NOT_FOUND,
                         "the registry of LoRAs has no version %llu; the newest is %llu",
                         (unsigned long long)version, (unsigned long long)newest);
    *ret_changed = version != KILN_LORA_NOW || newest != have;
    return *ret_changed ? read_list(ledger, pool, version, ret, err) : 0;
}

static int by_name(const void *name, const void *entry)
{
    return strcmp(name, ((const struct kiln_lora_name *)entry)->name);
}

const struct kiln_lora_name *kiln_lora_find(const struct kiln_lora_list *list, const char *name)
{
    return list->count ? bsearch(name, list->at, list->count, sizeof *list->at, by_name) : NULL;
}

int kiln_lora_pin(const struct kiln_lora_list *list, struct kiln_job *job, struct kiln_error *err)
{
    for (uint32_t i = 0; i < job->lora_count; i++) {
        struct kiln_lora *lora = &job->loras[i];
        const struct kiln_lora_name *known = kiln_lora_find(list, lora->name);
        if (!known || lora->sha256[0])
            continue;
        if (known->tenant[0] && strcmp(known->tenant, job->tenant) != 0)
            return kiln_fail(err, KILN_BAD_INPUT, "loras: \"%s\" is not for tenant \"%s\"",
                             lora->name, job->tenant);
        snprintf(lora->sha256, sizeof lora->sha256, "%s", known->sha256);
    }
    return 0;
}

/* --- rows ------------------------------------------------------------------------------------- */

#define ROW_COLUMNS                                                                                \
    "SELECT l.id, l.lora, l.since, coalesce(l.until, 0), " MS(                                     \
        "l.at") ", l.name, l.tenant, l.who,"                                                       \
                " l.entry::text, l.enabled, l.routable, l.seen, f.sha256, f.bytes, f.rank, "       \
                "f.modules,"                                                                       \
                " coalesce(f.strength, -1), f.stored FROM lora l JOIN lora_file f USING (sha256)"

static int read_row(void *arg, const PGresult *rows, int at, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_lora_row row;
    KILN_READ(rows, at, 0, row.id, row.lora, row.since, row.until, row.at_ms, row.name, row.tenant,
              row.who, row.entry, row.enabled, row.routable, row.seen);
    KILN_READ(rows, at, 12, row.file.sha256, row.file.bytes, row.file.rank, row.file.modules,
              row.file.strength, row.file.stored);
    return ((kiln_each_lora_row *)caller->each)(caller->arg, &row, err);
}

int kiln_lora_rows(struct kiln_ledger *ledger, const char *pool, uint64_t version, const char *name,
                   kiln_each_lora_row *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement statements[] = {
        {"lora_rows", ROW_COLUMNS " WHERE l.pool = $1::text AND " AT_PRESENT " ORDER BY l.name"},
        {"lora_rows_at", ROW_COLUMNS " WHERE l.pool = $1::text AND " AT_VERSION " ORDER BY l.name"},
        {"lora_row",
         ROW_COLUMNS " WHERE l.pool = $1::text AND " AT_PRESENT " AND l.name = $2::text"},
        {"lora_row_at",
         ROW_COLUMNS " WHERE l.pool = $1::text AND " AT_VERSION " AND l.name = $3::text"}};
    const bool past = version != KILN_LORA_NOW;
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    if (past)
        KILN_BIND(&params, version);
    if (name)
        KILN_BIND(&params, name);
    return kiln_ledger_run_each(ledger, &statements[(name ? 2 : 0) + past], &params, read_row,
                                KILN_CALLER(each, arg), err);
}

int kiln_lora_history(struct kiln_ledger *ledger, uint64_t lora, kiln_each_lora_row *each,
                      void *arg, struct kiln_error *err)
{
    static const struct kiln_statement list = {"lora_history", ROW_COLUMNS
                                               " WHERE l.lora = $1::bigint ORDER BY l.since"};
    struct kiln_params params = {0};
    KILN_BIND(&params, lora);
    return kiln_ledger_run_each(ledger, &list, &params, read_row, KILN_CALLER(each, arg), err);
}
