/* bus.h - Redis through hiredis: streams, the heartbeat key, receipts.
 *
 * One connection, used by one thread.  It connects lazily, reconnects with backoff and jitter,
 * and every call has a time limit (statement_timeout_s, or the block time plus it).  After
 * KILN_UNAVAILABLE or KILN_TIMEOUT the next call tries again.  What the messages mean is in
 * schemas/wire/wire.h; this moves them.
 */
#ifndef KILN_BUS_H
#define KILN_BUS_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/config/config.h"
#include "schemas/error.h"

struct kiln_bus;

int kiln_bus_open(const struct kiln_config *config, struct kiln_bus **ret,
                  struct kiln_error *err) KILN_MUST_CHECK;
void kiln_bus_close(struct kiln_bus *bus); /* accepts NULL */
/* From now on neither connecting nor an answer is waited for longer than this, for callers whose
 * own time is shorter than the settings' limits.  The limit is of a whole call's answers. */
void kiln_bus_limit(struct kiln_bus *bus, uint32_t limit_ms);
int kiln_bus_ping(struct kiln_bus *bus, struct kiln_error *err) KILN_MUST_CHECK;

/* How the last call on this bus failed: did Redis answer and decline that one command, so that the
 * connection is good and other commands work?  Repeating the command alone changes nothing.  Of
 * several appends without waiting it speaks of the first that failed. */
enum kiln_bus_refusal {
    KILN_BUS_NOT_REFUSED, /* it succeeded; or no command works now: Redis is away, silent, loading,
                             full, a replica, or keeps this user out; or our memory is short */
    KILN_BUS_WRONG_TYPE,  /* the key holds another type of value */
    KILN_BUS_EXHAUSTED,   /* the stream's last id is the greatest there is: it takes no entry */
    KILN_BUS_NOT_ALLOWED, /* the Redis user may not do this to this key */
    KILN_BUS_REFUSED,     /* for any other reason */
};
enum kiln_bus_refusal kiln_bus_refusal(const struct kiln_bus *bus);

/* Whether the stream, if it exists, is usable: KILN_PROTOCOL with a refusal if the key has another
 * type or the stream is exhausted.  Only reads. */
int kiln_bus_look(struct kiln_bus *bus, const char *stream, struct kiln_error *err) KILN_MUST_CHECK;
/* Whether this user may append to it and Redis has memory: a write that leaves nothing behind. */
int kiln_bus_probe(struct kiln_bus *bus, const char *stream,
                   struct kiln_error *err) KILN_MUST_CHECK;
/* After a command on this stream was refused: deletes the key if it has another type or is an
 * exhausted stream, unless it changes at that moment.  read_first: an exhausted stream with entries
 * stays until they are read.  *ret_repaired: the key was deleted with its groups and entries, and
 * the command may be repeated.  Only for the owner of the name. */
