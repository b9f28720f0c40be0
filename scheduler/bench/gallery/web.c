/* web.c - see web.h. */
#include "scheduler/bench/gallery/web.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "scheduler/cli/core/cli.h"

#define CONNECTIONS 128 /* below what a gallery takes from one address */
#define HEADER_MAX 4096
#define READ_BYTES 65536
#define LAST_S 5.0 /* for the last answers */
#define REQUESTS_MAX 2000000

struct request {
    double due_s;
    uint32_t kind, number;
};

struct connection {
    int fd;               /* -1: none */
    struct request asked; /* of the answer that is awaited */
    bool busy;
    unsigned status; /* of an answer whose header is here; 0: not yet */
    uint64_t left;   /* bytes of its body */
    char header[HEADER_MAX];
    size_t header_len;
};

struct loop {
    uint16_t port;
    int epoll;
    struct kiln_bench_web *kinds;
    struct connection all[CONNECTIONS];
    int free[CONNECTIONS], free_count; /* the last one used is used next */
    double start_s;
    char *room; /* [READ_BYTES] */
};

static int connect_to(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool send_request(int fd, uint16_t port, const char *path)
{
    char text[HEADER_MAX];
    int len =
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n", path, port);
    return len < (int)sizeof text && send(fd, text, (size_t)len, MSG_NOSIGNAL) == len;
}

/* The status and the length of the body; false: the header is not whole, or not understood. */
static bool read_header(struct connection *c)
{
    const char *length = NULL, *at = c->header;
    c->header[c->header_len] = '\0';
    for (; (at = strstr(at, "\r\n")) != NULL && strncmp(at, "\r\n\r\n", 4) != 0; at += 2)
        if (strncasecmp(at + 2, "Content-Length:", 15) == 0)
            length = at + 17;
    if (!at || !length || sscanf(c->header, "HTTP/1.1 %3u", &c->status) != 1)
        return false;
    const uint64_t here = c->header_len - (size_t)(at + 4 - c->header);
    c->left = strtoull(length, NULL, 10);
    c->left = c->left > here ? c->left - here : 0;
    return true;
}

/* --- the loop ----------------------------------------------------------------------------------
 */

static void drop(struct connection *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

static const char *path_of(const struct loop *loop, const struct request *request)
{
    const struct kiln_bench_web *kind = &loop->kinds[request->kind];
    return kind->paths[request->number % kind->path_count];
}

static void add_time(struct loop *loop, const struct request *asked)
{
    struct kiln_bench_web *kind = &loop->kinds[asked->kind];
    struct kiln_bench_slow slow = {.ms = (kiln_now_s() - loop->start_s - asked->due_s) * 1e3,
                                   .due_s = asked->due_s,
                                   .path = path_of(loop, asked)};
    kiln_bench_times_add(&kind->times, slow.ms);
    for (int i = 0; i < KILN_BENCH_SLOWEST; i++)
        if (slow.ms > kind->slowest[i].ms) {
            const struct kiln_bench_slow faster = kind->slowest[i];
            kind->slowest[i] = slow;
            slow = faster;
        }
}

/* The answer is here (status), or will not come (0). */
static void finish(struct loop *loop, struct connection *c, unsigned status)
{
    if (status == 200)
        add_time(loop, &c->asked);
    else
        loop->kinds[c->asked.kind].times.failed++;
    c->busy = false;
    loop->free[loop->free_count++] = (int)(c - loop->all);
}

static void begin(struct loop *loop, const struct request *request)
{
    struct connection *c = &loop->all[loop->free[--loop->free_count]];
    c->asked = *request;
    c->busy = true;
    c->status = 0;
    c->header_len = 0;
    for (int tries = 0; tries < 2; tries++) { /* an idle connection may have been closed */
        if (c->fd < 0) {
            c->fd = connect_to(loop->port);
            struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
            if (c->fd >= 0 && epoll_ctl(loop->epoll, EPOLL_CTL_ADD, c->fd, &event) != 0)
                drop(c);
        }
        if (c->fd >= 0 && send_request(c->fd, loop->port, path_of(loop, request)))
            return;
        drop(c);
    }
    finish(loop, c, 0);
}

/* What has arrived on a connection. */
static void take(struct loop *loop, struct connection *c)
{
    const bool header = c->busy && !c->status;
    char *to = header ? c->header + c->header_len : loop->room;
    const size_t size = header ? HEADER_MAX - 1 - c->header_len : READ_BYTES;
    const ssize_t got = recv(c->fd, to, size, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0 || !c->busy) {
        drop(c);
        if (c->busy)
            finish(loop, c, 0);
        return;
    }
    if (header) {
        c->header_len += (size_t)got;
        if (!read_header(c)) {
            c->status = 0;
            if (c->header_len < HEADER_MAX - 1)
                return;
            drop(c);
            finish(loop, c, 0);
            return;
        }
    } else {
        c->left -= c->left > (uint64_t)got ? (uint64_t)got : c->left;
    }
    if (c->left == 0)
        finish(loop, c, c->status);
}

static int by_due(const void *a, const void *b)
{
    const struct request *left = a, *right = b;
    return (left->due_s > right->due_s) - (left->due_s < right->due_s);
}

/* All requests of all kinds, by when they are due. */
static int plan(struct kiln_bench_web *kinds, uint32_t count, double seconds, struct request **ret,
                uint32_t *ret_count, struct kiln_error *err)
{
    double *due_s = malloc(REQUESTS_MAX * sizeof *due_s);
    struct request *all = malloc(REQUESTS_MAX * sizeof *all);
    uint32_t total = 0;
    int rc = due_s && all ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for the requests");
    for (uint32_t kind = 0; kind < count && rc == 0; kind++) {
        struct kiln_bench_times *times = &kinds[kind].times;
        const uint32_t before = kinds[kind].asked; /* paths go on from there */
        const uint32_t n = kiln_bench_arrivals(kinds[kind].rate, seconds, kind + 1 + 16 * before,
                                               due_s, REQUESTS_MAX - total);
        for (uint32_t i = 0; i < n; i++)
            all[total++] = (struct request){due_s[i], kind, before + i};
        kinds[kind].asked += n;
        rc = kiln_bench_times_fit(times, n, err);
    }
    free(due_s);
    if (rc) {
        free(all);
        return rc;
    }
    qsort(all, total, sizeof *all, by_due);
    *ret = all;
    *ret_count = total;
    return 0;
}

static void run(struct loop *loop, const struct request *requests, uint32_t count, double seconds)
{
    struct epoll_event events[64];
    uint32_t next = 0;
    while (next < count || loop->free_count < CONNECTIONS) {
        const double now_s = kiln_now_s() - loop->start_s;
        if (now_s > seconds + LAST_S)
            break;
        while (next < count && requests[next].due_s <= now_s && loop->free_count > 0)
            begin(loop, &requests[next++]);
        double wait_s = next < count ? requests[next].due_s - now_s : 0.05;
        if (loop->free_count == 0 || wait_s > 0.05)
            wait_s = 0.05; /* an answer ends it */
        const struct timespec wait = {0, wait_s > 0 ? (long)(wait_s * 1e9) : 0};
        const int ready = epoll_pwait2(loop->epoll, events, 64, &wait, NULL);
        for (int i = 0; i < ready; i++)
            take(loop, events[i].data.ptr);
    }
    for (; next < count; next++)
        loop->kinds[requests[next].kind].times.failed++;
}

int kiln_bench_web_run(uint16_t port, struct kiln_bench_web *kinds, uint32_t count, double seconds,
                       struct kiln_error *err)
{
    struct request *requests = NULL;
    uint32_t request_count = 0;
    struct loop *loop = calloc(1, sizeof *loop);
    if (!loop || !(loop->room = malloc(READ_BYTES))) {
        free(loop);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the load");
    }
    loop->port = port;
    loop->kinds = kinds;
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < CONNECTIONS; i++) {
        loop->all[i].fd = -1;
        loop->free[loop->free_count++] = i;
    }
    int rc = loop->epoll < 0 ? kiln_fail(err, KILN_IO, "epoll: %s", strerror(errno))
                             : plan(kinds, count, seconds, &requests, &request_count, err);
    if (rc == 0) {
        loop->start_s = kiln_now_s();
        run(loop, requests, request_count, seconds);
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        if (loop->all[i].busy)
            kinds[loop->all[i].asked.kind].times.failed++;
        drop(&loop->all[i]);
    }
    if (loop->epoll >= 0)
        close(loop->epoll);
    free(requests);
    free(loop->room);
    free(loop);
    return rc;
}

void kiln_bench_web_forget(struct kiln_bench_web *kind)
{
    kind->times.count = kind->times.failed = 0;
    memset(kind->slowest, 0, sizeof kind->slowest);
}

/* --- one request -------------------------------------------------------------------------------
 */

void kiln_bench_web_get(uint16_t port, const char *path, unsigned *ret_status, char **ret_body)
{
    struct connection c = {.fd = connect_to(port)};
    char *body = NULL;
    size_t len = 0;
    *ret_status = 0;
    if (ret_body)
        *ret_body = NULL;
    if (c.fd < 0)
        return;
    const struct timeval limit = {.tv_sec = 30};
    (void)setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    bool whole = false;
    if (send_request(c.fd, port, path))
        while (!whole && c.header_len < HEADER_MAX - 1) {
            ssize_t got = recv(c.fd, c.header + c.header_len, HEADER_MAX - 1 - c.header_len, 0);
            if (got <= 0)
                break;
            c.header_len += (size_t)got;
            whole = read_header(&c);
        }
    if (whole) {
        const char *at = strstr(c.header, "\r\n\r\n") + 4;
        const size_t here = c.header_len - (size_t)(at - c.header);
        body = malloc(here + c.left + 1);
        if (body)
            memcpy(body, at, len = here);
        while (body && c.left > 0) {
            ssize_t got = recv(c.fd, body + len, c.left, 0);
            if (got <= 0)
                break;
            len += (size_t)got;
            c.left -= (uint64_t)got;
        }
        if (body)
            body[len] = '\0';
        *ret_status = body && c.left == 0 ? c.status : 0;
    }
    drop(&c);
    if (ret_body)
        *ret_body = body;
    else
        free(body);
}
