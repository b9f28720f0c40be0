/* document.h - a picture as the words and lexemes by which it is found (gallery_text.tsv).
 *
 * The words of the prompt, custom id, style and LoRA names have positions, with a gap between the
 * texts that no phrase crosses.  Each filter is a lexeme without position: a letter, a colon and a
 * value, which no word can be, since words hold no colon.
 */
#ifndef KILN_GALLERY_DOCUMENT_H
#define KILN_GALLERY_DOCUMENT_H

#include <stdint.h>

#include "schemas/text/text.h"

/* Raise it when the form below or that of schemas/words changes: the follower then makes all
 * documents again. */
#define KILN_DOCUMENT_VERSION 2

enum kiln_lexeme {
    KILN_LEXEME_BATCH = 'b', /* its id */
    KILN_LEXEME_TENANT = 't',
    KILN_LEXEME_MODEL = 'm',
    KILN_LEXEME_LORA = 'l', /* one for each */
    KILN_LEXEME_STYLE = 's',
    KILN_LEXEME_SIZE = 'z',   /* 1024x768 */
    KILN_LEXEME_ASPECT = 'a', /* enum kiln_gallery_aspect */
    KILN_LEXEME_MODE = 'e',   /* enum kiln_gallery_mode */
    KILN_LEXEME_STAR = 'f',   /* 1; not there without a star */
    KILN_LEXEME_VOTE = 'v',   /* up, down; not there without a vote */
    KILN_LEXEME_PART = 'j'    /* of the jobs: the id without its last bits (windows.h) */
};

struct kiln_document {
    const char *prompt;
    const char *custom_id, *style; /* NULL: none */
    const char *loras;             /* names with spaces between, or NULL */
    const char *tenant, *model;
    uint64_t batch_id, part;
    uint32_t width, height;
    int aspect, mode;
    bool starred;
    int vote; /* 1, -1, or 0 */
};

/* Adds the text of a tsvector; words that are not UTF-8 are left out. */
void kiln_document_put(struct kiln_text *text, const struct kiln_document *document);

/* Of 1, -1 and 0: "up", "down", NULL. */
const char *kiln_vote_text(int vote);

/* A quoted lexeme, in a tsvector as in a tsquery. */
void kiln_lexeme_put(struct kiln_text *text, enum kiln_lexeme kind, const char *value);

#endif
