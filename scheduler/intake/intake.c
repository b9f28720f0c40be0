/* intake.c - the loop around a page: read, insert, send receipts, acknowledge. */
#include "scheduler/intake/intake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/intake/page.h"
#include "schemas/clock.h"
#include "schemas/names.h"
#include "schemas/telemetry/log.h"
#include "schemas/telemetry/log_limit.h"
#include "schemas/telemetry/metrics.h"
#include "schemas/text/utc.h"
#include "storage/formats/card/model_card.h"
#include "storage/formats/styles_file.h"
#include "storage/ledger/queue/webhook.h"
#include "storage/ledger/read/read.h"
#include "storage/webhook/webhook.h"

#define GROUP "scheduler"
#define CONSUMER "leader"
#define CLAIM_IDLE_MAX_MS 10000 /* what another consumer has not touched for a lease is claimed */
#define RECEIPT_TTL_S 300
#define PAGE_FIRST 128               /* entries read at once, to begin with */
#define PAGE_BYTES (8 * 1024 * 1024) /* a page beyond this makes the next one smaller */
#define REPORT_EVERY_MS 5000         /* that a page does not go in */
#define ASIDE_ENTRIES_MAX 10000      /* kept of what was set aside, about, */
#define ASIDE_JOB_MAX 8192           /* and bytes of each one's line */

/* Log lines that a client can cause at will. */
enum limited { LIMIT_KEY, LIMIT_ACCOUNT, LIMIT_RECEIPT, LIMIT_ASIDE, LIMITS };

/* The entries of a page, which are acknowledged when the ledger has what they stand for. */
struct taken {
    char (*ids)[KILN_ENTRY_ID_MAX]; /* [KILN_PAGE_ENTRIES] */
    const char **list;
    size_t count;
};

struct kiln_intake {
    const char *pool, *webhook_hosts, *webhook_secret;
    char stream[KILN_NAME_MAX + 32], refused[KILN_NAME_MAX + 32], blocked[KILN_NAME_MAX + 32];
    struct kiln_ledger *ledger;
    struct kiln_bus *bus;
    struct kiln_page page;
    struct kiln_styles *styles;
    struct taken current, before; /* before: of a page whose insertion may be under way */
    uint32_t page_max; /* entries to ask for: small after large ones, so that memory is bounded */
    bool pending;      /* own unacknowledged entries may exist: read them first */
    int64_t claimed_ms;
    uint32_t claim_idle_ms;
    int64_t blocked_ms, reported_ms; /* since when a page does not go in; last report; 0 = none */
    struct kiln_intake_counts counts;
    struct kiln_log_limit limits[LIMITS];
};

/* --- the entries of a page -------------------------------------------------------------------- */
static bool make_taken(struct taken *ret)
{
    ret->ids = calloc(KILN_PAGE_ENTRIES, sizeof(*ret->ids));
    ret->list = calloc(KILN_PAGE_ENTRIES, sizeof(*ret->list));
    return ret->ids && ret->list;
}

static void free_taken(struct taken *taken)
{
    free(taken->ids);
    free(taken->list);
}

static int acknowledge(struct kiln_intake *intake, struct taken *taken, struct kiln_error *err)
{
    int rc = taken->count
                 ? kiln_bus_ack(intake->bus, intake->stream, GROUP, taken->list, taken->count, err)
                 : 0;
    if (rc)
        return rc;
    intake->counts.entries += taken->count;
    taken->count = 0;
    return 0;
}

/* Ends the insertion of the page before, if it is under way. */
static int end_before(struct kiln_intake *intake, struct kiln_error *err)
{
    int rc = kiln_page_collect(&intake->page, err);
    return rc ? rc : acknowledge(intake, &intake->before, err);
}

