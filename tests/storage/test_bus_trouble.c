/* test_bus_trouble.c - Redis away, hanging, full, locked or talking nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schemas/clock.h"
#include "storage/bus/internal.h"
#include "tests/support/files.h"
#include "tests/support/jobs.h"
#include "tests/support/stack.h"

static struct kiln_test_stack *stack;
static struct kiln_error err;
static const char *const field[2] = {"job", "x"};

static int start(void **state)
{
    (void)state;
    stack = kiln_test_stack_start(KILN_STACK_REDIS | KILN_STACK_TCP);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    kiln_test_stack_stop(stack);
    return 0;
}

/* A bus with time limits of a second, and NAME = VALUE besides. */
static const char *limit_s = "30"; /* of whatever does not wait for its end */

static struct kiln_bus *open_bus(const char *url, const char *name, const char *value)
{
    struct kiln_config *config = kiln_config_new();
    struct kiln_bus *bus;
    kiln_test_ok(kiln_config_set(config, "redis", url, "test", &err), err);
    kiln_test_ok(kiln_config_set(config, "statement_timeout_s", limit_s, "test", &err), err);
    kiln_test_ok(kiln_config_set(config, "connect_timeout_s", limit_s, "test", &err), err);
    if (name)
        kiln_test_ok(kiln_config_set(config, name, value, "test", &err), err);
    kiln_test_ok(kiln_bus_open(config, &bus, &err), err);
    kiln_config_free(config);
    return bus;
}

static int ping_with(const char *url, const char *name, const char *value)
{
    struct kiln_bus *bus = open_bus(url, name, value);
    int rc = kiln_bus_ping(bus, &err);
    kiln_bus_close(bus);
    return rc;
}

static void expect_text(const char *piece)
{
    if (!strstr(err.text, piece))
        fail_msg("expected \"%s\" in: %s", piece, err.text);
}

static void urls_are_taken_apart(void **state)
{
    (void)state;
    static const struct {
        const char *url, *host, *path, *user;
        int port, db;
    } good[] = {
        {"redis://h", "h", "", "", 6379, 0},
        {"redis://h:1234/7", "h", "", "", 1234, 7},
        {"redis://u@h.example:65535/", "h.example", "", "u", 65535, 0},
        {"redis://[::1]:99/1", "::1", "", "", 99, 1},
        {"redis://[fe80::2]", "fe80::2", "", "", 6379, 0},
        {"unix:/run/redis.sock", "", "/run/redis.sock", "", 6379, 0},
        {"unix:/run/redis.sock?db=15", "", "/run/redis.sock", "", 6379, 15},
        {"unix:/run/redis.sock?user=me", "", "/run/redis.sock", "me", 6379, 0},
        {"unix:/r.sock?user=me&db=3", "", "/r.sock", "me", 6379, 3},
    };
    static const char *const bad[] = {
        "",           "redis",          "redis://",         "redis://h:0",       "redis://h:65536",
        "redis://h:", "redis://h:x",    "redis://h/x",      "redis://h/1/2",     "redis://[::1",
        "http://h",   "redis://[::1]x", "redis://[]:1",     "unix:rel/path",     "unix:",
        "rediss://h", "unix:/a?db=",    "unix:/a?database", "redis://h/9999999", "redis://h:-1",
    };
    struct kiln_bus_target target;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        kiln_test_ok(kiln_bus_url_parse(good[i].url, &target, &err), err);
        assert_string_equal(target.host, good[i].host);
        assert_string_equal(target.path, good[i].path);
        assert_string_equal(target.user, good[i].user);
        assert_int_equal(target.port, good[i].port);
        assert_int_equal(target.db, good[i].db);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(kiln_bus_url_parse(bad[i], &target, &err), KILN_CONFIG);
        expect_text("setting redis");
    }
    assert_int_equal(kiln_bus_url_parse("redis://u:s3cret@h", &target, &err), KILN_CONFIG);
    expect_text("redis_password_file");
    assert_null(strstr(err.text, "s3cret"));
    char longer[600] = "unix:/";
    memset(longer + 6, 'x', 500);
    assert_int_equal(kiln_bus_url_parse(longer, &target, &err), KILN_CONFIG);
    memcpy(longer, "redis:", 6);
    longer[6] = longer[7] = '/';
    assert_int_equal(kiln_bus_url_parse(longer, &target, &err), KILN_CONFIG);
}

