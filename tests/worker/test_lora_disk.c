/* test_lora_disk.c - the disk cache of LoRA files, on a store in a directory. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "schemas/digest.h"
#include "schemas/job.h"
#include "worker/state/lora_disk.h"

#define BYTES 1000 /* of each file */
#define THREADS 8

struct rig {
    char dir[64], cache[80];
    struct kiln_config *config;
    struct kiln_store *store;
};

static int set_up(void **state)
{
    static struct rig rig;
    char url[100];
    struct kiln_error err;
    snprintf(rig.dir, sizeof rig.dir, "/tmp/kiln-lora-disk-XXXXXX");
    assert_non_null(mkdtemp(rig.dir));
    snprintf(rig.cache, sizeof rig.cache, "%s/deep/cache", rig.dir);
    snprintf(url, sizeof url, "file://%s/store", rig.dir);
    assert_non_null(rig.config = kiln_config_new());
    assert_int_equal(kiln_config_set(rig.config, "store", url, "test", &err), 0);
    assert_int_equal(kiln_store_open(rig.config, &rig.store, &err), 0);
    *state = &rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    char command[100];
    kiln_store_close(rig->store);
    kiln_config_free(rig->config);
    snprintf(command, sizeof command, "rm -r '%s'", rig->dir);
    return system(command);
}

/* Stores a file of this one byte, under its hash. */
static void put(struct rig *rig, char byte, char sha256[KILN_LORA_SHA256_MAX])
{
    char data[BYTES], key[KILN_LORA_KEY_MAX];
    uint8_t digest[KILN_SHA256_SIZE];
    struct kiln_error err;
    memset(data, byte, sizeof data);
    kiln_sha256(data, sizeof data, digest);
    kiln_hex(digest, sizeof digest, sha256);
    kiln_lora_key(sha256, key);
    struct kiln_put put = {.key = key, .data = data, .size = sizeof data, .content_type = "a/b"};
    assert_int_equal(kiln_store_put(rig->store, &put, 1, &err), 0);
}

static void write_stored(const struct rig *rig, const char *sha256, const char *text)
{
    char path[200], key[KILN_LORA_KEY_MAX];
    kiln_lora_key(sha256, key);
    snprintf(path, sizeof path, "%s/store/%s", rig->dir, key);
    if (!text) {
        assert_int_equal(unlink(path), 0);
        return;
    }
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static struct kiln_lora_disk *open_disk(const struct rig *rig, uint64_t bytes)
{
    struct kiln_lora_disk *disk = kiln_lora_disk_new(rig->cache, bytes, NULL);
    assert_non_null(disk);
    return disk;
}

static struct kiln_lora_pin *fetch(struct rig *rig, struct kiln_lora_disk *disk, const char *sha256)
{
    struct kiln_lora_pin *pin = NULL;
    struct kiln_error err = {0};
    if (kiln_lora_disk_fetch(disk, rig->store, "neon", sha256, &pin, &err) != 0)
        fail_msg("%s", err.text);
    assert_non_null(pin);
    return pin;
}

static bool on_disk(struct kiln_lora_disk *disk, const char *sha256)
{
    struct kiln_lora_pin *pin = kiln_lora_disk_pin(disk, sha256);
    kiln_lora_unpin(pin);
    return pin != NULL;
}

/* Names in the cache's directory. */
static int names(const struct rig *rig)
{
    char command[160];
    int count = -1;
    snprintf(command, sizeof command, "ls '%s' | wc -l", rig->cache);
    FILE *pipe = popen(command, "re");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%d", &count), 1);
    pclose(pipe);
    return count;
}

static void a_file_is_fetched_once_and_kept(void **state)
{
    struct rig *rig = *state;
    char sha256[KILN_LORA_SHA256_MAX];
    put(rig, 'a', sha256);
    struct kiln_lora_disk *disk = open_disk(rig, 1 << 20);
    assert_false(on_disk(disk, sha256));
    struct kiln_lora_pin *pin = fetch(rig, disk, sha256);
    struct stat st;
    assert_int_equal(stat(pin->path, &st), 0);
    assert_int_equal(st.st_size, BYTES);
    kiln_lora_unpin(pin);
    write_stored(rig, sha256, NULL);
    kiln_lora_unpin(fetch(rig, disk, sha256)); /* the store is not asked again, */
    kiln_lora_disk_free(disk);
    disk = open_disk(rig, 1 << 20); /* nor by the next worker */
    kiln_lora_unpin(fetch(rig, disk, sha256));
    kiln_lora_disk_free(disk);
}

static void another_hash_is_refused_with_both(void **state)
{
    struct rig *rig = *state;
    char sha256[KILN_LORA_SHA256_MAX], other[KILN_LORA_SHA256_MAX];
    uint8_t digest[KILN_SHA256_SIZE];
    struct kiln_lora_pin *pin = NULL;
    struct kiln_error err;
    put(rig, 'b', sha256);
    write_stored(rig, sha256, "not a LoRA");
    kiln_sha256("not a LoRA", strlen("not a LoRA"), digest);
    kiln_hex(digest, sizeof digest, other);
    struct kiln_lora_disk *disk = open_disk(rig, 1 << 20);
    assert_int_equal(kiln_lora_disk_fetch(disk, rig->store, "neon", sha256, &pin, &err),
                     KILN_CORRUPT);
    assert_non_null(strstr(err.text, "LoRA neon"));
    assert_non_null(strstr(err.text, sha256));
    assert_non_null(strstr(err.text, other));
    assert_true(strlen(err.text) < 256); /* it fits into the row of a failed job */
    assert_null(pin);
    assert_int_equal(names(rig), 0);
    write_stored(rig, sha256, NULL);
    assert_int_equal(kiln_lora_disk_fetch(disk, rig->store, "neon", sha256, &pin, &err),
                     KILN_NOT_FOUND);
    assert_non_null(strstr(err.text, "LoRA neon"));
    assert_int_equal(names(rig), 0);
    kiln_lora_disk_free(disk);
}

/* A hundred gigabytes are neither fetched nor waited for. */
static void an_object_that_is_too_large_is_refused_by_its_size(void **state)
{
    struct rig *rig = *state;
    char sha256[KILN_LORA_SHA256_MAX], path[200], key[KILN_LORA_KEY_MAX];
    struct kiln_lora_pin *pin = NULL;
    struct kiln_error err;
    put(rig, 'l', sha256);
    kiln_lora_key(sha256, key);
    snprintf(path, sizeof path, "%s/store/%s", rig->dir, key);
    assert_int_equal(truncate(path, (off_t)100 << 30), 0);
    struct kiln_lora_disk *disk = open_disk(rig, 1 << 20);
    assert_int_equal(kiln_lora_disk_fetch(disk, rig->store, "neon", sha256, &pin, &err),
                     KILN_CORRUPT);
    assert_non_null(strstr(err.text, "has 107374182400 bytes; at most 4294967296"));
    assert_int_equal(names(rig), 0);
    kiln_lora_disk_free(disk);
}

static void a_cut_file_is_fetched_again(void **state)
{
    struct rig *rig = *state;
    char sha256[KILN_LORA_SHA256_MAX], path[PATH_MAX];
    put(rig, 'c', sha256);
    struct kiln_lora_disk *disk = open_disk(rig, 1 << 20);
    struct kiln_lora_pin *pin = fetch(rig, disk, sha256);
    snprintf(path, sizeof path, "%s", pin->path);
    kiln_lora_unpin(pin);
    assert_int_equal(truncate(path, BYTES / 2), 0);
    assert_false(on_disk(disk, sha256));
    kiln_lora_unpin(fetch(rig, disk, sha256));
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, BYTES);
    kiln_lora_disk_free(disk);
}

