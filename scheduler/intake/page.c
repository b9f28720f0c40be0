/* page.c - entries become jobs, or refusals.
 *
 * `kiln enqueue` sends one entry a picture, with its index and key.  Any other client may leave
 * them out and may use count, seed ranges and templates: such a line is expanded here, its jobs are
 * numbered by the ledger when the page goes in, and their identity is the custom_id, else the
 * entry's own stream id, followed by the number within the line.
 */
#include "scheduler/intake/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/intake/named.h"
#include "schemas/clock.h"
#include "schemas/names.h"
#include "schemas/room.h"
#include "schemas/telemetry/log.h"
#include "schemas/text/utf8.h"
#include "storage/ledger/queue/source.h"

int kiln_page_init(struct kiln_page *page, struct kiln_ledger *ledger, const char *pool,
                   struct kiln_error *err)
{
    memset(page, 0, sizeof(*page));
    page->ledger = ledger;
    page->pool = pool;
    page->expand = kiln_expand_new();
    page->jobs = calloc(KILN_PAGE_JOBS, sizeof(*page->jobs));
    page->unnumbered = calloc(KILN_PAGE_JOBS, sizeof(*page->unnumbered));
    page->ends = calloc(KILN_PAGE_ENTRIES, sizeof(*page->ends));
    page->out = calloc(KILN_PAGE_JOBS, sizeof(*page->out));
    if (page->expand && page->jobs && page->unnumbered && page->ends && page->out &&
        kiln_queue_quota_new(ledger, pool, &page->quota, err) == 0)
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
    free(page->unnumbered);
    free(page->ends);
    free(page->out);
    free(page->asides);
    kiln_queue_quota_free(page->quota);
    memset(page, 0, sizeof(*page));
}

static void drop_job(struct kiln_new_job *new)
{
    kiln_job_release(&new->job);
    free((char *)new->key);
    free((char *)new->token);
    free((char *)new->entry);
    free((char *)new->source);
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
    struct kiln_error why;
    (void)!kiln_page_collect(page, &why);
    page->failed = false;
    drop_jobs(page);
    page->end_count = page->aside_count = 0;
}

bool kiln_page_waits(int code)
{
    /* A plan from before a migration, or a damaged table: no entry is at fault, and none may be
     * lost to it. */
    return kiln_code_retry(code) != KILN_RETRY_NEVER || code == KILN_UNSUPPORTED ||
           code == KILN_CORRUPT;
}

/* --- refusing --------------------------------------------------------------------------------- */
static int set_aside(struct kiln_page *page, const char *id, const char *batch, const char *token,
                     const char *reason, struct kiln_error *err)
{
    if (page->aside_count > 0 && strcmp(page->asides[page->aside_count - 1].entry, id) == 0)
        return 0; /* another job of the same line */
    struct kiln_page_aside *at =
        kiln_room(page->asides, page->aside_count, &page->aside_room, sizeof(*at));
    if (!at)
        return kiln_fail(err, KILN_NO_MEMORY, "intake: no memory for a page");
    page->asides = at;
    at += page->aside_count++;
    snprintf(at->entry, sizeof(at->entry), "%s", id);
    snprintf(at->batch, sizeof(at->batch), "%s", batch);
    snprintf(at->token, sizeof(at->token), "%s", token ? token : "");
    kiln_utf8_copy(at->reason, sizeof(at->reason), reason);
    kiln_log(KILN_LOG_WARNING, "intake_set_aside", kiln_f("entry", "%s", id),
             kiln_f("batch", "%s", batch), kiln_f("error", "%s", reason));
    return 0;
}

/* In the ledger, with the batch; set aside if the ledger does not take even that. */
static int refuse(struct kiln_page *page, const char *id, const char *batch, const char *token,
                  const char *key, const char *reason, struct kiln_error *err)
{
    struct kiln_error why;
    int rc =
        kiln_ledger_refuse(page->ledger, page->pool, batch, token ? token : "", key, reason, &why);
    if (rc && kiln_page_waits(rc))
        return kiln_fail(err, rc, "%s", why.text);
    page->refused++;
    return rc ? set_aside(page, id, batch, token, reason, err) : 0;
}

