/* meaning.c - see meaning.h. */
#include "scheduler/router/meaning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/vectors/scan.h"
#include "scheduler/router/index.h"
#include "schemas/text/utf8.h"

#define ALL UINT32_MAX
#define NEAREST 32  /* LoRAs that become candidates by their meaning alone */
#define NEXT 5      /* whose mean a LoRA's lead is measured against */
#define WORDS_MIN 4 /* bytes of a clause that is a segment */

/* --- vectors of the LoRAs --------------------------------------------------------------------- */

struct kiln_meaning *kiln_meaning_new(size_t dims, size_t count, size_t negatives)
{
    struct kiln_meaning *meaning = calloc(1, sizeof *meaning);
    if (!meaning)
        return NULL;
    *meaning = (struct kiln_meaning){.dims = dims,
                                     .count = count,
                                     .rows = malloc(count * dims + 1),
                                     .negatives = malloc(negatives * dims + 1),
                                     .first = calloc(count + 1, sizeof *meaning->first),
                                     .lengths = calloc(count + negatives + 1, sizeof(uint32_t))};
    if (meaning->rows && meaning->negatives && meaning->first && meaning->lengths) {
        memset(meaning->rows, 128, count * dims);
        memset(meaning->negatives, 128, negatives * dims);
        return meaning;
    }
    kiln_meaning_free(meaning);
    return NULL;
}

void kiln_meaning_free(struct kiln_meaning *meaning)
{
    if (!meaning)
        return;
    free(meaning->rows);
    free(meaning->negatives);
    free(meaning->first);
    free(meaning->lengths);
    free(meaning);
}

static uint32_t square(const int8_t *row, size_t dims)
{
    uint32_t sum = 0; /* dims is at most 4,096: below 2^27 */
    for (size_t d = 0; d < dims; d++)
        sum += (uint32_t)(row[d] * row[d]);
    return sum;
}

void kiln_meaning_put(struct kiln_meaning *meaning, size_t i, const int8_t *row)
{
    uint8_t *to = i < meaning->count ? meaning->rows + i * meaning->dims
                                     : meaning->negatives + (i - meaning->count) * meaning->dims;
    for (size_t d = 0; d < meaning->dims; d++)
        to[d] = (uint8_t)(row[d] + 128);
    meaning->lengths[i] = square(row, meaning->dims);
}

void kiln_meaning_round(const float *row, size_t dims, int8_t *ret)
{
    float most = 0;
    for (size_t d = 0; d < dims; d++)
        most = fmaxf(most, fabsf(row[d]));
    for (size_t d = 0; d < dims; d++)
        ret[d] = most > 0 ? (int8_t)lroundf(row[d] / most * 127) : 0;
}

void kiln_router_set_meaning(struct kiln_router *router, struct kiln_meaning *meaning)
{
    kiln_meaning_free(router->meaning);
    router->meaning = meaning;
}

const struct kiln_meaning *kiln_router_meaning(const struct kiln_router *router)
{
    return router->meaning;
}

bool kiln_router_meaning_room(struct kiln_router_reader *reader)
{
    const struct kiln_meaning *meaning = reader->router->meaning;
    if (!meaning)
        return true;
    const size_t most = meaning->count + meaning->first[meaning->count] + 1;
    reader->cosines = malloc(KILN_MEANING_SEGMENTS * (meaning->count + 1) * sizeof(int16_t));
    reader->products = malloc(most * sizeof *reader->products);
    return reader->cosines && reader->products;
}

/* --- segments of a prompt --------------------------------------------------------------------- */

/* Appends to a segment what has room, its blanks made one. */
static size_t append(char *text, size_t at, const char *more, size_t len)
{
    for (size_t i = 0; i < len && at < KILN_MEANING_TEXT_MAX; i++) {
        const bool blank = more[i] == ' ' || (unsigned char)more[i] < 0x20;
        if (!blank)
            text[at++] = more[i];
        else if (at > 0 && text[at - 1] != ' ')
            text[at++] = ' ';
    }
    text[at] = '\0';
    return at;
}

/* Ends within a character of UTF-8 are cut off; so are blanks and commas. */
static void trim(char *text)
{
    size_t len = strlen(text), bad;
    if (!kiln_utf8_valid(text, len, &bad))
        len = bad;
    while (len > 0 && strchr(" ,", text[len - 1]))
        len--;
    text[len] = '\0';
}

