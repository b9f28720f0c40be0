/* review_verb.c - `kiln gallery review`: what a person says about levels of safety. */
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/cli/core/output/records.h"
#include "scheduler/gallery/safety/verbs.h"
#include "storage/ledger/gallery/gallery.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/safety/review.h"
#include "storage/ledger/safety/verdict.h"

#define PAGE_ROWS 200

static const char *level_name(int level)
{
    return level < 0 || level >= KILN_SAFETY_LEVELS ? NULL : kiln_safety_level_names[level];
}

/* --- listing ---------------------------------------------------------------------------------- */

static int list_row(void *arg, const struct kiln_review_row *row, struct kiln_error *err)
{
    struct kiln_listing *listing = arg;
    struct kiln_text *line = &listing->line;
    if (listing->cli->json)
        kiln_json_put(line, "{job:u rated:s by:s score:d}\n", row->job, level_name(row->level),
                      row->source, row->score);
    else
        kiln_text_printf(line, "%10" PRIu64 "  %-8s  %s\n", row->job, level_name(row->level),
                         row->source);
    return kiln_listing_put(listing, err);
}

static int list(struct kiln_cli *cli, struct kiln_ledger *ledger, bool decided, long limit)
{
    struct kiln_error err;
    struct kiln_listing listing = {.cli = cli,
                                   .left = limit,
                                   .none = decided ? "no person has decided on a picture yet"
                                                   : "nothing waits for a review"};
    struct kiln_page page = {.rows_max = PAGE_ROWS, .keys = 1, .after = {INT64_MAX}, .more = true};
    int rc = 0;
    while (rc == 0 && page.more)
        rc = kiln_ledger_review(ledger, kiln_pool(cli),
                                decided ? KILN_REVIEW_DECIDED : KILN_REVIEW_WAITING, &page,
                                list_row, &listing, &err);
    return kiln_listing_end(&listing, rc, &err);
}

static int history_row(void *arg, int64_t at_ms, const struct kiln_verdict *verdict,
                       struct kiln_error *err)
{
    struct kiln_listing *listing = arg;
    struct kiln_text *line = &listing->line;
    const char *level = level_name(verdict->level);
    char at[32];
    if (listing->cli->json)
        kiln_json_put(line, "{job:u at:t rated:s by:s score:d}\n", verdict->job, at_ms, level,
                      verdict->source, verdict->score);
    else if (verdict->rank == KILN_VERDICT_MODEL && level)
        kiln_text_printf(line, "%s  %-10s  %s (%.3f)\n", kiln_time_text(at_ms, at, sizeof at),
                         level, verdict->source, verdict->score);
    else
        kiln_text_printf(line, "%s  %-10s  %s\n", kiln_time_text(at_ms, at, sizeof at),
                         level ? level : "taken back", verdict->source);
    return kiln_listing_put(listing, err);
}

static int history(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *job)
{
    struct kiln_error err;
    struct kiln_listing listing = {.cli = cli, .none = "not checked"};
    uint64_t id;
    int status = kiln_arg_job(cli, job, &id);
    if (status)
        return status;
    int rc = kiln_ledger_verdicts(ledger, kiln_pool(cli), id, history_row, &listing, &err);
    return kiln_listing_end(&listing, rc, &err);
}

/* --- deciding --------------------------------------------------------------------------------- */

/* "person:NAME" of whoever runs this. */
static void name_person(char out[80])
{
    struct passwd *user = getpwuid(geteuid());
    snprintf(out, 80, "person:%.64s", user ? user->pw_name : "unknown");
}

static int find_level(const char *name)
{
    for (int i = 0; i < KILN_SAFETY_LEVELS; i++)
        if (strcmp(kiln_safety_level_names[i], name) == 0)
            return i;
    return KILN_SAFETY_UNCHECKED;
}

static int decide(struct kiln_cli *cli, struct kiln_ledger *ledger, const struct kiln_args *args,
                  int level)
{
    struct kiln_error err;
    char source[80];
    struct kiln_verdict verdict = {.level = level, .rank = KILN_VERDICT_PERSON, .source = source};
    int done = 0, status = 0;
    name_person(source);
    for (int i = 1; i < args->rest_count && status == 0; i++) {
        int now;
        status = kiln_arg_job(cli, args->rest[i], &verdict.job);
        if (status)
            break;
        if (kiln_ledger_judge(ledger, kiln_pool(cli), &verdict, &now, &err)) {
            status = kiln_report(cli, &err);
        } else {
            done++;
            if (cli->json)
                status =
                    kiln_print_json(cli, json_pack("{s:I, s:s?}", "job", (json_int_t)verdict.job,
                                                   "rated", level_name(now)));
        }
    }
    if (done > 0)
        kiln_say(cli, level < 0 ? "%s: what people had said is taken back" : "%s rated %s",
                 KILN_COUNT((uint64_t)done, "picture"), level < 0 ? "" : level_name(level));
    return status;
}

int kiln_gallery_review_verb(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct kiln_ledger *ledger = NULL;
    const char *level = kiln_arg(args, "level");
    bool decided = kiln_arg(args, "decided") != NULL;
    long limit;
    int status = kiln_arg_limit(cli, args, &limit);
    if (status)
        return status;
    if (level && strcmp(level, "none") != 0 && find_level(level) < 0)
        return kiln_usage(
            cli, "--level is '%s'; it must be clear, unsure, mature, explicit or none", level);
    if (level && args->rest_count == 1)
        return kiln_usage(cli, "--level says what to rate the pictures of jobs, and none is named");
    if (!level && args->rest_count > 2)
        return kiln_usage(cli,
                          "the history is that of one picture; --level LEVEL decides on several");
    if ((decided || limit) && args->rest_count > 1)
        return kiln_usage(cli, "--decided and --limit are for the list, and name no job");
    int rc = level ? kiln_open_ledger(cli, &ledger, &err) : kiln_open_reader(cli, &ledger, &err);
    if (rc)
        status = kiln_report(cli, &err);
    else if (level)
        status = decide(cli, ledger, args, find_level(level));
    else if (args->rest_count == 2)
        status = history(cli, ledger, args->rest[1]);
    else
        status = list(cli, ledger, decided, limit);
    kiln_ledger_close(ledger);
    return status;
}
