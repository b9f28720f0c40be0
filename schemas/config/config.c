/* config.c - the table of settings and their values.
 *
 * A value is stored as the text that set it and is checked then; the typed getters parse it again,
 * which no hot path does.  origin says who set it, so that an error and `kiln help config` can name
 * the file and line.
 */
#include "schemas/config/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/limits.h"
#include "schemas/names.h"

#define LEASE_BEATS_MIN 2

#define TEXT(name, value, help)                                                                    \
    {                                                                                              \
        name, KILN_TYPE_TEXT, value, 0, 0, NULL, help                                              \
    }
#define INT(name, value, min, max, help)                                                           \
    {                                                                                              \
        name, KILN_TYPE_INT, value, min, max, NULL, help                                           \
    }
#define NUMBER(name, value, min, max, help)                                                        \
    {                                                                                              \
        name, KILN_TYPE_NUMBER, value, min, max, NULL, help                                        \
    }
#define CHOICE(name, value, choices, help)                                                         \
    {                                                                                              \
        name, KILN_TYPE_CHOICE, value, 0, 0, choices, help                                         \
    }

const struct kiln_key_row kiln_keys[KILN_KEY_COUNT] = {
    [KILN_KEY_REDIS] =
        TEXT("redis", "redis://127.0.0.1:6379/0", "the bus: redis://host:port/db or unix:/path"),
    [KILN_KEY_REDIS_PASSWORD_FILE] =
        TEXT("redis_password_file", "", "file whose first line is the Redis password"),
    [KILN_KEY_POSTGRES] = TEXT("postgres", "host=/var/run/postgresql dbname=kiln",
                               "the ledger: a libpq connection string"),
    [KILN_KEY_STORE] = TEXT("store", "file:///var/lib/kiln/store",
                            "the object store: file:///dir or s3://bucket/prefix"),
    [KILN_KEY_S3_ENDPOINT] = TEXT("s3_endpoint", "", "URL of the S3 server; empty for AWS"),
    [KILN_KEY_S3_REGION] = TEXT("s3_region", "us-east-1", "region for which requests are signed"),
    [KILN_KEY_S3_ADDRESSING] =
        CHOICE("s3_addressing", "path", "path|host", "where the bucket name goes in a URL"),
    [KILN_KEY_S3_CREDENTIALS_FILE] =
        TEXT("s3_credentials_file", "", "empty: AWS_* variables, then ~/.aws/credentials"),
    [KILN_KEY_S3_PROFILE] = TEXT("s3_profile", "default", "section of the credentials file"),
    [KILN_KEY_POOL] = TEXT("pool", "default", "name of the fleet that shares one queue"),
    [KILN_KEY_MODEL] = TEXT("model", "", "directory of the model (diffusers layout)"),
    [KILN_KEY_LORA_DIR] =
        TEXT("lora_dir", "", "directory of NAME.safetensors files; empty: MODEL/loras"),
    [KILN_KEY_LORA_CACHE_DIR] = TEXT("lora_cache_dir", "/var/lib/kiln/loras",
                                     "directory in which workers keep LoRA files of the store"),
    [KILN_KEY_LORA_CACHE_GB] =
        NUMBER("lora_cache_gb", "20", 0, 1e6,
               "what they take there at most, in GB; files in use may exceed it"),
    [KILN_KEY_LORA_STORE_GB] =
        NUMBER("lora_store_gb", "0", 0, 1e9,
               "GB of LoRA files in the store beyond which `kiln lora` adds none; 0: no limit"),
    [KILN_KEY_STYLES] = TEXT("styles", "", "JSON file of more style presets"),
    [KILN_KEY_SIZE] = TEXT("size", "1024x1024", "size of a picture whose job line sets none"),
    [KILN_KEY_DEFAULT_STEPS] =
        INT("default_steps", "0", 0, KILN_STEPS_MAX,
            "steps of a picture whose job line sets none; 0: as MODEL/kiln.json says, else 8"),
    [KILN_KEY_COARSE] =
        TEXT("coarse", "auto", "off, auto (as kiln.json says), S+L or S+M+L: early steps smaller"),
    [KILN_KEY_TELEPORT] = CHOICE("teleport", "off", "off|auto",
                                 "auto: a run may begin from a stored latent, as kiln.json says"),
    [KILN_KEY_COMBINE] = CHOICE("combine", "single", "single|lerp|slerp|tree",
                                "how stored latents of one prompt become the start of a run"),
    [KILN_KEY_COMBINE_DONORS] = INT("combine_donors", "2", 2, KILN_COMBINE_MAX,
                                    "stored latents that combine takes at most"),
    [KILN_KEY_COMBINE_APART] =
        NUMBER("combine_apart", "0.15", 0, 100,
               "how far apart latents that combine takes are at most, at large (low-pass)"),
    [KILN_KEY_CACHE_BUDGET_GB] =
        NUMBER("cache_budget_gb", "0", 0, 1e9,
               "GB of stored latents that `kiln cache prune` keeps; 0: no budget"),
    [KILN_KEY_DEVICE] = TEXT("device", "cpu", "cpu, cuda:N, lists of them, or cuda:all"),
    [KILN_KEY_DTYPE] = CHOICE("dtype", "auto", "auto|fp32|bf16|fp8", "number format of the model"),
    [KILN_KEY_THREADS] = INT("threads", "0", 0, 1024, "compute threads on the CPU; 0: all cores"),
    [KILN_KEY_LORA_MODE] =
        CHOICE("lora_mode", "auto", "auto|merged|beside",
               "merged: LoRAs in copies of the weights; beside: less memory, slower steps"),
    [KILN_KEY_NUMA] = CHOICE("numa", "auto", "auto|off",
                             "auto binds a worker to the processors and memory beside its GPU"),
    [KILN_KEY_ENGINE] =
        CHOICE("engine", "pipeline", "pipeline|testcard|random",
               "what renders; for measurements: testcard is immediate, random has a "
               "model's architecture and random weights"),
    [KILN_KEY_BATCH_MAX] = INT("batch_max", "4", 1, KILN_ASSIGN_MAX, "most jobs in one assignment"),
    [KILN_KEY_MAX_ATTEMPTS] = INT("max_attempts", "3", 1, 100, "tries before a job fails for good"),
    [KILN_KEY_BACKOFF_BASE_S] = NUMBER("backoff_base_s", "1", 0, 3600,
                                       "time before the first retry, about; it doubles each time"),
    [KILN_KEY_BACKOFF_MAX_S] = NUMBER("backoff_max_s", "300", 0, 86400, "longest wait for a retry"),
    [KILN_KEY_HEARTBEAT_S] =
        NUMBER("heartbeat_s", "2", 0.05, 60, "time between heartbeats of a worker"),
    [KILN_KEY_LEASE_S] = NUMBER("lease_s", "10", 0.2, 600,
                                "silence after which a worker is lost; at least two heartbeats"),
    [KILN_KEY_STATEMENT_TIMEOUT_S] = NUMBER("statement_timeout_s", "30", 0.1, 3600,
                                            "limit of one SQL statement or Redis answer"),
    [KILN_KEY_CONNECT_TIMEOUT_S] =
        NUMBER("connect_timeout_s", "5", 0.1, 600, "limit of connecting to a server"),
    [KILN_KEY_ENCODE_THREADS] = INT("encode_threads", "0", 0, 256, "WebP encoders; 0: by cores"),
    [KILN_KEY_WEBP_METHOD] = INT("webp_method", "4", 0, 6, "0 is fastest, 6 is smallest"),
    [KILN_KEY_WEBP_QUALITY] =
        NUMBER("webp_quality", "85", 0, 100, "quality of the stored pictures"),
    [KILN_KEY_UPLOAD_PARALLEL] =
        INT("upload_parallel", "16", 1, 256, "objects uploaded in parallel"),
    [KILN_KEY_DRAIN_S] =
        NUMBER("drain_s", "30", 0, 3600, "time for a worker to finish its batch after SIGTERM"),
    [KILN_KEY_HOLD_S] =
        NUMBER("hold_s", "600", 0, 86400,
               "how long a rendered picture waits for the store before its job returns"),
    [KILN_KEY_STALL_S] = NUMBER("stall_s", "900", 0, 86400,
                                "a worker exits if its batch makes no step for so long; 0: never"),
    [KILN_KEY_EVENT_KEEP_DAYS] =
        INT("event_keep_days", "90", 0, 36500, "days to keep the moves of ended jobs; 0: for ever"),
    [KILN_KEY_METRICS_ADDRESS] = TEXT("metrics_address", "127.0.0.1",
                                      "numeric address on which the ports of metrics listen"),
    [KILN_KEY_SCHEDULER_PORT] =
        INT("scheduler_port", "9461", 0, 65535,
            "/metrics and /healthz of kiln-scheduler, on this or the next free port; 0: off"),
    [KILN_KEY_WORKER_PORT] = INT("worker_port", "9462", 0, 65535,
                                 "the same of kiln-worker: of cuda:N it is this port + N, or the "
                                 "next free one"),
    [KILN_KEY_GALLERY_ADDRESS] =
        TEXT("gallery_address", "127.0.0.1",
             "numeric address of the web gallery; beyond loopback with gallery_token_file or "
             "gallery_proxy"),
    [KILN_KEY_GALLERY_PORT] = INT("gallery_port", "9480", 0, 65535,
                                  "port of `kiln gallery serve`, or the next free one; 0: any"),
    [KILN_KEY_GALLERY_HOSTS] =
        TEXT("gallery_hosts", "", "host names under which the gallery is reached, with commas"),
    [KILN_KEY_GALLERY_TOKEN_FILE] =
        TEXT("gallery_token_file", "", "file whose first line lets people and scripts in"),
    [KILN_KEY_GALLERY_ENQUEUE] =
        CHOICE("gallery_enqueue", "off", "off|on",
               "whether the web gallery takes jobs; needs gallery_producer_token_file"),
    [KILN_KEY_GALLERY_PRODUCER_TOKEN_FILE] =
        TEXT("gallery_producer_token_file", "",
             "file whose first line also allows people and scripts to enqueue"),
    [KILN_KEY_GALLERY_PROXY] =
        TEXT("gallery_proxy", "", "numeric address of the proxy that signs people in"),
    [KILN_KEY_GALLERY_LEVEL] = CHOICE("gallery_level", "unsure", "clear|unsure|mature|explicit",
                                      "pictures rated above it are hidden in the web gallery"),
    [KILN_KEY_GALLERY_UNCHECKED] = CHOICE("gallery_unchecked", "show", "show|hide",
                                          "pictures that were not rated, in the web gallery"),
    [KILN_KEY_GALLERY_RULE] =
        TEXT("gallery_rule", "builtin",
             "words of a prompt that make its pictures unsure: builtin, none, or a file of words"),
    [KILN_KEY_GALLERY_REVIEW] =
        CHOICE("gallery_review", "off", "off|on",
               "the web gallery's /review: whoever may open the gallery sees what is hidden and "
               "decides on it"),
    [KILN_KEY_GALLERY_CLASSIFIER] =
        TEXT("gallery_classifier", "",
             "directory of the image classifier of `kiln gallery classify`; Kiln ships none"),
    [KILN_KEY_GALLERY_CLASSIFIER_LEVELS] = TEXT(
        "gallery_classifier_levels", "",
        "what its labels stand for, as in \"nude=explicit, art=clear\"; common ones are known"),
    [KILN_KEY_GALLERY_CLASSIFIER_CERTAIN] =
        NUMBER("gallery_classifier_certain", "0.75", 0.5, 1,
               "share from which its level counts; what is not certain either way is unsure"),
    [KILN_KEY_GALLERY_METRICS_PORT] = INT("gallery_metrics_port", "9460", 0, 65535,
                                          "/metrics and /healthz of the gallery; 0: off"),
    [KILN_KEY_GALLERY_NICE] =
        INT("gallery_nice", "5", 0, 19,
            "nice value of the gallery, and of its sessions in a Postgres of this machine, so that "
            "workers' commits come first; 0: as it is started"),
    [KILN_KEY_ROUTER_EMBEDDER] =
        TEXT("router_embedder", "none",
             "loras \"auto\" by meaning as well: a directory with a text embedder and its "
             "kiln_router.json; none: by words"),
    [KILN_KEY_ROUTER_LICENCES] = TEXT(
        "router_licences", "",
        "licences of LoRAs that loras \"auto\" may choose, with commas; commercial: all that are "
        "known to allow commercial use; empty: any"),
    [KILN_KEY_GALLERY_EMBEDDER] =
        TEXT("gallery_embedder", "auto",
             "search by meaning: a directory with a text embedder; auto: the model's own; none"),
    [KILN_KEY_WEBHOOK_HOSTS] =
        TEXT("webhook_hosts", "",
             "hosts that --on-done may name, as HOST or HOST:PORT, with commas; empty: none"),
    [KILN_KEY_WEBHOOK_SECRET_FILE] =
        TEXT("webhook_secret_file", "", "file whose first line signs what those hosts are told"),
    [KILN_KEY_EMBED_METADATA] =
        CHOICE("embed_metadata", "on", "on|off",
               "prompt, seed and the rest inside the pictures of exports, for other programs"),
    [KILN_KEY_CORE_DUMPS] =
        CHOICE("core_dumps", "off", "off|on",
               "core dumps of the daemons, whose memory has passwords; on also allows debuggers"),
    [KILN_KEY_LOG_LEVEL] = CHOICE("log_level", "info", "error|warning|info|debug",
                                  "least important level that is logged"),
    [KILN_KEY_LOG_FORMAT] = CHOICE("log_format", "text", "text|json", "key=value or JSON lines"),
};

