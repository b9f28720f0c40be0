/* verbs_gallery.c - the row of the web gallery; the program kiln-gallery has it. */
#include "scheduler/cli/verb_tables.h"

static const struct kiln_option gallery_options[] = {
    {"port", "P", "serve: listen on this port alone; 0: any free one (gallery_port or the next)"},
    {"allow-enqueue", NULL,
     "serve: take jobs, from whoever has the token of gallery_producer_token_file"},
    {"url-file", "FILE", "serve: write the address to this file once it listens"},
    {"out", "DIR", "export: a new or empty directory, or one that was exported to"},
    {"html", NULL, "export: also write the gallery page index.html"},
    {"latents", NULL, "export: also download the latent files"},
    {"filter", "NAME=VALUE",
     "export: as in the gallery, such as style=watercolor; may be repeated"},
    {"meaning", NULL, "export: as the gallery's list of these words, by words and by meaning"},
    {"limit", "N", "export, review, classify: at most so many pictures, the first of the list"},
    {"format", "F", "export: of full-size pictures: webp, png, jpeg or openai (webp)"},
    KILN_LOOK_OPTIONS,
    {"level", "LEVEL", "review: decide: clear, unsure, mature, explicit; none takes it back"},
    {"decided", NULL, "review: list what people have decided on"},
    {"backfill", NULL, "classify: every picture that there is, then end"},
    {NULL, NULL, NULL}};

const struct kiln_verb kiln_verbs_gallery[] = {
    {.name = "gallery",
     .args = "serve [--port P] | export [WORDS] --out DIR ... | review [JOB... --level LEVEL] | "
             "classify [--backfill]",
     .summary = "look through all pictures in a browser",
     .examples = "kiln gallery serve               prints the address; Ctrl-C ends it\n"
                 "kiln gallery serve --port 8080 --gallery-address 0.0.0.0 "
                 "--gallery-token-file FILE\n"
                 "kiln gallery export 'red star' --out stars --html --filter aspect=square\n"
                 "kiln gallery review              pictures that wait for a person, newest first\n"
                 "kiln gallery review 17 18 --level explicit\n"
                 "kiln gallery review 17           what was said of it, and by whom\n"
                 "kiln gallery classify --backfill --gallery-classifier DIR",
     .more =
         "serve: without a token or a proxy it serves this machine alone: gallery_address is "
         "a loopback address.\n"
         "export writes the pictures that have the words, newest first, as `kiln export` "
         "writes a batch, named by job.  With --meaning it lists them as the gallery does: the best "
         "first, also those whose prompts mean the same.  It reads the vectors that a running "
         "gallery has made, and says how many prompts have none yet.\n"
         "review: a person's level counts before a classifier's, and that before the rule "
         "about words of the prompt (gallery_rule).  Pictures above gallery_level are "
         "hidden.  Without --level it lists what waits, or with one JOB the history of its "
         "picture.\n"
         "classify: a classifier of yours (a ViTForImageClassification; Kiln ships none) "
         "looks at pictures and records levels: new pictures until Ctrl-C, with --backfill "
         "all.  What it says may be wrong.  `kiln help config` lists the settings gallery_*.",
     .options = gallery_options,
     .words = {1, KILN_WORDS_MAX},
     .program = "kiln-gallery"},
    {.name = NULL},
};
