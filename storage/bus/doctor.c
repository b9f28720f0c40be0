/* doctor.c - see doctor.h.
 *
 * Redis tells nobody but an administrator what a user may do, but it checks the rights to a command
 * when the command is put into a transaction.  So each one is put there, with a key as the part of
 * Kiln would use it, and the connection is closed instead of executing: nothing happens to any key.
 */
#include "storage/bus/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/wire/wire.h"
#include "storage/bus/internal.h"

#define WORDS_MAX 10

/* The first trial of an ability is one that no other part may do: without it the ability is not
 * there, with it the others must be.  ~ stands for the pool's part of a key. */
static const struct trial {
    enum kiln_bus_ability ability;
    const char *words[WORDS_MAX];
} trials[] = {
    {KILN_BUS_SCHEDULES, {"XREADGROUP", "GROUP", "g", "c", "STREAMS", "~intake", ">"}},
    {KILN_BUS_SCHEDULES, {"XGROUP", "CREATE", "~intake", "g", "0"}},
    {KILN_BUS_SCHEDULES, {"XAUTOCLAIM", "~intake", "g", "c", "1000", "0"}},
    {KILN_BUS_SCHEDULES, {"XINFO", "STREAM", "~intake"}},
    {KILN_BUS_SCHEDULES, {"WATCH", "~intake"}},
    {KILN_BUS_SCHEDULES, {"XACK", "~intake", "g", "1-1"}},
    {KILN_BUS_SCHEDULES, {"XDEL", "~intake", "1-1"}},
    {KILN_BUS_SCHEDULES, {"RPUSH", "~receipt:doctor", "x"}},
    {KILN_BUS_SCHEDULES, {"EXPIRE", "~receipt:doctor", "1"}},
    {KILN_BUS_SCHEDULES, {"RPUSH", "~answer:doctor", "x"}},
    {KILN_BUS_SCHEDULES, {"XADD", "~refused", "*", "a", "b"}},
    {KILN_BUS_SCHEDULES, {"XADD", "~worker:doctor", "*", "a", "b"}},
    {KILN_BUS_SCHEDULES, {"XADD", "~events", "*", "a", "b"}},
    {KILN_BUS_SCHEDULES, {"XREAD", "STREAMS", "~control", "0"}},
    {KILN_BUS_SCHEDULES, {"HGET", "~beat:doctor", "beat"}},
    {KILN_BUS_SCHEDULES, {"DEL", "~worker:doctor"}},
    {KILN_BUS_SCHEDULES, {"SCAN", "0"}},
    {KILN_BUS_RENDERS, {"HSET", "~beat:doctor", "beat", "x"}},
    {KILN_BUS_RENDERS, {"PEXPIRE", "~beat:doctor", "1"}},
    {KILN_BUS_RENDERS, {"DEL", "~beat:doctor"}},
    {KILN_BUS_RENDERS, {"XREAD", "STREAMS", "~worker:doctor", "0"}},
    {KILN_BUS_RENDERS, {"XDEL", "~worker:doctor", "1-1"}},
    {KILN_BUS_RENDERS, {"XADD", "~events", "*", "a", "b"}},
    {KILN_BUS_OPERATES, {"BLPOP", "~answer:doctor", "1"}},
    {KILN_BUS_OPERATES, {"XADD", "~control", "*", "a", "b"}},
    {KILN_BUS_READS, {"XLEN", "~events"}},
    {KILN_BUS_READS, {"XREAD", "STREAMS", "~events", "0"}},
    {KILN_BUS_READS, {"XREVRANGE", "~events", "+", "-"}},
    {KILN_BUS_READS, {"XINFO", "STREAM", "~intake"}},
    {KILN_BUS_READS, {"HGET", "~beat:doctor", "beat"}},
    {KILN_BUS_READS, {"SCAN", "0"}},
    {KILN_BUS_ENQUEUES, {"BLPOP", "~receipt:doctor", "1"}},
    {KILN_BUS_ENQUEUES, {"LPOP", "~receipt:doctor"}},
    {KILN_BUS_ENQUEUES, {"XADD", "~intake", "*", "a", "b"}},
};
#define TRIALS (sizeof trials / sizeof *trials)

static void put(struct kiln_bus *bus, const struct trial *trial, const char *pool)
{
    char key[KILN_NAME_MAX + 64];
    size_t count = 0;
    while (count < WORDS_MAX && trial->words[count])
        count++;
    kiln_bus_command(bus, count);
    for (size_t i = 0; i < count; i++) {
        const char *word = trial->words[i];
        if (word[0] == '~')
            kiln_wire_key(key, sizeof key, pool, word + 1, NULL);
        kiln_bus_arg_text(bus, word[0] == '~' ? key : word);
    }
}

static void note_refusal(const struct trial *trial, struct kiln_bus_rights *rights)
{
    const char *key = "";
    for (size_t i = 1; i < WORDS_MAX && trial->words[i]; i++)
        if (trial->words[i][0] == '~')
            key = trial->words[i] + 1;
    char *lacks = rights->lacks[trial->ability];
    if (!lacks[0])
        snprintf(lacks, sizeof rights->lacks[0], "%s%s%s", trial->words[0], key[0] ? " " : "", key);
}

