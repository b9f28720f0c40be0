/* cache.c - see cache.h. */
#include "storage/ledger/read/cache.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/job/line.h"
#include "storage/ledger/internal.h"

#define HASH_TEXT_MAX 65

/* What the pool renders with now, by the names in jobs: the weights of the newest latent or
 * picture, and the LoRA files of the newest latent.  Latents rendered before a model or LoRA was
 * replaced under its name do not count.  Only the newest rows are read; for a name in none of them
 * any weights count. */
#define DRAWN_NOW                                                                                  \
    "WITH newest AS MATERIALIZED (SELECT l.model, l.model_hash, l.lora_files, l.created_at"        \
    "  FROM (SELECT * FROM latent ORDER BY job_id DESC LIMIT 2000) l JOIN job j ON j.id = "        \
    "l.job_id"                                                                                     \
    "  WHERE j.pool = $1::text),"                                                                  \
    " now_drawn AS MATERIALIZED (SELECT DISTINCT ON (model) model, model_hash FROM ("              \
    "  (SELECT model, model_hash, created_at FROM newest)"                                         \
    "  UNION ALL (SELECT model, model_hash, created_at FROM (SELECT * FROM image"                  \
    "    ORDER BY job_id DESC LIMIT 2000) i WHERE i.pool = $1)) d"                                 \
    "  ORDER BY model, created_at DESC),"                                                          \
    " now_files AS MATERIALIZED (SELECT DISTINCT ON (split_part(file, ':', 1))"                    \
    "  split_part(file, ':', 1) AS name, file FROM newest, unnest(lora_files) file"                \
    "  ORDER BY 1, created_at DESC) "

/* The jobs of a key are found by key, not by walking all jobs from the newest one: OFFSET 0 keeps
 * the order by id out of the inner query.  Wanted states are there if the same were asked for, or
 * if the whole trajectory is; the finished latent if the file ends with it. */
#define LOOK_SQL                                                                                   \
    DRAWN_NOW                                                                                      \
    "SELECT CASE WHEN EXISTS (SELECT FROM latent l JOIN job j ON j.id = l.job_id"                  \
    "   WHERE l.prompt_hash = g.prompt_hash AND l.width = g.width AND l.height = g.height"         \
    "   AND l.mode = ''"                                                                           \
    "   AND l.model = g.model AND l.lora_set = g.lora_set AND j.pool = $1::text"                   \
    "   AND l.model_hash = coalesce((SELECT model_hash FROM now_drawn m WHERE m.model = g.model)," \
    "    l.model_hash)"                                                                            \
    "   AND NOT EXISTS (SELECT FROM unnest(l.lora_files) f (file) JOIN now_files n"                \
    "    ON n.name = split_part(f.file, ':', 1) AND n.file <> f.file)"                             \
    "   AND (g.seed = '' OR l.seed = g.seed::numeric)"                                             \
    "   AND CASE WHEN g.sigmas <> '' THEN j.sigmas = g.sigmas OR (j.latents = 1 AND j.sigmas = "   \
    "'')"                                                                                          \
    "       WHEN g.latents = 1 THEN j.latents = 1 AND j.sigmas = '' ELSE l.sigma = 0 END) THEN 1"  \
    "  WHEN n.state IN " KILN_SQL_UNFINISHED " THEN 2"                                             \
    "  WHEN n.state IN (" KILN_SQL_FAILED ", " KILN_SQL_CANCELLED ") THEN 3"                       \
    "  WHEN n.state = " KILN_SQL_DONE " THEN 4"                                                    \
    "  ELSE 0 END, coalesce(n.id, 0)"                                                              \
    " FROM unnest($2::text[], $3::text[], $4::integer[], $5::integer[], $6::text[], $7::text[],"   \
    "  $8::text[], $9::text[], $10::smallint[]) WITH ORDINALITY AS g (key, prompt_hash, width,"    \
    "  height, model, lora_set, seed, sigmas, latents, place)"                                     \
    " LEFT JOIN batch b ON b.pool = $1 AND b.name = '" KILN_CACHE_BATCH "'"                        \
    " LEFT JOIN LATERAL (SELECT id, state FROM (SELECT id, state FROM job"                         \
    "   WHERE batch_id = b.id AND key >= g.key AND key < g.key || ';' OFFSET 0) k"                 \
    "  ORDER BY id DESC LIMIT 1) n ON true ORDER BY g.place"

