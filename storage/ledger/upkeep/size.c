/* size.c - see size.h.  Reads the server's own catalogue and statistics. */
#include "storage/ledger/upkeep/size.h"

#include "storage/ledger/internal.h"

struct size_walk {
    kiln_each_table *each;
    void *arg;
};

static int forward_size(void *arg, const PGresult *rows, int at, struct kiln_error *err)
{
    struct size_walk *walk = arg;
    struct kiln_table_size size = {.table_bytes = kiln_row_u64(rows, at, 1),
                                   .index_bytes = kiln_row_u64(rows, at, 2),
                                   .live = kiln_row_u64(rows, at, 3),
                                   .dead = kiln_row_u64(rows, at, 4),
                                   .updates = kiln_row_u64(rows, at, 5),
                                   .in_place = kiln_row_u64(rows, at, 6)};
    kiln_row_copy(rows, at, 0, size.name, sizeof size.name);
    return walk->each(walk->arg, &size, err);
}

int kiln_ledger_sizes(struct kiln_ledger *ledger, kiln_each_table *each, void *arg,
                      struct kiln_error *err)
{
    static const struct kiln_statement sizes = {
        "sizes", "SELECT relname, pg_table_size(relid), pg_indexes_size(relid), n_live_tup,"
                 " n_dead_tup, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
                 " WHERE schemaname = current_schema()"
                 " ORDER BY pg_total_relation_size(relid) DESC, relname"};
    struct size_walk walk = {each, arg};
    return kiln_ledger_each(ledger, &sizes, &(struct kiln_params){0}, forward_size, &walk, err);
}
