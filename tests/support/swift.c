/* swift.c - see swift.h.  The layout is that of Swift's all-in-one guide, cut down to one device,
 * one replica and one worker process each. */
#include "tests/support/swift.h"

#include <curl/curl.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "storage/objects/s3/sigv4.h"
#include "tests/support/process.h"
#include "tests/support/stack.h"
#include "tests/support/store.h"

#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define START_LIMIT_S 60

enum server { MEMCACHED, OBJECT, CONTAINER, ACCOUNT, PROXY, SERVERS };
static const char *const ring_names[] = {"", "object", "container", "account"};

struct test_swift {
    char dir[PATH_MAX - 64];
    int ports[SERVERS];
    pid_t pids[SERVERS];
};

static const char *const needed[] = {"swift-proxy-server",     "swift-account-server",
                                     "swift-container-server", "swift-object-server",
                                     "swift-ring-builder",     "memcached"};

static bool installed(const char *program)
{
    static const char *const places[] = {"/usr/bin", "/usr/sbin", "/bin", "/usr/local/bin"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s/%s", places[i], program);
        if (access(path, X_OK) == 0)
            return true;
    }
    return false;
}

/* A new directory whose file system has user attributes. */
static bool make_dir(char *out, size_t size)
{
    const char *places[] = {getenv("TMPDIR"), ".", "/var/tmp", "/tmp"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char real[PATH_MAX];
        if (!places[i] || !realpath(places[i], real))
            continue;
        if ((size_t)snprintf(out, size, "%s/kiln-swift.XXXXXX", real) >= size || !mkdtemp(out))
            continue;
        if (setxattr(out, "user.kiln", "1", 1, 0) == 0)
            return true;
        rmdir(out);
    }
    return false;
}

static void write_file(const struct test_swift *swift, const char *name, const char *fmt, ...)
    KILN_PRINTF(3, 4);
static void write_file(const struct test_swift *swift, const char *name, const char *fmt, ...)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/etc/%s", swift->dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    va_list args;
    va_start(args, fmt);
    vfprintf(file, fmt, args);
    va_end(args);
    assert_int_equal(fclose(file), 0);
}

static const char *user_name(void)
{
    const struct passwd *user = getpwuid(geteuid());
    return user ? user->pw_name : "nobody";
}

/* Swift gives its servers tenths of a second, and avoids one for a minute after ten failures: on a
 * slow machine it would answer 503, or leave an object out of a listing. */
#define PATIENT "conn_timeout = 60\nnode_timeout = 60\n"

static void write_configs(const struct test_swift *swift)
{
    write_file(swift, "swift.conf",
               "[swift-hash]\nswift_hash_path_suffix = kiln\n"
               "[storage-policy:0]\nname = gold\ndefault = yes\n");
    for (int i = OBJECT; i <= ACCOUNT; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s-server.conf", ring_names[i]);
        write_file(
            swift, name,
            "[DEFAULT]\ndevices = %s/srv\nmount_check = false\nbind_ip = 127.0.0.1\n"
            "bind_port = %d\nworkers = 0\nswift_dir = %s/etc\nuser = %s\n"
            "recon_cache_path = %s\n"
            "[pipeline:main]\npipeline = %s-server\n[app:%s-server]\nuse = egg:swift#%s\n" PATIENT
            "container_update_timeout = 60\n",
            swift->dir, swift->ports[i], swift->dir, user_name(), swift->dir, ring_names[i],
            ring_names[i], ring_names[i]);
    }
    char filters[1024] = "";
    static const char *const plain[] = {"catch_errors",    "gatekeeper", "healthcheck",
                                        "listing_formats", "copy",       "versioned_writes"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        size_t len = strlen(filters);
        snprintf(filters + len, sizeof filters - len, "[filter:%s]\nuse = egg:swift#%s\n", plain[i],
                 plain[i]);
    }
    write_file(swift, "proxy-server.conf",
               "[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = %d\nworkers = 0\nswift_dir = %s/etc\n"
               "user = %s\n[pipeline:main]\npipeline = catch_errors gatekeeper healthcheck cache "
               "listing_formats s3api tempauth copy versioned_writes proxy-server\n"
               "[app:proxy-server]\nuse = egg:swift#proxy\nallow_account_management = true\n"
               "account_autocreate = true\n" PATIENT "error_suppression_limit = 1000000\n%s"
               "[filter:cache]\nuse = egg:swift#memcache\nmemcache_servers = 127.0.0.1:%d\n"
               "[filter:tempauth]\nuse = egg:swift#tempauth\nuser_test_tester = testing .admin\n"
               "[filter:s3api]\nuse = egg:swift#s3api\ns3_acl = false\n"
               "storage_domain = localhost\nmax_bucket_listing = 100\n",
               swift->ports[PROXY], swift->dir, user_name(), filters, swift->ports[MEMCACHED]);
}

