/* encode.c - encodes the stored sizes and the latent file of one picture.
 *
 * The engine makes each smaller size from the full picture and not from the next larger one,
 * because averaging twice blurs twice.  `full` is always the first object; encode_smaller() relies
 * on that.
 */
#include "worker/stages/encode.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/pictures/downscale.h"
#include "schemas/digest.h"
#include "schemas/job/inputs.h"
#include "schemas/names.h"
#include "storage/formats/latentfile.h"
#include "storage/formats/pictures/webp.h"
#include "worker/stages/object_key.h"

#define ZSTD_LEVEL 3

static void fill_start(struct kiln_picture *picture)
{
    const struct kiln_job *job = picture->job;
    picture->start[0] = '\0';
    if (!kiln_mode_starts(&picture->mode))
        return;
    if (job->init_image)
        snprintf(picture->start, sizeof picture->start, "%s", job->init_image);
    else
        snprintf(picture->start, sizeof picture->start, "job:%" PRIu64,
                 picture->mode.reused ? job->donor.job : job->init_job);
}

/* The picture owns data from now on. */
static void add_object(struct kiln_picture *picture, const struct kiln_encode_options *options,
                       const char *role, uint8_t *data, size_t size, uint32_t width,
                       uint32_t height)
{
    struct kiln_picture_object *object = &picture->objects[picture->object_count++];
    bool latent = strcmp(role, KILN_ROLE_LATENT) == 0;
    uint8_t digest[KILN_SHA256_SIZE];
    kiln_sha256(data, size, digest);
    kiln_hex(digest, sizeof digest, object->sha256);
    /* The time in the key is the job's, so that a repeated job gets the same keys. */
    const struct kiln_job *job = picture->job;
    char hash[KILN_OBJECT_HASH_MAX], mode[KILN_MODE_MAX];
    kiln_mode_text(&picture->mode, mode);
    kiln_object_hash(
        hash, object->sha256,
        &(struct kiln_object_origin){mode, picture->start, job->parent, picture->steps});
    int64_t created_ms = job->created_ms > 0 ? job->created_ms : options->now_ms;
    if (latent)
        kiln_latent_key(object->key, created_ms, job->id, options->model_name, hash);
    else
        kiln_image_key(object->key, created_ms, job->id, role, hash);
    object->role = role;
    object->content_type = latent ? "application/zstd" : "image/webp";
    object->data = data;
    object->size = size;
    object->width = width;
    object->height = height;
}

static int encode_webp(struct kiln_picture *picture, const struct kiln_encode_options *options,
                       const struct kiln_webp_options *webp, const char *role, const uint8_t *rgb,
                       uint32_t width, uint32_t height, struct kiln_error *err)
{
    uint8_t *data;
    size_t size;
    int code = kiln_webp_encode(rgb, width, height, webp, &data, &size, err);
    if (code == 0)
        add_object(picture, options, role, data, size, width, height);
    return code;
}

/* Smaller size i, row i + 1 of the table.  A picture is never enlarged: a small one has no object
 * of this size.  A size that equals the rendered one is `full` under another name. */
static int encode_smaller(struct kiln_picture *picture, const struct kiln_encode_options *options,
                          const struct kiln_webp_options *webp, int i, struct kiln_error *err)
{
    const char *role = kiln_stored_sizes[i + 1].name;
    const struct kiln_picture_object *full = &picture->objects[0];
    uint32_t longest = kiln_stored_sizes[i + 1].longest, w, h;
    uint32_t width = picture->job->width, height = picture->job->height;
    if (width < longest && height < longest)
        return 0;
    if (!kiln_downscale_fit(width, height, longest, &w, &h)) {
        uint8_t *copy = malloc(full->size);
        if (!copy)
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for the %s px picture", role);
        memcpy(copy, full->data, full->size);
        add_object(picture, options, role, copy, full->size, full->width, full->height);
        return 0;
    }
    if (!picture->output.smaller[i])
        return kiln_fail(err, KILN_INTERNAL, "the engine has not made the %s px picture of %u x %u",
                         role, width, height);
    return encode_webp(picture, options, webp, role, picture->output.smaller[i], w, h, err);
}

