/* question.h - a query of the gallery made ready for SQL: names resolved, words parsed, cursor
 * read.
 *
 * Private to the room.  A filter is checked twice: its lexemes narrow the search in gallery_text,
 * and KILN_GALLERY_SHOWN is checked in image itself, at the latest when tiles are read, so that a
 * level that was raised a moment ago hides its picture before the follower has come by.
 */
#ifndef KILN_GALLERY_QUESTION_H
#define KILN_GALLERY_QUESTION_H

#include "storage/ledger/gallery/gallery.h"
#include "storage/ledger/internal.h"

struct kiln_gallery_question {
    const struct kiln_gallery_query *query;
    uint64_t batch_id;        /* 0: any */
    char *words;              /* a tsquery of the words alone; NULL: none */
    char *lexemes;            /* of words and filters together; NULL: only the pool */
    uint64_t lowest, highest; /* jobs outside of this are not in the span of time */
    uint64_t hash;            /* of all that a cursor is bound to */
    int64_t budget_ms;
    int64_t deadline; /* kiln_clock_ms; the end of the budget */
};

/* KILN_BAD_INPUT: a filter or the words make no sense; KILN_NOT_FOUND: there is no such batch. */
int kiln_gallery_ask(struct kiln_ledger *session, const struct kiln_gallery_query *query,
                     struct kiln_gallery_question *ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_gallery_question_release(struct kiln_gallery_question *question);

/* Whether a picture i (of image) is shown: parameters $1 to $16. */
#define KILN_GALLERY_SHOWN                                                                         \
    "i.pool = $1::text AND ($2::bigint = 0 OR i.batch_id = $2)"                                    \
    " AND ($3::text IS NULL OR i.tenant = $3) AND ($4::text IS NULL OR i.model_name = $4)"         \
    " AND ($5::text IS NULL OR"                                                                    \
    "  i.loras @> jsonb_build_array(jsonb_build_object('name', $5::text)))"                        \
    " AND ($6::text IS NULL OR i.style = $6) AND ($7::text IS NULL OR i.prompt_hash = $7)"         \
    " AND ($8::integer = 0 OR (i.width = $8 AND i.height = $9::integer))"                          \
    " AND ($10::integer = 0 OR $10 = " KILN_GALLERY_ASPECT_SQL(                                    \
        "i") ")"                                                                                   \
             " AND ($11::integer = 0 OR $11 = " KILN_GALLERY_MODE_SQL(                             \
                 "i") ")"                                                                          \
                      " AND (NOT $12::boolean OR EXISTS (SELECT FROM favourite f WHERE f.job_id "  \
                      "= i.job_id))"                                                               \
                      " AND ($13::bigint = 0 OR i.created_at >= to_timestamp($13 / 1000.0))"       \
                      " AND ($14::bigint = 0 OR i.created_at < to_timestamp($14 / 1000.0))"        \
                      " AND ($15::integer = 0 OR EXISTS (SELECT FROM vote v WHERE v.job_id "       \
                      "= i.job_id AND v.value = $15))"                                             \
                      " AND coalesce(i.safety_flag, -1) = ANY ($16::smallint[])"
/* By enum kiln_gallery_aspect and enum kiln_gallery_mode; 0: neither exact nor of another kind. */
#define KILN_GALLERY_ASPECT_SQL(i)                                                                 \
    "CASE WHEN " i ".width * 20 > " i ".height * 21 THEN 2"                                        \
    " WHEN " i ".width * 20 < " i ".height * 19 THEN 3 ELSE 1 END"
#define KILN_GALLERY_MODE_SQL(i)                                                                   \
    "CASE WHEN " i ".mode = '' THEN 1 WHEN " i ".mode LIKE 'coarse%' THEN 2"                       \
    " WHEN " i ".mode LIKE 'variety%' THEN 0 ELSE 3 END"
/* Whether pictures a and b of one prompt are the same, but for what a start adds. */
#define KILN_GALLERY_SAME_SQL(a, b)                                                                \
    "(" a ".seed, " a ".width, " a ".height, " a ".model_hash, " a ".lora_set, " a ".steps, " a    \
    ".guidance, " a ".negative_prompt, " a ".mode) = (" b ".seed, " b ".width, " b ".height, " b   \
    ".model_hash, " b ".lora_set, " b ".steps, " b ".guidance, " b ".negative_prompt, " b ".mode)" \
    " AND " KILN_GALLERY_MODE_SQL(a) " <> 3"
/* Of an object o: what gallery_picture.file says of it. */
#define KILN_FINGERPRINT_FILE_SQL "hashtextextended(o.sha256, 0)"
#define KILN_GALLERY_SHOWN_PARAMS 16
void kiln_gallery_bind(struct kiln_params *params, const struct kiln_gallery_filter *filter,
                       uint64_t batch_id);
/* The levels that are shown, the last of those parameters. */
void kiln_gallery_bind_levels(struct kiln_params *params, const struct kiln_gallery_filter *filter);

/* --- cursors: where a list goes on, bound to its query ---------------------------------------- */
struct kiln_gallery_place {
    bool newer;    /* towards the newest */
    uint64_t job;  /* behind this one */
    uint64_t top;  /* by relevance: the block begins at this job; 0: by age */
    uint64_t end;  /* by relevance: it ends with this one; 0: not known yet */
    int64_t score; /* by relevance: of that job */
};
void kiln_gallery_place_text(const struct kiln_gallery_question *question,
                             const struct kiln_gallery_place *place,
                             char out[KILN_GALLERY_CURSOR_MAX]);
/* The query's cursor, or the beginning of its list. */
int kiln_gallery_place_read(const struct kiln_gallery_question *question,
                            struct kiln_gallery_place *ret, struct kiln_error *err) KILN_MUST_CHECK;

/* --- hits (hits.c) -----------------------------------------------------------------------------
 */
#define KILN_GALLERY_HITS_MAX (KILN_GALLERY_COUNT_MAX + 1)
struct kiln_gallery_hits {
    uint64_t jobs[KILN_GALLERY_HITS_MAX]; /* by id, falling, or rising towards the newest */
    uint32_t count;
    uint64_t reached; /* out of time: jobs up to this one have been looked at */
    bool out_of_time; /* before the end, and before as many were found as were wanted */
};
struct kiln_gallery_want {
    uint32_t most;   /* hits at most */
    uint32_t enough; /* with so many, the walk is not given up for the index */
    bool unchecked;  /* with words, as the index has them: the caller reads their tiles */
};
/* Pictures behind the place, by age. */
int kiln_gallery_find(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                      const struct kiln_gallery_place *place, const struct kiln_gallery_want *want,
                      struct kiln_gallery_hits *ret, struct kiln_error *err) KILN_MUST_CHECK;

/* Whether the index of words has all pictures. */
int kiln_gallery_complete(struct kiln_ledger *session, bool *ret,
                          struct kiln_error *err) KILN_MUST_CHECK;

/* When the picture of this job was made, or of the next one that is left. */
int kiln_gallery_time_of(struct kiln_ledger *session, uint64_t job, bool newer, int64_t *ret_ms,
                         struct kiln_error *err) KILN_MUST_CHECK;

/* --- tiles (tiles.c) ---------------------------------------------------------------------------
 */
/* As kiln_gallery_tiles; scores (NULL: none) go with the jobs. */
int kiln_gallery_read_tiles(struct kiln_ledger *session, const struct kiln_gallery_filter *filter,
                            uint64_t batch_id, const uint64_t *jobs, const double *scores,
                            uint32_t count, kiln_each_tile *each, void *arg, uint32_t *ret_rows,
                            struct kiln_error *err) KILN_MUST_CHECK;
/* Keeps of jobs[0 .. *count) those that are the newest of their prompt among the pictures of the
 * question, in their order. */
int kiln_gallery_heads(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                       uint64_t *jobs, uint32_t *count, struct kiln_error *err) KILN_MUST_CHECK;

#endif
