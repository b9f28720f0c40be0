/* files.c - see files.h.
 *
 * The table has a slot for each job number modulo its size: what is being looked at are mostly
 * neighbours, which do not collide.  A picture that is hidden or removed leaves the table when the
 * follower reports it.  A request that began before that may have read the ledger earlier, so it
 * does not teach the table.  Without a follower, while the ledger is away, an entry counts for a
 * minute.
 */
#include "scheduler/gallery/parts/files.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/gallery/parts/html.h"
#include "schemas/clock.h"
#include "storage/objects/store.h"

#define SLOTS 16384
#define KEYS 4 /* full, 512, 256, latent */
#define KEEP_MS 60000
#define SIGN_ROUND_S (6 * 3600)
#define SIGN_FOR_S (12 * 3600)
#define FOR_EVER "public, max-age=31536000, immutable"
#define FOR_ONE "private, max-age=31536000, immutable" /* where people sign in, or review */

struct slot {
    uint64_t job;
    int64_t until_ms;
    int64_t forgotten_ms; /* wall clock: when a job of this slot was last forgotten */
    char *keys[KEYS];
};

struct kiln_gallery_files {
    struct kiln_store *store;
    pthread_mutex_t lock;
    struct slot slots[SLOTS];
};

int kiln_gallery_files_open(const struct kiln_config *config, struct kiln_gallery_files **ret,
                            struct kiln_error *err)
{
    struct kiln_gallery_files *files = calloc(1, sizeof *files);
    if (!files)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the table of files");
    int rc = kiln_store_open(config, &files->store, err);
    if (rc) {
        free(files);
        return rc;
    }
    pthread_mutex_init(&files->lock, NULL);
    *ret = files;
    return 0;
}

static void clear(struct slot *slot)
{
    for (int i = 0; i < KEYS; i++)
        free(slot->keys[i]);
    *slot = (struct slot){.forgotten_ms = slot->forgotten_ms};
}

void kiln_gallery_files_close(struct kiln_gallery_files *files)
{
    if (!files)
        return;
    for (int i = 0; i < SLOTS; i++)
        clear(&files->slots[i]);
    kiln_store_close(files->store);
    pthread_mutex_destroy(&files->lock);
    free(files);
}

const char *kiln_gallery_files_origin(const struct kiln_gallery_files *files)
{
    return kiln_store_origin(files->store);
}

/* --- the table -------------------------------------------------------------------------------- */

static void learn(const struct kiln_web_visit *visit, uint64_t job, const char *const keys[KEYS])
{
    struct kiln_gallery_files *files = kiln_gallery_app(visit)->files;
    struct slot *slot = &files->slots[job % SLOTS];
    pthread_mutex_lock(&files->lock);
    if (visit->now_ms > slot->forgotten_ms) {
        clear(slot);
        slot->job = job;
        slot->until_ms = kiln_clock_ms() + KEEP_MS;
        for (int i = 0; i < KEYS; i++)
            slot->keys[i] = keys[i] && keys[i][0] ? strdup(keys[i]) : NULL;
    }
    pthread_mutex_unlock(&files->lock);
}

void kiln_gallery_files_learn(const struct kiln_web_visit *visit,
                              const struct kiln_gallery_tile *tile)
{
    learn(visit, tile->job,
          (const char *const[KEYS]){tile->full.key, tile->medium.key, tile->small.key, NULL});
}

void kiln_gallery_files_forget(struct kiln_gallery_files *files, uint64_t job)
{
    struct slot *slot = &files->slots[job % SLOTS];
    pthread_mutex_lock(&files->lock);
    slot->forgotten_ms = kiln_wall_ms();
    if (slot->job == job)
        clear(slot);
    pthread_mutex_unlock(&files->lock);
}

static const char *base_name(const char *key)
{
    const char *slash = strrchr(key, '/');
    return slash ? slash + 1 : key;
}

/* The key of that name among the job's, malloc'd; NULL: the table does not know it. */
static char *find_key(struct kiln_gallery_files *files, uint64_t job, const char *name)
{
    struct slot *slot = &files->slots[job % SLOTS];
    char *found = NULL;
    pthread_mutex_lock(&files->lock);
    if (slot->job == job && slot->until_ms > kiln_clock_ms())
        for (int i = 0; i < KEYS && !found; i++)
            if (slot->keys[i] && strcmp(base_name(slot->keys[i]), name) == 0)
                found = strdup(slot->keys[i]);
    pthread_mutex_unlock(&files->lock);
    return found;
}

/* --- addresses -------------------------------------------------------------------------------- */

static char *presign(const struct kiln_gallery_files *files, const char *key, int64_t now_ms)
{
    struct kiln_error err;
    char *url = NULL;
    int64_t now_s = now_ms / 1000;
    return kiln_store_presign(files->store, key, now_s - now_s % SIGN_ROUND_S, SIGN_FOR_S, &url,
                              &err) == 0
               ? url
               : NULL;
}

