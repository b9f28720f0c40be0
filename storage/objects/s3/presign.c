/* presign.c - URLs from which a browser may read an object; see kiln_store_presign.
 *
 * Whatever credentials sign a URL must live as long as it does, and temporary ones are replaced in
 * their file long before they end: the file is read again every few seconds at most.  The client's
 * own credentials are left alone, since its thread may be using them.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"
#include "schemas/text/text.h"
#include "storage/objects/s3/s3.h"

#define READ_EVERY_MS 5000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Under the lock.  A file that cannot be read now leaves the credentials as they are. */
static void refresh(struct kiln_s3_store *store)
{
    struct kiln_s3_credentials now = {0};
    struct kiln_error err;
    int64_t now_ms = kiln_clock_ms();
    if (store->signer_read_ms && now_ms - store->signer_read_ms < READ_EVERY_MS)
        return;
    const struct kiln_s3_client *client = store->client;
    if (kiln_s3_credentials_load(client->credentials_file, client->profile, &now, &err) == 0)
        store->signer = now;
    else if (!store->signer_read_ms)
        store->signer = client->credentials;
    store->signer_read_ms = now_ms;
    kiln_s3_credentials_wipe(&now);
}

int kiln_s3_presign(struct kiln_store *base, const char *key, int64_t time_s, uint32_t expires_s,
                    char **ret, struct kiln_error *err)
{
    struct kiln_s3_store *store = (struct kiln_s3_store *)base;
    const struct kiln_s3_client *client = store->client;
    const struct kiln_sigv4_pair host = {"host", client->host};
    char full[KILN_S3_KEY_SIZE], path[KILN_S3_KEY_SIZE + sizeof client->root + 1], *query = NULL;
    kiln_s3_full_key(store, key, full);
    snprintf(path, sizeof path, "%s/%s", client->root, full);
    const struct kiln_sigv4_request request = {
        .method = "GET",
        .path = path,
        .headers = &host,
        .header_count = 1,
        .payload_hash = KILN_SIGV4_UNSIGNED,
        .region = client->region,
        .service = "s3",
        .time_s = time_s,
    };
    pthread_mutex_lock(&lock);
    refresh(store);
    const struct kiln_sigv4_credentials keys = {store->signer.access_key, store->signer.secret_key,
                                                store->signer.session_token};
    int code = kiln_sigv4_presign(&request, &keys, expires_s, &query, err);
    pthread_mutex_unlock(&lock);
    if (code)
        return code;
    char *encoded = kiln_sigv4_path(path);
    struct kiln_text url = {0};
    kiln_text_printf(&url, "%s%s?%s", client->base, encoded ? encoded : "", query);
    free(query);
    char *text = kiln_text_take(&url);
    if (!text || !encoded) {
        free(text);
        free(encoded);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to sign a URL");
    }
    free(encoded);
    *ret = text;
    return 0;
}

const char *kiln_s3_origin(const struct kiln_store *base)
{
    return ((const struct kiln_s3_store *)base)->client->base;
}