/* The file system's clock has a resolution. */
static void tick(void)
{
    usleep(20000);
}

static void the_longest_unused_go_and_pinned_ones_stay(void **state)
{
    struct rig *rig = *state;
    char sha256[5][KILN_LORA_SHA256_MAX], part[PATH_MAX];
    for (int i = 0; i < 5; i++)
        put(rig, (char)('p' + i), sha256[i]);
    struct kiln_lora_disk *disk = open_disk(rig, 3 * BYTES);
    struct kiln_lora_disk *other = open_disk(rig, 3 * BYTES); /* of another worker */
    struct kiln_lora_pin *pinned = fetch(rig, other, sha256[0]);
    for (int i = 1; i < 3; i++) {
        tick();
        kiln_lora_unpin(fetch(rig, disk, sha256[i]));
    }
    tick();
    assert_true(on_disk(disk, sha256[1])); /* which is a use */
    uint64_t listed[4];
    assert_int_equal(kiln_lora_disk_list(disk, listed, 4), 3);
    for (int i = 0; i < 3; i++) /* the last used first */
        assert_true(listed[i] == kiln_lora_digits(sha256[i == 0 ? 1 : i == 1 ? 2 : 0]));
    assert_int_equal(kiln_lora_disk_list(disk, listed, 1), 1);
    snprintf(part, sizeof part, "%s/%.64s.safetensors.part", rig->cache, sha256[4]);
    FILE *left = fopen(part, "we"); /* by a crash */
    assert_non_null(left);
    fclose(left);
    assert_int_equal(kiln_lora_disk_list(disk, listed, 4), 3); /* which is no file */
    tick();
    kiln_lora_unpin(fetch(rig, disk, sha256[3]));
    assert_true(access(part, F_OK) != 0);
    assert_true(access(pinned->path, F_OK) == 0);
    assert_true(on_disk(disk, sha256[0]) && on_disk(disk, sha256[1]));
    assert_false(on_disk(disk, sha256[2]));
    kiln_lora_unpin(pinned);
    assert_int_equal(names(rig), 2 * 3); /* a file and a lock each */
    kiln_lora_disk_free(other);
    kiln_lora_disk_free(disk);
}

