/* card.h - kiln.json from texts: what a card says, and what is said of one that is refused. */
#ifndef KILN_TEST_CARD_H
#define KILN_TEST_CARD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "storage/formats/card/model_card.h"

static inline struct kiln_model_card parse(const char *text)
{
    struct kiln_model_card card;
    struct kiln_error err = {0};
    if (kiln_model_card_parse(text, strlen(text), "m/kiln.json", &card, &err))
        fail_msg("%s", err.text);
    return card;
}

/* The card is refused, and the error names the file and has these words. */
static inline void expect_refused(const char *text, const char *says)
{
    struct kiln_model_card card;
    struct kiln_error err = {0};
    const int code = kiln_model_card_parse(text, strlen(text), "m/kiln.json", &card, &err);
    if (code != KILN_CONFIG || !strstr(err.text, says) || !strstr(err.text, "kiln.json"))
        fail_msg("%s: %d, \"%s\", not \"%s\"", text, code, err.text, says);
}

#endif