/* The place of a clause among the longest ones, which are behind the whole. */
static void insert(struct kiln_router_reader *reader, uint32_t clause, const char *text, size_t len)
{
    char fresh[KILN_MEANING_TEXT_MAX + 1];
    append(fresh, 0, text, len);
    trim(fresh);
    const size_t size = strlen(fresh);
    if (size < WORDS_MIN)
        return;
    size_t at = reader->segment_count;
    while (at > 1 && strlen(reader->segments[at - 1].text) < size)
        at--;
    if (at == KILN_MEANING_SEGMENTS)
        return;
    const size_t last = reader->segment_count < KILN_MEANING_SEGMENTS ? reader->segment_count
                                                                      : KILN_MEANING_SEGMENTS - 1;
    for (size_t i = last; i > at; i--)
        reader->segments[i] = reader->segments[i - 1];
    reader->segments[at] = (struct kiln_segment){.clause = clause};
    memcpy(reader->segments[at].text, fresh, size + 1);
    reader->segment_count = last + 1;
}

void kiln_router_split(struct kiln_router_reader *reader)
{
    const struct kiln_route_tokens *tokens = &reader->tokens;
    const char *at = tokens->clean, *end = at ? at + tokens->clean_len : NULL;
    struct kiln_segment *whole = &reader->segments[0];
    size_t len = 0;
    uint32_t clause = 0;
    reader->segment_count = 0;
    if (!reader->router->meaning || !at)
        return;
    *whole = (struct kiln_segment){.clause = ALL};
    reader->segment_count = 1;
    for (const char *line = at; line < end; clause++) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        insert(reader, clause, line, (size_t)(stop - line));
        const size_t before = len;
        len = append(whole->text, len, line, (size_t)(stop - line));
        if (len > before)
            len = append(whole->text, len, ", ", 2);
        line = stop + 1;
    }
    trim(whole->text);
    if (!whole->text[0])
        reader->segment_count = 0;
    else if (reader->segment_count == 2) /* of one clause, which is the whole */
        reader->segment_count = 1;
}

/* --- cosines ---------------------------------------------------------------------------------- */

static int cosine(int32_t product, uint32_t a, uint32_t b)
{
    return a && b ? (int)lround(1000.0 * product / sqrt((double)a * b)) : 0;
}

int kiln_router_compare(struct kiln_router_reader *reader,
                        const struct kiln_router_request *request, struct kiln_error *err)
{
    const struct kiln_meaning *meaning = reader->router->meaning;
    if (request->vector_count != reader->segment_count)
        return kiln_fail(err, KILN_INTERNAL, "a prompt of %zu segments came with %zu vectors",
                         reader->segment_count, request->vector_count);
    reader->vectors = request->vectors;
    for (size_t s = 0; s < reader->segment_count; s++) {
        int16_t *cosines = reader->cosines + s * meaning->count;
        const uint32_t length = square(reader->vectors[s], meaning->dims);
        kiln_scan_rows(meaning->rows, (int64_t)meaning->count, (int64_t)meaning->dims,
                       reader->vectors[s], reader->products);
        for (size_t i = 0; i < meaning->count; i++)
            cosines[i] = (int16_t)cosine(reader->products[i], length, meaning->lengths[i]);
    }
    return 0;
}

static bool alive(const struct kiln_router_reader *reader, size_t s)
{
    const struct kiln_segment *segment = &reader->segments[s];
    if (segment->used)
        return false;
    for (size_t i = 0; i < reader->tokens.count; i++)
        if (reader->tokens.at[i].used &&
            (segment->clause == ALL || reader->tokens.at[i].clause == segment->clause))
            return false;
    return true;
}

/* The best cosine of a segment that is left; *ret_segment: which one it is. */
static int best_cosine(const struct kiln_router_reader *reader, const bool *left, size_t lora,
                       size_t *ret_segment)
{
    const size_t count = reader->router->meaning->count;
    int best = -1001;
    for (size_t s = 0; s < reader->segment_count; s++)
        if (left[s] && reader->cosines[s * count + lora] > best) {
            best = reader->cosines[s * count + lora];
            *ret_segment = s;
        }
    return best;
}

