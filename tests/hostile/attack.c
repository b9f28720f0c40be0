/* attack.c - see attack.h.
 *
 * An attack is a row of a table: who may do it, how often, and how it is made.  Nobody empties or
 * reconfigures the server, takes another's entries away unseen, or does what the page allows.
 */
#include "tests/hostile/attack.h"

#include <stdlib.h>
#include <string.h>

#include "tests/hostile/shapes.h"
#include "tests/hostile/values.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

struct attack {
    struct test_random *random;
    enum hostile_rights rights;
    unsigned number;
    const char *victim;
    struct hostile_list *list;
};

static uint32_t below(const struct attack *attack, uint32_t bound)
{
    return test_random_below(attack->random, bound);
}

static struct hostile_command *say(const struct attack *attack, const char *const *words)
{
    struct hostile_command *command = hostile_command_of(attack->rights, words);
    hostile_list_add(attack->list, command);
    return command;
}
#define SAY(...) say(attack, (const char *const[]){__VA_ARGS__, NULL})

/* --- intake ---------------------------------------------------------------------------------- */
static void an_entry(const struct attack *attack)
{
    char batch[40], token[40];
    struct hostile_entry entry;
    snprintf(batch, sizeof batch, "h-%u", attack->number);
    snprintf(token, sizeof token, "ht-%u", attack->number % 8);
    hostile_intake(attack->random, batch, below(attack, 10) ? token : attack->victim, &entry);
    struct hostile_command *command = SAY("XADD", HOSTILE_KEY("intake"), "*");
    for (size_t i = 0; i < 2 * entry.count; i++)
        hostile_command_add(command, entry.texts[i]);
}

static void a_receipt_in_the_way(const struct attack *attack)
{
    char key[80], token[40], batch[40];
    snprintf(token, sizeof token, "hr-%u", attack->number);
    snprintf(batch, sizeof batch, "h-%u", attack->number);
    snprintf(key, sizeof key, HOSTILE_KEY("receipt:%s"), token);
    SAY("XADD", key, "*", "a", "b");
    SAY("XADD", HOSTILE_KEY("intake"), "*", "batch", batch, "job", "{\"prompt\":\"a cat\"}",
        "token", token, "end", "1");
}

/* An end that counts nothing, too little or too much, and again. */
static void ends(const struct attack *attack)
{
    char batch[40], token[40];
    snprintf(batch, sizeof batch, "h-%u", attack->number);
    snprintf(token, sizeof token, "he-%u", attack->number);
    SAY("XADD", HOSTILE_KEY("intake"), "*", "batch", batch, "token", token, "end",
        hostile_number(attack->random));
    SAY("XADD", HOSTILE_KEY("intake"), "*", "batch", batch, "token", token, "job",
        "{\"prompt\":\"a cat\",\"width\":64,\"height\":64,\"steps\":1}", "end",
        hostile_number(attack->random));
    SAY("XADD", HOSTILE_KEY("intake"), "*", "batch", "h-shared", "token", token, "end", "1");
}

static void the_last_intake_id(const struct attack *attack)
{
    SAY("XADD", HOSTILE_KEY("intake"), HOSTILE_LAST_ID, "batch", "h-last", "job",
        "{\"prompt\":\"a cat\",\"steps\":100}");
}

/* --- control, events, workers ------------------------------------------------------------------
 */
static const char *worker_stream(const struct attack *attack)
{
    static const char *const streams[] = {HOSTILE_KEY("worker:w0"), HOSTILE_KEY("worker:w1"),
                                          HOSTILE_KEY("worker:w-none")};
    return streams[below(attack, COUNT(streams))];
}

/* The field is the right one, or any; now and then there are several messages, or none. */
static void a_message(const struct attack *attack, const char *key, const char *field,
                      enum hostile_kind kind)
{
    struct hostile_command *command = SAY("XADD", key, "*");
    uint32_t count = below(attack, 20) == 0 ? 2 + below(attack, 80) : 1;
    for (uint32_t i = 0; i < count; i++) {
        if (below(attack, 15) == 0)
            hostile_command_add(command, hostile_word(attack->random));
        else
            hostile_command_add(command, hostile_text(field));
        hostile_command_add(command, hostile_message(attack->random, kind));
    }
}

static void an_event(const struct attack *attack)
{
    a_message(attack, HOSTILE_KEY("events"), "event", HOSTILE_EVENT);
}

static void an_order(const struct attack *attack)
{
    a_message(attack, HOSTILE_KEY("control"), "order", HOSTILE_ORDER);
}

static void an_order_to_a_worker(const struct attack *attack)
{
    a_message(attack, worker_stream(attack), "order", HOSTILE_ORDER);
}

static void an_assignment(const struct attack *attack)
{
    a_message(attack, worker_stream(attack), "assign", HOSTILE_ASSIGNMENT);
}

static void an_answer_in_the_way(const struct attack *attack)
{
    char key[80], order[120];
    snprintf(key, sizeof key, HOSTILE_KEY("answer:hq-%u"), attack->number);
    snprintf(order, sizeof order,
             "{\"v\":1,\"kind\":\"ask\",\"job\":%u,\"id\":\"hq-%u\",\"recorded\":false}",
             below(attack, 3), attack->number);
    SAY("XADD", key, "*", "a", "b");
    SAY("XADD", HOSTILE_KEY("control"), "*", "order", order);
}

static void a_beat_that_is_a_stream(const struct attack *attack)
{
    char key[80];
    snprintf(key, sizeof key, HOSTILE_KEY("beat:h-%u"), attack->number % 20);
    SAY("XADD", key, "*", "beat", "x");
}

