/* start_load.c - see start_load.h. */
#include "worker/stages/start_load.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/digest.h"
#include "schemas/job/inputs.h"
#include "storage/formats/latentfile.h"
#include "storage/formats/pictures/picture_mask.h"
#include "storage/formats/pictures/picture_read.h"
#include "storage/formats/pictures/picture_resize.h"
#include "worker/engine/soften.h"

#define LATENTS_PREFIX "latents/"
#define LATENT_BYTES_MAX ((uint64_t)KILN_LATENT_FILE_MAX / 2) /* compressed, of all states */

/* The bytes of an object with this hash; damaged on the way, they are fetched once more. */
static int fetch(struct kiln_store *store, const char *key, const char *sha256, uint64_t max,
                 void **ret_data, size_t *ret_size, struct kiln_error *err)
{
    for (int tries = 0; tries < 2; tries++) {
        uint8_t digest[KILN_SHA256_SIZE];
        char hex[2 * KILN_SHA256_SIZE + 1];
        int code = kiln_store_get(store, key, max, ret_data, ret_size, err);
        if (code == KILN_FULL) /* of the object, and for good */
            return kiln_fail(err, KILN_CORRUPT, "%s has more than %" PRIu64 " bytes", key, max);
        if (code == KILN_NOT_FOUND)
            return kiln_fail(err, code, "%s is no longer in the store", key);
        if (code != 0)
            return code;
        kiln_sha256(*ret_data, *ret_size, digest);
        kiln_hex(digest, sizeof digest, hex);
        if (strcmp(hex, sha256) == 0)
            return 0;
        free(*ret_data);
    }
    return kiln_fail(err, KILN_CORRUPT, "%s is damaged: its sha256 is not %s", key, sha256);
}

/* What the ledger says of the latent, before it is fetched. */
static int check_row(const struct kiln_latent_row *row, const struct kiln_start_want *want,
                     struct kiln_error *err)
{
    if (!row->known)
        return kiln_fail(err, KILN_NOT_FOUND, "init_job %" PRIu64 ": there is no such job",
                         row->job);
    if (!row->key[0])
        return kiln_fail(err, KILN_NOT_FOUND, "init_job %" PRIu64 ": no latent of it is stored",
                         row->job);
    if (!kiln_latent_of_model(row, want->model_hash))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "init_job %" PRIu64 ": its latent is of model %.64s, and this model is %s",
                         row->job, row->model_hash, want->model_hash);
    if (!kiln_start_fits((struct kiln_picture_size){row->width, row->height},
                         (struct kiln_picture_size){want->width, want->height}))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "init_job %" PRIu64 ": its latent is of %ux%u px and this job of %ux%u; a "
                         "latent is enlarged up to %d times, and keeps its shape",
                         row->job, row->width, row->height, want->width, want->height,
                         KILN_START_ENLARGE_MAX);
    if (row->sigma != 0)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "init_job %" PRIu64 ": its latent ends at sigma %g, unfinished", row->job,
                         row->sigma);
    if (strncmp(row->key, LATENTS_PREFIX, strlen(LATENTS_PREFIX)) != 0 || row->bytes == 0 ||
        row->bytes > LATENT_BYTES_MAX)
        return kiln_fail(err, KILN_CORRUPT,
                         "init_job %" PRIu64 ": the ledger names no usable latent (%.80s, %" PRIu64
                         " bytes)",
                         row->job, row->key, row->bytes);
    return 0;
}

/* What the file says, which may differ from the ledger. */
static int check_file(const struct kiln_latent *latent, const struct kiln_latent_row *row,
                      const struct kiln_start_want *want, struct kiln_error *err)
{
    if (strcmp(latent->model, want->model_hash) != 0)
        return kiln_fail(err, KILN_CORRUPT, "the file is of model %.64s, not %s", latent->model,
                         want->model_hash);
    const uint32_t width = row->width / want->latent_factor;
    const uint32_t height = row->height / want->latent_factor;
    if (latent->channels != want->latent_channels || latent->width != width ||
        latent->height != height)
        return kiln_fail(err, KILN_CORRUPT, "the file has a latent of %ux%ux%u, not %ux%ux%u",
                         latent->channels, latent->height, latent->width, want->latent_channels,
                         height, width);
    return 0;
}

