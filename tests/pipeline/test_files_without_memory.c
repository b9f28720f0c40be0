/* test_files_without_memory.c - each of Kiln's allocations, then each of its calls on files, fails
 * in turn while a file is opened or written: the call says so, what it had is given back (the
 * sanitizer builds look for leaks), and a file that is written is old or new, never half.
 *
 * Only Kiln's own are counted: jansson 2.14 stops the program when its lexer runs out of memory.
 * Its allocations count where it only writes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "pipeline/bench/requests.h"
#include "pipeline/lora/file/lora.h"
#include "pipeline/text/tokenizer.h"
#include "storage/formats/safetensors.h"
#include "tests/support/faults.h"

static const char *golden(const char *name)
{
    static char path[4096];
    const char *source = getenv("KILN_SOURCE");
    snprintf(path, sizeof path, "%s/tests/golden/%s", source ? source : ".", name);
    return path;
}

/* Runs op with its n-th allocation failing, for every n.  op frees what it made. */
static void sweep(int (*op)(const char *path, struct kiln_error *err), const char *name)
{
    char path[4096];
    int n = 1;
    snprintf(path, sizeof path, "%s", golden(name));
    assert_int_equal(op(path, NULL), 0); /* what is made once and kept is made by now */
    for (;; n++) {
        struct kiln_error err = {0};
        kiln_fault_arm(KILN_FAULT_MEMORY, n, false);
        int rc = op(path, &err);
        if (!kiln_fault_disarm())
            break;
        if (rc != KILN_NO_MEMORY || err.code != rc)
            fail_msg("allocation %d: code %d, %s", n, rc, err.text);
    }
    print_message("%d allocations\n", n - 1);
    assert_true(n > 2);
}

static int open_safetensors(const char *path, struct kiln_error *err)
{
    struct kiln_st *st;
    int rc = kiln_st_open(path, &st, err);
    if (!rc)
        kiln_st_close(st);
    return rc;
}

static int open_tokenizer(const char *path, struct kiln_error *err)
{
    struct kiln_tokenizer *t;
    int rc = kiln_tokenizer_open(path, &t, err);
    if (!rc)
        kiln_tokenizer_free(t);
    return rc;
}

static int encode(const char *path, struct kiln_error *err)
{
    static struct kiln_tokenizer *t;
    static const char text[] =
        "ein Fuß, e\xcc\x81\xcc\xa3 <think> \xe4\xb8\x80 aaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    int32_t *ids;
    size_t count;
    int rc = t ? 0 : kiln_tokenizer_open(path, &t, err);
    if (!rc)
        rc = kiln_tokenizer_encode(t, text, sizeof text - 1, false, &ids, &count, err);
    if (!rc)
        free(ids);
    return rc;
}

static int open_lora(const char *path, struct kiln_error *err)
{
    static const struct kiln_lora_module modules[] = {{"layers.1.attention.to_q", 48, 48},
                                                      {"layers.1.attention.to_out.0", 48, 48},
                                                      {"layers.1.feed_forward.w2", 48, 128}};
    struct kiln_lora_file *f;
    int rc = kiln_lora_open(path, modules, 3, &f, err);
    if (!rc)
        kiln_lora_close(f);
    return rc;
}

static int read_requests(const char *path, struct kiln_error *err)
{
    static struct kiln_judge_labels labels;
    struct kiln_requests requests;
    int rc = labels.side
                 ? 0
                 : kiln_judge_labels_read(golden("../../pipeline/models/judge"), &labels, err);
    if (!rc)
        rc = kiln_requests_read(path, &labels, 4, &requests, err);
    if (!rc)
        kiln_requests_release(&requests);
    return rc;
}

static int write_file(const char *path, struct kiln_error *err)
{
    (void)path;
    static const float values[4];
    static const char *const metadata[] = {"a", "b", NULL};
    struct kiln_st_tensor tensors[] = {{"x", KILN_ST_F32, 1, {4}, values, sizeof values},
                                       {"y", KILN_ST_U8, 1, {3}, values, 3}};
    return kiln_st_write("written.safetensors", tensors, 2, metadata, err);
}

static void test_safetensors_file(void **state)
{
    (void)state;
    sweep(open_safetensors, "loras/diffusers.safetensors");
}

