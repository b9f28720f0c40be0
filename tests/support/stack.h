/* stack.h - a private Redis and Postgres for one test program.
 *
 * Both live in a new directory under $TMPDIR on unix sockets (or loopback ports), are ended and
 * removed when the test program exits, and die with it even if it is killed.  Durability is off
 * unless asked for.  A step that fails prints why and exits: a test cannot go on without it.
 *
 *     struct kiln_test_stack *stack = kiln_test_stack_start(KILN_STACK_REDIS | KILN_STACK_TABLES);
 *     kiln_ledger_open(stack->config, "test", &ledger, &err);
 */
#ifndef KILN_TEST_STACK_H
#define KILN_TEST_STACK_H

#include <sys/types.h>

#include "schemas/config/config.h"

enum kiln_test_flag {
    KILN_STACK_REDIS = 1,    /* appendonly yes, everysec, noeviction */
    KILN_STACK_POSTGRES = 2, /* an empty database */
    KILN_STACK_TABLES = 4,   /* the same, migrated */
    KILN_STACK_TCP = 8,      /* on 127.0.0.1 at free ports instead of unix sockets */
    KILN_STACK_FSYNC = 16,   /* Postgres writes through, as in production */
};

enum kiln_test_server { KILN_TEST_REDIS, KILN_TEST_POSTGRES };

struct kiln_test_stack {
    struct kiln_config *config; /* redis and postgres point here; the rest is default */
    char dir[128];              /* for the test's own files too; world-searchable */
    char conf[160];             /* dir/kiln.conf with the same, for programs */
    char redis_url[200], conninfo[256];
    unsigned flags;
    pid_t pid[2]; /* by enum kiln_test_server; 0 = not running */
    int port[2];
    void *questions; /* the connection of kiln_test_sql */
};

struct kiln_test_stack *kiln_test_stack_start(unsigned flags);
void kiln_test_stack_stop(struct kiln_test_stack *stack); /* also done at exit */

/* kill -9, Postgres with all its processes, and wait until it is gone. */
void kiln_test_kill(struct kiln_test_stack *stack, enum kiln_test_server server);
/* Starts it again on its data and waits until it answers.  Extra arguments (NULL-ended list, may
 * be NULL) are added to the command line: "--maxmemory", "3mb", NULL. */
void kiln_test_restart(struct kiln_test_stack *stack, enum kiln_test_server server,
                       const char *const *extra);
/* SIGSTOP and SIGCONT: the server hangs, its sockets still accept. */
void kiln_test_freeze(struct kiln_test_stack *stack, enum kiln_test_server server);
void kiln_test_thaw(struct kiln_test_stack *stack, enum kiln_test_server server);

/* Redis forgets everything. */
void kiln_test_flushall(struct kiln_test_stack *stack);
/* All that Postgres has logged so far; free it. */
char *kiln_test_postgres_log(const struct kiln_test_stack *stack);
/* Runs one Redis command without spaces in its words; exits on an error reply. */
void kiln_test_redis(struct kiln_test_stack *stack, const char *command);
/* Runs SQL as the owner; returns the first field of the last result (malloc'd, NULL for none). */
char *kiln_test_sql(struct kiln_test_stack *stack, const char *sql);
/* The same as a number, 0 for none. */
long long kiln_test_count(struct kiln_test_stack *stack, const char *sql);

/* A TCP port of 127.0.0.1 that nobody listened on a moment ago. */
int kiln_test_free_port(void);

#endif
