/* client.c - who sends jobs, and who cancels and retries some of them.
 *
 * The first client sends what `kiln enqueue` sends: an entry a picture, with index and key.  The
 * others send what any program may: lines that stand for several pictures and name neither.  A
 * client that gets no receipt, or one that lacks something, sends everything again.  The last one
 * asks for no receipt and goes when Redis has its lines: where Redis loses nothing, that is enough.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/wire/wire.h"
#include "storage/bus/bus.h"
#include "tests/sim/fleet.h"

#define COPIES 3 /* pictures of a line that names no index */
#define RECEIPT_MS 30000

struct sim_client sim_clients[SIM_CLIENT_COUNT];

/* Sizes and sets differ, so that batches form and switches cost. */
static void make_line(char *out, size_t size, const struct sim_client *client, uint32_t i)
{
    const struct sim_settings *settings = sim_settings();
    const char *words = settings->poison && i == 3    ? " @crash"
                        : settings->failing && i == 5 ? " @fail"
                                                      : "";
    const char *set = (i + client->which) % 3 == 0 ? "[{\"name\":\"ink\",\"scale\":0.5}]" : "[]";
    snprintf(out, size,
             "{\"prompt\":\"picture %u%s\",\"width\":%u,\"height\":64,\"steps\":%u,\"loras\":%s,"
             "\"custom_id\":\"c%u\",\"priority\":%d%s}",
             i, words, 64 + 16 * (i % 2), 2 + i % 3, i % 4 == 1 ? "\"none\"" : set, i,
             (int)(i % 5) - 2, client->numbered ? "" : ",\"count\":3");
}

static int send_entry(struct kiln_bus *bus, const struct sim_client *client, const char *token,
                      uint32_t i, bool last, struct kiln_error *err)
{
    char stream[96], line[512], number[16], end[16], key[16];
    const char *fields[12] = {"batch", client->batch, "token", token};
    size_t count = token[0] ? 2 : 1;
    kiln_wire_key(stream, sizeof stream, SIM_POOL, "intake", NULL);
    make_line(line, sizeof line, client, i);
    if (!last) {
        fields[2 * count] = "job";
        fields[2 * count++ + 1] = line;
    }
    snprintf(number, sizeof number, "%u", i);
    snprintf(key, sizeof key, "k%u", i);
    if (client->numbered && !last) {
        fields[2 * count] = "index";
        fields[2 * count++ + 1] = number;
        fields[2 * count] = "key";
        fields[2 * count++ + 1] = key;
    }
    snprintf(end, sizeof end, "%u", i);
    if (last) {
        fields[2 * count] = "end";
        fields[2 * count++ + 1] = end;
    }
    size_t lengths[12];
    for (size_t f = 0; f < 2 * count; f++)
        lengths[f] = strlen(fields[f]);
    return kiln_bus_append(bus, stream, 0, fields, lengths, count, err);
}

/* Whether the receipt says that everything is in the ledger. */
static bool told(struct kiln_bus *bus, const struct sim_client *client, const char *token)
{
    char list[160], *text = NULL;
    struct kiln_receipt receipt;
    struct kiln_error err;
    kiln_wire_key(list, sizeof list, SIM_POOL, "receipt", token);
    if (kiln_bus_pop(bus, list, RECEIPT_MS, &text, &err) || !text)
        return false;
    int rc = kiln_receipt_decode(text, strlen(text), &receipt, &err);
    free(text);
    if (rc)
        sim_broken("a receipt that cannot be read: %s", err.text);
    if (receipt.refused > 0)
        sim_broken("a good line was refused: %s", receipt.first_refusal);
    return receipt.accepted + receipt.duplicate >= client->sent;
}

/* One call: all entries and the end, then the receipt.  An entry that met an error is sent again,
 * since nobody knows whether it got through. */
static bool call(struct kiln_bus *bus, struct sim_client *client)
{
    char token[48];
    uint32_t entries = sim_settings()->jobs[client->which];
    struct kiln_error err;
    snprintf(token, sizeof token, "t%u-%u", client->which, ++client->calls);
    for (uint32_t i = 0; i <= entries; i++)
        if (send_entry(bus, client, token, i, i == entries, &err))
            return false;
    return told(bus, client, token);
}

