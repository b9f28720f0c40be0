/* test_gc_s3.c - `kiln gc` against a real Swift behind a proxy that misbehaves: several pages of a
 * listing, a store that refuses to delete, or that knows no deletion of many, requests that are
 * lost, a run that is killed.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "storage/ledger/ledger.h"
#include "tests/support/faultproxy.h"
#include "tests/support/process.h"
#include "tests/support/rig.h"
#include "tests/support/store.h"
#include "tests/support/swift.h"
#include "tests/support/worker_process.h"

#define ORPHANS 210 /* three of this Swift's pages */
#define STAYING 5
#define PREFIX "gc"
#define LORA "loras/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.safetensors"

static struct test_swift *swift;
static struct test_proxy *proxy;
static struct kiln_store *store;
static struct kiln_job jobs[3]; /* done, assigned, cancelled */
static struct kiln_test_picture picture;

/* Starts `kiln gc` on pool p; stdout goes to out.txt, stderr to err.txt. */
static pid_t start_gc(const char *option)
{
    char program[512], endpoint[64];
    assert_true(kiln_test_built("kiln", program, sizeof program));
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", test_proxy_port(proxy));
    pid_t pid = kiln_test_fork();
    if (pid == 0) {
        dup2(open("out.txt", O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
        dup2(open("err.txt", O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
        execl(program, "kiln", "gc", "--config", rig.stack->conf, "--pool", "p", "--store",
              "s3://" TEST_BUCKET "/" PREFIX, "--s3-endpoint", endpoint, "--json", option, NULL);
        _exit(127);
    }
    assert_true(pid > 0);
    return pid;
}

static int end_of(pid_t pid)
{
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A number of the JSON that the last run printed; -1 if it is not there. */
static long long told(const char *name)
{
    static char text[200000];
    char member[64];
    FILE *file = fopen("out.txt", "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    snprintf(member, sizeof member, "\"%s\":", name);
    const char *at = strstr(text, member);
    return at ? strtoll(at + strlen(member), NULL, 10) : -1;
}

static int count_object(void *arg, const char *key, uint64_t size, int64_t modified_s)
{
    (void)key, (void)size, (void)modified_s;
    ++*(int *)arg;
    return 0;
}

static int objects(void)
{
    int count = 0;
    struct kiln_error err = {0};
    if (kiln_store_list(store, "", count_object, &count, &err))
        fail_msg("%s", err.text);
    return count;
}

static void put(char keys[][96], size_t count)
{
    struct kiln_put puts[ORPHANS];
    struct kiln_error err = {0};
    for (size_t i = 0; i < count; i++)
        puts[i] = (struct kiln_put){.key = keys[i], .data = "12345", .size = 5};
    if (kiln_store_put(store, puts, count, &err))
        fail_msg("%s", err.text);
}

/* The three objects of the done picture, one of the assigned job that waits for its commit, and the
 * file of a LoRA. */
static void put_what_must_stay(void)
{
    char keys[STAYING][96];
    for (int i = 0; i < 3; i++)
        snprintf(keys[i], sizeof keys[i], "%s", picture.keys[i]);
    snprintf(keys[3], sizeof keys[3], "images/2026/11/%llu/full-0123456789abcdef.webp",
             (unsigned long long)jobs[1].id);
    snprintf(keys[4], sizeof keys[4], "%s", LORA);
    put(keys, STAYING);
}

static void put_orphans(void)
{
    static char keys[ORPHANS][96];
    for (int i = 0; i < ORPHANS; i++)
        if (i == 0)
            snprintf(keys[i], sizeof keys[i], "loras/%064d.safetensors", 0);
        else if (i % 2)
            snprintf(keys[i], sizeof keys[i], "latents/m/2026/11/%llu-%016x.safetensors.zst",
                     (unsigned long long)jobs[i % 4 == 1 ? 0 : 2].id, i);
        else
            snprintf(keys[i], sizeof keys[i], "images/2026/11/%llu/512-%016x.webp",
                     (unsigned long long)jobs[i % 4 == 0 ? 0 : 2].id, i);
    put(keys, ORPHANS);
}

static void must_stay(void)
{
    uint64_t size;
    char key[96];
    for (int i = 0; i < 3; i++)
        assert_int_equal(kiln_store_head(store, picture.keys[i], &size, &rig.err), 0);
    snprintf(key, sizeof key, "images/2026/11/%llu/full-0123456789abcdef.webp",
             (unsigned long long)jobs[1].id);
    assert_int_equal(kiln_store_head(store, key, &size, &rig.err), 0);
    assert_int_equal(kiln_store_head(store, LORA, &size, &rig.err), 0);
}

static void the_young_and_the_live_stay(void **state)
{
    (void)state;
    put_what_must_stay();
    put_orphans();
    test_proxy_script(proxy, NULL, 0);
    assert_int_equal(end_of(start_gc(NULL)), 0);
    assert_int_equal(told("young"), ORPHANS + STAYING);
    assert_int_equal(told("removed"), 0);
    assert_int_equal(end_of(start_gc("--dry-run")), 0);
    assert_int_equal(objects(), ORPHANS + STAYING);
}

static void a_store_that_refuses_is_believed(void **state)
{
    (void)state;
    const struct test_fault_rule deny[] = {{"POST", FAULT_DENY, 1000, 0},
                                           {"DELETE", FAULT_DENY, 1000, 0}};
    test_proxy_script(proxy, deny, 2);
    assert_int_equal(end_of(start_gc("--grace=0")), 77);
    assert_int_equal(told("orphans"), ORPHANS);
    assert_int_equal(told("live"), 1);
    assert_int_equal(told("removed"), 0);
    assert_int_equal(told("failed"), ORPHANS);
    assert_int_equal(test_proxy_counts(proxy).rules_left, 1999); /* one request was enough */
    assert_int_equal(objects(), ORPHANS + STAYING);
}

static void a_killed_run_leaves_the_rest_to_the_next(void **state)
{
    (void)state;
    const struct test_fault_rule slow[] = {{"POST", FAULT_UNKNOWN, 1000, 0},
                                           {"DELETE", FAULT_SLOW, 1000, 200}};
    test_proxy_script(proxy, slow, 2);
    pid_t pid = start_gc("--grace=0");
    for (int i = 0; i < 1000 && objects() > ORPHANS - 20; i++)
        kiln_test_sleep_ms(20);
    kill(pid, SIGKILL);
    assert_int_equal(end_of(pid), 128 + SIGKILL);
    int left = objects();
    print_message("killed after %d of %d\n", ORPHANS + STAYING - left, ORPHANS);
    assert_true(left > STAYING && left < ORPHANS);
    must_stay();
    const struct test_fault_rule bad[] = {{"POST", FAULT_503, 2, 0},
                                          {"POST", FAULT_RESET_AFTER, 1, 0},
                                          {"GET", FAULT_TRUNCATE, 1, 0}};
    test_proxy_script(proxy, bad, 3);
    assert_int_equal(end_of(start_gc("--grace=0")), 0);
    assert_int_equal(told("failed"), 0);
    assert_int_equal(objects(), STAYING);
    must_stay();
}

static int start(void **state)
{
    uint64_t moved;
    if (kiln_rig_start(state))
        return -1;
    assert_int_equal(kiln_rig_assigned("b", 3, jobs), 3);
    kiln_test_picture(&picture, &jobs[0]);
    for (int i = 0; i < 3; i++)
        snprintf(picture.keys[i], sizeof picture.keys[i], "images/2026/11/%llu/%d-aa.webp",
                 (unsigned long long)jobs[0].id, i);
    bool ours = false;
    kiln_test_ok(kiln_ledger_commit(rig.ledger, &picture.commit, &ours, &rig.err), rig.err);
    assert_true(ours);
    free(kiln_test_sql(rig.stack, "SELECT lora_change('p', 0, 'ink', '', repeat('a', 64),"
                                  " '{\"bytes\":5,\"rank\":1,\"modules\":1,\"stored\":true}',"
                                  " true, true, false, 'test', '{\"name\":\"ink\"}'::jsonb)"));
    kiln_test_ok(kiln_ledger_cancel(rig.ledger, "p", jobs[2].id, NULL, &moved, &rig.err), rig.err);
    return 0;
}

int main(void)
{
    swift = test_swift_start();
    if (!swift)
        return 77;
    proxy = test_proxy_start(test_swift_port(swift));
    store = test_s3_store(test_swift_port(swift), PREFIX, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_young_and_the_live_stay),
        cmocka_unit_test(a_store_that_refuses_is_believed),
        cmocka_unit_test(a_killed_run_leaves_the_rest_to_the_next),
    };
    int failed = cmocka_run_group_tests(tests, start, kiln_rig_stop);
    kiln_rig_release(jobs, 3);
    kiln_store_close(store);
    test_proxy_stop(proxy);
    test_swift_stop(swift);
    return failed;
}
