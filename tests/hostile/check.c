/* check.c - see check.h. */
#include "tests/hostile/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "schemas/names.h"
#include "tests/hostile/attack.h"

#define POLL_MS 20
#define COMMAND_S 30
#define REFUSED_LOOK "2000" /* entries of the dead-letter stream that are read */

static void broken(struct hostile_verdict *verdict, const char *what, const char *fmt, ...)
    KILN_PRINTF(3, 4);
static void broken(struct hostile_verdict *verdict, const char *what, const char *fmt, ...)
{
    va_list args;
    if (verdict->broken)
        return;
    verdict->broken = what;
    va_start(args, fmt);
    vsnprintf(verdict->detail, sizeof verdict->detail, fmt, args);
    va_end(args);
}

/* --- good jobs -------------------------------------------------------------------------------- */
#define GOOD "j JOIN batch b ON b.id = j.batch_id WHERE b.name ~ '^good-[0-9]+$'"

static void check_good(struct hostile_site *site, double until, struct hostile_verdict *verdict)
{
    long long wanted = (long long)site->calls * HOSTILE_GOOD_LINES;
    double left = until - kiln_test_now_s();
    if (!kiln_test_until(site->stack, "SELECT count(*) FROM job " GOOD " AND j.state = 2", wanted,
                         left > 1 ? left : 1)) {
        char *counts = kiln_test_sql(site->stack, "SELECT string_agg(state || ': ' || n, ', ') FROM"
                                                  " (SELECT j.state, count(*) n FROM job " GOOD
                                                  " GROUP BY 1) s");
        broken(verdict, "every good job is done", "%lld good jobs; states and numbers: %s", wanted,
               counts ? counts : "none");
        free(counts);
    }
    if (kiln_test_count(site->stack, "SELECT count(*) FROM job " GOOD
                                     " AND 1 <> (SELECT count(*) FROM event e WHERE e.job_id = j.id"
                                     " AND e.state IN (2, 3, 4))") > 0 ||
        kiln_test_count(site->stack,
                        "SELECT count(*) FROM job " GOOD
                        " AND 1 <> (SELECT count(*) FROM image i WHERE i.job_id = j.id)") > 0)
        broken(verdict, "every good job is done once", "the tables event and image say otherwise");
}

static void check_indexes(struct hostile_site *site, struct hostile_verdict *verdict)
{
    char *twice =
        kiln_test_sql(site->stack, "SELECT b.name || ', index ' || j.index || ': ' || count(*)"
                                   " FROM job j JOIN batch b ON b.id = j.batch_id"
                                   " GROUP BY b.name, j.index HAVING count(*) > 1 LIMIT 1");
    if (twice)
        broken(verdict, "no index of a batch is given out twice", "%s jobs", twice);
    free(twice);
}

/* --- programs --------------------------------------------------------------------------------- */
static bool has_ended(const struct kiln_test_process *process)
{
    siginfo_t info = {0};
    return process->pid <= 0 ||
           (waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == process->pid);
}

static void check_programs(const struct hostile_site *site, struct hostile_verdict *verdict)
{
    if (has_ended(&site->scheduler.process))
        broken(verdict, "no process dies", "the scheduler has ended");
    for (int i = 0; i < HOSTILE_WORKERS; i++)
        if (has_ended(&site->workers[i].process))
            broken(verdict, "no process dies", "worker w%d has ended", i);
    int led = kiln_test_scheduler_said(&site->scheduler, " leading ");
    if (led != 1)
        broken(verdict, "the leadership is not lost", "the scheduler has begun to lead %d times",
               led);
    if (kiln_test_scheduler_said(&site->scheduler, "ledger_away") ||
        kiln_test_scheduler_said(&site->scheduler, "bus_away"))
        broken(verdict, "a server that answers is not away", "the scheduler took one for away");
}

/* --- streams ---------------------------------------------------------------------------------- */
static long long length(struct hostile_site *site, const char *key)
{
    return hostile_site_number(site, (const char *const[]){"XLEN", key, NULL});
}

static long long pending(struct hostile_site *site, const char *key)
{
    redisReply *reply =
        hostile_site_ask(site, (const char *const[]){"XPENDING", key, "scheduler", NULL});
    long long count = reply && reply->type == REDIS_REPLY_ARRAY && reply->elements > 0
                          ? reply->element[0]->integer
                          : 0;
    freeReplyObject(reply);
    return count;
}

static const char *const streams[] = {HOSTILE_KEY("intake"), HOSTILE_KEY("control"),
                                      HOSTILE_KEY("worker:w0"), HOSTILE_KEY("worker:w1")};

