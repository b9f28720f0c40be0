/* test_objectstore_s3_faults.c - the S3 backend while the n-th call of one kind fails, for every n,
 * in front of a real Swift: a connection that breaks is made again, memory that lacks is an error
 * that says so, and what a put reports is what the store holds.
 *
 * The calls are wrapped in this program, so that those of libcurl count too: a definition here
 * comes before libc's. */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "tests/support/swift.h"

enum call { SOCKET, CONNECT, SEND, RECV, MALLOC, CALLS };
static const char *const call_names[CALLS] = {"socket", "connect", "send", "recv", "malloc"};

static enum call failing;
static int countdown; /* 0: nothing fails; 1: the next call does */

static bool fails(enum call call)
{
    if (call != failing || countdown == 0 || --countdown > 0)
        return false;
    errno = call == MALLOC ? ENOMEM : call == SOCKET ? EMFILE : ECONNRESET;
    return true;
}

#define REAL(type, name) ((type)(uintptr_t)dlsym(RTLD_NEXT, name))

int socket(int domain, int type, int protocol)
{
    return fails(SOCKET) ? -1 : REAL(int (*)(int, int, int), "socket")(domain, type, protocol);
}

int connect(int fd, const struct sockaddr *at, socklen_t size)
{
    return fails(CONNECT)
               ? -1
               : REAL(int (*)(int, const struct sockaddr *, socklen_t), "connect")(fd, at, size);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    return fails(SEND)
               ? -1
               : REAL(ssize_t(*)(int, const void *, size_t, int), "send")(fd, data, size, flags);
}

ssize_t recv(int fd, void *data, size_t size, int flags)
{
    return fails(RECV) ? -1
                       : REAL(ssize_t(*)(int, void *, size_t, int), "recv")(fd, data, size, flags);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* own malloc */
extern void *__libc_malloc(size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_calloc(size_t count, size_t size);
void *malloc(size_t size)
{
    return fails(MALLOC) ? NULL : __libc_malloc(size);
}
void *realloc(void *old, size_t size)
{
    return fails(MALLOC) ? NULL : __libc_realloc(old, size);
}
void *calloc(size_t count, size_t size)
{
    return fails(MALLOC) ? NULL : __libc_calloc(count, size);
}
#endif

/* --- what is tried ------------------------------------------------------------------------- */

static struct test_swift *swift;
static char body[20000];

static int put(struct kiln_store *store, const char *key, struct kiln_error *err)
{
    struct kiln_put one = {.key = key, .data = body, .size = sizeof body};
    return kiln_store_put(store, &one, 1, err);
}

/* 0 if the object holds the body. */
static int get(struct kiln_store *store, const char *key, struct kiln_error *err)
{
    void *data = NULL;
    size_t size = 0;
    int code = kiln_store_get(store, key, 2 * sizeof body, &data, &size, err);
    if (!code && (size != sizeof body || memcmp(data, body, size) != 0))
        code = kiln_fail(err, KILN_INTERNAL, "%s came back as %zu other bytes", key, size);
    free(data);
    return code;
}

static int note(void *arg, const char *key, uint64_t size, int64_t modified_s)
{
    (void)modified_s;
    *(bool *)arg |= strcmp(key, "there") == 0 && size == sizeof body;
    return 0;
}

static int list(struct kiln_store *store, const char *key, struct kiln_error *err)
{
    bool seen = false;
    (void)key;
    int code = kiln_store_list(store, "", note, &seen, err);
    return code || seen ? code : kiln_fail(err, KILN_INTERNAL, "the list lacks an object");
}

typedef int operation(struct kiln_store *store, const char *key, struct kiln_error *err);

/* The operation on a fresh store, whose first connection is part of it, with the n-th call failing.
 * False when n was beyond the last call. */
static bool round_with(enum call call, operation *try, const char *key, int n)
{
    struct kiln_store *store = test_s3_store(test_swift_port(swift), "sweep", NULL);
    struct kiln_error err = {0};
    failing = call;
    countdown = n;
    int code = try(store, key, &err);
    bool beyond = countdown > 0;
    countdown = 0;
    if (code && !err.text[0])
        fail_msg("%s %d: code %d without a word", call_names[call], n, code);
    if (code && call != MALLOC)
        fail_msg("%s %d was not recovered from: %s", call_names[call], n, err.text);
    if (code == KILN_INTERNAL || (code && beyond))
        fail_msg("%s %d: %s", call_names[call], n, err.text);
    if (try == put && code == KILN_OK && get(store, key, &err))
        fail_msg("%s %d: the put said that it worked: %s", call_names[call], n, err.text);
    if (code && try(store, key, &err)) /* the same store, once all is well */
        fail_msg("%s %d, afterwards: %s", call_names[call], n, err.text);
    kiln_store_close(store);
    return !beyond;
}

/* Allocations are many and alike: after the first forty every seventh is tried. */
static void sweep(enum call call, operation *try, const char *name)
{
    int n = 1, tried = 1;
    char key[40];
    snprintf(key, sizeof key, "there");
    for (;; tried++) {
        if (try == put)
            snprintf(key, sizeof key, "put/%s/%d", call_names[call], n);
        if (!round_with(call, try, key, n))
            break;
        n += call == MALLOC && n > 40 ? 7 : 1;
        assert_true(n < 5000);
    }
    print_message("%s: %s failed at %d of up to %d calls\n", name, call_names[call], tried - 1,
                  n - 1);
    assert_true(tried > 1);
}

static void sweep_all(operation *try, const char *name)
{
    for (int call = 0; call < CALLS; call++) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
        if (call == MALLOC)
            continue;
#endif
        sweep(call, try, name);
    }
}

static void a_put_survives(void **state)
{
    (void)state;
    sweep_all(put, "put");
}

static void a_get_survives(void **state)
{
    (void)state;
    sweep_all(get, "get");
}

static void a_list_survives(void **state)
{
    (void)state;
    sweep_all(list, "list");
}

int main(void)
{
    swift = test_swift_start();
    if (!swift)
        return 77;
    struct kiln_store *store = test_s3_store(test_swift_port(swift), "sweep", NULL);
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (char)(i * 31 + i / 251);
    if (put(store, "there", NULL))
        return 1;
    kiln_store_close(store);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_put_survives),
        cmocka_unit_test(a_get_survives),
        cmocka_unit_test(a_list_survives),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_swift_stop(swift);
    return failed;
}
