/* trouble.c - the pure part of trouble.h.
 *
 * Workers with one trouble are one line: of a fleet whose store is away everybody reports the same.
 * A batch that is paused is told nothing else, since nothing else matters before that ends.
 */
#include "scheduler/cli/fleet/trouble.h"

#include <stdio.h>
#include <string.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/text_safe.h"

#define NAMED_MAX 3                    /* models */
#define STARTS_MAX 3                   /* reasons why workers do not start */
#define START_TOLD_MS (3600 * 1000LL)  /* how long one that ended is told */
#define STARTING_MS (15 * 60 * 1000LL) /* a model that takes longer to load is in trouble */
#define START_WORKERS                                                                              \
    "start workers: `kiln worker start` on this machine, `kiln up --workers N` in a private stack"

const char *kiln_trouble_name(enum kiln_trouble_kind kind)
{
    static const char *const names[KILN_TROUBLE_KINDS] = {
#define TROUBLE_NAME(name, text) text,
        KILN_TROUBLES(TROUBLE_NAME)};
    return names[kind];
}

bool kiln_serves(const struct kiln_roster_worker *worker, const char *model)
{
    return worker->live && (!model || !model[0] || strcmp(worker->beat.model, model) == 0);
}

const char *kiln_lacks_model(const struct kiln_roster *roster, const char *model)
{
    size_t draining = 0;
    for (size_t i = 0; i < roster->count; i++) {
        if (!kiln_serves(&roster->at[i], model))
            continue;
        if (!roster->at[i].beat.draining)
            return NULL;
        draining++;
    }
    return draining ? "only draining workers have" : "no live worker has";
}

void kiln_needed_add(struct kiln_needed *needed, const char *model)
{
    for (size_t i = 0; i < needed->count; i++)
        if (strcmp(needed->at[i], model) == 0)
            return;
    if (needed->count < KILN_NEEDED_MAX)
        snprintf(needed->at[needed->count++], sizeof needed->at[0], "%s", model);
}

/* --- the list --------------------------------------------------------------------------------- */

/* The next one, or one that is not shown when there are too many. */
static struct kiln_trouble *add(struct kiln_troubles *ret, enum kiln_trouble_kind kind, bool stops,
                                const char *next)
{
    static _Thread_local struct kiln_trouble beyond;
    struct kiln_trouble *trouble =
        ret->count < KILN_TROUBLES_MAX ? &ret->at[ret->count++] : &beyond;
    memset(trouble, 0, sizeof *trouble);
    trouble->kind = kind;
    trouble->stops = stops;
    snprintf(trouble->next, sizeof trouble->next, "%s", next);
    return trouble;
}

