/* send.c - `kiln enqueue FILE`: sends it (enqueue/), prints the result, and warns of models that
 * the jobs name and no live worker has.
 */
#include <sysexits.h>

#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/roster.h"
#include "scheduler/cli/fleet/trouble.h"
#include "scheduler/cli/jobs/enqueue/enqueue.h"
#include "storage/webhook/webhook.h"

/* Nothing where workers cannot be seen, or where none is alive: then any job waits. */
static void warn_of_models(struct kiln_cli *cli, const struct kiln_enqueue_result *result)
{
    struct kiln_roster roster = {0};
    struct kiln_error unseen;
    if (result->model_count == 0 || kiln_roster_live(cli, &roster, &unseen))
        return;
    for (size_t i = 0; i < result->model_count && roster.live > 0; i++) {
        const char *lacks = kiln_lacks_model(&roster, result->models[i]);
        if (lacks)
            kiln_warn(cli,
                      "%s model '%s', so these jobs wait for a worker with it; `kiln models` lists "
                      "those of live workers",
                      lacks, result->models[i]);
    }
    kiln_roster_release(&roster);
}

int kiln_verb_enqueue(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_set sets[KILN_GIVEN_MAX];
    struct kiln_enqueue_request request;
    struct kiln_enqueue_result result;
    int status = kiln_enqueue_read_args(cli, args, sets, &request);
    if (status)
        return status;
    if (request.on_done && !kiln_webhook_is_url(request.on_done))
        return kiln_usage(cli,
                          "--on-done: enqueue does not wait, so it runs no command; give it to "
                          "`kiln wait` or `kiln run`, or name a URL");
    request.file = args->rest[0];
    status = kiln_enqueue(cli, &request, &result);
    /* Other failures have no result to print. */
    bool result_stands =
        status == EX_OK || status == EX_DATAERR || (status == EX_TEMPFAIL && result.sent > 0);
    int printed = 0;
    if (result_stands) {
        printed = request.dry_run ? kiln_enqueue_print_plan(cli, &result)
                                  : kiln_enqueue_print(cli, &result);
        warn_of_models(cli, &result);
    }
    kiln_enqueue_release(&result);
    return status ? status : printed;
}
