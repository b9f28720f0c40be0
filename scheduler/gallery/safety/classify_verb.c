/* classify_verb.c - `kiln gallery classify`: a classifier looks at pictures and records levels.
 *
 * Which pictures are left is a question to the ledger (storage/ledger/safety/unrated.h): those on
 * which this classifier has no opinion.  Each opinion is recorded at once, so the command may be
 * killed at any moment and goes on where it was; several may run, and at worst look at a picture
 * twice.  In memory is a page of keys and one picture.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/core/output/progress.h"
#include "scheduler/cli/core/output/records.h"
#include "scheduler/gallery/safety/classifier.h"
#include "scheduler/gallery/safety/verbs.h"
#include "schemas/room.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/safety/unrated.h"
#include "storage/ledger/safety/verdict.h"
#include "storage/objects/store.h"

#define PAGE 32                    /* pictures that are looked up together */
#define FILE_MAX_BYTES (64u << 20) /* of a file that is looked at */
#define POLL_S 5                   /* between two looks for new pictures */
#define UNREADABLE_SAID 3          /* of which the file is named */

struct classify {
    struct kiln_cli *cli;
    struct kiln_ledger *ledger;
    struct kiln_store *store;
    struct kiln_safety_classifier *classifier;
    struct kiln_bar bar;
    uint64_t total, limit; /* 0: not known; none */
    uint64_t done, level[KILN_SAFETY_LEVELS];
    uint64_t *unreadable; /* jobs, in the order of their failures */
    size_t unreadable_count, unreadable_room;
    bool follows; /* does not look at an unreadable picture again */
    struct {
        uint64_t job;
        char *key; /* owned; NULL: no file */
    } page[PAGE];
    uint32_t count, skipped; /* skipped: unreadable ones that the ledger named again */
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_no)
{
    interrupted = signal_no;
}

/* --- one picture ------------------------------------------------------------------------------ */

static int record(struct classify *c, uint64_t job, const struct kiln_classified *said,
                  struct kiln_error *err)
{
    const struct kiln_verdict verdict = {.job = job,
                                         .level = said->level,
                                         .rank = KILN_VERDICT_MODEL,
                                         .score = said->score,
                                         .source = kiln_safety_classifier_source(c->classifier)};
    int now;
    int rc = kiln_ledger_judge(c->ledger, kiln_pool(c->cli), &verdict, &now, err);
    if (rc)
        return rc == KILN_NOT_FOUND ? 0 : rc; /* it is gone meanwhile */
    c->done++;
    c->level[said->level]++;
    if (c->cli->json &&
        kiln_print_json(c->cli, json_pack("{s:I, s:s, s:f, s:s, s:s?}", "job", (json_int_t)job,
                                          "said", kiln_safety_level_names[said->level], "score",
                                          said->score, "by", verdict.source, "rated",
                                          now < 0 ? NULL : kiln_safety_level_names[now])))
        return kiln_fail(err, KILN_IO, "stdout takes no more output");
    return 0;
}

/* Missing, damaged, too large: the next picture may be whole. */
static bool is_own_fault(int code)
{
    return !kiln_store_fails_all(code) && code != KILN_NO_MEMORY;
}

static int look_at(struct classify *c, uint64_t job, const char *key, struct kiln_error *err)
{
    struct kiln_classified said;
    void *file = NULL;
    size_t size;
    int rc = key ? kiln_store_get(c->store, key, FILE_MAX_BYTES, &file, &size, err)
                 : kiln_fail(err, KILN_NOT_FOUND, "it has no file");
    rc = rc ? rc : kiln_safety_classify(c->classifier, file, size, &said, err);
    free(file);
    if (rc == 0)
        return record(c, job, &said, err);
    if (!is_own_fault(rc))
        return rc;
    uint64_t *jobs =
        kiln_room(c->unreadable, c->unreadable_count, &c->unreadable_room, sizeof *jobs);
    if (!jobs)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a list of unreadable pictures");
    c->unreadable = jobs;
    c->unreadable[c->unreadable_count++] = job;
    if (c->unreadable_count <= UNREADABLE_SAID) {
        kiln_bar_end(&c->bar);
        kiln_warn(c->cli, "the picture of job %" PRIu64 " cannot be read: %s", job, err->text);
    }
    return 0;
}

/* --- pages ------------------------------------------------------------------------------------ */

static bool was_unreadable(const struct classify *c, uint64_t job)
{
    for (size_t i = 0; i < c->unreadable_count; i++)
        if (c->unreadable[i] == job)
            return true;
    return false;
}

static int take(void *arg, const struct kiln_unrated_picture *picture, struct kiln_error *err)
{
    struct classify *c = arg;
    if (c->follows && was_unreadable(c, picture->job)) {
        c->skipped++;
        return 0;
    }
    char *key = picture->key ? strdup(picture->key) : NULL;
    if (c->count == PAGE || (picture->key && !key))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a page of pictures");
    c->page[c->count].job = picture->job;
    c->page[c->count++].key = key;
    return 0;
}

static bool is_over(const struct classify *c)
{
    return interrupted || (c->limit && c->done + c->unreadable_count >= c->limit);
}

static int next_page(struct classify *c, uint64_t *below, struct kiln_error *err)
{
    c->skipped = 0;
    return kiln_ledger_unrated(c->ledger, kiln_pool(c->cli),
                               kiln_safety_classifier_source(c->classifier), *below, PAGE, take, c,
                               below, err);
}

