/* faultproxy.h - an HTTP proxy in front of an S3 server that misbehaves by script.
 *
 * It runs as a child process with a thread for each connection.  A script is a list of rules; a
 * request takes the first rule with its method and some count left, or passes untouched.
 */
#ifndef KILN_TEST_FAULTPROXY_H
#define KILN_TEST_FAULTPROXY_H

#include <stdint.h>

enum test_fault {
    FAULT_NONE,          /* pass it on */
    FAULT_503,           /* SlowDown, not passed on */
    FAULT_500_HTML,      /* a 500 whose body is a web page */
    FAULT_SLOW,          /* passed on; the answer comes arg ms late */
    FAULT_HANG,          /* not passed on, never answered */
    FAULT_TRUNCATE,      /* passed on; the answer's body ends half way */
    FAULT_RESET_BEFORE,  /* the connection is reset while the body is still coming */
    FAULT_RESET_AFTER,   /* passed on; then reset instead of an answer */
    FAULT_CLOSE_AFTER,   /* answered well, but the kept connection is closed without a word */
    FAULT_WRONG_ETAG,    /* passed on; another ETag in the answer */
    FAULT_FLIP,          /* passed on; one bit of the answer's body flipped */
    FAULT_REDIRECT,      /* 307 to another host */
    FAULT_GARBAGE,       /* an answer that is no HTTP */
    FAULT_EXPIRED,       /* 400 ExpiredToken */
    FAULT_CONFLICT,      /* 409 ConditionalRequestConflict */
    FAULT_PRECONDITION,  /* passed on; answered with 412 */
    FAULT_DENY,          /* 403 without a body */
    FAULT_UNKNOWN,       /* 501 NotImplemented */
    FAULT_COUNT
};

struct test_fault_rule {
    const char *method; /* "PUT"; "" for any */
    enum test_fault fault;
    int count;          /* requests that it takes */
    int arg;
};

struct test_proxy_counts {
    int connections, requests, skewed; /* skewed: refused for their clock */
    int puts_passed, heads, rules_left;
};

struct test_proxy;

struct test_proxy *test_proxy_start(int upstream_port);
void test_proxy_stop(struct test_proxy *proxy); /* accepts NULL */
int test_proxy_port(const struct test_proxy *proxy);

/* Replaces the script and zeroes the counts. */
void test_proxy_script(struct test_proxy *proxy, const struct test_fault_rule *rules, int count);
/* From now on the proxy's clock is this many seconds ahead, and it refuses whoever is more than a
 * minute off (RequestTimeTooSkewed); 0 ends that. */
void test_proxy_clock(struct test_proxy *proxy, int ahead_s);
struct test_proxy_counts test_proxy_counts(struct test_proxy *proxy);

#endif
