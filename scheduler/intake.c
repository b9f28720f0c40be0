/* intake.c - the loop around a page: read, insert, tell, acknowledge. */
#include "scheduler/intake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/intake_page.h"
#include "schemas/clock.h"
#include "schemas/log.h"
#include "schemas/metrics.h"
#include "schemas/names.h"
#include "storage/backoff.h"
#include "storage/ledger_read.h"
#include "storage/styles_file.h"

#define GROUP "scheduler"
#define CONSUMER "leader"
#define CLAIM_EVERY_MS 5000 /* looks for entries of other consumers */
#define CLAIM_IDLE_MS 10000 /* that they have not touched for so long */
#define RECEIPT_TTL_S 300
#define ENTRY_ID_MAX 48
#define PAGE_FIRST 128               /* entries read at once, to begin with */
#define PAGE_BYTES (8 * 1024 * 1024) /* a page beyond this makes the next one smaller */

struct kiln_intake {
    const char *pool;
    char stream[KILN_NAME_MAX + 32];
    struct kiln_ledger *ledger;
    struct kiln_bus *bus;
    struct kiln_page page;
    struct kiln_styles *styles;
    char (*ids)[ENTRY_ID_MAX]; /* [KILN_PAGE_ENTRIES], of the page in hand */
    const char **id_list;
    size_t id_count;
    uint32_t page_max; /* entries to ask for: small after large ones, so that memory is bounded */
    bool pending;      /* own unacknowledged entries may exist: read them first */
    bool grouped;      /* the consumer group is known to exist */
    int64_t claimed_ms;
    struct kiln_intake_counts counts;
};

/* --- opening --------------------------------------------------------------------------------- */
int kiln_intake_styles(const struct kiln_config *config, struct kiln_styles **ret,
                       struct kiln_error *err)
{
    return kiln_styles_file_read(kiln_config_text(config, KILN_KEY_STYLES), ret, err);
}

int kiln_intake_open(const struct kiln_config *config, struct kiln_intake **ret,
                     struct kiln_error *err)
{
    struct kiln_intake *intake = calloc(1, sizeof(*intake));
    if (!intake)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the intake");
    intake->pool = kiln_config_text(config, KILN_KEY_POOL);
    intake->pending = true;
    intake->page_max = PAGE_FIRST;
    kiln_wire_key(intake->stream, sizeof(intake->stream), intake->pool, "intake", NULL);
    intake->ids = calloc(KILN_PAGE_ENTRIES, sizeof(*intake->ids));
    intake->id_list = calloc(KILN_PAGE_ENTRIES, sizeof(*intake->id_list));
    int rc = 0;
    if (!intake->ids || !intake->id_list)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for the intake");
    if (rc == 0)
        rc = kiln_ledger_open(config, "kiln-scheduler intake", &intake->ledger, err);
    if (rc == 0)
        rc = kiln_bus_open(config, &intake->bus, err);
    if (rc == 0)
        rc = kiln_page_init(&intake->page, intake->ledger, intake->pool, err);
    if (rc == 0)
        rc = kiln_intake_styles(config, &intake->styles, err);
    if (rc == 0)
        rc = kiln_job_context_size(&intake->page.context, config, err);
    if (rc) {
        kiln_intake_close(intake);
        return rc;
    }
    intake->page.context.styles = intake->styles;
    *ret = intake;
    return 0;
}

void kiln_intake_close(struct kiln_intake *intake)
{
    if (!intake)
        return;
    kiln_page_release(&intake->page);
    kiln_ledger_close(intake->ledger);
    kiln_bus_close(intake->bus);
    kiln_styles_free(intake->styles);
    free(intake->ids);
    free(intake->id_list);
    free(intake);
}

/* --- reading --------------------------------------------------------------------------------- */
/* Anyone may append entries of any size; what one read may bring is bounded by what the last one
 * brought. */
static void fit_page(struct kiln_intake *intake, const struct kiln_bus_entries *entries)
{
    size_t bytes = 0;
    for (size_t i = 0; i < entries->count; i++)
        for (size_t f = 0; f < 2 * entries->at[i].field_count; f++)
            bytes += entries->at[i].lengths[f];
    if (bytes > PAGE_BYTES)
        intake->page_max = intake->page_max / 4 > 0 ? intake->page_max / 4 : 1;
    else if (entries->count == intake->page_max)
        intake->page_max =
            intake->page_max * 2 < KILN_PAGE_ENTRIES ? intake->page_max * 2 : KILN_PAGE_ENTRIES;
}

static int read_entries(struct kiln_intake *intake, uint32_t block_ms, struct kiln_bus_entries *ret,
                        struct kiln_error *err)
{
    int rc = intake->grouped ? 0 : kiln_bus_group(intake->bus, intake->stream, GROUP, err);
    if (rc)
        return rc;
    intake->grouped = true;
    ret->count = 0;
    if (intake->pending) {
        rc = kiln_bus_read_group(intake->bus, intake->stream, GROUP, CONSUMER, true,
                                 intake->page_max, 0, ret, err);
        intake->pending = rc || ret->count > 0;
        if (rc || ret->count > 0)
            return rc;
    }
    if (kiln_clock_ms() - intake->claimed_ms >= CLAIM_EVERY_MS) {
        intake->claimed_ms = kiln_clock_ms();
        rc = kiln_bus_claim(intake->bus, intake->stream, GROUP, CONSUMER, CLAIM_IDLE_MS,
                            intake->page_max, ret, err);
        if (rc || ret->count > 0)
            return rc;
    }
    return kiln_bus_read_group(intake->bus, intake->stream, GROUP, CONSUMER, false,
                               intake->page_max, block_ms, ret, err);
}

