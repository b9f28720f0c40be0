/* faultproxy.c - see faultproxy.h.
 *
 * Script and counts lie in memory that test and child share, under a mutex of both.  A request is
 * read whole, so that "passed on" is a fact the test can count, and each is passed on over a
 * connection of its own. */
#include "tests/support/faultproxy.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/network.h"
#include "tests/support/process.h"

#define RULES_MAX 16
#define HEAD_MAX 16384
#define BODY_MAX (16 * 1024 * 1024)
#define CLOCK_TOLERANCE_S 60

struct rule {
    char method[8];
    enum test_fault fault;
    int count, arg;
};

struct shared {
    pthread_mutex_t mutex;
    struct rule rules[RULES_MAX];
    int rule_count, ahead_s;
    struct test_proxy_counts counts;
};

struct test_proxy {
    struct shared *shared;
    pid_t pid;
    int port;
};

/* A request or an answer. */
struct message {
    char head[HEAD_MAX]; /* with the empty line, NUL-terminated */
    size_t head_len;
    char *body;
    size_t body_len;
};

static struct shared *shared; /* in the child */
static int upstream_port;

/* --- bytes ------------------------------------------------------------------------------------ */

static bool send_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        data += n;
        size -= (size_t)n;
    }
    return true;
}

static bool receive_all(int fd, char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = recv(fd, data, size, 0);
        if (n <= 0)
            return false;
        data += n;
        size -= (size_t)n;
    }
    return true;
}

/* Byte by byte up to the empty line: slow, and never reads what belongs to the body. */
static bool receive_head(int fd, struct message *m)
{
    m->head_len = 0;
    while (m->head_len + 1 < HEAD_MAX) {
        if (recv(fd, m->head + m->head_len, 1, 0) != 1)
            return false;
        m->head[++m->head_len] = '\0';
        if (m->head_len >= 4 && memcmp(m->head + m->head_len - 4, "\r\n\r\n", 4) == 0)
            return true;
    }
    return false;
}

/* The value of a header, in the head; NULL if there is none. */
static char *header_of(struct message *m, const char *name)
{
    size_t len = strlen(name);
    for (char *line = strstr(m->head, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, name, len) == 0 && line[2 + len] == ':') {
            char *value = line + 2 + len + 1;
            return value + strspn(value, " ");
        }
    }
    return NULL;
}

static bool receive_body(int fd, struct message *m, bool none)
{
    const char *length = header_of(m, "Content-Length");
    m->body_len = none || !length ? 0 : strtoul(length, NULL, 10);
    m->body = m->body_len <= BODY_MAX ? malloc(m->body_len + 1) : NULL;
    return m->body && receive_all(fd, m->body, m->body_len);
}

