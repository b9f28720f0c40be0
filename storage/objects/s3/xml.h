/* xml.h - the XML answers of S3 that Kiln reads: errors, pages of a listing, and the
 * failures of a deletion of many.
 *
 * A strict scanner for the XML that S3 servers write: elements, attributes (passed over), text,
 * the five named and the numeric entities.  A DOCTYPE, CDATA or own entities are
 * refused: no S3 server sends them.  Trusts nothing; allocates nothing.
 */
#ifndef KILN_S3_XML_H
#define KILN_S3_XML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

struct kiln_s3_error {
    char code[64];     /* "SignatureDoesNotMatch"; "" if the body holds none */
    char message[256]; /* cut to fit */
};

/* A body that is not an S3 error leaves *ret empty. */
void kiln_s3_parse_error(const char *xml, size_t len, struct kiln_s3_error *ret);

struct kiln_s3_entry {
    char key[1024 * 3 + 1]; /* S3 allows 1024 bytes; longer ones end the page with an error */
    uint64_t size;
    int64_t modified_s;
};

struct kiln_s3_page {
    bool truncated;   /* more pages follow */
    char token[4096]; /* for the next one */
};

typedef int kiln_s3_each(void *arg, const struct kiln_s3_entry *entry);

/* Calls each for every <Contents> of a ListBucketResult; a nonzero return ends it with that code.
 * KILN_PROTOCOL if the text is not such a page. */
int kiln_s3_parse_list(const char *xml, size_t len, kiln_s3_each *each, void *arg,
                       struct kiln_s3_page *ret, struct kiln_error *err) KILN_MUST_CHECK;

/* A failure of a multi-object delete. */
struct kiln_s3_refusal {
    char key[1024 * 3 + 1];
    char code[64], message[256];
};
typedef int kiln_s3_each_refusal(void *arg, const struct kiln_s3_refusal *refusal);

/* Calls each for every <Error> of a DeleteResult; a nonzero return ends it with that code.
 * KILN_PROTOCOL if the text is not such an answer. */
int kiln_s3_parse_deleted(const char *xml, size_t len, kiln_s3_each_refusal *each, void *arg,
                          struct kiln_error *err) KILN_MUST_CHECK;

#endif
