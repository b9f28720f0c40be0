/* change.c - see change.h.  The function lora_change of schemas/sql does the work in the database,
 * so that the version, the row that ends and the row that begins are one transaction. */
#include "storage/ledger/lora/change.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/room.h"
#include "storage/ledger/internal.h"

#define SEEN_TRIES 3 /* others register files of the same directory */

/* The row of lora_file as JSON; NAN and infinity never come here. */
static void facts_json(const struct kiln_lora_file_facts *file, char *out, size_t size)
{
    char strength[32] = "null";
    if (file->strength >= 0)
        snprintf(strength, sizeof strength, "%.9g", file->strength);
    snprintf(out, size, "{\"bytes\":%llu,\"rank\":%u,\"modules\":%u,\"strength\":%s,\"stored\":%s}",
             (unsigned long long)file->bytes, file->rank, file->modules, strength,
             file->stored ? "true" : "false");
}

int kiln_lora_change(struct kiln_ledger *ledger, const char *pool,
                     const struct kiln_lora_change *change, uint64_t *ret_version,
                     struct kiln_error *err)
{
    static const struct kiln_statement run = {
        "lora_change", "SELECT lora_change($1::text, $2::bigint, $3::text, $4::text, $5::text,"
                       " $6::jsonb, $7::boolean, $8::boolean, $9::boolean, $10::text, $11::jsonb)"};
    struct kiln_params params = {0};
    char facts[200];
    const char *file = NULL;
    int64_t version = 0;
    if (change->new_file) {
        facts_json(change->file, facts, sizeof facts);
        file = facts;
    }
    KILN_BIND(&params, pool, change->ends, change->name, change->tenant,
              (const char *)change->file->sha256, file, change->enabled, change->routable,
              change->seen, change->who, change->entry);
    int rc = kiln_ledger_ask(ledger, &run, &params, KILN_FIELDS(version), err);
    if (rc)
        return rc;
    if (version < 0)
        return kiln_fail(err, KILN_EXISTS, "the registry has another LoRA '%s'", change->name);
    if (version == 0)
        return kiln_fail(err, KILN_STALE, "somebody else has changed LoRA '%s' meanwhile",
                         change->name);
    *ret_version = (uint64_t)version;
    return 0;
}

int kiln_lora_stored(struct kiln_ledger *ledger, const char *sha256, uint64_t *ret_bytes,
                     bool *ret_there, struct kiln_error *err)
{
    static const struct kiln_statement sum = {
        "lora_stored", "SELECT coalesce(sum(bytes), 0)::bigint,"
                       " coalesce(bool_or(sha256 = $1::text), false) FROM lora_file WHERE stored"};
    struct kiln_params params = {0};
    KILN_BIND(&params, sha256);
    return kiln_ledger_ask(ledger, &sum, &params, KILN_FIELDS(*ret_bytes, *ret_there), err);
}

int kiln_lora_waiting(struct kiln_ledger *ledger, const char *pool, const char *name,
                      const char *sha256, uint64_t *ret, struct kiln_error *err)
{
#define NEEDS                                                                                      \
    " j.loras <> '[]' AND EXISTS (SELECT FROM jsonb_array_elements(j.loras) l"                     \
    " WHERE CASE WHEN l ? 'sha256' THEN l ->> 'sha256' = $3::text"                                 \
    " ELSE l ->> 'name' = $2::text END)"
    static const struct kiln_statement count = {
        "lora_waiting", "SELECT (SELECT count(*) FROM job j WHERE j.pool = $1::text AND j.waits"
                        " AND" NEEDS ") + (SELECT count(*) FROM " KILN_ASSIGNED_JOBS
                        " WHERE a.pool = $1 AND" NEEDS ")"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, name, sha256);
    return kiln_ledger_ask(ledger, &count, &params, KILN_FIELDS(*ret), err);
}

/* --- files of a directory --------------------------------------------------------------------- */

struct seen_row {
    uint64_t id;
    char sha256[KILN_LORA_SHA256_MAX];
    bool seen, same; /* same: texts as now */
};