int kiln_ledger_cache_look(struct kiln_ledger *ledger, const char *pool,
                           const struct kiln_cache_want *wants, size_t count,
                           struct kiln_cache_found *ret, struct kiln_error *err)
{
    static const struct kiln_statement look = {"cache_look", LOOK_SQL};
    char hash[HASH_TEXT_MAX], set[KILN_LORA_SET_MAX], sigmas[KILN_SIGMAS_TEXT_MAX], seed[24];
    struct kiln_params params = {0};
    PGresult *rows;
#define JOB wants[i].job
    KILN_BIND(&params, pool);
    KILN_BIND_COLUMN(&params, TEXT, count, wants[i].key);
    KILN_BIND_COLUMN(&params, TEXT, count,
                     (kiln_prompt_hash(kiln_job_drawn(JOB), JOB->negative_prompt, hash), hash));
    KILN_BIND_COLUMN(&params, INT4, count, JOB->width);
    KILN_BIND_COLUMN(&params, INT4, count, JOB->height);
    KILN_BIND_COLUMN(&params, TEXT, count, JOB->model);
    KILN_BIND_COLUMN(&params, TEXT, count,
                     (kiln_lora_set_key(JOB->loras, JOB->lora_count, set, sizeof set), set));
    KILN_BIND_COLUMN(&params, TEXT, count,
                     (snprintf(seed, sizeof seed, "%llu", (unsigned long long)JOB->seed),
                      wants[i].any_seed ? "" : seed));
    KILN_BIND_COLUMN(
        &params, TEXT, count,
        (kiln_sigmas_text(JOB->sigmas, JOB->sigma_count, sigmas, sizeof sigmas), sigmas));
    KILN_BIND_COLUMN(&params, INT2, count, JOB->latents);
    int rc = kiln_ledger_run(ledger, &look, &params, &rows, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < count; i++)
        KILN_READ(rows, (int)i, 0, ret[i].state, ret[i].job);
    PQclear(rows);
    return 0;
}

/* --- all of it -------------------------------------------------------------------------------- */

/* $1 pool, $2 the prompt hash to go on behind.  A page ends with a prompt, never within one: then
 * prompts can be counted page by page.  Every row says where the next page begins and whether there
 * is one; without a latent of this pool that is all it says. */
#define STAT_PAGE "2000"
#define STAT_SQL                                                                                   \
    "WITH page AS MATERIALIZED (SELECT * FROM latent WHERE prompt_hash > $2::text"                 \
    "  ORDER BY prompt_hash LIMIT " STAT_PAGE                                                      \
    "), last AS (SELECT max(prompt_hash) AS at, count(*) = " STAT_PAGE " AS more FROM page"        \
    "), whole AS (SELECT * FROM page WHERE prompt_hash <> (SELECT at FROM last)"                   \
    "  UNION ALL SELECT * FROM latent WHERE prompt_hash = (SELECT at FROM last)"                   \
    "), summed AS (SELECT l.model, l.model_hash, l.width, l.height, l.lora_set, count(*),"         \
    "  count(DISTINCT l.prompt_hash) AS prompts, sum(l.states)::bigint,"                           \
    "  sum(o.bytes)::bigint, coalesce(sum(l.gpu_ms), 0)::float8 / 1000,"                           \
    "  count(*) FILTER (WHERE j.batch_id = (SELECT b.id FROM batch b WHERE b.pool = $1::text"      \
    "   AND b.name = '" KILN_CACHE_BATCH "'))"                                                     \
    "  FROM whole l JOIN object o ON o.key = l.key JOIN job j ON j.id = l.job_id"                  \
    "  WHERE j.pool = $1 AND " KILN_SQL_WHOLE("l") " GROUP BY 1, 2, 3, 4, 5"                       \
    ") SELECT s.*, last.at, last.more FROM last LEFT JOIN summed s ON true"
