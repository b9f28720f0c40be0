/* servers.c - the private Redis and the private Postgres of a stack.
 *
 * Redis: append-only file, fsync every second, no eviction, one unix socket.  Postgres: initdb into
 * a directory with another name, renamed once it is whole, so a kill in the middle leaves nothing
 * that looks like a database; unix socket only, and only its owner (and root) may open it.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "scheduler/cli/core/programs.h"
#include "scheduler/cli/stack/stack.h"
#include "schemas/clock.h"
#include "storage/bus/bus.h"

#define INITDB_LIMIT_S 120
#define STOP_LIMIT_S 20.0
#define READY_LIMIT_S 120 /* replaying a long log takes its time */
#define BUFFERS_MB_MIN 128
#define BUFFERS_MB_MAX 6144
#define LOG_MB_MIN 1024 /* of Postgres itself */
#define LOG_MB_MAX 4096
#define ROOM_BYTES (150ull << 20) /* a new Postgres is 40 MB and wants 64 MB of log */

/* --- Redis ------------------------------------------------------------------------------------ */

static int redis_answers(void *arg, bool *ret_ready, struct kiln_error *err)
{
    *ret_ready = kiln_bus_ping(arg, err) == 0;
    return 0;
}

pid_t kiln_stack_find_redis(const struct kiln_stack *stack)
{
    char data[PATH_MAX];
    kiln_join(data, stack->dir, "redis");
    return kiln_process_find(stack, "redis", (const char *const[]){"redis-server", data, NULL});
}

int kiln_stack_redis(struct kiln_stack *stack, struct kiln_cli *cli, struct kiln_error *err)
{
    char program[PATH_MAX] = "", socket[PATH_MAX], folder[PATH_MAX], data[PATH_MAX];
    struct kiln_bus *bus = NULL;
    kiln_join(socket, stack->sockets, KILN_REDIS_SOCKET);
    kiln_join(data, stack->dir, "redis");
    pid_t pid = kiln_stack_find_redis(stack);
    if (pid && access(socket, F_OK) != 0) { /* an earlier release had its socket elsewhere */
        (void)kiln_process_stop(stack, "redis", pid, SIGTERM, STOP_LIMIT_S);
        kiln_stack_say(cli, "redis", "stopped: its socket is not %s", socket);
        pid = 0;
    }
    if (!pid && !kiln_program_find("redis-server", program))
        return kiln_fail(err, KILN_CONFIG,
                         "redis-server is not installed: apt-get install "
                         "redis-server, or `make setup`");
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(socket, '/') - socket), socket);
    int rc = pid ? 0 : kiln_stack_make_dir(folder, 0700, err);
    if (rc == 0)
        rc = kiln_bus_open(cli->config, &bus, err);
    if (rc)
        return rc;
    if (!pid)
        unlink(socket);
    /* The log holds what was sent and has long been taken in: rewriting it while a batch arrives
     * costs a fork and a core, so that waits for 256 MB.  Large nodes suit a stream that is only
     * appended to and read in order. */
    const char *argv[] = {program,      "--port",
                          "0",          "--unixsocket",
                          socket,       "--unixsocketperm",
                          "700",        "--dir",
                          data,         "--appendonly",
                          "yes",        "--appendfsync",
                          "everysec",   "--auto-aof-rewrite-min-size",
                          "256mb",      "--stream-node-max-bytes",
                          "16384",      "--maxmemory-policy",
                          "noeviction", "--save",
                          "",           "--daemonize",
                          "no",         "--set-proc-title",
                          "no",         NULL};
    struct kiln_spawn spawn = {.name = "redis", .argv = argv, .cwd = data};
    rc = kiln_process_up(stack, cli, &spawn, pid, READY_LIMIT_S, redis_answers, bus, err);
    kiln_bus_close(bus);
    return rc;
}

/* --- Postgres: making it ---------------------------------------------------------------------- */

/* What an `up` that was killed has left: postgres.new.PID beside the data. */
static void remove_unfinished(const char *parent)
{
    DIR *dir = opendir(parent);
    char path[PATH_MAX];
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;)
        if (strncmp(entry->d_name, "postgres.new", 12) == 0)
            kiln_remove_tree(kiln_join(path, parent, entry->d_name));
    if (dir)
        closedir(dir);
}

/* MB that Postgres keeps of its tables: a quarter of the memory that there is, as its manual
 * recommends.  Searches read 3.3 GB of tables and indexes at a million pictures, 4.8 with tokens
 * (scripts/bench/RESULTS.md).  They take memory only once they are used. */
static long buffers_mb(void)
{
    const uint64_t mb = (kiln_stack_memory("") >> 20) / 4;
    return mb < BUFFERS_MB_MIN ? BUFFERS_MB_MIN : mb > BUFFERS_MB_MAX ? BUFFERS_MB_MAX : (long)mb;
}

/* MB of log until a checkpoint begins.  Each page that changes after one is logged whole: at 200
 * commits a second beside a gallery two of three bytes of the log are such pages
 * (scripts/bench/RESULTS.md).  A sixteenth of a small disk, and never less than the default. */