/* The first that is no empty stream; -1: of another type. */
static const char *not_empty(struct hostile_site *site, long long *ret_length)
{
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        *ret_length = length(site, streams[i]);
        if (*ret_length == 0)
            *ret_length = i < 2 ? pending(site, streams[i]) : 0;
        if (*ret_length != 0)
            return streams[i];
    }
    return NULL;
}

/* Whether others can still say something: a stream of another type, or one whose ids are at their
 * end, takes nothing. */
static bool takes(struct hostile_site *site, const char *key)
{
    redisReply *reply =
        hostile_site_ask(site, (const char *const[]){"XADD", key, "*", "probe", "x", NULL});
    freeReplyObject(reply);
    return reply != NULL;
}

static void check_taking(struct hostile_site *site, double until, struct hostile_verdict *verdict)
{
    static const char *const open[] = {HOSTILE_KEY("control"), HOSTILE_KEY("events")};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        bool taken;
        while (!(taken = takes(site, open[i])) && kiln_test_now_s() < until)
            kiln_test_sleep_ms(POLL_MS);
        if (!taken)
            broken(verdict, "control and events take entries", "%s takes none", open[i]);
    }
}

/* What lies in events is heard by a leader that is asked afterwards and answers twice: between the
 * two it has gone through all that it does. */
static bool answers(struct hostile_site *site, unsigned wait_s)
{
    static unsigned asked;
    char key[80], order[120], wait[16];
    snprintf(wait, sizeof wait, "%u", wait_s);
    snprintf(key, sizeof key, HOSTILE_KEY("answer:check-%u"), asked);
    snprintf(order, sizeof order, "{\"v\":1,\"kind\":\"ask\",\"job\":0,\"id\":\"check-%u\"}",
             asked++);
    redisReply *sent = hostile_site_ask(
        site, (const char *const[]){"XADD", HOSTILE_KEY("control"), "*", "order", order, NULL});
    redisReply *answer =
        sent ? hostile_site_ask(site, (const char *const[]){"BLPOP", key, wait, NULL}) : NULL;
    bool answered = answer && answer->type == REDIS_REPLY_ARRAY;
    freeReplyObject(sent);
    freeReplyObject(answer);
    return answered;
}

static void check_leader(struct hostile_site *site, double until, struct hostile_verdict *verdict)
{
    unsigned wait_s = 1;
    for (int times = 0; times < 2;) {
        bool answered = answers(site, wait_s);
        times += answered;
        wait_s += !answered && wait_s < 3;
        if (times < 2 && kiln_test_now_s() > until) {
            broken(verdict, "the leader answers", "a question was answered %d times of two", times);
            return;
        }
    }
}

static void check_streams(struct hostile_site *site, double until, struct hostile_verdict *verdict)
{
    long long count = 0;
    const char *key;
    while ((key = not_empty(site, &count)) && kiln_test_now_s() < until)
        kiln_test_sleep_ms(POLL_MS);
    if (key)
        broken(verdict, "intake, control and the workers' streams are emptied", "%s: %lld", key,
               count);
}

/* --- every entry is accounted for ---------------------------------------------------------------
 */
static const struct hostile_bytes *field(const struct hostile_command *command, const char *name)
{
    for (size_t i = hostile_command_fields(command); i > 0 && i + 1 < command->count; i += 2)
        if (strcmp(command->words[i].at, name) == 0)
            return &command->words[i + 1];
    return NULL;
}

/* An entry of the intake stream that Redis took and that was to become a job. */
static bool is_line(const struct hostile_command *command)
{
    return command->entry[0] && strcmp(command->words[1].at, HOSTILE_KEY("intake")) == 0 &&
           (field(command, "job") || !field(command, "end"));
}

static bool in_ledger(struct hostile_site *site, const struct hostile_bytes *batch)
{
    char sql[512];
    if (!batch || batch->len == 0 || batch->len > 128 || strlen(batch->at) != batch->len ||
        strspn(batch->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") !=
            batch->len)
        return false;
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM batch b WHERE name = '%s' AND"
             " (EXISTS (SELECT FROM job WHERE batch_id = b.id) OR"
             " EXISTS (SELECT FROM intake_refusal WHERE batch_id = b.id))",
             batch->at);
    return kiln_test_count(site->stack, sql) > 0;
}

