/* verbs_gallery.c - the row of the web gallery; the program kiln-gallery has it. */
#include "scheduler/cli/verb_tables.h"

static const struct kiln_option gallery_options[] = {
    {"port", "P", "serve: listen on this port alone; 0: any free one (gallery_port or the next)"},
    {"url-file", "FILE", "serve: write the address to this file once it listens"},
    {NULL, NULL, NULL}};

const struct kiln_verb kiln_verbs_gallery[] = {
    {.name = "gallery",
     .args = "serve [--port P]",
     .summary = "look through all pictures in a browser",
     .examples = "kiln gallery serve               prints the address; Ctrl-C ends it\n"
                 "kiln gallery serve --port 8080 --gallery-address 0.0.0.0 "
                 "--gallery-token-file FILE",
     .more = "Without a token or a proxy it serves this machine alone: gallery_address is a "
             "loopback address.\n"
             "`kiln help config` lists the settings gallery_*.",
     .options = gallery_options,
     .words = {1, 1},
     .program = "kiln-gallery"},
    {.name = NULL},
};
