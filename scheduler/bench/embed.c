/* embed.c - `kiln bench embed`: how long an embedder (pipeline/embed) takes for short prompts, one
 * by one, as queries come, and 32 at a time, as an index is filled.  One thread, no servers; times
 * are of the processor, which other programs hardly change.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/embedder.h"
#include "scheduler/bench/bench.h"
#include "schemas/clock.h"

#define TOGETHER 32
#define TEXT_MAX 160

/* Distinct prompts of about ten words. */
static size_t make_text(long number, char *out, size_t size)
{
    static const char *const things[] = {"red fox",      "old harbour", "glass city", "blue star",
                                         "quiet forest", "steam train", "paper boat"};
    static const char *const lights[] = {"at night", "in morning fog", "under neon light",
                                         "at sunset", "in the snow"};
    static const char *const looks[] = {"oil painting", "photograph, sharp focus", "watercolor",
                                        "cinematic, highly detailed"};
    const unsigned long n = (unsigned long)number;
    const int len = snprintf(out, size, "a %s %s, %s, number %lu", things[n % 7], lights[n / 7 % 5],
                             looks[n / 35 % 4], n);
    return (size_t)len;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

struct figures {
    double open_ms, median_ms, p99_ms, together_ms; /* together_ms: of one text among many */
};

static int measure(const struct kiln_embedder *e, long calls, struct figures *ret,
                   struct kiln_error *err)
{
    const size_t dims = kiln_embedder_info(e)->dims;
    char(*bytes)[TEXT_MAX] = malloc(TOGETHER * sizeof *bytes);
    float *rows = malloc(TOGETHER * dims * sizeof *rows);
    double *times = malloc((size_t)calls * sizeof *times), total = 0;
    struct kiln_embed_text texts[TOGETHER];
    long number = 0;
    int rc = bytes && rows && times ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for texts");
    for (long i = -calls / 10; i < calls && !rc; i++) { /* the first ones warm up */
        texts[0] = (struct kiln_embed_text){bytes[0], make_text(number++, bytes[0], TEXT_MAX)};
        const double begin = kiln_ms_of(CLOCK_THREAD_CPUTIME_ID);
        rc = kiln_embedder_embed(e, KILN_EMBED_QUERY, texts, 1, rows, err);
        if (i >= 0)
            times[i] = kiln_ms_of(CLOCK_THREAD_CPUTIME_ID) - begin;
    }
    const long rounds = calls / TOGETHER + 1;
    for (long i = 0; i < rounds && !rc; i++) {
        for (size_t t = 0; t < TOGETHER; t++)
            texts[t] = (struct kiln_embed_text){bytes[t], make_text(number++, bytes[t], TEXT_MAX)};
        const double begin = kiln_ms_of(CLOCK_THREAD_CPUTIME_ID);
        rc = kiln_embedder_embed(e, KILN_EMBED_PASSAGE, texts, TOGETHER, rows, err);
        total += kiln_ms_of(CLOCK_THREAD_CPUTIME_ID) - begin;
    }
    if (!rc) {
        qsort(times, (size_t)calls, sizeof *times, by_size);
        ret->median_ms = times[calls / 2];
        ret->p99_ms = times[(calls - 1) * 99 / 100];
        ret->together_ms = total / (double)(rounds * TOGETHER);
    }
    free(bytes);
    free(rows);
    free(times);
    return rc;
}

int kiln_bench_embed(struct kiln_bench *bench, struct kiln_error *err)
{
    struct kiln_embedder *e = NULL;
    struct figures f = {0};
    if (!bench->embedder)
        return kiln_fail(err, KILN_BAD_INPUT, "give the model's directory: --embedder DIR");
    f.open_ms = kiln_ms_of(CLOCK_MONOTONIC);
    int rc = kiln_embedder_open(bench->embedder, NULL, &e, err);
    f.open_ms = kiln_ms_of(CLOCK_MONOTONIC) - f.open_ms;
    rc = rc ? rc : measure(e, bench->jobs, &f, err);
    if (!rc && bench->cli->json)
        (void)kiln_print_json(
            bench->cli, json_pack("{s:s, s:s, s:f, s:f, s:f, s:f}", "bench", "embed", "recipe",
                                  kiln_embedder_info(e)->recipe, "open_ms", f.open_ms, "median_ms",
                                  f.median_ms, "p99_ms", f.p99_ms, "together_ms", f.together_ms));
    else if (!rc)
        printf("%s: opened in %.0f ms; one text %.3f ms median, %.3f ms p99; %.3f ms a text with "
               "%d together\n",
               kiln_embedder_info(e)->recipe, f.open_ms, f.median_ms, f.p99_ms, f.together_ms,
               TOGETHER);
    kiln_embedder_close(e);
    return rc;
}
