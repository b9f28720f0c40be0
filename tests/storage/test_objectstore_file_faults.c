/* test_objectstore_file_faults.c - the directory backend while the n-th call of one kind fails, for
 * every n: a put that says it worked has worked, one that says it failed has left nothing half
 * done, and the same put works once the disk is well again.
 *
 * The calls are wrapped in this program: a definition here comes before libc's. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/store.h"

enum call { OPENAT, WRITE, READ, FSYNC, CLOSE, RENAMEAT, MKDIRAT, UNLINKAT, MALLOC, CALLS };
static const char *const call_names[] = {"openat",   "write",   "read",     "fsync", "close",
                                         "renameat", "mkdirat", "unlinkat", "malloc"};

static enum call failing;
static int countdown; /* 0: nothing fails; 1: the next call does */
static int failure;   /* errno; -1 for a short write that then fails */
static bool keep_on;  /* from the n-th on, instead of once */

/* Whether this call is to fail; sets errno. */
static bool fails(enum call call)
{
    if (call != failing || countdown == 0)
        return false;
    if (--countdown > 0)
        return false;
    countdown = keep_on ? 1 : 0;
    errno = failure < 0 ? ENOSPC : failure;
    return true;
}

#define REAL(type, name) ((type)(uintptr_t)dlsym(RTLD_NEXT, name))

int openat(int dir, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    unsigned mode = flags & O_CREAT ? va_arg(args, unsigned) : 0;
    va_end(args);
    return fails(OPENAT)
               ? -1
               : REAL(int (*)(int, const char *, int, ...), "openat")(dir, path, flags, mode);
}

ssize_t write(int fd, const void *data, size_t size)
{
    ssize_t (*real)(int, const void *, size_t) =
        REAL(ssize_t(*)(int, const void *, size_t), "write");
    if (failing == WRITE && countdown == 1 && failure < 0 && size > 1) {
        failure = ENOSPC; /* half of it now, the error with the rest */
        return real(fd, data, size / 2);
    }
    return fails(WRITE) ? -1 : real(fd, data, size);
}

ssize_t read(int fd, void *data, size_t size)
{
    return fails(READ) ? -1 : REAL(ssize_t(*)(int, void *, size_t), "read")(fd, data, size);
}

int fsync(int fd)
{
    return fails(FSYNC) ? -1 : REAL(int (*)(int), "fsync")(fd);
}

int close(int fd)
{
    bool bad = fails(CLOSE);
    int number = errno, code = REAL(int (*)(int), "close")(fd); /* Linux closes it all the same */
    errno = bad ? number : errno;
    return bad ? -1 : code;
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return fails(RENAMEAT) ? -1
                           : REAL(int (*)(int, const char *, int, const char *),
                                  "renameat")(from_dir, from, to_dir, to);
}

int mkdirat(int dir, const char *path, mode_t mode)
{
    return fails(MKDIRAT) ? -1
                          : REAL(int (*)(int, const char *, mode_t), "mkdirat")(dir, path, mode);
}