static const char *a_stream(const struct attack *attack)
{
    static const char *const streams[] = {HOSTILE_KEY("control"),   HOSTILE_KEY("events"),
                                          HOSTILE_KEY("worker:w0"), HOSTILE_KEY("refused"),
                                          HOSTILE_KEY("blocked"),   HOSTILE_KEY("worker:w1")};
    return streams[below(attack, COUNT(streams))];
}

static void a_last_id(const struct attack *attack)
{
    SAY("XADD", a_stream(attack), HOSTILE_LAST_ID, "a", "b");
}

static void a_key_of_nobody(const struct attack *attack)
{
    static const char *const keys[] = {HOSTILE_KEY("nonsense"), HOSTILE_KEY("beat:"),
                                       HOSTILE_KEY("worker:"), HOSTILE_KEY("beat:a b"),
                                       HOSTILE_KEY("receipt:")};
    struct hostile_command *command = SAY("XADD", keys[below(attack, COUNT(keys))], "*", "a");
    hostile_command_add(command, hostile_word(attack->random));
}

/* --- with all rights ---------------------------------------------------------------------------
 */
static void a_key_of_another_type(const struct attack *attack)
{
    static const char *const keys[] = {HOSTILE_KEY("control"),       HOSTILE_KEY("events"),
                                       HOSTILE_KEY("worker:w0"),     HOSTILE_KEY("worker:w1"),
                                       HOSTILE_KEY("beat:w0"),       HOSTILE_KEY("beat:h-set"),
                                       HOSTILE_KEY("refused"),       HOSTILE_KEY("blocked"),
                                       HOSTILE_KEY("worker:w-none"), HOSTILE_KEY("intake")};
    const char *key = keys[below(attack, COUNT(keys))];
    if (below(attack, 2)) {
        SAY("SET", key, "x");
        return;
    }
    SAY("DEL", key);
    if (below(attack, 2))
        SAY("RPUSH", key, "x");
}

static void a_beat(const struct attack *attack)
{
    static const char *const keys[] = {HOSTILE_KEY("beat:w-none"), HOSTILE_KEY("beat:h-hash"),
                                       HOSTILE_KEY("beat:w0")};
    const char *key = keys[below(attack, COUNT(keys))];
    struct hostile_command *command = SAY("HSET", key, below(attack, 10) ? "beat" : "other");
    hostile_command_add(command, hostile_message(attack->random, HOSTILE_BEAT));
    SAY("PEXPIRE", key,
        "400"); /* else it would be alive for ever, as anybody's own worker may be */
}

static void a_group_that_goes(const struct attack *attack)
{
    static const char *const streams[] = {HOSTILE_KEY("intake"), HOSTILE_KEY("control")};
    const char *stream = streams[below(attack, COUNT(streams))];
    switch (below(attack, 4)) {
    case 0:
        SAY("XGROUP", "DESTROY", stream, "scheduler");
        return;
    case 1:
        SAY("XGROUP", "SETID", stream, "scheduler", "0");
        return;
    case 2:
        SAY("XGROUP", "CREATE", stream, "h-group", "0");
        return;
    default:
        SAY("XGROUP", "CREATECONSUMER", stream, "scheduler", "h-idle");
    }
}

/* Read by another consumer and left pending, or pending and no longer there. */
static void a_thief(const struct attack *attack)
{
    an_entry(attack);
    SAY("XREADGROUP", "GROUP", "scheduler", "thief", "COUNT", "2", "STREAMS", HOSTILE_KEY("intake"),
        ">");
    if (below(attack, 2))
        SAY("XTRIM", HOSTILE_KEY("intake"), "MAXLEN", "0");
}

/* --- the table ---------------------------------------------------------------------------------
 */
static const struct {
    void (*make)(const struct attack *attack);
    enum hostile_rights least;
    uint32_t weight; /* against the others that the same rights allow */
} attacks[] = {
    {an_entry, HOSTILE_PRODUCER, 400},
    {a_receipt_in_the_way, HOSTILE_PRODUCER, 12},
    {ends, HOSTILE_PRODUCER, 12},
    {the_last_intake_id, HOSTILE_PRODUCER, 1},
    {an_event, HOSTILE_OPERATOR, 200},
    {an_order, HOSTILE_OPERATOR, 200},
    {an_order_to_a_worker, HOSTILE_OPERATOR, 60},
    {an_assignment, HOSTILE_OPERATOR, 100},
    {an_answer_in_the_way, HOSTILE_OPERATOR, 15},
    {a_beat_that_is_a_stream, HOSTILE_OPERATOR, 10},
    {a_last_id, HOSTILE_OPERATOR, 3},
    {a_key_of_nobody, HOSTILE_OPERATOR, 10},
    {a_key_of_another_type, HOSTILE_ALL, 12},
    {a_beat, HOSTILE_ALL, 200},
    {a_group_that_goes, HOSTILE_ALL, 15},
    {a_thief, HOSTILE_ALL, 1},
};

void hostile_attack(struct test_random *random, enum hostile_rights rights, unsigned number,
                    const char *victim, struct hostile_list *list)
{
    const struct attack attack = {random, rights, number, victim, list};
    uint32_t all = 0;
    for (size_t i = 0; i < COUNT(attacks); i++)
        all += attacks[i].least <= rights ? attacks[i].weight : 0;
    uint32_t at = test_random_below(random, all);
    for (size_t i = 0; i < COUNT(attacks); i++) {
        uint32_t weight = attacks[i].least <= rights ? attacks[i].weight : 0;
        if (at < weight) {
            attacks[i].make(&attack);
            return;
        }
        at -= weight;
    }
}