static void KILN_PRINTF(2, 3) word(struct kiln_trouble *trouble, const char *fmt, ...)
{
    char text[2 * KILN_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    kiln_safe_line(text, trouble->text, sizeof trouble->text);
}

/* --- what workers report ---------------------------------------------------------------------- */

static bool is_taker(const struct kiln_roster_worker *worker)
{
    return worker->live && !worker->beat.draining;
}

static bool is_deaf(const struct kiln_trouble_facts *facts, const struct kiln_roster_worker *worker)
{
    return worker->beat.deaf_ms > facts->lease_s * 1e3;
}

static bool reports(const struct kiln_roster_worker *worker, const char *what)
{
    return worker->live && strcmp(worker->beat.trouble, what) == 0;
}

static const char *store_words(int code)
{
    switch (code) {
    case KILN_FULL:
        return "is full";
    case KILN_DENIED:
        return "denies access";
    case KILN_UNAVAILABLE:
    case KILN_TIMEOUT:
        return "does not answer";
    default:
        return "cannot be written";
    }
}

static const char *store_next(int code)
{
    switch (code) {
    case KILN_FULL:
        return "make room there (`kiln gc`, `df -h`, `df -i`); nothing is lost meanwhile";
    case KILN_DENIED:
    case KILN_CONFIG:
        return "correct the rights, mount it for writing, or renew the keys of S3: a credentials "
               "file is read again";
    case KILN_UNAVAILABLE:
    case KILN_TIMEOUT:
        return "check the store (`kiln doctor` on that machine); workers try again by themselves";
    default:
        return "see whether it is mounted read-only or damaged (`kiln doctor` on that machine)";
    }
}

static const char *ledger_next(int code)
{
    return code == KILN_FULL ? "make room on the disk of Postgres; finished pictures wait for it"
                             : "check Postgres (`kiln doctor`); finished pictures wait for it";
}

const char *kiln_worker_trouble_text(const struct kiln_roster_worker *worker, char *out,
                                     size_t size)
{
    const struct kiln_heartbeat *beat = &worker->beat;
    int code = kiln_code_by_name(beat->trouble_code);
    char text[KILN_HEARTBEAT_ERROR_MAX + 64] = "";
    if (reports(worker, "store"))
        snprintf(text, sizeof text, "its store %s: %s", store_words(code), beat->trouble_error);
    else if (worker->live && beat->trouble[0])
        snprintf(text, sizeof text, "the ledger takes no commits: %s", beat->trouble_error);
    else if (!worker->live && worker->row.trouble[0])
        return kiln_safe_line(worker->row.trouble, out, size);
    return kiln_safe_line(text, out, size);
}

json_t *kiln_worker_trouble_json(const struct kiln_roster_worker *worker)
{
    const struct kiln_heartbeat *beat = &worker->beat;
    if (!worker->live && worker->row.trouble[0])
        return json_pack("{s:s, s:n, s:s, s:n}", "trouble", kiln_trouble_name(KILN_TROUBLE_START),
                         "code", "error", worker->row.trouble, "for_s");
    if (!worker->live || !beat->trouble[0])
        return json_null();
    return json_pack("{s:s, s:s, s:s, s:f}", "trouble", beat->trouble, "code", beat->trouble_code,
                     "error", beat->trouble_error, "for_s", (double)beat->trouble_ms / 1e3);
}

/* "worker a", "3 of 4 workers, such as a" */
static const char *who(size_t count, size_t all, const char *name, char out[KILN_NAME_MAX + 64])
{
    if (count == 1)
        snprintf(out, KILN_NAME_MAX + 64, "worker %s", name);
    else
        snprintf(out, KILN_NAME_MAX + 64, "%zu of %zu workers, such as %s", count, all, name);
    return out;
}

/* One trouble for each code that workers report about `what`. */
static void find_reported(const struct kiln_trouble_facts *facts, const char *what,
                          enum kiln_trouble_kind kind, bool stops, struct kiln_troubles *ret)
{
    const struct kiln_roster *roster = facts->roster;
    bool told[KILN_CODE_COUNT + 1] = {false};
    for (size_t i = 0; i < roster->count; i++) {
        const struct kiln_roster_worker *worker = &roster->at[i];
        int code = kiln_code_by_name(worker->beat.trouble_code);
        int place = code < 0 ? KILN_CODE_COUNT : code;
        size_t same = 0;
        char text[KILN_NAME_MAX + 64];
        if (!reports(worker, what) || told[place])
            continue;
        told[place] = true;
        for (size_t k = i; k < roster->count; k++)
            same += reports(&roster->at[k], what) &&
                    strcmp(roster->at[k].beat.trouble_code, worker->beat.trouble_code) == 0;
        struct kiln_trouble *trouble = add(
            ret, kind, stops, kind == KILN_TROUBLE_STORE ? store_next(code) : ledger_next(code));
        trouble->code = code < 0 ? 0 : code;
        snprintf(trouble->worker, sizeof trouble->worker, "%s", worker->row.name);
        who(same, roster->live, worker->row.name, text);
        if (kind == KILN_TROUBLE_STORE)
            word(trouble, "the store of %s %s: %s", text, store_words(code),
                 worker->beat.trouble_error);
        else
            word(trouble, "the ledger takes no commits of %s: %s", text,
                 worker->beat.trouble_error);
    }
}

static void find_deaf(const struct kiln_trouble_facts *facts, bool stops, struct kiln_troubles *ret)
{
    const struct kiln_roster *roster = facts->roster;
    const struct kiln_roster_worker *first = NULL;
    size_t count = 0;
    char text[KILN_NAME_MAX + 64];
    for (size_t i = 0; i < roster->count; i++) {
        if (!is_taker(&roster->at[i]) || !is_deaf(facts, &roster->at[i]))
            continue;
        first = first ? first : &roster->at[i];
        count++;
    }
    if (!first)
        return;
    struct kiln_trouble *trouble =
        add(ret, KILN_TROUBLE_DEAF, stops, "its log says why; restart it if that lasts");
    snprintf(trouble->worker, sizeof trouble->worker, "%s", first->row.name);
    word(trouble, "%s cannot read %s stream in Redis",
         who(count, roster->live, first->row.name, text), count == 1 ? "its" : "their");
}

/* --- workers that are not there --------------------------------------------------------------- */

static bool fails_to_start(const struct kiln_trouble_facts *facts,
                           const struct kiln_roster_worker *worker)
{
    return !worker->live && worker->row.trouble[0] &&
           facts->now_ms - worker->row.last_seen_ms < START_TOLD_MS;
}

static void find_starts(const struct kiln_trouble_facts *facts, struct kiln_troubles *ret)
{
    const struct kiln_roster *roster = facts->roster;
    int told = 0;
    for (size_t i = 0; i < roster->count && told < STARTS_MAX; i++) {
        const struct kiln_roster_worker *worker = &roster->at[i];
        bool known = !fails_to_start(facts, worker);
        for (size_t k = 0; k < i && !known; k++)
            known = fails_to_start(facts, &roster->at[k]) &&
                    strcmp(roster->at[k].row.trouble, worker->row.trouble) == 0;
        if (known)
            continue;
        struct kiln_trouble *trouble =
            add(ret, KILN_TROUBLE_START, roster->live == 0,
                "its log says more (`kiln worker logs`); correct the cause and start it again");
        snprintf(trouble->worker, sizeof trouble->worker, "%s", worker->row.name);
        word(trouble, "worker %s on %s does not start: %s", worker->row.name, worker->row.host,
             worker->row.trouble);
        told++;
    }
}

static void find_workers(const struct kiln_trouble_facts *facts, size_t takers,
                         struct kiln_troubles *ret)
{
    const struct kiln_roster *roster = facts->roster;
    size_t starting = 0;
    char text[64] = "";
    if (takers > 0)
        return;
    for (size_t i = 0; i < roster->count; i++)
        starting += !roster->at[i].live && strcmp(roster->at[i].row.state, "starting") == 0 &&
                    facts->now_ms - roster->at[i].row.last_seen_ms < STARTING_MS;
    struct kiln_trouble *trouble = add(ret, KILN_TROUBLE_WORKERS, true, START_WORKERS);
    if (roster->live > 0)
        word(trouble, "every live worker is draining");
    else if (starting == 0)
        word(trouble, "no worker is alive in pool %s", facts->pool);
    else
        word(trouble, "no worker is alive in pool %s; %s starting", facts->pool,
             starting == 1 ? "one is" : (snprintf(text, sizeof text, "%zu are", starting), text));
}

static void find_models(const struct kiln_trouble_facts *facts, struct kiln_troubles *ret)
{
    struct kiln_text names = {0};
    const char *why = NULL;
    size_t count = 0;
    for (size_t i = 0; facts->needed && i < facts->needed->count; i++) {
        const char *lacks =
            facts->needed->at[i][0] ? kiln_lacks_model(facts->roster, facts->needed->at[i]) : NULL;
        if (!lacks)
            continue;
        why = count == 0 ? lacks : "no worker that takes jobs has";
        if (count++ < NAMED_MAX)
            kiln_text_printf(&names, "%s'%s'", count > 1 ? ", " : "", facts->needed->at[i]);
    }
    if (count > NAMED_MAX)
        kiln_text_printf(&names, " and %zu more", count - NAMED_MAX);
    if (count > 0 && !names.failed)
        word(add(ret, KILN_TROUBLE_MODEL, count == facts->needed->count,
                 "`kiln models` lists those of live workers; start a worker with that model, or "
                 "cancel the batch and enqueue it with --set model=NAME"),
             "queued jobs need model%s %s, which %s", count > 1 ? "s" : "", names.at, why);
    kiln_text_release(&names);
}

/* --- all -------------------------------------------------------------------------------------- */

static void find_in_fleet(const struct kiln_trouble_facts *facts, struct kiln_troubles *ret)
{
    const struct kiln_roster *roster = facts->roster;
    size_t takers = 0, able = 0, committing = 0;
    for (size_t i = 0; i < roster->count; i++) {
        const struct kiln_roster_worker *worker = &roster->at[i];
        takers += is_taker(worker);
        able += is_taker(worker) && !is_deaf(facts, worker) && !reports(worker, "store");
        committing += worker->live && !reports(worker, "ledger");
    }
    find_workers(facts, takers, ret);
    find_starts(facts, ret);
    find_reported(facts, "store", KILN_TROUBLE_STORE, able == 0, ret);
    find_reported(facts, "ledger", KILN_TROUBLE_LEDGER, committing == 0, ret);
    find_deaf(facts, able == 0, ret);
    if (takers > 0)
        find_models(facts, ret);
}

void kiln_troubles_find(const struct kiln_trouble_facts *facts, struct kiln_troubles *ret)
{
    ret->count = 0;
    if (facts->paused && facts->paused[0]) {
        word(add(ret, KILN_TROUBLE_PAUSED, true, "`kiln status` lists the pauses"), "%s",
             facts->paused);
        if (!facts->of_pool)
            return;
    }
    if (facts->redis)
        word(add(ret, KILN_TROUBLE_REDIS, true,
                 "`kiln doctor` checks it; what is in flight goes on"),
             "%s", facts->redis);
    if (!facts->led)
        word(add(ret, KILN_TROUBLE_SCHEDULER, true,
                 "start kiln-scheduler, or `kiln up` for a private stack"),
             "no scheduler leads pool %s", facts->pool);
    if (facts->intake && facts->intake[0])
        word(
            add(ret, KILN_TROUBLE_INTAKE, true,
                "correct the cause (`kiln doctor`); nothing is lost, the lines stay in the stream"),
            "the ledger takes no new jobs: %s", facts->intake);
    if (facts->roster)
        find_in_fleet(facts, ret);
    if (facts->webhook && facts->webhook[0])
        word(add(ret, KILN_TROUBLE_WEBHOOK, false,
                 "see the receiver's log, webhook_hosts and webhook_secret_file; no job waits for "
                 "it"),
             "%s", facts->webhook);
}

void kiln_troubles_print(const struct kiln_cli *cli, const struct kiln_troubles *troubles)
{
    for (size_t i = 0; i < troubles->count; i++) {
        if (troubles->at[i].kind == KILN_TROUBLE_PAUSED)
            continue;
        kiln_print_fit(cli, 2, "! %s", troubles->at[i].text);
        kiln_print_fit(cli, 6, "      %s", troubles->at[i].next);
    }
}

void kiln_troubles_remark(const struct kiln_cli *cli, const struct kiln_troubles *troubles)
{
    for (size_t i = 0; i < troubles->count; i++)
        kiln_say(cli, "now in the way: %s; %s", troubles->at[i].text, troubles->at[i].next);
}

json_t *kiln_troubles_json(const struct kiln_troubles *troubles)
{
    json_t *list = json_array();
    for (size_t i = 0; i < troubles->count; i++) {
        const struct kiln_trouble *at = &troubles->at[i];
        json_array_append_new(list, json_pack("{s:s, s:b, s:s?, s:s?, s:s, s:s}", "trouble",
                                              kiln_trouble_name(at->kind), "stops", (int)at->stops,
                                              "code", at->code ? kiln_code_name(at->code) : NULL,
                                              "worker", at->worker[0] ? at->worker : NULL, "text",
                                              at->text, "next", at->next));
    }
    return list;
}

/* Errors name the picture at hand, so the text of one trouble changes while it lasts. */
static bool is_same(const struct kiln_trouble *a, const struct kiln_trouble *b)
{
    if (a->kind != b->kind || a->code != b->code || a->stops != b->stops)
        return false;
    switch (a->kind) {
    case KILN_TROUBLE_PAUSED:
    case KILN_TROUBLE_WORKERS:
    case KILN_TROUBLE_MODEL:
        return strcmp(a->text, b->text) == 0;
    case KILN_TROUBLE_START:
        return strcmp(a->worker, b->worker) == 0;
    default:
        return true;
    }
}

size_t kiln_troubles_new(struct kiln_troubles *last, const struct kiln_troubles *now,
                         const struct kiln_trouble *ret[KILN_TROUBLES_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < now->count; i++) {
        bool known = false;
        for (size_t k = 0; k < last->count && !known; k++)
            known = is_same(&now->at[i], &last->at[k]);
        if (!known)
            ret[count++] = &now->at[i];
    }
    *last = *now;
    return count;
}
