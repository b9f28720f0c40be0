/* fuzz_reuse.c - any two texts as target and donor, parted by a newline: the judgement ends, a
 * reason is valid UTF-8, a prompt serves itself, canonical and reworded hold both ways, and who
 * says more is not served by who says less.  Also as a word list. */
#include <string.h>

#include "schemas/reuse/canonical.h"
#include "schemas/reuse/guard.h"
#include "schemas/text/utf8.h"
#include "tests/fuzz/fuzz.h"

static struct kiln_reuse_words *words;

static enum kiln_reuse_class judge(const char *target, const char *donor)
{
    enum kiln_reuse_class got = KILN_REUSE_CLASS_COUNT;
    char reason[KILN_REUSE_REASON_MAX];
    struct kiln_error err = {0};
    fuzz_require(kiln_reuse_judge(words, target, donor, &got, reason, &err) == 0);
    fuzz_require(got < KILN_REUSE_CLASS_COUNT);
    fuzz_require(strlen(reason) < sizeof reason && kiln_utf8_valid(reason, strlen(reason), NULL));
    fuzz_require((got == KILN_REUSE_NONE) == (reason[0] != '\0'));
    return got;
}

/* Reading a prompt never fails but for what is no prompt, and its form is UTF-8. */
static void read_one(const char *prompt)
{
    struct kiln_text form = {0}, said = {0};
    struct kiln_error err = {0};
    struct kiln_facts *facts = NULL;
    int code = kiln_canonical_prompt(words, prompt, &form, NULL, &err);
    fuzz_require(code == 0 || (code == KILN_BAD_INPUT && err.text[0]));
    fuzz_require(kiln_facts_read(words, prompt, &facts, &err) == code);
    if (code == 0) {
        fuzz_require(kiln_utf8_valid(form.at ? form.at : "", form.len, NULL));
        kiln_facts_text(facts, &said);
        fuzz_require(kiln_utf8_valid(said.at ? said.at : "", said.len, NULL));
    }
    kiln_facts_free(facts);
    kiln_text_release(&form);
    kiln_text_release(&said);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kiln_error err = {0};
    if (!words && kiln_reuse_words_new(NULL, 0, &words, &err) != 0)
        abort();
    char *target = strndup((const char *)data, size), *donor = target ? strchr(target, '\n') : NULL;
    if (donor)
        *donor++ = '\0';
    if (target) {
        read_one(target);
        fuzz_require(judge(target, target) == KILN_REUSE_SAME_PROMPT);
    }
    if (donor && strcmp(target, donor) != 0) {
        read_one(donor);
        enum kiln_reuse_class there = judge(target, donor), back = judge(donor, target);
        fuzz_require(there != KILN_REUSE_SAME_PROMPT && back != KILN_REUSE_SAME_PROMPT);
        fuzz_require((there == KILN_REUSE_CANONICAL) == (back == KILN_REUSE_CANONICAL));
        fuzz_require((there == KILN_REUSE_REWORDED) == (back == KILN_REUSE_REWORDED));
        fuzz_require(there != KILN_REUSE_DONOR_SAYS_MORE || back == KILN_REUSE_NONE);
    }
    struct kiln_reuse_words *own = NULL;
    char *list = strndup((const char *)data, size);
    if (list && kiln_reuse_words_parse(list, NULL, 0, &own, &err) == 0)
        kiln_reuse_words_free(own);
    free(list);
    free(target);
    return 0;
}