int unlinkat(int dir, const char *path, int flags)
{
    return fails(UNLINKAT) ? -1
                           : REAL(int (*)(int, const char *, int), "unlinkat")(dir, path, flags);
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

static void arm(enum call call, int n, int number, bool on)
{
    failing = call;
    failure = number;
    keep_on = on;
    countdown = n;
}

/* True if the fault was still ahead: the sweep has passed the last call. */
static bool disarm(void)
{
    bool ahead = countdown > 0 && !keep_on;
    countdown = 0;
    return ahead;
}

#define OBJECTS 4
static const char *const keys[OBJECTS] = {"images/2026/11/7/full-aa.webp",
                                          "images/2026/11/7/512-bb.webp", "latents/m/7-cc.zst",
                                          "images/2026/11/7/old"};
static const char *const texts[OBJECTS] = {"the whole picture", "smaller", "", "the new content"};

static void fill(struct kiln_put puts[OBJECTS])
{
    for (int i = 0; i < OBJECTS; i++)
        puts[i] = (struct kiln_put){.key = keys[i], .data = texts[i], .size = strlen(texts[i])};
}

/* 0 if the object holds exactly this text. */
static int holds(struct kiln_store *store, const char *key, const char *text)
{
    void *data = NULL;
    size_t size = 0;
    int code = kiln_store_get(store, key, 1000, &data, &size, NULL);
    if (!code && (size != strlen(text) || memcmp(data, text, size) != 0))
        code = KILN_CORRUPT;
    free(data);
    return code;
}

static int no_half_written_files(void)
{
    return system("test -z \"$(find sweep -name '.put-*')\"");
}

static void check_after(struct kiln_store *store, const struct kiln_put *puts, enum call call,
                        int n)
{
    for (int i = 0; i < OBJECTS; i++) {
        int code = holds(store, keys[i], texts[i]);
        if (puts[i].code == KILN_OK && code)
            fail_msg("%s %d: %s was to be there: %d", call_names[call], n, keys[i], code);
        if (puts[i].code && !puts[i].error[0])
            fail_msg("%s %d: %s failed without a word", call_names[call], n, keys[i]);
        if (i == 3 && code && holds(store, keys[i], "the old content"))
            fail_msg("%s %d: neither the old nor the new content", call_names[call], n);
        if (i < 3 && code && code != KILN_NOT_FOUND)
            fail_msg("%s %d: %s is there in part", call_names[call], n, keys[i]);
    }
    if (call != UNLINKAT && no_half_written_files())
        fail_msg("%s %d: a temporary file stayed behind", call_names[call], n);
}

/* One round with the n-th call failing; false when n was beyond the last call. */
static bool round_with(enum call call, int n, int number, bool on)
{
    assert_int_equal(system("rm -rf sweep && mkdir -p sweep/images/2026/11/7 && "
                            "printf 'the old content' >sweep/images/2026/11/7/old"),
                     0);
    struct kiln_store *store = test_file_store("sweep");
    struct kiln_put puts[OBJECTS];
    struct kiln_error err = {0};
    fill(puts);
    arm(call, n, number, on);
    int code = kiln_store_put(store, puts, OBJECTS, &err);
    bool beyond = disarm();
    int failed = 0;
    for (int i = 0; i < OBJECTS; i++)
        failed += puts[i].code != KILN_OK;
    assert_int_equal(code != KILN_OK, failed > 0);
    if (code && number == ENOSPC && call == WRITE)
        assert_int_equal(code, KILN_FULL);
    check_after(store, puts, call, n);
    fill(puts);
    if (kiln_store_put(store, puts, OBJECTS, &err))
        fail_msg("%s %d, once it is well again: %s", call_names[call], n, err.text);
    for (int i = 0; i < OBJECTS; i++)
        assert_int_equal(holds(store, keys[i], texts[i]), 0);
    kiln_store_close(store);
    return !beyond;
}

static int sweep(enum call call, int number)
{
    int n = 1;
    while (round_with(call, n, number, false)) {
        if (n <= 3)
            round_with(call, n, number, true);
        n++;
        assert_true(n < 500);
    }
    return n - 1;
}

static void every_call_may_fail(void **state)
{
    (void)state;
    static const struct {
        enum call call;
        int number;
    } rows[] = {{OPENAT, EMFILE}, {OPENAT, EACCES},  {WRITE, ENOSPC},  {WRITE, -1},
                {WRITE, EIO},     {READ, EIO},       {FSYNC, EIO},     {CLOSE, EIO},
                {RENAMEAT, EIO},  {MKDIRAT, ENOSPC}, {UNLINKAT, EROFS}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int calls = sweep(rows[i].call, rows[i].number);
        print_message("%s failed at each of %d calls\n", call_names[rows[i].call], calls);
        assert_true(calls > 0 || rows[i].call == UNLINKAT);
    }
}

/* Of many files in several directories one fails, the others arrive; the next call brings it. */
static void a_large_batch_may_fail(void **state)
{
    (void)state;
    enum { MANY = 20 };
    char names[MANY][64];
    static const enum call calls[] = {FSYNC, RENAMEAT, WRITE, CLOSE};
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        bool ahead = false;
        int n = 1;
        for (; !ahead && n < 200; n++) {
            assert_int_equal(system("rm -rf sweep && mkdir sweep"), 0);
            struct kiln_store *store = test_file_store("sweep");
            for (int again = 0; again < 2; again++) {
                struct kiln_put puts[MANY] = {{0}};
                for (int i = 0; i < MANY; i++) {
                    snprintf(names[i], sizeof names[i], "images/%d/%d.webp", i / 3, i);
                    puts[i] = (struct kiln_put){.key = names[i], .data = names[i], .size = 9};
                }
                if (!again)
                    arm(calls[c], n, EIO, false);
                int code = kiln_store_put(store, puts, MANY, NULL), failed = 0;
                ahead = again ? ahead : disarm();
                for (int i = 0; i < MANY; i++) {
                    void *data = NULL;
                    size_t size = 0;
                    failed += puts[i].code != KILN_OK;
                    int got = kiln_store_get(store, names[i], 100, &data, &size, NULL);
                    assert_true(got == KILN_OK || puts[i].code != KILN_OK);
                    assert_true(got != KILN_OK || (size == 9 && !memcmp(data, names[i], 9)));
                    free(data);
                }
                assert_int_equal(code != KILN_OK, failed > 0);
                assert_true(!again || !code);
                assert_true(failed == 0 || (!again && !ahead)); /* a directory may close badly */
                assert_int_equal(no_half_written_files(), 0);
            }
            kiln_store_close(store);
        }
        print_message("%s failed at each of %d calls\n", call_names[calls[c]], n - 2);
    }
}