/* The answers to all trials.  Whether a command is allowed is asked first, so another complaint (a
 * full disk) is of one that is. */
static int hear_trials(struct kiln_bus *bus, struct kiln_bus_rights *rights, struct kiln_error *err)
{
    for (size_t i = 0; i < TRIALS; i++) {
        redisReply *reply;
        bool first = i == 0 || trials[i - 1].ability != trials[i].ability;
        int rc = kiln_bus_reply(bus, 0, &reply, err);
        if (rc == 0)
            freeReplyObject(reply);
        else if (!bus->context)
            return rc;
        if (first)
            rights->able[trials[i].ability] = rc != KILN_DENIED;
        else if (rc == KILN_DENIED)
            note_refusal(&trials[i], rights);
    }
    return 0;
}

int kiln_bus_rights(struct kiln_bus *bus, const char *pool, struct kiln_bus_rights *ret,
                    struct kiln_error *err)
{
    struct kiln_bus_rights rights = {.user = "default"};
    int rc = kiln_bus_run(bus, err, KILN_BUS_WORDS("MULTI"));
    if (rc)
        return rc;
    if (bus->target.user[0])
        snprintf(rights.user, sizeof rights.user, "%s", bus->target.user);
    for (size_t i = 0; i < TRIALS; i++)
        put(bus, &trials[i], pool);
    rc = hear_trials(bus, &rights, err);
    kiln_bus_drop(bus); /* and the transaction with it */
    for (int i = 0; rc == 0 && i < KILN_BUS_ABILITIES; i++)
        if (!rights.able[i])
            rights.lacks[i][0] = '\0';
    if (rc == 0)
        *ret = rights;
    return rc;
}

/* --- what it says of itself ------------------------------------------------------------------- */

/* The value of "name:value\r\n", "" without such a line. */
static void find_line(const char *info, const char *name, char *out, size_t size)
{
    size_t len = strlen(name);
    out[0] = '\0';
    for (const char *line = info; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && line[len] == ':') {
            snprintf(out, size, "%.*s", (int)strcspn(line + len + 1, "\r\n"), line + len + 1);
            return;
        }
    }
}

static uint64_t find_number(const char *info, const char *name)
{
    char text[32];
    find_line(info, name, text, sizeof text);
    return strtoull(text, NULL, 10);
}

static bool is_failure(const char *info, const char *name)
{
    char text[32];
    find_line(info, name, text, sizeof text);
    return strcmp(text, "err") == 0;
}

static bool is_local(const struct kiln_bus_target *at)
{
    return at->path[0] || strncmp(at->host, "127.", 4) == 0 || strcmp(at->host, "::1") == 0 ||
           strcmp(at->host, "localhost") == 0;
}

int kiln_bus_state(struct kiln_bus *bus, struct kiln_bus_state *ret, struct kiln_error *err)
{
    redisReply *reply;
    int rc = kiln_bus_request(bus, &reply, err, KILN_BUS_WORDS("INFO"));
    if (rc)
        return rc;
    const char *info = reply->str ? reply->str : "";
    *ret = (struct kiln_bus_state){
        .used = find_number(info, "used_memory"),
        .max = find_number(info, "maxmemory"),
        .aof = find_number(info, "aof_enabled") == 1,
        .aof_failed = is_failure(info, "aof_last_write_status") ||
                      is_failure(info, "aof_last_bgrewrite_status"),
        .save_failed = is_failure(info, "rdb_last_bgsave_status"),
        .local = is_local(&bus->target),
        .pid = (long)find_number(info, "process_id"),
    };
    find_line(info, "redis_version", ret->version, sizeof ret->version);
    find_line(info, "maxmemory_policy", ret->policy, sizeof ret->policy);
    freeReplyObject(reply);
    return 0;
}

int kiln_bus_dir(struct kiln_bus *bus, char *out, size_t size, struct kiln_error *err)
{
    redisReply *reply;
    int rc = kiln_bus_request(bus, &reply, err, KILN_BUS_WORDS("CONFIG", "GET", "dir"));
    if (rc)
        return rc;
    if (reply->elements == 2 && reply->element[1]->str)
        snprintf(out, size, "%s", reply->element[1]->str);
    else
        rc = kiln_fail(err, KILN_PROTOCOL, "Redis: the answer to CONFIG GET dir makes no sense");
    freeReplyObject(reply);
    return rc;
}

int kiln_bus_time(struct kiln_bus *bus, int64_t *ret_ms, struct kiln_error *err)
{
    redisReply *reply;
    int rc = kiln_bus_request(bus, &reply, err, KILN_BUS_WORDS("TIME"));
    if (rc)
        return rc;
    if (reply->elements == 2 && reply->element[0]->str && reply->element[1]->str)
        *ret_ms =
            strtoll(reply->element[0]->str, NULL, 10) * 1000 + atol(reply->element[1]->str) / 1000;
    else
        rc = kiln_fail(err, KILN_PROTOCOL, "Redis: the answer to TIME makes no sense");
    freeReplyObject(reply);
    return rc;
}