static void nobody_listens(void **state)
{
    (void)state;
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", kiln_test_free_port());
    assert_int_equal(ping_with(url, NULL, NULL), KILN_UNAVAILABLE);
    expect_text("127.0.0.1");
    assert_int_equal(ping_with("unix:/nonexistent/redis.sock", NULL, NULL), KILN_UNAVAILABLE);
    expect_text("/nonexistent/redis.sock");
    assert_int_equal(ping_with("redis://no-such-host.invalid", NULL, NULL), KILN_UNAVAILABLE);
}

static void a_server_that_hangs_costs_the_time_limit(void **state)
{
    (void)state;
    struct kiln_bus_entries got;
    limit_s = "1";
    struct kiln_bus *bus = open_bus(stack->redis_url, NULL, NULL);
    limit_s = "30";
    kiln_test_ok(kiln_bus_group(bus, "s", "g", &err), err);
    kiln_test_freeze(stack, KILN_TEST_REDIS);
    int64_t start_ms = kiln_clock_ms();
    int rc = kiln_bus_read_group(bus, "s", "g", "c", false, 1, 300, &got, &err);
    int64_t read_took = kiln_clock_ms() - start_ms;
    assert_int_equal(rc, KILN_TIMEOUT);
    assert_int_equal(kiln_bus_ping(bus, &err), KILN_TIMEOUT); /* connects, then nobody answers */
    int64_t ping_took = kiln_clock_ms() - start_ms - read_took;
    kiln_test_thaw(stack, KILN_TEST_REDIS);
    assert_true(read_took >= 1300 && read_took < 60000);
    assert_true(ping_took >= 1000 && ping_took < 60000);
    kiln_test_ok(kiln_bus_ping(bus, &err), err);
    kiln_bus_close(bus);
}

static void a_closed_connection_is_made_again(void **state)
{
    (void)state;
    struct kiln_bus *bus = open_bus(stack->redis_url, NULL, NULL);
    uint64_t before, after;
    kiln_test_ok(kiln_bus_length(bus, "kept", &before, &err), err);
    kiln_test_redis(stack, "CLIENT KILL TYPE normal");
    kiln_test_ok(kiln_bus_append(bus, "kept", 0, field, NULL, 1, &err), err);
    kiln_test_restart(stack, KILN_TEST_REDIS, NULL);
    kiln_test_ok(kiln_bus_append(bus, "kept", 0, field, NULL, 1, &err), err);
    kiln_test_kill(stack, KILN_TEST_REDIS);
    assert_int_equal(kiln_bus_ping(bus, &err), KILN_UNAVAILABLE);
    kiln_test_restart(stack, KILN_TEST_REDIS, NULL);
    kiln_test_ok(kiln_bus_length(bus, "kept", &after, &err), err); /* from the append-only file */
    assert_true(after == before + 2 || after == before + 1);
    kiln_bus_close(bus);
}

static void lost_appends_are_reported(void **state)
{
    (void)state;
    struct kiln_bus *bus = open_bus(stack->redis_url, NULL, NULL);
    for (int i = 0; i < 100; i++)
        kiln_test_ok(kiln_bus_append_async(bus, "lost", field, NULL, 1, &err), err);
    kiln_test_kill(stack, KILN_TEST_REDIS);
    assert_int_equal(kiln_bus_flush(bus, &err), KILN_UNAVAILABLE);
    for (int i = 0; i < 4; i++)
        assert_int_equal(kiln_bus_append_async(bus, "lost", field, NULL, 1, &err),
                         KILN_UNAVAILABLE);
    kiln_test_restart(stack, KILN_TEST_REDIS, NULL);
    for (int i = 0; i < 5; i++)
        kiln_test_ok(kiln_bus_append_async(bus, "lost", field, NULL, 1, &err), err);
    kiln_test_redis(stack, "CLIENT KILL TYPE normal"); /* answered or not: nobody has read it */
    int rc = kiln_bus_ping(bus, &err);
    assert_int_equal(rc ? rc : kiln_bus_flush(bus, &err), KILN_UNAVAILABLE);
    kiln_test_ok(kiln_bus_ping(bus, &err), err);
    kiln_bus_close(bus);
}

