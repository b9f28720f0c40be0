/* internal.h - the connection of the bus: sends commands and reads replies, each with a deadline.
 *
 * hiredis connects and parses replies.  Kiln waits itself (a non-blocking socket and poll), because
 * hiredis' blocking mode has a time limit for each system call and not for an answer.  Commands
 * are written straight into one growing buffer:
 *
 *     kiln_bus_begin(bus, err)                      connect if needed
 *     kiln_bus_command(bus, 2); kiln_bus_arg(bus, "XLEN", 4); kiln_bus_arg(bus, stream, n);
 *     kiln_bus_reply(bus, 0, &reply, err)           send, wait, map an error reply to a code
 *
 * Any failure of the connection closes it, so that a late answer never meets the next command.
 */
#ifndef KILN_BUS_INTERNAL_H
#define KILN_BUS_INTERNAL_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "storage/bus/bus.h"
#include "storage/daemon/outage.h"

/* --- url.c ----------------------------------------------------------------------------------- */
struct kiln_bus_target {
    char host[256], path[108]; /* path "" : TCP */
    char user[64];             /* "" : the default user */
    int port, db;
};
/* redis://[user@]host[:port][/db] or unix:/path[?db=N][&user=NAME]. */
int kiln_bus_url_parse(const char *url, struct kiln_bus_target *ret,
                       struct kiln_error *err) KILN_MUST_CHECK;

/* --- bus.c ----------------------------------------------------------------------------------- */
struct kiln_bus {
    struct kiln_bus_target target;
    char *password_file;
    int64_t connect_ms, answer_ms; /* limits of connecting, and of all answers of a call */
    int64_t limit_ms;              /* of both, as set by kiln_bus_limit */
    struct kiln_backoff backoff;
    redisContext *context; /* NULL while not connected */
    char *out;             /* commands not yet written: out[sent..len) */
    size_t out_sent, out_len, out_size;
    bool short_of_memory;   /* while a command was built */
    uint32_t in_flight;     /* appends without an answer yet */
    struct kiln_error late; /* the first failure among them; code 0 = none */
    enum kiln_bus_refusal refusal, late_refusal;
    size_t reply_max;   /* bytes that the reply waited for may have; 0: any number */
    size_t reply_bytes; /* of it so far */
    uint32_t read_max;  /* entries to ask for at most: few after large ones; 0: any number */
    redisReply *lent;   /* the reply that lent entries point into */
    struct kiln_bus_entry *entries;
    const char **texts;
    size_t *lengths;
};

int kiln_bus_begin(struct kiln_bus *bus, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_bus_drop(struct kiln_bus *bus);
void kiln_bus_end_loan(struct kiln_bus *bus); /* of the entries of the last read */

void kiln_bus_command(struct kiln_bus *bus, size_t arguments);
void kiln_bus_arg(struct kiln_bus *bus, const char *bytes, size_t len);
void kiln_bus_arg_text(struct kiln_bus *bus, const char *text);

/* A command of these words, all texts. */
void kiln_bus_words(struct kiln_bus *bus, size_t count, const char *const *words);
#define KILN_BUS_WORDS(...)                                                                        \
    sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *[])                       \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define KILN_BUS_PUT(bus, ...) kiln_bus_words(bus, KILN_BUS_WORDS(__VA_ARGS__))
/* A number as a word, which lasts as long as the block around it. */
#define KILN_BUS_NUMBER(value) kiln_bus_number((value), (char[24]){""})
const char *kiln_bus_number(uint64_t value, char out[24]);

/* Sends what was built and waits for one reply, extra_ms longer than usual.  *ret: free with
 * freeReplyObject.  An error reply becomes its code and sentence. */
int kiln_bus_reply(struct kiln_bus *bus, int64_t extra_ms, redisReply **ret,
                   struct kiln_error *err) KILN_MUST_CHECK;
/* Waits for count replies and drops them; the first error of them is returned. */
int kiln_bus_replies(struct kiln_bus *bus, size_t count, struct kiln_error *err) KILN_MUST_CHECK;
/* One command of words, from connecting to its reply: request returns it, run only checks it. */
int kiln_bus_request(struct kiln_bus *bus, redisReply **ret, struct kiln_error *err, size_t count,
                     const char *const *words) KILN_MUST_CHECK;
int kiln_bus_run(struct kiln_bus *bus, struct kiln_error *err, size_t count,
                 const char *const *words) KILN_MUST_CHECK;
/* Writes what the socket takes at once. */
int kiln_bus_send(struct kiln_bus *bus, struct kiln_error *err) KILN_MUST_CHECK;
/* Reads answers of appends until at most `left` are in flight. */
int kiln_bus_drain(struct kiln_bus *bus, uint32_t left, struct kiln_error *err) KILN_MUST_CHECK;

/* --- error.c --------------------------------------------------------------------------------- */
/* The code of an error reply, with a sentence about it, and what it refuses. */
int kiln_bus_reply_error(const redisReply *reply, enum kiln_bus_refusal *ret_refusal,
                         struct kiln_error *err) KILN_MUST_CHECK;

#endif
