/* uploads.c - see uploads.h. */
#include "scheduler/cli/jobs/enqueue/uploads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/digest.h"
#include "schemas/job/inputs.h"
#include "schemas/limits.h"
#include "schemas/room.h"
#include "storage/formats/pictures/picture_mask.h"
#include "storage/formats/pictures/picture_read.h"
#include "storage/formats/regular.h"
#include "storage/objects/store.h"

struct kiln_input_picture {
    char key[KILN_INPUT_KEY_MAX];
    struct kiln_picture_size size; /* {0}: unknown, for a key of the line */
    char *refusal;                 /* NULL: it is a picture */
    bool stored;
};

/* --- the file -------------------------------------------------------------------------------- */

/* What is wrong with the file is a fault of its line. */
static int read_file(const char *path, char **ret, size_t *ret_size, struct kiln_error *err)
{
    struct kiln_error why;
    int code = kiln_regular_read(path, KILN_PICTURE_FILE_MAX, ret, ret_size, &why);
    if (code == KILN_NO_MEMORY)
        return kiln_fail(err, code, "%s", why.text);
    return code ? kiln_fail(err, KILN_BAD_INPUT, "%s", why.text) : 0;
}

/* The key of the picture, by what the file is and not by its name, and its size. */
static int name_picture(const char *path, const void *data, size_t size, char *ret_key,
                        struct kiln_picture_size *ret, struct kiln_error *err)
{
    enum kiln_picture_format format;
    uint8_t digest[KILN_SHA256_SIZE];
    char hex[2 * KILN_SHA256_SIZE + 1];
    struct kiln_error why;
    if (kiln_picture_probe(data, size, &format, &ret->width, &ret->height, &why))
        return kiln_fail(err, KILN_BAD_INPUT, "%.200s: %s", path, why.text);
    kiln_sha256(data, size, digest);
    kiln_hex(digest, sizeof digest, hex);
    snprintf(ret_key, KILN_INPUT_KEY_MAX, KILN_INPUTS_PREFIX "%s.%s", hex,
             kiln_picture_extension(format));
    return 0;
}

/* --- the store ------------------------------------------------------------------------------- */

static int open_store(struct kiln_uploads *uploads, const struct kiln_config *config,
                      struct kiln_error *err)
{
    return uploads->store ? 0 : kiln_store_open(config, &uploads->store, err);
}

static const char *content_type(const char *key)
{
    const char *end = strrchr(key, '.');
    return strcmp(end, ".webp") == 0  ? "image/webp"
           : strcmp(end, ".png") == 0 ? "image/png"
                                      : "image/jpeg";
}

static int store_picture(struct kiln_uploads *uploads, const char *key, const void *data,
                         size_t size, struct kiln_error *err)
{
    struct kiln_put put = {
        .key = key, .data = data, .size = size, .content_type = content_type(key)};
    int code = kiln_store_put(uploads->store, &put, 1, err);
    /* A store that takes no such object is no fault of the line. */
    return code == KILN_BAD_INPUT ? kiln_fail(err, KILN_INTERNAL, "%s", put.error) : code;
}

/* A key that the line names itself: a picture that was stored before. */
static int find_stored(struct kiln_uploads *uploads, const char *key, struct kiln_error *err)
{
    uint64_t size;
    int code = kiln_store_head(uploads->store, key, &size, err);
    return code == KILN_NOT_FOUND
               ? kiln_fail(err, KILN_BAD_INPUT, "the store has no object %s", key)
               : code;
}

/* --- a picture of the call ------------------------------------------------------------------- */

/* Reads the file again where it is to be stored: between two passes its bytes are not kept. */
static int take_file(struct kiln_uploads *uploads, const char *path, bool send,
                     struct kiln_input_picture *picture, struct kiln_error *err)
{
    char *data;
    size_t size;
    char key[KILN_INPUT_KEY_MAX];
    struct kiln_picture_size sides;
    int code = read_file(path, &data, &size, err);
    if (code)
        return code;
    code = name_picture(path, data, size, key, &sides, err);
    if (!code && picture->key[0] && strcmp(picture->key, key) != 0)
        code = kiln_fail(err, KILN_BAD_INPUT, "%.200s was changed meanwhile", path);
    if (!code && send)
        code = store_picture(uploads, key, data, size, err);
    if (!code) {
        memcpy(picture->key, key, sizeof key);
        picture->size = sides;
    }
    free(data);
    return code;
}