static void a_full_redis_says_so(void **state)
{
    (void)state;
    struct kiln_bus *bus = open_bus(stack->redis_url, NULL, NULL);
    char text[60000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    const char *large[2] = {"job", text};
    kiln_test_redis(stack, "CONFIG SET maxmemory 4mb");
    int rc = 0;
    for (int i = 0; i < 200 && rc == 0; i++)
        rc = kiln_bus_append(bus, "fat", 0, large, NULL, 1, &err);
    assert_int_equal(rc, KILN_FULL);
    expect_text("maxmemory");
    for (rc = 0; rc == 0;)
        rc = kiln_bus_append_async(bus, "fat", large, NULL, 1, &err);
    assert_int_equal(rc, KILN_FULL);
    (void)!kiln_bus_flush(bus, &err);
    kiln_test_redis(stack, "CONFIG SET maxmemory 1"); /* full even once buffers are given back */
    assert_int_equal(kiln_bus_heartbeat(bus, "kiln:{p}:beat:w", "b", 1000, &err), KILN_FULL);
    kiln_test_redis(stack, "CONFIG SET maxmemory 0");
    kiln_test_ok(kiln_bus_append(bus, "fat", 0, large, NULL, 1, &err), err);
    kiln_bus_close(bus);
}

static const char *write_file(const char *name, const char *text)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", stack->dir, name);
    kiln_test_write(path, text);
    return path;
}

