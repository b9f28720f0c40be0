/* cases.c - see cases.h. */
#include "tests/hostile/cases.h"

#include <string.h>

#include "tests/hostile/attack.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define LINE(job) WORDS("XADD", HOSTILE_KEY("intake"), "*", "batch", "n1", "job", job)
#define NUMBERED(batch, index, key)                                                                \
    WORDS("XADD", HOSTILE_KEY("intake"), "*", "batch", batch, "job", CAT, "index", index, "key",   \
          key)
#define UNNUMBERED(batch) WORDS("XADD", HOSTILE_KEY("intake"), "*", "batch", batch, "job", CAT)
#define LAST(key) WORDS("XADD", HOSTILE_KEY(key), HOSTILE_LAST_ID, "a", "b")
#define ORDER(text) WORDS("XADD", HOSTILE_KEY("control"), "*", "order", text)
#define EVENT(text) WORDS("XADD", HOSTILE_KEY("events"), "*", "event", text)
#define CAT "{\"prompt\":\"a cat\",\"width\":64,\"height\":64,\"steps\":2}"
#define MARKET "{\"prompt\":\"a cat\",\"tenant\":\"市场部门创意设计与品牌推广小组\"}"
#define NUL "\x01" /* stands for a NUL, which would end the text; no case needs the other */
#define TOO_OFTEN "SELECT count(*) FROM job WHERE attempt > 8"

const struct hostile_case hostile_cases[] = {
    {"refusal-cut-in-a-character",
     HOSTILE_PRODUCER,
     {WORDS("XADD", HOSTILE_KEY("intake"), "*", "batch", "b1", "job", MARKET)},
     NULL},
    {"refusal-cut-in-a-character-numbered",
     HOSTILE_PRODUCER,
     {WORDS("XADD", HOSTILE_KEY("intake"), "*", "batch", "b1", "job", MARKET, "index", "0", "key",
            "k")},
     NULL},
    {"event-returned-without-job",
     HOSTILE_OPERATOR,
     {EVENT("{\"v\":1,\"kind\":\"returned\",\"worker\":\"w0\"}")},
     NULL},
    {"cancel-job-beyond-ids",
     HOSTILE_OPERATOR,
     {ORDER("{\"v\":1,\"kind\":\"cancel_job\",\"job\":9223372036854775808,\"id\":\"\","
            "\"recorded\":false}")},
     NULL},
    {"cancel-job-largest",
     HOSTILE_OPERATOR,
     {ORDER("{\"v\":1,\"kind\":\"cancel_job\",\"job\":18446744073709551615,\"id\":\"\","
            "\"recorded\":false}")},
     NULL},
    {"refused-steps", HOSTILE_PRODUCER, {LINE("{\"prompt\":\"a cat\",\"steps\":100}")}, NULL},
    {"refused-steps-text",
     HOSTILE_PRODUCER,
     {LINE("{\"prompt\":\"a cat\",\"steps\":\"8\"}")},
     NULL},
    {"refused-guidance", HOSTILE_PRODUCER, {LINE("{\"prompt\":\"a cat\",\"guidance\":99}")}, NULL},
    {"refused-kind", HOSTILE_PRODUCER, {LINE("{\"prompt\":\"a cat\",\"kind\":\"x\"}")}, NULL},
    {"refused-tenant", HOSTILE_PRODUCER, {LINE("{\"prompt\":\"a cat\",\"tenant\":\"a b\"}")}, NULL},
    {"refused-custom-id",
     HOSTILE_PRODUCER,
     {LINE("{\"prompt\":\"a cat\",\"custom_id\":\"\"}")},
     NULL},
    {"refused-model", HOSTILE_PRODUCER, {LINE("{\"prompt\":\"a cat\",\"model\":\"../x\"}")}, NULL},
    {"refused-lora-twice",
     HOSTILE_PRODUCER,
     {LINE("{\"prompt\":\"a cat\",\"loras\":\"ink:0.8+ink:0.5\"}")},
     NULL},
    {"receipt-of-another-type",
     HOSTILE_PRODUCER,
     {WORDS("XADD", HOSTILE_KEY("receipt:t"), "*", "a", "b"),
      WORDS("XADD", HOSTILE_KEY("intake"), "*", "batch", "b1", "job", CAT, "token", "t", "end",
            "1")},
     NULL},
    {"answer-of-another-type",
     HOSTILE_OPERATOR,
     {WORDS("XADD", HOSTILE_KEY("answer:q"), "*", "a", "b"),
      ORDER("{\"v\":1,\"kind\":\"ask\",\"job\":0,\"id\":\"q\",\"recorded\":false}")},
     NULL},
    {"workers-stream-of-another-type",
     HOSTILE_ALL,
     {WORDS("SET", HOSTILE_KEY("worker:w0"), "x"), WORDS("SET", HOSTILE_KEY("worker:w1"), "x")},
     TOO_OFTEN},
    {"control-of-another-type", HOSTILE_ALL, {WORDS("SET", HOSTILE_KEY("control"), "x")}, NULL},
    {"events-of-another-type", HOSTILE_ALL, {WORDS("SET", HOSTILE_KEY("events"), "x")}, NULL},
    {"batch-with-a-nul",
     HOSTILE_PRODUCER,
     {WORDS("XADD", HOSTILE_KEY("intake"), "*", "batch", "other" NUL "x", "job", CAT)},
     "SELECT count(*) FROM batch WHERE name = 'other'"},
    {"token-with-a-nul",
     HOSTILE_PRODUCER,
     {WORDS("XADD", HOSTILE_KEY("intake"), "*", "batch", "b1", "job", CAT, "token", "t" NUL "x")},
     "SELECT count(*) FROM intake_refusal WHERE token = 't'"},
    {"intake-of-another-type", HOSTILE_ALL, {WORDS("SET", HOSTILE_KEY("intake"), "x")}, NULL},
    {"index-given-twice",
     HOSTILE_PRODUCER,
     {NUMBERED("b1", "0", "k0"), UNNUMBERED("b1"), NUMBERED("b1", "1", "k1")},
     NULL},
    {"index-wraps",
     HOSTILE_PRODUCER,
     {NUMBERED("b1", "4294967295", "k0"), UNNUMBERED("b1"), NUMBERED("b1", "0", "k1")},
     NULL},
    {"two-keys-one-index",
     HOSTILE_PRODUCER,
     {NUMBERED("b1", "3", "k0"), NUMBERED("b1", "3", "k1")},
     NULL},
    {"last-id-of-intake", HOSTILE_PRODUCER, {LAST("intake")}, NULL},
    {"last-id-of-control", HOSTILE_OPERATOR, {LAST("control")}, NULL},
    {"last-id-of-events", HOSTILE_OPERATOR, {LAST("events")}, NULL},
    {"last-id-of-refused",
     HOSTILE_OPERATOR,
     {LAST("refused"), WORDS("XADD", HOSTILE_KEY("intake"), "*", "job", CAT)},
     NULL},
    {"last-id-of-workers", HOSTILE_OPERATOR, {LAST("worker:w0"), LAST("worker:w1")}, TOO_OFTEN},
    {NULL, HOSTILE_PRODUCER, {NULL}, NULL},
};

void hostile_case_commands(const struct hostile_case *known, struct hostile_list *list)
{
    for (size_t i = 0; known->commands[i]; i++) {
        struct hostile_command *command = hostile_command_of(known->rights, known->commands[i]);
        for (size_t w = 0; w < command->count; w++)
            for (char *at = command->words[w].at; (at = strchr(at, NUL[0])) != NULL;)
                *at = '\0';
        hostile_list_add(list, command);
    }
}