struct kiln_config {
    char *value[KILN_KEY_COUNT];  /* NULL: the default */
    char *origin[KILN_KEY_COUNT]; /* NULL with it */
    char *stray;                  /* the first KILN_* variable that sets nothing; NULL */
};

struct kiln_config *kiln_config_new(void)
{
    return calloc(1, sizeof(struct kiln_config));
}

void kiln_config_free(struct kiln_config *config)
{
    if (!config)
        return;
    for (int key = 0; key < KILN_KEY_COUNT; key++) {
        free(config->value[key]);
        free(config->origin[key]);
    }
    free(config->stray);
    free(config);
}

/* --- one value ----------------------------------------------------------------------------- */

static bool same_name(const char *given, const char *name)
{
    for (; *given && *name; given++, name++)
        if (*given != *name && !(*given == '-' && *name == '_'))
            return false;
    return *given == *name;
}

/* Flags write names with '-', files with '_': both name the same setting. */
static int find_key(const char *name)
{
    for (int key = 0; key < KILN_KEY_COUNT; key++)
        if (same_name(name, kiln_keys[key].name))
            return key;
    return -1;
}

static int unknown_key(const char *name, const char *origin, struct kiln_error *err)
{
    const char *names[KILN_KEY_COUNT];
    for (int key = 0; key < KILN_KEY_COUNT; key++)
        names[key] = kiln_keys[key].name;
    const char *near = kiln_nearest(name, strlen(name), names, KILN_KEY_COUNT);
    if (near)
        return kiln_fail(err, KILN_CONFIG, "%s: unknown setting \"%.64s\"; did you mean \"%s\"?",
                         origin, name, near);
    return kiln_fail(err, KILN_CONFIG,
                     "%s: unknown setting \"%.64s\"; `kiln help config` lists them", origin, name);
}

