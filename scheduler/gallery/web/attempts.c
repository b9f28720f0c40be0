/* attempts.c - see attempts.h.
 *
 * A debt is the time at which it is paid: every wrong token moves it on by the price of one, and it
 * is too high when it is more than so many prices ahead of now (the generic cell rate algorithm of
 * ATM: one number an address, and no timer).  The table has a fixed size; in a full row the place
 * with the lowest debt is given up.
 */
#include "scheduler/gallery/web/attempts.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/digest.h"

#define ROW 8U /* places of one row; an address has one row */
#define NETWORK_BYTES 8

struct place {
    uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d; IPv6 without its host */
    int64_t paid_ms;     /* 0: free */
    bool known;          /* it has shown a right token */
};

struct kiln_web_attempts {
    pthread_mutex_t lock;
    int64_t all_paid_ms;
    struct place places[KILN_WEB_ATTEMPT_PLACES];
};

struct kiln_web_attempts *kiln_web_attempts_new(void)
{
    struct kiln_web_attempts *attempts = calloc(1, sizeof *attempts);
    if (attempts)
        pthread_mutex_init(&attempts->lock, NULL);
    return attempts;
}

void kiln_web_attempts_free(struct kiln_web_attempts *attempts)
{
    if (!attempts)
        return;
    pthread_mutex_destroy(&attempts->lock);
    free(attempts);
}

/* What cannot be read as an address shares the place of ::. */
static void read_address(const char *text, uint8_t ret[16])
{
    memset(ret, 0, 16);
    if (inet_pton(AF_INET, text, ret + 12) == 1) {
        ret[10] = ret[11] = 0xff;
        return;
    }
    uint8_t all[16];
    if (inet_pton(AF_INET6, text, all) == 1)
        memcpy(ret, all, NETWORK_BYTES);
}

/* The row of an address depends on its digest, so that nobody chooses neighbours. */
static struct place *row_of(struct kiln_web_attempts *attempts, const uint8_t address[16])
{
    uint8_t digest[KILN_SHA256_SIZE];
    kiln_sha256(address, 16, digest);
    unsigned row = (digest[0] | (unsigned)digest[1] << 8) % (KILN_WEB_ATTEMPT_PLACES / ROW);
    return &attempts->places[(size_t)row * ROW];
}

static struct place *find(struct place *row, const uint8_t address[16])
{
    for (unsigned i = 0; i < ROW; i++)
        if (row[i].paid_ms && memcmp(row[i].address, address, 16) == 0)
            return &row[i];
    return NULL;
}

/* Its place, or one that it takes. */
static struct place *claim(struct place *row, const uint8_t address[16])
{
    struct place *place = find(row, address);
    if (place)
        return place;
    place = row;
    for (unsigned i = 1; i < ROW; i++)
        if (row[i].paid_ms < place->paid_ms)
            place = &row[i];
    *place = (struct place){.paid_ms = 1};
    memcpy(place->address, address, 16);
    return place;
}

static int64_t debt(int64_t paid_ms, int64_t now_ms)
{
    return paid_ms > now_ms ? paid_ms - now_ms : 0;
}

/* How long until one more wrong token is allowed; 0: now. */
static int64_t wait_ms(int64_t paid_ms, int64_t now_ms, int64_t price_ms, int64_t most)
{
    int64_t over = debt(paid_ms, now_ms) - (most - 1) * price_ms;
    return over > 0 ? over : 0;
}

bool kiln_web_attempt_allowed(struct kiln_web_attempts *attempts, const char *address,
                              int64_t now_ms, unsigned *ret_wait_s)
{
    uint8_t bytes[16];
    read_address(address, bytes);
    pthread_mutex_lock(&attempts->lock);
    const struct place *place = find(row_of(attempts, bytes), bytes);
    int64_t wait =
        place ? wait_ms(place->paid_ms, now_ms, KILN_WEB_ATTEMPT_MS, KILN_WEB_ATTEMPTS) : 0;
    if (!place || !place->known) {
        int64_t all =
            wait_ms(attempts->all_paid_ms, now_ms, KILN_WEB_ATTEMPT_ALL_MS, KILN_WEB_ATTEMPTS_ALL);
        wait = all > wait ? all : wait;
    }
    pthread_mutex_unlock(&attempts->lock);
    *ret_wait_s = (unsigned)((wait + 999) / 1000);
    return wait == 0;
}

void kiln_web_attempt_note(struct kiln_web_attempts *attempts, const char *address, bool right,
                           int64_t now_ms)
{
    uint8_t bytes[16];
    read_address(address, bytes);
    pthread_mutex_lock(&attempts->lock);
    struct place *place = claim(row_of(attempts, bytes), bytes);
    int64_t from = debt(place->paid_ms, now_ms) + now_ms;
    if (right) {
        place->known = true; /* and its debt stays: a reader may guess the producer's token */
        place->paid_ms = from > 0 ? from : 1;
    } else {
        place->paid_ms = from + KILN_WEB_ATTEMPT_MS;
        attempts->all_paid_ms =
            debt(attempts->all_paid_ms, now_ms) + now_ms + KILN_WEB_ATTEMPT_ALL_MS;
    }
    pthread_mutex_unlock(&attempts->lock);
}