static void reset(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

/* --- answers of our own ----------------------------------------------------------------------- */

static bool answer(int fd, const char *status, const char *more, const char *body)
{
    char text[4096], date[64];
    time_t now = time(NULL) + shared->ahead_s;
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    int len =
        snprintf(text, sizeof text, "HTTP/1.1 %s\r\nDate: %s\r\n%sContent-Length: %zu\r\n\r\n%s",
                 status, date, more, strlen(body), body);
    return send_all(fd, text, (size_t)len);
}

static bool answer_error(int fd, const char *status, const char *code, const char *message)
{
    char body[512];
    snprintf(body, sizeof body,
             "<?xml version='1.0' encoding='UTF-8'?>\n<Error><Code>%s</Code>"
             "<Message>%s</Message><RequestId>1</RequestId></Error>",
             code, message);
    return answer(fd, status, "Content-Type: application/xml\r\n", body);
}

/* --- the script ------------------------------------------------------------------------------- */

static struct rule take_rule(const char *method)
{
    struct rule taken = {.fault = FAULT_NONE};
    pthread_mutex_lock(&shared->mutex);
    shared->counts.requests++;
    shared->counts.heads += strcmp(method, "HEAD") == 0;
    for (int i = 0; i < shared->rule_count; i++) {
        struct rule *rule = &shared->rules[i];
        if (rule->count > 0 && (!rule->method[0] || strcmp(rule->method, method) == 0)) {
            rule->count--;
            taken = *rule;
            break;
        }
    }
    pthread_mutex_unlock(&shared->mutex);
    return taken;
}

static void count_one(int *count)
{
    pthread_mutex_lock(&shared->mutex);
    ++*count;
    pthread_mutex_unlock(&shared->mutex);
}

/* Whether the request's x-amz-date lies outside what the proxy's clock allows. */
static bool skewed(struct message *request)
{
    const char *date = header_of(request, "x-amz-date");
    struct tm tm = {0};
    if (shared->ahead_s == 0 || !date || !strptime(date, "%Y%m%dT%H%M%SZ", &tm))
        return false;
    return labs((long)(timegm(&tm) - time(NULL) - shared->ahead_s)) > CLOCK_TOLERANCE_S;
}

/* --- passing on ------------------------------------------------------------------------------- */

static int connect_upstream(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)upstream_port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool pass_on(const struct message *request, const char *method, struct message *reply)
{
    int fd = connect_upstream();
    bool good = fd >= 0 && send_all(fd, request->head, request->head_len) &&
                send_all(fd, request->body, request->body_len) && receive_head(fd, reply) &&
                receive_body(fd, reply, strcmp(method, "HEAD") == 0);
    if (fd >= 0)
        close(fd);
    if (good && strcmp(method, "PUT") == 0 && strstr(reply->head, " 200 "))
        count_one(&shared->counts.puts_passed);
    return good;
}

static void spoil(struct message *reply, enum test_fault fault)
{
    char *etag = header_of(reply, "ETag");
    if (fault == FAULT_WRONG_ETAG && etag) {
        etag += *etag == '"';
        *etag = *etag == '0' ? '1' : '0';
    }
    if (fault == FAULT_FLIP && reply->body_len)
        reply->body[reply->body_len / 2] ^= 4;
}

/* Passes a request on and treats its answer; false ends the connection. */
static bool relay(int fd, const struct message *request, const char *method, struct rule rule)
{
    static __thread struct message reply;
    reply.body = NULL;
    bool good = pass_on(request, method, &reply);
    if (good) {
        spoil(&reply, rule.fault);
        if (rule.fault == FAULT_SLOW)
            kiln_test_sleep_ms(rule.arg);
        if (rule.fault == FAULT_RESET_AFTER) {
            reset(fd);
            good = false;
        } else if (rule.fault == FAULT_PRECONDITION) {
            good = answer_error(fd, "412 Precondition Failed", "PreconditionFailed", "exists");
        } else {
            size_t len = rule.fault == FAULT_TRUNCATE ? reply.body_len / 2 : reply.body_len;
            good = send_all(fd, reply.head, reply.head_len) && send_all(fd, reply.body, len) &&
                   rule.fault != FAULT_TRUNCATE && rule.fault != FAULT_CLOSE_AFTER;
        }
    }
    free(reply.body);
    return good;
}

static bool serve(int fd, const struct message *request, const char *method, struct rule rule)
{
    switch (rule.fault) {
    case FAULT_503:
        return answer_error(fd, "503 Slow Down", "SlowDown", "Please reduce your request rate.");
    case FAULT_500_HTML:
        return answer(fd, "500 Internal Server Error", "Content-Type: text/html\r\n",
                      "<html><body><h1>oops &nbsp;</h1></body></html>");
    case FAULT_HANG:
        kiln_test_sleep_ms(60000);
        return false;
    case FAULT_REDIRECT:
        return answer(fd, "307 Temporary Redirect", "Location: http://127.0.0.1:1/\r\n", "");
    case FAULT_GARBAGE:
        send_all(fd, "\x01\x02 what?\r\n\r\n", 12);
        return false;
    case FAULT_EXPIRED:
        return answer_error(fd, "400 Bad Request", "ExpiredToken", "The token has expired.");
    case FAULT_CONFLICT:
        return answer_error(fd, "409 Conflict", "ConditionalRequestConflict", "again");
    case FAULT_DENY:
        return answer(fd, "403 Forbidden", "", "");
    case FAULT_UNKNOWN:
        return answer_error(fd, "501 Not Implemented", "NotImplemented", "no such thing");
    default:
        return relay(fd, request, method, rule);
    }
}

static bool serve_one(int fd, struct message *request)
{
    char method[8] = "";
    if (!receive_head(fd, request) || sscanf(request->head, "%7[A-Z] ", method) != 1)
        return false;
    struct rule rule = take_rule(method);
    if (rule.fault == FAULT_RESET_BEFORE) {
        reset(fd);
        return false;
    }
    if (!receive_body(fd, request, false))
        return false;
    if (skewed(request)) {
        count_one(&shared->counts.skewed);
        return answer_error(fd, "403 Forbidden", "RequestTimeTooSkewed", "check your clock");
    }
    return serve(fd, request, method, rule);
}

static void *serve_connection(void *arg)
{
    int fd = (int)(intptr_t)arg;
    struct message *request = calloc(1, sizeof *request);
    bool more = request != NULL;
    while (more) {
        more = serve_one(fd, request);
        free(request->body);
        request->body = NULL;
    }
    free(request);
    close(fd);
    return NULL;
}

static void accept_for_ever(int listener)
{
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), on = 1;
        if (fd < 0)
            continue;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        count_one(&shared->counts.connections);
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve_connection, (void *)(intptr_t)fd) == 0)
            pthread_detach(thread);
        else
            close(fd);
    }
}