/* An entry has no place in the ledger if its batch cannot be read or is one of Kiln's own; the
 * receipt of such a call says so. */
static int unreadable(struct kiln_page *page, const struct kiln_bus_entry *entry, const char *batch,
                      const struct kiln_error *why, struct kiln_error *err)
{
    page->unreadable++;
    return set_aside(page, entry->id, batch, NULL, why->text, err);
}

/* The value of a field if it is a valid name, else NULL.  Bytes after a NUL count: the name before
 * it may be another client's. */
static const char *name_of(const struct kiln_bus_entry *entry, const char *field, size_t max)
{
    for (size_t i = 0; i < entry->field_count; i++)
        if (strcmp(entry->fields[2 * i], field) == 0)
            return kiln_name_valid(entry->fields[2 * i + 1], entry->lengths[2 * i + 1], max)
                       ? entry->fields[2 * i + 1]
                       : NULL;
    return NULL;
}

/* The protocol was broken, yet the batch (and perhaps the call) may be known. */
static int refuse_malformed(struct kiln_page *page, const struct kiln_bus_entry *entry,
                            const struct kiln_error *why, struct kiln_error *err)
{
    const char *batch = name_of(entry, "batch", KILN_BATCH_NAME_MAX);
    const char *token = name_of(entry, "token", KILN_WIRE_ID_MAX);
    if (!batch)
        return unreadable(page, entry, "", why, err);
    if (kiln_name_reserved(batch))
        return unreadable(page, entry, batch, why, err);
    return refuse(page, entry->id, batch, token, entry->id, why->text, err);
}

/* --- jobs ------------------------------------------------------------------------------------ */
/* Takes over *job whatever happens. */
static int keep_job(struct kiln_page *page, const struct kiln_intake_entry *entry, const char *id,
                    const char *key, struct kiln_job *job, bool has_seed, struct kiln_error *err)
{
    struct kiln_new_job *new = &page->jobs[page->job_count];
    free(job->batch);
    job->batch = strdup(entry->batch);
    if (!has_seed)
        job->seed = kiln_seed_derive(entry->batch, key);
    *new = (struct kiln_new_job){.job = *job,
                                 .key = strdup(key),
                                 .token = strdup(entry->token ? entry->token : ""),
                                 .entry = strdup(id),
                                 .source = entry->source ? strdup(entry->source) : NULL};
    if (!new->job.batch || !new->key || !new->token || !new->entry ||
        (entry->source && !new->source)) {
        drop_job(new);
        return kiln_fail(err, KILN_NO_MEMORY, "intake: no memory for a job");
    }
    page->unnumbered[page->job_count++] = !entry->has_index;
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
        return refuse(page, id, entry->batch, entry->token, key, why.text, err);
    job.index = entry->index;
    return keep_job(page, entry, id, key, &job, has_seed, err);
}

static int add_line(struct kiln_page *page, const struct kiln_intake_entry *entry, const char *id,
                    struct kiln_error *err)
{
    struct kiln_error why;
    int rc = kiln_expand_begin(page->expand, entry->job, entry->job_len, &page->context, &why);
    if (rc == KILN_NO_MEMORY)
        return kiln_fail(err, rc, "%s", why.text);
    if (rc)
        return refuse(page, id, entry->batch, entry->token, entry->key ? entry->key : id, why.text,
                      err);
    uint64_t count = kiln_expand_count(page->expand);
    for (uint64_t which = 0; which < count && rc == 0; which++) {
        struct kiln_job job = {0};
        rc = kiln_expand_job(page->expand, which, &job, &why);
        if (rc == KILN_NO_MEMORY)
            return kiln_fail(err, rc, "%s", why.text);
        if (rc) /* of a line that makes one: begin has looked at all of others */
            return refuse(page, id, entry->batch, entry->token, entry->key ? entry->key : id,
                          why.text, err);
        char key[KILN_INTAKE_KEY_MAX + 32];
        char number[24] = "";
        bool named = job.custom_id && job.custom_id[0];
        if (count > 1)
            snprintf(number, sizeof(number), ".%llu", (unsigned long long)which);
        snprintf(key, sizeof(key), "%s%s",
                 entry->key ? entry->key
                 : named    ? job.custom_id
                            : id,
                 number);
        rc = keep_job(page, entry, id, key, &job, kiln_expand_has_seed(page->expand), err);
    }
    return rc;
}

