/* cases.h - defects that were there once, each as the commands that showed it. */
#ifndef KILN_TEST_HOSTILE_CASES_H
#define KILN_TEST_HOSTILE_CASES_H

#include "tests/hostile/command.h"

struct hostile_case {
    const char *name;
    enum hostile_rights rights;
    const char *const *commands[16]; /* ended by NULL */
    const char *sql;                 /* counts breaches that no other check sees, or NULL */
};
extern const struct hostile_case hostile_cases[]; /* ended by one without a name */

void hostile_case_commands(const struct hostile_case *known, struct hostile_list *list);

#endif