/* A FIFO that nobody writes to is not waited for without end. */
static void a_password_that_does_not_come_is_named(void **state)
{
    (void)state;
    char path[200];
    snprintf(path, sizeof path, "%s/fifo", stack->dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(120); /* seconds */
    assert_int_equal(ping_with(stack->redis_url, "redis_password_file", path), KILN_CONFIG);
    alarm(0);
    expect_text("redis_password_file: ");
    expect_text("fifo is a pipe whose writer did not write anything within 5 s");
}

static void passwords_come_from_their_file(void **state)
{
    (void)state;
    static const char key[] = "redis_password_file";
    char url[64];
    kiln_test_redis(stack, "ACL SETUSER worker on >pw2 ~kiln:* +ping +select +xadd +auth");
    kiln_test_redis(stack,
                    "ACL SETUSER default on >pw1"); /* from here on a password is asked for */
    assert_int_equal(ping_with(stack->redis_url, NULL, NULL), KILN_DENIED);
    expect_text("redis_password_file");
    assert_int_equal(ping_with(stack->redis_url, key, write_file("pw", "wrong-s3cret\n")),
                     KILN_DENIED);
    assert_null(strstr(err.text, "s3cret"));
    kiln_test_ok(ping_with(stack->redis_url, key, write_file("pw", "pw1\n")), err);
    snprintf(url, sizeof url, "redis://worker@127.0.0.1:%d", stack->port[KILN_TEST_REDIS]);
    struct kiln_bus *bus = open_bus(url, key, write_file("pw", "pw2"));
    kiln_test_ok(kiln_bus_append(bus, "kiln:{p}:intake", 0, field, NULL, 1, &err), err);
    assert_int_equal(kiln_bus_append(bus, "elsewhere", 0, field, NULL, 1, &err), KILN_DENIED);
    kiln_bus_close(bus);
    assert_int_equal(ping_with(url, key, "/nonexistent/pw"), KILN_CONFIG);
    assert_int_equal(ping_with(url, key, write_file("pw", "\n")), KILN_CONFIG);
    expect_text("is empty");
    bus = open_bus(stack->redis_url, key, write_file("pw", "pw1"));
    kiln_test_ok(kiln_bus_ping(bus, &err), err);
    kiln_bus_close(bus);
    kiln_test_kill(stack, KILN_TEST_REDIS); /* the users lived in its memory only */
    kiln_test_restart(stack, KILN_TEST_REDIS, NULL);
}

static void wrong_databases_and_replicas_are_named(void **state)
{
    (void)state;
    char url[64], replica_of[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/99", stack->port[KILN_TEST_REDIS]);
    assert_int_equal(ping_with(url, NULL, NULL), KILN_CONFIG);
    expect_text("database number");
    struct kiln_bus *bus = open_bus(stack->redis_url, NULL, NULL);
    kiln_test_ok(kiln_bus_ping(bus, &err), err);
    snprintf(replica_of, sizeof replica_of, "REPLICAOF 127.0.0.1 %d", kiln_test_free_port());
    kiln_test_redis(stack, replica_of);
    assert_int_equal(kiln_bus_append(bus, "s", 0, field, NULL, 1, &err), KILN_UNAVAILABLE);
    expect_text("replica");
    kiln_test_redis(stack, "REPLICAOF NO ONE");
    kiln_bus_close(bus);
}

static void a_key_of_another_type_is_an_error(void **state)
{
    (void)state;
    struct kiln_bus *bus = open_bus(stack->redis_url, NULL, NULL);
    uint64_t length;
    kiln_test_redis(stack, "SET plain x");
    assert_int_equal(kiln_bus_append(bus, "plain", 0, field, NULL, 1, &err), KILN_PROTOCOL);
    assert_int_equal(kiln_bus_length(bus, "plain", &length, &err), KILN_PROTOCOL);
    assert_int_equal(kiln_bus_heartbeat(bus, "plain", "b", 1000, &err), KILN_PROTOCOL);
    assert_int_equal(kiln_bus_refusal(bus), KILN_BUS_WRONG_TYPE); /* although within EXEC */
    kiln_test_ok(kiln_bus_ping(bus, &err), err);
    kiln_bus_close(bus);
}

/* "Redis declined this command" and "Redis is away" are told apart. */
static void a_refusal_is_not_an_absence(void **state)
{
    (void)state;
    struct kiln_bus *bus = open_bus(stack->redis_url, NULL, NULL);
    kiln_test_redis(stack, "SET other x");
    assert_int_equal(kiln_bus_group(bus, "other", "g", &err), KILN_PROTOCOL);
    assert_int_equal(kiln_bus_refusal(bus), KILN_BUS_WRONG_TYPE);
    kiln_test_ok(kiln_bus_ping(bus, &err), err);
    assert_int_equal(kiln_bus_refusal(bus), KILN_BUS_NOT_REFUSED);
    kiln_test_redis(stack, "XADD spent 18446744073709551615-18446744073709551615 a b");
    assert_int_equal(kiln_bus_append(bus, "spent", 0, field, NULL, 1, &err), KILN_PROTOCOL);
    assert_int_equal(kiln_bus_refusal(bus), KILN_BUS_EXHAUSTED);
    kiln_test_ok(kiln_bus_append_async(bus, "other", field, NULL, 1, &err), err);
    kiln_test_ok(kiln_bus_append_async(bus, "good", field, NULL, 1, &err), err);
    assert_int_equal(kiln_bus_flush(bus, &err), KILN_PROTOCOL);
    assert_int_equal(kiln_bus_refusal(bus), KILN_BUS_WRONG_TYPE);
    kiln_test_ok(kiln_bus_flush(bus, &err), err);
    assert_int_equal(kiln_bus_refusal(bus), KILN_BUS_NOT_REFUSED);
    kiln_test_redis(stack, "CONFIG SET maxmemory 1");
    assert_int_equal(kiln_bus_append(bus, "good", 0, field, NULL, 1, &err), KILN_FULL);
    assert_int_equal(kiln_bus_refusal(bus), KILN_BUS_NOT_REFUSED);
    kiln_test_redis(stack, "CONFIG SET maxmemory 0");
    kiln_test_redis(stack, "ACL SETUSER least on nopass ~mine +xadd +ping +select");
    char url[64];
    snprintf(url, sizeof url, "redis://least@127.0.0.1:%d", stack->port[KILN_TEST_REDIS]);
    struct kiln_bus *least = open_bus(url, "redis_password_file", write_file("any", "x"));
    assert_int_equal(kiln_bus_append(least, "good", 0, field, NULL, 1, &err), KILN_DENIED);
    assert_int_equal(kiln_bus_refusal(least), KILN_BUS_NOT_ALLOWED);
    kiln_bus_close(least);
    assert_int_equal(kiln_bus_append(bus, "other", 0, field, NULL, 1, &err), KILN_PROTOCOL);
    kiln_test_kill(stack, KILN_TEST_REDIS);
    assert_int_equal(kiln_bus_append(bus, "other", 0, field, NULL, 1, &err), KILN_UNAVAILABLE);
    assert_int_equal(kiln_bus_refusal(bus), KILN_BUS_NOT_REFUSED);
    kiln_test_restart(stack, KILN_TEST_REDIS, NULL);
    kiln_bus_close(bus);
}

/* Keys that another program has damaged are found, and removed where nothing is lost. */
static void damaged_streams_are_repaired(void **state)
{
    (void)state;
    static const char *const damaged[] = {
        "SET mend x", "RPUSH mend x", "XADD mend 18446744073709551615-18446744073709551615 a b"};
    struct kiln_bus *bus = open_bus(stack->redis_url, NULL, NULL);
    struct kiln_bus_entries got;
    uint64_t length;
    bool repaired = true;
    kiln_test_ok(kiln_bus_probe(bus, "absent", &err), err);
    kiln_test_ok(kiln_bus_length(bus, "absent", &length, &err), err);
    assert_int_equal(length, 0);
    for (size_t i = 0; i < 3; i++) {
        kiln_test_redis(stack, damaged[i]);
        if (i == 2) {
            assert_int_equal(kiln_bus_probe(bus, "mend", &err), KILN_PROTOCOL);
            kiln_test_ok(kiln_bus_repair(bus, "mend", true, &repaired, &err), err);
            assert_false(repaired); /* its entry is not lost */
            kiln_test_redis(stack, "XDEL mend 18446744073709551615-18446744073709551615");
        }
        assert_int_equal(kiln_bus_probe(bus, "mend", &err), KILN_PROTOCOL);
        kiln_test_ok(kiln_bus_repair(bus, "mend", true, &repaired, &err), err);
        assert_true(repaired);
        kiln_test_ok(kiln_bus_append(bus, "mend", 0, field, NULL, 1, &err), err);
        kiln_test_ok(kiln_bus_probe(bus, "mend", &err), err);
        kiln_test_redis(stack, "DEL mend");
    }
    /* A good stream keeps what it has, also one that was only made; its readers see nothing. */
    kiln_test_ok(kiln_bus_group(bus, "made", "g", &err), err);
    kiln_test_ok(kiln_bus_probe(bus, "made", &err), err);
    kiln_test_ok(kiln_bus_probe(bus, "made", &err), err);
    kiln_test_ok(kiln_bus_read_group(bus, "made", "g", "c", false, 9, 0, &got, &err), err);
    assert_int_equal(got.count, 0);
    kiln_test_ok(kiln_bus_append(bus, "made", 0, field, NULL, 1, &err), err);
    kiln_test_ok(kiln_bus_probe(bus, "made", &err), err);
    kiln_test_ok(kiln_bus_repair(bus, "made", true, &repaired, &err), err);
    assert_false(repaired);
    kiln_test_ok(kiln_bus_read_group(bus, "made", "g", "c", false, 9, 0, &got, &err), err);
    assert_int_equal(got.count, 1);
    kiln_bus_close(bus);
}

/* --- large entries --------------------------------------------------------------------------- */
static long memory_peak_mib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
}

/* 256 MiB in one stream, of which a reader asks for everything. */
static void readings_are_bounded_by_bytes(void **state)
{
    (void)state;
    enum { ENTRIES = 64, BYTES = 4 * 1024 * 1024 };
    struct kiln_bus *bus = open_bus(stack->redis_url, NULL, NULL);
    struct kiln_bus_entries got;
    char *large = malloc(BYTES), after_id[48] = "0";
    const char *stream = "large", *after = after_id;
    const char *const fields[2] = {"event", large};
    const size_t lengths[2] = {5, BYTES};
    memset(large, 'x', BYTES);
    for (int i = 0; i < ENTRIES; i++)
        kiln_test_ok(kiln_bus_append(bus, stream, 0, fields, lengths, 1, &err), err);
    long before = memory_peak_mib();
    size_t count = 0;
    for (int i = 0; i < ENTRIES && count < ENTRIES; i++) {
        kiln_test_ok(kiln_bus_read(bus, &stream, &after, 1, 1000, 0, &got, &err), err);
        count += got.count;
        snprintf(after_id, sizeof after_id, "%s", got.at[got.count - 1].id);
    }
    assert_int_equal(count, ENTRIES);
    struct kiln_bus *other = open_bus(stack->redis_url, NULL, NULL);
    int rc = kiln_bus_read_group(other, stream, "g", "c", false, 1000, 0, &got, &err);
    assert_int_equal(rc, KILN_NO_MEMORY);
    kiln_test_ok(kiln_bus_read_group(other, stream, "g", "c", true, 1000, 0, &got, &err), err);
    assert_true(got.count > 0 && got.count <= 8);
    kiln_bus_close(other);
    assert_true(memory_peak_mib() - before < 150);
    kiln_test_redis(stack, "DEL large");
    /* Small entries are read as many as before. */
    for (int i = 0; i < 300; i++)
        kiln_test_ok(kiln_bus_append(bus, stream, 0, field, NULL, 1, &err), err);
    for (int i = 0; i < 10; i++)
        kiln_test_ok(kiln_bus_read(bus, &stream, &(const char *){"0"}, 1, 1000, 0, &got, &err),
                     err);
    assert_int_equal(got.count, 300);
    free(large);
    kiln_bus_close(bus);
}

/* --- a server that is none ------------------------------------------------------------------- */

struct impostor {
    int listener;
    const char *greeting, *answer; /* after the greeting's SELECT */
};

static void *play(void *arg)
{
    const struct impostor *impostor = arg;
    char bytes[4096];
    int fd = accept(impostor->listener, NULL, NULL);
    if (read(fd, bytes, sizeof bytes) > 0)
        (void)!write(fd, impostor->greeting, strlen(impostor->greeting));
    if (read(fd, bytes, sizeof bytes) > 0)
        (void)!write(fd, impostor->answer, strlen(impostor->answer));
    close(fd);
    return NULL;
}

/* What a group read makes of the answer. */
static int read_from_impostor(const char *answer)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    struct impostor impostor = {socket(AF_INET, SOCK_STREAM, 0), "+OK\r\n", answer};
    pthread_t thread;
    char url[64];
    struct kiln_bus_entries got;
    assert_int_equal(bind(impostor.listener, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(impostor.listener, 1), 0);
    assert_int_equal(getsockname(impostor.listener, (struct sockaddr *)&at, &size), 0);
    assert_int_equal(pthread_create(&thread, NULL, play, &impostor), 0);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", ntohs(at.sin_port));
    struct kiln_bus *bus = open_bus(url, NULL, NULL);
    int rc = kiln_bus_read_group(bus, "s", "g", "c", false, 1, 10, &got, &err);
    kiln_bus_close(bus);
    pthread_join(thread, NULL);
    close(impostor.listener);
    return rc;
}

static void nonsense_is_a_protocol_error(void **state)
{
    (void)state;
    static const char *const nonsense[] = {
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        ":7\r\n",
        "*1\r\n:7\r\n",
        "*1\r\n*2\r\n$1\r\ns\r\n:1\r\n",
        "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n$1\r\nx\r\n",
        "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*1\r\n$1\r\nx\r\n",
        "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nx\r\n:5\r\n",
        "*1\r\n*2\r\n:1\r\n*0\r\n",
        "*-7\r\n",
        "*99999999999999999999\r\n",
    };
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++)
        assert_int_equal(read_from_impostor(nonsense[i]), KILN_PROTOCOL);
    assert_int_equal(read_from_impostor("*1\r\n*2\r\n$1\r\ns"), KILN_UNAVAILABLE); /* cut short */
    assert_int_equal(read_from_impostor("*-1\r\n"), 0);
    assert_int_equal(read_from_impostor("-LOADING Redis is loading\r\n"), KILN_UNAVAILABLE);
    assert_int_equal(read_from_impostor("-MISCONF errors writing\r\n"), KILN_FULL);
    assert_int_equal(read_from_impostor("-MOVED 1 h:1\r\n"), KILN_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_taken_apart),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(a_server_that_hangs_costs_the_time_limit),
        cmocka_unit_test(a_closed_connection_is_made_again),
        cmocka_unit_test(lost_appends_are_reported),
        cmocka_unit_test(a_full_redis_says_so),
        cmocka_unit_test(a_password_that_does_not_come_is_named),
        cmocka_unit_test(passwords_come_from_their_file),
        cmocka_unit_test(wrong_databases_and_replicas_are_named),
        cmocka_unit_test(a_key_of_another_type_is_an_error),
        cmocka_unit_test(a_refusal_is_not_an_absence),
        cmocka_unit_test(damaged_streams_are_repaired),
        cmocka_unit_test(readings_are_bounded_by_bytes),
        cmocka_unit_test(nonsense_is_a_protocol_error),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