static long log_mb(const char *dir)
{
    struct statvfs fs;
    if (statvfs(dir, &fs) != 0)
        return LOG_MB_MIN;
    const unsigned long long mb = (unsigned long long)fs.f_bavail * fs.f_frsize >> 24;
    return mb < LOG_MB_MIN ? LOG_MB_MIN : mb > LOG_MB_MAX ? LOG_MB_MAX : (long)mb;
}

/* After a restart Postgres reads again what it had in its buffers, in a second or two, if its
 * library for that is installed: without it searches take half as long again until all of it has
 * been asked for. */
static const char *preload(const char *bin)
{
    char path[PATH_MAX];
    return access(kiln_join(path, bin, "../lib/pg_prewarm.so"), R_OK) == 0
               ? "shared_preload_libraries = 'pg_prewarm'\n"
               : "";
}

/* initdb, our settings and the database, all inside fresh. */
static int initialise(const struct kiln_stack *stack, const char *bin, const char *fresh,
                      struct kiln_error *err)
{
    char program[PATH_MAX], conf[PATH_MAX];
    kiln_join(program, bin, "initdb");
    const char *initdb[] = {
        program, "-D", fresh, "-U", "kiln", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", NULL};
    struct kiln_spawn spawn = {
        .name = "postgres", .argv = initdb, .as_other = true, .cwd = fresh, .dies_with_us = true};
    int rc = kiln_process_run(stack, &spawn, NULL, INITDB_LIMIT_S, err);
    if (rc)
        return rc;
    FILE *file = fopen(kiln_join(conf, fresh, "postgresql.conf"), "ae");
    bool ok =
        file && fprintf(file,
                        "\n# Kiln: a private server.  The socket is its owner's alone, which is "
                        "why trust is enough.\n"
                        "listen_addresses = ''\nunix_socket_permissions = 0700\n"
                        "max_connections = 200\nshared_buffers = %ldMB\n%s"
                        "max_wal_size = %ldMB\ncheckpoint_timeout = 15min\n"
                        "log_line_prefix = '%%m [%%p] %%a '\n",
                        buffers_mb(), preload(bin), log_mb(fresh)) >= 0;
    ok = file && fclose(file) == 0 && ok;
    if (!ok)
        return kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "write %s: %s", conf,
                         strerror(errno));
    kiln_join(program, bin, "postgres");
    const char *single[] = {program, "--single", "-D", fresh, "postgres", NULL};
    spawn.argv = single;
    return kiln_process_run(stack, &spawn, "CREATE DATABASE kiln\n", INITDB_LIMIT_S, err);
}

static int create_database(struct kiln_stack *stack, struct kiln_cli *cli, const char *bin,
                           struct kiln_error *err)
{
    char fresh[PATH_MAX], parent[PATH_MAX], name[48];
    struct statvfs fs;
    snprintf(parent, sizeof parent, "%s", stack->data);
    *strrchr(parent, '/') = '\0';
    if (statvfs(parent, &fs) != 0)
        return kiln_fail(err, KILN_IO, "statvfs %s: %s", parent, strerror(errno));
    unsigned long long room = (unsigned long long)fs.f_bavail * fs.f_frsize;
    if (room < ROOM_BYTES)
        return kiln_fail(err, KILN_FULL, "%s has %llu MB left; a new stack needs %llu MB", parent,
                         room >> 20, ROOM_BYTES >> 20);
    remove_unfinished(parent);
    /* A name of our own: an initdb whose `up` was killed may still write for a moment. */
    snprintf(name, sizeof name, "postgres.new.%ld", (long)getpid());
    kiln_join(fresh, parent, name);
    if (mkdir(fresh, 0700) != 0 || (stack->as_other && chown(fresh, stack->uid, stack->gid) != 0))
        return kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "make %s: %s", fresh,
                         strerror(errno));
    kiln_stack_say(cli, "postgres", "creating the database in %s", stack->data);
    int rc = initialise(stack, bin, fresh, err);
    if (rc == 0 && rename(fresh, stack->data) != 0)
        rc = kiln_fail(err, KILN_IO, "rename %s to %s: %s", fresh, stack->data, strerror(errno));
    if (rc) {
        kiln_process_tail(cli, stack, "postgres");
        kiln_remove_tree(fresh);
    } else {
        remove_unfinished(parent); /* what such an initdb wrote since the first time */
    }
    return rc;
}

/* Finds the programs that fit the data, makes the data if there is none.  *bin: their directory. */
static int prepare(struct kiln_stack *stack, struct kiln_cli *cli, char bin[PATH_MAX],
                   struct kiln_error *err)
{
    char version[16] = "", path[PATH_MAX];
    struct stat st;
    bool exists = stat(stack->data, &st) == 0;
    FILE *file = fopen(kiln_join(path, stack->data, "PG_VERSION"), "re");
    bool known = file && fgets(version, sizeof version, file) && atoi(version) > 0;
    if (file)
        fclose(file);
    if (exists && !known)
        return kiln_fail(err, KILN_CORRUPT,
                         "%s is not a Postgres data directory (it has no "
                         "PG_VERSION); move it away and run `kiln up` again",
                         stack->data);
    version[strcspn(version, "\n")] = '\0';
    if (!kiln_postgres_program("initdb", atoi(version), bin))
        return kiln_fail(err, KILN_CONFIG,
                         "Postgres%s%s is not installed: apt-get install "
                         "postgresql, or `make setup`",
                         version[0] ? " " : "", version);
    *strrchr(bin, '/') = '\0';
    return exists ? 0 : create_database(stack, cli, bin, err);
}