/* How much nearer a segment is to one of the LoRA's negative texts than any is to the LoRA. */
static int nearer(struct kiln_router_reader *reader, const bool *left, uint32_t lora, int c)
{
    const struct kiln_meaning *meaning = reader->router->meaning;
    const uint32_t first = meaning->first[lora], count = meaning->first[lora + 1] - first;
    int best = c;
    for (size_t s = 0; s < reader->segment_count && count > 0; s++) {
        if (!left[s])
            continue;
        const uint32_t length = square(reader->vectors[s], meaning->dims);
        kiln_scan_rows(meaning->negatives + (size_t)first * meaning->dims, count,
                       (int64_t)meaning->dims, reader->vectors[s], reader->products);
        for (uint32_t i = 0; i < count; i++) {
            const int near =
                cosine(reader->products[i], length, meaning->lengths[meaning->count + first + i]);
            best = near > best ? near : best;
        }
    }
    return best - c;
}

struct near {
    int c;
    uint32_t lora;
};

/* The LoRAs nearest to what is left of the prompt, in order, of those that suit the pool. */
static size_t nearest(const struct kiln_router_reader *reader, const bool *left,
                      const struct kiln_router_pool *pool, struct near list[NEAREST + NEXT])
{
    const struct kiln_router *router = reader->router;
    size_t count = 0, segment;
    for (uint32_t i = 0; i < router->meaning->count; i++) {
        const int c = router->meaning->lengths[i] ? best_cosine(reader, left, i, &segment) : -1001;
        const bool full = count == NEAREST + NEXT;
        if (c < -1000 || (full && c <= list[count - 1].c) ||
            !kiln_router_suits(&router->loras[i], pool))
            continue;
        size_t at = full ? count - 1 : count++;
        for (; at > 0 && list[at - 1].c < c; at--)
            list[at] = list[at - 1];
        list[at] = (struct near){c, i};
    }
    return count;
}

/* A LoRA leads the next ones by m; fewer than five of them leave it without a lead. */
static int lead(const struct near *list, size_t count, size_t at)
{
    int sum = 0;
    if (at + NEXT >= count)
        return 0;
    for (size_t i = at + 1; i <= at + NEXT; i++)
        sum += list[i].c;
    return list[at].c - sum / NEXT;
}

/* What the embedder says of a candidate, if it says more than words. */
static void weigh(struct kiln_router_reader *reader, const bool *left, struct kiln_candidate *c)
{
    const struct kiln_meaning_weights *w = &reader->router->meaning->weights;
    size_t segment;
    if ((c->thing && c->k == 0 && c->t == 0) || !reader->router->meaning->lengths[c->lora]) {
        c->m = 0;
        return;
    }
    c->c = best_cosine(reader, left, c->lora, &segment);
    c->x = nearer(reader, left, c->lora, c->c);
    const int z = w->bias + (int)(((int64_t)w->b * c->b + (int64_t)w->c * c->c +
                                   (int64_t)w->m * c->m + (int64_t)w->x * c->x) /
                                  1000);
    c->by_meaning = z > c->z;
    c->z = c->by_meaning ? z : c->z;
}

void kiln_router_add_meaning(struct kiln_router_reader *reader, const struct kiln_router_pool *pool)
{
    bool left[KILN_MEANING_SEGMENTS], any = false;
    struct near list[NEAREST + NEXT];
    for (size_t s = 0; s < reader->segment_count; s++)
        any |= left[s] = alive(reader, s);
    const size_t count = any ? nearest(reader, left, pool, list) : 0;
    for (size_t i = 0; i < count && i < NEAREST; i++) {
        const size_t before = reader->candidate_count;
        struct kiln_candidate *c = kiln_router_candidate(reader, list[i].lora, pool);
        if (c && reader->candidate_count > before)
            c->z = KILN_Z_NOTHING;
        if (c)
            c->m = lead(list, count, i);
    }
    for (size_t i = 0; i < reader->candidate_count && any; i++)
        weigh(reader, left, &reader->candidates[i]);
}

void kiln_router_use_segments(struct kiln_router_reader *reader, uint32_t lora, bool by_meaning)
{
    bool left[KILN_MEANING_SEGMENTS] = {false};
    size_t segment = 0;
    for (size_t s = 1; s < reader->segment_count && by_meaning; s++)
        left[s] = alive(reader, s);
    (void)best_cosine(reader, left, lora, &segment);
    reader->segments[segment].used = true;
    reader->segments[0].used = true; /* the whole */
}