/* Whether value is one of "a|b|c". */
static bool is_choice(const char *choices, const char *value)
{
    size_t len = strlen(value);
    for (const char *at = choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (len == strcspn(at, "|") && strncmp(at, value, len) == 0)
            return true;
    return false;
}

/* Decimal only: strtod alone accepts hexadecimal, infinity and leading blanks. */
static bool parse_number(const char *value, bool whole, double *ret)
{
    char *end;
    if (*value == '\0' || strspn(value, "+-.0123456789eE") != strlen(value))
        return false;
    *ret = strtod(value, &end);
    return *end == '\0' && isfinite(*ret) && (!whole || *ret == floor(*ret));
}

static int check_value(enum kiln_key key, const char *value, const char *origin,
                       struct kiln_error *err)
{
    const struct kiln_key_row *row = &kiln_keys[key];
    bool whole = row->type == KILN_TYPE_INT;
    double number;
    switch (row->type) {
    case KILN_TYPE_CHOICE:
        if (!is_choice(row->choices, value))
            return kiln_fail(err, KILN_CONFIG, "%s: %s is \"%.64s\"; allowed are %s", origin,
                             row->name, value, row->choices);
        break;
    case KILN_TYPE_INT:
    case KILN_TYPE_NUMBER:
        if (!parse_number(value, whole, &number) || number < row->min || number > row->max)
            return kiln_fail(err, KILN_CONFIG,
                             "%s: %s is \"%.64s\"; it must be a %snumber from %g to %g", origin,
                             row->name, value, whole ? "whole " : "", row->min, row->max);
        break;
    case KILN_TYPE_TEXT:
        if (key == KILN_KEY_POOL && !kiln_name_valid(value, strlen(value), KILN_NAME_MAX))
            return kiln_fail(err, KILN_CONFIG,
                             "%s: pool is \"%.80s\"; a name has up to %d " KILN_NAME_RULE, origin,
                             value, KILN_NAME_MAX);
        break;
    }
    return 0;
}

int kiln_config_set(struct kiln_config *config, const char *name, const char *value,
                    const char *origin, struct kiln_error *err)
{
    int key = find_key(name);
    if (key < 0)
        return unknown_key(name, origin, err);
    int code = check_value((enum kiln_key)key, value, origin, err);
    if (code)
        return code;
    char *value_copy = strdup(value), *origin_copy = strdup(origin);
    if (!value_copy || !origin_copy) {
        free(value_copy);
        free(origin_copy);
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for %s", origin, name);
    }
    free(config->value[key]);
    free(config->origin[key]);
    config->value[key] = value_copy;
    config->origin[key] = origin_copy;
    return 0;
}

const char *kiln_config_text(const struct kiln_config *config, enum kiln_key key)
{
    return config->value[key] ? config->value[key] : kiln_keys[key].value;
}

void kiln_config_lora_dir(const struct kiln_config *config, char *out, size_t size)
{
    const char *own = kiln_config_text(config, KILN_KEY_LORA_DIR);
    const char *model = kiln_config_text(config, KILN_KEY_MODEL);
    snprintf(out, size, "%s%s", *own ? own : model, *own || !*model ? "" : "/loras");
}

int64_t kiln_config_int(const struct kiln_config *config, enum kiln_key key)
{
    return (int64_t)kiln_config_number(config, key);
}

double kiln_config_number(const struct kiln_config *config, enum kiln_key key)
{
    return strtod(kiln_config_text(config, key), NULL);
}

const char *kiln_config_origin(const struct kiln_config *config, enum kiln_key key)
{
    return config->origin[key] ? config->origin[key] : "default";
}

/* --- values that must suit each other ------------------------------------------------------- */

/* A lease shorter than the time between heartbeats loses live workers, and the jobs that seem to
 * have crashed them become dead letters.  Two heartbeats, so that one may be late. */
int kiln_config_check(const struct kiln_config *config, struct kiln_error *err)
{
    double lease_s = kiln_config_number(config, KILN_KEY_LEASE_S);
    double heartbeat_s = kiln_config_number(config, KILN_KEY_HEARTBEAT_S);
    if (lease_s >= LEASE_BEATS_MIN * heartbeat_s)
        return 0;
    return kiln_fail(err, KILN_CONFIG,
                     "lease_s is %g (%s) and heartbeat_s is %g (%s): a lease must last at least %d "
                     "heartbeats, or live workers count as lost",
                     lease_s, kiln_config_origin(config, KILN_KEY_LEASE_S), heartbeat_s,
                     kiln_config_origin(config, KILN_KEY_HEARTBEAT_S), LEASE_BEATS_MIN);
}

/* --- the environment ----------------------------------------------------------------------- */

/* KILN_LEASE_S=4 is lease_s = 4.  An unknown name may be a typing error, or a variable of somebody
 * else (a container platform sets KILN_PORT for a service called kiln).  It must not stop every
 * command, so it is only reported. */
static int set_from_environment(struct kiln_config *config, const char *entry,
                                struct kiln_error *err)
{
    char origin[128], name[64];
    size_t len = strcspn(entry, "=");
    snprintf(origin, sizeof origin, "environment %.*s", (int)len, entry);
    size_t end = len - 5 < sizeof name ? len - 5 : sizeof name - 1;
    for (size_t i = 0; i < end; i++) {
        char c = entry[i + 5];
        name[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    name[end] = '\0';
    if (entry[len] == '=' && end == len - 5 && find_key(name) >= 0)
        return kiln_config_set(config, name, entry + len + 1, origin, err);
    struct kiln_error stray;
    (void)unknown_key(name, origin, &stray);
    if (!config->stray && !(config->stray = strdup(stray.text)))
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory", origin);
    return 0;
}

const char *kiln_config_stray(const struct kiln_config *config)
{
    return config->stray;
}

/* Variables that are not settings: the path of the file, and the checkout that scripts use. */
static bool is_no_setting(const char *entry)
{
    return strncmp(entry, "KILN_CONFIG=", 12) == 0 || strncmp(entry, "KILN_SOURCE=", 12) == 0;
}

int kiln_config_environ(struct kiln_config *config, char *const *environment,
                        struct kiln_error *err)
{
    for (; environment && *environment; environment++) {
        if (strncmp(*environment, "KILN_", 5) != 0 || is_no_setting(*environment))
            continue;
        int code = set_from_environment(config, *environment, err);
        if (code)
            return code;
    }
    return 0;
}
