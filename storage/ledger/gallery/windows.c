/* windows.c - see windows.h. */
#include "storage/ledger/gallery/windows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"
#include "storage/ledger/gallery/document.h"

#define FEW 500        /* pictures: where about so many are left, they are one window */
#define ROWS_A_PART 75 /* pictures of a rare word that cost as much as a part, 0.2 ms */
#define PARTS_MAX 128  /* of a window */
#define PART_JOBS (UINT64_C(1) << KILN_PART_BITS)
#define LIST_MAX 50000 /* pictures with the rarest of some words: its list is read in 5 ms */
/* A beginning of words that more pictures have may be left out of the query; each picture found is
 * then compared with it.  GIN reads lists of so many pictures in 5 ms. */
#define BEGINNING_MAX "20000"
/* A beginning is left out if another word has so many times fewer pictures: comparing a picture
 * costs as much as reading four or more in a list. */
#define RARER "4"
/* A beginning is left out beside any other word if so many pictures have it: their lists take 20
 * ms, which is all of a search's time. */
#define LONG_MIN "75000"
/* Whether gallery_word has the word w.m[1] if any picture has it (documents.c). */
#define COUNTED "(m[1] !~ '[0-9]' OR m[1] ~ '^[a-z]:') AND length(m[1]) <= 40"

int kiln_gallery_look(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                      struct kiln_gallery_index *ret, struct kiln_error *err)
{
    /* The words are taken from the tsquery, whose form is ours; those that must not be there are
     * left out.  gallery_word lacks numbers, of which each picture may have one; they say nothing
     * of whether another word is rarer than the beginning of one. */
    static const struct kiln_statement ask = {
        KILN_PLANNED_ONCE("gallery_look"),
        "SELECT coalesce((SELECT bool_and(rebuilt IS NULL AND version = $2::integer)"
        "  FROM gallery_state), false), count(m),"
        " CASE WHEN count(m) FILTER (WHERE NOT w.frequent) > 0"
        "  AND (min(n) FILTER (WHERE w.frequent) >= " LONG_MIN " OR " RARER
        "   * min(n) FILTER (WHERE NOT w.frequent AND (m[2] <> '' OR " COUNTED "))"
        "    <= min(n) FILTER (WHERE w.frequent))"
        "  THEN string_agg('(''' || m[1] || ''':*)', ' ') FILTER (WHERE w.frequent) ELSE '' END,"
        " (SELECT greatest(reltuples, 0)::bigint FROM pg_class"
        "  WHERE oid = 'gallery_text'::regclass), coalesce(min(n), 0),"
        " (SELECT coalesce(min(job_id), 0) FROM gallery_text),"
        " (SELECT coalesce(max(job_id), 0) FROM gallery_text)"
        " FROM (SELECT m, n, (m[2] <> '') IS TRUE AND n > " BEGINNING_MAX " AS frequent"
        "  FROM (SELECT m, coalesce(CASE WHEN m[2] IS NULL"
        "  THEN (SELECT pictures FROM gallery_word WHERE word = m[1])"
        "  ELSE (SELECT sum(pictures) FROM gallery_word WHERE word >= m[1]"
        "   AND word < m[1] || chr(1114109)) END, 0)::bigint AS n"
        "  FROM regexp_matches(regexp_replace($1::text, '!\\([^)]*\\)', '', 'g'),"
        "   '''([^'']*)''(:\\*)?', 'g') m OFFSET 0) w) w"};
    struct kiln_params params = {0};
    KILN_BIND(&params, (const char *)question->lexemes, KILN_DOCUMENT_VERSION);
    int rc = kiln_ledger_ask(session, &ask, &params,
                             KILN_FIELDS(ret->complete, ret->words, ret->frequent, ret->pictures,
                                         ret->rarest, ret->first, ret->last),
                             err);
    ret->phrase = rc == 0 && (ret->frequent[0] || strstr(question->lexemes, "<->"));
    return rc;
}

const char *kiln_gallery_compared(const struct kiln_gallery_question *question,
                                  const struct kiln_gallery_index *index)
{
    return index->frequent[0] ? question->lexemes : NULL;
}

