/* shapes.c - see shapes.h. */
#include "tests/hostile/shapes.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/wire/wire.h"
#include "tests/hostile/values.h"

#define FIELDS_MAX 40
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* A field and good values of it; one that is not always there begins with '?'. */
struct shape {
    const char *name, *good[4];
};

static const struct shape line_shape[] = {
    {"prompt", {"\"a cat\"", "\"a {red|blue} cat\""}},
    {"width", {"64", "128"}},
    {"height", {"64"}},
    {"steps", {"1", "2"}},
    {"?negative_prompt", {"\"fog\""}},
    {"?size", {"\"64x64\"", "\"16:9\""}},
    {"?style", {"\"none\"", "\"anime\""}},
    {"?styled", {"\"anime\""}},
    {"?guidance", {"0", "3.5"}},
    {"?seed", {"42", "\"1-2\"", "18446744073709551615"}},
    {"?count", {"1", "2"}},
    {"?loras", {"\"none\"", "[]"}},
    {"?model", {"\"turbo\""}},
    {"?priority", {"0", "-10", "10"}},
    {"?tenant", {"\"ann\""}},
    {"?custom_id", {"\"c1\""}},
    {"?kind", {"\"image\"", "\"latent-cache\""}},
    {"?latents", {"\"final\"", "\"none\"", "\"trajectory\""}},
    {"?sigmas", {"[0.5,0]"}},
    {"?teleport", {"\"off\"", "\"auto\""}},
    {"?alike", {"0"}},
    {"?max_wait_s", {"0", "60"}},
    {"?embed_metadata", {"true", "false"}},
    {"?template", {"true", "false"}},
    {NULL, {NULL}},
};
static const struct shape event_shape[] = {
    {"v", {"1"}},
    {"kind", {"\"returned\"", "\"done\"", "\"finished\"", "\"hello\""}},
    {"?worker", {"\"w0\"", "\"w-none\""}},
    {"?assignment", {"\"w0-1\""}},
    {"?job", {"1", "1000000000001", "7"}},
    {"?attempt", {"1"}},
    {"?compute_ms", {"100"}},
    {"?switch_ms", {"0"}},
    {"?fetch_ms", {"0"}},
    {"?code", {"\"ok\"", "\"timeout\""}},
    {NULL, {NULL}},
};
static const struct shape order_shape[] = {
    {"v", {"1"}},
    {"kind", {"\"cancel_job\"", "\"cancel_batch\"", "\"ask\"", "\"drop\""}},
    {"job", {"1000000000001", "0"}},
    {"id", {"\"h-nobody\"", "\"\""}},
    {"?recorded", {"true", "false"}},
    {NULL, {NULL}},
};
static const struct shape beat_shape[] = {
    {"v", {"1"}},
    {"worker", {"\"w-none\"", "\"w0\""}},
    {"incarnation", {"\"f00d\""}},
    {"version", {"1"}},
    {"room", {"0", "1"}},
    {"places", {"15"}},
    {"batch_max", {"4"}},
    {"?host", {"\"gpu1\""}},
    {"?device", {"\"cuda:0\""}},
    {"?engine", {"\"testcard\""}},
    {"?model", {"\"\""}},
    {"?lora_set", {"\"ink:0.8\""}},
    {"?pid", {"812"}},
    {"?minor", {"4"}},
    {"?release", {"\"0.1\""}},
    {"?width", {"64"}},
    {"?height", {"64"}},
    {"?drawn", {"0"}},
    {"?step", {"0"}},
    {"?steps", {"0"}},
    {"?draining", {"false"}},
    {"?deaf_ms", {"12"}},
    {"?done", {"310"}},
    {"?started_ms", {"1795249000000"}},
    {"?sent_ms", {"1795249523900"}},
    {"?ready_ms", {"910400"}},
    {"?wanted_ms", {"905100"}},
    {"?computed_ms", {"899300"}},
    {"?device_class", {"\"nvidia-h200\""}},
    {"?running", {"\"h-none\""}},
    {"?held", {"[\"h-none\"]", "[]"}},
    {"?held_more", {"[\"h-more\"]"}},
    {"?lora_files", {"[\"9f86d081884c7d65\"]", "[]"}},
    {NULL, {NULL}},
};
#define JOB_HEAD "[{\"id\":1000000000001,\"attempt\":1,\"batch_id\":12,\"index\":0,"
#define JOB_TAIL                                                                                   \
    "\"created_ms\":1795249523818,\"batch\":\"cats\",\"line\":{\"prompt\":\"a cat\",\"width\":64," \
    "\"height\":64,\"steps\":2,\"seed\":42}}]"
