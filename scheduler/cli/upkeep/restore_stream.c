/* restore_stream.c - see restore_stream.h.
 *
 *     pg_restore --> this program --> psql
 *
 * pg_restore could write to the database by itself, but not in the transaction that takes the old
 * tables away.  So it only makes SQL, which goes to psql between our own first and last lines;
 * COMMIT is sent when pg_restore has ended well, and not otherwise.  psql stops at the first error.
 * Either may stand still (a dump on a server that is gone, a database that answers nothing), so
 * every block has a time limit; a statement of psql's is one, an index that is built is long.
 */
#include "scheduler/cli/upkeep/restore_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/cli/core/programs.h"

#define PIECE (1 << 16)
/* Jobs and batches that a ledger may have begun after the backup, and been lost. */
#define NUMBERS_SKIPPED 1000000

struct stream {
    struct kiln_child source, sink;
    int from, to; /* our ends of the pipes, which never block; -1 closed */
    double still_s;
};

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Waits until an end can be used again. */
static int wait_end(const struct stream *stream, int fd, short events, const char *who,
                    struct kiln_error *err)
{
    struct pollfd end = {.fd = fd, .events = events};
    double until = kiln_now_s() + stream->still_s;
    for (;;) {
        double left_s = until - kiln_now_s();
        int ready = left_s > 0 ? poll(&end, 1, (int)(fmin(left_s, 60) * 1000) + 1) : 0;
        if (ready > 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return kiln_fail(err, KILN_IO, "wait for %s: %s", who, strerror(errno));
        if (left_s <= 0)
            return kiln_fail(err, KILN_TIMEOUT, "%s has stood still for %.0f s", who,
                             stream->still_s);
    }
}

/* What psql has closed its ears to it has complained about: that is the error to show. */
static int send_bytes(struct stream *stream, const char *bytes, size_t len, struct kiln_error *err)
{
    while (len > 0) {
        ssize_t n = write(stream->to, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            int rc = wait_end(stream, stream->to, POLLOUT, "psql", err);
            if (rc)
                return rc;
            continue;
        }
        if (n < 0) {
            close_end(&stream->to);
            int rc = kiln_child_end_moving(&stream->sink, stream->still_s, err);
            return rc ? rc : kiln_fail(err, KILN_IO, "write to psql: %s", strerror(errno));
        }
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

static int send_text(struct stream *stream, const char *text, struct kiln_error *err)
{
    return send_bytes(stream, text, strlen(text), err);
}

static int copy_all(struct stream *stream, struct kiln_error *err)
{
    char piece[PIECE];
    for (;;) {
        int rc = wait_end(stream, stream->from, POLLIN, "pg_restore", err);
        if (rc)
            return rc;
        ssize_t n = read(stream->from, piece, sizeof piece);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return kiln_fail(err, KILN_IO, "read from pg_restore: %s", strerror(errno));
        if (n == 0)
            return 0;
        rc = send_bytes(stream, piece, (size_t)n, err);
        if (rc)
            return rc;
    }
}

/* The old tables go, in the transaction that brings the new ones. */
static int send_start(struct stream *stream, const struct kiln_site *site, struct kiln_error *err)
{
    char sql[512];
    const char *name = site->schema_name;
    snprintf(sql, sizeof sql,
             "BEGIN;\nSET LOCAL lock_timeout = '15s';\nSET LOCAL client_min_messages = error;\n"
             "DROP SCHEMA IF EXISTS \"%s\" CASCADE;\n",
             name);
    return send_text(stream, sql, err);
}

static int send_finish(struct stream *stream, const struct kiln_site *site, struct kiln_error *err)
{
    char sql[1024];
    const char *name = site->schema_name;
    snprintf(sql, sizeof sql,
             "SELECT setval('\"%s\".job_id_seq', greatest((SELECT last_value FROM"
             " \"%s\".job_id_seq), %" PRIu64 ") + %d);\n"
             "SELECT setval('\"%s\".batch_id_seq', greatest((SELECT last_value FROM"
             " \"%s\".batch_id_seq), %" PRIu64 ") + %d);\nCOMMIT;\n",
             name, name, site->last_job, NUMBERS_SKIPPED, name, name, site->last_batch,
             NUMBERS_SKIPPED);
    return send_text(stream, sql, err);
}

static int start(struct kiln_cli *cli, const struct kiln_site *site, const char *dump,
                 struct stream *stream, struct kiln_error *err)
{
    char pg_restore[PATH_MAX], psql[PATH_MAX], **environment = NULL;
    int source[2], sink[2];
    if (!kiln_postgres_program("pg_restore", 0, pg_restore) ||
        !kiln_postgres_program("psql", site->server_major, psql))
        return kiln_fail(err, KILN_CONFIG,
                         "pg_restore and psql are not installed: apt-get install "
                         "postgresql-client");
    if (pipe2(source, O_CLOEXEC) != 0)
        return kiln_fail(err, KILN_IO, "make a pipe: %s", strerror(errno));
    stream->from = source[0];
    if (pipe2(sink, O_CLOEXEC) != 0) {
        close(source[1]);
        return kiln_fail(err, KILN_IO, "make a pipe: %s", strerror(errno));
    }
    stream->to = sink[1];
    fcntl(stream->from, F_SETFL, O_NONBLOCK);
    fcntl(stream->to, F_SETFL, O_NONBLOCK);
    char *from[] = {pg_restore,   "--no-owner", "--no-privileges", "--exit-on-error", "--file=-",
                    (char *)dump, NULL};
    char *into[] = {psql, "-X", "-q", "-w", "-v", "ON_ERROR_STOP=1", NULL};
    int rc = kiln_pg_environment(cli->config, &environment, err);
    if (rc == 0)
        rc = kiln_child_start(&stream->source, from, NULL, -1, source[1], err);
    if (rc == 0)
        rc = kiln_child_start(&stream->sink, into, environment, sink[0], -1, err);
    kiln_pg_environment_free(environment);
    close(source[1]);
    close(sink[0]);
    return rc;
}

int kiln_restore_stream(struct kiln_cli *cli, const struct kiln_backup *backup,
                        const struct kiln_site *site, const char *dump, double still_s,
                        struct kiln_error *err)
{
    struct stream stream = {.from = -1, .to = -1, .still_s = still_s};
    if (strcmp(site->schema_name, backup->schema_name) != 0)
        return kiln_fail(err, KILN_CONFIG,
                         "the backup is of Postgres schema \"%s\", the setting postgres leads to "
                         "\"%s\"",
                         backup->schema_name, site->schema_name);
    int rc = start(cli, site, dump, &stream, err);
    if (rc == 0)
        rc = send_start(&stream, site, err);
    if (rc == 0)
        rc = copy_all(&stream, err);
    if (rc == 0)
        rc = kiln_child_end_moving(&stream.source, still_s, err);
    if (rc == 0)
        rc = send_finish(&stream, site, err);
    close_end(&stream.from);
    close_end(&stream.to);
    if (rc == 0)
        rc = kiln_child_end_moving(&stream.sink, still_s, err);
    kiln_child_drop(&stream.source);
    kiln_child_drop(&stream.sink);
    return rc ? kiln_fail_in(err, "restore") : 0;
}
