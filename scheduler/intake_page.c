/* intake_page.c - entries become jobs, or refusals.
 *
 * `kiln enqueue` sends one entry a picture, with its index and key.  Any other client may leave
 * them out and may use count, seed ranges and templates: such a line is expanded here, its jobs are
 * numbered on from what the batch has, and their identity is the custom_id, else the entry's own
 * stream id, followed by the number within the line.
 */
#include "scheduler/intake_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/log.h"
#include "schemas/names.h"
#include "storage/ledger_read.h"

int kiln_page_init(struct kiln_page *page, struct kiln_ledger *ledger, const char *pool,
                   struct kiln_error *err)
{
    memset(page, 0, sizeof(*page));
    page->ledger = ledger;
    page->pool = pool;
    page->expand = kiln_expand_new();
    page->jobs = calloc(KILN_PAGE_JOBS, sizeof(*page->jobs));
    page->ends = calloc(KILN_PAGE_ENTRIES, sizeof(*page->ends));
    if (page->expand && page->jobs && page->ends)
        return 0;
    kiln_page_release(page);
    return kiln_fail(err, KILN_NO_MEMORY, "intake: no memory for a page of jobs");
}

void kiln_page_release(struct kiln_page *page)
{
    if (page->jobs)
        kiln_page_clear(page);
    kiln_expand_free(page->expand);
    free(page->jobs);
    free(page->ends);
    memset(page, 0, sizeof(*page));
}

static void drop_job(struct kiln_new_job *new)
{
    kiln_job_release(&new->job);
    free((char *)new->key);
    free((char *)new->token);
    free((char *)new->entry);
    memset(new, 0, sizeof(*new));
}

static void drop_jobs(struct kiln_page *page)
{
    for (size_t i = 0; i < page->job_count; i++)
        drop_job(&page->jobs[i]);
    page->job_count = 0;
}

void kiln_page_clear(struct kiln_page *page)
{
    drop_jobs(page);
    page->end_count = 0;
    /* The numbering may have run ahead of what was inserted: ask the ledger again. */
    memset(page->batches, 0, sizeof(page->batches));
}

/* --- refusing ------------------------------------------------------------------------------------
 */
static int refuse(struct kiln_page *page, const char *batch, const char *token, const char *key,
                  const char *reason, struct kiln_error *err)
{
    page->refused++;
    return kiln_ledger_refuse(page->ledger, page->pool, batch, token ? token : "", key, reason,
                              err);
}

/* An entry whose batch cannot be read has no place in the ledger: the log is all there is. */
static void unreadable(struct kiln_page *page, const struct kiln_bus_entry *entry,
                       const struct kiln_error *why)
{
    page->unreadable++;
    kiln_log(KILN_LOG_WARNING, "intake_unreadable", kiln_f("entry", "%s", entry->id),
             kiln_f("error", "%s", why->text));
}

static const char *field_of(const struct kiln_bus_entry *entry, const char *name)
{
    for (size_t i = 0; i < entry->field_count; i++)
        if (strcmp(entry->fields[2 * i], name) == 0)
            return entry->fields[2 * i + 1];
    return NULL;
}

/* The protocol was broken, yet the batch (and perhaps the call) may be known. */
static int refuse_malformed(struct kiln_page *page, const struct kiln_bus_entry *entry,
                            const struct kiln_error *why, struct kiln_error *err)
{
    const char *batch = field_of(entry, "batch"), *token = field_of(entry, "token");
    if (!batch || strlen(batch) > KILN_BATCH_NAME_MAX ||
        !kiln_name_valid(batch, strlen(batch), KILN_BATCH_NAME_MAX)) {
        unreadable(page, entry, why);
        return 0;
    }
    bool usable = token && kiln_name_valid(token, strlen(token), KILN_WIRE_ID_MAX);
    return refuse(page, batch, usable ? token : "", entry->id, why->text, err);
}

/* --- the index of jobs that name none -------------------------------------------------------- */
static int next_index(struct kiln_page *page, const char *batch, uint64_t **ret,
                      struct kiln_error *err)
{
    for (uint32_t i = 0; i < KILN_PAGE_BATCHES; i++)
        if (strcmp(page->batches[i].name, batch) == 0) {
            *ret = &page->batches[i].next_index;
            return 0;
        }
    struct kiln_progress progress = {0};
    int rc = kiln_ledger_progress(page->ledger, page->pool, batch, &progress, err);
    if (rc && rc != KILN_NOT_FOUND)
        return rc;
    struct kiln_page_batch *slot = &page->batches[page->batch_turn++ % KILN_PAGE_BATCHES];
    snprintf(slot->name, sizeof(slot->name), "%s", batch);
    slot->next_index = 0;
    for (int state = 0; state < KILN_JOB_STATE_COUNT && rc == 0; state++)
        slot->next_index += progress.jobs.at[state];
    /* Jobs of this page that are not in the ledger yet. */
    for (size_t i = 0; i < page->job_count; i++)
        slot->next_index += strcmp(page->jobs[i].job.batch, batch) == 0;
    *ret = &slot->next_index;
    return 0;
}

