/* site.c - see site.h. */
#include "tests/hostile/site.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/digest.h"
#include "storage/bus/acl.h"
#include "tests/hostile/attack.h"
#include "tests/support/stack_postgres.h"

#define PASSWORD "hostile"
#define ANSWER_S 20

/* --- connections ------------------------------------------------------------------------------ */
/* By the rules that roles have, in the order of enum hostile_rights; NULL: the default user. */
static const char *const users[HOSTILE_RIGHTS] = {"kiln_producer", "kiln_operator", NULL};

static void make_users(const struct hostile_site *site)
{
    uint8_t digest[KILN_SHA256_SIZE];
    char hash[2 * KILN_SHA256_SIZE + 1], rules[KILN_BUS_RULES_MAX];
    struct kiln_bus *bus = NULL;
    struct kiln_error err;
    kiln_sha256(PASSWORD, strlen(PASSWORD), digest);
    kiln_hex(digest, sizeof digest, hash);
    int rc = kiln_bus_open(site->stack->config, &bus, &err);
    for (int i = 0; i < KILN_BUS_USER_COUNT && rc == 0; i++) {
        rc = kiln_bus_rules(i, HOSTILE_POOL, hash, rules, &err);
        if (rc == 0)
            rc = kiln_bus_set_user(bus, kiln_bus_user_names[i], rules, &err);
    }
    if (rc)
        kiln_test_die("the users of Redis: %s", err.text);
    kiln_bus_close(bus);
}

static redisContext *connect_as(const struct hostile_site *site, const char *user)
{
    char path[200];
    struct timeval limit = {.tv_sec = ANSWER_S};
    snprintf(path, sizeof path, "%s/redis.sock", site->stack->dir);
    redisContext *redis = redisConnectUnixWithTimeout(path, limit);
    if (!redis || redis->err || redisSetTimeout(redis, limit) != REDIS_OK)
        kiln_test_die("Redis does not take a connection");
    redisReply *reply = user ? redisCommand(redis, "AUTH %s %s", user, PASSWORD) : NULL;
    if (user && (!reply || reply->type == REDIS_REPLY_ERROR))
        kiln_test_die("Redis does not know %s: %s", user, reply ? reply->str : redis->errstr);
    freeReplyObject(reply);
    return redis;
}

static redisReply *run(redisContext *redis, const struct hostile_command *command)
{
    const char **words = calloc(command->count, sizeof *words);
    size_t *lengths = calloc(command->count, sizeof *lengths);
    for (size_t i = 0; words && lengths && i < command->count; i++) {
        words[i] = command->words[i].at;
        lengths[i] = command->words[i].len;
    }
    redisReply *reply =
        words && lengths ? redisCommandArgv(redis, (int)command->count, words, lengths) : NULL;
    free(words);
    free(lengths);
    if (!reply)
        kiln_test_die("Redis, %s: %s", command->words[0].at, redis->errstr);
    return reply;
}

void hostile_site_send(struct hostile_site *site, struct hostile_command *command)
{
    redisReply *reply = run(site->redis[command->rights], command);
    command->entry[0] = '\0';
    if (reply->type == REDIS_REPLY_ERROR)
        site->declined++;
    else if (hostile_command_is(command, "XADD") && reply->type == REDIS_REPLY_STRING)
        snprintf(command->entry, sizeof command->entry, "%s", reply->str);
    freeReplyObject(reply);
}

redisReply *hostile_site_ask(struct hostile_site *site, const char *const *words)
{
    struct hostile_command *command = hostile_command_of(HOSTILE_ALL, words);
    redisReply *reply = run(site->redis[HOSTILE_ALL], command);
    hostile_command_free(command);
    if (reply->type != REDIS_REPLY_ERROR)
        return reply;
    freeReplyObject(reply);
    return NULL;
}

long long hostile_site_number(struct hostile_site *site, const char *const *words)
{
    redisReply *reply = hostile_site_ask(site, words);
    long long number = reply && reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
    freeReplyObject(reply);
    return number;
}

/* --- programs --------------------------------------------------------------------------------- */
/* Attempts may be many where workers' streams are taken away; their number is not the question. */
static void add_settings(const struct hostile_site *site)
{
    FILE *conf = fopen(site->stack->conf, "ae");
    if (!conf || fprintf(conf, "max_attempts = 50\n") < 0 || fclose(conf) != 0)
        kiln_test_die("cannot write %s", site->stack->conf);
}

static void start_workers(struct hostile_site *site)
{
    for (int i = 0; i < HOSTILE_WORKERS; i++) {
        char id[8];
        struct kiln_test_worker *worker = &site->workers[i];
        if (worker->process.pid > 0 && kiln_test_worker_wait(worker, 0) == -1)
            continue;
        snprintf(id, sizeof id, "w%d", i);
        kiln_test_worker_start(worker, site->stack, id, NULL, false);
    }
    for (int i = 0; i < HOSTILE_WORKERS; i++)
        if (!kiln_test_worker_hears(&site->workers[i], "worker_ready", 60))
            kiln_test_die("worker %d did not get ready; see %s", i, site->workers[i].process.log);
}

