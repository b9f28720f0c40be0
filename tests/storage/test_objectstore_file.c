/* test_objectstore_file.c - the directory backend: what is put is there, whole, in key order, and
 * a put that fails leaves nothing behind. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "schemas/limits.h"
#include "tests/support/store.h"

#define SHA256_OF_ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

static int put_text(struct kiln_store *store, const char *key, const char *text,
                    struct kiln_error *err)
{
    struct kiln_put put = {
        .key = key, .data = text, .size = strlen(text), .content_type = "text/plain"};
    return kiln_store_put(store, &put, 1, err);
}

static void must_put(struct kiln_store *store, const char *key, const char *text)
{
    struct kiln_error err = {0};
    if (put_text(store, key, text, &err))
        fail_msg("%s", err.text);
}

static void must_hold(struct kiln_store *store, const char *key, const char *text)
{
    struct kiln_error err = {0};
    void *data = NULL;
    size_t size = 0;
    if (kiln_store_get(store, key, 1 << 20, &data, &size, &err))
        fail_msg("%s", err.text);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(data, text, size);
    free(data);
}

/* Files anywhere under dir whose name starts with ".put-". */
static int count_temporary(const char *dir)
{
    char command[PATH_MAX + 64];
    snprintf(command, sizeof command, "test $(find '%s' -name '.put-*' | wc -l) = 0", dir);
    return system(command);
}

static void put_get_head_delete(void **state)
{
    (void)state;
    struct kiln_store *store = test_file_store("basic");
    struct kiln_error err = {0};
    struct kiln_put puts[3] = {
        {.key = "images/2026/11/7/full-aa.webp", .data = "abc", .size = 3},
        {.key = "images/2026/11/7/512-bb.webp", .data = "", .size = 0},
        {.key = "latents/m/2026/11/7-cc.safetensors.zst", .data = "latent", .size = 6},
    };
    assert_int_equal(kiln_store_put(store, puts, 3, &err), 0);
    assert_string_equal(puts[0].sha256, SHA256_OF_ABC);
    must_hold(store, puts[0].key, "abc");
    must_hold(store, puts[1].key, "");
    uint64_t size = 99;
    assert_int_equal(kiln_store_head(store, puts[2].key, &size, &err), 0);
    assert_int_equal(size, 6);
    int fd = -1;
    char bytes[8] = "", *url = NULL;
    assert_int_equal(kiln_store_open_object(store, puts[0].key, &fd, &size, &err), 0);
    assert_int_equal(size, 3);
    assert_int_equal(read(fd, bytes, sizeof bytes), 3);
    assert_string_equal(bytes, "abc");
    close(fd);
    assert_int_equal(kiln_store_open_object(store, "images/2026", &fd, &size, &err),
                     KILN_NOT_FOUND);
    assert_int_equal(kiln_store_open_object(store, "../x", &fd, &size, &err), KILN_BAD_INPUT);
    assert_int_equal(kiln_store_presign(store, puts[0].key, 0, 60, &url, &err), KILN_UNSUPPORTED);
    assert_null(kiln_store_origin(store));
    assert_int_equal(kiln_store_delete(store, puts[2].key, &err), 0);
    assert_int_equal(kiln_store_delete(store, puts[2].key, &err), 0);
    assert_int_equal(kiln_store_head(store, puts[2].key, &size, &err), KILN_NOT_FOUND);
    assert_int_equal(access("basic/latents", F_OK), -1); /* emptied directories go too */
    assert_int_equal(access("basic/images/2026/11/7", F_OK), 0);
    assert_int_equal(kiln_store_probe(store, 0, &err), 0);
    assert_int_equal(count_temporary("basic"), 0);
    assert_int_equal(kiln_store_reach(store, &err), 0);
    assert_int_equal(rename("basic", "moved"), 0); /* unmounted, for whoever looks */
    assert_int_equal(kiln_store_reach(store, &err), KILN_NOT_FOUND);
    kiln_store_close(store);
}

