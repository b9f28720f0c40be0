/* gallery.c - see gallery.h. */
#include "tests/support/gallery.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *or_else(const char *text, const char *usual)
{
    return text ? text : usual;
}

/* As a dollar-quoted text of SQL, or NULL. */
static const char *quoted(const char *text, char out[20000])
{
    if (!text)
        return "NULL";
    snprintf(out, 20000, "$q$%s$q$", text);
    return out;
}

uint64_t kiln_test_shown(struct kiln_test_stack *stack, const struct kiln_test_shown *p)
{
    static char sql[90000], prompt[20000], custom_id[20000], style[20000], loras[200];
    unsigned width = p->width ? p->width : 256, height = p->height ? p->height : 256;
    snprintf(loras, sizeof loras, p->lora ? "[{\"name\": \"%s\", \"scale\": 1}]" : "[]",
             or_else(p->lora, ""));
    snprintf(
        sql, sizeof sql,
        "WITH b AS (INSERT INTO batch (pool, name) VALUES ('%s', '%s')"
        "  ON CONFLICT (pool, name) DO UPDATE SET name = excluded.name RETURNING id, pool),"
        " j AS (INSERT INTO job (batch_id, seed, guidance, index, width, height, steps, max_wait_s,"
        "  priority, kind, latents, teleport, embed_metadata, lora_auto, pool, key, token, prompt,"
        "  negative_prompt, tenant, model, loras, lora_set, state, custom_id, style, mode)"
        "  SELECT id, %llu, 0, nextval('job_id_seq'), %u, %u, 8, 0, 0, 0, 0, 0, false, false, pool,"
        "  'k' || nextval('job_id_seq'), 't', %s, '', '%s', '', '%s', '', 2, %s, %s, '%s'"
        "  FROM b RETURNING *),"
        " i AS (INSERT INTO image (job_id, batch_id, created_at, seed, guidance, width, height,"
        "  steps, attempt, wait_ms, text_ms, denoise_ms, decode_ms, encode_ms, upload_ms, pool,"
        "  prompt, negative_prompt, prompt_hash, model, model_name, model_hash, loras, lora_set,"
        "  tenant, worker, style, mode, safety_flag) SELECT id, batch_id, %s, seed, 0, width,"
        "  height, 8, 1, 1, 2, 3, 4, 5, 6, pool, prompt, '',"
        "  encode(sha256(convert_to(prompt, 'UTF8')), 'hex'), '', '%s', 'hash', loras,"
        "  '', tenant, 'w0', style, mode, %s FROM j RETURNING job_id)"
        " INSERT INTO object (job_id, bytes, width, height, role, key, sha256, content_type)"
        " SELECT job_id, 100 * (4 - n), 256 / n, 256 / n, role, job_id || '/' || role, 's',"
        "  'image/webp' FROM i, unnest(ARRAY[%s]::text[]) WITH ORDINALITY o (role, n)"
        " RETURNING job_id",
        or_else(p->pool, "p"), or_else(p->batch, "b"), p->seed, width, height,
        quoted(or_else(p->prompt, "a picture"), prompt), or_else(p->tenant, "ann"), loras,
        quoted(p->custom_id, custom_id), quoted(p->style, style), or_else(p->mode, ""),
        or_else(p->created, "now()"), or_else(p->model, "tiny"), or_else(p->level, "NULL"),
        or_else(p->objects, "'full', '512', '256'"));
    return (uint64_t)kiln_test_count(stack, sql);
}

void kiln_test_many_shown(struct kiln_test_stack *stack)
{
    free(kiln_test_sql(
        stack,
        "INSERT INTO batch (pool, name) VALUES ('p', 'many');"
        " WITH j AS (INSERT INTO job (batch_id, seed, guidance, index, width, height, steps,"
        "  max_wait_s, priority, kind, latents, teleport, embed_metadata, lora_auto, pool, key,"
        "  token, prompt, negative_prompt, tenant, model, loras, lora_set, state)"
        "  SELECT (SELECT id FROM batch WHERE name = 'many'), n, 0, n, 256, 256, 8, 0, 0, 0, 0, 0,"
        "  false, false, 'p', 'm' || n, 't', concat_ws(' ', 'thing', CASE WHEN n % 3 = 0 THEN"
        "  'round' END, CASE WHEN n % 100 = 7 THEN 'odd' || repeat(' odd', n / 1000) END,"
        "  CASE WHEN n % 20000 = 9 THEN 'rare' END, 'n' || n), '', 'eve', '', '[]', '', 2"
        "  FROM generate_series(1, 60000) n RETURNING *)"
        " INSERT INTO image (job_id, batch_id, created_at, seed, guidance, width, height, steps,"
        "  attempt, wait_ms, text_ms, denoise_ms, decode_ms, encode_ms, upload_ms, pool, prompt,"
        "  negative_prompt, prompt_hash, model, model_name, model_hash, loras, lora_set, tenant,"
        "  worker) SELECT id, batch_id, now() - (60000 - index) * interval '10 seconds', seed, 0,"
        "  256, 256, 8, 1, 0, 0, 0, 0, 0, 0, pool, prompt, '',"
        "  encode(sha256(convert_to(prompt, 'UTF8')), 'hex'), '', 'm', 'h', '[]', '',"
        "  tenant, 'w' FROM j"));
    free(kiln_test_sql(
        stack, "INSERT INTO object (job_id, bytes, width, height, role, key, sha256, content_type)"
               " SELECT job_id, 1, 256, 256, 'full', 'm' || job_id, 's', 'image/webp' FROM image"
               " WHERE tenant = 'eve'"));
}
