/* captions.c - `kiln bench captions`: how well a search by caption features finds what queries ask
 * for, and how long its steps take; and the fit that such a search needs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "pipeline/embed/captions/library.h"
#include "worker/bench/bench.h"
#include "worker/bench/captions/corpus.h"
#include "worker/verbs/options.h"
#include "worker/verbs/verbs.h"

#define RANKS_MAX 48
#define STATUS_TOO_FEW 1

static const char usage[] =
    "Usage: kiln bench captions --prompts FILE --queries FILE [options]\n"
    "\n"
    "Searches captions by meaning with the features of the model's own text encoder,\n"
    "and prints which share of the first results shows a thing of the shape and\n"
    "colour that the query names. scripts/bench/caption_lists.py makes both files.\n"
    "\n"
    "  --model DIR         diffusers layout (that of the settings, else the demo\n"
    "                      model)\n"
    "  --prompts FILE      JSON lines: captions and what they say\n"
    "                      (pipeline/bench/requests.h)\n"
    "  --queries FILE      the same for queries, which name one thing each\n"
    "  --fit FILE          the fit to use (captions.safetensors of the model)\n"
    "  --head FILE         that maps tokens (caption_head.safetensors of the model);\n"
    "                      none: no head\n"
    "  --write-fit FILE    make a fit of these captions, use it and write it\n"
    "  --directions N      that a new fit removes (20)\n"
    "  --candidates N      captions, nearest by vector, whose tokens are compared\n"
    "                      (1000)\n"
    "  --at-least PCT      exit with 1 if fewer of the first ten results are right\n"
    "  --judge DIR         the names of shapes and colours\n"
    "  --threads N         of the encoder (1)\n";

struct options {
    const char *model, *prompts, *queries, *fit, *head, *write_fit, *judge, *lists;
    uint64_t directions, candidates;
    double at_least;
    int32_t threads;
    bool help;
};

static int read_options(int argc, char **argv, struct options *o, struct kiln_error *err)
{
    *o = (struct options){
        .directions = KILN_FIT_DIRECTIONS, .candidates = KILN_INDEX_COUNT_MAX, .threads = 1};
    const struct kiln_verb_option table[] = {
        {"model", kiln_take_text, .to = &o->model},
        {"prompts", kiln_take_text, .to = &o->prompts},
        {"queries", kiln_take_text, .to = &o->queries},
        {"fit", kiln_take_text, .to = &o->fit},
        {"head", kiln_take_text, .to = &o->head},
        {"write-fit", kiln_take_text, .to = &o->write_fit},
        {"directions", kiln_take_whole, .to = &o->directions, 0, KILN_FIT_DIRECTIONS_MAX},
        {"candidates", kiln_take_whole, .to = &o->candidates, 1, KILN_INDEX_COUNT_MAX},
        {"at-least", kiln_take_number, .to = &o->at_least, 0, 100},
        {"judge", kiln_take_text, .to = &o->judge},
        {"lists", kiln_take_text, .to = &o->lists}, /* given to all benches of the model */
        {"threads", kiln_take_small, .to = &o->threads, 0, KILN_THREADS_MAX},
        {0},
    };
    int rc = kiln_verb_options("bench captions", argc, argv, table, &o->help, err);
    if (!rc && !o->help && (!o->model || !o->judge || !o->prompts || !o->queries))
        rc = kiln_fail(err, KILN_BAD_INPUT, "%s is missing",
                       !o->model     ? "--model DIR"
                       : !o->judge   ? "--judge DIR"
                       : !o->prompts ? "--prompts FILE"
                                     : "--queries FILE");
    return rc;
}

/* --- measuring -------------------------------------------------------------------------------- */

struct bench {
    struct options options;
    struct kiln_judge_labels labels;
    struct kiln_corpus corpus;
    struct kiln_requests queries;
    struct kiln_vector_search *search;
    double *times; /* [queries] of one step */
};

