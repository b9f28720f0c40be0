/* jobs.c - job records for tests of the queue. */
#include "tests/support/jobs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct kiln_new_job *kiln_test_jobs(const char *batch, size_t count)
{
    struct kiln_new_job *jobs = calloc(count, sizeof *jobs);
    assert_non_null(jobs);
    for (size_t i = 0; i < count; i++) {
        char text[64];
        snprintf(text, sizeof text, "picture %zu", i);
        jobs[i].job = (struct kiln_job){
            .batch = strdup(batch),
            .index = (uint32_t)i,
            .prompt = strdup(text),
            .negative_prompt = strdup(""),
            .tenant = strdup("tester"),
            .model = strdup(""),
            .width = 256,
            .height = 256,
            .steps = 8,
            .seed = i,
        };
        snprintf(text, sizeof text, "k%zu", i);
        jobs[i].key = strdup(text);
        jobs[i].token = "t";
    }
    return jobs;
}

void kiln_test_jobs_free(struct kiln_new_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free((char *)jobs[i].key);
        kiln_job_release(&jobs[i].job);
    }
    free(jobs);
}

void kiln_test_insert(struct kiln_ledger *ledger, const char *batch, size_t count)
{
    struct kiln_error err;
    struct kiln_new_job *jobs = kiln_test_jobs(batch, count);
    uint64_t inserted = 0;
    kiln_test_ok(kiln_ledger_insert_jobs(ledger, "p", jobs, count, &inserted, &err), err);
    assert_int_equal(inserted, count);
    kiln_test_jobs_free(jobs, count);
}

void kiln_test_picture(struct kiln_test_picture *picture, const struct kiln_job *job)
{
    static const char *const roles[4] = {"full", "512", "256", "latent"};
    static const char sha256[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    memset(picture, 0, sizeof *picture);
    for (int i = 0; i < 4; i++) {
        snprintf(picture->keys[i], sizeof picture->keys[i], "images/2026/11/%llu/%s-%u",
                 (unsigned long long)job->id, roles[i], job->attempt);
        picture->objects[i] = (struct kiln_commit_object){
            .role = roles[i],
            .key = picture->keys[i],
            .sha256 = sha256,
            .bytes = 1000,
            .width = i == 3 ? job->width / 8 : job->width,
            .height = i == 3 ? job->height / 8 : job->height,
            .content_type = i == 3 ? "application/zstd" : "image/webp",
        };
    }
    picture->commit = (struct kiln_commit){
        .job = job,
        .worker = "w0",
        .assignment = "a0",
        .model_hash = "cafe",
        .model_name = "sketch",
        .objects = picture->objects,
        .object_count = 4,
        .latent_encoding = "bf16",
        .latent_states = 1,
        .latent_channels = 16,
        .denoise_ms = 12.5,
    };
}