static uint64_t part_of(uint64_t job)
{
    return job >> KILN_PART_BITS;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The parts of the next jobs, so many of them.  The first of these parts may have few jobs. */
static uint64_t parts_of_next(const struct kiln_parts *window, uint64_t jobs)
{
    if (window->newer)
        return part_of(window->at + jobs) - part_of(window->at + 1) + 1;
    const uint64_t lowest = window->at > jobs ? window->at - jobs : 0;
    return part_of(window->at - 1) - part_of(lowest) + 1;
}

static bool is_left(const struct kiln_parts *window)
{
    return window->newer ? window->at < window->farthest : window->at > window->farthest;
}

bool kiln_parts_begin(struct kiln_parts *window, const struct kiln_gallery_index *index, bool newer,
                      uint64_t at, uint64_t farthest, uint32_t wanted)
{
    const uint64_t first = index->first > 0 ? index->first - 1 : 0, last = index->last + 1;
    *window = (struct kiln_parts){
        .newer = newer, .at = at, .farthest = farthest, .frequent = index->frequent};
    if (newer) {
        window->at = at > first ? at : first;
        window->farthest = least(farthest, index->last);
    } else {
        window->at = least(at, last);
        window->farthest = farthest > index->first ? farthest : index->first;
    }
    /* Half as many again as should be enough. */
    window->parts = index->rarest
                        ? parts_of_next(window, wanted * 3 / 2 * (last - first) / index->rarest + 1)
                        : 1;
    window->whole = index->rarest > 0 && index->rarest < KILN_PARTS_WHOLE_HITS &&
                    index->rarest <= ROWS_A_PART * window->parts;
    window->parts =
        window->whole ? part_of(last) - part_of(first) + 1 : least(window->parts, PARTS_MAX);
    return is_left(window);
}

void kiln_parts_allow_whole(struct kiln_parts *window, const struct kiln_gallery_index *index)
{
    window->may_be_whole = index->words > 1 && !index->phrase && index->rarest <= LIST_MAX;
}

void kiln_parts_narrow(struct kiln_parts *window)
{
    window->whole = window->may_be_whole = false;
    window->parts = 1;
}

/* The first and the last part of the window; false: nothing is left. */
static bool bounds(const struct kiln_parts *window, uint64_t *ret_low, uint64_t *ret_high)
{
    if (!is_left(window))
        return false;
    if (window->newer) {
        *ret_low = part_of(window->at + 1);
        *ret_high = least(*ret_low + window->parts - 1, part_of(window->farthest));
    } else {
        const uint64_t farthest = part_of(window->farthest);
        *ret_high = part_of(window->at - 1);
        *ret_low = *ret_high + 1 > window->parts ? *ret_high + 1 - window->parts : 0;
        *ret_low = *ret_low > farthest ? *ret_low : farthest;
    }
    return true;
}

static uint64_t parts_left(const struct kiln_parts *window)
{
    struct kiln_parts rest = *window;
    uint64_t low, high;
    rest.parts = UINT64_MAX >> KILN_PART_BITS;
    return bounds(&rest, &low, &high) ? high - low + 1 : 0;
}

/* The terms that are not among the frequent beginnings, which have the form of terms: ('re':*) */
static void put_others(struct kiln_text *text, const char *lexemes, const char *frequent)
{
    static const char between[] = " & ";
    for (const char *at = lexemes, *next; at; at = next) {
        char term[sizeof((struct kiln_gallery_index *)0)->frequent];
        const char *end = strstr(at, between);
        const size_t len = end ? (size_t)(end - at) : strlen(at);
        next = end ? end + strlen(between) : NULL;
        snprintf(term, sizeof term, "%.*s", (int)len, at);
        if (len < sizeof term && strstr(frequent, term))
            continue;
        kiln_text_puts(text, text->len ? between : "");
        kiln_text_add(text, at, len);
    }
}

int kiln_parts_lexemes(struct kiln_parts *window, const char *lexemes, char **ret, char **ret_parts,
                       struct kiln_error *err)
{
    struct kiln_text others = {0}, parts = {0};
    uint64_t low = 1, high = 0;
    char digits[24];
    const bool some = !window->whole && bounds(window, &low, &high);
    put_others(&others, lexemes, window->frequent);
    for (uint64_t part = low; part <= high; part++) {
        snprintf(digits, sizeof digits, "%" PRIu64, part);
        kiln_text_puts(&parts, part > low ? " | " : "");
        kiln_lexeme_put(&parts, KILN_LEXEME_PART, digits);
    }
    window->begun_ms = kiln_clock_ms();
    *ret = kiln_text_take(&others);
    *ret_parts = some ? kiln_text_take(&parts) : NULL;
    if (*ret && (*ret_parts || !some))
        return 0;
    free(*ret);
    free(*ret_parts);
    return kiln_fail(err, KILN_NO_MEMORY, "gallery: no memory for a query");
}

bool kiln_parts_next(struct kiln_parts *window, uint32_t had, uint32_t wanted, int64_t deadline)
{
    uint64_t low, high;
    if (!bounds(window, &low, &high))
        return false;
    const uint64_t from = window->at;
    window->at = window->newer ? ((high + 1) << KILN_PART_BITS) - 1 : low << KILN_PART_BITS;
    const uint64_t searched = window->newer ? window->at - from : from - window->at;
    const int64_t took_ms = kiln_clock_ms() - window->begun_ms + 1;
    const int64_t left_ms = deadline > kiln_clock_ms() ? deadline - kiln_clock_ms() : 0;
    const uint64_t by_hits = searched * (wanted + 1) / (had + 1) / PART_JOBS + 1;
    const uint64_t by_time = window->parts * (uint64_t)left_ms / (uint64_t)took_ms;
    window->parts = least(least(by_hits, 8 * window->parts), by_time / 2);
    const uint64_t left = parts_left(window);
    window->whole = window->may_be_whole && (had + 1) * left * PART_JOBS <= FEW * searched;
    window->parts = least(window->parts > 0 ? window->parts : 1, PARTS_MAX);
    window->parts = window->whole ? left : window->parts;
    return left > 0;
}

int kiln_parts_go_on(struct kiln_parts *window, struct kiln_ledger *session, uint32_t had,
                     uint32_t wanted, int64_t deadline, bool *ret_more, struct kiln_error *err)
{
    static const struct kiln_statement ask[2] = {
        {KILN_PLANNED_ONCE("gallery_gap"),
         "SELECT coalesce((SELECT job_id FROM gallery_text WHERE job_id < $1::bigint"
         " ORDER BY job_id DESC LIMIT 1) + 1, 0)"},
        {KILN_PLANNED_ONCE("gallery_gap_up"),
         "SELECT coalesce((SELECT job_id FROM gallery_text WHERE job_id > $1::bigint"
         " ORDER BY job_id LIMIT 1) - 1, 9223372036854775807)"}};
    struct kiln_params params = {0};
    uint64_t low, high;
    *ret_more = kiln_parts_next(window, had, wanted, deadline);
    if (!*ret_more || had > 0)
        return 0;
    KILN_BIND(&params, window->at);
    int rc = kiln_ledger_ask(session, &ask[window->newer], &params, KILN_FIELDS(window->at), err);
    *ret_more = rc == 0 && bounds(window, &low, &high);
    return rc;
}
