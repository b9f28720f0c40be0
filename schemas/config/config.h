/* config.h - every setting of Kiln in one table.
 *
 * A value comes from, strongest first: a flag, the environment (KILN_<NAME>),
 * the config file (`name = value`, # comments), the default.  storage/daemon/config_file.h
 * finds and reads the file; here is only text.  `kiln help config` prints the table.
 * Secrets (passwords, S3 keys) are not settings: they come from files or the
 * environment of the library that uses them (PGPASSFILE, AWS_*), or redis_password_file.
 */
#ifndef KILN_CONFIG_H
#define KILN_CONFIG_H

#include <stdint.h>

#include "schemas/error.h"
#include "schemas/text/text.h"

enum kiln_key {
    KILN_KEY_REDIS,               /* redis://host:port/db or unix:/path */
    KILN_KEY_REDIS_PASSWORD_FILE, /* "" = none */
    KILN_KEY_POSTGRES,            /* a libpq conninfo */
    KILN_KEY_STORE,               /* file:///dir or s3://bucket/prefix */
    KILN_KEY_S3_ENDPOINT,         /* "" = AWS */
    KILN_KEY_S3_REGION,
    KILN_KEY_S3_ADDRESSING,       /* path | host */
    KILN_KEY_S3_CREDENTIALS_FILE, /* "" = environment, then ~/.aws/credentials */
    KILN_KEY_S3_PROFILE,
    KILN_KEY_POOL,
    KILN_KEY_MODEL,          /* model directory */
    KILN_KEY_LORA_DIR,       /* NAME.safetensors files; "" = <model>/loras */
    KILN_KEY_LORA_CACHE_DIR, /* where workers keep LoRA files of the store, */
    KILN_KEY_LORA_CACHE_GB,  /* and how many bytes of them */
    KILN_KEY_LORA_STORE_GB,  /* bytes of LoRA files in the store; 0 = any number */
    KILN_KEY_STYLES,         /* a JSON file of more presets; "" = none */
    KILN_KEY_SIZE,           /* of a picture whose job line sets none */
    KILN_KEY_DEFAULT_STEPS,  /* of a picture whose job line sets none; 0: the model's */
    KILN_KEY_COARSE,   /* off | auto | S+L | S+M+L, of a picture whose job line does not say */
    KILN_KEY_TELEPORT, /* off | auto, of a picture whose job line does not say */
    KILN_KEY_COMBINE,  /* single | lerp | slerp | tree, of several stored latents */
    KILN_KEY_COMBINE_DONORS,
    KILN_KEY_COMBINE_APART,
    KILN_KEY_CACHE_BUDGET_GB, /* of stored latents, for kiln cache prune; 0 = none */
    KILN_KEY_DEVICE,          /* cpu | cuda:N */
    KILN_KEY_DTYPE,           /* auto | fp32 | bf16 | fp8 */
    KILN_KEY_THREADS,         /* compute threads on the CPU; 0 = all cores */
    KILN_KEY_LORA_MODE,       /* auto | merged | beside */
    KILN_KEY_NUMA,            /* auto | off */
    KILN_KEY_ENGINE,          /* pipeline | testcard | random */
    KILN_KEY_BATCH_MAX,       /* jobs of one assignment */
    KILN_KEY_MAX_ATTEMPTS,
    KILN_KEY_BACKOFF_BASE_S, /* first retry after about this, then doubling */
    KILN_KEY_BACKOFF_MAX_S,
    KILN_KEY_HEARTBEAT_S,
    KILN_KEY_LEASE_S,             /* TTL of a heartbeat */
    KILN_KEY_STATEMENT_TIMEOUT_S, /* every SQL statement and every Redis answer */
    KILN_KEY_CONNECT_TIMEOUT_S,
    KILN_KEY_ENCODE_THREADS,
    KILN_KEY_WEBP_METHOD, /* 0..6 */
    KILN_KEY_WEBP_QUALITY,
    KILN_KEY_UPLOAD_PARALLEL,    /* objects at a time */
    KILN_KEY_DRAIN_S,            /* a worker's limit to finish after SIGTERM */
    KILN_KEY_HOLD_S,             /* how long a rendered picture waits in an outage of the store */
    KILN_KEY_STALL_S,            /* a batch without a step for so long counts as hung; 0 = never */
    KILN_KEY_EVENT_KEEP_DAYS,    /* how long the moves of an ended job are kept; 0 = for ever */
    KILN_KEY_METRICS_ADDRESS,    /* numeric: 127.0.0.1, 0.0.0.0, ::1 */
    KILN_KEY_SCHEDULER_PORT,     /* /metrics and /healthz of kiln-scheduler; 0 = none */
    KILN_KEY_WORKER_PORT,        /* the same of kiln-worker */
    KILN_KEY_GALLERY_ADDRESS,    /* numeric; beyond loopback with a token or a proxy only */
    KILN_KEY_GALLERY_PORT,       /* of kiln gallery serve */
    KILN_KEY_GALLERY_HOSTS,      /* names that it answers under, beside those of loopback */
    KILN_KEY_GALLERY_TOKEN_FILE, /* "" = none */
    KILN_KEY_GALLERY_ENQUEUE,    /* off | on: takes jobs, with the token of a producer */
    KILN_KEY_GALLERY_PRODUCER_TOKEN_FILE,
    KILN_KEY_GALLERY_PROXY,      /* numeric address of a trusted proxy; "" = none */
    KILN_KEY_GALLERY_LEVEL,      /* clear | unsure | mature | explicit: what is shown at most */
    KILN_KEY_GALLERY_UNCHECKED,  /* show | hide pictures that nobody has rated */
    KILN_KEY_GALLERY_RULE,       /* builtin | none | FILE: words of prompts that are marked */
    KILN_KEY_GALLERY_REVIEW,     /* off | on: whoever gets in sees what is hidden, and decides */
    KILN_KEY_GALLERY_CLASSIFIER, /* DIR of an image classifier; "" = none */
    KILN_KEY_GALLERY_CLASSIFIER_LEVELS,  /* "label=level, ..." */
    KILN_KEY_GALLERY_CLASSIFIER_CERTAIN, /* 0.5 .. 1 */
    KILN_KEY_GALLERY_METRICS_PORT,       /* /metrics and /healthz of kiln-gallery; 0 = none */
    KILN_KEY_GALLERY_NICE,               /* of it and its sessions; 0 = as it is started */
    KILN_KEY_ROUTER_EMBEDDER,            /* none | DIR: loras "auto" also compares meanings */
    KILN_KEY_ROUTER_LICENCES,            /* of LoRAs that loras "auto" may choose; "" = any */
    KILN_KEY_GALLERY_EMBEDDER,           /* auto | none | DIR: what search by meaning compares */
    KILN_KEY_WEBHOOK_HOSTS,              /* HOST or HOST:PORT, ...; "" = none is told */
    KILN_KEY_WEBHOOK_SECRET_FILE,        /* signs what they are told */
    KILN_KEY_EMBED_METADATA,             /* on | off: in the pictures of exports */
    KILN_KEY_CORE_DUMPS, /* off | on: of the daemons, whose memory has the secrets */
    KILN_KEY_LOG_LEVEL,  /* error | warning | info | debug */
    KILN_KEY_LOG_FORMAT, /* text | json */
    KILN_KEY_COUNT
};

