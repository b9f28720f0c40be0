/* size.c - see size.h.  Reads the server's own catalogue and statistics. */
#include "storage/ledger/upkeep/size.h"

#include "storage/ledger/internal.h"

static int read_size(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_table_size size;
    KILN_READ(rows, row, 0, size.name, size.table_bytes, size.index_bytes, size.live, size.dead,
              size.updates, size.in_place);
    return ((kiln_each_table *)caller->each)(caller->arg, &size, err);
}

int kiln_ledger_sizes(struct kiln_ledger *ledger, kiln_each_table *each, void *arg,
                      struct kiln_error *err)
{
    static const struct kiln_statement sizes = {
        "sizes", "SELECT relname, pg_table_size(relid), pg_indexes_size(relid), n_live_tup,"
                 " n_dead_tup, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
                 " WHERE schemaname = current_schema()"
                 " ORDER BY pg_total_relation_size(relid) DESC, relname"};
    return kiln_ledger_each(ledger, &sizes, &(struct kiln_params){0}, read_size,
                            KILN_CALLER(each, arg), err);
}