/* --- receipts -------------------------------------------------------------------------------- */
/* A call for a batch of Kiln's own leaves no account in it. */
static int refuse_call(const struct kiln_page_end *end, struct kiln_receipt *receipt)
{
    receipt->refused = end->announced;
    snprintf(receipt->first_refusal, sizeof(receipt->first_refusal),
             "batch \"%s\": " KILN_NAMES_RESERVED, end->batch);
    return 0;
}

/* Which of its entries were refused, for who has to find their lines. */
static int read_refusals(struct kiln_intake *intake, const struct kiln_page_end *end,
                         struct kiln_receipt *receipt, struct kiln_error *err)
{
    struct kiln_refusal_ends ends;
    int rc =
        kiln_ledger_refusal_ends(intake->ledger, intake->pool, end->batch, end->token, &ends, err);
    if (rc)
        return rc;
    memcpy(receipt->first_refusal, ends.reason, sizeof(receipt->first_refusal));
    memcpy(receipt->first_key, ends.first_key, sizeof(receipt->first_key));
    memcpy(receipt->last_key, ends.last_key, sizeof(receipt->last_key));
    return 0;
}

static int read_account(struct kiln_intake *intake, const struct kiln_page_end *end,
                        struct kiln_receipt *receipt, struct kiln_error *err)
{
    int rc =
        kiln_ledger_announce(intake->ledger, intake->pool, end->batch, end->token, end->announced,
                             &receipt->accepted, &receipt->duplicate, &receipt->refused, err);
    if (rc == 0 && receipt->refused > 0)
        rc = read_refusals(intake, end, receipt, err);
    return rc;
}

/* The account of one call, in the ledger and, for who waits, on the bus. */
static int close_call(struct kiln_intake *intake, const struct kiln_page_end *end,
                      struct kiln_error *err)
{
    struct kiln_receipt receipt = {0};
    snprintf(receipt.batch, sizeof(receipt.batch), "%s", end->batch);
    int rc = kiln_name_reserved(end->batch) ? refuse_call(end, &receipt)
                                            : read_account(intake, end, &receipt, err);
    if (rc || end->token[0] == '\0')
        return rc;
    char *text = kiln_receipt_encode(&receipt);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a receipt");
    char list[KILN_NAME_MAX + KILN_WIRE_ID_MAX + 32];
    kiln_wire_key(list, sizeof(list), intake->pool, "receipt", end->token);
    rc = kiln_bus_push(intake->bus, list, text, RECEIPT_TTL_S, err);
    free(text);
    return rc;
}

/* --- one step -------------------------------------------------------------------------------- */
/* From entries to rows; entries are borrowed from the bus, which is not used meanwhile. */
static int take_in(struct kiln_intake *intake, const struct kiln_bus_entries *entries,
                   struct kiln_error *err)
{
    struct kiln_page *page = &intake->page;
    intake->id_count = 0;
    for (size_t i = 0; i < entries->count && i < KILN_PAGE_ENTRIES; i++) {
        int rc = kiln_page_add(page, &entries->at[i], err);
        if (rc)
            return rc;
        snprintf(intake->ids[i], ENTRY_ID_MAX, "%s", entries->at[i].id);
        intake->id_list[i] = intake->ids[i];
        intake->id_count++;
    }
    return kiln_page_flush(page, err);
}

static int settle(struct kiln_intake *intake, struct kiln_error *err)
{
    struct kiln_page *page = &intake->page;
    for (size_t i = 0; i < page->end_count; i++) {
        int rc = close_call(intake, &page->ends[i], err);
        if (rc)
            return rc;
    }
    page->end_count = 0;
    return kiln_bus_ack(intake->bus, intake->stream, GROUP, intake->id_list, intake->id_count, err);
}

static void account(struct kiln_intake *intake, uint64_t *ret_inserted)
{
    struct kiln_page *page = &intake->page;
    intake->counts.entries += intake->id_count;
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

int kiln_intake_step(struct kiln_intake *intake, uint32_t block_ms, uint64_t *ret_inserted,
                     struct kiln_error *err)
{
    struct kiln_bus_entries entries = {0};
    *ret_inserted = 0;
    int rc = read_entries(intake, block_ms, &entries, err);
    if (rc) {
        /* Perhaps a new Redis: look for the group and for own entries again. */
        intake->grouped = false;
        intake->pending = true;
        return rc;
    }
    if (entries.count == 0)
        return 0;
    fit_page(intake, &entries);
    rc = take_in(intake, &entries, err);
    if (rc == 0)
        rc = settle(intake, err);
    account(intake, ret_inserted);
    if (rc) {
        kiln_page_clear(&intake->page);
        intake->pending = true;
    }
    return rc;
}

void kiln_intake_counts(const struct kiln_intake *intake, struct kiln_intake_counts *ret)
{
    *ret = intake->counts;
}
