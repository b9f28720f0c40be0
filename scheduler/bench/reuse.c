/* reuse.c - `kiln bench reuse`: what the latent cache costs the scheduler: reading the word lists
 * once, a prompt's facts once, each comparison with a donor, and the look-up of a job among --jobs
 * donors (scheduler/cache).  One thread, no servers; times are of the processor.
 *
 * Half of the donors are of a small world, shapes and colours, where thousands of prompts share
 * their nouns; the others have words of their own.  A quarter of the jobs each: the prompt of a
 * donor, the same in other words, with fewer facts, and one that no donor has.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/bench/bench.h"
#include "scheduler/cache/search.h"
#include "schemas/clock.h"
#include "schemas/job/line.h"
#include "schemas/limits.h"
#include "schemas/random.h"
#include "schemas/reuse/guard.h"

#define PROMPTS 2000
#define DONORS 32 /* that each of them is compared with */
#define LOOKUPS 4000
#define TEXT_MAX 160

struct figures {
    double lists_ms, facts_us, compare_us, longest_ms;
    long prompts, compared, accepted;
    long donors, hits[KILN_REUSE_CLASS_COUNT];
    double load_s, mean_ms, late_ms, longest_lookup_ms; /* late: all but one in a hundred */
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

/* --- look-ups --------------------------------------------------------------------------------- */

/* How a job's prompt differs from the donor's. */
enum wording { AS_IT_IS, IN_OTHER_WORDS, FEWER_FACTS, UNKNOWN };

/* The prompt of donor number `number`, worded for a job. */
static void make_prompt(uint64_t number, enum wording wording, char out[TEXT_MAX])
{
    static const char *const colours[] = {"red",  "blue",   "green", "yellow", "white", "black",
                                          "pink", "purple", "brown", "orange", "gray",  "cyan"};
    static const char *const shapes[] = {"star",  "circle", "square", "triangle", "heart",
                                         "house", "tree",   "cloud",  "cat",      "dog"};
    static const char *const sides[] = {"left of", "above", "below", "behind"};
    static const char *const syllables[] = {"ka", "ro", "mi", "te", "lu", "va", "so", "ne",
                                            "pi", "du", "ga", "fe", "bo", "zi", "ha", "wu"};
    uint64_t n = number / 2;
    const char *size = wording == IN_OTHER_WORDS ? "little" : "small";
    const char *colour = wording == FEWER_FACTS ? "" : colours[n % 12];
    if (number % 2) {
        n /= 12;
        snprintf(out, TEXT_MAX, "a %s %s kitten in a %s%s%s with a %s%s%s", size, colour,
                 syllables[n % 16], syllables[n / 16 % 16], syllables[n / 256 % 16],
                 syllables[n / 4096 % 16], syllables[n / 65536 % 16],
                 wording == UNKNOWN ? " and an otter" : "");
        return;
    }
    n /= 12;
    const char *first = shapes[n % 10], *second = shapes[n / 10 % 10];
    const char *other = colours[n / 100 % 12], *side = sides[n / 1200 % 4];
    snprintf(out, TEXT_MAX, "a %s %s %s %s a %s %s on a %s background", size, colour, first, side,
             other, second, wording == UNKNOWN ? "turquoise" : colours[n / 4800 % 12]);
}

static int fill(const struct kiln_reuse_words *words, const struct kiln_donor_kind *kind,
                struct kiln_donor_index *index, long donors, struct kiln_error *err)
{
    for (long i = 0; i < donors; i++) {
        char text[TEXT_MAX], hash[65];
        struct kiln_donor_entry entry = {.job = (uint64_t)i + 1, .prompt = text};
        make_prompt((uint64_t)i, AS_IT_IS, text);
        kiln_prompt_hash(text, "", hash);
        struct kiln_facts *facts = kiln_donor_facts(words, text);
        kiln_donor_keys(kind, hash, "", facts, &entry.keys);
        kiln_facts_free(facts);
        int rc = kiln_donor_index_put(index, &entry);
        if (rc)
            return kiln_fail(err, rc, "the donors do not fit into memory");
    }
    return 0;
}

/* A table with a row for each class. */
static struct kiln_model_card table_of(const struct kiln_job *job)
{
    struct kiln_model_card card = {.reuse = {.steps = job->steps}};
    for (int class = KILN_REUSE_SAME_PROMPT; class < KILN_REUSE_CLASS_COUNT; class ++)
        card.reuse.rows[card.reuse.row_count++] = (struct kiln_card_reuse_row){
            .class = (enum kiln_reuse_class) class,
            .depth = 1,
            .donors = 1,
            .uses = 1,
            .variety = 1,
            .sizes = {{job->width, job->height, job->width, job->height}},
            .size_count = 1};
    return card;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void look_up_all(const struct kiln_reuse_words *words, const struct kiln_donor_index *index,
                        struct kiln_job *job, struct figures *figures)
{
    static double took[LOOKUPS];
    const struct kiln_model_card card = table_of(job);
    const struct kiln_donor_stock stock = {.index = index, .card = &card, .words = words};
    struct kiln_reuse_marks marks;
    char text[TEXT_MAX];
    uint64_t random = 33;
    job->prompt = text;
    for (long i = 0; i < LOOKUPS; i++) {
        make_prompt(kiln_random_next(&random) % (uint64_t)figures->donors, (enum wording)(i % 4),
                    text);
        const double begin = kiln_ms_of(CLOCK_THREAD_CPUTIME_ID);
        const struct kiln_donor found = kiln_donor_search(&stock, job, 1, NULL, &marks);
        took[i] = kiln_ms_of(CLOCK_THREAD_CPUTIME_ID) - begin;
        figures->mean_ms += took[i] / LOOKUPS;
        figures->hits[found.hit]++;
    }
    qsort(took, LOOKUPS, sizeof *took, ascending);
    figures->late_ms = took[LOOKUPS - LOOKUPS / 100];
    figures->longest_lookup_ms = took[LOOKUPS - 1];
}

static int look_up(const struct kiln_reuse_words *words, struct figures *figures,
                   struct kiln_error *err)
{
    static char nothing[] = "";
    struct kiln_job job = {.negative_prompt = nothing,
                           .model = nothing,
                           .width = 1024,
                           .height = 1024,
                           .steps = 8,
                           .teleport = KILN_TELEPORT_AUTO,
                           .mode = {.kind = KILN_MODE_EXACT}};
    const struct kiln_donor_kind kind = {.model = "",
                                         .weights = 1,
                                         .lora_set = "",
                                         .width = job.width,
                                         .height = job.height,
                                         .steps = job.steps};
    struct kiln_donor_index *index =
        kiln_donor_index_new((uint32_t)figures->donors, UINT64_C(1) << 32);
    const double begin = kiln_ms_of(CLOCK_THREAD_CPUTIME_ID);
    int rc = index ? fill(words, &kind, index, figures->donors, err)
                   : kiln_fail(err, KILN_NO_MEMORY, "no memory for donors");
    figures->load_s = (kiln_ms_of(CLOCK_THREAD_CPUTIME_ID) - begin) / 1e3;
    if (rc == 0)
        look_up_all(words, index, &job, figures);
    kiln_donor_index_free(index);
    return rc;
}

static int print(const struct kiln_bench *bench, const struct figures *f)
{
    const long hits = LOOKUPS - f->hits[KILN_REUSE_NONE];
    if (bench->cli->json)
        return kiln_print_json(
            bench->cli,
            json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:f, s:f, s:f}",
                      "bench", "reuse", "prompts", (json_int_t)f->prompts, "pairs",
                      (json_int_t)f->compared, "accepted", (json_int_t)f->accepted, "lists_ms",
                      f->lists_ms, "facts_us", f->facts_us, "compare_us", f->compare_us,
                      "longest_ms", f->longest_ms, "donors", (json_int_t)f->donors, "lookup_hits",
                      (json_int_t)hits, "load_s", f->load_s, "lookup_ms", f->mean_ms,
                      "lookup_p99_ms", f->late_ms, "lookup_longest_ms", f->longest_lookup_ms));
    printf("reuse: %ld prompts, %ld pairs of which %ld are accepted\n", f->prompts, f->compared,
           f->accepted);
    printf("  word lists %.2f ms once, facts %.2f us a prompt, comparison %.3f us a pair\n",
           f->lists_ms, f->facts_us, f->compare_us);
    printf("  two prompts of %d bytes, read and compared: %.2f ms\n", KILN_PROMPT_MAX,
           f->longest_ms);
    printf("  %ld donors in %.1f s; of %d look-ups %ld hits (", f->donors, f->load_s, LOOKUPS,
           hits);
    for (int class = KILN_REUSE_SAME_PROMPT; class < KILN_REUSE_CLASS_COUNT; class ++)
        printf("%s%ld %s", class > 1 ? ", " : "", f->hits[class],
               kiln_reuse_class_name((enum kiln_reuse_class) class));
    printf(")\n  a look-up %.3f ms, 99 in 100 at most %.3f ms, the longest %.3f ms\n", f->mean_ms,
           f->late_ms, f->longest_lookup_ms);
    return 0;
}

int kiln_bench_reuse(struct kiln_bench *bench, struct kiln_error *err)
{
    struct figures figures = {.prompts = PROMPTS, .donors = bench->jobs};
    struct kiln_reuse_words *words = NULL;
    struct kiln_facts **facts = calloc(PROMPTS, sizeof *facts);
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
    if (rc == 0)
        rc = look_up(words, &figures, err);
    for (long i = 0; facts && i < figures.prompts; i++)
        kiln_facts_free(facts[i]);
    free(facts);
    kiln_reuse_words_free(words);
    return rc ? rc : print(bench, &figures);
}
