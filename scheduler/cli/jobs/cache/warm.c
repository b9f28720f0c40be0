/* warm.c - `kiln cache warm`: has the leading scheduler read the stored latents, and waits until
 * all that are in the ledger now are in its memory.
 *
 * A scheduler reads them by itself once a job asks for one; the first jobs of a new leader would
 * run in full until that is done.
 */
#include <inttypes.h>
#include <jansson.h>
#include <sysexits.h>

#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/fleet/control.h"
#include "scheduler/cli/jobs/cache/cache.h"
#include "schemas/clock.h"

#define LIMIT_S 60 /* unless --timeout says otherwise */
#define LIMIT_MAX_S 86400
#define ASK_S 0.2 /* between questions */
#define LOOKS 2   /* the one that was under way may have missed the last latents */

static uint64_t count(const json_t *answer, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(answer, name));
}

static int say_done(struct kiln_cli *cli, const json_t *answer, double took_s)
{
    const uint64_t donors = count(answer, "donors"), prompts = count(answer, "prompts");
    if (cli->json)
        return kiln_print_json(cli, json_pack("{s:I, s:I, s:f}", "latents", (json_int_t)donors,
                                              "prompts", (json_int_t)prompts, "seconds", took_s));
    printf("%s of %s in the scheduler's memory, after %s\n", KILN_COUNT(donors, "stored latent"),
           KILN_COUNT(prompts, "prompt"), KILN_SECONDS(took_s));
    return 0;
}

/* The status to end with, or -1: ask again.  *first: looks at the first answer, UINT64_MAX before;
 * of another leader they begin anew. */
static int read_answer(struct kiln_cli *cli, const json_t *answer, uint64_t *first, double took_s)
{
    const char *state = json_string_value(json_object_get(answer, "state"));
    const uint64_t looks = count(answer, "looks");
    if (!state) {
        kiln_say(cli,
                 "the scheduler of pool %s is of an older release, which cannot be asked to "
                 "read stored latents; it does so once a job asks for one",
                 kiln_pool(cli));
        return EX_UNAVAILABLE;
    }
    if (strcmp(state, "no_table") == 0) {
        kiln_say(cli, "no run begins from a stored latent: kiln.json of the setting `model` has no "
                      "table of teleport, or the scheduler cannot read it; `kiln bench teleport "
                      "--write` makes one");
        return 1;
    }
    if (*first == UINT64_MAX || looks < *first)
        *first = looks;
    if (strcmp(state, "complete") == 0 && looks >= *first + LOOKS)
        return say_done(cli, answer, took_s);
    return -1;
}

int kiln_latents_warm(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    long limit_s;
    int status = kiln_arg_int(cli, args, "timeout", 1, LIMIT_MAX_S, LIMIT_S, &limit_s);
    if (status)
        return status;
    uint64_t first = UINT64_MAX, donors = 0;
    bool answered = false;
    for (const int64_t began_ms = kiln_clock_ms();;) {
        json_t *answer;
        if (kiln_query(cli, (struct kiln_control){.donors = true}, &answer, &err))
            return kiln_report(cli, &err);
        const double took_s = (double)(kiln_clock_ms() - began_ms) / 1000;
        status = answer ? read_answer(cli, answer, &first, took_s) : -1;
        answered = answered || answer;
        donors = answer ? count(answer, "donors") : donors;
        json_decref(answer);
        if (status >= 0)
            return status;
        if (took_s >= (double)limit_s)
            break;
        kiln_sleep_s(ASK_S);
    }
    if (answered)
        kiln_say(cli,
                 "not ready after %ld s: %s so far; repeat the command, or give it a longer "
                 "--timeout",
                 limit_s, KILN_COUNT(donors, "stored latent"));
    else
        kiln_say(cli,
                 "no scheduler of pool %s answered within %ld s; `kiln doctor` checks whether "
                 "one leads",
                 kiln_pool(cli), limit_s);
    return EX_TEMPFAIL;
}