static int take_picture(struct kiln_uploads *uploads, const char *image, bool send,
                        struct kiln_input_picture *picture, struct kiln_error *err)
{
    int code = 0;
    if (picture->refusal)
        return kiln_fail(err, KILN_BAD_INPUT, "%s", picture->refusal);
    if (picture->stored || (picture->key[0] && !send))
        return 0;
    if (!kiln_input_key_valid(image)) {
        code = take_file(uploads, image, send, picture, err);
    } else {
        code = send ? find_stored(uploads, image, err) : 0;
        snprintf(picture->key, sizeof picture->key, "%s", image);
    }
    if (code == KILN_BAD_INPUT && !(picture->refusal = strdup(err->text)))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for pictures to start from");
    picture->stored = code == 0 && send;
    return code;
}

/* Its place among the pictures of the call; NULL: no memory. */
static struct kiln_input_picture *find_picture(struct kiln_uploads *uploads, const char *image)
{
    uint8_t digest[KILN_SHA256_SIZE];
    kiln_sha256(image, strlen(image), digest);
    uint32_t *place = kiln_digest_map_at(&uploads->paths, digest);
    if (!place)
        return NULL;
    if (*place)
        return &uploads->at[*place - 1];
    struct kiln_input_picture *at =
        kiln_room(uploads->at, uploads->count, &uploads->room, sizeof *at);
    if (!at)
        return NULL;
    uploads->at = at;
    at[uploads->count] = (struct kiln_input_picture){.key = ""};
    *place = (uint32_t)++uploads->count;
    return &at[uploads->count - 1];
}

/* The picture of a key of the job line; its place in the call is lent until the next one. */
static int look_up(struct kiln_uploads *uploads, const struct kiln_config *config, bool send,
                   const char *name, const char *image, struct kiln_input_picture **ret,
                   struct kiln_error *err)
{
    struct kiln_input_picture *picture = find_picture(uploads, image);
    if (!picture)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for pictures to start from");
    int code = send ? open_store(uploads, config, err) : 0;
    if (!code)
        code = take_picture(uploads, image, send, picture, err);
    *ret = picture;
    return code == KILN_BAD_INPUT ? kiln_fail_in(err, "%s", name) : code;
}

/* Whether the mask fits, before either file is stored. */
static int check_mask(struct kiln_uploads *uploads, const struct kiln_config *config,
                      const struct kiln_job *job, struct kiln_error *err)
{
    const struct kiln_picture_size size = {job->width, job->height};
    struct kiln_input_picture *picture;
    struct kiln_picture_size from = size; /* of another job's latent: of this shape */
    if (job->init_image) {
        int code = look_up(uploads, config, false, "init_image", job->init_image, &picture, err);
        if (code)
            return code;
        from = picture->size;
    }
    int code = look_up(uploads, config, false, "init_mask", job->init_mask, &picture, err);
    if (code || !from.width || !picture->size.width)
        return code;
    code = kiln_mask_check(picture->size, from, size, err);
    return code ? kiln_fail_in(err, "init_mask: %.200s", job->init_mask) : 0;
}

static int upload(struct kiln_uploads *uploads, const struct kiln_config *config, bool send,
                  const char *name, char **image, struct kiln_error *err)
{
    struct kiln_input_picture *picture;
    int code = *image ? look_up(uploads, config, send, name, *image, &picture, err) : 0;
    if (code || !*image)
        return code;
    char *key = strdup(picture->key);
    if (!key)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for pictures to start from");
    free(*image);
    *image = key;
    return 0;
}

int kiln_upload_inputs(struct kiln_uploads *uploads, const struct kiln_config *config, bool send,
                       struct kiln_job *job, struct kiln_error *err)
{
    int code = job->init_mask ? check_mask(uploads, config, job, err) : 0;
    code = code ? code : upload(uploads, config, send, "init_image", &job->init_image, err);
    return code ? code : upload(uploads, config, send, "init_mask", &job->init_mask, err);
}

void kiln_uploads_release(struct kiln_uploads *uploads)
{
    kiln_store_close(uploads->store);
    for (size_t i = 0; i < uploads->count; i++)
        free(uploads->at[i].refusal);
    free(uploads->at);
    kiln_digest_map_release(&uploads->paths);
    *uploads = (struct kiln_uploads){.store = NULL};
}
