/* recall.c - see recall.h. */
#include "scheduler/bench/gallery/recall.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/embedder.h"
#include "pipeline/embed/index/code.h"
#include "pipeline/embed/index/index.h"
#include "scheduler/cli/core/cli.h"
#include "storage/ledger/gallery/prompts.h"
#include "storage/ledger/ledger.h"

#define BEST 10
#define CHUNK 1000 /* prompts that are read at once */
#define LANES 16   /* of a sum */
#define TEXT_MAX 512

struct prompt {
    uint64_t hash, job; /* the first bytes of the hash, a picture of the prompt */
};

struct rows {
    const struct kiln_config *config;
    struct kiln_embedder *embedder;
    struct kiln_vector_index *index;
    struct kiln_vector_search *search;
    struct prompt *prompts;
    size_t prompt_count, prompt_room;
    float *at; /* [count][dims], exact */
    uint32_t count;
    size_t dims;
    uint8_t *bytes; /* [dims] */
};

static int no_memory(struct kiln_error *err)
{
    return kiln_fail(err, KILN_NO_MEMORY, "no memory for the vectors of the bench");
}

/* --- rows --------------------------------------------------------------------------------------
 */

static int note_picture(void *arg, const struct kiln_prompt_picture *p, struct kiln_error *err)
{
    struct rows *rows = arg;
    if (rows->prompt_count == rows->prompt_room) {
        const size_t room = rows->prompt_room * 2 + CHUNK;
        struct prompt *prompts = realloc(rows->prompts, room * sizeof *prompts);
        if (!prompts)
            return no_memory(err);
        rows->prompts = prompts, rows->prompt_room = room;
    }
    struct prompt *prompt = &rows->prompts[rows->prompt_count++];
    prompt->job = p->job;
    return sscanf(p->prompt_hash, "%16" SCNx64, &prompt->hash) == 1
               ? 0
               : kiln_fail(err, KILN_CORRUPT, "job %" PRIu64 " has no hash of its prompt", p->job);
}

static int by_hash(const void *a, const void *b)
{
    const struct prompt *x = a, *y = b;
    return (x->hash > y->hash) - (x->hash < y->hash);
}

/* Each prompt once. */
static void keep_different(struct rows *rows)
{
    size_t kept = 0;
    qsort(rows->prompts, rows->prompt_count, sizeof *rows->prompts, by_hash);
    for (size_t i = 0; i < rows->prompt_count; i++)
        if (kept == 0 || rows->prompts[i].hash != rows->prompts[kept - 1].hash)
            rows->prompts[kept++] = rows->prompts[i];
    rows->prompt_count = kept;
}

static int add_row(void *arg, uint64_t job, const char *prompt, struct kiln_error *err)
{
    struct rows *rows = arg;
    const struct kiln_embed_text text = {prompt, strlen(prompt)};
    float *row = rows->at + (size_t)rows->count * rows->dims, scale;
    uint32_t number;
    (void)job;
    int rc = kiln_embedder_embed(rows->embedder, KILN_EMBED_PASSAGE, &text, 1, row, err);
    if (rc)
        return rc;
    kiln_vector_encode(row, (int64_t)rows->dims, rows->bytes, &scale);
    if (scale == 0)
        return 0; /* no evidence */
    rows->count++;
    return kiln_vector_index_add(rows->index, rows->bytes, scale, &number, err);
}

static int read_rows(struct rows *rows, struct kiln_ledger *session, struct kiln_error *err)
{
    uint64_t jobs[CHUNK];
    int rc = kiln_gallery_prompt_pictures(session, kiln_config_text(rows->config, KILN_KEY_POOL),
                                          note_picture, rows, err);
    if (rc)
        return rc;
    keep_different(rows);
    rows->at = malloc((rows->prompt_count + 1) * rows->dims * sizeof *rows->at);
    rows->bytes = malloc(rows->dims);
    if (!rows->at || !rows->bytes)
        return no_memory(err);
    for (size_t from = 0; from < rows->prompt_count && rc == 0; from += CHUNK) {
        const size_t left = rows->prompt_count - from, count = left < CHUNK ? left : CHUNK;
        for (size_t i = 0; i < count; i++)
            jobs[i] = rows->prompts[from + i].job;
        rc = kiln_gallery_prompts_of(session, jobs, count, add_row, rows, err);
    }
    return rc;
}

/* --- both searches -----------------------------------------------------------------------------
 */