#define STAT_AT 11 /* the columns behind those of the sums */
#define STAT_MORE 12

struct sums {
    struct kiln_cache_row *rows;
    size_t count, merged, room; /* the first `merged` are all different */
};

static int by_group(const void *a, const void *b)
{
    const struct kiln_cache_row *x = a, *y = b;
    int order = strcmp(x->model, y->model);
    order = order ? order : strcmp(x->model_hash, y->model_hash);
    order = order ? order : (x->width > y->width) - (x->width < y->width);
    order = order ? order : (x->height > y->height) - (x->height < y->height);
    return order ? order : strcmp(x->lora_set, y->lora_set);
}

static int by_latents(const void *a, const void *b)
{
    const struct kiln_cache_row *x = a, *y = b;
    const int order = (x->latents < y->latents) - (x->latents > y->latents);
    return order ? order : by_group(a, b);
}

/* One row a group. */
static void merge(struct sums *sums)
{
    size_t out = 0;
    if (sums->count > 0)
        qsort(sums->rows, sums->count, sizeof *sums->rows, by_group);
    for (size_t i = 0; i < sums->count; i++) {
        const struct kiln_cache_row *row = &sums->rows[i];
        struct kiln_cache_row *into = out > 0 ? &sums->rows[out - 1] : NULL;
        if (!into || by_group(into, row) != 0) {
            sums->rows[out++] = *row;
            continue;
        }
        into->latents += row->latents;
        into->prompts += row->prompts;
        into->states += row->states;
        into->bytes += row->bytes;
        into->gpu_seconds += row->gpu_seconds;
        into->built += row->built;
    }
    sums->count = sums->merged = out;
}

/* A free row; groups are merged before there is more room, which then doubles what they take. */
static struct kiln_cache_row *next_row(struct sums *sums)
{
    if (sums->count == sums->room) {
        merge(sums);
        const size_t room = sums->merged < 64 ? 128 : 2 * sums->merged;
        struct kiln_cache_row *grown = realloc(sums->rows, room * sizeof *grown);
        if (!grown)
            return NULL;
        sums->rows = grown;
        sums->room = room;
    }
    return &sums->rows[sums->count++];
}

static int add_row(struct sums *sums, const PGresult *rows, int row, struct kiln_error *err)
{
    struct kiln_cache_row *cache = next_row(sums);
    if (!cache)
        return kiln_fail(err, KILN_NO_MEMORY, "ledger: no memory for the groups of the cache");
    KILN_READ(rows, row, 0, cache->model, cache->model_hash, cache->width, cache->height,
              cache->lora_set, cache->latents, cache->prompts, cache->states, cache->bytes,
              cache->gpu_seconds, cache->built);
    return 0;
}

/* One page; *after becomes the prompt hash to go on behind. */
static int sum_page(struct kiln_ledger *ledger, const char *pool, char after[HASH_TEXT_MAX],
                    struct sums *sums, bool *ret_more, struct kiln_error *err)
{
    static const struct kiln_statement page = {"cache", STAT_SQL};
    struct kiln_params params = {0};
    PGresult *rows;
    KILN_BIND(&params, pool, after);
    int rc = kiln_ledger_run(ledger, &page, &params, &rows, err);
    if (rc)
        return rc;
    for (int row = 0; row < PQntuples(rows) && rc == 0; row++)
        if (kiln_row_text(rows, row, 0))
            rc = add_row(sums, rows, row, err);
    *ret_more = kiln_row_bool(rows, 0, STAT_MORE);
    if (*ret_more)
        snprintf(after, HASH_TEXT_MAX, "%s", kiln_row_text(rows, 0, STAT_AT));
    PQclear(rows);
    return rc;
}

