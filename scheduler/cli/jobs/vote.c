/* vote.c - `kiln vote`: +1 or -1 on pictures, as in the gallery; `kiln lora learn` reads them. */
#include <string.h>

#include "scheduler/cli/core/verbs.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/safety/vote.h"

int kiln_verb_vote(struct kiln_cli *cli, const struct kiln_args *args)
{
    static const struct {
        const char *word;
        int value;
    } votes[] = {{"up", 1}, {"down", -1}, {"none", 0}};
    struct kiln_ledger *ledger = NULL;
    struct kiln_error err;
    uint64_t ids[KILN_WORDS_MAX];
    size_t vote = 0, count = 0;
    while (vote < sizeof votes / sizeof *votes && strcmp(votes[vote].word, args->rest[0]) != 0)
        vote++;
    if (vote == sizeof votes / sizeof *votes)
        return kiln_usage(cli, "unknown vote '%.40s'; use up, down or none", args->rest[0]);
    for (int i = 1; i < args->rest_count; i++) {
        const int status = kiln_arg_job(cli, args->rest[i], &ids[count++]);
        if (status)
            return status;
    }
    if (kiln_open_ledger(cli, &ledger, &err))
        return kiln_report(cli, &err);
    /* A job without a picture does not keep the others from their votes. */
    size_t set = 0;
    int rc = 0, status = 0;
    for (size_t i = 0; i < count && (rc == 0 || rc == KILN_NOT_FOUND); i++) {
        rc = kiln_ledger_vote(ledger, kiln_pool(cli), ids[i], votes[vote].value, &err);
        const int one = rc ? kiln_report(cli, &err) : 0;
        status = status ? status : one;
        set += rc == 0;
    }
    kiln_ledger_close(ledger);
    kiln_say(cli, "%s: vote %s", KILN_COUNT(set, "picture"), votes[vote].word);
    const int printed =
        cli->json ? kiln_print_json(cli, json_pack("{s:i, s:I}", "vote", votes[vote].value,
                                                   "pictures", (json_int_t)set))
                  : 0;
    return status ? status : printed;
}