/* Keys that the file of a batch no longer has.  Jobs of the page are older entries of the stream.
 */
static int mark_gone(struct kiln_page *page, const struct kiln_intake_entry *entry, const char *id,
                     struct kiln_error *err)
{
    struct kiln_error why;
    char *keys = strdup(entry->gone), *rest = keys, *key;
    size_t count = 0, lines = 1;
    for (const char *c = entry->gone; *c; c++)
        lines += *c == '\n';
    const char **list = calloc(lines, sizeof(*list));
    int rc = keys && list ? kiln_page_flush(page, err)
                          : kiln_fail(err, KILN_NO_MEMORY, "intake: no memory for the keys");
    while (rc == 0 && (key = strsep(&rest, "\n")) != NULL)
        if (key[0])
            list[count++] = key;
    int marked =
        rc ? 0 : kiln_ledger_gone(page->ledger, page->pool, entry->batch, list, count, &why);
    free(list);
    free(keys);
    if (marked && kiln_page_waits(marked))
        return kiln_fail(err, marked, "%s", why.text);
    return marked ? set_aside(page, id, entry->batch, entry->token, why.text, err) : rc;
}

int kiln_page_add(struct kiln_page *page, const struct kiln_bus_entry *entry,
                  struct kiln_error *err)
{
    struct kiln_intake_entry decoded;
    struct kiln_error why;
    int rc = kiln_intake_decode(entry->fields, entry->lengths, entry->field_count, &decoded, &why);
    if (rc)
        return refuse_malformed(page, entry, &why, err);
    if (kiln_name_reserved(decoded.batch)) {
        kiln_fail(&why, KILN_BAD_INPUT, "batch \"%s\": " KILN_NAMES_RESERVED, decoded.batch);
        rc = unreadable(page, entry, decoded.batch, &why, err);
    } else if (decoded.job && decoded.has_index)
        rc = add_picture(page, &decoded, entry->id, err);
    else if (decoded.job)
        rc = add_line(page, &decoded, entry->id, err);
    else if (decoded.gone)
        rc = mark_gone(page, &decoded, entry->id, err);
    if (rc == 0 && decoded.has_end && page->end_count < KILN_PAGE_ENTRIES) {
        struct kiln_page_end *end = &page->ends[page->end_count++];
        snprintf(end->batch, sizeof(end->batch), "%s", decoded.batch);
        snprintf(end->token, sizeof(end->token), "%s", decoded.token ? decoded.token : "");
        snprintf(end->entry, sizeof(end->entry), "%s", entry->id);
        snprintf(end->on_done, sizeof(end->on_done), "%s", decoded.on_done ? decoded.on_done : "");
        end->announced = decoded.end;
    }
    return rc;
}

/* --- refusing jobs of the page ---------------------------------------------------------------- */
/* The ledger does not take this job, alone. */
static int refuse_job(struct kiln_page *page, size_t at, const char *reason, struct kiln_error *err)
{
    const struct kiln_new_job *new = &page->jobs[at];
    page->offered--;
    int rc = set_aside(page, new->entry, new->job.batch, new->token, reason, err);
    return rc ? rc : refuse(page, new->entry, new->job.batch, new->token, new->key, reason, err);
}

/* Takes those that are marked out of the page. */
static void drop_marked(struct kiln_page *page)
{
    size_t kept = 0;
    for (size_t i = 0; i < page->job_count; i++) {
        if (page->out[i]) {
            drop_job(&page->jobs[i]);
            continue;
        }
        page->jobs[kept] = page->jobs[i];
        page->unnumbered[kept++] = page->unnumbered[i];
    }
    page->job_count = kept;
}

/* --- LoRAs ------------------------------------------------------------------------------------ */
static int choose_for(void *arg, size_t at, struct kiln_error *err)
{
    struct kiln_page *page = arg;
    struct kiln_new_job *new = &page->jobs[at];
    struct kiln_error why;
    int rc = kiln_routes_choose(page->routes, &new->job, &why);
    page->out[at] = rc != 0;
    if (rc == 0)
        return 0;
    if (kiln_page_waits(rc) || rc == KILN_NO_MEMORY)
        return kiln_fail(err, rc, "%s", why.text);
    page->offered--;
    return refuse(page, new->entry, new->job.batch, new->token, new->key, why.text, err);
}