static const struct shape assignment_shape[] = {
    {"v", {"1"}},
    {"id", {"\"h-1\"", "\"h-2\""}},
    {"model", {"\"\""}},
    {"width", {"64"}},
    {"height", {"64"}},
    {"steps", {"2"}},
    {"loras", {"[]"}},
    {"jobs", {JOB_HEAD JOB_TAIL, JOB_HEAD "\"attempt\":-1," JOB_TAIL, "[]", "[{\"id\":0}]"}},
    {NULL, {NULL}},
};
static const struct shape *const shapes[HOSTILE_KINDS] = {line_shape, event_shape, order_shape,
                                                          beat_shape, assignment_shape};

struct document {
    struct hostile_bytes names[FIELDS_MAX], values[FIELDS_MAX];
    size_t count;
};

/* --- a good one ------------------------------------------------------------------------------ */
static void add_field(struct document *document, const char *name, struct hostile_bytes value)
{
    if (document->count == FIELDS_MAX) {
        hostile_release(&value);
        return;
    }
    document->names[document->count] = hostile_text(name);
    document->values[document->count++] = value;
}

static const char *some_good(struct test_random *random, const struct shape *shape)
{
    uint32_t count = 1;
    while (count < COUNT(shape->good) && shape->good[count])
        count++;
    return shape->good[test_random_below(random, count)];
}

static void make_good(struct test_random *random, enum hostile_kind kind, struct document *ret)
{
    ret->count = 0;
    for (const struct shape *at = shapes[kind]; at->name; at++) {
        bool optional = at->name[0] == '?';
        if (!optional || test_random_below(random, 4) == 0)
            add_field(ret, at->name + optional, hostile_text(some_good(random, at)));
    }
}

/* --- something wrong ------------------------------------------------------------------------- */
static void drop_field(struct document *document, size_t which)
{
    hostile_release(&document->names[which]);
    hostile_release(&document->values[which]);
    document->count--;
    document->names[which] = document->names[document->count];
    document->values[which] = document->values[document->count];
}

static void add_any_field(struct test_random *random, enum hostile_kind kind,
                          struct document *document)
{
    uint32_t count = 0;
    while (shapes[kind][count].name)
        count++;
    const char *name = shapes[kind][test_random_below(random, count)].name;
    add_field(document, test_random_below(random, 4) == 0 ? "unknown" : name + (name[0] == '?'),
              hostile_value(random));
}

static void spoil(struct test_random *random, enum hostile_kind kind, struct document *document)
{
    size_t which = document->count ? test_random_below(random, (uint32_t)document->count) : 0;
    uint32_t how = document->count ? test_random_below(random, 100) : 99;
    if (how < 55) {
        hostile_release(&document->values[which]);
        document->values[which] = hostile_value(random);
    } else if (how < 70) {
        drop_field(document, which);
    } else if (how < 80) {
        add_field(document, document->names[which].at,
                  hostile_copy(document->values[which].at, document->values[which].len));
    } else {
        add_any_field(random, kind, document);
    }
}

static struct hostile_bytes written(struct document *document)
{
    struct hostile_bytes text = hostile_text("{");
    for (size_t i = 0; i < document->count; i++) {
        hostile_append_text(&text, i ? ",\"" : "\"");
        hostile_append(&text, document->names[i].at, document->names[i].len);
        hostile_append_text(&text, "\":");
        hostile_append(&text, document->values[i].at, document->values[i].len);
        hostile_release(&document->names[i]);
        hostile_release(&document->values[i]);
    }
    hostile_append_text(&text, "}");
    return text;
}

