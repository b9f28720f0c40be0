/* program.c - the program kiln-gallery: its verb, and its main function.
 *
 * kiln-gallery reads its command line with the code of kiln: `kiln gallery` executes it with
 * everything that the user typed.
 */
#include <stddef.h>
#include <string.h>

#include "scheduler/cli/verb_tables.h"
#include "scheduler/gallery/export.h"
#include "scheduler/gallery/safety/verbs.h"
#include "scheduler/gallery/serve.h"

static const struct {
    const char *name;
    kiln_verb_function *run;
    const char *option[16]; /* those that it takes, ended by NULL */
} subcommands[] = {
    {"serve", kiln_gallery_serve_verb, {"port", "url-file", "allow-enqueue", NULL}},
    {"export",
     kiln_gallery_export_verb,
     {"out", "html", "latents", "note", "sheet", "grid", "columns", "filter", "meaning", "limit",
      "format", "force", NULL}},
    {"review", kiln_gallery_review_verb, {"level", "decided", "limit", NULL}},
    {"classify", kiln_gallery_classify_verb, {"backfill", "limit", NULL}},
};
#define SUBCOMMANDS (sizeof subcommands / sizeof *subcommands)

static int run(struct kiln_cli *cli, const struct kiln_args *args)
{
    for (size_t i = 0; i < SUBCOMMANDS; i++) {
        if (strcmp(args->rest[0], subcommands[i].name) != 0)
            continue;
        for (int given = 0; given < args->given_count; given++) {
            const char *name = args->given[given].option->name;
            const char *const *option = subcommands[i].option;
            while (*option && strcmp(*option, name) != 0)
                option++;
            if (!*option)
                return kiln_usage(cli, "%s takes no --%s", subcommands[i].name, name);
        }
        return subcommands[i].run(cli, args);
    }
    return kiln_usage(cli,
                      "unknown subcommand '%s'; there are: kiln gallery serve, export, review, "
                      "classify",
                      args->rest[0]);
}

static const struct kiln_verb *gallery_verb_at(size_t number)
{
    static struct kiln_verb own; /* the row of the help, and what it runs */
    if (number > 0)
        return NULL;
    own = kiln_verbs_gallery[0];
    own.run = run;
    return &own;
}

int main(int argc, char **argv)
{
    return kiln_command(argc, argv, gallery_verb_at);
}