/* Lanes of their own, so that the compiler may add several at once. */
static float product(const float *a, const float *b, size_t dims)
{
    float sums[LANES] = {0}, sum = 0;
    size_t d = 0;
    for (; d + LANES <= dims; d += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            sums[lane] += a[d + lane] * b[d + lane];
    for (; d < dims; d++)
        sum += a[d] * b[d];
    for (size_t lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    return sum;
}

/* The tenth best cosine. */
static float exact(const struct rows *rows, const float *query)
{
    float best[BEST] = {-2, -2, -2, -2, -2, -2, -2, -2, -2, -2};
    for (uint32_t row = 0; row < rows->count; row++) {
        const float score = product(rows->at + (size_t)row * rows->dims, query, rows->dims);
        if (score <= best[BEST - 1])
            continue;
        int at = BEST - 1;
        for (; at > 0 && best[at - 1] < score; at--)
            best[at] = best[at - 1];
        best[at] = score;
    }
    return best[BEST - 1];
}

static double since_ms(double start_s)
{
    return (kiln_now_s() - start_s) * 1e3;
}

/* *ret_found: how many of the ten that the index finds are among the ten best, ties included. */
static int compare(struct rows *rows, const char *text, struct kiln_bench_recall *recall,
                   uint32_t *ret_found, bool *ret_known, struct kiln_error *err)
{
    float *vector = malloc(rows->dims * sizeof *vector);
    int8_t *query = malloc(rows->dims);
    struct kiln_vector_hit hits[BEST];
    struct kiln_vector_found found = {0};
    struct kiln_vector_query asked = {.query = query, .count = BEST};
    *ret_found = 0;
    double start_s = kiln_now_s();
    int rc = vector && query ? kiln_embedder_embed(rows->embedder, KILN_EMBED_QUERY,
                                                   &(struct kiln_embed_text){text, strlen(text)}, 1,
                                                   vector, err)
                             : no_memory(err);
    if (rc == 0) {
        kiln_vector_encode_query(vector, (int64_t)rows->dims, query, &asked.scale);
        rc = kiln_vector_index_search(rows->index, rows->search, &asked, hits, &found, err);
    }
    *ret_known = rc == 0 && asked.scale > 0;
    if (*ret_known) {
        kiln_bench_times_add(&recall->scan, since_ms(start_s));
        start_s = kiln_now_s();
        const float limit = exact(rows, vector) - 1e-6f;
        kiln_bench_times_add(&recall->exact, since_ms(start_s));
        for (uint32_t i = 0; i < found.count; i++)
            *ret_found += product(rows->at + (size_t)hits[i].number * rows->dims, vector,
                                  rows->dims) >= limit;
    }
    free(vector), free(query);
    return rc;
}

static int compare_all(struct rows *rows, const struct kiln_bench_words *words, uint32_t queries,
                       struct kiln_bench_recall *ret, struct kiln_error *err)
{
    static const struct kiln_bench_search patterns[] = {
        {.pattern = "4 2 "}, {.pattern = "3 3 1 "}, {.pattern = "2 "}, {.pattern = "4 4 2 0 "}};
    uint64_t found = 0, asked = 0;
    int rc = 0;
    for (uint32_t n = 0; n < queries && rc == 0; n++) {
        char text[TEXT_MAX];
        uint32_t here;
        bool known;
        kiln_bench_words_put(words, &patterns[n % 4], (long)n / 4, text, sizeof text);
        rc = compare(rows, text, ret, &here, &known, err);
        found += known ? here : 0;
        asked += known ? BEST : 0;
    }
    ret->at_10 = asked ? (double)found / (double)asked : 0;
    return rc;
}

int kiln_bench_recall(const struct kiln_config *config, const char *embedder,
                      const struct kiln_bench_words *words, uint32_t queries,
                      struct kiln_bench_recall *ret, struct kiln_error *err)
{
    struct rows rows = {.config = config};
    struct kiln_ledger *session = NULL;
    *ret = (struct kiln_bench_recall){0};
    int rc = kiln_bench_times_fit(&ret->scan, queries, err);
    rc = rc ? rc : kiln_bench_times_fit(&ret->exact, queries, err);
    rc = rc ? rc : kiln_embedder_open(embedder, NULL, &rows.embedder, err);
    rows.dims = rc ? 0 : kiln_embedder_info(rows.embedder)->dims;
    rc = rc ? rc : kiln_vector_index_new((int64_t)rows.dims, &rows.index, err);
    rc = rc ? rc : kiln_vector_search_new(&rows.search, err);
    rc = rc ? rc : kiln_ledger_open_reading(config, "kiln-bench", 60000, &session, err);
    rc = rc ? rc : read_rows(&rows, session, err);
    kiln_ledger_close(session);
    rc = rc ? rc : compare_all(&rows, words, queries, ret, err);
    ret->prompts = rows.count;
    ret->dims = (uint32_t)rows.dims;
    kiln_vector_search_free(rows.search);
    kiln_vector_index_free(rows.index);
    kiln_embedder_close(rows.embedder);
    free(rows.prompts), free(rows.at), free(rows.bytes);
    return rc;
}

void kiln_bench_recall_release(struct kiln_bench_recall *recall)
{
    kiln_bench_times_release(&recall->scan);
    kiln_bench_times_release(&recall->exact);
}
