/* error.h - how every part of Kiln reports a failure.
 *
 * A function that can fail returns 0 or one of the codes below, writes a
 * sentence for people into the caller's struct kiln_error, and leaves its
 * outputs untouched.  The sentence says what happened, to which thing, where.
 * Library code never prints; the programs' main functions do.
 *
 *     if (fd < 0)
 *         return kiln_fail(err, KILN_IO, "open %s: %s", path, strerror(errno));
 */
#ifndef KILN_ERROR_H
#define KILN_ERROR_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_MUST_CHECK __attribute__((warn_unused_result))
#define KILN_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* The numbers are stored in the ledger and never change meaning; add at the end. */
enum kiln_code {
    KILN_OK = 0,
    KILN_BAD_INPUT = 1,   /* the caller's data is wrong; the same call fails again */
    KILN_NOT_FOUND = 2,   /* the named thing does not exist */
    KILN_EXISTS = 3,      /* it exists already */
    KILN_FULL = 4,        /* a bound is reached; later may work */
    KILN_STALE = 5,       /* someone else owns it by now (attempt, lease, leader) */
    KILN_IO = 6,          /* disk or file system */
    KILN_UNAVAILABLE = 7, /* a server does not answer; later may work */
    KILN_TIMEOUT = 8,     /* it did not end in its time */
    KILN_DENIED = 9,      /* wrong credentials or rights */
    KILN_PROTOCOL = 10,   /* an answer that makes no sense */
    KILN_NO_MEMORY = 11,
    KILN_CANCELLED = 12,   /* stopped on request */
    KILN_DEVICE = 13,      /* the GPU or the tensor library failed */
    KILN_CORRUPT = 14,     /* stored bytes are damaged */
    KILN_UNSUPPORTED = 15, /* valid, but Kiln does not do it */
    KILN_CONFIG = 16,      /* a setting is missing or wrong */
    KILN_INTERNAL = 17,    /* a bug in Kiln */
    KILN_POISONED = 18,    /* the job crashed its worker too often */
    KILN_NOT_FINITE = 19,  /* a picture's values overflowed, on a working device */
    KILN_CODE_COUNT
};

#define KILN_ERROR_TEXT_MAX 1024

struct kiln_error {
    int code; /* enum kiln_code */
    char text[KILN_ERROR_TEXT_MAX];
};

/* Fills *err (which may be NULL) and returns code, for `return kiln_fail(...)`. */
int kiln_fail(struct kiln_error *err, int code, const char *fmt, ...) KILN_PRINTF(3, 4);

/* Adds "what: " before the text of an error that is passed on; returns its code. */
int kiln_fail_in(struct kiln_error *err, const char *fmt, ...) KILN_PRINTF(2, 3);

/* "bad_input", ...; stable, used in JSON and in the ledger.  "unknown" if out of range. */
const char *kiln_code_name(int code);
/* The code of a name, or -1. */
int kiln_code_by_name(const char *name);
/* One sentence that explains the code to a person. */
const char *kiln_code_sentence(int code);
/* The exit status of a program that ends with it (sysexits.h). */
int kiln_code_exit(int code);
/* When the same call may succeed: the only list of what is worth a retry. */
enum kiln_retry {
    KILN_RETRY_NEVER,     /* the input, the state or the program is wrong */
    KILN_RETRY_LATER,     /* a server does not answer, or a disk is full: wait */
    KILN_RETRY_ELSEWHERE, /* this process, machine or device may be the cause: a new attempt may
                             work */
    KILN_RETRY_REPAIRED,  /* once somebody has corrected a setting or a right */
};
enum kiln_retry kiln_code_retry(int code);
/* Whether a job that ended with this code deserves another attempt: later or elsewhere. */
bool kiln_code_retryable(int code);

#ifdef __cplusplus
}
#endif
#endif