/* --- opening --------------------------------------------------------------------------------- */
int kiln_intake_open(const struct kiln_config *config, struct kiln_routes *routes,
                     struct kiln_intake **ret, struct kiln_error *err)
{
    struct kiln_intake *intake = calloc(1, sizeof(*intake));
    if (!intake)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the intake");
    intake->pool = kiln_config_text(config, KILN_KEY_POOL);
    intake->webhook_hosts = kiln_config_text(config, KILN_KEY_WEBHOOK_HOSTS);
    intake->webhook_secret = kiln_config_text(config, KILN_KEY_WEBHOOK_SECRET_FILE);
    intake->pending = true;
    intake->page_max = PAGE_FIRST;
    double lease_ms = kiln_config_number(config, KILN_KEY_LEASE_S) * 1000;
    intake->claim_idle_ms = lease_ms < CLAIM_IDLE_MAX_MS ? (uint32_t)lease_ms : CLAIM_IDLE_MAX_MS;
    kiln_wire_key(intake->stream, sizeof(intake->stream), intake->pool, "intake", NULL);
    kiln_wire_key(intake->refused, sizeof(intake->refused), intake->pool, "refused", NULL);
    kiln_wire_key(intake->blocked, sizeof(intake->blocked), intake->pool, "blocked", NULL);
    int rc = 0;
    if (!make_taken(&intake->current) || !make_taken(&intake->before))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for the intake");
    rc = rc ? rc : kiln_ledger_open(config, "kiln-scheduler intake", &intake->ledger, err);
    rc = rc ? rc : kiln_bus_open(config, &intake->bus, err);
    rc = rc ? rc : kiln_page_init(&intake->page, intake->ledger, intake->pool, err);
    rc =
        rc ? rc
           : kiln_styles_file_read(kiln_config_text(config, KILN_KEY_STYLES), &intake->styles, err);
    rc = rc ? rc : kiln_model_card_context(config, &intake->page.context, err);
    rc = rc ? rc : kiln_job_context_size(&intake->page.context, config, err);
    rc = rc ? rc : kiln_job_context_modes(&intake->page.context, config, err);
    if (rc) {
        kiln_intake_close(intake);
        return rc;
    }
    intake->page.context.styles = intake->styles;
    intake->page.routes = routes;
    *ret = intake;
    return 0;
}

void kiln_intake_close(struct kiln_intake *intake)
{
    if (!intake)
        return;
    struct kiln_error why;
    if (intake->page.sent)
        (void)!end_before(intake, &why); /* else the next leader finds duplicates */
    kiln_page_release(&intake->page);
    kiln_ledger_close(intake->ledger);
    kiln_bus_close(intake->bus);
    kiln_styles_free(intake->styles);
    free_taken(&intake->current);
    free_taken(&intake->before);
    free(intake);
}

/* --- reading --------------------------------------------------------------------------------- */
static void shrink_page(struct kiln_intake *intake)
{
    intake->page_max = intake->page_max / 4 > 0 ? intake->page_max / 4 : 1;
}

/* Anyone may append entries of any size; the size of the last page bounds the next read. */
static void fit_page(struct kiln_intake *intake, const struct kiln_bus_entries *entries)
{
    size_t bytes = 0;
    for (size_t i = 0; i < entries->count; i++)
        for (size_t f = 0; f < 2 * entries->at[i].field_count; f++)
            bytes += entries->at[i].lengths[f];
    if (bytes > PAGE_BYTES)
        shrink_page(intake);
    else if (entries->count == intake->page_max)
        intake->page_max =
            intake->page_max * 2 < KILN_PAGE_ENTRIES ? intake->page_max * 2 : KILN_PAGE_ENTRIES;
}

/* Repairs a stream that another program has damaged: of another type, or at its last id and empty.
 */
static int repair_stream(struct kiln_intake *intake, int rc, struct kiln_error *err)
{
    enum kiln_bus_refusal refusal = kiln_bus_refusal(intake->bus);
    bool repaired = false;
    if (rc == 0 || (refusal != KILN_BUS_WRONG_TYPE && refusal != KILN_BUS_EXHAUSTED))
        return rc;
    struct kiln_error why = *err;
    rc = kiln_bus_repair(intake->bus, intake->stream, true, &repaired, err);
    if (repaired)
        kiln_log_limited(&intake->limits[LIMIT_KEY], "key_deleted", intake->stream, why.text);
    /* Roles of an older release cannot: the doctor says so.  Until then such a stream is read. */
    return rc == KILN_DENIED && refusal == KILN_BUS_EXHAUSTED ? 0 : rc;
}

/* The two streams that only the intake writes and people read: damaged ones are made anew at once.
 */
static bool renew(struct kiln_intake *intake, const char *stream, const struct kiln_error *why)
{
    struct kiln_error err;
    bool renewed = false;
    if (kiln_bus_repair(intake->bus, stream, false, &renewed, &err) == 0 && renewed)
        kiln_log_limited(&intake->limits[LIMIT_KEY], "key_deleted", stream, why->text);
    return renewed;
}

