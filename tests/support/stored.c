/* stored.c - compares the ledger's object rows with the files of a file:// store. */
#include "tests/support/stored.h"

#include <libpq-fe.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/digest.h"

#define OBJECT_MAX (64 << 20)

static void assert_object(const char *path, const char *sha256, size_t bytes)
{
    FILE *file = fopen(path, "re");
    if (!file)
        fail_msg("an object row has no object: %s", path);
    uint8_t *data = malloc(bytes + 1), digest[KILN_SHA256_SIZE];
    char hex[65];
    assert_non_null(data);
    assert_int_equal(fread(data, 1, bytes + 1, file), bytes);
    fclose(file);
    kiln_sha256(data, bytes, digest);
    kiln_hex(digest, sizeof digest, hex);
    free(data);
    assert_string_equal(hex, sha256);
}

long long kiln_test_assert_stored(struct kiln_test_stack *stack)
{
    PGconn *connection = PQconnectdb(stack->conninfo);
    PGresult *rows = PQexec(connection, "SELECT key, sha256, bytes FROM object");
    if (PQresultStatus(rows) != PGRES_TUPLES_OK)
        fail_msg("%s", PQerrorMessage(connection));
    int count = PQntuples(rows);
    for (int i = 0; i < count; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/store/%s", stack->dir, PQgetvalue(rows, i, 0));
        assert_object(path, PQgetvalue(rows, i, 1), strtoul(PQgetvalue(rows, i, 2), NULL, 10));
    }
    PQclear(rows);
    PQfinish(connection);
    /* 2 is done, kind 0 an image. */
    assert_int_equal(kiln_test_count(stack,
                                     "SELECT count(*) FROM job j WHERE (state = 2 AND kind = 0)"
                                     " <> (1 = (SELECT count(*) FROM image i WHERE i.job_id ="
                                     " j.id))"),
                     0);
    assert_int_equal(kiln_test_count(stack,
                                     "SELECT count(*) FROM job j WHERE state = 2 AND kind = 0"
                                     " AND NOT EXISTS (SELECT FROM object o WHERE o.job_id ="
                                     " j.id AND o.role = 'full')"),
                     0);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM object o JOIN job j ON j.id ="
                                            " o.job_id WHERE j.state <> 2"),
                     0);
    return count;
}
