/* test_lora_disk_s3.c - LoRA files from a real Swift behind a proxy that misbehaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/digest.h"
#include "tests/support/faultproxy.h"
#include "tests/support/swift.h"
#include "worker/state/lora_disk.h"

#define BYTES 100000 /* of each file */

static struct test_proxy *proxy;
static struct kiln_store *store;
static char dir[] = "/tmp/kiln-lora-s3-XXXXXX";
static struct kiln_lora_disk *disk;

/* Stores a file of this one byte under its hash, unless it is there. */
static void put(int byte, char sha256[KILN_LORA_SHA256_MAX])
{
    static char data[BYTES];
    char key[KILN_LORA_KEY_MAX];
    uint8_t digest[KILN_SHA256_SIZE];
    struct kiln_error err = {0};
    memset(data, byte, sizeof data);
    kiln_sha256(data, sizeof data, digest);
    kiln_hex(digest, sizeof digest, sha256);
    kiln_lora_key(sha256, key);
    struct kiln_put put = {
        .key = key, .data = data, .size = sizeof data, .content_type = "application/octet-stream"};
    test_proxy_script(proxy, NULL, 0);
    if (kiln_store_put(store, &put, 1, &err))
        fail_msg("%s", err.text);
}

static int fetch(const char *sha256, struct kiln_error *err)
{
    struct kiln_lora_pin *pin = NULL;
    int code = kiln_lora_disk_fetch(disk, store, "neon", sha256, &pin, err);
    assert_true((pin != NULL) == (code == 0));
    kiln_lora_unpin(pin);
    return code;
}

static bool on_disk(const char *sha256)
{
    struct kiln_lora_pin *pin = kiln_lora_disk_pin(disk, sha256);
    kiln_lora_unpin(pin);
    return pin != NULL;
}

/* One failure of the way is nothing that a job sees. */
static void a_failure_on_the_way_is_tried_again(void **state)
{
    (void)state;
    static const enum test_fault faults[] = {FAULT_NONE,       FAULT_503,       FAULT_TRUNCATE,
                                             FAULT_FLIP,       FAULT_500_HTML,  FAULT_RESET_AFTER,
                                             FAULT_CLOSE_AFTER};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const struct test_fault_rule rule = {"GET", faults[i], 1, 0};
        char sha256[KILN_LORA_SHA256_MAX];
        struct kiln_error err = {.text = ""};
        put((int)i, sha256);
        test_proxy_script(proxy, &rule, 1);
        if (fetch(sha256, &err))
            fail_msg("fault %d: %s", (int)faults[i], err.text);
        assert_int_equal(test_proxy_counts(proxy).rules_left, 0);
        assert_true(on_disk(sha256));
    }
}

/* What is damaged every time, or denied, is not on the disk, and comes when the store gives it. */
static void what_does_not_come_whole_does_not_count(void **state)
{
    (void)state;
    static const enum test_fault faults[] = {FAULT_FLIP, FAULT_DENY};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const struct test_fault_rule rule = {"GET", faults[i], 1000, 0};
        char sha256[KILN_LORA_SHA256_MAX];
        struct kiln_error err = {.text = ""};
        put(100 + (int)i, sha256);
        test_proxy_script(proxy, &rule, 1);
        assert_int_equal(fetch(sha256, &err), i == 0 ? KILN_CORRUPT : KILN_DENIED);
        assert_false(on_disk(sha256));
        test_proxy_script(proxy, NULL, 0);
        assert_int_equal(fetch(sha256, &err), 0);
        assert_true(on_disk(sha256));
    }
}

int main(void)
{
    struct test_swift *swift = test_swift_start();
    if (!swift)
        return 77;
    proxy = test_proxy_start(test_swift_port(swift));
    store = test_s3_store(test_proxy_port(proxy), "loras", NULL);
    char command[80];
    if (!mkdtemp(dir) || !(disk = kiln_lora_disk_new(dir, 1 << 30, NULL)))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_on_the_way_is_tried_again),
        cmocka_unit_test(what_does_not_come_whole_does_not_count),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_lora_disk_free(disk);
    snprintf(command, sizeof command, "rm -r '%s'", dir);
    failed = system(command) ? 1 : failed;
    kiln_store_close(store);
    test_proxy_stop(proxy);
    test_swift_stop(swift);
    return failed;
}