int kiln_bus_repair(struct kiln_bus *bus, const char *stream, bool read_first, bool *ret_repaired,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* --- streams --------------------------------------------------------------------------------- */
/* A read returns at most `max` entries, and fewer if they are large: an answer with several entries
 * has at most 32 MiB. */
struct kiln_bus_entry {
    const char *stream, *id; /* borrowed until the next call on this bus */
    size_t field_count;
    const char *const *fields; /* name, value, name, value, ...: 2 x field_count */
    const size_t *lengths;     /* of each of them */
};
struct kiln_bus_entries {
    struct kiln_bus_entry *at;
    size_t count;
};

/* Appends one entry; maxlen 0 = uncapped, else trimmed to about that. */
int kiln_bus_append(struct kiln_bus *bus, const char *stream, uint64_t maxlen,
                    const char *const *fields, const size_t *lengths, size_t field_count,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* The same without waiting for the answer: up to `depth` (1024) are in flight, the call then
 * reads answers.  kiln_bus_flush waits for the rest; the error of any is reported there or by a
 * later append. */
int kiln_bus_append_async(struct kiln_bus *bus, const char *stream, const char *const *fields,
                          const size_t *lengths, size_t field_count,
                          struct kiln_error *err) KILN_MUST_CHECK;
int kiln_bus_flush(struct kiln_bus *bus, struct kiln_error *err) KILN_MUST_CHECK;

/* Creates the group (and the stream) if it does not exist. */
int kiln_bus_group(struct kiln_bus *bus, const char *stream, const char *group,
                   struct kiln_error *err) KILN_MUST_CHECK;
/* Own pending entries (pending = true) or new ones; waits block_ms for the first; 0 entries is
 * no error.  A group that is gone (flushed Redis) is created again.  KILN_NO_MEMORY: the new
 * entries were too large together; they are pending now, and the next read of those asks for fewer.
 */
int kiln_bus_read_group(struct kiln_bus *bus, const char *stream, const char *group,
                        const char *consumer, bool pending, uint32_t max, uint32_t block_ms,
                        struct kiln_bus_entries *ret, struct kiln_error *err) KILN_MUST_CHECK;
/* Claims entries that other consumers left pending for idle_ms. */
int kiln_bus_claim(struct kiln_bus *bus, const char *stream, const char *group,
                   const char *consumer, uint32_t idle_ms, uint32_t max,
                   struct kiln_bus_entries *ret, struct kiln_error *err) KILN_MUST_CHECK;
/* XACK and XDEL in one round trip. */
int kiln_bus_ack(struct kiln_bus *bus, const char *stream, const char *group,
                 const char *const *ids, size_t count, struct kiln_error *err) KILN_MUST_CHECK;

/* Plain reads of several streams after the given ids ("$" = only new, "0" = all); the caller keeps
 * the last id it saw. */
int kiln_bus_read(struct kiln_bus *bus, const char *const *streams, const char *const *after,
                  size_t stream_count, uint32_t max, uint32_t block_ms,
                  struct kiln_bus_entries *ret, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_bus_length(struct kiln_bus *bus, const char *stream, uint64_t *ret,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* The newest id of a stream into ret, "" if it is empty or missing.  A reader whose last id is
 * greater reads another stream of the same name now (flushed Redis). */
int kiln_bus_last_id(struct kiln_bus *bus, const char *stream, char *ret, size_t size,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* The newest entry of a stream, borrowed like those of a read; NULL without one. */
int kiln_bus_newest(struct kiln_bus *bus, const char *stream, struct kiln_bus_entries *entries,
                    const struct kiln_bus_entry **ret, struct kiln_error *err) KILN_MUST_CHECK;
/* The value of a field of an entry, "" if it has none of that name. */
const char *kiln_bus_field(const struct kiln_bus_entry *entry, const char *name);
/* Deletes an entry that a plain reader has processed. */
int kiln_bus_delete_entry(struct kiln_bus *bus, const char *stream, const char *id,
                          struct kiln_error *err) KILN_MUST_CHECK;

/* --- heartbeats ------------------------------------------------------------------------------ */
int kiln_bus_heartbeat(struct kiln_bus *bus, const char *key, const char *beat, uint32_t ttl_ms,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* Calls each for every live heartbeat of the pool whose name is wanted (want NULL: all); finds them
 * by SCAN.  want is asked for each name once, in the order of strcmp, before the first is read. */
typedef bool kiln_bus_want_heartbeat(void *arg, const char *worker);
typedef int kiln_bus_each_heartbeat(void *arg, const char *worker, const char *beat, size_t len);
int kiln_bus_heartbeats(struct kiln_bus *bus, const char *pool, kiln_bus_want_heartbeat *want,
                        kiln_bus_each_heartbeat *each, void *arg,
                        struct kiln_error *err) KILN_MUST_CHECK;
int kiln_bus_delete(struct kiln_bus *bus, const char *key, struct kiln_error *err) KILN_MUST_CHECK;

/* --- receipts -------------------------------------------------------------------------------- */
int kiln_bus_push(struct kiln_bus *bus, const char *list, const char *value, uint32_t ttl_s,
                  struct kiln_error *err) KILN_MUST_CHECK;
/* *ret_value malloc'd, or NULL when wait_ms passed. */
int kiln_bus_pop(struct kiln_bus *bus, const char *list, uint32_t wait_ms, char **ret_value,
                 struct kiln_error *err) KILN_MUST_CHECK;

#endif