static void a_repeated_put_keeps_the_file(void **state)
{
    (void)state;
    struct kiln_store *store = test_file_store("again");
    struct kiln_error err = {0};
    struct stat before, after;
    must_put(store, "a/b", "same");
    assert_int_equal(stat("again/a/b", &before), 0);
    struct kiln_put puts[2] = {{.key = "a/b", .data = "same", .size = 4},
                               {.key = "a/c", .data = "same", .size = 4, .was_there = true}};
    assert_int_equal(kiln_store_put(store, puts, 2, &err), 0);
    assert_true(puts[0].was_there);
    assert_false(puts[1].was_there);
    assert_int_equal(stat("again/a/b", &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    must_put(store, "a/b", "different");
    must_hold(store, "a/b", "different");
    assert_int_equal(truncate("again/a/b", 4), 0); /* damaged on disk: a new put heals it */
    must_put(store, "a/b", "different");
    must_hold(store, "a/b", "different");
    kiln_store_close(store);
}

/* What a killed put left goes with the next opening; what another process writes just now stays. */
static void old_temporary_files_are_removed(void **state)
{
    (void)state;
    struct kiln_store *store = test_file_store("left");
    must_put(store, "a/b", "kept");
    kiln_store_close(store);
    const struct timespec long_ago[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(system("cd left && touch .put-old .put-new other a/.keep"), 0);
    assert_int_equal(utimensat(AT_FDCWD, "left/.put-old", long_ago, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, "left/other", long_ago, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, "left/a/b", long_ago, 0), 0);
    store = test_file_store("left");
    assert_int_equal(access("left/.put-old", F_OK), -1);
    assert_int_equal(access("left/.put-new", F_OK), 0);
    assert_int_equal(access("left/other", F_OK), 0);
    must_hold(store, "a/b", "kept");
    kiln_store_close(store);
}

/* A directory below the root that is another file system, to which no rename leads. */
static void another_disk_below_the_root(void **state)
{
    (void)state;
    assert_int_equal(system("mkdir -p disks/images"), 0);
    if (mount("tmpfs", "disks/images", "tmpfs", 0, "size=64k") != 0) {
        print_message("skip: no right to mount: %s\n", strerror(errno));
        skip();
    }
    struct kiln_store *store = test_file_store("disks");
    struct kiln_error err = {0};
    int there = put_text(store, "images/a/b", "there", &err);
    int here = put_text(store, "latents/a", "here", &err);
    int left = count_temporary("disks");
    kiln_store_close(store);
    assert_int_equal(umount2("disks/images", MNT_DETACH), 0);
    if (there || here)
        fail_msg("%s", err.text);
    assert_int_equal(left, 0);
}

static void bad_keys_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",       "/a",       "a/",   "a//b", "..",
                                      "a/../b", ".",        "a/.b", "a b",  "a\\b",
                                      "a%2fb",  "\xc3\xa4", "a\nb", "a?b",  ".put-1"};
    struct kiln_store *store = test_file_store("keys");
    struct kiln_error err = {0};
    uint64_t size;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err.text[0] = '\0';
        assert_int_equal(put_text(store, bad[i], "x", &err), KILN_BAD_INPUT);
        assert_non_null(strstr(err.text, "object key"));
        assert_int_equal(kiln_store_head(store, bad[i], &size, &err), KILN_BAD_INPUT);
        assert_int_equal(kiln_store_delete(store, bad[i], &err), KILN_BAD_INPUT);
    }
    char key[KILN_OBJECT_KEY_MAX + 2];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    assert_int_equal(put_text(store, key, "x", &err), KILN_BAD_INPUT);
    key[200] = key[400] = '/';
    assert_int_equal(put_text(store, key, "x", &err), KILN_BAD_INPUT); /* 513 bytes */
    key[KILN_OBJECT_KEY_MAX] = '\0';
    must_put(store, key, "longest");
    must_hold(store, key, "longest");
    kiln_store_close(store);
}

static void one_bad_put_does_not_stop_the_others(void **state)
{
    (void)state;
    struct kiln_store *store = test_file_store("mixed");
    struct kiln_error err = {0};
    must_put(store, "file", "I am not a directory");
    struct kiln_put puts[4] = {
        {.key = "ok/1", .data = "1", .size = 1},
        {.key = "../etc/passwd", .data = "2", .size = 1},
        {.key = "file/under", .data = "3", .size = 1},
        {.key = "ok/4", .data = "4", .size = 1},
    };
    assert_int_equal(kiln_store_put(store, puts, 4, &err), KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "../etc/passwd"));
    assert_int_equal(puts[0].code, 0);
    assert_int_equal(puts[1].code, KILN_BAD_INPUT);
    assert_int_equal(puts[2].code, KILN_BAD_INPUT);
    assert_non_null(strstr(puts[2].error, "file"));
    assert_int_equal(puts[3].code, 0);
    must_hold(store, "ok/1", "1");
    must_hold(store, "ok/4", "4");
    kiln_store_close(store);
}

struct listing {
    char text[4096];
    int stop_after;
};

static int note(void *arg, const char *key, uint64_t size, int64_t modified_s)
{
    struct listing *listing = arg;
    assert_true(modified_s > 1600000000);
    size_t len = strlen(listing->text);
    snprintf(listing->text + len, sizeof listing->text - len, "%s=%llu ", key,
             (unsigned long long)size);
    return listing->stop_after && --listing->stop_after == 0 ? KILN_CANCELLED : 0;
}

