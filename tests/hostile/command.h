/* command.h - Redis commands that somebody sends, kept so that they can be sent again and shown. */
#ifndef KILN_TEST_HOSTILE_COMMAND_H
#define KILN_TEST_HOSTILE_COMMAND_H

#include <stdbool.h>
#include <stdio.h>

#include "tests/hostile/bytes.h"

/* Who sends: with the least rights of `kiln migrate --roles`, or with all. */
enum hostile_rights { HOSTILE_PRODUCER, HOSTILE_OPERATOR, HOSTILE_ALL, HOSTILE_RIGHTS };
extern const char *const hostile_rights_names[HOSTILE_RIGHTS];

struct hostile_command {
    enum hostile_rights rights;
    struct hostile_bytes *words;
    size_t count;
    char entry[48]; /* the id that Redis gave to what was added, "" = none */
};

struct hostile_command *hostile_command_new(enum hostile_rights rights);
/* From words without NUL, ended by NULL. */
struct hostile_command *hostile_command_of(enum hostile_rights rights, const char *const *words);
void hostile_command_add(struct hostile_command *command, struct hostile_bytes word); /* takes it */
struct hostile_command *hostile_command_copy(const struct hostile_command *command);
void hostile_command_free(struct hostile_command *command); /* accepts NULL */
bool hostile_command_is(const struct hostile_command *command, const char *verb);
/* Position of the first name behind the id of an XADD; 0 if it is none. */
size_t hostile_command_fields(const struct hostile_command *command);
/* A line that redis-cli reads from its standard input. */
void hostile_command_print(const struct hostile_command *command, FILE *to);

struct hostile_list {
    struct hostile_command **at;
    size_t count;
};
void hostile_list_add(struct hostile_list *list, struct hostile_command *command); /* takes it */
void hostile_list_release(struct hostile_list *list); /* with its commands */

#endif
