/* classify.c - see classify.h. */
#include "pipeline/embed/classify/classify.h"

#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "pipeline/diffusionz_classify.h"

#define LIBRARY "libdiffusionz.so"

/* The functions of diffusionz_classify.h, and of diffusionz_batch.h the last error. */
struct kiln_classifier {
    void *handle;
    int32_t (*open)(const char *, int32_t, DiffusionZClassifier **);
    void (*free)(DiffusionZClassifier *);
    int32_t (*labels)(const DiffusionZClassifier *);
    const char *(*label)(const DiffusionZClassifier *, int32_t);
    const char *(*hash)(const DiffusionZClassifier *);
    int32_t (*run)(DiffusionZClassifier *, const uint8_t *, uint32_t, uint32_t, float *);
    const char *(*last_error)(void);
    DiffusionZClassifier *opened;
    struct kiln_classifier_info info;
};

static bool resolve(struct kiln_classifier *c)
{
    const struct {
        const char *name;
        void *place;
    } symbols[] = {
        {"diffusionz_classifier_open", &c->open},     {"diffusionz_classifier_free", &c->free},
        {"diffusionz_classifier_labels", &c->labels}, {"diffusionz_classifier_label", &c->label},
        {"diffusionz_classifier_hash", &c->hash},     {"diffusionz_classifier_run", &c->run},
        {"diffusionz_last_error", &c->last_error},
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (!(*(void **)symbols[i].place = dlsym(c->handle, symbols[i].name)))
            return false;
    return true;
}

static int open_checkpoint(struct kiln_classifier *c, const char *dir, struct kiln_error *err)
{
    const int32_t code = c->open(dir, 0, &c->opened);
    if (code) {
        c->opened = NULL;
        return kiln_fail(err, code, "%s", c->last_error());
    }
    c->info.hash = c->hash(c->opened);
    c->info.labels = c->labels(c->opened);
    if (c->info.labels > KILN_CLASSIFY_LABELS_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: more than %d labels", dir,
                         KILN_CLASSIFY_LABELS_MAX);
    for (int i = 0; i < c->info.labels; i++)
        c->info.label[i] = c->label(c->opened, i);
    return 0;
}

int kiln_classifier_open(const char *library, const char *dir, struct kiln_classifier **ret,
                         struct kiln_error *err)
{
    const char *path = library ? library : LIBRARY;
    struct kiln_classifier *c = calloc(1, sizeof *c);
    if (!c)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open %s", path);
    c->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int code =
        c->handle && resolve(c)
            ? open_checkpoint(c, dir, err)
            : kiln_fail(err, KILN_UNAVAILABLE,
                        "a classifier needs %s, which is built with LibTorch: %s", path, dlerror());
    if (code)
        kiln_classifier_close(c);
    else
        *ret = c;
    return code;
}

void kiln_classifier_close(struct kiln_classifier *c)
{
    if (!c)
        return;
    if (c->opened)
        c->free(c->opened);
    /* The handle stays open: LibTorch's threads and thread-local data outlive a dlclose badly. */
    free(c);
}

const struct kiln_classifier_info *kiln_classifier_info(const struct kiln_classifier *c)
{
    return &c->info;
}

int kiln_classifier_run(struct kiln_classifier *c, const uint8_t *rgb, uint32_t width,
                        uint32_t height, double *share, struct kiln_error *err)
{
    float logits[KILN_CLASSIFY_LABELS_MAX];
    double sum = 0, most = -INFINITY;
    const int32_t code = c->run(c->opened, rgb, width, height, logits);
    if (code)
        return kiln_fail(err, code, "the classifier: %s", c->last_error());
    for (int i = 0; i < c->info.labels; i++)
        most = fmax(most, logits[i]);
    for (int i = 0; i < c->info.labels; i++)
        sum += share[i] = exp(logits[i] - most);
    for (int i = 0; i < c->info.labels; i++) {
        share[i] /= sum;
        if (!isfinite(share[i]))
            return kiln_fail(err, KILN_CORRUPT, "the classifier gives numbers that are not finite");
    }
    return 0;
}
