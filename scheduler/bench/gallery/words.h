/* words.h - what benches of the gallery search for: words of the ledger by how many pictures have
 * them, in classes that take turns. */
#ifndef KILN_BENCH_GALLERY_WORDS_H
#define KILN_BENCH_GALLERY_WORDS_H

#include "storage/ledger/gallery/gallery.h"

#define KILN_BENCH_WORDS 32 /* of a frequency */
#define KILN_BENCH_WORD_MAX 64
enum { KILN_BENCH_FREQUENCIES = 5 };

struct kiln_bench_words {
    struct {
        char at[KILN_BENCH_WORDS][KILN_BENCH_WORD_MAX];
        uint32_t count;
    } of[KILN_BENCH_FREQUENCIES];
};

/* In a pattern a digit stands for a word of that frequency; NULL: no words. */
struct kiln_bench_search {
    const char *name, *pattern;
    enum kiln_gallery_order order;
    bool count; /* of the pictures, not a list */
};
extern const struct kiln_bench_search kiln_bench_searches[];
extern const long kiln_bench_search_count;

/* KILN_NOT_FOUND: the ledger has too few pictures. */
int kiln_bench_words_find(struct kiln_ledger *session, struct kiln_bench_words *ret,
                          struct kiln_error *err) KILN_MUST_CHECK;
/* The n-th search of a class; each has other words. */
void kiln_bench_words_put(const struct kiln_bench_words *words,
                          const struct kiln_bench_search *search, long n, char *out, size_t size);

#endif
