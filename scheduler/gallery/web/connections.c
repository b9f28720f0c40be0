/* connections.c - see connections.h.
 *
 * A connection is removed before the server closes its socket, under the same lock that is held
 * while sockets are shut: so no number of a socket is shut that means another one by then.
 */
#include "scheduler/gallery/web/connections.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "schemas/clock.h"

#define LOOK_MS 500

struct kiln_web_connection {
    struct kiln_web_connection *previous, *next;
    int64_t deadline_ms;
    int fd;
    bool cut;
};

struct kiln_web_connections {
    pthread_mutex_t lock;
    pthread_cond_t ending_changed;
    pthread_t thread;
    struct kiln_web_connection head; /* of a ring */
    uint32_t count;
    uint64_t cut;
    bool ending;
};

static void cut_late_ones(struct kiln_web_connections *all)
{
    int64_t now_ms = kiln_clock_ms();
    for (struct kiln_web_connection *at = all->head.next; at != &all->head; at = at->next) {
        if (at->cut || at->deadline_ms > now_ms)
            continue;
        shutdown(at->fd, SHUT_RDWR);
        at->cut = true;
        all->cut++;
    }
}

static void *watch(void *arg)
{
    struct kiln_web_connections *all = arg;
    pthread_mutex_lock(&all->lock);
    while (!all->ending) {
        struct timespec until = kiln_deadline_in(LOOK_MS);
        pthread_cond_timedwait(&all->ending_changed, &all->lock, &until);
        cut_late_ones(all);
    }
    pthread_mutex_unlock(&all->lock);
    return NULL;
}

int kiln_web_connections_new(struct kiln_web_connections **ret, struct kiln_error *err)
{
    struct kiln_web_connections *all = calloc(1, sizeof *all);
    if (!all)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the connections");
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&all->ending_changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&all->lock, NULL);
    all->head.next = all->head.previous = &all->head;
    if (pthread_create(&all->thread, NULL, watch, all) != 0) {
        free(all);
        return kiln_fail(err, KILN_NO_MEMORY, "no thread for the connections");
    }
    *ret = all;
    return 0;
}

void kiln_web_connections_free(struct kiln_web_connections *all)
{
    if (!all)
        return;
    pthread_mutex_lock(&all->lock);
    all->ending = true;
    pthread_cond_signal(&all->ending_changed);
    pthread_mutex_unlock(&all->lock);
    pthread_join(all->thread, NULL);
    pthread_cond_destroy(&all->ending_changed);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

struct kiln_web_connection *kiln_web_connection_add(struct kiln_web_connections *all, int fd)
{
    struct kiln_web_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->fd = fd;
    connection->deadline_ms = kiln_clock_ms() + KILN_WEB_HEADER_MS;
    pthread_mutex_lock(&all->lock);
    connection->next = all->head.next;
    connection->previous = &all->head;
    connection->next->previous = connection;
    all->head.next = connection;
    all->count++;
    pthread_mutex_unlock(&all->lock);
    return connection;
}

void kiln_web_connection_remove(struct kiln_web_connections *all,
                                struct kiln_web_connection *connection)
{
    if (!connection)
        return;
    pthread_mutex_lock(&all->lock);
    connection->previous->next = connection->next;
    connection->next->previous = connection->previous;
    all->count--;
    pthread_mutex_unlock(&all->lock);
    free(connection);
}

void kiln_web_connection_expect(struct kiln_web_connections *all,
                                struct kiln_web_connection *connection, int64_t limit_ms)
{
    if (!connection)
        return;
    pthread_mutex_lock(&all->lock);
    connection->deadline_ms = kiln_clock_ms() + limit_ms;
    pthread_mutex_unlock(&all->lock);
}

uint32_t kiln_web_connections_count(struct kiln_web_connections *all)
{
    pthread_mutex_lock(&all->lock);
    uint32_t count = all->count;
    pthread_mutex_unlock(&all->lock);
    return count;
}

uint64_t kiln_web_connections_cut(struct kiln_web_connections *all)
{
    pthread_mutex_lock(&all->lock);
    uint64_t cut = all->cut;
    pthread_mutex_unlock(&all->lock);
    return cut;
}