/* Whether the dead-letter stream has an entry for it. */
static bool set_aside(const redisReply *refused, const char *entry)
{
    for (size_t i = 0; refused && refused->type == REDIS_REPLY_ARRAY && i < refused->elements;
         i++) {
        const redisReply *fields = refused->element[i]->element[1];
        for (size_t f = 0; f + 1 < fields->elements; f += 2)
            if (strcmp(fields->element[f]->str, "entry") == 0 &&
                strcmp(fields->element[f + 1]->str, entry) == 0)
                return true;
    }
    return false;
}

static void check_entries(struct hostile_site *site, const struct hostile_list *list,
                          struct hostile_verdict *verdict)
{
    redisReply *refused = NULL;
    for (size_t i = 0; i < list->count && !verdict->broken; i++) {
        const struct hostile_command *command = list->at[i];
        /* Who may do everything may also take entries away before anybody has seen them. */
        if (command->rights == HOSTILE_ALL || !is_line(command) ||
            in_ledger(site, field(command, "batch")))
            continue;
        if (!refused)
            refused = hostile_site_ask(site, (const char *const[]){"XREVRANGE",
                                                                   HOSTILE_KEY("refused"), "+", "-",
                                                                   "COUNT", REFUSED_LOOK, NULL});
        if (!set_aside(refused, command->entry))
            broken(verdict, "every refused line is recorded",
                   "entry %s is neither in the ledger nor in " HOSTILE_KEY("refused"),
                   command->entry);
    }
    freeReplyObject(refused);
}

void hostile_check(struct hostile_site *site, const struct hostile_list *list, double limit_s,
                   struct hostile_verdict *ret)
{
    double until = kiln_test_now_s() + limit_s;
    *ret = (struct hostile_verdict){0};
    check_programs(site, ret);
    if (!ret->broken)
        check_taking(site, until, ret);
    if (!ret->broken)
        check_leader(site, until, ret);
    if (!ret->broken)
        check_streams(site, until, ret);
    if (!ret->broken)
        check_good(site, until, ret);
    check_programs(site, ret);
    check_indexes(site, ret);
    check_entries(site, list, ret);
}

/* --- commands -----------------------------------------------------------------------------------
 */
static void check_command(struct hostile_site *site, const char *verb, const char *job,
                          struct hostile_verdict *verdict)
{
    struct kiln_test_process process;
    char log[200];
    const char *argv[] = {"kiln", verb, "--config", site->stack->conf, job, NULL};
    snprintf(log, sizeof log, "%s/kiln-%s.log", site->stack->dir, verb);
    kiln_test_launch(&process, argv, log);
    int status = kiln_test_await_end(&process, COMMAND_S);
    bool ok = status == 0 || (status == 1 && strcmp(verb, "doctor") == 0); /* it finds something */
    if (!ok)
        broken(verdict, "status, doctor and why answer", "kiln %s ends with %d; see %s", verb,
               status, log);
    if (status == -1) {
        kill(process.pid, SIGKILL);
        (void)kiln_test_await_end(&process, 10);
    }
}

void hostile_check_commands(struct hostile_site *site, struct hostile_verdict *ret)
{
    char *job = kiln_test_sql(site->stack, "SELECT max(j.id) FROM job " GOOD);
    *ret = (struct hostile_verdict){0};
    check_command(site, "status", NULL, ret);
    check_command(site, "doctor", NULL, ret);
    if (job)
        check_command(site, "why", job, ret);
    else
        broken(ret, "status, doctor and why answer", "there is no good job to ask for");
    free(job);
}

/* --- whether it would be noticed
 * ------------------------------------------------------------------ */
/* Each breaks a promise that is looked at before those that are broken already. */
bool hostile_check_notices(struct hostile_site *site)
{
    static const char *const breaches[] = {
        "UPDATE job SET index = 0 WHERE batch_id = (SELECT min(id) FROM batch)",
        "INSERT INTO event (job_id, was, state, code, attempt)"
        " SELECT max(j.id), 1, 2, 0, 1 FROM job " GOOD,
        "UPDATE batch SET name = 'lost' WHERE id = (SELECT min(id) FROM batch)",
    };
    struct hostile_list none = {0};
    const char *before = NULL;
    bool all = true;
    for (size_t i = 0; i < sizeof breaches / sizeof *breaches; i++) {
        struct hostile_verdict verdict;
        free(kiln_test_sql(site->stack, breaches[i]));
        hostile_check(site, &none, 1, &verdict);
        if (!verdict.broken || verdict.broken == before)
            printf("not noticed: %s\n", breaches[i]);
        all = all && verdict.broken && verdict.broken != before;
        before = verdict.broken;
    }
    return all;
}
