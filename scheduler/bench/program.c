/* program.c - the program kiln-bench: its verbs, and its main function.
 *
 * kiln-bench reads its command line with the code of kiln: `kiln bench` executes it with
 * everything that the user typed.
 */
#include <stddef.h>

#include "scheduler/bench/bench.h"
#include "scheduler/cli/verb_tables.h"

static kiln_verb_function *const runs[] = {kiln_bench_sim, kiln_bench_verb};
#define VERBS (sizeof runs / sizeof *runs)

static const struct kiln_verb *bench_verb_at(size_t number)
{
    static struct kiln_verb own[VERBS]; /* the rows of the help, and what they run */
    if (number >= VERBS)
        return NULL;
    own[number] = kiln_verbs_measure[number];
    own[number].run = runs[number];
    return &own[number];
}

int main(int argc, char **argv)
{
    return kiln_command(argc, argv, bench_verb_at);
}