static void build_rings(const struct test_swift *swift)
{
    for (int i = OBJECT; i <= ACCOUNT; i++) {
        char command[3 * PATH_MAX];
        snprintf(command, sizeof command,
                 "cd '%s/etc' && { swift-ring-builder %s.builder create 4 1 1 && "
                 "swift-ring-builder %s.builder add r1z1-127.0.0.1:%d/sdb1 1 && "
                 "swift-ring-builder %s.builder rebalance; } >>../rings.log 2>&1",
                 swift->dir, ring_names[i], ring_names[i], swift->ports[i], ring_names[i]);
        if (system(command) != 0)
            fail_msg("swift-ring-builder failed, see %s/rings.log", swift->dir);
    }
}

static void without_proxy(void)
{
    unsetenv("http_proxy");
}

/* Its output goes to DIR/NAME.log. */
static pid_t spawn(const struct test_swift *swift, const char *name, const char *const *argv)
{
    char log[PATH_MAX];
    snprintf(log, sizeof log, "%s/%s.log", swift->dir, name);
    return kiln_test_spawn(argv, log, SIGKILL, without_proxy);
}

static void start_servers(struct test_swift *swift)
{
    char port[16], user[64];
    snprintf(port, sizeof port, "%d", swift->ports[MEMCACHED]);
    snprintf(user, sizeof user, "%s", user_name());
    const char *memcached[] = {"memcached", "-l", "127.0.0.1", "-p", port, "-U", "0",
                               "-m",        "16", "-t",        "1",  "-u", user, NULL};
    swift->pids[MEMCACHED] = spawn(swift, "memcached", memcached);
    for (int i = OBJECT; i <= PROXY; i++) {
        char program[32], conf[PATH_MAX];
        const char *name = i == PROXY ? "proxy" : ring_names[i];
        snprintf(program, sizeof program, "swift-%s-server", name);
        snprintf(conf, sizeof conf, "%s/etc/%s-server.conf", swift->dir, name);
        const char *argv[] = {program, conf, NULL};
        swift->pids[i] = spawn(swift, name, argv);
    }
}

static size_t ignore(char *data, size_t size, size_t count, void *arg)
{
    (void)data, (void)arg;
    return size * count;
}

/* The status of one request, 0 if there is no answer. */
static long ask(const char *url, struct curl_slist *headers, bool put)
{
    CURL *easy = curl_easy_init();
    long status = 0;
    assert_non_null(easy);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 20000L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    if (put)
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "PUT");
    if (curl_easy_perform(easy) == CURLE_OK)
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(easy);
    return status;
}

/* The storage servers have no health check, but answer whatever is asked. */
static bool is_up(const struct test_swift *swift)
{
    for (int i = OBJECT; i <= PROXY; i++) {
        char url[64];
        snprintf(url, sizeof url, "http://127.0.0.1:%d/healthcheck", swift->ports[i]);
        long status = ask(url, NULL, false);
        if (status == 0 || (i == PROXY && status != 200))
            return false;
    }
    return true;
}

static void wait_until_up(const struct test_swift *swift)
{
    for (int i = 0; i < START_LIMIT_S * 10; i++) {
        for (int k = 0; k < SERVERS; k++)
            if (waitpid(swift->pids[k], NULL, WNOHANG) == swift->pids[k])
                fail_msg("a server of Swift ended at once, see the logs in %s", swift->dir);
        if (is_up(swift))
            return;
        kiln_test_sleep_ms(100);
    }
    fail_msg("Swift did not answer within %d s, see %s", START_LIMIT_S, swift->dir);
}