/* By the registry as it is now. */
static int choose_loras(struct kiln_page *page, struct kiln_error *err)
{
    if (!kiln_routes_are_wanted(page->jobs, page->job_count))
        return 0;
    kiln_routes_turn(page->routes);
    int rc = kiln_routes_choose_all(page->routes, page->jobs, page->job_count, choose_for, page,
                                    err);
    if (rc == 0)
        drop_marked(page);
    return rc;
}

/* --- the index of each job ------------------------------------------------------------------- */
/* The jobs of one batch that have no number yet, in the order of the stream. */
struct unnumbered {
    size_t *at;        /* in the page */
    const char **keys; /* of each */
    int64_t *indexes;  /* in: what each names, or -1; out: what it gets, or -1 */
    bool *done;        /* by job of the page: it has been in such a list */
};

/* Numbers the batch of job `first`: all of its jobs, since the ledger sees the wishes of one call
 * together, but none of another call's. */
static int number_batch(struct kiln_page *page, size_t first, struct unnumbered *list,
                        struct kiln_error *err)
{
    const char *batch = page->jobs[first].job.batch;
    struct kiln_error why;
    size_t count = 0;
    for (size_t i = first; i < page->job_count; i++) {
        const struct kiln_new_job *new = &page->jobs[i];
        if (list->done[i] || strcmp(new->job.batch, batch) != 0)
            continue;
        list->done[i] = true;
        list->keys[count] = new->key;
        list->indexes[count] = page->unnumbered[i] ? -1 : (int64_t) new->job.index;
        list->at[count++] = i;
    }
    int refused = kiln_ledger_number(page->ledger, page->pool, batch, list->keys, list->indexes,
                                     count, list->indexes, &why);
    if (refused && kiln_page_waits(refused))
        return kiln_fail(err, refused, "%s", why.text);
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        const size_t at = list->at[i];
        struct kiln_new_job *new = &page->jobs[at];
        page->out[at] = refused || list->indexes[i] < 0;
        if (refused) {
            rc = refuse_job(page, at, why.text, err);
        } else if (page->out[at]) {
            char reason[KILN_BATCH_NAME_MAX + 128];
            snprintf(reason, sizeof(reason), KILN_BATCH_FULL, batch, UINT32_MAX);
            page->offered--;
            rc = refuse(page, new->entry, batch, new->token, new->key, reason, err);
        } else {
            new->job.index = (uint32_t)list->indexes[i];
        }
    }
    return rc;
}

/* The ledger gives the numbers out, since another scheduler may take jobs in at the same moment: a
 * leader that lost its lock and has not noticed. */
static int number_jobs(struct kiln_page *page, struct kiln_error *err)
{
    const size_t n = page->job_count + 1;
    struct unnumbered list = {calloc(n, sizeof(*list.at)), calloc(n, sizeof(*list.keys)),
                              calloc(n, sizeof(*list.indexes)), calloc(n, sizeof(*list.done))};
    int rc = list.at && list.keys && list.indexes && list.done
                 ? 0
                 : kiln_fail(err, KILN_NO_MEMORY, "intake: no memory for a page");
    for (size_t first = 0; first < page->job_count && rc == 0; first++)
        if (!list.done[first])
            rc = number_batch(page, first, &list, err);
    free(list.at);
    free(list.keys);
    free(list.indexes);
    free(list.done);
    if (rc == 0)
        drop_marked(page);
    return rc;
}

/* --- other jobs that a job names -------------------------------------------------------------- */
/* Notes whether the ledger takes job `at` of the page, and why not. */
static int note_named(void *arg, size_t at, const char *reason, struct kiln_error *err)
{
    struct kiln_page *page = arg;
    const struct kiln_new_job *new = &page->jobs[at];
    page->out[at] = reason[0] != '\0';
    page->offered -= page->out[at];
    return page->out[at]
               ? refuse(page, new->entry, new->job.batch, new->token, new->key, reason, err)
               : 0;
}

