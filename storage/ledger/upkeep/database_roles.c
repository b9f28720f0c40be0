/* database_roles.c - see database_roles.h. */
#include "storage/ledger/upkeep/database_roles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/embedded.h"
#include "schemas/text/text.h"
#include "storage/ledger/internal.h"
#include "storage/ledger/pg.h"

static const char *const role_names[KILN_ROLE_COUNT] = {
    "kiln_scheduler", "kiln_worker", "kiln_operator", "kiln_reader", "kiln_gallery"};

static int exists(struct kiln_pg *pg, const char *name, bool *ret, struct kiln_error *err)
{
    char sql[128];
    PGresult *rows;
    snprintf(sql, sizeof sql, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = '%s')", name);
    int rc = kiln_pg_exec(pg, sql, 0, &rows, err);
    if (rc)
        return rc;
    *ret = kiln_row_bool(rows, 0, 0);
    PQclear(rows);
    return 0;
}

/* Only the hash is sent; names and hashes hold nothing that would have to be quoted. */
static int set_password(struct kiln_pg *pg, const char *name, const char *password,
                        struct kiln_error *err)
{
    char sql[512];
    char *hash = PQencryptPasswordConn(pg->conn, password, name, "scram-sha-256");
    if (!hash)
        return kiln_pg_fail(pg, NULL, "hash a password", err);
    snprintf(sql, sizeof sql, "ALTER ROLE %s PASSWORD '%s'", name, hash);
    PQfreemem(hash);
    return kiln_pg_exec(pg, sql, 0, NULL, err);
}

static int make_role(struct kiln_pg *pg, const char *name, const char *password, int *made,
                     struct kiln_error *err)
{
    char sql[160];
    bool there = false;
    int rc = exists(pg, name, &there, err);
    snprintf(sql, sizeof sql,
             "CREATE ROLE %s LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS",
             name);
    if (rc == 0 && !there)
        rc = kiln_pg_exec(pg, sql, 0, NULL, err);
    if (rc == 0 && password)
        rc = set_password(pg, name, password, err);
    *made += rc == 0 && !there;
    return rc ? kiln_fail_in(err, "role %s", name) : 0;
}

/* So that an operator's questions are asked as the reader (storage/ledger/pg.c). */
static int let_operator_read(struct kiln_pg *pg, struct kiln_error *err)
{
    return kiln_pg_exec(pg,
                        "DO $$ BEGIN IF NOT pg_has_role('kiln_operator', 'kiln_reader', 'MEMBER')"
                        " THEN GRANT kiln_reader TO kiln_operator; END IF; END $$",
                        0, NULL, err);
}

int kiln_roles_make(const struct kiln_config *config, const char *const passwords[KILN_ROLE_COUNT],
                    int *ret_made, struct kiln_error *err)
{
    struct kiln_pg pg;
    int made = 0;
    int rc = kiln_pg_init(&pg, config, "kiln migrate", err);
    if (rc)
        return rc;
    rc = kiln_pg_connect(&pg, err);
    if (rc == 0)
        rc = kiln_pg_exec(&pg, "BEGIN", 0, NULL, err);
    for (int i = 0; i < KILN_ROLE_COUNT && rc == 0; i++)
        rc = make_role(&pg, role_names[i], passwords[i], &made, err);
    if (rc == 0)
        rc = let_operator_read(&pg, err);
    if (rc == 0)
        rc = kiln_pg_exec(&pg, kiln_embedded_roles[0].text, 0, NULL, err);
    if (rc == 0)
        rc = kiln_pg_exec(&pg, "COMMIT", 0, NULL, err);
    kiln_pg_release(&pg); /* which rolls back what was not committed */
    if (rc == 0)
        *ret_made = made;
    return rc;
}

/* keyword='value', with what libpq would misread escaped. */
static void put_setting(struct kiln_text *text, const char *keyword, const char *value)
{
    kiln_text_printf(text, "%s%s=", text->len ? " " : "", keyword);
    bool plain = value[0] && strcspn(value, " '\\\t\n") == strlen(value);
    if (plain) {
        kiln_text_puts(text, value);
        return;
    }
    kiln_text_puts(text, "'");
    for (; *value; value++)
        kiln_text_printf(text, "%s%c", *value == '\'' || *value == '\\' ? "\\" : "", *value);
    kiln_text_puts(text, "'");
}

int kiln_roles_conninfo(const struct kiln_config *config, const char *user, const char *passfile,
                        char **ret, struct kiln_error *err)
{
    static const char *const ours[] = {"user", "password", "passfile"};
    struct kiln_pg pg;
    struct kiln_text text = {0};
    int rc = kiln_pg_init(&pg, config, "kiln", err);
    if (rc)
        return rc;
    for (const PQconninfoOption *at = pg.settings; at->keyword; at++) {
        bool skip = !at->val;
        for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
            skip = skip || strcmp(at->keyword, ours[i]) == 0;
        if (!skip)
            put_setting(&text, at->keyword, at->val);
    }
    kiln_pg_release(&pg);
    put_setting(&text, "user", user);
    if (passfile)
        put_setting(&text, "passfile", passfile);
    *ret = kiln_text_take(&text);
    return *ret ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for a connection string");
}
