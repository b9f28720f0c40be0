/* document.c - see document.h. */
#include "storage/ledger/gallery/document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/words/words.h"

#define POSITION_MAX 16383 /* of a tsvector; words beyond it share the last */
#define GAP 8              /* positions between two texts */

void kiln_lexeme_put(struct kiln_text *text, enum kiln_lexeme kind, const char *value)
{
    kiln_text_printf(text, "'%c:", (char)kind);
    for (; *value; value++) {
        if (*value == '\'' || *value == '\\')
            kiln_text_add(text, value, 1);
        kiln_text_add(text, value, 1);
    }
    kiln_text_puts(text, "'");
}

static void put_word(void *arg, const struct kiln_word *word)
{
    struct kiln_text *text = arg;
    kiln_text_puts(text, " '");
    kiln_text_add(text, word->text, word->len);
    kiln_text_puts(text, "':");
    kiln_text_u64(text, word->position < POSITION_MAX ? word->position : POSITION_MAX);
}

static void put_words(struct kiln_text *text, const char *words, uint32_t *position)
{
    char *folded;
    size_t len;
    if (!words || kiln_words_fold(words, strlen(words), &folded, &len, NULL) != 0)
        return;
    kiln_words_each(folded, len, position, put_word, text);
    *position += GAP;
    free(folded);
}

static void put_lexeme(struct kiln_text *text, enum kiln_lexeme kind, const char *value)
{
    if (!value)
        return;
    kiln_text_puts(text, " ");
    kiln_lexeme_put(text, kind, value);
}

static void put_number(struct kiln_text *text, enum kiln_lexeme kind, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    put_lexeme(text, kind, digits);
}

static void put_loras(struct kiln_text *text, const char *names)
{
    char name[KILN_WORD_MAX + 1];
    while (names && *names) {
        size_t len = strcspn(names, " ");
        snprintf(name, sizeof name, "%.*s", (int)len, names);
        put_lexeme(text, KILN_LEXEME_LORA, name);
        names += len + (names[len] == ' ');
    }
}

const char *kiln_vote_text(int vote)
{
    return vote > 0 ? "up" : vote < 0 ? "down" : NULL;
}

void kiln_document_put(struct kiln_text *text, const struct kiln_document *document)
{
    char size[32];
    uint32_t position = 0;
    put_words(text, document->prompt, &position);
    put_words(text, document->custom_id, &position);
    put_words(text, document->style, &position);
    put_words(text, document->loras, &position);
    snprintf(size, sizeof size, "%" PRIu32 "x%" PRIu32, document->width, document->height);
    put_number(text, KILN_LEXEME_BATCH, document->batch_id);
    put_lexeme(text, KILN_LEXEME_TENANT, document->tenant);
    put_lexeme(text, KILN_LEXEME_MODEL, document->model);
    put_loras(text, document->loras);
    put_lexeme(text, KILN_LEXEME_STYLE, document->style);
    put_lexeme(text, KILN_LEXEME_SIZE, size);
    put_number(text, KILN_LEXEME_ASPECT, (uint64_t)document->aspect);
    put_number(text, KILN_LEXEME_MODE, (uint64_t)document->mode);
    put_number(text, KILN_LEXEME_PART, document->part);
    if (document->starred)
        put_number(text, KILN_LEXEME_STAR, 1);
    put_lexeme(text, KILN_LEXEME_VOTE, kiln_vote_text(document->vote));
}