void kiln_gallery_file_url(const struct kiln_gallery_files *files, uint64_t job, const char *key,
                           bool direct, int64_t now_ms, struct kiln_text *out)
{
    char *url = direct && kiln_store_origin(files->store) ? presign(files, key, now_ms) : NULL;
    if (url) {
        kiln_html_attr(out, url);
        free(url);
        return;
    }
    kiln_text_printf(out, "/o/%" PRIu64 "/", job);
    kiln_url(out, base_name(key));
}

/* --- sending ---------------------------------------------------------------------------------- */

/* "JOB/NAME" behind /o/; NAME is borrowed. */
static bool read_path(const struct kiln_web_visit *visit, uint64_t *ret_job, const char **ret_name)
{
    const char *rest = kiln_web_rest(visit), *slash = strchr(rest, '/');
    *ret_name = slash ? slash + 1 : "";
    return slash && kiln_web_id(rest, (size_t)(slash - rest), ret_job) && **ret_name &&
           !strchr(*ret_name, '/');
}

static int send_file(struct kiln_web_visit *visit, const char *key, struct kiln_error *err)
{
    struct kiln_gallery_files *files = kiln_gallery_app(visit)->files;
    struct kiln_web_reply *reply = &visit->reply;
    const char *name = base_name(key);
    int rc = kiln_store_open_object(files->store, key, &reply->fd, &reply->fd_size, err);
    if (rc == KILN_NOT_FOUND)
        return kiln_fail(err, rc, "the file of this picture is not in the store any more");
    if (rc)
        return rc;
    size_t len = strlen(name);
    bool webp = len > 5 && strcmp(name + len - 5, ".webp") == 0;
    reply->type = webp ? "image/webp" : "application/zstd";
    const struct kiln_web_access *access = kiln_gallery_app(visit)->access;
    bool some = access->tokens[KILN_WEB_READER][0] || access->proxy[0] ||
                kiln_gallery_app(visit)->review;
    reply->cache = some ? FOR_ONE : FOR_EVER;
    snprintf(reply->etag, sizeof reply->etag, "\"%.64s\"", name);
    if (kiln_web_arg(visit->args,
                     "save")) /* a key has no letter that a header would need escaped */
        snprintf(reply->file_name, sizeof reply->file_name, "kiln-%.*s-%.120s",
                 (int)strcspn(kiln_web_rest(visit), "/"), kiln_web_rest(visit), name);
    return 0;
}

static int send(struct kiln_web_visit *visit, const char *key, struct kiln_error *err)
{
    struct kiln_gallery_files *files = kiln_gallery_app(visit)->files;
    if (!kiln_store_origin(files->store))
        return send_file(visit, key, err);
    /* A browser comes here when the URL of a page has expired: the answer must not be kept. */
    char *url = presign(files, key, visit->now_ms);
    if (!url)
        return kiln_fail(err, KILN_DENIED, "the credentials of the store cannot sign a URL");
    int rc = kiln_web_redirect(visit, url, err);
    free(url);
    return rc;
}

int kiln_gallery_file_quick(struct kiln_web_visit *visit, struct kiln_error *err)
{
    uint64_t job;
    const char *name;
    if (!read_path(visit, &job, &name))
        return kiln_web_not_found(visit, err);
    char *key = find_key(kiln_gallery_app(visit)->files, job, name);
    if (!key)
        return KILN_WEB_LATER;
    int rc = send(visit, key, err);
    free(key);
    return rc;
}

struct wanted {
    const struct kiln_web_visit *visit;
    const char *name;
    char *key; /* malloc'd; NULL: the picture has no file of that name */
};

/* Teaches the table all files of a picture, the latent too, and finds the wanted one. */
static int learn_picture(void *arg, const struct kiln_gallery_picture *picture,
                         struct kiln_error *err)
{
    struct wanted *wanted = arg;
    const struct kiln_job_row *row = picture->job;
    const char *keys[KEYS] = {NULL};
    (void)err;
    for (uint32_t i = 0; i < row->object_count && i < KEYS; i++) {
        keys[i] = row->objects[i].key;
        if (!wanted->key && strcmp(base_name(keys[i]), wanted->name) == 0)
            wanted->key = strdup(keys[i]);
    }
    learn(wanted->visit, row->job.id, keys);
    return 0;
}

int kiln_gallery_file_slow(struct kiln_web_visit *visit, struct kiln_error *err)
{
    struct kiln_gallery_app *app = kiln_gallery_app(visit);
    const struct kiln_gallery_filter filter = kiln_gallery_any(app);
    struct wanted wanted = {.visit = visit};
    uint64_t job;
    if (!read_path(visit, &job, &wanted.name))
        return kiln_web_not_found(visit, err);
    int rc = kiln_gallery_picture(visit->session, &filter, job, learn_picture, &wanted, err);
    if (rc == 0 && !wanted.key)
        rc = kiln_fail(err, KILN_NOT_FOUND, "job %" PRIu64 " has no file of that name", job);
    rc = rc ? rc : send(visit, wanted.key, err);
    free(wanted.key);
    return rc;
}
