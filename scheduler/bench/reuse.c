/* reuse.c - `kiln bench reuse`: what the guard of the latent cache (schemas/reuse) costs: reading
 * the word lists once, a prompt's facts once, and each comparison with a donor.  One thread, no
 * servers; times are of the processor.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/bench/bench.h"
#include "schemas/clock.h"
#include "schemas/limits.h"
#include "schemas/reuse/guard.h"

#define DONORS 32 /* candidates of one look-up */
#define TEXT_MAX 160

struct figures {
    double lists_ms, facts_us, compare_us, longest_ms;
    long prompts, compared, accepted;
};

/* Prompts of about twelve words; neighbours differ in one of them, or in none that counts. */
static void make_text(long number, char out[TEXT_MAX])
{
    static const char *const colours[] = {"red", "blue", "dark green", "white"};
    static const char *const beings[] = {"cat", "dog", "dragon", "knight", "fox"};
    static const char *const places[] = {"on a sofa", "on a couch", "in a forest",
                                         "under a wooden table", "next to a lighthouse"};
    static const char *const looks[] = {"oil painting", "oil on canvas", "photo, highly detailed",
                                        "watercolor, 4k"};
    const unsigned long n = (unsigned long)number;
    snprintf(out, TEXT_MAX, "a %s%s %s %s at night, %s", n % 3 ? "" : "small ", colours[n % 4],
             beings[n / 4 % 5], places[n / 20 % 5], looks[n / 100 % 4]);
}

static int read_all(const struct kiln_reuse_words *words, struct kiln_facts **facts,
                    struct figures *figures, struct kiln_error *err)
{
    char text[TEXT_MAX];
    const double begin = kiln_ms_of(CLOCK_THREAD_CPUTIME_ID);
    for (long i = 0; i < figures->prompts; i++) {
        make_text(i, text);
        int rc = kiln_facts_read(words, text, &facts[i], err);
        if (rc)
            return rc;
    }
    figures->facts_us =
        (kiln_ms_of(CLOCK_THREAD_CPUTIME_ID) - begin) * 1e3 / (double)figures->prompts;
    return 0;
}

static void compare_all(struct kiln_facts **facts, struct figures *figures)
{
    char reason[KILN_REUSE_REASON_MAX];
    const double begin = kiln_ms_of(CLOCK_THREAD_CPUTIME_ID);
    for (long i = 0; i < figures->prompts; i++)
        for (long d = 0; d < DONORS; d++) {
            /* Steps of 13 meet every word that can differ. */
            const struct kiln_facts *donor = facts[(i + 1 + d * 13) % figures->prompts];
            figures->accepted += kiln_reuse_compare(facts[i], donor, reason) != KILN_REUSE_NONE;
            figures->compared++;
        }
    figures->compare_us =
        (kiln_ms_of(CLOCK_THREAD_CPUTIME_ID) - begin) * 1e3 / (double)figures->compared;
}

/* Two prompts of the greatest length that differ at their ends. */
static int judge_longest(const struct kiln_reuse_words *words, struct figures *figures,
                         struct kiln_error *err)
{
    static char target[KILN_PROMPT_MAX + 1], donor[KILN_PROMPT_MAX + 1];
    static const char part[] = "a red star, ";
    char reason[KILN_REUSE_REASON_MAX];
    enum kiln_reuse_class got;
    for (size_t i = 0; i < KILN_PROMPT_MAX; i++)
        target[i] = donor[i] = part[i % (sizeof part - 1)];
    memcpy(donor + KILN_PROMPT_MAX - 4, "no x", 4);
    const double begin = kiln_ms_of(CLOCK_THREAD_CPUTIME_ID);
    int rc = kiln_reuse_judge(words, target, donor, &got, reason, err);
    figures->longest_ms = kiln_ms_of(CLOCK_THREAD_CPUTIME_ID) - begin;
    return rc;
}

static int print(const struct kiln_bench *bench, const struct figures *f)
{
    if (bench->cli->json)
        return kiln_print_json(
            bench->cli,
            json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "bench", "reuse", "prompts",
                      (json_int_t)f->prompts, "pairs", (json_int_t)f->compared, "accepted",
                      (json_int_t)f->accepted, "lists_ms", f->lists_ms, "facts_us", f->facts_us,
                      "compare_us", f->compare_us, "longest_ms", f->longest_ms));
    printf("reuse: %ld prompts, %ld pairs of which %ld are accepted\n", f->prompts, f->compared,
           f->accepted);
    printf("  word lists %.2f ms once, facts %.2f us a prompt, comparison %.3f us a pair\n",
           f->lists_ms, f->facts_us, f->compare_us);
    printf("  two prompts of %d bytes, read and compared: %.2f ms\n", KILN_PROMPT_MAX,
           f->longest_ms);
    return 0;
}

int kiln_bench_reuse(struct kiln_bench *bench, struct kiln_error *err)
{
    struct figures figures = {.prompts = bench->jobs};
    struct kiln_reuse_words *words = NULL;
    struct kiln_facts **facts = calloc((size_t)bench->jobs, sizeof *facts);
    const double begin = kiln_ms_of(CLOCK_THREAD_CPUTIME_ID);
    int rc = facts ? kiln_reuse_words_new(NULL, 0, &words, err)
                   : kiln_fail(err, KILN_NO_MEMORY, "no memory for prompts");
    figures.lists_ms = kiln_ms_of(CLOCK_THREAD_CPUTIME_ID) - begin;
    if (rc == 0)
        rc = read_all(words, facts, &figures, err);
    if (rc == 0)
        compare_all(facts, &figures);
    if (rc == 0)
        rc = judge_longest(words, &figures, err);
    for (long i = 0; facts && i < figures.prompts; i++)
        kiln_facts_free(facts[i]);
    free(facts);
    kiln_reuse_words_free(words);
    return rc ? rc : print(bench, &figures);
}