static int find_seen(struct kiln_ledger *ledger, const char *pool, const char *name,
                     const char *entry, struct seen_row *ret, struct kiln_error *err)
{
    static const struct kiln_statement ask = {
        "lora_seen", "SELECT id, sha256, seen, entry = $3::jsonb FROM lora"
                     " WHERE pool = $1::text AND name = $2::text AND until IS NULL"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, name, entry);
    *ret = (struct seen_row){0};
    return kiln_ledger_ask(ledger, &ask, &params,
                           KILN_FIELDS(ret->id, ret->sha256, ret->seen, ret->same), err);
}

int kiln_lora_register_seen(struct kiln_ledger *ledger, const char *pool,
                            const struct kiln_lora_seen *seen,
                            char ret_sha256[KILN_LORA_SHA256_MAX], struct kiln_error *err)
{
    struct kiln_lora_file_facts file = {.bytes = seen->bytes, .strength = -1};
    struct seen_row row;
    char bare[KILN_NAME_MAX + 16];
    const char *entry = seen->entry ? seen->entry : bare;
    uint64_t version;
    int rc = KILN_STALE;
    snprintf(file.sha256, sizeof file.sha256, "%s", seen->sha256);
    snprintf(bare, sizeof bare, "{\"name\":\"%s\"}", seen->name); /* names need no escaping */
    for (int i = 0; i < SEEN_TRIES && (rc == KILN_STALE || rc == KILN_EXISTS); i++) {
        rc = find_seen(ledger, pool, seen->name, entry, &row, err);
        if (rc)
            return rc;
        if (row.id && (!row.seen || (row.same && strcmp(row.sha256, seen->sha256) == 0))) {
            memcpy(ret_sha256, row.sha256, sizeof row.sha256);
            return 0;
        }
        rc = kiln_lora_change(ledger, pool,
                              &(struct kiln_lora_change){.ends = row.id,
                                                         .name = seen->name,
                                                         .tenant = seen->tenant,
                                                         .file = &file,
                                                         .new_file = true,
                                                         .enabled = !seen->entry || seen->enabled,
                                                         .routable = seen->routable,
                                                         .seen = true,
                                                         .who = "lora_dir",
                                                         .entry = entry},
                              &version, err);
    }
    if (rc == 0)
        memcpy(ret_sha256, file.sha256, sizeof file.sha256);
    return rc;
}

struct gone_row {
    uint64_t id;
    char name[KILN_NAME_MAX + 1], tenant[KILN_NAME_MAX + 1], sha256[KILN_LORA_SHA256_MAX];
};

struct gone_rows {
    struct gone_row *at;
    size_t count, room;
};

static int keep_gone(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct gone_rows *gone = arg;
    struct gone_row *at = kiln_room(gone->at, gone->count, &gone->room, sizeof *at);
    if (!at)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the names of LoRAs");
    gone->at = at;
    at = &gone->at[gone->count++];
    KILN_READ(rows, row, 0, at->id, at->name, at->tenant, at->sha256);
    return 0;
}

/* A row that another client has changed meanwhile is left alone: it is no longer a row of lora_dir,
 * or the next call finds it again. */
int kiln_lora_end_seen(struct kiln_ledger *ledger, const char *pool, const char *const *names,
                       size_t count, uint32_t *ret_ended, struct kiln_error *err)
{
    static const struct kiln_statement list = {
        "lora_gone", "SELECT id, name, tenant, sha256 FROM lora WHERE pool = $1::text"
                     " AND until IS NULL AND seen AND name <> ALL ($2::text[])"};
    struct kiln_params params = {0};
    struct gone_rows gone = {0};
    KILN_BIND(&params, pool);
    KILN_BIND_COLUMN(&params, TEXT, count, names[i]);
    int rc = kiln_ledger_run_each(ledger, &list, &params, keep_gone, &gone, err);
    *ret_ended = 0;
    for (size_t i = 0; i < gone.count && rc == 0; i++) {
        const struct gone_row *row = &gone.at[i];
        struct kiln_lora_file_facts file = {0};
        uint64_t version;
        memcpy(file.sha256, row->sha256, sizeof file.sha256);
        rc = kiln_lora_change(ledger, pool,
                              &(struct kiln_lora_change){.ends = row->id,
                                                         .name = row->name,
                                                         .tenant = row->tenant,
                                                         .file = &file,
                                                         .seen = true,
                                                         .who = "lora_dir"},
                              &version, err);
        *ret_ended += rc == 0;
        rc = rc == KILN_STALE ? 0 : rc;
    }
    free(gone.at);
    return rc;
}
