/* pause.c - see pause.h. */
#include "storage/ledger/queue/pause.h"

#include <string.h>

#include "storage/ledger/internal.h"

static const char *const scope_names[KILN_SCOPE_COUNT] = {"all",   "backfill", "order", "tenant",
                                                          "group", "window",   "quota"};

const char *kiln_scope_name(enum kiln_pause_scope scope)
{
    return scope_names[scope];
}

static enum kiln_pause_scope scope_of(const char *name)
{
    int scope = 0;
    while (scope < KILN_SCOPE_COUNT - 1 && strcmp(scope_names[scope], name) != 0)
        scope++;
    return (enum kiln_pause_scope)scope;
}

/* Columns: scope, name, held, at, until, who, reason, batch id. */
static void read_pause(const PGresult *rows, int row, struct kiln_pause *ret)
{
    const char *scope;
    memset(ret, 0, sizeof *ret); /* whole structs are compared */
    KILN_READ(rows, row, 0, scope, ret->name, ret->held, ret->at_ms, ret->until_ms, ret->who,
              ret->reason, ret->batch_id);
    ret->scope = scope_of(scope);
}

static int list_pause(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_pause pause;
    read_pause(rows, row, &pause);
    return ((kiln_each_pause *)caller->each)(caller->arg, &pause, err);
}

#define TIMES MS("h.at") ", " MS("h.until")

int kiln_ledger_pauses(struct kiln_ledger *ledger, const char *pool, bool lifted,
                       kiln_each_pause *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement pauses = {
        "holds", "SELECT h.scope, h.name, h.held, " TIMES ", h.who, h.reason, b.batch_id"
                 " FROM hold h LEFT JOIN backfill b ON b.pool = h.pool AND b.name = h.name"
                 "  AND h.scope IN ('order', 'window')"
                 " WHERE h.pool = $1::text AND (h.held OR $2::bool)"
                 " AND (b.id IS NOT NULL OR h.scope NOT IN ('order', 'window'))"
                 " ORDER BY h.scope, h.name"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, lifted);
    return kiln_ledger_run_each(ledger, &pauses, &params, list_pause, KILN_CALLER(each, arg), err);
}

int kiln_ledger_pause(struct kiln_ledger *ledger, const char *pool, const struct kiln_pause *pause,
                      struct kiln_pause *ret_before, struct kiln_error *err)
{
    /* The row is locked first, so of two concurrent writers the second reads what the first wrote.
     * If neither finds a row, ON CONFLICT makes the second wait and write last. */
    static const struct kiln_statement put = {
        "hold_put",
        "WITH before AS (SELECT * FROM hold WHERE pool = $1::text AND scope = $2::text"
        "  AND name = $3::text FOR UPDATE), put AS ("
        "  INSERT INTO hold (pool, scope, name, held, who, reason, until)"
        "  SELECT $1, $2, $3, $4::bool, $5::text, $6::text,"
        "    to_timestamp(nullif($7::bigint, 0) / 1000.0) FROM (SELECT count(*) FROM before) b"
        "  ON CONFLICT (pool, scope, name) DO UPDATE SET held = excluded.held,"
        "    at = clock_timestamp(), who = excluded.who, reason = excluded.reason,"
        "    until = excluded.until)"
        " SELECT scope, name, held, " TIMES ", who, reason, 0::bigint FROM before h"};
    struct kiln_params params = {0};
    PGresult *rows;
    KILN_BIND(&params, pool, kiln_scope_name(pause->scope), pause->name, pause->held, pause->who,
              pause->reason, pause->until_ms);
    int rc = kiln_ledger_run(ledger, &put, &params, &rows, err);
    if (rc)
        return rc;
    if (PQntuples(rows) > 0)
        read_pause(rows, 0, ret_before);
    else
        memset(ret_before, 0, sizeof *ret_before);
    PQclear(rows);
    return 0;
}

static int read_name(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    return ((kiln_each_name *)caller->each)(caller->arg, kiln_row_text(rows, row, 0), err);
}

int kiln_ledger_tenants(struct kiln_ledger *ledger, const char *pool, kiln_each_name *each,
                        void *arg, struct kiln_error *err)
{
    static const struct kiln_statement tenants = {
        "tenants", "SELECT DISTINCT t.tenant FROM batch_tenant t JOIN batch b ON b.id = t.batch_id"
                   " WHERE b.pool = $1::text ORDER BY 1"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    return kiln_ledger_each(ledger, &tenants, &params, read_name, KILN_CALLER(each, arg), err);
}
