/* test_wire_parent.c - a parent and a donor travel beside the line of their job, which older
 * workers read to the last key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/wire/wire.h"

static char *encode(uint64_t init_job, uint64_t parent)
{
    static char prompt[] = "x", empty[] = "", tenant[] = "default", batch[] = "b";
    struct kiln_job job = {.id = 41,
                           .batch_id = 3,
                           .batch = batch,
                           .prompt = prompt,
                           .negative_prompt = empty,
                           .tenant = tenant,
                           .model = empty,
                           .width = 512,
                           .height = 256,
                           .steps = 8,
                           .attempt = 1,
                           .init_job = init_job,
                           .parent = parent};
    struct kiln_assignment a = {
        .id = "a-1", .width = 512, .height = 256, .steps = 8, .jobs = &job, .job_count = 1};
    if (init_job)
        a.mode = job.mode = (struct kiln_mode){.kind = KILN_MODE_START_STEP, .step = 2};
    char *text = kiln_assignment_encode(&a);
    assert_non_null(text);
    return text;
}

static void a_parent_is_beside_the_line(void **state)
{
    (void)state;
    static const uint64_t rows[][2] = {{0, 0}, {0, 5}, {4, 4}, {4, 5}}; /* init_job, parent */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = encode(rows[i][0], rows[i][1]);
        const char *line = strstr(text, "\"line\":");
        struct kiln_assignment back;
        struct kiln_error err;
        assert_non_null(line);
        assert_null(strstr(line, "parent"));
        assert_int_equal(strstr(text, "\"parent\":5,") != NULL, rows[i][1] == 5);
        assert_int_equal(kiln_assignment_decode(text, strlen(text), &back, &err), 0);
        assert_true(back.jobs[0].init_job == rows[i][0] && back.jobs[0].parent == rows[i][1]);
        kiln_assignment_release(&back);
        free(text);
    }
}

static void a_parent_is_a_job(void **state)
{
    (void)state;
    static const char *const bad[] = {"0", "-1", "9223372036854775808", "\"5\"", "5,\"parent\":5"};
    char *text = encode(0, 5);
    const char *at = strstr(text, "\"parent\":5");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char edited[1024];
        struct kiln_assignment back;
        struct kiln_error err;
        snprintf(edited, sizeof edited, "%.*s\"parent\":%s%s", (int)(at - text), text, bad[i],
                 at + strlen("\"parent\":5"));
        assert_int_equal(kiln_assignment_decode(edited, strlen(edited), &back, &err),
                         KILN_PROTOCOL);
    }
    free(text);
}

/* Whether a job may begin from a donor is the scheduler's to know; the worker is told which. */
static void a_donor_is_beside_the_line(void **state)
{
    (void)state;
    static char words[] = "x", empty[] = "", tenant[] = "default", batch[] = "b";
    struct kiln_job job = {.id = 41,
                           .batch_id = 3,
                           .batch = batch,
                           .prompt = words,
                           .negative_prompt = empty,
                           .tenant = tenant,
                           .model = empty,
                           .width = 512,
                           .height = 256,
                           .steps = 8,
                           .attempt = 1,
                           .teleport = KILN_TELEPORT_AUTO,
                           .teleport_said = true,
                           .alike = 30,
                           .donor = {17, 2, 1, 0, true}};
    const struct kiln_assignment a = {
        .id = "a-1", .width = 512, .height = 256, .steps = 8, .jobs = &job, .job_count = 1};
    struct kiln_assignment back;
    struct kiln_error err = {0};
    char *text = kiln_assignment_encode(&a);
    const char *line = strstr(text, "\"line\":");
    assert_non_null(line);
    assert_null(strstr(line, "teleport"));
    assert_null(strstr(line, "alike"));
    assert_null(strstr(line, "donor"));
    if (kiln_assignment_decode(text, strlen(text), &back, &err))
        fail_msg("%s", err.text);
    assert_true(back.jobs[0].donor.job == 17 && back.jobs[0].donor.step == 2);
    assert_int_equal(back.jobs[0].donor.hit, 1);
    assert_true(back.jobs[0].donor.coarse);
    assert_int_equal(back.jobs[0].mode.kind, KILN_MODE_EXACT);
    kiln_assignment_release(&back);
    static const char *const bad[] = {"\"donor\":0", "\"donor\":17,\"donor_step\":0",
                                      "\"donor\":17,\"donor_step\":8,\"donor_class\":1",
                                      "\"donor\":17,\"donor_step\":2,\"donor_class\":0",
                                      "\"donor\":17,\"donor_step\":2,\"donor_class\":9"};
    const char *whole = "\"donor\":17,\"donor_step\":2,\"donor_class\":1";
    const char *at = strstr(text, whole);
    assert_non_null(at);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char edited[1024];
        snprintf(edited, sizeof edited, "%.*s%s%s", (int)(at - text), text, bad[i],
                 at + strlen(whole));
        assert_int_equal(kiln_assignment_decode(edited, strlen(edited), &back, &err),
                         KILN_PROTOCOL);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parent_is_beside_the_line),
        cmocka_unit_test(a_parent_is_a_job),
        cmocka_unit_test(a_donor_is_beside_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
