/* words.c - see words.h. */
#include "scheduler/bench/gallery/words.h"

#include <stdio.h>
#include <string.h>

#include "schemas/text/utf8.h"

static const struct {
    double low, high;
} shares[KILN_BENCH_FREQUENCIES] = {
    {0.00005, 0.0003}, {0.0007, 0.0015}, {0.007, 0.015}, {0.07, 0.15}, {0.22, 0.45}};

const struct kiln_bench_search kiln_bench_searches[] = {
    {"newest", NULL, KILN_GALLERY_NEWEST, false},
    {"word, 0.01 %", "0 ", KILN_GALLERY_NEWEST, false},
    {"word, 0.1 %", "1 ", KILN_GALLERY_NEWEST, false},
    {"word, 1 %", "2 ", KILN_GALLERY_NEWEST, false},
    {"word, 10 %", "3 ", KILN_GALLERY_NEWEST, false},
    {"word, 30 %", "4 ", KILN_GALLERY_NEWEST, false},
    {"30 % and 1 %", "4 2 ", KILN_GALLERY_NEWEST, false},
    {"10 % and 10 %", "3 3 ", KILN_GALLERY_NEWEST, false},
    {"four of 30 %", "4 4 4 4 ", KILN_GALLERY_NEWEST, false},
    {"phrase of 30 %", "\"4 4\" ", KILN_GALLERY_NEWEST, false},
    {"phrase of 10 %", "\"3 3\" ", KILN_GALLERY_NEWEST, false},
    {"prefix", "1*", KILN_GALLERY_NEWEST, false},
    {"10 % without 30 %", "3 -4 ", KILN_GALLERY_NEWEST, false},
    {"10 %, relevance", "3 ", KILN_GALLERY_RELEVANCE, false},
    {"1 %, relevance", "2 ", KILN_GALLERY_RELEVANCE, false},
    {"1 %, counted", "2 ", KILN_GALLERY_NEWEST, true},
    {"30 %, counted", "4 ", KILN_GALLERY_NEWEST, true},
};
const long kiln_bench_search_count = sizeof kiln_bench_searches / sizeof *kiln_bench_searches;

struct adding {
    struct kiln_bench_words *words;
    int frequency;
};

static int add_word(void *arg, const char *word, uint64_t pictures, struct kiln_error *err)
{
    (void)pictures, (void)err;
    struct adding *adding = arg;
    snprintf(adding->words->of[adding->frequency].at[adding->words->of[adding->frequency].count++],
             KILN_BENCH_WORD_MAX, "%s", word);
    return 0;
}

int kiln_bench_words_find(struct kiln_ledger *session, struct kiln_bench_words *ret,
                          struct kiln_error *err)
{
    int rc = 0;
    *ret = (struct kiln_bench_words){0};
    for (int i = 0; i < KILN_BENCH_FREQUENCIES && rc == 0; i++) {
        rc = kiln_gallery_frequent(session, shares[i].low, shares[i].high, KILN_BENCH_WORDS,
                                   add_word, &(struct adding){ret, i}, err);
        if (rc == 0 && ret->of[i].count < 4)
            rc = kiln_fail(err, KILN_NOT_FOUND,
                           "the gallery has too few words that %.2f to %.2f %% of its pictures "
                           "have: fill it with scripts/bench/gallery_make.py",
                           shares[i].low * 100, shares[i].high * 100);
    }
    return rc;
}

void kiln_bench_words_put(const struct kiln_bench_words *words,
                          const struct kiln_bench_search *search, long n, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (const char *at = search->pattern; at && *at && len + KILN_BENCH_WORD_MAX + 2 < size;
         at++) {
        if (*at >= '0' && *at < '0' + KILN_BENCH_FREQUENCIES) {
            const int of = *at - '0';
            const uint32_t nth = (uint32_t)(n * 7 + (at - search->pattern)) % words->of[of].count;
            const char *word = words->of[of].at[nth];
            /* A prefix is the word without its end. */
            size_t whole = strlen(word);
            size_t keep = at[1] == '*' && whole > 4 ? kiln_utf8_whole(word, whole - 1) : whole;
            len += (size_t)snprintf(out + len, size - len, "%.*s", (int)keep, word);
        } else {
            out[len++] = *at;
            out[len] = '\0';
        }
    }
}
