/* network.c - see network.h.
 *
 * The servers' addresses lie on the loopback of the test's namespace, so that a server can be bound
 * to its address while a cable is out; a room has a route to each through the cable that is meant
 * for it.  ip does the building, a flag of the interface (ioctl) the pulling: it must not take
 * long.
 */
#include "tests/support/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/support/process.h"
#include "tests/support/stack_postgres.h"

#define ROOMS_MAX 64 /* a room's cables have four networks of four addresses: 10.231.1.0 and on */
#define COMMANDS_MAX 2048

struct test_room {
    int network; /* a descriptor keeps the namespace alive */
    int number;
};

static int own = -1; /* the test's namespace, once it has one */

static int network_of_this_thread(void)
{
    return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

static void move_to(int network)
{
    if (setns(network, CLONE_NEWNET) != 0)
        kiln_test_die("setns: %s", strerror(errno));
}

/* Runs commands of ip, one a line, where this thread is. */
static bool run_ip(const char *fmt, ...) KILN_PRINTF(1, 2);
static bool run_ip(const char *fmt, ...)
{
    char commands[COMMANDS_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(commands, sizeof commands, fmt, args);
    va_end(args);
    FILE *ip = popen("PATH=$PATH:/usr/sbin:/sbin ip -batch - 2>&1", "we");
    if (!ip)
        return false;
    fputs(commands, ip);
    return pclose(ip) == 0;
}

/* --- the test's own --------------------------------------------------------------------------- */

const char *test_network_address(enum test_cable cable)
{
    static const char *const addresses[TEST_CABLES] = {"10.231.0.1", "10.231.0.2", "10.231.0.3"};
    return addresses[cable];
}

uint32_t test_network_listen(void)
{
    return own >= 0 ? INADDR_ANY : INADDR_LOOPBACK;
}

bool test_network_own(char *why, size_t size)
{
    int before = network_of_this_thread();
    if (own >= 0 || before < 0 || unshare(CLONE_NEWNET) != 0) {
        snprintf(why, size, "no network namespace: %s", strerror(errno));
        if (before >= 0)
            close(before);
        return own >= 0;
    }
    bool able = run_ip("link set lo up\n"
                       "addr add 10.231.0.1/32 dev lo\n"
                       "addr add 10.231.0.2/32 dev lo\n"
                       "addr add 10.231.0.3/32 dev lo\n"
                       "link add try0 type veth peer name try1\n"
                       "link del try0\n");
    if (able) {
        own = network_of_this_thread();
    } else {
        snprintf(why, size, "ip (iproute2) cannot lay a cable (veth) here");
        move_to(before);
    }
    close(before);
    return able;
}

/* --- rooms ------------------------------------------------------------------------------------ */

static void host_end(const struct test_room *room, enum test_cable cable, char out[IFNAMSIZ])
{
    snprintf(out, IFNAMSIZ, "room%dc%d", room->number, (int)cable);
}

/* The cable's two addresses, at the test's end and in the room. */
static struct in_addr end_address(const struct test_room *room, enum test_cable cable, int end)
{
    uint32_t first = (10u << 24 | 231u << 16 | 1u << 8) + ((uint32_t)room->number * 4 + cable) * 4;
    return (struct in_addr){.s_addr = htonl(first + 1 + (uint32_t)end)};
}

/* What the end where this thread is believes of the other one, for good. */
static void point(const char *device, struct in_addr other, const unsigned char hardware[6])
{
    struct arpreq request = {.arp_flags = ATF_PERM | ATF_COM};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = other};
    memcpy(&request.arp_pa, &address, sizeof address);
    request.arp_ha.sa_family = ARPHRD_ETHER;
    memcpy(request.arp_ha.sa_data, hardware, 6);
    snprintf(request.arp_dev, sizeof request.arp_dev, "%s", device);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCSARP, &request) != 0)
        kiln_test_die("the cable %s cannot be pulled: %s", device, strerror(errno));
    close(fd);
}

void test_room_cut(struct test_room *room, enum test_cable cable, bool apart)
{
    char name[IFNAMSIZ], inside[IFNAMSIZ];
    unsigned char hardware[2][6];
    host_end(room, cable, name);
    snprintf(inside, sizeof inside, "c%d", (int)cable);
    for (int end = 0; end < 2; end++) {
        const unsigned char address[6] = {2,
                                          0,
                                          0,
                                          (unsigned char)room->number,
                                          (unsigned char)cable,
                                          (unsigned char)(apart ? 0xff : end)};
        memcpy(hardware[end], address, 6);
    }
    point(name, end_address(room, cable, 1), hardware[1]);
    test_room_enter(room);
    point(inside, end_address(room, cable, 0), hardware[0]);
    test_room_leave();
}

static void lay(struct test_room *room, enum test_cable cable)
{
    char name[IFNAMSIZ], end[2][INET_ADDRSTRLEN];
    int c = (int)cable;
    host_end(room, cable, name);
    for (int i = 0; i < 2; i++) {
        struct in_addr address = end_address(room, cable, i);
        inet_ntop(AF_INET, &address, end[i], sizeof end[i]);
    }
    test_room_enter(room);
    bool inside = run_ip("link add c%d address 02:00:00:%02x:%02x:01 type veth peer name %s "
                         "address 02:00:00:%02x:%02x:00 netns /proc/%d/fd/%d\n"
                         "link set lo up\naddr add %s/30 dev c%d\nlink set c%d up\n"
                         "route add %s/32 via %s\n",
                         c, room->number, c, name, room->number, c, (int)getpid(), own, end[1], c,
                         c, test_network_address(cable), end[0]);
    test_room_leave();
    if (!inside || !run_ip("addr add %s/30 dev %s\nlink set %s up\n", end[0], name, name))
        kiln_test_die("ip cannot lay the cable %s", name);
    test_room_cut(room, cable, false);
}

struct test_room *test_room_new(int number)
{
    struct test_room *room = calloc(1, sizeof *room);
    if (!room || own < 0 || number < 0 || number >= ROOMS_MAX || unshare(CLONE_NEWNET) != 0)
        kiln_test_die("no room %d: %s", number, strerror(errno));
    room->number = number;
    room->network = network_of_this_thread();
    test_room_leave();
    for (int cable = 0; cable < TEST_CABLES; cable++)
        lay(room, (enum test_cable)cable);
    return room;
}

/* A namespace goes, with its ends of the cables, only when the kernel comes to it. */
void test_room_free(struct test_room *room)
{
    char name[IFNAMSIZ];
    for (int cable = 0; room && cable < TEST_CABLES; cable++) {
        host_end(room, (enum test_cable)cable, name);
        if (!run_ip("link del %s\n", name))
            kiln_test_die("ip cannot remove the cable %s", name);
    }
    if (room)
        close(room->network);
    free(room);
}

void test_room_enter(const struct test_room *room)
{
    move_to(room->network);
}

void test_room_leave(void)
{
    move_to(own);
}

void test_room_reset(const struct test_room *room)
{
    test_room_enter(room);
    (void)!system("PATH=$PATH:/usr/sbin:/sbin ss -K dst 10.231.0.0/24 >/dev/null 2>&1");
    test_room_leave();
}
