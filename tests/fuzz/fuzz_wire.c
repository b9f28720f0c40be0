/* fuzz_wire.c - any bytes as each message of the bus: refused as KILN_PROTOCOL, or the same when
 * written and read again. */
#include <stdlib.h>
#include <string.h>

#include "schemas/wire/wire.h"
#include "tests/fuzz/fuzz.h"

/* Decodes, encodes, decodes, encodes: the two texts are equal. */
#define CHECK_MESSAGE(name, record)                                                                \
    static void check_##name(const char *text, size_t len)                                         \
    {                                                                                              \
        record first, second;                                                                      \
        struct kiln_error err = {0};                                                               \
        int code = kiln_##name##_decode(text, len, &first, &err);                                  \
        fuzz_require(code == 0 || (code == KILN_PROTOCOL && err.text[0]));                         \
        if (code)                                                                                  \
            return;                                                                                \
        char *once = kiln_##name##_encode(&first);                                                 \
        fuzz_require(once &&kiln_##name##_decode(once, strlen(once), &second, &err) == 0);         \
        char *twice = kiln_##name##_encode(&second);                                               \
        fuzz_require(twice &&strcmp(once, twice) == 0);                                            \
        release_##name(&first);                                                                    \
        release_##name(&second);                                                                   \
        free(once);                                                                                \
        free(twice);                                                                               \
    }

static void release_control(struct kiln_control *control)
{
    (void)control;
}
static void release_heartbeat(struct kiln_heartbeat *beat)
{
    (void)beat;
}
static void release_event(struct kiln_event *event)
{
    (void)event;
}
static void release_receipt(struct kiln_receipt *receipt)
{
    (void)receipt;
}
static void release_assignment(struct kiln_assignment *a)
{
    kiln_assignment_release(a);
}

CHECK_MESSAGE(control, struct kiln_control)
CHECK_MESSAGE(heartbeat, struct kiln_heartbeat)
CHECK_MESSAGE(event, struct kiln_event)
CHECK_MESSAGE(receipt, struct kiln_receipt)
CHECK_MESSAGE(assignment, struct kiln_assignment)

/* The bytes as fields of an intake entry, cut at each NUL. */
static void check_intake(const char *text, size_t len)
{
    const char *fields[32];
    size_t lengths[32], count = 0;
    for (size_t at = 0; at < len && count < 32; count++) {
        fields[count] = text + at;
        lengths[count] = strlen(text + at);
        at += lengths[count] + 1;
    }
    struct kiln_intake_entry entry;
    struct kiln_error err = {0};
    int code = kiln_intake_decode(fields, lengths, count / 2, &entry, &err);
    fuzz_require(code == 0 || (code == KILN_PROTOCOL && err.text[0]));
    fuzz_require(code != 0 || (entry.batch && (entry.job || entry.has_end)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    fuzz_require(text);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    check_control(text, size);
    check_heartbeat(text, size);
    check_event(text, size);
    check_receipt(text, size);
    check_assignment(text, size);
    check_intake(text, size);
    free(text);
    return 0;
}
