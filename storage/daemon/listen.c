/* listen.c - see listen.h. */
#include "storage/daemon/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } at;
    socklen_t size;
};

static bool read_address(const char *text, struct address *ret)
{
    memset(ret, 0, sizeof *ret);
    if (inet_pton(AF_INET, text, &ret->at.four.sin_addr) == 1) {
        ret->at.four.sin_family = AF_INET;
        ret->size = sizeof ret->at.four;
        return true;
    }
    if (inet_pton(AF_INET6, text, &ret->at.six.sin6_addr) == 1) {
        ret->at.six.sin6_family = AF_INET6;
        ret->size = sizeof ret->at.six;
        return true;
    }
    return false;
}

/* A listening socket, or -1 and errno. */
static int listen_at(struct address *address, uint16_t port, int backlog)
{
    int yes = 1;
    if (address->at.any.sa_family == AF_INET)
        address->at.four.sin_port = htons(port);
    else
        address->at.six.sin6_port = htons(port);
    int fd = socket(address->at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        bind(fd, &address->at.any, address->size) == 0 && listen(fd, backlog) == 0)
        return fd;
    int number = errno;
    if (fd >= 0)
        close(fd);
    errno = number;
    return -1;
}

static uint16_t port_of(int fd)
{
    struct address address = {.size = sizeof address.at};
    if (getsockname(fd, &address.at.any, &address.size) != 0)
        return 0;
    return ntohs(address.at.any.sa_family == AF_INET ? address.at.four.sin_port
                                                     : address.at.six.sin6_port);
}

int kiln_listen(const struct kiln_listen *wanted, uint16_t *ret_port, int *ret_fd,
                struct kiln_error *err)
{
    struct address address;
    if (!read_address(wanted->address, &address))
        return kiln_fail(err, KILN_CONFIG,
                         "%s is \"%.64s\"; it must be a numeric address of this machine, "
                         "127.0.0.1, 0.0.0.0 or ::1",
                         wanted->address_setting, wanted->address);
    uint32_t last = wanted->port + wanted->ports - 1;
    last = wanted->port == 0 ? 0 : last < 65535 ? last : 65535;
    for (uint32_t port = wanted->port; port <= last; port++) {
        int fd = listen_at(&address, (uint16_t)port, wanted->backlog);
        if (fd >= 0) {
            *ret_port = port ? (uint16_t)port : port_of(fd);
            *ret_fd = fd;
            return 0;
        }
        if (errno != EADDRINUSE)
            return kiln_fail(err, errno == EACCES ? KILN_DENIED : KILN_UNAVAILABLE,
                             "listen on %s port %u: %s", wanted->address, (unsigned)port,
                             strerror(errno));
    }
    if (wanted->ports == 1)
        return kiln_fail(err, KILN_EXISTS, "port %u of %s is taken; set %s to a free one",
                         wanted->port, wanted->address, wanted->port_setting);
    return kiln_fail(err, KILN_EXISTS,
                     "ports %u to %u of %s are taken; set %s to a free one, or to 0", wanted->port,
                     (unsigned)last, wanted->address, wanted->port_setting);
}

bool kiln_address_is_loopback(const char *address)
{
    struct address read;
    if (!read_address(address, &read))
        return false;
    return read.at.any.sa_family == AF_INET
               ? ntohl(read.at.four.sin_addr.s_addr) >> 24 == 127
               : memcmp(&read.at.six.sin6_addr, &in6addr_loopback, sizeof in6addr_loopback) == 0;
}