/* Signed here by hand: no verb of a store makes buckets. */
static long put_bucket(int port, const char *bucket)
{
    char host[32], path[64], url[128], date[KILN_SIGV4_DATE_SIZE], line[600];
    int64_t now = (int64_t)time(NULL);
    snprintf(host, sizeof host, "127.0.0.1:%d", port);
    snprintf(path, sizeof path, "/%s", bucket);
    snprintf(url, sizeof url, "http://%s%s", host, path);
    kiln_sigv4_date(now, date);
    const struct kiln_sigv4_pair headers[] = {
        {"Host", host}, {"x-amz-date", date}, {"x-amz-content-sha256", EMPTY_SHA256}};
    const struct kiln_sigv4_request request = {.method = "PUT",
                                               .path = path,
                                               .headers = headers,
                                               .header_count = 3,
                                               .payload_hash = EMPTY_SHA256,
                                               .region = "us-east-1",
                                               .service = "s3",
                                               .time_s = now};
    const struct kiln_sigv4_credentials keys = {TEST_S3_KEY, TEST_S3_SECRET, NULL};
    char *authorization = NULL;
    assert_int_equal(kiln_sigv4_authorization(&request, &keys, &authorization, NULL), 0);
    struct curl_slist *list = NULL;
    for (size_t i = 0; i < 3; i++) {
        snprintf(line, sizeof line, "%s: %s", headers[i].name, headers[i].value);
        list = curl_slist_append(list, line);
    }
    snprintf(line, sizeof line, "Authorization: %s", authorization);
    list = curl_slist_append(list, line);
    free(authorization);
    long status = ask(url, list, true);
    curl_slist_free_all(list);
    return status;
}

/* The health check is the proxy's alone; the others may need a moment longer. */
static void make_bucket(const struct test_swift *swift)
{
    long status = 0;
    for (int i = 0; i < START_LIMIT_S * 5 && status != 200; i++) {
        status = put_bucket(swift->ports[PROXY], TEST_BUCKET);
        if (status != 200)
            kiln_test_sleep_ms(200);
    }
    if (status != 200)
        fail_msg("Swift answers %ld to PUT /%s, see %s", status, TEST_BUCKET, swift->dir);
}

struct test_swift *test_swift_start(void)
{
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!installed(needed[i])) {
            printf("skip: %s is not installed (packages swift-proxy swift-account swift-container "
                   "swift-object memcached)\n",
                   needed[i]);
            return NULL;
        }
    struct test_swift *swift = calloc(1, sizeof *swift);
    assert_non_null(swift);
    if (!make_dir(swift->dir, sizeof swift->dir)) {
        printf("skip: no directory with user attributes for Swift (TMPDIR, ., /var/tmp, /tmp)\n");
        free(swift);
        return NULL;
    }
    static const char *const dirs[] = {"etc", "srv", "srv/sdb1"};
    for (size_t i = 0; i < 3; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", swift->dir, dirs[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    for (int i = 0; i < SERVERS; i++)
        swift->ports[i] = kiln_test_free_port();
    write_configs(swift);
    build_rings(swift);
    start_servers(swift);
    wait_until_up(swift);
    make_bucket(swift);
    return swift;
}

void test_swift_stop(struct test_swift *swift)
{
    if (!swift)
        return;
    for (int i = 0; i < SERVERS; i++)
        if (swift->pids[i] > 0) {
            kill(swift->pids[i], SIGKILL);
            waitpid(swift->pids[i], NULL, 0);
        }
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -rf '%s'", swift->dir);
    if (system(command) != 0)
        printf("%s stays behind\n", swift->dir);
    free(swift);
}

int test_swift_port(const struct test_swift *swift)
{
    return swift->ports[PROXY];
}

struct kiln_store *test_s3_store(int port, const char *prefix, const char *const *more)
{
    char endpoint[64], url[256];
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", port);
    snprintf(url, sizeof url, "s3://%s/%s", TEST_BUCKET, prefix);
    const char *pairs[32] = {"store", url, "s3_endpoint", endpoint};
    for (size_t i = 0; more && more[i] && i < 26; i++)
        pairs[4 + i] = more[i];
    setenv("AWS_ACCESS_KEY_ID", TEST_S3_KEY, 1);
    setenv("AWS_SECRET_ACCESS_KEY", TEST_S3_SECRET, 1);
    unsetenv("AWS_SESSION_TOKEN");
    unsetenv("http_proxy");
    struct kiln_config *config = test_config(pairs);
    struct kiln_store *store = NULL;
    struct kiln_error err = {0};
    if (kiln_store_open(config, &store, &err))
        fail_msg("%s", err.text);
    kiln_config_free(config);
    return store;
}