static int encode_images(struct kiln_picture *picture, const struct kiln_encode_options *options,
                         struct kiln_error *err)
{
    const struct kiln_job *job = picture->job;
    struct kiln_webp_options webp = {.quality = options->webp_quality,
                                     .method = options->webp_method};
    char loras[KILN_LORA_SET_MAX], mode[KILN_MODE_MAX], *xmp = NULL;
    if (job->embed_metadata) { /* says that a model made the picture, and from what */
        kiln_lora_set_text(job->loras, job->lora_count, loras, sizeof loras);
        kiln_mode_text(&picture->mode, mode);
        xmp = kiln_webp_xmp_packet(&(struct kiln_webp_about){
            .prompt = kiln_job_drawn(job),
            .written = job->drawn ? job->prompt : NULL,
            .negative_prompt = job->negative_prompt,
            .model = options->model_name,
            .lora_set = loras,
            .mode = mode,
            .start = picture->start,
            .mask = picture->mode.masked ? job->init_mask : NULL,
            .parent = job->parent,
            .forwards = picture->forwards,
            .seed = job->seed,
            .width = job->width,
            .height = job->height,
            .steps = job->steps,
            .guidance = job->guidance,
        });
        if (!xmp)
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for the metadata");
        webp.xmp = xmp;
        webp.xmp_len = strlen(xmp);
    }
    int code = encode_webp(picture, options, &webp, kiln_stored_sizes[KILN_STORED_FULL].name,
                           picture->output.rgb, job->width, job->height, err);
    for (int i = 0; i < KILN_PICTURE_SMALLER && code == 0; i++)
        code = encode_smaller(picture, options, &webp, i, err);
    free(xmp);
    return code;
}

/* State number `state` of a run: before a step, or the finished latent. */
static double sigma_of(const DiffusionZOutput *output, uint32_t steps, uint32_t state)
{
    return state < steps ? output->sigmas[state] : 0;
}

/* The states that are stored, from noise to clean: those nearest to the levels that were asked for,
 * each once, or all.  Returns how many. */
static uint32_t choose_states(const struct kiln_picture *picture, uint32_t ret[KILN_STEPS_MAX + 1])
{
    const DiffusionZOutput *output = &picture->output;
    const struct kiln_job *job = picture->job;
    const uint32_t steps = picture->steps;
    uint32_t count = 0;
    for (uint32_t i = 0; i < job->sigma_count; i++) {
        uint32_t best = 0;
        for (uint32_t state = 1; state <= steps; state++)
            if (fabs(sigma_of(output, steps, state) - job->sigmas[i]) <
                fabs(sigma_of(output, steps, best) - job->sigmas[i]))
                best = state;
        if (count == 0 || ret[count - 1] != best) /* sigmas fall, so equal ones are neighbours */
            ret[count++] = best;
    }
    for (uint32_t state = 0; state <= steps && job->sigma_count == 0; state++)
        ret[count++] = state;
    return count;
}

/* The states before steps and the final one, one behind the other; *ret_copy is what to free. */
static int gather_states(const struct kiln_picture *picture, struct kiln_latent *latent,
                         float **ret_copy, struct kiln_error *err)
{
    const DiffusionZOutput *output = &picture->output;
    size_t values = (size_t)latent->channels * latent->height * latent->width;
    const uint32_t steps = picture->steps;
    if (picture->job->latents != KILN_LATENTS_TRAJECTORY || !output->trajectory ||
        !output->sigmas) {
        latent->states = 1;
        latent->values = output->latent;
        return 0;
    }
    uint32_t chosen[KILN_STEPS_MAX + 1], count = choose_states(picture, chosen);
    float *copy = malloc(count * values * sizeof *copy);
    if (!copy)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for %u latent states", count);
    for (uint32_t i = 0; i < count; i++) {
        const float *from =
            chosen[i] < steps ? output->trajectory + chosen[i] * values : output->latent;
        memcpy(copy + i * values, from, values * sizeof *copy);
        latent->sigmas[i] = sigma_of(output, steps, chosen[i]);
    }
    latent->states = count;
    latent->values = *ret_copy = copy;
    return 0;
}