/* Cut off, one byte other, or with something behind it. */
static void damage(struct test_random *random, struct hostile_bytes *text)
{
    uint32_t at = test_random_below(random, (uint32_t)text->len);
    switch (test_random_below(random, 3)) {
    case 0:
        text->len = at;
        text->at[at] = '\0';
        return;
    case 1:
        text->at[at] = (char)test_random_u64(random);
        return;
    default:
        hostile_append_text(text, test_random_below(random, 2) ? "{}" : ",");
    }
}

/* --- what others allow ----------------------------------------------------------------------- */
static bool obeyed_order(const struct hostile_bytes *text)
{
    struct kiln_control order;
    struct kiln_error err;
    if (kiln_control_decode(text->at, text->len, &order, &err))
        return false;
    bool cancels = order.kind == KILN_CONTROL_CANCEL_JOB && order.job < HOSTILE_FIRST_JOB;
    return cancels || order.kind == KILN_CONTROL_DRAIN;
}

static bool real_assignment(const struct hostile_bytes *text)
{
    struct kiln_assignment assignment;
    struct kiln_error err;
    bool real = false;
    if (kiln_assignment_decode(text->at, text->len, &assignment, &err))
        return false;
    for (uint32_t i = 0; i < assignment.job_count; i++)
        real = real || assignment.jobs[i].id < HOSTILE_FIRST_JOB;
    kiln_assignment_release(&assignment);
    return real;
}

struct hostile_bytes hostile_message(struct test_random *random, enum hostile_kind kind)
{
    for (;;) {
        struct document document;
        make_good(random, kind, &document);
        for (uint32_t i = test_random_below(random, 4); i > 0; i--)
            spoil(random, kind, &document);
        struct hostile_bytes text = written(&document);
        if (test_random_below(random, 12) == 0)
            damage(random, &text);
        if ((kind != HOSTILE_ORDER || !obeyed_order(&text)) &&
            (kind != HOSTILE_ASSIGNMENT || !real_assignment(&text)))
            return text;
        hostile_release(&text);
    }
}

/* --- intake ---------------------------------------------------------------------------------- */
static void put(struct hostile_entry *entry, const char *name, struct hostile_bytes value)
{
    if (entry->count == HOSTILE_FIELDS_MAX) {
        hostile_release(&value);
        return;
    }
    entry->texts[2 * entry->count] = hostile_text(name);
    entry->texts[2 * entry->count++ + 1] = value;
}

/* An optional field: a good value, or any. */
static void maybe(struct test_random *random, struct hostile_entry *entry, const char *name,
                  const char *const *good, uint32_t count)
{
    uint32_t how = test_random_below(random, 100);
    if (how < 35)
        put(entry, name, hostile_text(good[test_random_below(random, count)]));
    else if (how < 50)
        put(entry, name, hostile_word(random));
    if (how >= 47 && how < 50) /* given twice */
        put(entry, name, hostile_word(random));
}

void hostile_intake(struct test_random *random, const char *batch, const char *token,
                    struct hostile_entry *ret)
{
    static const char *const indexes[] = {"0", "1", "2", "4294967295", "4294967294"};
    static const char *const keys[] = {"k0", "k1", "c1"};
    static const char *const ends[] = {"0", "1", "3", "18446744073709551615"};
    uint32_t named = test_random_below(random, 100);
    ret->count = 0;
    if (named < 80)
        put(ret, "batch", hostile_text(batch));
    else if (named < 90)
        put(ret, "batch", hostile_text("h-shared"));
    else if (named < 97)
        put(ret, "batch", hostile_word(random));
    if (test_random_below(random, 20) > 0)
        put(ret, "job", hostile_message(random, HOSTILE_LINE));
    maybe(random, ret, "index", indexes, COUNT(indexes));
    maybe(random, ret, "key", keys, COUNT(keys));
    maybe(random, ret, "token", &token, 1);
    maybe(random, ret, "end", ends, COUNT(ends));
    if (test_random_below(random, 10) == 0 || ret->count == 0)
        put(ret, "unknown", hostile_word(random));
}

void hostile_entry_release(struct hostile_entry *entry)
{
    for (size_t i = 0; i < 2 * entry->count; i++)
        hostile_release(&entry->texts[i]);
    entry->count = 0;
}
