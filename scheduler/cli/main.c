/* main.c - the command `kiln`. */
#include "scheduler/cli/verb_tables.h"

int main(int argc, char **argv)
{
    return kiln_command(argc, argv, kiln_verb_at);
}
