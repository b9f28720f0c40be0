/* near_batch.c - the batch that somebody names, or those that he may have meant. */
#include "scheduler/cli/core/cli.h"
#include "scheduler/cli/core/near.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/batch.h"

static int add_name(void *arg, const struct kiln_batch_row *batch, struct kiln_error *err)
{
    return kiln_near_add(arg, batch->name, err);
}

int kiln_check_batch(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                     struct kiln_error *err)
{
    struct kiln_near near = {0};
    uint64_t id;
    int rc = kiln_ledger_batch_id(ledger, kiln_pool(cli), batch, &id, err);
    if (rc != KILN_NOT_FOUND)
        return rc;
    rc = kiln_ledger_batches(ledger, kiln_pool(cli), NULL, add_name, &near, err);
    if (rc == 0)
        rc = kiln_near_refuse(&near, "batch", batch, err);
    kiln_near_release(&near);
    return rc;
}