static int append_own(struct kiln_intake *intake, const char *stream, uint64_t max,
                      const char *const *fields, const size_t *lengths, size_t count,
                      struct kiln_error *err)
{
    int rc = kiln_bus_append(intake->bus, stream, max, fields, lengths, count, err);
    if (rc && renew(intake, stream, err))
        rc = kiln_bus_append(intake->bus, stream, max, fields, lengths, count, err);
    return rc;
}

/* A full Redis makes no group, yet lets entries go, which is how it gets room.  One reader needs no
 * group.  The entry deleted first is one that nobody has: it shows whether entries can go. */
static int read_group(struct kiln_intake *intake, bool pending, uint32_t block_ms,
                      struct kiln_bus_entries *ret, struct kiln_error *err)
{
    const char *stream = intake->stream, *after = "0";
    int rc = kiln_bus_read_group(intake->bus, stream, GROUP, CONSUMER, pending, intake->page_max,
                                 block_ms, ret, err);
    if (rc != KILN_FULL)
        return rc;
    rc = end_before(intake, err);
    if (rc)
        return rc;
    intake->pending = true; /* read from the first one on: none of them may stay under way */
    rc = kiln_bus_delete_entry(intake->bus, stream, "0-1", err);
    return rc ? rc : kiln_bus_read(intake->bus, &stream, &after, 1, intake->page_max, 0, ret, err);
}

/* What other consumers left, and a look at the streams themselves: spoiled ones are repaired. */
static int claim_entries(struct kiln_intake *intake, struct kiln_bus_entries *ret,
                         struct kiln_error *err)
{
    const char *const own[] = {intake->refused, intake->blocked};
    struct kiln_error why;
    bool goes_on = true; /* else Redis is away, or the right is missing */
    intake->claimed_ms = kiln_clock_ms();
    for (size_t i = 0; i < sizeof(own) / sizeof(*own) && goes_on; i++)
        goes_on = !kiln_bus_look(intake->bus, own[i], &why) || renew(intake, own[i], &why);
    int rc = kiln_bus_claim(intake->bus, intake->stream, GROUP, CONSUMER, intake->claim_idle_ms,
                            intake->page_max, ret, err);
    if (rc || ret->count > 0)
        return rc;
    return repair_stream(intake, kiln_bus_look(intake->bus, intake->stream, err), err);
}

static int read_entries(struct kiln_intake *intake, uint32_t block_ms, struct kiln_bus_entries *ret,
                        struct kiln_error *err)
{
    int rc = 0;
    ret->count = 0;
    if (intake->pending) {
        rc = read_group(intake, true, 0, ret, err);
        intake->pending = rc || ret->count > 0;
    }
    bool look = kiln_clock_ms() - intake->claimed_ms >= intake->claim_idle_ms / 2;
    if (rc == 0 && ret->count == 0 && look) { /* own idle ones are claimed, too */
        rc = end_before(intake, err);
        if (rc)
            return rc;
        rc = claim_entries(intake, ret, err);
    }
    if (rc == 0 && ret->count == 0)
        rc = read_group(intake, false, block_ms, ret, err);
    if (rc == KILN_NO_MEMORY) { /* too large together: as own entries now, read a few at once */
        intake->pending = true;
        rc = end_before(intake, err);
        if (rc)
            return rc;
        rc = read_group(intake, true, 0, ret, err);
    }
    return repair_stream(intake, rc, err);
}

/* --- receipts -------------------------------------------------------------------------------- */
/* Whether Redis cannot go on; other answers concern one key. */
static bool bus_waits(int code)
{
    return code == KILN_UNAVAILABLE || code == KILN_TIMEOUT || code == KILN_FULL ||
           code == KILN_NO_MEMORY;
}

static int send_receipt(struct kiln_intake *intake, const struct kiln_page_end *end,
                        const struct kiln_receipt *receipt, struct kiln_error *err)
{
    char list[KILN_NAME_MAX + KILN_WIRE_ID_MAX + 32];
    char *text = kiln_receipt_encode(receipt);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a receipt");
    kiln_wire_key(list, sizeof(list), intake->pool, "receipt", end->token);
    int rc = kiln_bus_push(intake->bus, list, text, RECEIPT_TTL_S, err);
    free(text);
    return rc;
}

/* Keeps whom to tell that the batch has ended, or refuses that.  The call is not announced yet and
 * its jobs are in, so the message cannot go out before them. */