/* --- jobs ------------------------------------------------------------------------------------ */
/* Takes over *job whatever happens. */
static int keep_job(struct kiln_page *page, const struct kiln_intake_entry *entry, const char *id,
                    const char *key, struct kiln_job *job, bool has_seed, struct kiln_error *err)
{
    struct kiln_new_job *new = &page->jobs[page->job_count];
    free(job->batch);
    job->batch = strdup(entry->batch);
    *new = (struct kiln_new_job){.job = *job,
                                 .key = strdup(key),
                                 .token = strdup(entry->token ? entry->token : ""),
                                 .entry = strdup(id)};
    if (!new->job.batch || !new->key || !new->token || !new->entry) {
        drop_job(new);
        return kiln_fail(err, KILN_NO_MEMORY, "intake: no memory for a job");
    }
    if (!has_seed)
        new->job.seed = kiln_seed_derive(entry->batch, new->job.index);
    page->job_count++;
    page->offered++;
    return page->job_count == KILN_PAGE_JOBS ? kiln_page_flush(page, err) : 0;
}

/* The line is one picture and says which one: as `kiln enqueue` sends it. */
static int add_picture(struct kiln_page *page, const struct kiln_intake_entry *entry,
                       const char *id, struct kiln_error *err)
{
    struct kiln_job job = {0};
    bool has_seed = false;
    struct kiln_error why;
    int rc = kiln_job_line_parse(entry->job, entry->job_len, &page->context, &job, &has_seed, &why);
    const char *key = entry->key ? entry->key : id;
    if (rc == KILN_NO_MEMORY)
        return kiln_fail(err, rc, "%s", why.text);
    if (rc)
        return refuse(page, entry->batch, entry->token, key, why.text, err);
    job.index = entry->index;
    return keep_job(page, entry, id, key, &job, has_seed, err);
}

static void key_of(char *out, size_t size, const struct kiln_intake_entry *entry, const char *id,
                   const struct kiln_job *job, uint64_t which, uint64_t count)
{
    bool named = job->custom_id && job->custom_id[0];
    const char *base = entry->key ? entry->key : named ? job->custom_id : id;
    if (count == 1)
        snprintf(out, size, "%s", base);
    else
        snprintf(out, size, "%s.%llu", base, (unsigned long long)which);
}

static int add_line(struct kiln_page *page, const struct kiln_intake_entry *entry, const char *id,
                    struct kiln_error *err)
{
    struct kiln_error why;
    int rc = kiln_expand_begin(page->expand, entry->job, entry->job_len, &page->context, &why);
    if (rc == KILN_NO_MEMORY)
        return kiln_fail(err, rc, "%s", why.text);
    if (rc)
        return refuse(page, entry->batch, entry->token, entry->key ? entry->key : id, why.text,
                      err);
    uint64_t count = kiln_expand_count(page->expand), *index = NULL;
    rc = next_index(page, entry->batch, &index, err);
    for (uint64_t which = 0; which < count && rc == 0; which++) {
        struct kiln_job job = {0};
        rc = kiln_expand_job(page->expand, which, &job, err);
        if (rc)
            break;
        job.index = (uint32_t)(*index)++;
        char key[KILN_INTAKE_KEY_MAX + 32];
        key_of(key, sizeof(key), entry, id, &job, which, count);
        rc = keep_job(page, entry, id, key, &job, kiln_expand_has_seed(page->expand), err);
    }
    return rc;
}

static void keep_end(struct kiln_page *page, const struct kiln_intake_entry *entry)
{
    struct kiln_page_end *end = &page->ends[page->end_count++];
    snprintf(end->batch, sizeof(end->batch), "%s", entry->batch);
    snprintf(end->token, sizeof(end->token), "%s", entry->token ? entry->token : "");
    end->announced = entry->end;
}

int kiln_page_add(struct kiln_page *page, const struct kiln_bus_entry *entry,
                  struct kiln_error *err)
{
    struct kiln_intake_entry decoded;
    struct kiln_error why;
    int rc = kiln_intake_decode(entry->fields, entry->lengths, entry->field_count, &decoded, &why);
    if (rc)
        return refuse_malformed(page, entry, &why, err);
    if (decoded.job && decoded.has_index)
        rc = add_picture(page, &decoded, entry->id, err);
    else if (decoded.job)
        rc = add_line(page, &decoded, entry->id, err);
    if (rc == 0 && decoded.has_end && page->end_count < KILN_PAGE_ENTRIES)
        keep_end(page, &decoded);
    return rc;
}

/* --- into the ledger ------------------------------------------------------------------------- */
/* Somewhere in the page is a job that the ledger itself refuses: found by inserting each alone. */
static int flush_singly(struct kiln_page *page, struct kiln_error *err)
{
    for (size_t i = 0; i < page->job_count; i++) {
        struct kiln_new_job *new = &page->jobs[i];
        uint64_t inserted = 0;
        struct kiln_error why;
        int rc = kiln_ledger_insert_jobs(page->ledger, page->pool, new, 1, &inserted, &why);
        if (rc == KILN_BAD_INPUT) {
            page->offered--;
            rc = refuse(page, new->job.batch, new->token, new->key, why.text, err);
        } else if (rc) {
            rc = kiln_fail(err, rc, "%s", why.text);
        }
        if (rc)
            return rc;
        page->inserted += inserted;
    }
    return 0;
}

int kiln_page_flush(struct kiln_page *page, struct kiln_error *err)
{
    if (page->job_count == 0)
        return 0;
    uint64_t inserted = 0;
    int rc = kiln_ledger_insert_jobs(page->ledger, page->pool, page->jobs, page->job_count,
                                     &inserted, err);
    if (rc == KILN_BAD_INPUT)
        rc = flush_singly(page, err);
    else if (rc == 0)
        page->inserted += inserted;
    if (rc == 0)
        drop_jobs(page);
    return rc;
}
