/* store_compare.c - compares a list of objects with the store.
 *
 * Both come in byte order of keys, so one pass is enough, with a thousand objects a request and the
 * memory of one line.  A listing may lag behind (as in Swift): an object that is not listed is
 * requested by name before it counts as missing.
 */
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/core/output/progress.h"
#include "scheduler/cli/upkeep/backup.h"
#include "schemas/digest.h"
#include "schemas/job/inputs.h"
#include "schemas/limits.h"

#define OBJECT_MAX (64u << 20) /* for --hashes */

struct pass {
    struct kiln_compare *compare;
    struct kiln_manifest_entry next;
    bool more;
    char last[KILN_OBJECT_KEY_MAX + 1]; /* of the listing */
    struct kiln_bar bar;
    struct kiln_error err; /* kiln_store_list returns only codes */
};

static int step(struct pass *pass)
{
    return kiln_manifest_next(pass->compare->manifest, &pass->next, &pass->more, &pass->err);
}

static int report(struct pass *pass, uint64_t *count, const char *what)
{
    struct kiln_compare *compare = pass->compare;
    ++*count;
    return compare->each(compare->arg, what, &pass->next, &pass->err);
}

/* Compares the bytes. */
static int check_hash(struct pass *pass)
{
    struct kiln_compare *compare = pass->compare;
    void *data = NULL;
    size_t size = 0;
    uint8_t digest[KILN_SHA256_SIZE];
    char hex[2 * KILN_SHA256_SIZE + 1];
    const size_t most = kiln_lora_key_valid(pass->next.key) ? KILN_LORA_BYTES_MAX : OBJECT_MAX;
    int rc = kiln_store_get(compare->store, pass->next.key, most, &data, &size, &pass->err);
    if (rc == KILN_NOT_FOUND)
        return report(pass, &compare->missing, "missing");
    if (rc && rc != KILN_CORRUPT)
        return rc;
    if (rc == 0) {
        kiln_sha256(data, size, digest);
        kiln_hex(digest, sizeof digest, hex);
        free(data);
    }
    return rc || strcmp(hex, pass->next.sha256) != 0 ? report(pass, &compare->differ, "differs")
                                                     : 0;
}

static int check_present(struct pass *pass, uint64_t size)
{
    struct kiln_compare *compare = pass->compare;
    compare->compared++;
    /* The ledger does not know the size of a picture to start from; its key has its hash. */
    if (size != pass->next.bytes && !kiln_input_key_valid(pass->next.key))
        return report(pass, &compare->differ, "differs");
    return compare->hashes ? check_hash(pass) : 0;
}

/* An object that the listing does not have. */
static int check_absent(struct pass *pass)
{
    uint64_t size = 0;
    int rc = kiln_store_head(pass->compare->store, pass->next.key, &size, &pass->err);
    if (rc == 0)
        return check_present(pass, size);
    pass->compare->compared++;
    return rc == KILN_NOT_FOUND ? report(pass, &pass->compare->missing, "missing") : rc;
}

static int note_object(void *arg, const char *key, uint64_t size, int64_t modified_s)
{
    struct pass *pass = arg;
    int rc = 0;
    (void)modified_s;
    if (strcmp(key, pass->last) <= 0)
        return kiln_fail(&pass->err, KILN_PROTOCOL, "the store lists %s after %s, out of order",
                         key, pass->last);
    snprintf(pass->last, sizeof pass->last, "%s", key);
    while (rc == 0 && pass->more && strcmp(pass->next.key, key) < 0) {
        rc = check_absent(pass);
        rc = rc ? rc : step(pass);
    }
    kiln_bar_draw(&pass->bar, 0, pass->compare->compared, 0, 0, kiln_now_s());
    if (rc)
        return rc;
    if (!pass->more || strcmp(pass->next.key, key) != 0) {
        pass->compare->extra++;
        return 0;
    }
    rc = check_present(pass, size);
    return rc ? rc : step(pass);
}

int kiln_store_compare(struct kiln_compare *compare, struct kiln_error *err)
{
    static const char *const prefixes[] = {"images/", KILN_INPUTS_PREFIX, "latents/",
                                           KILN_LORAS_PREFIX};
    struct pass pass = {.compare = compare};
    kiln_bar_init(&pass.bar, compare->cli, "comparing with the store");
    compare->compared = compare->missing = compare->differ = compare->extra = 0;
    rewind(compare->manifest);
    int rc = step(&pass);
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && rc == 0; i++)
        rc = kiln_store_list(compare->store, prefixes[i], note_object, &pass, err);
    while (rc == 0 && pass.more) {
        rc = check_absent(&pass);
        rc = rc ? rc : step(&pass);
    }
    kiln_bar_end(&pass.bar);
    if (rc && pass.err.code)
        *err = pass.err;
    return rc;
}
