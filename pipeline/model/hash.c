/* hash.c - the identity of a model; see hash.h. */
#include "pipeline/model/hash.h"

#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/weights/loading.h"
#include "schemas/limits.h"
#include "storage/formats/card/model_card.h"
#include "storage/formats/regular.h"
#include "storage/formats/safetensors.h"

#define SAMPLE_BYTES 4096

static const char *const config_files[] = {"transformer/config.json", "text_encoder/config.json",
                                           "vae/config.json", "scheduler/scheduler_config.json"};
static const char *const weight_folders[] = {"transformer", "text_encoder", "vae"};

static int add_weights(EVP_MD_CTX *sum, const char *dir, const char *folder, struct kiln_error *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, folder);
    struct kiln_st *st;
    kiln_loading_note(path, 0, 0);
    int code = kiln_st_open(path, &st, err);
    if (code)
        return code;
    for (size_t i = 0; i < kiln_st_count(st); i++) {
        const struct kiln_st_tensor *t = kiln_st_at(st, i);
        const char *dtype = kiln_st_dtype_name(t->dtype);
        EVP_DigestUpdate(sum, t->name, strlen(t->name) + 1);
        EVP_DigestUpdate(sum, dtype, strlen(dtype) + 1);
        EVP_DigestUpdate(sum, t->shape, t->ndim * sizeof t->shape[0]);
        EVP_DigestUpdate(sum, t->data, t->size < SAMPLE_BYTES ? t->size : SAMPLE_BYTES);
    }
    kiln_st_close(st);
    return 0;
}

/* One that is not 0: what is not said leaves the hash as it was. */
static void add_number(EVP_MD_CTX *sum, const char *name, double value)
{
    char text[64];
    if (value != 0)
        EVP_DigestUpdate(sum, text, (size_t)snprintf(text, sizeof text, "%s %.17g\n", name, value));
}

/* What kiln.json says of the steps: their noise, and weights for some of them. */
static int add_steps(EVP_MD_CTX *sum, const char *dir, struct kiln_error *err)
{
    struct kiln_model_card card;
    int code = kiln_model_card_read(dir, &card, err);
    add_number(sum, "noise", code ? 0 : card.noise);
    for (uint32_t i = 0; !code && i < card.sigma_count; i++)
        add_number(sum, "sigma", card.sigmas[i]);
    for (uint32_t i = 0; !code && i < card.weight_count; i++) {
        const struct kiln_card_weights *w = &card.weights[i];
        char text[KILN_CARD_SHA256 + 64];
        int len = snprintf(text, sizeof text, "steps %u-%u of %u ", w->first, w->end, card.steps);
        len +=
            w->transformer
                ? snprintf(text + len, sizeof text - (size_t)len, "transformer %s\n", w->sha256)
                : snprintf(text + len, sizeof text - (size_t)len, "%s:%.9g\n", w->sha256, w->scale);
        EVP_DigestUpdate(sum, text, (size_t)len);
        if (w->transformer)
            code = add_weights(sum, dir, w->path, err);
    }
    return code;
}

static int add_file(EVP_MD_CTX *sum, const char *dir, const char *name, struct kiln_error *err)
{
    char path[4096], *text;
    size_t size;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int code = kiln_regular_read(path, KILN_CONFIG_FILE_MAX, &text, &size, err);
    if (code)
        return code;
    EVP_DigestUpdate(sum, text, size);
    free(text);
    return 0;
}

static int add_model(EVP_MD_CTX *sum, const char *dir, struct kiln_error *err)
{
    int code = 0;
    for (size_t i = 0; !code && i < sizeof config_files / sizeof *config_files; i++)
        code = add_file(sum, dir, config_files[i], err);
    for (size_t i = 0; !code && i < sizeof weight_folders / sizeof *weight_folders; i++)
        code = add_weights(sum, dir, weight_folders[i], err);
    return code ? code : add_steps(sum, dir, err);
}

static int add_classifier(EVP_MD_CTX *sum, const char *dir, struct kiln_error *err)
{
    int code = add_file(sum, dir, "config.json", err);
    code = code ? code : add_file(sum, dir, "preprocessor_config.json", err);
    return code ? code : add_weights(sum, dir, ".", err);
}

static int hash(const char *dir, int (*add)(EVP_MD_CTX *, const char *, struct kiln_error *),
                char ret[KILN_MODEL_HASH_LEN + 1], struct kiln_error *err)
{
    EVP_MD_CTX *sum = EVP_MD_CTX_new();
    if (!sum || EVP_DigestInit_ex(sum, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(sum);
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory to hash the model", dir);
    }
    int code = add(sum, dir, err);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    EVP_DigestFinal_ex(sum, digest, &len);
    EVP_MD_CTX_free(sum);
    if (code)
        return code;
    for (int i = 0; i < KILN_MODEL_HASH_LEN / 2; i++)
        snprintf(ret + 2 * i, 3, "%02x", digest[i]);
    return 0;
}

int kiln_model_hash(const char *dir, char ret[KILN_MODEL_HASH_LEN + 1], struct kiln_error *err)
{
    return hash(dir, add_model, ret, err);
}

int kiln_classifier_hash(const char *dir, char ret[KILN_MODEL_HASH_LEN + 1], struct kiln_error *err)
{
    return hash(dir, add_classifier, ret, err);
}

void kiln_model_name(const char *dir, char *name, size_t size)
{
    char full[PATH_MAX];
    const char *whole = realpath(dir, full) ? full : dir;
    const char *slash = strrchr(whole, '/');
    snprintf(name, size, "%.*s", (int)size - 1, slash && slash[1] ? slash + 1 : whole);
}
