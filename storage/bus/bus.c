/* bus.c - the connection to Redis: connecting, sending, waiting.
 *
 * A connection is in one of three moods.  Idle: nothing asked, nothing owed.  Asking: commands were
 * built into `out` and their replies are read one by one, in order.  Appending: up to a thousand
 * XADDs are on their way (in_flight) and nobody waits for a particular one.  Whoever asks while
 * appends are in flight first reads their answers, so that a reply always belongs to the question
 * at the head of the line.
 *
 * There is no repairing a line that got out of step.  After a time-out, a broken reply or a short
 * write the connection is dropped, what was in flight counts as failed (`late`), and the next call
 * connects anew.  Nothing is sent twice by this file: whether a lost XADD or a lost reading may be
 * repeated is for the caller to know, and the callers' messages are made so that it may.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "schemas/clock.h"
#include "schemas/limits.h"
#include "storage/bus/internal.h"
#include "storage/formats/user_file.h"

#define OUT_KEEP (256 * 1024)                  /* a larger buffer is given back when it is empty */
#define OUT_MAX (8 * (size_t)KILN_MESSAGE_MAX) /* bytes that may wait to be sent */
#define PASSWORD_FILE_MAX 65536                /* bytes; its first line counts */

int kiln_bus_open(const struct kiln_config *config, struct kiln_bus **ret, struct kiln_error *err)
{
    struct kiln_bus_target target;
    int rc = kiln_bus_url_parse(kiln_config_text(config, KILN_KEY_REDIS), &target, err);
    if (rc != 0)
        return rc;
    struct kiln_bus *bus = calloc(1, sizeof *bus);
    char *password_file = strdup(kiln_config_text(config, KILN_KEY_REDIS_PASSWORD_FILE));
    if (!bus || !password_file) {
        free(bus);
        free(password_file);
        return kiln_fail(err, KILN_NO_MEMORY, "bus: no memory");
    }
    bus->target = target;
    bus->password_file = password_file;
    bus->connect_ms = (int64_t)(kiln_config_number(config, KILN_KEY_CONNECT_TIMEOUT_S) * 1000);
    bus->answer_ms = (int64_t)(kiln_config_number(config, KILN_KEY_STATEMENT_TIMEOUT_S) * 1000);
    bus->limit_ms = INT64_MAX;
    *ret = bus;
    return 0;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void kiln_bus_limit(struct kiln_bus *bus, uint32_t limit_ms)
{
    bus->limit_ms = limit_ms > 0 ? limit_ms : 1;
}

static int64_t answer_deadline(const struct kiln_bus *bus)
{
    return kiln_clock_ms() + smaller(bus->answer_ms, bus->limit_ms);
}

void kiln_bus_drop(struct kiln_bus *bus)
{
    if (bus->context)
        redisFree(bus->context);
    bus->context = NULL;
    bus->out_len = bus->out_sent = 0;
    bus->in_flight = 0;
}

void kiln_bus_end_loan(struct kiln_bus *bus)
{
    if (bus->lent)
        freeReplyObject(bus->lent);
    free(bus->entries);
    free(bus->texts);
    free(bus->lengths);
    bus->lent = NULL;
    bus->entries = NULL;
    bus->texts = NULL;
    bus->lengths = NULL;
}

void kiln_bus_close(struct kiln_bus *bus)
{
    if (!bus)
        return;
    kiln_bus_drop(bus);
    kiln_bus_end_loan(bus);
    free(bus->out);
    free(bus->password_file);
    free(bus);
}

/* Never the password, never the user: "host:port" or the socket's path, for messages. */
static const char *where(const struct kiln_bus *bus, char out[300])
{
    if (bus->target.path[0])
        snprintf(out, 300, "%s", bus->target.path);
    else
        snprintf(out, 300, "%s:%d", bus->target.host, bus->target.port);
    return out;
}

/* Gives the connection up and says why; returns code. */
static int lost(struct kiln_bus *bus, int code, const char *what, struct kiln_error *err)
{
    char at[300];
    if (bus->in_flight > 0 && bus->late.code == 0)
        kiln_fail(&bus->late, code, "Redis at %s: %s", where(bus, at), what);
    kiln_bus_drop(bus);
    bus->refusal = KILN_BUS_NOT_REFUSED;
    return kiln_fail(err, code, "Redis at %s: %s", where(bus, at), what);
}

/* --- building commands ----------------------------------------------------------------------- */

/* Room for more bytes at the end of `out`, or NULL: a command is then incomplete, must not be sent,
 * and kiln_bus_reply says so. */
static char *extend(struct kiln_bus *bus, size_t more)
{
    if (bus->out_len + more > bus->out_size) {
        size_t size = bus->out_size * 2 + more + 4096;
        char *out = bus->out_len + more > OUT_MAX ? NULL : realloc(bus->out, size);
        if (!out) {
            bus->short_of_memory = true;
            return NULL;
        }
        bus->out = out;
        bus->out_size = size;
    }
    char *at = bus->out + bus->out_len;
    bus->out_len += more;
    return at;
}

/* Writes mark, value and CRLF: the head of a command or of an argument. */
static void put_head(struct kiln_bus *bus, char mark, uint64_t value)
{
    char text[24];
    size_t at = sizeof text;
    text[--at] = '\n';
    text[--at] = '\r';
    do
        text[--at] = (char)('0' + value % 10);
    while (value /= 10);
    text[--at] = mark;
    char *to = extend(bus, sizeof text - at);
    if (to)
        memcpy(to, text + at, sizeof text - at);
}

void kiln_bus_command(struct kiln_bus *bus, size_t arguments)
{
    put_head(bus, '*', arguments);
}

void kiln_bus_arg(struct kiln_bus *bus, const char *bytes, size_t len)
{
    put_head(bus, '$', len);
    char *to = extend(bus, len + 2);
    if (to) {
        memcpy(to, bytes, len);
        memcpy(to + len, "\r\n", 2);
    }
}

void kiln_bus_arg_text(struct kiln_bus *bus, const char *text)
{
    kiln_bus_arg(bus, text, strlen(text));
}

const char *kiln_bus_number(uint64_t value, char out[24])
{
    snprintf(out, 24, "%llu", (unsigned long long)value);
    return out;
}

void kiln_bus_words(struct kiln_bus *bus, size_t count, const char *const *words)
{
    kiln_bus_command(bus, count);
    for (size_t i = 0; i < count; i++)
        kiln_bus_arg_text(bus, words[i]);
}

/* --- sending and receiving ------------------------------------------------------------------- */

/* Moves what is unsent to the front once what is sent takes more room. */
static void close_gap(struct kiln_bus *bus)
{
    if (bus->out_sent < bus->out_len - bus->out_sent)
        return;
    memmove(bus->out, bus->out + bus->out_sent, bus->out_len - bus->out_sent);
    bus->out_len -= bus->out_sent;
    bus->out_sent = 0;
}

int kiln_bus_send(struct kiln_bus *bus, struct kiln_error *err)
{
    while (bus->out_sent < bus->out_len) {
        ssize_t n = send(bus->context->fd, bus->out + bus->out_sent, bus->out_len - bus->out_sent,
                         MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            close_gap(bus);
            return 0;
        }
        if (n < 0)
            return lost(bus, KILN_UNAVAILABLE, strerror(errno), err);
        bus->out_sent += (size_t)n;
    }
    bus->out_len = bus->out_sent = 0;
    if (bus->out_size > OUT_KEEP) {
        free(bus->out);
        bus->out = NULL;
        bus->out_size = 0;
    }
    return 0;
}

/* Feeds the parser with what has arrived. */
static int read_some(struct kiln_bus *bus, struct kiln_error *err)
{
    char bytes[16 * 1024];
    ssize_t n = recv(bus->context->fd, bytes, sizeof bytes, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (n < 0)
        return lost(bus, KILN_UNAVAILABLE, strerror(errno), err);
    if (n == 0)
        return lost(bus, KILN_UNAVAILABLE, "the connection was closed", err);
    bus->reply_bytes += (size_t)n;
    if (bus->reply_max > 0 && bus->reply_bytes > bus->reply_max)
        return lost(bus, KILN_NO_MEMORY, "the entries read at once are too large", err);
    if (redisReaderFeed(bus->context->reader, bytes, (size_t)n) != REDIS_OK)
        return lost(bus, KILN_NO_MEMORY, "no memory for a reply", err);
    return 0;
}

/* Moves bytes both ways until something can be read, everything is sent, or the deadline. */
static int wait_io(struct kiln_bus *bus, int64_t deadline, struct kiln_error *err)
{
    int rc = kiln_bus_send(bus, err);
    if (rc != 0)
        return rc;
    bool unsent = bus->out_sent < bus->out_len;
    int64_t left = deadline - kiln_clock_ms();
    struct pollfd at = {.fd = bus->context->fd, .events = POLLIN | (unsent ? POLLOUT : 0)};
    int ready = poll(&at, 1, left > 0 ? (int)left : 0);
    if (ready < 0 && errno != EINTR)
        return lost(bus, KILN_UNAVAILABLE, strerror(errno), err);
    if (ready == 0 && left <= 0)
        return lost(bus, KILN_TIMEOUT, "no answer within the time limit", err);
    return ready > 0 && (at.revents & ~POLLOUT) ? read_some(bus, err) : 0;
}

/* A reply that has arrived already, or NULL. */
static int parse_one(struct kiln_bus *bus, redisReply **ret, struct kiln_error *err)
{
    void *reply = NULL;
    if (redisReaderGetReply(bus->context->reader, &reply) != REDIS_OK) {
        char text[160];
        int code = bus->context->reader->err == REDIS_ERR_OOM ? KILN_NO_MEMORY : KILN_PROTOCOL;
        snprintf(text, sizeof text, "%s", bus->context->reader->errstr);
        return lost(bus, code, text, err);
    }
    *ret = reply;
    return 0;
}

/* The next reply in line, however many reads it takes, until the deadline. */
static int next_reply(struct kiln_bus *bus, int64_t deadline, redisReply **ret,
                      struct kiln_error *err)
{
    *ret = NULL;
    for (;;) {
        int rc = parse_one(bus, ret, err);
        if (rc != 0 || *ret)
            return rc;
        rc = wait_io(bus, deadline, err);
        if (rc != 0)
            return rc;
    }
}

int kiln_bus_drain(struct kiln_bus *bus, uint32_t left, struct kiln_error *err)
{
    int64_t deadline = answer_deadline(bus);
    while (bus->in_flight > left) {
        redisReply *reply;
        int rc = next_reply(bus, deadline, &reply, err);
        if (rc != 0)
            return rc;
        bus->in_flight--;
        if (reply->type == REDIS_REPLY_ERROR && bus->late.code == 0)
            bus->late.code = kiln_bus_reply_error(reply, &bus->late_refusal, &bus->late);
        freeReplyObject(reply);
    }
    return 0;
}

static int reply_until(struct kiln_bus *bus, int64_t deadline, redisReply **ret,
                       struct kiln_error *err)
{
    if (bus->short_of_memory)
        return lost(bus, KILN_NO_MEMORY, "no memory for a command, or it is too large", err);
    int rc = next_reply(bus, deadline, ret, err);
    if (rc == 0 && (*ret)->type == REDIS_REPLY_ERROR) {
        rc = kiln_bus_reply_error(*ret, &bus->refusal, err);
        freeReplyObject(*ret);
        *ret = NULL;
    }
    return rc;
}

int kiln_bus_reply(struct kiln_bus *bus, int64_t extra_ms, redisReply **ret, struct kiln_error *err)
{
    int rc = bus->short_of_memory ? 0 : kiln_bus_drain(bus, 0, err);
    return rc ? rc : reply_until(bus, answer_deadline(bus) + extra_ms, ret, err);
}

/* EXEC answers with an array that may hold errors. */
static int error_within(struct kiln_bus *bus, const redisReply *reply, struct kiln_error *err)
{
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
        if (reply->element[i]->type == REDIS_REPLY_ERROR)
            return kiln_bus_reply_error(reply->element[i], &bus->refusal, err);
    return 0;
}

int kiln_bus_replies(struct kiln_bus *bus, size_t count, struct kiln_error *err)
{
    enum kiln_bus_refusal refusal = KILN_BUS_NOT_REFUSED;
    int first = bus->short_of_memory ? 0 : kiln_bus_drain(bus, 0, err);
    int64_t deadline = answer_deadline(bus);
    if (first)
        return first;
    for (size_t i = 0; i < count; i++) {
        redisReply *reply;
        struct kiln_error *say = first ? NULL : err;
        int rc = reply_until(bus, deadline, &reply, say);
        if (rc == 0) {
            rc = error_within(bus, reply, say);
            freeReplyObject(reply);
        }
        if (!first) {
            first = rc;
            refusal = bus->refusal;
        }
        if (!bus->context)
            return first;
    }
    bus->refusal = refusal;
    return first;
}

/* --- connecting ------------------------------------------------------------------------------ */

/* *ret: malloc'd, without the line's end; NULL if no file is set. */
static int read_password(const struct kiln_bus *bus, char **ret, struct kiln_error *err)
{
    *ret = NULL;
    if (!bus->password_file[0])
        return 0;
    struct kiln_error why;
    char *text;
    size_t len;
    const int code = kiln_user_file_read(bus->password_file, PASSWORD_FILE_MAX, &text, &len, &why);
    if (code)
        return kiln_fail(err, code == KILN_NO_MEMORY ? code : KILN_CONFIG,
                         "redis_password_file: %s", why.text);
    text[strcspn(text, "\r\n")] = '\0';
    if (len == 0 || text[0] == '\0') {
        free(text);
        return kiln_fail(err, KILN_CONFIG, "redis_password_file %s is empty", bus->password_file);
    }
    *ret = text;
    return 0;
}

/* Says who we are and which database is meant.  SELECT goes out even for 0: its answer is the proof
 * that a Redis listens, that it has loaded its data and that the password was right. */
static int greet(struct kiln_bus *bus, const char *password, struct kiln_error *err)
{
    if (password && bus->target.user[0])
        KILN_BUS_PUT(bus, "AUTH", bus->target.user, password);
    else if (password)
        KILN_BUS_PUT(bus, "AUTH", password);
    KILN_BUS_PUT(bus, "SELECT", KILN_BUS_NUMBER((uint64_t)bus->target.db));
    return kiln_bus_replies(bus, password ? 2 : 1, err);
}

/* hiredis connects, with its time limit; from then on the socket is non-blocking and ours. */
static int connect_socket(struct kiln_bus *bus, struct kiln_error *err)
{
    int64_t limit_ms = smaller(bus->connect_ms, bus->limit_ms);
    struct timeval limit = {limit_ms / 1000, (limit_ms % 1000) * 1000};
    bool local = bus->target.path[0] != '\0';
    bus->context = local ? redisConnectUnixWithTimeout(bus->target.path, limit)
                         : redisConnectWithTimeout(bus->target.host, bus->target.port, limit);
    if (!bus->context)
        return kiln_fail(err, KILN_NO_MEMORY, "bus: no memory for a connection");
    if (bus->context->err) {
        char text[160];
        snprintf(text, sizeof text, "%s", bus->context->errstr);
        return lost(bus, KILN_UNAVAILABLE, text, err);
    }
    if (!local)
        (void)redisEnableKeepAlive(bus->context); /* only a convenience */
    int flags = fcntl(bus->context->fd, F_GETFL);
    if (flags < 0 || fcntl(bus->context->fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return lost(bus, KILN_UNAVAILABLE, strerror(errno), err);
    bus->context->flags &= ~REDIS_BLOCK;
    return 0;
}

/* A server that closed an idle connection is noticed here, before anything is sent into the void.
 */
static bool alive(struct kiln_bus *bus)
{
    char byte;
    ssize_t n = recv(bus->context->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

int kiln_bus_begin(struct kiln_bus *bus, struct kiln_error *err)
{
    bus->short_of_memory = false;
    bus->refusal = KILN_BUS_NOT_REFUSED;
    if (bus->context && (bus->in_flight > 0 || alive(bus)))
        return 0;
    kiln_bus_drop(bus);
    kiln_backoff_wait(&bus->backoff);
    char *password;
    int rc = read_password(bus, &password, err);
    if (rc == 0)
        rc = connect_socket(bus, err);
    if (rc == 0)
        rc = greet(bus, password, err);
    free(password);
    if (rc == 0) {
        kiln_backoff_reset(&bus->backoff);
        return 0;
    }
    kiln_bus_drop(bus);
    bus->refusal = KILN_BUS_NOT_REFUSED; /* who is not let in has no connection to go on with */
    kiln_backoff_failed(&bus->backoff);
    return rc;
}

int kiln_bus_request(struct kiln_bus *bus, redisReply **ret, struct kiln_error *err, size_t count,
                     const char *const *words)
{
    int rc = kiln_bus_begin(bus, err);
    if (rc != 0)
        return rc;
    kiln_bus_words(bus, count, words);
    return kiln_bus_reply(bus, 0, ret, err);
}

int kiln_bus_run(struct kiln_bus *bus, struct kiln_error *err, size_t count,
                 const char *const *words)
{
    redisReply *reply;
    int rc = kiln_bus_request(bus, &reply, err, count, words);
    if (rc == 0)
        freeReplyObject(reply);
    return rc;
}

int kiln_bus_ping(struct kiln_bus *bus, struct kiln_error *err)
{
    return kiln_bus_run(bus, err, KILN_BUS_WORDS("PING"));
}