static void list_is_in_key_order(void **state)
{
    (void)state;
    static const char *const keys[] = {"b", "a/z", "a.b", "a-b", "a0", "a/b/c", "a/b.c", "c/d/e/f"};
    struct kiln_store *store = test_file_store("list");
    struct kiln_error err = {0};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        must_put(store, keys[i], keys[i]);
    assert_int_equal(symlink("/etc/passwd", "list/link"), 0);
    assert_int_equal(close(open("list/.put-0000", O_CREAT | O_WRONLY, 0600)), 0);
    struct listing all = {0}, sub = {0}, half = {0}, none = {0}, stop = {.stop_after = 2};
    assert_int_equal(kiln_store_list(store, "", note, &all, &err), 0);
    assert_string_equal(all.text, "a-b=3 a.b=3 a/b.c=5 a/b/c=5 a/z=3 a0=2 b=1 c/d/e/f=7 ");
    assert_int_equal(kiln_store_list(store, "a/b", note, &sub, &err), 0);
    assert_string_equal(sub.text, "a/b.c=5 a/b/c=5 ");
    assert_int_equal(kiln_store_list(store, "c/d/e/f", note, &half, &err), 0);
    assert_string_equal(half.text, "c/d/e/f=7 ");
    assert_int_equal(kiln_store_list(store, "c/d/e/f/g", note, &none, &err), 0);
    assert_string_equal(none.text, "");
    assert_int_equal(kiln_store_list(store, "", note, &stop, &err), KILN_CANCELLED);
    assert_string_equal(stop.text, "a-b=3 a.b=3 ");
    assert_int_equal(kiln_store_list(store, "../", note, &none, &err), 0);
    assert_string_equal(none.text, "");
    assert_int_equal(kiln_store_list(store, "a b", note, &none, &err), KILN_BAD_INPUT);
    kiln_store_close(store);
}

static void reading_is_bounded_and_never_leaves_the_root(void **state)
{
    (void)state;
    struct kiln_store *store = test_file_store("bounds");
    struct kiln_error err = {0};
    void *data = NULL;
    size_t size = 0;
    must_put(store, "a", "0123456789");
    assert_int_equal(kiln_store_get(store, "a", 9, &data, &size, &err), KILN_FULL);
    assert_null(data);
    assert_int_equal(kiln_store_get(store, "a", 10, &data, &size, &err), 0);
    free(data);
    assert_int_equal(kiln_store_get(store, "none", 10, &data, &size, &err), KILN_NOT_FOUND);
    assert_int_equal(kiln_store_get(store, "a/b", 10, &data, &size, &err), KILN_NOT_FOUND);
    assert_int_equal(symlink("/etc/passwd", "bounds/link"), 0);
    assert_int_equal(kiln_store_get(store, "link", 1 << 20, &data, &size, &err), KILN_IO);
    assert_int_equal(mkfifo("bounds/fifo", 0600), 0);
    assert_int_equal(kiln_store_get(store, "fifo", 10, &data, &size, &err), KILN_NOT_FOUND);
    kiln_store_close(store);
}

static void bad_urls_name_what_is_wanted(void **state)
{
    (void)state;
    static const char *const urls[] = {"",         "/var/kiln", "file://relative",
                                       "file:///", "file://",   "ftp://x/y"};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct kiln_config *config = test_config((const char *[]){"store", urls[i], NULL});
        struct kiln_store *store = NULL;
        struct kiln_error err = {0};
        assert_int_equal(kiln_store_open(config, &store, &err), KILN_CONFIG);
        assert_non_null(strstr(err.text, "file:///directory"));
        assert_null(store);
        kiln_config_free(config);
    }
}

/* A file size limit stands in for a full disk: write fails half way, with what was written left. */
static void a_disk_that_fills_leaves_no_half_object(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        struct kiln_store *store = test_file_store("full");
        struct rlimit limit = {100000, 100000};
        setrlimit(RLIMIT_FSIZE, &limit);
        signal(SIGXFSZ, SIG_IGN);
        static char big[200000];
        struct kiln_error err = {0};
        struct kiln_put put = {.key = "big", .data = big, .size = sizeof big};
        int code = kiln_store_put(store, &put, 1, &err);
        uint64_t size;
        bool gone = kiln_store_head(store, "big", &size, NULL) == KILN_NOT_FOUND;
        kiln_store_close(store);
        _exit(code == KILN_FULL && gone && strstr(err.text, "big") ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(count_temporary("full"), 0);
}

/* Puts and deletes of neighbours at once: the directory comes and goes under the writer. */
static void puts_survive_deletes_next_door(void **state)
{
    (void)state;
    struct kiln_store *store = test_file_store("race");
    pid_t child = fork();
    if (child == 0) {
        struct kiln_store *other = test_file_store("race");
        for (int i = 0; i < 300; i++)
            if (put_text(other, "d/e/mine", "x", NULL) ||
                kiln_store_delete(other, "d/e/mine", NULL))
                _exit(1);
        _exit(0);
    }
    for (int i = 0; i < 300; i++) {
        struct kiln_error err = {0};
        must_put(store, "d/e/yours", "y");
        must_hold(store, "d/e/yours", "y");
        assert_int_equal(kiln_store_delete(store, "d/e/yours", &err), 0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    kiln_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_get_head_delete),
        cmocka_unit_test(a_repeated_put_keeps_the_file),
        cmocka_unit_test(old_temporary_files_are_removed),
        cmocka_unit_test(another_disk_below_the_root),
        cmocka_unit_test(bad_keys_are_refused),
        cmocka_unit_test(one_bad_put_does_not_stop_the_others),
        cmocka_unit_test(list_is_in_key_order),
        cmocka_unit_test(reading_is_bounded_and_never_leaves_the_root),
        cmocka_unit_test(bad_urls_name_what_is_wanted),
        cmocka_unit_test(a_disk_that_fills_leaves_no_half_object),
        cmocka_unit_test(puts_survive_deletes_next_door),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