/* Events from before a leader begins are not heard. */
static void start_scheduler(struct hostile_site *site)
{
    kiln_test_scheduler_start(&site->scheduler, site->stack, "a");
    if (!kiln_test_scheduler_hears(&site->scheduler, "queue_loaded", 60))
        kiln_test_die("the scheduler does not lead; see %s", site->scheduler.process.log);
}

void hostile_site_start(struct hostile_site *site)
{
    *site = (struct hostile_site){0};
    site->stack = kiln_test_stack_start(KILN_STACK_REDIS | KILN_STACK_TABLES);
    add_settings(site);
    make_users(site);
    for (int i = 0; i < HOSTILE_RIGHTS; i++)
        site->redis[i] = connect_as(site, users[i]);
    site->good = connect_as(site, users[HOSTILE_PRODUCER]);
    start_scheduler(site);
    start_workers(site);
}

/* The workers live and may be writing: Postgres may find that it and they wait for one another. */
static const char empty_tables[] =
    "SET client_min_messages = error; DO $$ BEGIN LOOP BEGIN"
    " TRUNCATE batch, event CASCADE; RETURN;"
    " EXCEPTION WHEN deadlock_detected THEN NULL; END; END LOOP; END $$";

void hostile_site_reset(struct hostile_site *site)
{
    (void)kiln_test_scheduler_kill(&site->scheduler);
    kiln_test_flushall(site->stack);
    free(kiln_test_sql(site->stack, empty_tables));
    site->calls = 0;
    start_workers(site);
    start_scheduler(site);
}

void hostile_site_stop(struct hostile_site *site)
{
    for (int i = 0; i < HOSTILE_WORKERS; i++) {
        kiln_test_worker_signal(&site->workers[i], SIGKILL);
        (void)kiln_test_worker_wait(&site->workers[i], 10);
    }
    (void)kiln_test_scheduler_kill(&site->scheduler);
    for (int i = 0; i < HOSTILE_RIGHTS; i++)
        redisFree(site->redis[i]);
    redisFree(site->good);
    kiln_test_stack_stop(site->stack);
}

/* --- the good client -------------------------------------------------------------------------- */
static void send_good(struct hostile_site *site, const char *const *words)
{
    struct hostile_command *command = hostile_command_of(HOSTILE_PRODUCER, words);
    redisReply *reply = run(site->good, command); /* refused: the receipt will count too few */
    freeReplyObject(reply);
    hostile_command_free(command);
}

void hostile_good_begin(struct hostile_site *site, struct hostile_good *good)
{
    good->tries = 0;
    good->numbered = site->calls % 2 == 0;
    snprintf(good->batch, sizeof good->batch, "good-%u", site->calls++);
    snprintf(good->token, sizeof good->token, "%s.0", good->batch);
}

/* In every other call the lines name an index and a key, as `kiln enqueue` does. */
void hostile_good_line(struct hostile_site *site, const struct hostile_good *good, unsigned line)
{
    char text[160], index[16], key[24];
    snprintf(
        text, sizeof text,
        "{\"prompt\":\"good %u\",\"width\":64,\"height\":64,\"steps\":2,\"custom_id\":\"c%u\"}",
        line, line);
    snprintf(index, sizeof index, "%u", line);
    snprintf(key, sizeof key, "k%u", line);
    const char *const words[] = {"XADD",      HOSTILE_KEY("intake"),
                                 "*",         "batch",
                                 good->batch, "token",
                                 good->token, "job",
                                 text,        good->numbered ? "index" : NULL,
                                 index,       "key",
                                 key,         NULL};
    send_good(site, words);
}

static void announce(struct hostile_site *site, const struct hostile_good *good)
{
    char count[16];
    snprintf(count, sizeof count, "%u", HOSTILE_GOOD_LINES);
    const char *const words[] = {"XADD",  HOSTILE_KEY("intake"), "*",   "batch", good->batch,
                                 "token", good->token,           "end", count,   NULL};
    send_good(site, words);
}

static bool is_whole(const char *text, size_t len)
{
    struct kiln_receipt receipt;
    struct kiln_error err;
    return kiln_receipt_decode(text, len, &receipt, &err) == 0 &&
           receipt.accepted + receipt.duplicate >= HOSTILE_GOOD_LINES;
}

/* Longer each time: what took its line away is repaired within a second, but the machine may be
 * busy. */
static bool has_receipt(struct hostile_site *site, const struct hostile_good *good)
{
    redisReply *reply = redisCommand(site->good, "BLPOP " HOSTILE_KEY("receipt:%s") " %u",
                                     good->token, good->tries < 3 ? good->tries + 1 : 3);
    bool whole = reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                 is_whole(reply->element[1]->str, reply->element[1]->len);
    freeReplyObject(reply);
    return whole;
}

bool hostile_good_end(struct hostile_site *site, struct hostile_good *good, double limit_s)
{
    double until = kiln_test_now_s() + limit_s;
    announce(site, good);
    while (!has_receipt(site, good)) {
        if (kiln_test_now_s() > until)
            return false;
        snprintf(good->token, sizeof good->token, "%s.%u", good->batch, ++good->tries);
        for (unsigned i = 0; i < HOSTILE_GOOD_LINES; i++)
            hostile_good_line(site, good, i);
        announce(site, good);
        kiln_test_sleep_ms(20);
    }
    return true;
}
