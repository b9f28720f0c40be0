/* cancel.c - POST /v1/batches/NAME/cancel: what `kiln cancel NAME` does. */
#include <stdio.h>
#include <string.h>

#include "scheduler/cli/fleet/control.h"
#include "scheduler/gallery/jobs/send.h"
#include "scheduler/gallery/parts/ask.h"
#include "scheduler/gallery/parts/json.h"
#include "schemas/names.h"

#define SUFFIX "/cancel"

/* The name in front of the suffix; false: there is none. */
static bool read_name(const char *rest, char ret[KILN_BATCH_NAME_MAX + 1])
{
    const size_t len = strlen(rest), suffix = strlen(SUFFIX);
    if (len <= suffix || len - suffix > KILN_BATCH_NAME_MAX ||
        strcmp(rest + len - suffix, SUFFIX) != 0)
        return false;
    snprintf(ret, KILN_BATCH_NAME_MAX + 1, "%.*s", (int)(len - suffix), rest);
    return true;
}

int kiln_gallery_api_cancel(struct kiln_web_visit *visit, struct kiln_error *err)
{
    struct kiln_cli cli = kiln_gallery_cli(visit);
    struct kiln_text *out = &visit->reply.body;
    struct kiln_progress progress;
    char batch[KILN_BATCH_NAME_MAX + 1];
    uint64_t count = 0;
    if (!read_name(kiln_web_rest(visit), batch))
        return kiln_web_not_found(visit, err);
    if (kiln_name_reserved(batch))
        return kiln_fail(err, KILN_DENIED, "batch %s is Kiln's own; only `kiln cancel` ends it",
                         batch);
    int rc = kiln_gallery_ask_only(visit->args, false, KILN_ASK_NOTHING, err);
    rc = rc ? rc
            : kiln_ledger_progress(visit->session, kiln_gallery_app(visit)->pool, batch, &progress,
                                   err);
    rc = rc ? rc : kiln_cancel_batch(&cli, visit->writer, batch, &count, err);
    if (rc)
        return rc;
    visit->reply.type = "application/json";
    visit->reply.cache = "no-store";
    kiln_text_puts(out, "{");
    kiln_json_text(out, "batch", batch);
    kiln_json_number(out, "cancelled", count);
    kiln_json_bool(out, "coming", !progress.whole);
    kiln_text_puts(out, "}\n");
    return 0;
}
