/* credentials.h - the keys that S3 requests are signed with.
 *
 * Looked for in this order: the file of setting s3_credentials_file alone, if it is set;
 * AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; the shared credentials file
 * (AWS_SHARED_CREDENTIALS_FILE, else ~/.aws/credentials) with its profile.  Another
 * program renews temporary keys by rewriting the file; the store reads it again after ExpiredToken.
 */
#ifndef KILN_S3_CREDENTIALS_H
#define KILN_S3_CREDENTIALS_H

#include <stddef.h>

#include "schemas/error.h"

struct kiln_s3_credentials {
    char access_key[129];
    char secret_key[257];
    char session_token[4097]; /* "" for none */
    char origin[256];         /* where they were found, for messages; without secrets */
};

/* file: "" for the usual places.  profile: "" for AWS_PROFILE, else "default".  KILN_CONFIG says
 * where it looked. */
int kiln_s3_credentials_load(const char *file, const char *profile, struct kiln_s3_credentials *ret,
                             struct kiln_error *err) KILN_MUST_CHECK;
/* Reads a credentials file's text; name stands for it in errors. */
int kiln_s3_credentials_parse(const char *text, size_t len, const char *name, const char *profile,
                              struct kiln_s3_credentials *ret,
                              struct kiln_error *err) KILN_MUST_CHECK;
/* Overwrites the secrets. */
void kiln_s3_credentials_wipe(struct kiln_s3_credentials *credentials);

#endif