static int keep_webhook(struct kiln_intake *intake, const struct kiln_page_end *end,
                        struct kiln_error *err)
{
    struct kiln_error why;
    bool full = false;
    int bad = kiln_webhook_check(end->on_done, intake->webhook_hosts, &why);
    if (bad == 0 && !intake->webhook_secret[0])
        bad = kiln_fail(&why, KILN_BAD_INPUT,
                        "the setting webhook_secret_file of the scheduler is empty, so nothing can "
                        "be signed");
    int rc = bad ? 0
                 : kiln_ledger_webhook_keep(intake->ledger, intake->pool, end->batch, end->entry,
                                            end->on_done, &full, err);
    if (full)
        bad = kiln_fail(&why, KILN_FULL, "%d other URLs wait for the end of batch %s",
                        KILN_WEBHOOKS_OF_BATCH, end->batch);
    if (rc || !bad)
        return rc;
    kiln_fail_in(&why, "on_done");
    return kiln_ledger_refuse(intake->ledger, intake->pool, end->batch, end->token, end->entry,
                              why.text, err);
}

/* What the ledger has of one enqueue call.  A call for a batch of Kiln's own has nothing there. */
static int read_account(struct kiln_intake *intake, const struct kiln_page_end *end,
                        struct kiln_receipt *receipt, struct kiln_error *err)
{
    struct kiln_refusal_ends ends;
    if (kiln_name_reserved(end->batch)) {
        receipt->refused = end->announced;
        snprintf(receipt->first_refusal, sizeof(receipt->first_refusal),
                 "batch \"%s\": " KILN_NAMES_RESERVED, end->batch);
        return 0;
    }
    int rc = end->on_done[0] ? keep_webhook(intake, end, err) : 0;
    rc = rc ? rc
            : kiln_ledger_announce(intake->ledger, intake->pool, end->batch, end->token,
                                   end->announced, &receipt->accepted, &receipt->duplicate,
                                   &receipt->refused, err);
    if (rc || receipt->refused == 0)
        return rc;
    rc = kiln_ledger_refusal_ends(intake->ledger, intake->pool, end->batch, end->token, &ends, err);
    if (rc == 0) {
        memcpy(receipt->first_refusal, ends.reason, sizeof(receipt->first_refusal));
        memcpy(receipt->first_key, ends.first_key, sizeof(receipt->first_key));
        memcpy(receipt->last_key, ends.last_key, sizeof(receipt->last_key));
    }
    return rc;
}

static void drop_receipt(struct kiln_intake *intake, const struct kiln_page_end *end,
                         const struct kiln_error *why)
{
    kiln_metric_add(KILN_METRIC_UNDELIVERED, KILN_UNDELIVERED_RECEIPT, 1);
    kiln_log_limited(&intake->limits[LIMIT_RECEIPT], "receipt_dropped", end->token, why->text);
}

/* If a key cannot take the receipt (it has another type, say), that client gets none.  Receipts
 * that a full Redis does not take stay in the page. */
static int close_calls(struct kiln_intake *intake, struct kiln_error *err)
{
    struct kiln_page *page = &intake->page;
    size_t kept = 0;
    for (size_t i = 0; i < page->end_count; i++) {
        const struct kiln_page_end *end = &page->ends[i];
        struct kiln_receipt receipt = {0};
        snprintf(receipt.batch, sizeof(receipt.batch), "%s", end->batch);
        int rc = read_account(intake, end, &receipt, err);
        if (rc && kiln_page_waits(rc))
            return rc;
        bool wanted = rc == 0 && end->token[0] != '\0'; /* somebody waits for it */
        if (rc) /* the ledger does not take the account of this call: its jobs are in */
            kiln_log_limited(&intake->limits[LIMIT_ACCOUNT], "account_dropped", end->batch,
                             err->text);
        rc = wanted ? send_receipt(intake, end, &receipt, err) : 0;
        if (rc == KILN_FULL)
            page->ends[kept++] = *end;
        else if (bus_waits(rc))
            return rc;
        else if (rc)
            drop_receipt(intake, end, err);
    }
    page->end_count = kept;
    return 0;
}

