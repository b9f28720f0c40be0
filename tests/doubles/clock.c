/* clock.c - a wall clock that a test can set, preloaded into real programs (LD_PRELOAD).
 *
 * The file named by TEST_CLOCK holds one int64_t: how many seconds the wall clock is ahead of the
 * machine's.  It is mapped, so that running programs follow it at once.  Steady clocks are left
 * alone, as they are when somebody sets a machine's time.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t ahead_s(void)
{
    static const volatile int64_t *shift;
    static int tried;
    if (!tried) {
        tried = 1;
        const char *path = getenv("TEST_CLOCK");
        int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0);
        shift = at == MAP_FAILED ? NULL : at;
        if (fd >= 0)
            close(fd);
    }
    return shift ? *shift : 0;
}

int clock_gettime(clockid_t id, struct timespec *ret)
{
    int rc = (int)syscall(SYS_clock_gettime, id, ret);
    if (rc == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        ret->tv_sec += ahead_s();
    return rc;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *ret = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *ret)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (ret)
        *ret = now.tv_sec;
    return now.tv_sec;
}