/* Each entry until Redis says that it has it. */
static void send_and_go(struct kiln_bus *bus, const struct sim_client *client)
{
    struct kiln_error err;
    for (uint32_t i = 0, entries = sim_settings()->jobs[client->which]; i < entries; i++)
        while (send_entry(bus, client, "", i, false, &err))
            sim_sleep(sim_between(10, 500) * SIM_MS);
}

int sim_client_program(void *arg)
{
    struct sim_client *client = arg;
    struct kiln_config *config = sim_config();
    struct kiln_bus *bus = NULL;
    struct kiln_error err;
    client->numbered = client->which == 0;
    client->sent = sim_settings()->jobs[client->which] * (client->numbered ? 1 : COPIES);
    snprintf(client->batch, sizeof client->batch, "batch%u", client->which);
    sim_sleep(sim_between(0, (sim_settings()->quick ? 2 : 20) * SIM_S));
    if (kiln_bus_open(config, &bus, &err))
        return 1;
    bool trusting = client->which == SIM_CLIENT_COUNT - 1 && sim_settings()->redis_keeps;
    if (trusting)
        send_and_go(bus, client);
    while (!trusting && !call(bus, client))
        sim_sleep(sim_between(100, 3000) * SIM_MS);
    client->ended = true;
    sim_log("%s is in the %s", client->batch, trusting ? "stream" : "ledger");
    kiln_bus_close(bus);
    kiln_config_free(config);
    return 0;
}

/* --- the operator ---------------------------------------------------------------------------- */
static void order(struct kiln_bus *bus, const struct kiln_control *what)
{
    char key[96], *text = kiln_control_encode(what);
    struct kiln_error err;
    kiln_wire_key(key, sizeof key, SIM_POOL, "control", NULL);
    const char *fields[2] = {"order", text};
    const size_t lengths[2] = {5, strlen(text)};
    if (kiln_bus_append(bus, key, 10000, fields, lengths, 1, &err))
        sim_log("the control message did not get through");
    free(text);
}

/* As `kiln cancel` and `kiln retry`: the ledger first, then the word of it. */
static void cancel_something(struct kiln_ledger *ledger, struct kiln_bus *bus)
{
    uint64_t id = 1 + sim_below(40), moved = 0;
    struct kiln_error err;
    bool recorded = sim_chance(700), whole = sim_chance(200);
    const char *batch = whole ? sim_clients[sim_below(SIM_CLIENT_COUNT)].batch : NULL;
    if (whole && batch[0] == '\0')
        return;
    if (recorded && kiln_ledger_cancel(ledger, SIM_POOL, whole ? 0 : id, batch, &moved, &err))
        return;
    struct kiln_control what = {.kind = whole ? KILN_CONTROL_CANCEL_BATCH : KILN_CONTROL_CANCEL_JOB,
                                .job = whole ? 0 : id,
                                .recorded = recorded};
    snprintf(what.id, sizeof what.id, "%s", whole ? batch : "");
    order(bus, &what);
}

static void retry_something(struct kiln_ledger *ledger, struct kiln_bus *bus)
{
    uint64_t moved = 0;
    struct kiln_error err;
    const char *batch = sim_clients[sim_below(SIM_CLIENT_COUNT)].batch;
    if (batch[0] && kiln_ledger_retry(ledger, SIM_POOL, 0, batch, &moved, &err) == 0)
        order(bus, &(struct kiln_control){.kind = KILN_CONTROL_WAKE});
}

int sim_operator_program(void *arg)
{
    struct kiln_config *config = sim_config();
    struct kiln_ledger *ledger = NULL;
    struct kiln_bus *bus = NULL;
    struct kiln_error err;
    (void)arg;
    if (kiln_ledger_open(config, "operator", &ledger, &err) || kiln_bus_open(config, &bus, &err))
        return 1;
    for (uint32_t i = 0, count = 2 + sim_below(8); i < count; i++) {
        sim_sleep(sim_between(2, 15) * SIM_S);
        if (sim_chance(600))
            cancel_something(ledger, bus);
        else
            retry_something(ledger, bus);
    }
    kiln_ledger_close(ledger);
    kiln_bus_close(bus);
    kiln_config_free(config);
    return 0;
}