/* Each file and each directory is synced once a call, the one above those of all jobs too. */
static void nothing_is_synced_twice(void **state)
{
    (void)state;
    enum { JOBS = 8, FEW = 1000 };
    char names[2 * JOBS][64];
    struct kiln_error put_err;
    assert_int_equal(system("rm -rf sweep && mkdir sweep"), 0);
    struct kiln_store *store = test_file_store("sweep");
    struct kiln_put first = {.key = "images/2026/11/7/full.webp", .data = "a", .size = 1};
    assert_int_equal(kiln_store_put(store, &first, 1, &put_err), 0);
    struct kiln_put puts[2 * JOBS] = {{0}};
    for (int i = 0; i < 2 * JOBS; i++) {
        snprintf(names[i], sizeof names[i], "images/2026/11/%d/%d.webp", 10 + i / 2, i % 2);
        puts[i] = (struct kiln_put){.key = names[i], .data = names[i], .size = 9};
    }
    arm(FSYNC, FEW, EIO, false);
    int code = kiln_store_put(store, puts, 2 * JOBS, &put_err), synced = FEW - countdown;
    assert_true(disarm());
    assert_int_equal(code, 0);
    assert_int_equal(synced, 2 * JOBS + JOBS + 1);
    kiln_store_close(store);
}

static void interrupted_calls_go_on(void **state)
{
    (void)state;
    struct kiln_store *store = test_file_store("signals");
    struct kiln_put puts[OBJECTS];
    fill(puts);
    arm(WRITE, 1, EINTR, false);
    assert_int_equal(kiln_store_put(store, puts, OBJECTS, NULL), 0);
    arm(READ, 1, EINTR, false);
    assert_int_equal(holds(store, keys[0], texts[0]), 0);
    disarm();
    kiln_store_close(store);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    int n = 1;
    while (round_with(MALLOC, n, ENOMEM, false))
        assert_true(++n < 500);
    print_message("malloc failed at each of %d calls\n", n - 1);
    assert_true(n > 1);
    for (n = 1;; n++) { /* opening and listing */
        struct kiln_config *config = test_config((const char *[]){"store", "file:///tmp", NULL});
        struct kiln_store *store = NULL;
        arm(MALLOC, n, ENOMEM, false);
        int code = kiln_store_open(config, &store, NULL);
        bool beyond = disarm();
        assert_true(code == KILN_OK || (code == KILN_NO_MEMORY && !store));
        kiln_store_close(store);
        kiln_config_free(config);
        if (beyond)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_may_fail),       cmocka_unit_test(a_large_batch_may_fail),
        cmocka_unit_test(nothing_is_synced_twice),   cmocka_unit_test(interrupted_calls_go_on),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
