/* test_wire_loras.c - the hashes of LoRA files, in an assignment and in a heartbeat. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/wire/wire.h"

#define SHA "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

static char *encode(void)
{
    static char prompt[] = "a cat", empty[] = "", batch[] = "b";
    struct kiln_job job = {.id = 1, .batch_id = 2, .attempt = 1, .width = 64, .height = 64};
    struct kiln_assignment a = {.id = "a-1", .width = 64, .height = 64, .steps = 4};
    job.steps = 4;
    job.batch = batch;
    job.prompt = prompt;
    job.negative_prompt = job.model = empty;
    job.tenant = batch;
    job.lora_count = a.lora_count = 1;
    job.loras[0] = a.loras[0] = (struct kiln_lora){"ink", 0.8, SHA};
    a.jobs = &job;
    a.job_count = 1;
    char *text = kiln_assignment_encode(&a);
    assert_non_null(text);
    return text;
}

/* With the field in place of the right one. */
static int decode_with_hashes(const char *field, struct kiln_assignment *ret,
                              struct kiln_error *err)
{
    static const char right[] = "\"lora_sha256\":[\"" SHA "\"],";
    char *text = encode(), changed[8192];
    const char *at = strstr(text, right);
    assert_non_null(at);
    assert_null(strstr(at + strlen(right), SHA)); /* an older worker refuses it within a LoRA */
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, field,
             at + strlen(right));
    free(text);
    return kiln_assignment_decode(changed, strlen(changed), ret, err);
}

static void hashes_of_loras_are_as_many_as_loras(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "\"lora_sha256\":[\"" SHA "\",\"" SHA "\"],",
        "\"lora_sha256\":[\"\",\"\",\"\",\"\"],",
        "\"lora_sha256\":[\"9f86\"],",
        "\"lora_sha256\":[\"../../../../etc/passwd/0000000000000000000000000000000000000000000\"],",
        "\"lora_sha256\":[\"" SHA "0\"],",
        "\"lora_sha256\":[1],",
        "\"lora_sha256\":\"" SHA "\",",
        "\"lora_sha256\":[\"" SHA "\"],\"lora_sha256\":[\"" SHA "\"],",
    };
    struct kiln_assignment a;
    struct kiln_error err;
    assert_int_equal(decode_with_hashes("\"lora_sha256\":[\"" SHA "\"],", &a, &err), 0);
    assert_string_equal(a.loras[0].sha256, SHA);
    assert_string_equal(a.jobs[0].loras[0].sha256, SHA);
    kiln_assignment_release(&a);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (decode_with_hashes(wrong[i], &a, &err) != KILN_PROTOCOL)
            fail_msg("row %zu is read", i);
    assert_int_equal(decode_with_hashes("", &a, &err), 0);
    assert_string_equal(a.loras[0].sha256, "");
    kiln_assignment_release(&a);
    assert_int_equal(decode_with_hashes("\"lora_sha256\":[\"\"],", &a, &err), 0);
    assert_string_equal(a.jobs[0].loras[0].sha256, "");
    kiln_assignment_release(&a);
}

/* --- in a heartbeat -----------------------------------------------------------------------------
 */

static void files_on_disk_are_told_or_not(void **state)
{
    (void)state;
    static struct kiln_heartbeat beat, back;
    struct kiln_error err;
    beat = (struct kiln_heartbeat){.worker = "w", .incarnation = "i", .version = 1};
    for (uint32_t count = 0; count <= KILN_HEARTBEAT_FILES_MAX; count += 64) {
        beat.files_told = true;
        beat.file_count = count;
        for (uint32_t i = 0; i < count; i++)
            beat.files[i] = i * UINT64_C(0x0123456789abcdef); /* the first is all zeros */
        char *text = kiln_heartbeat_encode(&beat);
        assert_true(strlen(text) < 8192);
        if (kiln_heartbeat_decode(text, strlen(text), &back, &err) != 0)
            fail_msg("%s: %s", text, err.text);
        assert_memory_equal(&beat, &back, sizeof beat);
        free(text);
    }
    beat.files_told = false;
    char *text = kiln_heartbeat_encode(&beat);
    assert_null(strstr(text, "lora_files"));
    assert_int_equal(kiln_heartbeat_decode(text, strlen(text), &back, &err), 0);
    assert_false(back.files_told);
    assert_int_equal(back.file_count, 0);
    free(text);
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "7",
        "{}",
        "[7]",
        "[\"9f86\"]",
        "[\"9F86D081884C7D65\"]",
        "[\"9f86d081884c7d650\"]",
        "[\"../../../../etc/\"]",
        "[\"" SHA "\"]",
        "[],\"lora_files\":[]",
    };
    struct kiln_heartbeat beat;
    struct kiln_error err;
    static char text[32768];
    for (size_t i = 0; i <= sizeof wrong / sizeof *wrong; i++) {
        /* One more than there is room for costs the list, not the heartbeat. */
        const bool last = i == sizeof wrong / sizeof *wrong;
        int len = snprintf(text, sizeof text,
                           "{\"v\":1,\"worker\":\"w\",\"incarnation\":\"i\",\"version\":1,"
                           "\"room\":1,\"batch_max\":1,\"lora_files\":%s",
                           last ? "[\"9f86d081884c7d65\"" : wrong[i]);
        for (int k = 0; last && k < KILN_HEARTBEAT_FILES_MAX; k++)
            len += snprintf(text + len, sizeof text - (size_t)len, ",\"9f86d081884c7d65\"");
        snprintf(text + len, sizeof text - (size_t)len, last ? "]}" : "}");
        const int rc = kiln_heartbeat_decode(text, strlen(text), &beat, &err);
        if (last) {
            assert_int_equal(rc, 0);
            assert_int_equal(beat.room, 1);
            assert_false(beat.files_told);
            assert_int_equal(beat.file_count, 0);
            break;
        }
        if (rc != KILN_PROTOCOL)
            fail_msg("row %zu is read", i);
        assert_non_null(strstr(err.text, "lora_files"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_of_loras_are_as_many_as_loras),
        cmocka_unit_test(files_on_disk_are_told_or_not),
        cmocka_unit_test(wrong_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
