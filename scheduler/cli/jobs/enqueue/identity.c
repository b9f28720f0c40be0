/* identity.c - see identity.h. */
#include "scheduler/cli/jobs/enqueue/identity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "schemas/digest.h"
#include "schemas/job/line.h"
#include "schemas/names.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/queue/source.h"

/* Of a key in `known`. */
enum { OTHER = 1, OWN, MET, OWN_MET };

/* --- the name of a file ------------------------------------------------------------------------
 */

/* The length of a file's name without the ending that only says its format. */
static size_t stem_length(const char *name)
{
    static const char *const endings[] = {".txt", ".jsonl", ".ndjson", ".json", ".csv"};
    size_t len = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t ending = strlen(endings[i]);
        if (len > ending && strcasecmp(name + len - ending, endings[i]) == 0)
            return len - ending;
    }
    return len;
}

/* The first `stem` bytes of a file's name, as the name of a batch. */
static bool make_name(const char *name, size_t stem, char ret[KILN_BATCH_NAME_MAX + 1])
{
    enum { STEM_MAX = KILN_BATCH_NAME_MAX - 16 };
    size_t len = 0;
    bool hashed = stem > STEM_MAX;
    for (size_t i = 0; i < stem && len < STEM_MAX; i++) {
        char c = name[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     (i > 0 && (c == '.' || c == '_' || c == '-'));
        hashed = hashed || (unsigned char)c >= 0x80;
        if (((unsigned char)c & 0xC0) == 0x80)
            continue;           /* of a character that has its '-' already */
        if (len == 0 && !plain) /* a name begins with a letter or a digit */
            len = (size_t)snprintf(ret, KILN_BATCH_NAME_MAX + 1, "file");
        ret[len++] = plain ? c : '-';
    }
    ret[len] = '\0';
    if (hashed) {
        uint8_t digest[KILN_SHA256_SIZE];
        kiln_sha256(name, stem, digest);
        ret[len++] = '-';
        kiln_hex(digest, 4, ret + len);
    }
    if (kiln_name_reserved(ret)) {
        memmove(ret + 5, ret, strlen(ret) + 1);
        memcpy(ret, "file-", 5);
    }
    return kiln_name_valid(ret, strlen(ret), KILN_BATCH_NAME_MAX);
}

bool kiln_file_names(const char *path, char ret_batch[KILN_BATCH_NAME_MAX + 1],
                     char ret_source[KILN_BATCH_NAME_MAX + 1])
{
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return make_name(name, stem_length(name), ret_batch) &&
           make_name(name, strlen(name), ret_source);
}

/* --- keys ---------------------------------------------------------------------------------------
 */

static int keep_key(void *arg, const char *key, bool own, struct kiln_error *err)
{
    struct kiln_identity *identity = arg;
    uint8_t digest[KILN_SHA256_SIZE];
    kiln_sha256(key, strlen(key), digest);
    uint32_t *slot = kiln_digest_map_at(&identity->known, digest);
    if (!slot)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the keys of batch %s",
                         identity->batch);
    identity->own += own && *slot != OWN;
    if (*slot != OWN)
        *slot = own ? OWN : OTHER;
    return 0;
}

int kiln_identity_open(struct kiln_identity *identity, struct kiln_cli *cli, const char *batch,
                       const char *source, bool all, struct kiln_error *err)
{
    const char *pool = kiln_pool(cli), *of = source ? source : "";
    identity->batch = batch;
    identity->source = source;
    if (kiln_open_reader(cli, &identity->ledger, &identity->unreachable) != 0)
        return 0;
    struct kiln_ledger *ledger = identity->ledger;
    if (all)
        return kiln_ledger_keys(ledger, pool, batch, KILN_KEYS_ALL, of, keep_key, identity, err);
    int rc =
        kiln_ledger_keys(ledger, pool, batch, KILN_KEYS_OF_CUSTOM_ID, of, keep_key, identity, err);
    if (rc == 0 && source)
        rc =
            kiln_ledger_keys(ledger, pool, batch, KILN_KEYS_OF_SOURCE, of, keep_key, identity, err);
    return rc;
}