/* Ends the page, and before it works on it if rc is 0; returns rc or what went wrong. */
static int work_page(struct classify *c, int rc, struct kiln_error *err)
{
    for (uint32_t i = 0; i < c->count; i++) {
        if (rc == 0 && !is_over(c)) {
            rc = look_at(c, c->page[i].job, c->page[i].key, err);
            kiln_bar_draw(&c->bar, c->total, c->done + c->unreadable_count, c->unreadable_count, 0,
                          kiln_now_s());
        }
        free(c->page[i].key);
    }
    c->count = 0;
    return rc;
}

/* All pictures, from the newest down. */
static int walk(struct classify *c, struct kiln_error *err)
{
    uint64_t below = INT64_MAX;
    int rc = 0;
    while (rc == 0 && below > 0 && !is_over(c))
        rc = work_page(c, next_page(c, &below, err), err);
    return rc;
}

/* One page of the newest KILN_UNRATED_ROWS pictures or so: what comes meanwhile goes before older
 * ones. */
static int work_newest(struct classify *c, bool *ret_found, struct kiln_error *err)
{
    uint64_t below = INT64_MAX;
    int rc, looks = KILN_UNRATED_ROWS / PAGE;
    do
        rc = next_page(c, &below, err);
    while (rc == 0 && c->count == 0 && c->skipped > 0 && below > 0 && --looks > 0);
    const bool found = c->count > 0;
    rc = work_page(c, rc, err);
    *ret_found = rc == 0 && found;
    return rc;
}

/* New pictures until somebody ends it. */
static int follow(struct classify *c, struct kiln_error *err)
{
    bool warned = false, found;
    while (!is_over(c)) {
        int rc = work_newest(c, &found, err);
        if (rc && !kiln_code_retryable(rc))
            return rc;
        if (rc && !warned)
            kiln_warn(c->cli, "%s; trying again", err->text);
        warned = rc != 0;
        for (int i = 0; !found && i < POLL_S * 10 && !is_over(c); i++)
            kiln_sleep_s(0.1);
    }
    return 0;
}

/* --- the verb --------------------------------------------------------------------------------- */

static void say_what_was_done(const struct classify *c, double seconds)
{
    kiln_say(c->cli,
             "%s classified in %s: %" PRIu64 " clear, %" PRIu64 " unsure, %" PRIu64
             " mature, %" PRIu64 " explicit, by %s",
             KILN_COUNT(c->done, "picture"), KILN_SECONDS(seconds), c->level[KILN_SAFETY_CLEAR],
             c->level[KILN_SAFETY_UNSURE], c->level[KILN_SAFETY_MATURE],
             c->level[KILN_SAFETY_EXPLICIT], kiln_safety_classifier_source(c->classifier));
    if (c->unreadable_count)
        kiln_warn(c->cli, "%s could not be read; the next run tries again",
                  KILN_COUNT(c->unreadable_count, "picture"));
}

static int open_all(struct classify *c, bool backfill, struct kiln_error *err)
{
    int rc = kiln_safety_classifier_open(c->cli->config, NULL, &c->classifier, err);
    rc = rc ? rc : kiln_open_ledger(c->cli, &c->ledger, err);
    rc = rc ? rc : kiln_store_open(c->cli->config, &c->store, err);
    if (rc == 0 && backfill)
        rc =
            kiln_ledger_unrated_count(c->ledger, kiln_pool(c->cli),
                                      kiln_safety_classifier_source(c->classifier), &c->total, err);
    if (c->limit && c->total > c->limit)
        c->total = c->limit;
    return rc;
}

static int run(struct classify *c, bool backfill)
{
    struct kiln_error err;
    int rc = open_all(c, backfill, &err);
    if (rc)
        return kiln_report(c->cli, &err);
    for (const int signals[] = {SIGINT, SIGTERM}, *at = signals; at < signals + 2; at++)
        sigaction(*at, &(struct sigaction){.sa_handler = on_interrupt}, NULL);
    kiln_bar_init(&c->bar, c->cli, "classifying");
    const double begin_s = kiln_now_s();
    c->follows = !backfill;
    rc = backfill ? walk(c, &err) : follow(c, &err);
    kiln_bar_end(&c->bar);
    say_what_was_done(c, kiln_now_s() - begin_s);
    if (rc)
        return kiln_report(c->cli, &err);
    if (backfill && interrupted) {
        kiln_say(c->cli, "interrupted; the same command goes on where it was");
        return 128 + (int)interrupted;
    }
    return c->unreadable_count ? kiln_code_exit(KILN_NOT_FOUND) : 0;
}

int kiln_gallery_classify_verb(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct classify c = {.cli = cli};
    long limit;
    if (args->rest_count > 1)
        return kiln_usage(cli, "classify names no job: it looks at the pictures that its "
                               "classifier has not seen");
    int status = kiln_arg_limit(cli, args, &limit);
    if (status)
        return status;
    c.limit = (uint64_t)limit;
    status = run(&c, kiln_arg(args, "backfill") != NULL);
    kiln_store_close(c.store);
    kiln_ledger_close(c.ledger);
    kiln_safety_classifier_close(c.classifier);
    free(c.unreadable);
    return status;
}
