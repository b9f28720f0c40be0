/* uploads.h - pictures that jobs start from, and masks: from a path to the key of an object.
 *
 * Each distinct file of a call is checked once, and read and stored once more under the SHA-256 of
 * its bytes, before the first job that names it is sent.  A path is relative to the current
 * directory.  Only regular files are read; links are followed, since the user who names a file may
 * read it.
 */
#ifndef KILN_ENQUEUE_UPLOADS_H
#define KILN_ENQUEUE_UPLOADS_H

#include "scheduler/cli/jobs/enqueue/digest_map.h"
#include "schemas/config/config.h"
#include "schemas/error.h"
#include "schemas/job.h"

struct kiln_input_picture;
struct kiln_store;

/* Starts as {0}. */
struct kiln_uploads {
    struct kiln_digest_map paths;  /* the place of each path in `at`, from 1 */
    struct kiln_input_picture *at; /* [count] */
    size_t count, room;
    struct kiln_store *store; /* opened by the first upload */
};

/* Replaces the job's init_image and init_mask, paths or keys, by keys.  send: stores the files, or
 * looks whether the store has the keys; without it nothing is stored and the store is not asked.
 * A mask must fit the picture, where both are files; else the worker checks that.  KILN_BAD_INPUT
 * refuses this job; any other code is a failure of the store. */
int kiln_upload_inputs(struct kiln_uploads *uploads, const struct kiln_config *config, bool send,
                       struct kiln_job *job, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_uploads_release(struct kiln_uploads *uploads);

#endif
