/* diffusionz_classify.c - see diffusionz_classify.h. */
#include "pipeline/diffusionz_classify.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/context.h"
#include "pipeline/model/hash.h"
#include "pipeline/vision/resample.h"
#include "pipeline/vision/vit.h"
#include "schemas/limits.h"

#define PATH_BYTES_MAX 900 /* of a checkpoint, so that its files' names can be told */

struct DiffusionZClassifier {
    pthread_mutex_t lock;
    struct kiln_vision_config config;
    struct kt_scope *weights;
    struct kiln_vit *vit;
    int threads;
    char hash[KILN_MODEL_HASH_LEN + 1];
};

static int load(DiffusionZClassifier *c, const char *dir, struct kiln_error *err)
{
    if (strlen(dir) > PATH_BYTES_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "the path of the classifier is longer than %d bytes",
                         PATH_BYTES_MAX);
    int rc = kt_device_open(KT_CPU, err);
    rc = rc ? rc : kiln_vision_config_read(dir, &c->config, err);
    rc = rc ? rc : kiln_classifier_hash(dir, c->hash, err);
    if (rc)
        return rc;
    kt_threads_set(c->threads);
    c->weights = kt_scope_new(KT_CPU);
    if (!c->weights)
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for the classifier", dir);
    return kiln_vit_load(dir, &c->config, c->weights, &c->vit, err);
}

int32_t diffusionz_classifier_open(const char *path, int32_t threads, DiffusionZClassifier **ret)
{
    struct kiln_error err = {0};
    DiffusionZClassifier *c = NULL;
    int rc = 0;
    if (!path || !ret || threads < 0)
        rc = kiln_fail(&err, KILN_BAD_INPUT, "an argument is NULL or negative");
    else if (!(c = calloc(1, sizeof *c)))
        rc = kiln_fail(&err, KILN_NO_MEMORY, "no memory for a classifier");
    if (c) {
        pthread_mutex_init(&c->lock, NULL);
        c->threads = threads;
        rc = load(c, path, &err);
    }
    if (!rc) {
        *ret = c;
        return 0;
    }
    diffusionz_classifier_free(c);
    return kiln_context_note(&err);
}

void diffusionz_classifier_free(DiffusionZClassifier *c)
{
    if (!c)
        return;
    kiln_vit_free(c->vit);
    kt_scope_free(c->weights);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

int32_t diffusionz_classifier_labels(const DiffusionZClassifier *c)
{
    return c->config.labels;
}

const char *diffusionz_classifier_label(const DiffusionZClassifier *c, int32_t at)
{
    return at >= 0 && at < c->config.labels ? c->config.label[at] : NULL;
}

const char *diffusionz_classifier_hash(const DiffusionZClassifier *c)
{
    return c->hash;
}

static int classify(DiffusionZClassifier *c, const uint8_t *rgb, uint32_t width, uint32_t height,
                    float *logits, struct kiln_error *err)
{
    const uint32_t side = (uint32_t)c->config.side;
    uint8_t *small;
    int rc = kiln_resample_rgb(rgb, width, height, c->config.resample, side, side, &small, err);
    if (rc)
        return rc;
    pthread_mutex_lock(&c->lock);
    kt_threads_set(c->threads);
    rc = kiln_vit_run(c->vit, small, logits, err);
    pthread_mutex_unlock(&c->lock);
    free(small);
    return rc;
}

int32_t diffusionz_classifier_run(DiffusionZClassifier *c, const uint8_t *rgb, uint32_t width,
                                  uint32_t height, float *logits)
{
    struct kiln_error err = {0};
    int rc;
    if (!c || !rgb || !logits || width == 0 || height == 0 || width > KILN_PICTURE_SIDE_MAX ||
        height > KILN_PICTURE_SIDE_MAX)
        rc = kiln_fail(&err, KILN_BAD_INPUT, "an argument is NULL, or a side is not from 1 to %d",
                       KILN_PICTURE_SIDE_MAX);
    else
        rc = classify(c, rgb, width, height, logits, &err);
    return rc ? kiln_context_note(&err) : 0;
}
