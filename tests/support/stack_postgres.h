/* stack_postgres.h - Postgres' own needs in stack.c: its programs, its user, its first data. */
#ifndef KILN_TEST_STACK_POSTGRES_H
#define KILN_TEST_STACK_POSTGRES_H

#include "tests/support/stack.h"

/* Prints the sentence and exits with status 1. */
void kiln_test_die(const char *fmt, ...) KILN_PRINTF(1, 2) __attribute__((noreturn));

/* Path of a program of the Postgres server ("initdb"): from $PATH or Debian's directory. */
const char *kiln_test_postgres_program(const char *name, char out[256]);
/* Postgres refuses root: becomes postgres, or nobody.  Nothing for any other user. */
void kiln_test_drop_root(void);
/* Fills dir/postgres with a new cluster, from a copy kept in $BUILD/pgtemplate if there is one. */
void kiln_test_postgres_data(const struct kiln_test_stack *stack);
/* Runs a program to its end; exits if it fails. */
void kiln_test_command(bool as_postgres, const char *const *argv);

#endif