int kiln_ledger_cache(struct kiln_ledger *ledger, const char *pool, kiln_each_cache *each,
                      void *arg, struct kiln_error *err)
{
    struct sums sums = {0};
    char after[HASH_TEXT_MAX] = "";
    int rc = 0;
    for (bool more = true; more && rc == 0;)
        rc = sum_page(ledger, pool, after, &sums, &more, err);
    merge(&sums);
    if (sums.count > 0)
        qsort(sums.rows, sums.count, sizeof *sums.rows, by_latents);
    for (size_t i = 0; i < sums.count && rc == 0; i++)
        rc = each(arg, &sums.rows[i], err);
    free(sums.rows);
    return rc;
}

/* --- hits ------------------------------------------------------------------------------------- */

static int read_hits(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_hits_row hits = {0};
    KILN_READ(rows, row, 0, hits.hit, hits.mode, hits.fallback, hits.pictures, hits.steps,
              hits.seconds);
    return ((kiln_each_hits *)caller->each)(caller->arg, &hits, err);
}

int kiln_ledger_hits(struct kiln_ledger *ledger, const char *pool, kiln_each_hits *each, void *arg,
                     struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "cache_hits",
        "SELECT hit, CASE WHEN fallback IS NULL THEN mode ELSE '' END, coalesce(fallback, ''),"
        " count(*), sum(" KILN_SQL_SAVED_STEPS "), sum(" KILN_SQL_SAVED_SECONDS ")"
        " FROM image WHERE donor IS NOT NULL AND pool = $1::text GROUP BY 1, 2, 3 ORDER BY 1, 2, "
        "3"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    return kiln_ledger_run_each(ledger, &statement, &params, read_hits, KILN_CALLER(each, arg),
                                err);
}

static int read_popular(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_popular_row popular = {0};
    const char *seeds;
    char *end;
    KILN_READ(rows, row, 0, popular.job, popular.prompt_hash, popular.model_hash, popular.width,
              popular.height, popular.pictures, popular.step_s, seeds);
    for (const char *at = seeds; at && *at && popular.donors < KILN_POPULAR_SEEDS; at = end) {
        popular.seeds[popular.donors++] = strtoull(at, &end, 10);
        if (end == at)
            return kiln_fail(err, KILN_CORRUPT, "ledger: a seed of job %llu is no number",
                             (unsigned long long)popular.job);
    }
    return ((kiln_each_popular *)caller->each)(caller->arg, &popular, err);
}

/* $2 steps, $3 prompts, $4 donors of a prompt, $5 whether coarse ones count.  Only texts of fixed
 * length are grouped.  The pictures come from the index image_popular alone, whose condition is
 * repeated here: their rows are several times as large.  A prompt may have very many latents, so the
 * first $4 that are found end the look; a caller that wants so many needs no others. */