/* --- entries set aside ----------------------------------------------------------------------- */
/* Into the stream of refused entries, for people. */
static int keep_aside(struct kiln_intake *intake, const struct kiln_page_aside *aside,
                      const struct kiln_bus_entries *entries, struct kiln_error *err)
{
    char at[32];
    size_t job_len = 0;
    const char *job = ""; /* the entry's field `job`, which may hold any bytes */
    for (size_t i = 0; i < entries->count; i++) {
        const struct kiln_bus_entry *entry = &entries->at[i];
        for (size_t f = 0; f < entry->field_count && strcmp(entry->id, aside->entry) == 0; f++)
            if (strcmp(entry->fields[2 * f], "job") == 0 && job_len == 0) {
                job_len = entry->lengths[2 * f + 1];
                job = entry->fields[2 * f + 1];
            }
    }
    kiln_time_text(kiln_wall_ms(), at, sizeof(at));
    const char *fields[] = {"entry",  aside->entry,  "at",    at,
                            "batch",  aside->batch,  "token", aside->token,
                            "reason", aside->reason, "job",   job};
    size_t lengths[12], count = sizeof(fields) / sizeof(*fields);
    for (size_t i = 0; i + 1 < count; i++)
        lengths[i] = strlen(fields[i]);
    lengths[count - 1] = job_len < ASIDE_JOB_MAX ? job_len : ASIDE_JOB_MAX;
    return append_own(intake, intake->refused, ASIDE_ENTRIES_MAX, fields, lengths, count / 2, err);
}

static void drop_aside(struct kiln_intake *intake, const struct kiln_page_aside *aside,
                       const struct kiln_error *why)
{
    kiln_metric_add(KILN_METRIC_UNDELIVERED, KILN_UNDELIVERED_REFUSED, 1);
    kiln_log_limited(&intake->limits[LIMIT_ASIDE], "set_aside_dropped", aside->entry, why->text);
}

/* As with receipts: what a full Redis does not take stays in the page. */
static int keep_asides(struct kiln_intake *intake, const struct kiln_bus_entries *entries,
                       struct kiln_error *err)
{
    struct kiln_page *page = &intake->page;
    size_t kept = 0;
    for (size_t i = 0; i < page->aside_count; i++) {
        const struct kiln_page_aside *aside = &page->asides[i];
        int rc = keep_aside(intake, aside, entries, err);
        if (rc == KILN_FULL)
            page->asides[kept++] = *aside;
        else if (bus_waits(rc))
            return rc;
        else if (rc)
            drop_aside(intake, aside, err);
    }
    intake->counts.set_aside += page->aside_count - kept;
    kiln_metric_add(KILN_METRIC_INTAKE, KILN_INTAKE_SET_ASIDE, page->aside_count - kept);
    page->aside_count = kept;
    return 0;
}

/* --- one step -------------------------------------------------------------------------------- */
/* From entries to rows, with `ahead` perhaps still under way; entries are borrowed from the bus,
 * which is not used meanwhile. */
static int take_in(struct kiln_intake *intake, const struct kiln_bus_entries *entries, bool ahead,
                   struct kiln_error *err)
{
    struct kiln_page *page = &intake->page;
    struct taken *taken = &intake->current;
    taken->count = 0;
    for (size_t i = 0; i < entries->count && i < KILN_PAGE_ENTRIES; i++) {
        int rc = kiln_page_add(page, &entries->at[i], err);
        if (rc)
            return rc;
        snprintf(taken->ids[i], KILN_ENTRY_ID_MAX, "%s", entries->at[i].id);
        taken->list[i] = taken->ids[i];
        taken->count++;
    }
    return ahead ? kiln_page_send(page, err) : kiln_page_flush(page, err);
}

/* Once the entries are acknowledged nothing is tried again: receipts not sent by then are lost. */
static void drop_the_rest(struct kiln_intake *intake, const struct kiln_error *why)
{
    struct kiln_page *page = &intake->page;
    for (size_t i = 0; i < page->aside_count; i++)
        drop_aside(intake, &page->asides[i], why);
    for (size_t i = 0; i < page->end_count; i++)
        drop_receipt(intake, &page->ends[i], why);
    page->aside_count = page->end_count = 0;
}

/* Clients get their receipts before the entries are acknowledged, so a scheduler that dies loses
 * none. But a full Redis gets room only by the acknowledgement: what it did not take is sent once
 * more after that.  Appending and acknowledging leave the entries borrowed: only reading ends the
 * loan. */
static int settle(struct kiln_intake *intake, const struct kiln_bus_entries *entries,
                  struct kiln_error *err)
{
    struct kiln_page *page = &intake->page;
    struct kiln_error why = {.text = "Redis has no room for it"};
    int rc = keep_asides(intake, entries, err);
    rc = rc ? rc : close_calls(intake, err);
    rc = rc ? rc : acknowledge(intake, &intake->current, err);
    if (rc || page->aside_count + page->end_count == 0)
        return rc;
    if (keep_asides(intake, entries, &why) == 0)
        (void)!close_calls(intake, &why);
    drop_the_rest(intake, &why);
    return 0;
}