/* How the sigmas of the run were computed (schemas/latent.md). */
static void schedule_text(const struct kiln_picture *picture, char *out, size_t size)
{
    const struct kiln_mode *mode = &picture->mode;
    int len = snprintf(out, size, "euler steps=%u%s", picture->job->steps,
                       picture->own_sigmas ? " listed" : "");
    if (picture->noise > 0)
        len += snprintf(out + len, size - (size_t)len, " noise=%.4g", picture->noise);
    char *end = out + len;
    size -= (size_t)len;
    if (mode->kind == KILN_MODE_COARSE) {
        char middle[48] = "";
        if (mode->middle > 0)
            snprintf(middle, sizeof middle, " to=%u middle=%ux%u,", mode->small + mode->middle,
                     picture->middle_width, picture->middle_height);
        snprintf(end, size, " to=%u small=%ux%u,%s rest=%u from sigma=%.4g", mode->small,
                 picture->coarse_width, picture->coarse_height, middle, mode->full, mode->sigma);
    } else if (mode->kind == KILN_MODE_START_STEP)
        snprintf(end, size, " from=%u", mode->step);
    else if (mode->kind == KILN_MODE_START_SIGMA)
        snprintf(end, size, " from sigma=%.4g", mode->sigma);
}

/* What `kiln cache build` ordered only begins other runs, which hide its rounding.  Its batch is
 * its mark, since nobody else can send to it.  Intermediate states are for people. */
static enum kiln_latent_encoding choose_encoding(const struct kiln_job *job)
{
    return job->kind == KILN_KIND_LATENT_CACHE && job->batch &&
                   strcmp(job->batch, KILN_CACHE_BATCH) == 0 &&
                   job->latents != KILN_LATENTS_TRAJECTORY
               ? KILN_LATENT_I8_STEPS
               : KILN_LATENT_BF16_PLANES;
}

static int encode_latent(struct kiln_picture *picture, const struct kiln_encode_options *options,
                         struct kiln_error *err)
{
    const struct kiln_job *job = picture->job;
    const enum kiln_latent_encoding encoding = choose_encoding(job);
    struct kiln_latent latent = {
        .channels = (uint32_t)picture->output.latent_channels,
        .height = (uint32_t)picture->output.latent_height,
        .width = (uint32_t)picture->output.latent_width,
        .seed = job->seed,
    };
    float *copy = NULL;
    uint8_t *data;
    size_t size;
    snprintf(latent.model, sizeof latent.model, "%s", options->model_hash);
    schedule_text(picture, latent.schedule, sizeof latent.schedule);
    kiln_mode_text(&picture->mode, latent.mode);
    snprintf(latent.job, sizeof latent.job, "%" PRIu64, job->id);
    snprintf(latent.start, sizeof latent.start, "%s", picture->start);
    if (job->parent)
        snprintf(latent.parent, sizeof latent.parent, "%" PRIu64, job->parent);
    kiln_lora_set_text(job->loras, job->lora_count, latent.lora_set, sizeof latent.lora_set);
    if (picture->lora_files_known)
        snprintf(latent.lora_files, sizeof latent.lora_files, "%s", picture->lora_files);
    int code = gather_states(picture, &latent, &copy, err);
    if (code == 0)
        code = kiln_latent_encode(&latent, encoding, ZSTD_LEVEL, &data, &size, err);
    free(copy);
    if (code != 0)
        return code;
    picture->latent_encoding = kiln_latent_encoding_name(encoding);
    picture->latent_states = latent.states;
    picture->latent_channels = latent.channels;
    memcpy(picture->latent_sigmas, latent.sigmas, latent.states * sizeof latent.sigmas[0]);
    add_object(picture, options, KILN_ROLE_LATENT, data, size, latent.width, latent.height);
    return 0;
}

int kiln_encode_picture(struct kiln_picture *picture, const struct kiln_encode_options *options,
                        struct kiln_error *err)
{
    const struct kiln_job *job = picture->job;
    int code = 0;
    fill_start(picture);
    if (job->kind == KILN_KIND_IMAGE)
        code = encode_images(picture, options, err);
    /* A latent-cache job exists for its latent, whatever else it says. */
    if (code == 0 && (job->latents != KILN_LATENTS_NONE || job->kind == KILN_KIND_LATENT_CACHE))
        code = encode_latent(picture, options, err);
    if (code == 0)
        return 0;
    /* Half a set is no result: a row that lacks an object must be impossible. */
    for (uint32_t i = 0; i < picture->object_count; i++)
        free(picture->objects[i].data);
    picture->object_count = 0;
    picture->latent_encoding = NULL;
    return code;
}
