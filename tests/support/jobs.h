/* jobs.h - job records for tests of the queue. */
#ifndef KILN_TEST_JOBS_H
#define KILN_TEST_JOBS_H

#include "storage/ledger/ledger.h"

/* A plain job: 256x256, 8 steps, prompt "picture INDEX", key "kINDEX", token "t".  The texts live
 * until kiln_test_jobs_free. */
struct kiln_new_job *kiln_test_jobs(const char *batch, size_t count);
void kiln_test_jobs_free(struct kiln_new_job *jobs, size_t count);

/* Inserts count plain jobs of pool "p"; fails the test if not all are new. */
void kiln_test_insert(struct kiln_ledger *ledger, const char *batch, size_t count);

/* The commit of a picture with its three objects and a latent. */
struct kiln_test_picture {
    struct kiln_commit commit;
    struct kiln_commit_object objects[4];
    char keys[4][64];
};
void kiln_test_picture(struct kiln_test_picture *picture, const struct kiln_job *job);

/* Fails the test with the error's text unless rc is 0. */
#define kiln_test_ok(rc, err)                                                                      \
    do {                                                                                           \
        int rc_ = (rc);                                                                            \
        if (rc_ != 0)                                                                              \
            fail_msg("%s: %s", kiln_code_name(rc_), (err).text);                                   \
    } while (0)

#endif