static void account(struct kiln_intake *intake, uint64_t *ret_inserted)
{
    struct kiln_page *page = &intake->page;
    intake->counts.inserted += page->inserted;
    intake->counts.duplicate += page->offered - page->inserted;
    intake->counts.refused += page->refused;
    intake->counts.unreadable += page->unreadable;
    kiln_metric_add(KILN_METRIC_INTAKE, KILN_INTAKE_INSERTED, page->inserted);
    kiln_metric_add(KILN_METRIC_INTAKE, KILN_INTAKE_DUPLICATE, page->offered - page->inserted);
    kiln_metric_add(KILN_METRIC_INTAKE, KILN_INTAKE_REFUSED, page->refused);
    *ret_inserted = page->inserted;
    page->inserted = page->offered = page->refused = page->unreadable = 0;
}

/* --- a page that does not go in -------------------------------------------------------------- */
/* Reports to `kiln doctor`, which sees neither our log nor our metrics.  A failure changes nothing.
 */
static void report_blocked(struct kiln_intake *intake, const char *entry,
                           const struct kiln_error *err)
{
    int64_t now_ms = kiln_clock_ms();
    char since[24];
    struct kiln_error why;
    if (intake->blocked_ms == 0)
        intake->blocked_ms = now_ms;
    if (now_ms - intake->reported_ms < REPORT_EVERY_MS && intake->reported_ms > 0)
        return;
    intake->reported_ms = now_ms;
    snprintf(since, sizeof(since), "%lld", (long long)(now_ms - intake->blocked_ms));
    const char *const fields[] = {"blocked_ms", since, "entry", entry, "error", err->text};
    (void)!append_own(intake, intake->blocked, 1, fields, NULL, 3, &why);
}

/* A full page, behind which more may wait, is left under way. */
static int take_page(struct kiln_intake *intake, const struct kiln_bus_entries *entries,
                     struct kiln_error *err)
{
    /* Own pending entries are read from the first one, so those of a page have to go first. */
    const bool ahead = !intake->pending && entries->count >= intake->page_max;
    fit_page(intake, entries);
    int rc = take_in(intake, entries, ahead, err);
    rc = rc ? rc : acknowledge(intake, &intake->before, err);
    if (rc || !intake->page.sent)
        return rc ? rc : settle(intake, entries, err);
    const struct taken taken = intake->current;
    intake->current = intake->before;
    intake->before = taken;
    return 0;
}

/* Everything unfinished is read again.  A page that failed under way is tried once more, alone,
 * before anybody hears of it: then it shows which entry is at fault, or that none is. */
static int fail_step(struct kiln_intake *intake, int rc, const char *entry, struct kiln_error *err)
{
    struct kiln_page *page = &intake->page;
    struct kiln_error why;
    const bool again = page->failed || kiln_page_collect(page, &why) != 0;
    if (again)
        page->offered = page->inserted; /* neither that page nor the next is a duplicate */
    if (rc == KILN_TIMEOUT || rc == KILN_NO_MEMORY)
        shrink_page(intake);
    kiln_page_clear(page);
    intake->pending = true;
    intake->before.count = 0;
    if (again)
        return 0;
    if (entry[0]) {
        rc = kiln_fail_in(err, "entry %s", entry);
        report_blocked(intake, entry, err);
    }
    return rc;
}

int kiln_intake_step(struct kiln_intake *intake, uint32_t block_ms, uint64_t *ret_inserted,
                     struct kiln_error *err)
{
    struct kiln_bus_entries entries = {0};
    char entry[KILN_ENTRY_ID_MAX] = ""; /* the first one */
    int rc = read_entries(intake, intake->page.sent ? 0 : block_ms, &entries, err);
    if (rc == 0 && entries.count > 0) {
        snprintf(entry, sizeof(entry), "%s", entries.at[0].id);
        rc = take_page(intake, &entries, err);
        if (rc == 0 && intake->reported_ms > 0)
            (void)!kiln_bus_delete(intake->bus, intake->blocked, NULL);
        if (rc == 0)
            intake->blocked_ms = intake->reported_ms = 0;
    } else if (rc == 0) {
        rc = end_before(intake, err);
    }
    if (rc)
        rc = fail_step(intake, rc, entry, err);
    account(intake, ret_inserted);
    return rc;
}

void kiln_intake_counts(const struct kiln_intake *intake, struct kiln_intake_counts *ret)
{
    *ret = intake->counts;
}