/* Refuses the jobs whose start or parent is not there or does not fit. */
static int check_starts(struct kiln_page *page, struct kiln_error *err)
{
    bool any = false;
    for (size_t i = 0; i < page->job_count && !any; i++)
        any = kiln_job_names_another(&page->jobs[i].job);
    if (!any)
        return 0;
    int rc = kiln_named_check(page->ledger, page->pool, page->jobs, page->job_count, note_named,
                              page, err);
    if (rc == 0)
        drop_marked(page);
    return rc;
}

/* --- into the ledger ------------------------------------------------------------------------- */
/* A page goes in as a whole or, where one job in it is at fault, by halves.  That one has a second
 * try: its batch may have been removed in that moment. */
static int insert(struct kiln_page *page, size_t first, size_t count, struct kiln_error *err)
{
    struct kiln_error why;
    uint64_t inserted = 0;
    const struct kiln_new_job *jobs = page->jobs + first;
    int rc = kiln_ledger_insert_jobs(page->ledger, page->pool, jobs, count, &inserted, &why);
    if (rc && count == 1 && !kiln_page_waits(rc))
        rc = kiln_ledger_insert_jobs(page->ledger, page->pool, jobs, count, &inserted, &why);
    page->inserted += inserted;
    if (rc == 0)
        return 0;
    if (kiln_page_waits(rc))
        return kiln_fail(err, rc, "%s", why.text);
    if (count == 1)
        return refuse_job(page, first, why.text, err);
    rc = insert(page, first, count / 2, err);
    return rc ? rc : insert(page, first + count / 2, count - count / 2, err);
}

/* Takes those beyond a quota out of the page.  A look at the quotas that fails is no job's fault:
 * they come in without it. */
static int check_quotas(struct kiln_page *page, struct kiln_error *err)
{
    size_t beyond = 0;
    struct kiln_error why;
    int rc = kiln_queue_quota_check(page->quota, page->jobs, page->job_count, kiln_clock_ms(),
                                    page->out, &beyond, &why);
    if (rc && kiln_page_waits(rc))
        return kiln_fail(err, rc, "%s", why.text);
    if (rc)
        kiln_log(KILN_LOG_ERROR, "quotas_unread", kiln_f("error", "%s", why.text));
    if (rc || beyond == 0)
        return 0;
    drop_marked(page);
    page->offered -= beyond;
    page->refused += beyond;
    return 0;
}

int kiln_page_collect(struct kiln_page *page, struct kiln_error *err)
{
    uint64_t inserted;
    const size_t sent = page->sent;
    if (!sent)
        return 0;
    page->sent = 0;
    int rc = kiln_ledger_insert_end(page->ledger, &inserted, err);
    page->failed = rc != 0;
    if (rc)
        return rc;
    page->offered += sent;
    page->inserted += inserted;
    return 0;
}

/* The LoRAs of a page are chosen while the one before is under way. */
static int make_ready(struct kiln_page *page, struct kiln_error *err)
{
    int rc = page->job_count ? choose_loras(page, err) : 0;
    rc = rc ? rc : kiln_page_collect(page, err);
    if (rc || page->job_count == 0)
        return rc;
    rc = check_starts(page, err);
    rc = rc ? rc : check_quotas(page, err);
    return rc ? rc : number_jobs(page, err);
}

static int insert_all(struct kiln_page *page, struct kiln_error *err)
{
    int rc = page->job_count > 0 ? insert(page, 0, page->job_count, err) : 0;
    if (rc == 0)
        drop_jobs(page);
    return rc;
}

int kiln_page_flush(struct kiln_page *page, struct kiln_error *err)
{
    int rc = make_ready(page, err);
    return rc ? rc : insert_all(page, err);
}

int kiln_page_send(struct kiln_page *page, struct kiln_error *err)
{
    int rc = make_ready(page, err);
    /* Receipts and what was set aside need the entries, which the next reading ends. */
    const bool done = page->end_count + page->aside_count == 0;
    if (rc)
        return rc;
    if (!done || !kiln_ledger_insert_begin(page->ledger, page->pool, page->jobs, page->job_count))
        return insert_all(page, err);
    page->sent = page->job_count;
    page->offered -= page->sent; /* until it is over */
    drop_jobs(page);
    return 0;
}