static void files_in_use_may_exceed_the_bound(void **state)
{
    struct rig *rig = *state;
    char sha256[3][KILN_LORA_SHA256_MAX];
    struct kiln_lora_pin *pins[3];
    struct kiln_lora_disk *disk = open_disk(rig, BYTES);
    for (int i = 0; i < 3; i++) {
        put(rig, (char)('x' + i), sha256[i]);
        pins[i] = fetch(rig, disk, sha256[i]);
    }
    for (int i = 0; i < 3; i++) {
        assert_true(access(pins[i]->path, F_OK) == 0);
        kiln_lora_unpin(pins[i]);
    }
    put(rig, '0', sha256[0]);
    kiln_lora_unpin(fetch(rig, disk, sha256[0]));
    assert_int_equal(names(rig), 2);
    kiln_lora_disk_free(disk);
}

struct fetcher {
    const struct rig *rig;
    struct kiln_lora_disk *disk;
    const char *sha256;
    int code;
    struct kiln_lora_pin *pin;
};

static void *fetch_beside(void *arg)
{
    struct fetcher *fetcher = arg;
    struct kiln_store *store; /* each thread has its own */
    struct kiln_error err;
    fetcher->code = kiln_store_open(fetcher->rig->config, &store, &err);
    if (fetcher->code)
        return NULL;
    fetcher->code =
        kiln_lora_disk_fetch(fetcher->disk, store, "neon", fetcher->sha256, &fetcher->pin, &err);
    kiln_store_close(store);
    return NULL;
}

static void threads_that_want_one_file_get_it(void **state)
{
    struct rig *rig = *state;
    char sha256[KILN_LORA_SHA256_MAX];
    pthread_t threads[THREADS];
    struct fetcher fetchers[THREADS];
    struct kiln_lora_disk *disk = open_disk(rig, 1);
    put(rig, 't', sha256);
    for (int i = 0; i < THREADS; i++) {
        fetchers[i] = (struct fetcher){rig, disk, sha256, -1, NULL};
        assert_int_equal(pthread_create(&threads[i], NULL, fetch_beside, &fetchers[i]), 0);
    }
    ino_t first = 0;
    for (int i = 0; i < THREADS; i++) {
        struct stat st;
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(fetchers[i].code, 0);
        assert_int_equal(stat(fetchers[i].pin->path, &st), 0);
        first = first ? first : st.st_ino;
        assert_true(st.st_ino == first); /* none was written twice */
    }
    for (int i = 0; i < THREADS; i++)
        kiln_lora_unpin(fetchers[i].pin);
    kiln_lora_disk_free(disk);
}

/* Else a drain would wait for what another worker fetches. */
static void nobody_waits_for_another_one_when_the_worker_ends(void **state)
{
    struct rig *rig = *state;
    char sha256[KILN_LORA_SHA256_MAX], path[200];
    struct kiln_lora_pin *pin = NULL;
    struct kiln_error err;
    _Atomic int ends = 0;
    struct kiln_lora_disk *disk = kiln_lora_disk_new(rig->cache, 1 << 20, &ends);
    put(rig, 'e', sha256);
    kiln_lora_unpin(fetch(rig, disk, sha256));
    snprintf(path, sizeof path, "%s/%s.used", rig->cache, sha256);
    int lock = open(path, O_RDWR | O_CLOEXEC);
    assert_true(lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0);
    ends = 1;
    assert_int_equal(kiln_lora_disk_fetch(disk, rig->store, "neon", sha256, &pin, &err),
                     KILN_CANCELLED);
    assert_null(pin);
    close(lock);
    kiln_lora_unpin(fetch(rig, disk, sha256)); /* what is there it gets all the same */
    kiln_lora_disk_free(disk);
}

static void a_directory_that_cannot_be_written_is_an_error_of_this_machine(void **state)
{
    struct rig *rig = *state;
    char sha256[KILN_LORA_SHA256_MAX];
    struct kiln_lora_pin *pin = NULL;
    struct kiln_error err;
    put(rig, 'd', sha256);
    struct kiln_lora_disk *disk = kiln_lora_disk_new("/proc/nowhere", 1 << 20, NULL);
    assert_int_equal(kiln_lora_disk_fetch(disk, rig->store, "neon", sha256, &pin, &err), KILN_IO);
    assert_non_null(strstr(err.text, "LoRA neon: make /proc/nowhere, the folder of the setting "
                                     "lora_cache_dir: "));
    kiln_lora_disk_free(disk);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_file_is_fetched_once_and_kept),
        TEST(another_hash_is_refused_with_both),
        TEST(an_object_that_is_too_large_is_refused_by_its_size),
        TEST(a_cut_file_is_fetched_again),
        TEST(the_longest_unused_go_and_pinned_ones_stay),
        TEST(files_in_use_may_exceed_the_bound),
        TEST(threads_that_want_one_file_get_it),
        TEST(nobody_waits_for_another_one_when_the_worker_ends),
        TEST(a_directory_that_cannot_be_written_is_an_error_of_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
