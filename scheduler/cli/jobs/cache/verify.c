/* verify.c - `kiln cache verify`: whether the stored latents from which other runs may begin are in
 * the store, of the size that the ledger names; with --full also of its SHA-256, and whether they
 * decode to finite values of the model's files.
 *
 * A worker finds out as well, and renders in full; but then each such donor costs a hit.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/jobs/cache/cache.h"
#include "schemas/digest.h"
#include "storage/formats/latentfile.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/donors.h"
#include "storage/ledger/read/latents.h"
#include "storage/objects/store.h"

#define PAGE 256

struct verify {
    struct kiln_listing listing;
    struct kiln_ledger *ledger;
    struct kiln_store *store;
    bool full;
    uint64_t ids[PAGE];
    size_t count;
    struct kiln_latent_row *rows; /* [PAGE] */
    uint64_t checked, bytes, bad;
    struct kiln_error failure; /* of what is not the latent's: it ends the walk */
};

/* What is wrong with an object whose bytes are there. */
static int check_bytes(const struct kiln_latent_row *row, const void *data, size_t size,
                       struct kiln_error *why)
{
    struct kiln_latent latent;
    uint8_t digest[KILN_SHA256_SIZE];
    char hex[2 * KILN_SHA256_SIZE + 1];
    kiln_sha256(data, size, digest);
    kiln_hex(digest, sizeof digest, hex);
    if (row->sha256[0] && strcmp(hex, row->sha256) != 0)
        return kiln_fail(why, KILN_CORRUPT, "its SHA-256 is not that of the ledger");
    int code = kiln_latent_decode_finished(data, size, &latent, why);
    if (code)
        return code;
    if (strcmp(latent.model, row->model_hash) != 0)
        code = kiln_fail(why, KILN_CORRUPT, "it is of model %s, in the ledger of %s", latent.model,
                         row->model_hash);
    kiln_latent_release(&latent);
    return code;
}

static int check_object(const struct verify *verify, const struct kiln_latent_row *row,
                        struct kiln_error *why)
{
    uint64_t size = 0;
    void *data = NULL;
    size_t got = 0;
    int code = kiln_store_head(verify->store, row->key, &size, why);
    if (code == 0 && size != row->bytes)
        code = kiln_fail(why, KILN_CORRUPT, "%" PRIu64 " bytes, and in the ledger %" PRIu64, size,
                         row->bytes);
    if (code || !verify->full)
        return code;
    code = kiln_store_get(verify->store, row->key, (size_t)row->bytes, &data, &got, why);
    code = code ? code : check_bytes(row, data, got, why);
    free(data);
    return code;
}

static bool of_the_latent(int code)
{
    return code == KILN_NOT_FOUND || code == KILN_CORRUPT || code == KILN_BAD_INPUT ||
           code == KILN_UNSUPPORTED || code == KILN_FULL;
}

/* Whether the latent was removed since its row was read: then its object may be gone as well. */
static int look_again(const struct verify *verify, const struct kiln_latent_row *row,
                      bool *ret_removed, struct kiln_error *err)
{
    struct kiln_latent_row now;
    int code = kiln_ledger_latents(verify->ledger, kiln_pool(verify->listing.cli), &row->job, 1,
                                   &now, err);
    *ret_removed = code == 0 && strcmp(now.key, row->key) != 0;
    return code;
}

static int check_page(struct verify *verify, struct kiln_error *err)
{
    struct kiln_listing *listing = &verify->listing;
    int code = kiln_ledger_latents(verify->ledger, kiln_pool(listing->cli), verify->ids,
                                   verify->count, verify->rows, err);
    for (size_t i = 0; i < verify->count && code == 0; i++) {
        const struct kiln_latent_row *row = &verify->rows[i];
        struct kiln_error why;
        if (!row->key[0]) /* removed since the donors were read, so no run begins from it */
            continue;
        const int found = check_object(verify, row, &why);
        if (found && !of_the_latent(found))
            return kiln_fail(err, found, "%s", why.text);
        bool removed = false;
        if (found && (code = look_again(verify, row, &removed, err)) != 0)
            break;
        if (removed)
            continue;
        verify->checked++;
        verify->bytes += row->bytes;
        if (found == 0)
            continue;
        verify->bad++;
        if (listing->cli->json)
            kiln_json_put(&listing->line, "{job:u key:s code:s error:s}\n", row->job, row->key,
                          kiln_code_name(found), why.text);
        else
            kiln_text_printf(&listing->line, "job %" PRIu64 ": %s: %s\n", row->job, row->key,
                             why.text);
        code = kiln_listing_put(listing, err);
    }
    verify->count = 0;
    return code;
}

static int take_donor(void *arg, const struct kiln_donor_row *row)
{
    struct verify *verify = arg;
    if (row->gone)
        return 0;
    verify->ids[verify->count++] = row->job;
    return verify->count == PAGE ? check_page(verify, &verify->failure) : 0;
}

static int check_all(struct verify *verify, struct kiln_error *err)
{
    struct kiln_donors *donors = NULL;
    struct kiln_cli *cli = (struct kiln_cli *)(uintptr_t)verify->listing.cli;
    int code = kiln_open_reader(cli, &verify->ledger, err);
    code = code ? code : kiln_store_open(cli->config, &verify->store, err);
    code = code ? code : kiln_store_reach(verify->store, err);
    code = code ? code : kiln_donors_open(cli->config, "kiln cache verify", &donors, err);
    for (bool complete = false, more; !complete && code == 0;)
        code = kiln_donors_step(donors, take_donor, verify, &complete, &more, err);
    if (code && verify->failure.code)
        *err = verify->failure;
    if (code == 0 && verify->count > 0)
        code = check_page(verify, err);
    kiln_donors_close(donors);
    return code;
}

int kiln_latents_verify(struct kiln_cli *cli, bool full)
{
    struct verify verify = {.listing = {.cli = cli}, .full = full};
    struct kiln_error err;
    verify.rows = calloc(PAGE, sizeof *verify.rows);
    int code = verify.rows ? check_all(&verify, &err)
                           : kiln_fail(&err, KILN_NO_MEMORY, "no memory for a page of latents");
    kiln_store_close(verify.store);
    kiln_ledger_close(verify.ledger);
    free(verify.rows);
    if (code == 0)
        kiln_say(cli, "%s from which runs may begin, %s: %s", KILN_COUNT(verify.checked, "latent"),
                 KILN_BYTES(verify.bytes),
                 verify.bad ? KILN_COUNT(verify.bad, "bad one")
                 : full     ? "all are right"
                            : "all are there");
    const int status = kiln_listing_end(&verify.listing, code, &err);
    return status ? status : verify.bad > 0;
}
