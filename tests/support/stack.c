/* stack.c - starting, breaking and ending the servers of a test. */
#include "tests/support/stack_postgres.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/daemon/proc_stat.h"
#include "storage/ledger/migrate.h"
#include "tests/support/network.h"
#include "tests/support/process.h"

#define START_S 60 /* generous: sanitizers, and machines that are busy */

static struct kiln_test_stack *the_stacks[8];

/* Below the ports that the kernel hands to outgoing connections, and none twice in this process:
 * between now and the server's own bind nobody else may get it. */
int kiln_test_free_port(void)
{
    enum { FIRST = 20000, COUNT = 12000 };
    static int next = -1;
    if (next < 0)
        next = (int)(getpid() * 37u % COUNT);
    for (int tried = 0; tried < COUNT; tried++) {
        int port = FIRST + next;
        next = (next + 1) % COUNT;
        struct sockaddr_in at = {.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                 .sin_port = htons((uint16_t)port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool ours = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
        if (fd >= 0)
            close(fd);
        if (ours)
            return port;
    }
    kiln_test_die("no free port");
}

/* --- processes ------------------------------------------------------------------------------- */

/* Starts argv with its output in dir/NAME.log; it dies with this process. */
static pid_t spawn(const struct kiln_test_stack *stack, bool as_postgres, const char *name,
                   const char *const *argv)
{
    char log[200];
    snprintf(log, sizeof log, "%s/%s.log", stack->dir, name);
    return kiln_test_spawn(argv, log, as_postgres ? SIGQUIT : SIGKILL,
                           as_postgres ? kiln_test_drop_root : NULL);
}

/* Sends the signal to a process and its children: Postgres' backends have sessions of their own.
 * The root is stopped first, so that nobody is born meanwhile, and killed last, since orphans no
 * longer name it as their parent. */
static void signal_tree(pid_t root, int signal_number)
{
    DIR *proc = opendir("/proc");
    if (signal_number != SIGKILL)
        kill(root, signal_number);
    for (struct dirent *entry; proc && (entry = readdir(proc)) != NULL;) {
        const pid_t pid = atoi(entry->d_name);
        struct kiln_proc_stat stat;
        if (pid > 0 && kiln_proc_stat(pid, &stat) && stat.parent == root)
            kill(pid, signal_number);
    }
    if (proc)
        closedir(proc);
    kill(root, signal_number);
}

static void await_end(struct kiln_test_stack *stack, enum kiln_test_server server)
{
    waitpid(stack->pid[server], NULL, 0);
    stack->pid[server] = 0;
}

void kiln_test_freeze(struct kiln_test_stack *stack, enum kiln_test_server server)
{
    signal_tree(stack->pid[server], SIGSTOP);
}

void kiln_test_thaw(struct kiln_test_stack *stack, enum kiln_test_server server)
{
    signal_tree(stack->pid[server], SIGCONT);
}

void kiln_test_kill(struct kiln_test_stack *stack, enum kiln_test_server server)
{
    if (!stack->pid[server])
        return;
    signal_tree(stack->pid[server], SIGSTOP); /* so that nobody is born or restarted meanwhile */
    signal_tree(stack->pid[server], SIGKILL);
    await_end(stack, server);
}

/* --- starting -------------------------------------------------------------------------------- */

static redisContext *dial(const struct kiln_test_stack *stack)
{
    char path[200];
    struct timeval limit = {.tv_sec = 10};
    snprintf(path, sizeof path, "%s/redis.sock", stack->dir);
    redisContext *redis = stack->flags & KILN_STACK_TCP
                              ? redisConnectWithTimeout("127.0.0.1", stack->port[0], limit)
                              : redisConnectUnixWithTimeout(path, limit);
    return redis;
}

static bool redis_answers(const struct kiln_test_stack *stack)
{
    redisContext *redis = dial(stack);
    redisReply *reply = redis && !redis->err ? redisCommand(redis, "PING") : NULL;
    bool answers = reply && reply->type == REDIS_REPLY_STATUS;
    if (reply)
        freeReplyObject(reply);
    if (redis)
        redisFree(redis);
    return answers;
}

static void await_start(struct kiln_test_stack *stack, enum kiln_test_server server)
{
    for (int waited = 0; waited < START_S * 100; waited++) {
        if (server == KILN_TEST_REDIS ? redis_answers(stack) : PQping(stack->conninfo) == PQPING_OK)
            return;
        if (waitpid(stack->pid[server], NULL, WNOHANG) != 0)
            break;
        kiln_test_sleep_ms(10);
    }
    kiln_test_die("%s does not start; see %s", server == KILN_TEST_REDIS ? "redis" : "postgres",
                  stack->dir);
}

static void add_extra(const char **argv, size_t size, const char *const *extra)
{
    size_t count = 0;
    while (argv[count])
        count++;
    for (; extra && *extra && count + 1 < size; extra++)
        argv[count++] = *extra;
}

static void start_redis(struct kiln_test_stack *stack, const char *const *extra)
{
    char socket_path[200], port[16];
    bool everywhere = test_network_listen() == INADDR_ANY;
    snprintf(socket_path, sizeof socket_path, "%s/redis.sock", stack->dir);
    snprintf(port, sizeof port, "%d", stack->port[KILN_TEST_REDIS]);
    const char *argv[64] = {"redis-server",
                            "--port",
                            port,
                            "--bind",
                            everywhere ? "*" : "127.0.0.1",
                            "--protected-mode",
                            everywhere ? "no" : "yes",
                            "--unixsocket",
                            socket_path,
                            "--dir",
                            stack->dir,
                            "--save",
                            "",
                            "--appendonly",
                            "yes",
                            "--appendfsync",
                            "everysec",
                            "--daemonize",
                            "no",
                            "--hz", /* a read that waits some milliseconds would take a tenth of a second */
                            "100",
                            "--maxmemory-policy",
                            "noeviction"};
    add_extra(argv, sizeof argv / sizeof *argv, extra);
    stack->pid[KILN_TEST_REDIS] = spawn(stack, false, "redis", argv);
    await_start(stack, KILN_TEST_REDIS);
}

static void start_postgres(struct kiln_test_stack *stack, const char *const *extra)
{
    char program[256], data[160], directories[200], port[32];
    bool tcp = stack->flags & KILN_STACK_TCP, fsync = stack->flags & KILN_STACK_FSYNC;
    const char *addresses = !tcp                                  ? "listen_addresses="
                            : test_network_listen() == INADDR_ANY ? "listen_addresses=*"
                                                                  : "listen_addresses=127.0.0.1";
    snprintf(data, sizeof data, "%s/postgres", stack->dir);
    snprintf(directories, sizeof directories, "unix_socket_directories=%s", data);
    snprintf(port, sizeof port, "port=%d", tcp ? stack->port[KILN_TEST_POSTGRES] : 5432);
    const char *argv[64] = {kiln_test_postgres_program("postgres", program),
                            "-D",
                            data,
                            "-c",
                            directories,
                            "-c",
                            port,
                            "-c",
                            addresses,
                            "-c",
                            fsync ? "fsync=on" : "fsync=off",
                            "-c",
                            "max_connections=60"};
    add_extra(argv, sizeof argv / sizeof *argv, extra);
    stack->pid[KILN_TEST_POSTGRES] = spawn(stack, true, "postgres", argv);
    await_start(stack, KILN_TEST_POSTGRES);
}

void kiln_test_restart(struct kiln_test_stack *stack, enum kiln_test_server server,
                       const char *const *extra)
{
    if (stack->pid[server]) {
        kill(stack->pid[server], server == KILN_TEST_REDIS ? SIGTERM : SIGINT);
        await_end(stack, server);
    }
    server == KILN_TEST_REDIS ? start_redis(stack, extra) : start_postgres(stack, extra);
}

/* --- the whole ------------------------------------------------------------------------------- */

static void set(struct kiln_test_stack *stack, const char *name, const char *value, FILE *conf)
{
    struct kiln_error err;
    if (kiln_config_set(stack->config, name, value, "test", &err) != 0)
        kiln_test_die("%s", err.text);
    fprintf(conf, "%s = %s\n", name, value);
}

static void write_settings(struct kiln_test_stack *stack)
{
    stack->config = kiln_config_new();
    snprintf(stack->conf, sizeof stack->conf, "%s/kiln.conf", stack->dir);
    FILE *conf = fopen(stack->conf, "we");
    if (!stack->config || !conf)
        kiln_test_die("cannot write %s", stack->conf);
    bool tcp = stack->flags & KILN_STACK_TCP;
    if (tcp)
        snprintf(stack->redis_url, sizeof stack->redis_url, "redis://127.0.0.1:%d/0",
                 stack->port[KILN_TEST_REDIS]);
    else
        snprintf(stack->redis_url, sizeof stack->redis_url, "unix:%s/redis.sock", stack->dir);
    if (tcp)
        snprintf(stack->conninfo, sizeof stack->conninfo,
                 "host=127.0.0.1 port=%d user=kiln dbname=postgres",
                 stack->port[KILN_TEST_POSTGRES]);
    else
        snprintf(stack->conninfo, sizeof stack->conninfo,
                 "host=%s/postgres user=kiln dbname=postgres", stack->dir);
    set(stack, "redis", stack->redis_url, conf);
    set(stack, "postgres", stack->conninfo, conf);
    fclose(conf);
}

static void stop_all(void)
{
    for (size_t i = 0; i < sizeof the_stacks / sizeof *the_stacks; i++)
        if (the_stacks[i])
            kiln_test_stack_stop(the_stacks[i]);
}

static void remember(struct kiln_test_stack *stack)
{
    static bool registered;
    if (!registered)
        registered = atexit(stop_all) == 0;
    for (size_t i = 0; i < sizeof the_stacks / sizeof *the_stacks; i++)
        if (!the_stacks[i]) {
            the_stacks[i] = stack;
            return;
        }
    kiln_test_die("too many stacks in one test");
}

/* A directory that the unprivileged user of Postgres may search. */
static void make_directory(struct kiln_test_stack *stack)
{
    const char *base = getenv("TMPDIR");
    base = base && strlen(base) < 60 ? base : "/tmp";
    snprintf(stack->dir, sizeof stack->dir, "%s/stack.XXXXXX", base);
    if (!mkdtemp(stack->dir) || chmod(stack->dir, 0711) != 0)
        kiln_test_die("cannot make %s", stack->dir);
    if (geteuid() == 0 && strcmp(base, "/tmp") != 0)
        (void)!chmod(base, 0711);
}

static void migrate(struct kiln_test_stack *stack)
{
    struct kiln_error err;
    struct kiln_migration migration = {0};
    if (kiln_migrate(stack->config, &migration, &err) != 0)
        kiln_test_die("%s", err.text);
}

struct kiln_test_stack *kiln_test_stack_start(unsigned flags)
{
    struct kiln_test_stack *stack = calloc(1, sizeof *stack);
    if (!stack)
        kiln_test_die("no memory");
    stack->flags = flags;
    make_directory(stack);
    if (flags & KILN_STACK_TCP)
        for (int i = 0; i < 2; i++)
            stack->port[i] = kiln_test_free_port();
    remember(stack);
    write_settings(stack);
    if (flags & KILN_STACK_REDIS)
        start_redis(stack, NULL);
    if (flags & (KILN_STACK_POSTGRES | KILN_STACK_TABLES)) {
        kiln_test_postgres_data(stack);
        start_postgres(stack, NULL);
    }
    if (flags & KILN_STACK_TABLES)
        migrate(stack);
    return stack;
}

void kiln_test_stack_stop(struct kiln_test_stack *stack)
{
    for (size_t i = 0; i < sizeof the_stacks / sizeof *the_stacks; i++)
        if (the_stacks[i] == stack)
            the_stacks[i] = NULL;
    PQfinish(stack->questions);
    kiln_test_kill(stack, KILN_TEST_REDIS);
    kiln_test_kill(stack, KILN_TEST_POSTGRES);
    kiln_test_command(false, (const char *const[]){"rm", "-rf", stack->dir, NULL});
    kiln_config_free(stack->config);
    free(stack);
}

/* --- questions ------------------------------------------------------------------------------- */

void kiln_test_redis(struct kiln_test_stack *stack, const char *command)
{
    redisContext *redis = dial(stack);
    redisReply *reply = redis && !redis->err ? redisCommand(redis, command) : NULL;
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        kiln_test_die("redis, %s: %s", command, reply ? reply->str : "no answer");
    freeReplyObject(reply);
    redisFree(redis);
}

void kiln_test_flushall(struct kiln_test_stack *stack)
{
    kiln_test_redis(stack, "FLUSHALL");
}

static void ignore_notice(void *arg, const char *message)
{
    (void)arg;
    (void)message;
}

char *kiln_test_sql(struct kiln_test_stack *stack, const char *sql)
{
    PGconn *conn = stack->questions;
    PGresult *rows = conn ? PQexec(conn, sql) : NULL;
    if (!conn || PQstatus(conn) != CONNECTION_OK) { /* the first time, or after a restart */
        PQclear(rows);
        PQfinish(conn);
        stack->questions = conn = PQconnectdb(stack->conninfo);
        PQsetNoticeProcessor(conn, ignore_notice, NULL);
        rows = PQexec(conn, sql);
    }
    ExecStatusType status = PQresultStatus(rows);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        kiln_test_die("%s: %s", sql, PQerrorMessage(conn));
    char *first =
        PQntuples(rows) > 0 && !PQgetisnull(rows, 0, 0) ? strdup(PQgetvalue(rows, 0, 0)) : NULL;
    PQclear(rows);
    return first;
}

long long kiln_test_count(struct kiln_test_stack *stack, const char *sql)
{
    char *text = kiln_test_sql(stack, sql);
    long long value = text ? atoll(text) : 0;
    free(text);
    return value;
}
