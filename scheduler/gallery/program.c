/* program.c - the program kiln-gallery: its verb, and its main function.
 *
 * kiln-gallery reads its command line with the code of kiln: `kiln gallery` executes it with
 * everything that the user typed.
 */
#include <stddef.h>

#include "scheduler/cli/verb_tables.h"
#include "scheduler/gallery/serve.h"

static const struct kiln_verb *gallery_verb_at(size_t number)
{
    static struct kiln_verb own; /* the row of the help, and what it runs */
    if (number > 0)
        return NULL;
    own = kiln_verbs_gallery[0];
    own.run = kiln_gallery_verb;
    return &own;
}

int main(int argc, char **argv)
{
    return kiln_command(argc, argv, gallery_verb_at);
}