/* --- Postgres: running it --------------------------------------------------------------------- */

/* The first word of line number `line` (from 1) of postmaster.pid, "" if there is none. */
static void postmaster_line(const struct kiln_stack *stack, int line, char out[64])
{
    char path[PATH_MAX], text[PATH_MAX] = ""; /* line 2 is the data directory */
    FILE *file = fopen(kiln_join(path, stack->data, "postmaster.pid"), "re");
    while (file && line-- > 0)
        if (!fgets(text, sizeof text, file)) {
            text[0] = '\0';
            break;
        }
    if (file)
        fclose(file);
    snprintf(out, 64, "%.*s", (int)strcspn(text, " \n"), text);
}

/* A postmaster.pid whose number belongs to another program now would keep Postgres from starting;
 * one whose process is gone it judges better itself. */
static void drop_stale_lock(const struct kiln_stack *stack)
{
    char text[64], path[64], command[64] = "";
    postmaster_line(stack, 1, text);
    long pid = atol(text);
    snprintf(path, sizeof path, "/proc/%ld/comm", pid);
    FILE *file = pid > 1 ? fopen(path, "re") : NULL;
    if (!file)
        return;
    bool other = fgets(command, sizeof command, file) && strncmp(command, "postgres", 8) != 0;
    fclose(file);
    char lock[PATH_MAX];
    if (other)
        unlink(kiln_join(lock, stack->data, "postmaster.pid"));
}

struct postmaster {
    const struct kiln_stack *stack;
    pid_t pid;
};

/* Postgres writes "ready" into line 8 of postmaster.pid once it takes connections. */
static int postgres_answers(void *arg, bool *ret_ready, struct kiln_error *err)
{
    const struct postmaster *postmaster = arg;
    char pid[64], state[64];
    (void)err;
    postmaster_line(postmaster->stack, 1, pid);
    postmaster_line(postmaster->stack, 8, state);
    *ret_ready = atol(pid) == (long)postmaster->pid && strcmp(state, "ready") == 0;
    return 0;
}

static int wait_postgres(const struct kiln_stack *stack, pid_t pid, struct kiln_error *err)
{
    return kiln_process_ready(stack, "postgres", pid, READY_LIMIT_S, postgres_answers,
                              &(struct postmaster){stack, pid}, err);
}

pid_t kiln_stack_find_postgres(const struct kiln_stack *stack)
{
    return kiln_process_find(stack, "postgres",
                             (const char *const[]){"postgres", stack->data, NULL});
}

/* Starts it until it stays: after a kill -9 its orphans hold the shared memory for a moment, and it
 * then ends at once. */
static int start_postgres(struct kiln_stack *stack, const char *bin, const char *sockets,
                          pid_t *ret_pid, struct kiln_error *err)
{
    char program[PATH_MAX];
    kiln_join(program, bin, "postgres");
    const char *argv[] = {program, "-D", stack->data, "-k", sockets, "-p", "5432", NULL};
    struct kiln_spawn spawn = {
        .name = "postgres", .argv = argv, .as_other = true, .cwd = stack->data};
    for (int tries = 0;; tries++) {
        drop_stale_lock(stack);
        int rc = kiln_process_start(stack, &spawn, ret_pid, err);
        if (rc == 0 && (rc = wait_postgres(stack, *ret_pid, err)) == 0)
            return 0;
        if (rc != KILN_UNAVAILABLE || tries == 5)
            return rc;
        kiln_sleep_s(0.9);
    }
}

int kiln_stack_postgres(struct kiln_stack *stack, struct kiln_cli *cli, struct kiln_error *err)
{
    char bin[PATH_MAX], sockets[PATH_MAX];
    pid_t pid = kiln_stack_find_postgres(stack);
    if (pid) {
        kiln_stack_say(cli, "postgres", "runs (pid %ld)", (long)pid);
        return wait_postgres(stack, pid, err);
    }
    int rc = prepare(stack, cli, bin, err);
    if (rc)
        return rc;
    kiln_join(sockets, stack->sockets, "postgres"); /* owned by the user that Postgres runs as */
    if ((mkdir(sockets, 0700) != 0 && errno != EEXIST) ||
        (stack->as_other && chown(sockets, stack->uid, stack->gid) != 0))
        return kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "make %s: %s", sockets,
                         strerror(errno));
    rc = start_postgres(stack, bin, sockets, &pid, err);
    if (rc)
        kiln_process_tail(cli, stack, "postgres");
    else
        kiln_stack_say(cli, "postgres", "started (pid %ld)", (long)pid);
    return rc;
}
