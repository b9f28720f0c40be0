/* link.c - see link.h.  One thread and poll(); the flags lie in memory that test and child share.
 */
#include "tests/support/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/process.h"
#include "tests/support/stack_postgres.h"

#define PAIRS_MAX 64
#define BYTES (64 * 1024)
#define TICK_MS 20 /* how soon a cut is noticed */

struct shared {
    atomic_bool cut;
    atomic_uint resets, hushes;
};

struct test_link {
    struct shared *shared;
    pid_t pid;
    int port;
};

/* Two ends of a forwarded connection, and the bytes that the other end has not taken yet. */
struct pair {
    int fd[2]; /* 0: the program's, 1: the server's */
    char *bytes[2];
    size_t from[2], to[2]; /* bytes[i] came from fd[i]: [from, to) waits for the other */
    bool ended[2], silent;
};

static struct pair pairs[PAIRS_MAX];
static int pair_count;

static void drop(int at, bool abrupt)
{
    struct pair *pair = &pairs[at];
    for (int i = 0; i < 2; i++) {
        struct linger linger = {.l_onoff = 1, .l_linger = 0};
        if (abrupt)
            setsockopt(pair->fd[i], SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        close(pair->fd[i]);
        free(pair->bytes[i]);
    }
    *pair = pairs[--pair_count];
}

static void accept_one(int listener, int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, near = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    int far = near >= 0 ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    struct pair pair = {.fd = {near, far}, .bytes = {malloc(BYTES), malloc(BYTES)}};
    if (near >= 0 && far >= 0 && pair.bytes[0] && pair.bytes[1] && pair_count < PAIRS_MAX &&
        connect(far, (struct sockaddr *)&at, sizeof at) == 0) {
        setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        pairs[pair_count++] = pair;
        return;
    }
    close(near);
    close(far);
    free(pair.bytes[0]);
    free(pair.bytes[1]);
}

/* Moves what is ready; false when the pair is over. */
static bool forward(struct pair *pair, const struct pollfd ready[2])
{
    for (int i = 0; i < 2; i++) {
        if (pair->from[i] == pair->to[i] && !pair->ended[i] &&
            (ready[i].revents & (POLLIN | POLLHUP | POLLERR))) {
            ssize_t n = recv(pair->fd[i], pair->bytes[i], BYTES, MSG_DONTWAIT);
            if (n < 0 && errno != EAGAIN)
                return false;
            pair->ended[i] = n == 0;
            pair->from[i] = 0;
            pair->to[i] = n > 0 ? (size_t)n : 0;
        }
        if (pair->from[i] < pair->to[i]) {
            ssize_t n = send(pair->fd[!i], pair->bytes[i] + pair->from[i],
                             pair->to[i] - pair->from[i], MSG_NOSIGNAL | MSG_DONTWAIT);
            if (n < 0 && errno != EAGAIN)
                return false;
            pair->from[i] += n > 0 ? (size_t)n : 0;
        }
        if (pair->ended[i] && pair->from[i] == pair->to[i])
            return false; /* whoever closes a connection of ours wants nothing more of it */
    }
    return true;
}

static void await(const struct shared *shared, int listener, struct pollfd *ready)
{
    ready[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (int p = 0; p < pair_count; p++)
        for (int i = 0; i < 2; i++) {
            const struct pair *pair = &pairs[p];
            bool full = pair->from[i] < pair->to[i], owed = pair->from[!i] < pair->to[!i];
            ready[1 + 2 * p + i] =
                (struct pollfd){.fd = pair->silent ? -1 : pair->fd[i],
                                .events = (short)((full ? 0 : POLLIN) | (owed ? POLLOUT : 0))};
        }
    if (atomic_load(&shared->cut))
        nanosleep(&(struct timespec){.tv_nsec = TICK_MS * 1000000L}, NULL);
    else
        poll(ready, (nfds_t)(1 + 2 * pair_count), TICK_MS);
}

static void forward_for_ever(struct shared *shared, int listener, int port)
{
    static struct pollfd ready[1 + 2 * PAIRS_MAX];
    unsigned resets = 0, hushes = 0;
    for (;;) {
        await(shared, listener, ready);
        while (resets != atomic_load(&shared->resets)) {
            resets++;
            while (pair_count > 0)
                drop(0, true);
        }
        for (; hushes != atomic_load(&shared->hushes); hushes++)
            for (int p = 0; p < pair_count; p++)
                pairs[p].silent = true;
        if (atomic_load(&shared->cut))
            continue;
        for (int p = pair_count - 1; p >= 0; p--)
            if (!pairs[p].silent && !forward(&pairs[p], &ready[1 + 2 * p]))
                drop(p, false);
        if (ready[0].revents & POLLIN)
            accept_one(listener, port);
    }
}

static int listen_anywhere(int *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0)
        kiln_test_die("a link cannot listen");
    *ret_port = ntohs(at.sin_port);
    return fd;
}

struct test_link *test_link_start(int port)
{
    struct test_link *link = calloc(1, sizeof *link);
    if (!link)
        kiln_test_die("no memory for a link");
    link->shared =
        mmap(NULL, sizeof *link->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (link->shared == MAP_FAILED)
        kiln_test_die("no memory for a link");
    int listener = listen_anywhere(&link->port);
    link->pid = kiln_test_fork();
    if (link->pid == 0)
        forward_for_ever(link->shared, listener, port);
    close(listener);
    return link;
}

void test_link_stop(struct test_link *link)
{
    if (!link)
        return;
    kill(link->pid, SIGKILL);
    waitpid(link->pid, NULL, 0);
    munmap(link->shared, sizeof *link->shared);
    free(link);
}

int test_link_port(const struct test_link *link)
{
    return link->port;
}

void test_link_cut(struct test_link *link, bool cut)
{
    atomic_store(&link->shared->cut, cut);
}

void test_link_hush(struct test_link *link)
{
    atomic_fetch_add(&link->shared->hushes, 1);
}

void test_link_reset(struct test_link *link)
{
    atomic_fetch_add(&link->shared->resets, 1);
}
