/* client.c - see client.h. */
#include "tests/chaos/client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"
#include "schemas/wire/wire.h"
#include "storage/bus/bus.h"
#include "storage/ledger/ledger.h"
#include "tests/support/stack_postgres.h"
#include "tests/support/worker_process.h"

#define RECEIPT_MS 2500
#define BETWEEN_MS 700 /* from one batch to the next */
#define CANCELLED_BATCH 3

struct chaos_client {
    struct kiln_config *config;
    bool failing;
    pthread_t thread;
    atomic_bool stop, finished;
    atomic_int resent;
};

/* One in eight is refused by the engine, for good; one in eight makes a latent alone. */
static const char *line_of(const struct chaos_client *client, int i)
{
    int sort = i % 8;
    switch (sort == 4 && !client->failing ? 0 : sort) {
    case 1:
        return "{\"prompt\":\"a tree @step_ms=120\",\"width\":128,\"height\":64,\"steps\":2,"
               "\"priority\":3}";
    case 3:
        return "{\"prompt\":\"a wide car @step_ms=100\",\"width\":320,\"height\":256,\"steps\":2}";
    case 4:
        return "{\"prompt\":\"never @fail=bad_input\",\"width\":64,\"height\":64,\"steps\":2}";
    case 6:
        return "{\"prompt\":\"a latent @step_ms=60\",\"width\":64,\"height\":64,\"steps\":3,"
               "\"kind\":\"latent-cache\"}";
    default:
        return "{\"prompt\":\"a car @step_ms=100\",\"width\":64,\"height\":64,\"steps\":3}";
    }
}

static int append(struct kiln_bus *bus, const char *const *fields, size_t count,
                  struct kiln_error *err)
{
    char key[KILN_NAME_MAX + 64];
    kiln_wire_key(key, sizeof key, KILN_TEST_POOL, "intake", NULL);
    return kiln_bus_append_async(bus, key, fields, NULL, count, err);
}

static int send_lines(const struct chaos_client *client, struct kiln_bus *bus, const char *batch,
                      const char *token, struct kiln_error *err)
{
    int rc = 0;
    for (int i = 0; i < CHAOS_LINES && rc == 0; i++) {
        char index[24], key[32];
        snprintf(index, sizeof index, "%d", i);
        snprintf(key, sizeof key, "k%d", i);
        const char *const fields[] = {
            "batch", batch, "job", line_of(client, i), "index", index, "key", key, "token", token};
        rc = append(bus, fields, 5, err);
    }
    char announced[24];
    snprintf(announced, sizeof announced, "%d", CHAOS_LINES);
    const char *const fields[] = {"batch", batch, "token", token, "end", announced};
    if (rc == 0)
        rc = append(bus, fields, 3, err);
    int flushed = kiln_bus_flush(bus, err);
    return rc ? rc : flushed;
}

/* Whether the receipt came and counts every line. */
static bool received(struct kiln_bus *bus, const char *token)
{
    char key[KILN_NAME_MAX + KILN_WIRE_ID_MAX + 64], *text = NULL;
    struct kiln_receipt receipt = {0};
    struct kiln_error err;
    kiln_wire_key(key, sizeof key, KILN_TEST_POOL, "receipt", token);
    bool whole = kiln_bus_pop(bus, key, RECEIPT_MS, &text, &err) == 0 && text &&
                 kiln_receipt_decode(text, strlen(text), &receipt, &err) == 0 &&
                 receipt.accepted + receipt.duplicate == CHAOS_LINES;
    free(text);
    return whole;
}

static void send_batch(struct chaos_client *client, struct kiln_bus *bus, int number)
{
    char batch[24], token[40];
    struct kiln_error err;
    snprintf(batch, sizeof batch, "b%d", number);
    for (int try = 0; !atomic_load(&client->stop); try++) {
        snprintf(token, sizeof token, "t%d.%d", number, try);
        if (try > 0)
            atomic_fetch_add(&client->resent, 1);
        if (send_lines(client, bus, batch, token, &err) == 0 && received(bus, token))
            return;
        kiln_test_sleep_ms(100);
    }
}

/* In the ledger; no order tells the scheduler, which has to find out. */
static void cancel_batch(struct chaos_client *client, struct kiln_ledger *ledger)
{
    char batch[24];
    uint64_t moved;
    struct kiln_error err;
    snprintf(batch, sizeof batch, "b%d", CANCELLED_BATCH);
    while (!atomic_load(&client->stop) &&
           kiln_ledger_cancel(ledger, KILN_TEST_POOL, 0, batch, &moved, &err) != 0)
        kiln_test_sleep_ms(100);
}

static void *run(void *arg)
{
    struct chaos_client *client = arg;
    struct kiln_bus *bus = NULL;
    struct kiln_ledger *ledger = NULL;
    struct kiln_error err;
    if (kiln_bus_open(client->config, &bus, &err) ||
        kiln_ledger_open(client->config, "chaos client", &ledger, &err))
        kiln_test_die("the client: %s", err.text);
    for (int i = 0; i < CHAOS_BATCHES; i++) {
        send_batch(client, bus, i);
        kiln_test_sleep_ms(BETWEEN_MS);
        if (i == CANCELLED_BATCH) /* some of it is done, some under way by now */
            cancel_batch(client, ledger);
    }
    kiln_bus_close(bus);
    kiln_ledger_close(ledger);
    atomic_store(&client->finished, true);
    return NULL;
}

static void set(struct kiln_config *config, const char *name, const char *value)
{
    struct kiln_error err;
    if (kiln_config_set(config, name, value, "chaos", &err))
        kiln_test_die("%s", err.text);
}

struct chaos_client *chaos_client_start(const struct kiln_test_stack *stack, bool failing)
{
    struct chaos_client *client = calloc(1, sizeof *client);
    if (!client || !(client->config = kiln_config_new()))
        kiln_test_die("no memory for the client");
    client->failing = failing;
    set(client->config, "redis", stack->redis_url);
    set(client->config, "postgres", stack->conninfo);
    set(client->config, "connect_timeout_s", "1");
    set(client->config, "statement_timeout_s", "3");
    if (pthread_create(&client->thread, NULL, run, client) != 0)
        kiln_test_die("no thread for the client");
    return client;
}

bool chaos_client_finish(struct chaos_client *client, double limit_s)
{
    int64_t until = kiln_clock_ms() + (int64_t)(limit_s * 1000);
    while (!atomic_load(&client->finished) && kiln_clock_ms() < until)
        kiln_test_sleep_ms(20);
    return atomic_load(&client->finished);
}

int chaos_client_resent(const struct chaos_client *client)
{
    return atomic_load(&client->resent);
}

void chaos_client_free(struct chaos_client *client)
{
    if (!client)
        return;
    atomic_store(&client->stop, true);
    pthread_join(client->thread, NULL);
    kiln_config_free(client->config);
    free(client);
}