#define POPULAR_PICTURES "1000000"
#define POPULAR_SQL                                                                                \
    DRAWN_NOW                                                                                      \
    ", recent AS (SELECT job_id, prompt_hash, width, height, model, denoise_ms,"                   \
    "   coalesce(forwards, steps) AS forwards FROM image WHERE pool = $1 AND lora_set = ''"        \
    "   AND guidance = 0 AND steps = $2::integer AND mode NOT LIKE '%variety%'"                    \
    "   AND (mode = '' OR mode LIKE 'coarse=%' OR mode LIKE 'teleport=%')"                         \
    "  ORDER BY job_id DESC LIMIT " POPULAR_PICTURES                                               \
    "), popular AS (SELECT max(job_id) AS job_id, prompt_hash, width, height, model,"              \
    "   count(*) AS n, coalesce(sum(denoise_ms::float8) / nullif(sum(forwards::float8), 0), 0)"    \
    "   / 1000 AS step_s FROM recent GROUP BY 2, 3, 4, 5 HAVING count(*) > 1"                      \
    "  ORDER BY count(*) * coalesce(sum(denoise_ms::float8)"                                       \
    "   / nullif(sum(forwards::float8), 0), 0) DESC, prompt_hash LIMIT $3::integer"                \
    ") SELECT p.job_id, p.prompt_hash, coalesce(m.model_hash, ''), p.width, p.height, p.n,"        \
    "  p.step_s, array_to_string(ARRAY(SELECT l.seed FROM latent l JOIN job j ON j.id = l.job_id"  \
    "   WHERE l.prompt_hash = p.prompt_hash AND l.width = p.width AND l.height = p.height"         \
    "   AND l.model = p.model AND l.steps = $2 AND l.lora_set = '' AND l.guidance = 0"             \
    "   AND (l.mode = '' OR $5::boolean AND " KILN_SQL_WHOLE("l") ")"                              \
    "   AND l.sigma = 0 AND j.pool = $1"                                                           \
    "   AND l.model_hash = coalesce(m.model_hash, l.model_hash) LIMIT $4::integer), ' ')"          \
    " FROM popular p LEFT JOIN now_drawn m ON m.model = p.model"

int kiln_ledger_popular(struct kiln_ledger *ledger, const char *pool, uint32_t steps, uint32_t top,
                        uint32_t donors, bool coarse, kiln_each_popular *each, void *arg,
                        struct kiln_error *err)
{
    static const struct kiln_statement statement = {"cache_popular", POPULAR_SQL};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, steps, 4 * top + 1000,
              donors < KILN_POPULAR_SEEDS ? donors : (uint32_t)KILN_POPULAR_SEEDS, coarse);
    return kiln_ledger_run_each(ledger, &statement, &params, read_popular, KILN_CALLER(each, arg),
                                err);
}

int kiln_ledger_variety(struct kiln_ledger *ledger, const char *pool, uint32_t bits,
                        uint32_t quality, struct kiln_variety *ret, struct kiln_error *err)
{
    static_assert(KILN_VARIETY_PICTURES == 10000 && KILN_TELEPORT_AUTO == 2,
                  "the numbers in the statement");
    /* Pictures whose jobs do not ask may be many: no more than 100,000 are passed over. */
    static const struct kiln_statement variety = {
        "cache_variety",
        "WITH newest AS MATERIALIZED (SELECT i.job_id,"
        "   CASE WHEN i.fallback IS NULL THEN i.donor END AS donor FROM (SELECT job_id, donor,"
        "    fallback FROM image WHERE pool = $1::text ORDER BY job_id DESC LIMIT 100000) i"
        "  JOIN job j ON j.id = i.job_id WHERE j.teleport = 2 ORDER BY i.job_id DESC LIMIT 10000"
        "), shares AS (SELECT count(*) AS n FROM newest WHERE donor IS NOT NULL GROUP BY donor"
        "), bits AS (SELECT bit_count(('x' || encode(a.pdq, 'hex'))::bit(256)"
        "   # ('x' || encode(b.pdq, 'hex'))::bit(256)) AS n FROM newest"
        "  JOIN gallery_picture a ON a.job_id = newest.job_id AND a.quality >= $3::integer"
        "  JOIN gallery_picture b ON b.job_id = newest.donor AND b.quality >= $3"
        "  WHERE length(a.pdq) = 32 AND length(b.pdq) = 32"
        ") SELECT (SELECT count(*) FROM newest), coalesce(sum(n), 0)::bigint, count(*),"
        "  coalesce(max(n), 0), (SELECT count(*) FROM bits),"
        "  (SELECT count(*) FROM bits WHERE n <= $2::integer) FROM shares"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, bits, quality);
    return kiln_ledger_ask(
        ledger, &variety, &params,
        KILN_FIELDS(ret->pictures, ret->reused, ret->donors, ret->most, ret->compared, ret->near),
        err);
}