/* The latent at the wanted size; takes its values. */
static int enlarge(struct kiln_latent *latent, const struct kiln_start_want *want,
                   struct kiln_start *ret, struct kiln_error *err)
{
    const uint32_t width = want->width / want->latent_factor;
    const uint32_t height = want->height / want->latent_factor;
    const size_t values = (size_t)want->latent_channels * width * height;
    *ret = (struct kiln_start){.latent = latent->values, .bytes = values * sizeof(float)};
    latent->values = NULL;
    ret->enlarged = width != latent->width || height != latent->height;
    if (!ret->enlarged)
        return 0;
    float *large = kiln_latent_enlarged(ret->latent, want->latent_channels, latent->height,
                                        latent->width, height, width);
    free(ret->latent);
    ret->latent = large;
    return large ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory to enlarge a latent");
}

static int load_latent(struct kiln_store *store, const struct kiln_latent_row *row,
                       const struct kiln_start_want *want, struct kiln_start *ret,
                       struct kiln_error *err)
{
    struct kiln_latent latent = {0};
    void *data;
    size_t size;
    int code = check_row(row, want, err);
    code = code ? code : fetch(store, row->key, row->sha256, row->bytes, &data, &size, err);
    if (code != 0)
        return code;
    code = kiln_latent_decode_finished(data, size, &latent, err);
    free(data);
    code = code ? code : check_file(&latent, row, want, err);
    code = code ? code : enlarge(&latent, want, ret, err);
    kiln_latent_release(&latent);
    return code ? kiln_fail_in(err, "%s", row->key) : 0;
}

/* --- pictures --------------------------------------------------------------------------------- */

/* A picture as it is stored.  Its key names its hash. */
static int load_pixels(struct kiln_store *store, const char *key, struct kiln_picture_pixels *ret,
                       struct kiln_error *err)
{
    char sha256[2 * KILN_SHA256_SIZE + 1];
    void *data;
    size_t size;
    if (!kiln_input_key_valid(key))
        return kiln_fail(err, KILN_BAD_INPUT, "\"%.100s\": it is " KILN_INPUT_KEY_FORM, key);
    snprintf(sha256, sizeof sha256, "%s", key + strlen(KILN_INPUTS_PREFIX));
    int code = fetch(store, key, sha256, KILN_PICTURE_FILE_MAX, &data, &size, err);
    if (code != 0)
        return code;
    code = kiln_picture_read(data, size, ret, err);
    free(data);
    return code ? kiln_fail_in(err, "%s", key) : 0;
}

/* At the wanted size. */
static int load_picture(struct kiln_store *store, const char *key,
                        const struct kiln_start_want *want, struct kiln_start *ret,
                        struct kiln_picture_size *ret_own, struct kiln_error *err)
{
    struct kiln_picture_pixels pixels = {0};
    int code = load_pixels(store, key, &pixels, err);
    if (code != 0)
        return kiln_fail_in(err, "init_image");
    *ret_own = (struct kiln_picture_size){pixels.width, pixels.height};
    code = kiln_picture_resize(pixels.rgb, pixels.width, pixels.height, want->width, want->height,
                               &ret->rgb, err);
    free(pixels.rgb);
    if (code != 0)
        return kiln_fail_in(err, "init_image: %s", key);
    ret->bytes = (size_t)want->width * want->height * 3;
    return 0;
}

/* On the latent's grid; for a start from a picture of this size. */
static int load_mask(struct kiln_store *store, const char *key, struct kiln_picture_size from,
                     const struct kiln_start_want *want, struct kiln_start *ret,
                     struct kiln_error *err)
{
    const struct kiln_picture_size job = {want->width, want->height};
    struct kiln_picture_pixels pixels = {0};
    int code = load_pixels(store, key, &pixels, err);
    if (code != 0)
        return kiln_fail_in(err, "init_mask");
    code = kiln_mask_check((struct kiln_picture_size){pixels.width, pixels.height}, from, job, err);
    code = code ? code
                : kiln_picture_mask(pixels.rgb, pixels.width, pixels.height, job,
                                    want->latent_factor, &ret->mask, err);
    free(pixels.rgb);
    if (code != 0)
        return kiln_fail_in(err, "init_mask: %s", key);
    ret->bytes += (size_t)(job.width / want->latent_factor) * (job.height / want->latent_factor) *
                  sizeof *ret->mask;
    return 0;
}