/* --- for the test ----------------------------------------------------------------------------- */

static int listen_anywhere(int *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(test_network_listen())};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 128), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *ret_port = ntohs(at.sin_port);
    return fd;
}

struct test_proxy *test_proxy_start(int upstream)
{
    struct test_proxy *proxy = calloc(1, sizeof *proxy);
    assert_non_null(proxy);
    proxy->shared = mmap(NULL, sizeof *proxy->shared, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(proxy->shared != MAP_FAILED);
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&proxy->shared->mutex, &attr);
    int listener = listen_anywhere(&proxy->port);
    proxy->pid = kiln_test_fork();
    if (proxy->pid == 0) {
        shared = proxy->shared;
        upstream_port = upstream;
        accept_for_ever(listener);
    }
    close(listener);
    return proxy;
}

void test_proxy_stop(struct test_proxy *proxy)
{
    if (!proxy)
        return;
    kill(proxy->pid, SIGKILL);
    waitpid(proxy->pid, NULL, 0);
    munmap(proxy->shared, sizeof *proxy->shared);
    free(proxy);
}

int test_proxy_port(const struct test_proxy *proxy)
{
    return proxy->port;
}

void test_proxy_script(struct test_proxy *proxy, const struct test_fault_rule *rules, int count)
{
    assert_true(count <= RULES_MAX);
    pthread_mutex_lock(&proxy->shared->mutex);
    for (int i = 0; i < count; i++) {
        struct rule *rule = &proxy->shared->rules[i];
        snprintf(rule->method, sizeof rule->method, "%s", rules[i].method);
        rule->fault = rules[i].fault;
        rule->count = rules[i].count;
        rule->arg = rules[i].arg;
    }
    proxy->shared->rule_count = count;
    proxy->shared->counts = (struct test_proxy_counts){0};
    pthread_mutex_unlock(&proxy->shared->mutex);
}

void test_proxy_clock(struct test_proxy *proxy, int ahead_s)
{
    pthread_mutex_lock(&proxy->shared->mutex);
    proxy->shared->ahead_s = ahead_s;
    pthread_mutex_unlock(&proxy->shared->mutex);
}

struct test_proxy_counts test_proxy_counts(struct test_proxy *proxy)
{
    pthread_mutex_lock(&proxy->shared->mutex);
    struct test_proxy_counts counts = proxy->shared->counts;
    for (int i = 0; i < proxy->shared->rule_count; i++)
        counts.rules_left += proxy->shared->rules[i].count;
    pthread_mutex_unlock(&proxy->shared->mutex);
    return counts;
}
