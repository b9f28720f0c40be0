/* doctor_store.c - `kiln doctor` on the object store: our rights there, and the ledger's objects.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/cli/upkeep/backup.h"
#include "scheduler/cli/upkeep/doctor.h"
#include "storage/ledger/read/reader.h"
#include "storage/ledger/upkeep/backup.h"
#include "storage/ledger/upkeep/garbage.h"

#define JOBS_SAMPLED 12

/* A test object is written, read and removed: a listing would not tell what we may do. */
static void check_rights(struct kiln_doctor *doctor, const char *url)
{
    struct kiln_store *store = NULL;
    struct kiln_error err;
    int rc = kiln_store_open(doctor->cli->config, &store, &err);
    if (rc == 0)
        rc = kiln_store_probe(store, 0, &err);
    kiln_store_close(store);
    if (rc) {
        kiln_finding(doctor, "store", VERDICT_BAD,
                     rc == KILN_FULL ? KILN_FREE_SPACE
                                     : "check store, s3_endpoint, the credentials and the rights",
                     "%s", err.text);
        return;
    }
    kiln_finding(doctor, "store", VERDICT_OK, "", "wrote, read and removed a test object in %s",
                 url);
    if (strncmp(url, "file://", 7) == 0)
        kiln_doctor_room(doctor, "disk", url + 7);
}

/* --- a sample --------------------------------------------------------------------------------- */

struct sample {
    struct kiln_store *store;
    uint64_t objects, missing;
    char first[KILN_OBJECT_KEY_MAX + 1]; /* one that is missing */
};

static int check_object(void *arg, uint64_t job, const char *key, uint64_t bytes,
                        struct kiln_error *err)
{
    struct sample *sample = arg;
    uint64_t size = 0;
    (void)job;
    int rc = kiln_store_head(sample->store, key, &size, err);
    if (rc && rc != KILN_NOT_FOUND)
        return rc;
    sample->objects++;
    if (rc == KILN_NOT_FOUND || size != bytes) {
        sample->missing++;
        snprintf(sample->first, sizeof sample->first, "%s", key);
    }
    return 0;
}

static void check_sample(struct kiln_doctor *doctor)
{
    struct sample sample = {0};
    struct kiln_ledger *ledger = NULL;
    struct kiln_error err;
    if (kiln_doctor_ask(doctor, &ledger, &err))
        return;
    int rc = kiln_store_open(doctor->cli->config, &sample.store, &err);
    if (rc == 0)
        rc = kiln_ledger_sample_objects(ledger, JOBS_SAMPLED, check_object, &sample, &err);
    kiln_store_close(sample.store);
    kiln_reader_give(doctor->reader, ledger);
    if (rc == KILN_DENIED) /* a key that may only put */
        kiln_finding(doctor, "objects", VERDICT_WARNING, "run kiln doctor with a key that may read",
                     "%s", err.text);
    else if (sample.missing)
        kiln_finding(
            doctor, "objects", VERDICT_BAD,
            "check that store is the one of this ledger and what else deletes from it; "
            "`kiln doctor --full` counts all, then copy them back from a copy of the store",
            "%s missing from the store, of a random sample of %" PRIu64 ", such as %s",
            KILN_COUNT(sample.missing, "object"), sample.objects, sample.first);
    else if (rc == 0 && sample.objects)
        kiln_finding(doctor, "objects", VERDICT_OK, "",
                     "%s of the ledger, chosen at random, %s in the store",
                     KILN_COUNT(sample.objects, "object"), sample.objects == 1 ? "is" : "are");
}

/* --- all objects ------------------------------------------------------------------------------ */

static int keep_first(void *arg, const char *what, const struct kiln_manifest_entry *entry,
                      struct kiln_error *err)
{
    char *first = arg;
    (void)what, (void)err;
    if (!first[0])
        snprintf(first, KILN_OBJECT_KEY_MAX + 1, "%s", entry->key);
    return 0;
}

/* Lists the ledger's objects from one snapshot, so that a picture which is stored meanwhile is not
 * called missing. */
static int compare(struct kiln_compare *pass, uint64_t *ret_bytes, struct kiln_error *err)
{
    struct kiln_snapshot *snapshot = NULL;
    struct kiln_snapshot_facts facts;
    uint64_t objects = 0;
    int rc = kiln_snapshot_open(pass->cli->config, &snapshot, &facts, err);
    if (rc == 0)
        rc = kiln_manifest_write(snapshot, pass->manifest, &objects, ret_bytes, err);
    kiln_snapshot_close(snapshot);
    if (rc == 0)
        rc = kiln_store_open(pass->cli->config, &pass->store, err);
    if (rc == 0)
        rc = kiln_store_compare(pass, err);
    kiln_store_close(pass->store);
    return rc;
}

static void check_all(struct kiln_doctor *doctor)
{
    char first[KILN_OBJECT_KEY_MAX + 1] = "";
    struct kiln_error err = {0};
    struct kiln_compare pass = {
        .cli = doctor->cli, .manifest = tmpfile(), .each = keep_first, .arg = first};
    uint64_t bytes = 0;
    if (!pass.manifest)
        return;
    int rc = compare(&pass, &bytes, &err);
    fclose(pass.manifest);
    if (rc)
        kiln_finding(doctor, "objects", rc == KILN_DENIED ? VERDICT_WARNING : VERDICT_BAD,
                     "run kiln doctor with a key that may list and read", "%s", err.text);
    else if (pass.missing + pass.differ)
        kiln_finding(doctor, "objects", VERDICT_BAD,
                     "check that store is the one of this ledger and what else deletes from it; "
                     "copy the objects back from a copy of the store",
                     "%s missing from the store and %" PRIu64 " of another size, of %" PRIu64
                     " in the ledger, such as %s",
                     KILN_COUNT(pass.missing, "object"), pass.differ, pass.compared, first);
    else
        kiln_finding(doctor, "objects", VERDICT_OK, "",
                     "the store has all %s of the ledger (%s), and %" PRIu64 " others",
                     KILN_COUNT(pass.compared, "object"), KILN_BYTES(bytes), pass.extra);
}

/* Without the setting it does not touch the default directory. */
void kiln_doctor_store(struct kiln_doctor *doctor, bool full)
{
    const char *url = kiln_config_text(doctor->cli->config, KILN_KEY_STORE);
    if (strcmp(kiln_config_origin(doctor->cli->config, KILN_KEY_STORE), "default") == 0) {
        kiln_finding(doctor, "store", VERDICT_WARNING,
                     "set store = file:///DIR or s3://BUCKET/PREFIX",
                     "no store is configured; the default, %s, was not tried", url);
        return;
    }
    check_rights(doctor, url);
    if (full)
        check_all(doctor);
    else
        check_sample(doctor);
}