/* Counts a key of the file that the batch has; false if it has not. */
static bool meet(struct kiln_identity *identity, const char *key)
{
    uint8_t digest[KILN_SHA256_SIZE];
    kiln_sha256(key, strlen(key), digest);
    uint32_t *slot = kiln_digest_map_find(&identity->known, digest);
    if (!slot)
        return false;
    identity->met += *slot == OWN || *slot == OTHER;
    identity->own_met += *slot == OWN;
    *slot = *slot == OWN || *slot == OWN_MET ? OWN_MET : MET;
    return true;
}

int kiln_identity_key(struct kiln_identity *identity, const struct kiln_job *job, uint64_t copy,
                      const struct kiln_text *line, char ret_key[KILN_INTAKE_KEY_MAX + 1],
                      bool *ret_known, struct kiln_error *err)
{
    uint8_t digest[KILN_SHA256_SIZE];
    if (job->custom_id) { /* a batch of an earlier release goes on with its own rule */
        snprintf(ret_key, KILN_INTAKE_KEY_MAX + 1, "c:%s#%" PRIu64, job->custom_id, copy);
        *ret_known = meet(identity, ret_key);
        if (*ret_known)
            return 0;
    }
    kiln_sha256(line->at, line->len, digest);
    uint32_t *count = kiln_digest_map_at(&identity->lines, digest);
    if (!count)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to tell equal lines apart");
    kiln_job_line_key(digest, (*count)++, ret_key);
    *ret_known = meet(identity, ret_key);
    return 0;
}

void kiln_identity_rewind(struct kiln_identity *identity)
{
    kiln_digest_map_release(&identity->lines);
}

/* --- what is gone --------------------------------------------------------------------------------
 */

struct gone {
    struct kiln_identity *identity;
    struct kiln_text keys;
    kiln_each_gone *each;
    void *arg;
    uint64_t count;
};

static int flush(struct gone *gone, struct kiln_error *err)
{
    if (gone->keys.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the keys that are gone");
    int rc = gone->keys.len ? gone->each(gone->arg, gone->keys.at, gone->keys.len, err) : 0;
    kiln_text_clear(&gone->keys);
    return rc;
}

/* The scheduler may have taken in jobs of this call by now: those were never in `known`. */
static int take_gone(void *arg, const char *key, bool own, struct kiln_error *err)
{
    struct gone *gone = arg;
    uint8_t digest[KILN_SHA256_SIZE];
    (void)own;
    kiln_sha256(key, strlen(key), digest);
    const uint32_t *slot = kiln_digest_map_find(&gone->identity->known, digest);
    if (!slot || *slot != OWN)
        return 0;
    int rc = gone->keys.len + strlen(key) + 1 > KILN_INTAKE_GONE_MAX ? flush(gone, err) : 0;
    kiln_text_puts(&gone->keys, gone->keys.len ? "\n" : "");
    kiln_text_puts(&gone->keys, key);
    gone->count++;
    return rc;
}

int kiln_identity_gone(struct kiln_identity *identity, struct kiln_cli *cli, kiln_each_gone *each,
                       void *arg, uint64_t *ret_count, struct kiln_error *err)
{
    struct gone gone = {.identity = identity, .each = each, .arg = arg};
    *ret_count = 0;
    if (!identity->ledger || !identity->source || identity->own == identity->own_met)
        return 0;
    int rc = kiln_ledger_keys(identity->ledger, kiln_pool(cli), identity->batch,
                              KILN_KEYS_OF_SOURCE, identity->source, take_gone, &gone, err);
    rc = rc ? rc : flush(&gone, err);
    kiln_text_release(&gone.keys);
    *ret_count = gone.count;
    return rc;
}

void kiln_identity_release(struct kiln_identity *identity)
{
    kiln_ledger_close(identity->ledger);
    kiln_digest_map_release(&identity->lines);
    kiln_digest_map_release(&identity->known);
    *identity = (struct kiln_identity){0};
}