static void test_safetensors_shards(void **state)
{
    (void)state;
    sweep(open_safetensors, "models/sharded/transformer");
}

static void test_safetensors_write(void **state)
{
    (void)state;
    json_malloc_t plain_malloc;
    json_free_t plain_free;
    json_get_alloc_funcs(&plain_malloc, &plain_free);
    struct kiln_error err;
    int n = 1;
    assert_int_equal(write_file("", &err), 0);
    assert_int_equal(rename("written.safetensors", "expected.safetensors"), 0);
    json_set_alloc_funcs(malloc, free); /* the wrapped ones */
    for (;; n++) {
        kiln_fault_arm(KILN_FAULT_MEMORY, n, false);
        int rc = write_file("", &err);
        if (!kiln_fault_disarm())
            break;
        if (rc != 0 && rc != KILN_NO_MEMORY)
            fail_msg("allocation %d: code %d, %s", n, rc, err.text);
        /* jansson can do without some of its allocations; the file must be right then. */
        if (rc == 0 && system("cmp written.safetensors expected.safetensors") != 0)
            fail_msg("allocation %d: a wrong file", n);
    }
    json_set_alloc_funcs(plain_malloc, plain_free);
    print_message("%d allocations\n", n - 1);
    assert_true(n > 20);
}

/* A close at the end of reading may fail unseen. */
static void test_failing_reads(void **state)
{
    (void)state;
    static const char *const names[] = {"loras/diffusers.safetensors",
                                        "models/sharded/transformer"};
    for (size_t i = 0; i < 2; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s", golden(names[i]));
        int n = 1;
        for (;; n++) {
            struct kiln_error err = {0};
            kiln_fault_arm(KILN_FAULT_FILE, n, false);
            int rc = open_safetensors(path, &err);
            if (!kiln_fault_disarm())
                break;
            if (rc && (rc != err.code || !strstr(err.text, "Input/output error")))
                fail_msg("call %d: code %d, '%s'", n, rc, err.text);
        }
        print_message("%s: %d calls\n", names[i], n - 1);
        assert_true(n > 3);
    }
}

static void test_failing_writes(void **state)
{
    (void)state;
    int n = 1;
    for (;; n++) {
        struct kiln_error err = {0};
        assert_int_equal(system("rm -f written.safetensors* && echo old >written.safetensors"), 0);
        kiln_fault_arm(KILN_FAULT_FILE, n, false);
        int rc = write_file("", &err);
        if (!kiln_fault_disarm())
            break;
        if (rc && (rc != KILN_IO || !strstr(err.text, "written.safetensors")))
            fail_msg("call %d: code %d, '%s'", n, rc, err.text);
        bool whole = open_safetensors("written.safetensors", NULL) == 0;
        bool old = system("grep -qx old written.safetensors") == 0;
        if (!(whole || old) || (rc == 0 && !whole))
            fail_msg("call %d: code %d, and the file is %s", n, rc, old ? "old" : "broken");
        if (system("test $(ls | grep -c ^written) = 1") != 0)
            fail_msg("call %d: a temporary file stayed behind", n);
    }
    print_message("%d calls\n", n - 1);
    assert_true(n > 6);
}

static void test_tokenizer_json(void **state)
{
    (void)state;
    sweep(open_tokenizer, "models/plain/tokenizer");
}

static void test_tokenizer_vocab_and_merges(void **state)
{
    (void)state;
    sweep(open_tokenizer, "models/comfy/tokenizer");
}

static void test_tokenizer_encode(void **state)
{
    (void)state;
    sweep(encode, "models/plain/tokenizer");
}

static void test_lora(void **state)
{
    (void)state;
    sweep(open_lora, "loras/second.safetensors");
}

static void test_requests(void **state)
{
    (void)state;
    sweep(read_requests, "../quality/held.jsonl");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors_file),
        cmocka_unit_test(test_safetensors_shards),
        cmocka_unit_test(test_safetensors_write),
        cmocka_unit_test(test_failing_reads),
        cmocka_unit_test(test_failing_writes),
        cmocka_unit_test(test_tokenizer_json),
        cmocka_unit_test(test_tokenizer_vocab_and_merges),
        cmocka_unit_test(test_tokenizer_encode),
        cmocka_unit_test(test_lora),
        cmocka_unit_test(test_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
