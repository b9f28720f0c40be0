/* page.h - the jobs and refusals of a page of stream entries, on their way to the ledger.
 *
 * An entry that the ledger always refuses must not be read again and again: its page is halved
 * until the entry is alone, and then it is set aside.  Only a failure that waiting can cure
 * (kiln_page_waits) is returned to the caller.
 */
#ifndef KILN_INTAKE_PAGE_H
#define KILN_INTAKE_PAGE_H

#include "scheduler/intake/queue_quota.h"
#include "scheduler/intake/routes.h"
#include "schemas/job/expand.h"
#include "schemas/wire/wire.h"
#include "storage/bus/bus.h"
#include "storage/ledger/ledger.h"

#define KILN_PAGE_ENTRIES 2000 /* read at once */
#define KILN_PAGE_JOBS 4000    /* inserted at once */

#define KILN_ENTRY_ID_MAX 48

struct kiln_page_end { /* the last entry of an enqueue call */
    char batch[KILN_BATCH_NAME_MAX + 1];
    char token[KILN_WIRE_ID_MAX + 1];
    char entry[KILN_ENTRY_ID_MAX];         /* its own id */
    char on_done[KILN_INTAKE_URL_MAX + 1]; /* the URL to tell that the batch has ended, or "" */
    uint64_t announced;
};

struct kiln_page_aside { /* an entry that neither became jobs nor a refusal as others are */
    char entry[KILN_ENTRY_ID_MAX];
    char batch[KILN_BATCH_NAME_MAX + 1], token[KILN_WIRE_ID_MAX + 1]; /* "" if they are not known */
    char reason[KILN_ERROR_TEXT_MAX];
};

struct kiln_page {
    struct kiln_ledger *ledger;
    const char *pool;
    struct kiln_job_context context;
    struct kiln_expand *expand;
    struct kiln_queue_quota *quota;
    struct kiln_routes *routes; /* the caller's */
    bool *out;                  /* [KILN_PAGE_JOBS]: refused, to be taken out of the page */
    struct kiln_new_job *jobs;  /* [KILN_PAGE_JOBS] */
    bool *unnumbered;           /* of each of them: its entry names no index */
    size_t job_count;
    size_t sent; /* jobs under way, by kiln_page_send; they are no longer in the page */
    bool failed; /* the ledger did not take them */
    struct kiln_page_end *ends; /* [KILN_PAGE_ENTRIES] */
    size_t end_count;
    struct kiln_page_aside *asides; /* at most one an entry */
    size_t aside_count, aside_room;
    uint64_t inserted, offered, refused, unreadable;
};

int kiln_page_init(struct kiln_page *page, struct kiln_ledger *ledger, const char *pool,
                   struct kiln_error *err) KILN_MUST_CHECK;
void kiln_page_release(struct kiln_page *page);

/* Whether a failure of the ledger is none of the entry's: the server is away or ending, its disk is
 * full, it takes no writes, we lack rights or tables that every entry needs. */
bool kiln_page_waits(int code);

/* Forgets jobs and ends that did not reach the ledger, what was set aside, and a failure.  What is
 * under way may still go in. */
void kiln_page_clear(struct kiln_page *page);
/* Adds what the entry stands for; full pages are flushed on the way.  A bad entry is refused in the
 * ledger and is no failure. */
int kiln_page_add(struct kiln_page *page, const struct kiln_bus_entry *entry,
                  struct kiln_error *err) KILN_MUST_CHECK;
/* Chooses LoRAs for, numbers and inserts the jobs so far, but for those beyond their tenants'
 * quotas.  What the ledger refuses is halved until the one at fault is alone; that one is set aside
 * and recorded as refused.
 */
int kiln_page_flush(struct kiln_page *page, struct kiln_error *err) KILN_MUST_CHECK;
/* The same, but leaves the insertion under way if it can (page->sent), so that the next page can be
 * read meanwhile.  Whatever follows waits for it first and fails, with page->failed, if it failed:
 * then nothing of that page and of the next one may be acknowledged.  Read again and flushed, they
 * show what is at fault. */
int kiln_page_send(struct kiln_page *page, struct kiln_error *err) KILN_MUST_CHECK;
/* Waits for what kiln_page_send left, if anything. */
int kiln_page_collect(struct kiln_page *page, struct kiln_error *err) KILN_MUST_CHECK;

#endif