enum kiln_type { KILN_TYPE_TEXT, KILN_TYPE_INT, KILN_TYPE_NUMBER, KILN_TYPE_CHOICE };

struct kiln_key_row {
    const char *name; /* as in the file; the flag is --name with - for _ */
    enum kiln_type type;
    const char *value;   /* default */
    double min, max;     /* of INT and NUMBER */
    const char *choices; /* "a|b|c" of CHOICE */
    const char *help;    /* one line */
};
extern const struct kiln_key_row kiln_keys[KILN_KEY_COUNT];

struct kiln_config;

struct kiln_config *kiln_config_new(void); /* all defaults; NULL when memory is short */
void kiln_config_free(struct kiln_config *config);

/* Sets one value by name ('-' and '_' are equal).  origin says where it came from in errors and
 * in `kiln help config`.  KILN_CONFIG for an unknown name (nearest named) or a bad value. */
int kiln_config_set(struct kiln_config *config, const char *name, const char *value,
                    const char *origin, struct kiln_error *err) KILN_MUST_CHECK;
/* A whole file's text; errors carry path:line. */
int kiln_config_parse(struct kiln_config *config, const char *text, size_t len, const char *path,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* KILN_* of an environ-style list.  KILN_CONFIG and KILN_SOURCE (the checkout that scripts use) are
 * skipped, and so is any name that is not a setting; kiln_config_stray reports it. */
int kiln_config_environ(struct kiln_config *config, char *const *environment,
                        struct kiln_error *err) KILN_MUST_CHECK;
/* A sentence about the first such name, for people, borrowed; NULL if there was none. */
const char *kiln_config_stray(const struct kiln_config *config);

/* Checks settings against each other, once all sources are merged.  KILN_CONFIG names both settings
 * and their origins if lease_s is shorter than two heartbeats. */
int kiln_config_check(const struct kiln_config *config, struct kiln_error *err) KILN_MUST_CHECK;

/* Borrowed until the next set. */
const char *kiln_config_text(const struct kiln_config *config, enum kiln_key key);
/* The directory of LoRA files: lora_dir, else MODEL/loras; "" if neither is set. */
void kiln_config_lora_dir(const struct kiln_config *config, char *out, size_t size);
int64_t kiln_config_int(const struct kiln_config *config, enum kiln_key key);
double kiln_config_number(const struct kiln_config *config, enum kiln_key key);
/* Appends the value for people: a password in it becomes ***. */
void kiln_config_shown(const struct kiln_config *config, enum kiln_key key, struct kiln_text *ret);
bool kiln_config_has_secret(enum kiln_key key, const char *value);
const char *kiln_config_origin(const struct kiln_config *config, enum kiln_key key);

#endif
