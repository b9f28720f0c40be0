/* health.c - a handful of atomics behind health.h. */
#include "storage/daemon/health.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "schemas/clock.h"
#include "schemas/text/utf8.h"

#define STUCK_MS 3000 /* shorter than this is a hiccup */

static struct {
    _Atomic int64_t heard_ms, limit_ms, due_ms;
} peers[KILN_PEER_COUNT];
static _Atomic(const char *) starting = NULL, refusing = NULL;
static _Atomic int asked = KILN_PEER_LEDGER;

static struct {
    pthread_mutex_t mutex;
    bool is;
    int64_t since_ms;
    int code;
    char what[32], why[160];
} stuck = {.mutex = PTHREAD_MUTEX_INITIALIZER};

const char *kiln_peer_name(enum kiln_peer peer)
{
    static const char *const names[KILN_PEER_COUNT] = {"ledger", "bus", "store"};
    return names[peer];
}

void kiln_health_expect(enum kiln_peer peer, double limit_s)
{
    int64_t before = atomic_load(&peers[peer].limit_ms);
    if (before == 0)
        atomic_store(&peers[peer].heard_ms, kiln_clock_ms());
    atomic_store(&peers[peer].limit_ms, (int64_t)(limit_s * 1e3));
}

void kiln_health_asks(enum kiln_peer peer)
{
    atomic_store(&asked, (int)peer);
}

bool kiln_health_due(enum kiln_peer peer)
{
    int64_t now_ms = kiln_clock_ms(), pause_ms = atomic_load(&peers[peer].limit_ms) / 3;
    int64_t due_ms = atomic_load(&peers[peer].due_ms);
    return pause_ms > 0 && now_ms >= due_ms &&
           now_ms - atomic_load(&peers[peer].heard_ms) >= pause_ms &&
           atomic_compare_exchange_strong(&peers[peer].due_ms, &due_ms, now_ms + pause_ms);
}

void kiln_health_heard(enum kiln_peer peer)
{
    atomic_store(&peers[peer].heard_ms, kiln_clock_ms());
}

void kiln_health_starting(const char *text)
{
    atomic_store(&starting, text);
}

void kiln_health_refusing(const char *text)
{
    atomic_store(&refusing, text);
}

double kiln_health_age_s(enum kiln_peer peer)
{
    if (atomic_load(&peers[peer].limit_ms) == 0)
        return -1;
    int64_t age_ms = kiln_clock_ms() - atomic_load(&peers[peer].heard_ms);
    return age_ms > 0 ? (double)age_ms / 1e3 : 0;
}

void kiln_health_stuck(const char *what, const struct kiln_error *error)
{
    pthread_mutex_lock(&stuck.mutex);
    if (error && !stuck.is)
        stuck.since_ms = kiln_clock_ms();
    stuck.is = error != NULL;
    if (error) {
        stuck.code = error->code;
        kiln_utf8_copy(stuck.what, sizeof stuck.what, what);
        kiln_utf8_copy(stuck.why, sizeof stuck.why, error->text);
    }
    pthread_mutex_unlock(&stuck.mutex);
}

double kiln_health_stuck_s(int *ret_code)
{
    pthread_mutex_lock(&stuck.mutex);
    double age_s = stuck.is ? (double)(kiln_clock_ms() - stuck.since_ms) / 1e3 : 0;
    *ret_code = stuck.is ? stuck.code : KILN_OK;
    pthread_mutex_unlock(&stuck.mutex);
    return age_s;
}

/* Fills text and returns true once it has lasted. */
static bool is_stuck(char *text, size_t size)
{
    int code;
    double age_s = kiln_health_stuck_s(&code);
    if (age_s * 1e3 < STUCK_MS)
        return false;
    char whole[256];
    pthread_mutex_lock(&stuck.mutex);
    snprintf(whole, sizeof whole, "the %s has waited for %.1f s: %s", stuck.what, age_s, stuck.why);
    pthread_mutex_unlock(&stuck.mutex);
    kiln_utf8_copy(text, size, whole);
    return true;
}

bool kiln_health_check(char *text, size_t size)
{
    const char *why = atomic_load(&starting);
    if (why) {
        snprintf(text, size, "not ready: %s", why);
        return false;
    }
    for (int i = 0, first = atomic_load(&asked); i < KILN_PEER_COUNT; i++) {
        int peer = (first + i) % KILN_PEER_COUNT;
        double age_s = kiln_health_age_s((enum kiln_peer)peer);
        double limit_s = (double)atomic_load(&peers[peer].limit_ms) / 1e3;
        if (age_s <= limit_s)
            continue;
        snprintf(text, size, "the %s last answered %.1f s ago; %.1f s are allowed",
                 kiln_peer_name((enum kiln_peer)peer), age_s, limit_s);
        return false;
    }
    if (is_stuck(text, size))
        return false;
    snprintf(text, size, "ok");
    return true;
}

bool kiln_health_ready(char *text, size_t size)
{
    const char *why = atomic_load(&refusing);
    if (!kiln_health_check(text, size))
        return false;
    if (why)
        snprintf(text, size, "not ready: %s", why);
    return !why;
}