int kiln_start_load(struct kiln_store *store, const struct kiln_job *job,
                    const struct kiln_latent_row *row, const struct kiln_start_want *want,
                    struct kiln_start *ret, struct kiln_error *err)
{
    struct kiln_picture_size from = {want->width, want->height};
    int code;
    if (job->init_image)
        code = load_picture(store, job->init_image, want, ret, &from, err);
    else if (job->init_job == 0)
        code = kiln_fail(err, KILN_BAD_INPUT, "the job begins from a start and names none");
    else
        code = load_latent(store, row, want, ret, err);
    if (code == 0 && job->init_mask)
        code = load_mask(store, job->init_mask, from, want, ret, err);
    if (code != 0)
        kiln_start_release(ret);
    return code;
}

/* --- donors ----------------------------------------------------------------------------------- */

/* Latents have about unit variance, and means of a channel within a few of it.  These bounds refuse
 * damage, not a picture that is unusual. */
#define MEAN_MAX 8.0
#define VARIANCE_MIN 0.0025
#define VARIANCE_MAX 64.0

static int check_values(const float *values, const struct kiln_start_want *want,
                        struct kiln_error *err)
{
    const size_t plane =
        (size_t)(want->width / want->latent_factor) * (want->height / want->latent_factor);
    double spread = 0;
    for (uint32_t channel = 0; channel < want->latent_channels; channel++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < plane; i++) {
            const double value = values[channel * plane + i];
            sum += value;
            squares += value * value;
        }
        const double mean = sum / (double)plane;
        if (!(fabs(mean) <= MEAN_MAX)) /* nor a number that is not finite */
            return kiln_fail(err, KILN_UNSUPPORTED, "channel %u has a mean of %g", channel, mean);
        spread += squares / (double)plane - mean * mean;
    }
    spread /= want->latent_channels;
    if (!(spread >= VARIANCE_MIN && spread <= VARIANCE_MAX))
        return kiln_fail(err, KILN_UNSUPPORTED, "its channels have a variance of %g", spread);
    return 0;
}

bool kiln_donor_measured(const struct kiln_renderer *engine, const struct kiln_job *job,
                         const struct kiln_latent_row *row)
{
    const struct kiln_card_reuse *reuse = &engine->card.reuse;
    const bool small = row->width < job->width;
    struct kiln_card_reuse_run run = {.class = (enum kiln_reuse_class)job->donor.hit,
                                      .depth = job->donor.step,
                                      .width = job->width,
                                      .height = job->height};
    if (!engine->dtype || !row->key[0]) /* it has no weights; there is no latent to measure */
        return true;
    return kiln_card_reuse_table_of(reuse, job, small, job->donor.coarse, &run.table) &&
           kiln_card_reuse_fits(reuse, &run, engine->model_hash, engine->dtype);
}

int kiln_donor_load(struct kiln_store *store, const struct kiln_latent_row *row,
                    const struct kiln_start_want *want, struct kiln_start *ret,
                    struct kiln_error *err)
{
    if (row->key[0] && !want->small_donors &&
        (row->width != want->width || row->height != want->height))
        return kiln_fail(err, KILN_BAD_INPUT, "donor %" PRIu64 " is of %ux%u px, not %ux%u",
                         row->job, row->width, row->height, want->width, want->height);
    if (row->key[0] && strcmp(row->lora_set, want->lora_set) != 0)
        return kiln_fail(err, KILN_BAD_INPUT, "donor %" PRIu64 " has the LoRAs \"%s\", not \"%s\"",
                         row->job, row->lora_set, want->lora_set);
    int code = load_latent(store, row, want, ret, err);
    code = code ? code : check_values(ret->latent, want, err);
    if (code != 0)
        kiln_start_release(ret);
    return code;
}

int kiln_donor_prepare(const struct kiln_start_want *want, struct kiln_picture_size to,
                       uint32_t side, struct kiln_start *start, struct kiln_error *err)
{
    const uint32_t factor = want->latent_factor, channels = want->latent_channels;
    const uint32_t height = to.height / factor, width = to.width / factor;
    const bool smaller = to.height != want->height || to.width != want->width;
    for (uint32_t i = 0; i <= start->more_count; i++) {
        float **latent = i ? &start->more[i - 1] : &start->latent;
        if (smaller) {
            float *small = kiln_latent_shrunk(*latent, channels, want->height / factor,
                                              want->width / factor, height, width);
            if (!small) {
                kiln_start_release(start);
                return kiln_fail(err, KILN_NO_MEMORY, "no memory to shrink a latent");
            }
            free(*latent);
            *latent = small;
        }
        if (side > 0)
            kiln_soften(*latent, channels, height, width, side);
    }
    start->bytes = (1 + start->more_count) * (size_t)channels * height * width * sizeof(float);
    return 0;
}