/* Whether the caption has a thing of the shape and colour of the query's first one. */
static bool is_right(const struct kiln_asked *query, const struct kiln_asked *caption)
{
    for (int i = 0; i < caption->thing_count; i++)
        if (caption->things[i].shape == query->things[0].shape &&
            caption->things[i].colour == query->things[0].colour)
            return true;
    return false;
}

/* The share of right ones among the first ranks. */
static double share(const struct bench *b, const struct kiln_asked *query,
                    const struct kiln_ranking *ranking, uint32_t ranks)
{
    uint32_t right = 0;
    for (uint32_t i = 0; i < ranks && i < ranking->count; i++)
        right += is_right(query, &b->corpus.captions.items[ranking->numbers[i]].asked);
    return (double)right / ranks;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double percentile(double *times, size_t count, double at)
{
    qsort(times, count, sizeof *times, by_size);
    return times[(size_t)(at * (double)(count - 1))];
}

/* A line of the table: all queries, ranked in one way. */
static int measure(struct bench *b, const char *name, enum kiln_ranked_by by, double *ret_ten,
                   struct kiln_error *err)
{
    const uint32_t candidates = (uint32_t)b->options.candidates;
    struct kiln_ranking ranking;
    double ten = 0, all = 0, encode_ms = 0;
    for (size_t i = 0; i < b->queries.count; i++) {
        const struct kiln_request *query = &b->queries.items[i];
        int rc =
            kiln_corpus_search(&b->corpus, b->search, query->prompt, by, candidates, &ranking, err);
        if (rc)
            return rc;
        ten += share(b, &query->asked, &ranking, 10);
        all += share(b, &query->asked, &ranking, RANKS_MAX);
        encode_ms += ranking.encode_ms;
        b->times[i] = ranking.search_ms + ranking.rank_ms;
    }
    const double n = (double)b->queries.count;
    *ret_ten = 100 * ten / n;
    const double median = percentile(b->times, b->queries.count, 0.5);
    printf("%-34s %5.1f %% of 10  %5.1f %% of %d   %6.2f ms median, %.2f ms p99, + %.2f ms to "
           "encode\n",
           name, *ret_ten, 100 * all / n, RANKS_MAX, median,
           percentile(b->times, b->queries.count, 0.99), encode_ms / n);
    return 0;
}

static double chance(const struct bench *b)
{
    double right = 0;
    for (size_t q = 0; q < b->queries.count; q++)
        for (size_t i = 0; i < b->corpus.captions.count; i++)
            right += is_right(&b->queries.items[q].asked, &b->corpus.captions.items[i].asked);
    return 100 * right / (double)b->queries.count / (double)b->corpus.captions.count;
}

/* --- the bench -------------------------------------------------------------------------------- */

static int read_lists(struct bench *b, struct kiln_error *err)
{
    const struct options *o = &b->options;
    int rc = kiln_judge_labels_read(o->judge, &b->labels, err);
    if (!rc)
        rc =
            kiln_requests_read(o->prompts, &b->labels, KILN_REQUESTS_MAX, &b->corpus.captions, err);
    if (!rc)
        rc = kiln_requests_read(o->queries, &b->labels, KILN_REQUESTS_MAX, &b->queries, err);
    for (size_t i = 0; i < b->queries.count && !rc; i++)
        if (b->queries.items[i].asked.thing_count != 1)
            rc = kiln_fail(err, KILN_BAD_INPUT, "%s: query %zu does not name one thing", o->queries,
                           i + 1);
    if (!rc && (b->queries.count == 0 || b->corpus.captions.count == 0))
        rc = kiln_fail(err, KILN_BAD_INPUT, "a list is empty");
    if (!rc && !(b->times = malloc(b->queries.count * sizeof *b->times)))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for %zu queries", b->queries.count);
    return rc;
}

static int get_fit(struct bench *b, struct kiln_error *err)
{
    const struct options *o = &b->options;
    char path[4096];
    if (o->write_fit) {
        int rc = kiln_corpus_fit(&b->corpus, o->directions, err);
        return rc ? rc : kiln_caption_fit_write(&b->corpus.fit, o->write_fit, err);
    }
    snprintf(path, sizeof path, "%s/" KILN_CAPTION_FIT_NAME, o->model);
    int rc = kiln_caption_fit_read(o->fit ? o->fit : path, &b->corpus.fit, err);
    const struct kiln_caption_encoder *encoder = &b->corpus.encoder;
    if (!rc &&
        (b->corpus.fit.dims != encoder->width || strcmp(b->corpus.fit.model, encoder->model) != 0))
        rc = kiln_fail(err, KILN_CORRUPT, "%s was made for model %s, not %s",
                       o->fit ? o->fit : path, b->corpus.fit.model, encoder->model);
    return rc;
}

/* The head that is named; else the model's, if it has one. */
static int get_head(struct bench *b, struct kiln_error *err)
{
    const struct options *o = &b->options;
    const struct kiln_caption_encoder *encoder = &b->corpus.encoder;
    struct kiln_caption_head *head = &b->corpus.head;
    char path[4096];
    snprintf(path, sizeof path, "%s/" KILN_CAPTION_HEAD_NAME, o->model);
    *head = kiln_caption_head_none(encoder->width);
    if (o->head ? strcmp(o->head, "none") == 0 : access(path, F_OK) != 0)
        return 0;
    int rc = kiln_caption_head_read(o->head ? o->head : path, head, err);
    if (!rc && (head->dims != encoder->width || strcmp(head->model, encoder->model) != 0))
        rc = kiln_fail(err, KILN_CORRUPT, "%s was made for model %s, not %s",
                       o->head ? o->head : path, head->model, encoder->model);
    return rc;
}

static int run(struct bench *b, double *ret_ten, struct kiln_error *err)
{
    struct kiln_corpus *c = &b->corpus;
    double other;
    int rc = read_lists(b, err);
    if (!rc)
        rc =
            kiln_caption_library_open(NULL, b->options.model, b->options.threads, &c->encoder, err);
    rc = rc ? rc : get_head(b, err);
    rc = rc ? rc : kiln_corpus_encode(c, err);
    rc = rc ? rc : get_fit(b, err);
    rc = rc ? rc : kiln_corpus_index(c, err);
    rc = rc ? rc : kiln_vector_search_new(&b->search, err);
    if (rc)
        return rc;
    printf("%zu captions, %zu values a token, encoded in %.1f s; their tokens are %.1f kB each\n",
           c->captions.count, c->head.row, c->encode_s,
           (double)c->token_bytes / (double)c->captions.count / 1000);
    printf("%zu queries; %.1f %% of the captions are right by chance\n", b->queries.count,
           chance(b));
    rc = measure(b, "vectors alone", KILN_BY_VECTOR, &other, err);
    char name[64];
    snprintf(name, sizeof name, "tokens of %llu nearest vectors",
             (unsigned long long)b->options.candidates);
    rc = rc ? rc : measure(b, name, KILN_BY_TOKENS, ret_ten, err);
    return rc ? rc : measure(b, "tokens of all captions", KILN_BY_ALL, &other, err);
}

int kiln_bench_captions(int argc, char **argv)
{
    struct bench b = {0};
    struct kiln_error err;
    double ten = 0;
    int status = EX_OK;
    if (read_options(argc, argv, &b.options, &err)) {
        fprintf(stderr, "kiln bench captions: %s\n", err.text);
        return EX_USAGE;
    }
    if (b.options.help) {
        fputs(usage, stdout);
        return EX_OK;
    }
    if (run(&b, &ten, &err))
        status = kiln_verb_fail("bench captions", &err);
    else if (ten < b.options.at_least)
        status = STATUS_TOO_FEW;
    if (b.corpus.encoder.close)
        b.corpus.encoder.close(b.corpus.encoder.arg);
    kiln_vector_search_free(b.search);
    kiln_corpus_release(&b.corpus);
    kiln_requests_release(&b.queries);
    free(b.times);
    return status;
}
