/* weights.c - from safetensors to tensors in a scope; see weights.h. */
#include "pipeline/weights/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/torch/load.h"
#include "pipeline/weights/fp8_cache.h"
#include "pipeline/weights/loading.h"
#include "pipeline/weights/stream.h"
#include "schemas/limits.h"
#include "storage/formats/safetensors.h"

struct kiln_weights {
    char dir[1024];
    struct kiln_st *st;                 /* NULL: random weights */
    struct kiln_weights_stream *stream; /* to a GPU; NULL: from the mapping */
    char prefix[32];
    bool *used;         /* by position in st */
    uint64_t bytes, of; /* read from the mapping, and all that is in it */
    struct kt_scope *scope;
    enum kt_dtype dtype;
    bool quantise;
    struct kiln_fp8_cache *cache;
    const char *folder; /* what names in the cache begin with */
    struct kiln_param_table *params;
    struct kiln_error error;
};

/* Prefixes that keys may have. */
static const char *const prefixes[] = {"", "model.", "model.diffusion_model.", "diffusion_model."};

/* ComfyUI's repack of the transformer: part of a diffusers name, and its replacement. */
static const char *const renames[][2] = {
    {"attention.to_out.0.", "attention.out."},  {"attention.norm_q.", "attention.q_norm."},
    {"attention.norm_k.", "attention.k_norm."}, {"all_x_embedder.2-1.", "x_embedder."},
    {"all_final_layer.2-1.", "final_layer."},
};

/* --- names ---------------------------------------------------------------------------------- */

/* The tensor of a diffusers name, or of the repack's name for it. */
static const struct kiln_st_tensor *find(const struct kiln_weights *w, const char *name)
{
    char full[KILN_ST_NAME_MAX * 2];
    snprintf(full, sizeof full, "%s%s", w->prefix, name);
    const struct kiln_st_tensor *t = w->st ? kiln_st_find(w->st, full) : NULL;
    for (size_t i = 0; w->st && !t && i < sizeof renames / sizeof *renames; i++) {
        const char *at = strstr(name, renames[i][0]);
        if (!at)
            continue;
        snprintf(full, sizeof full, "%s%.*s%s%s", w->prefix, (int)(at - name), name, renames[i][1],
                 at + strlen(renames[i][0]));
        return kiln_st_find(w->st, full);
    }
    return t;
}

/* The position of a tensor of the file: the list is sorted by name. */
static size_t position(const struct kiln_weights *w, const struct kiln_st_tensor *t)
{
    size_t low = 0, high = kiln_st_count(w->st);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(kiln_st_at(w->st, middle)->name, t->name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* --- open and close --------------------------------------------------------------------------- */

static void weights_free(struct kiln_weights *w)
{
    kiln_st_close(w->st);
    free(w->used);
    free(w);
}

int kiln_weights_open(const char *dir, const char *probe, struct kt_scope *scope,
                      enum kt_dtype dtype, struct kiln_param_table *params,
                      struct kiln_weights **ret, struct kiln_error *err)
{
    struct kiln_weights *w = calloc(1, sizeof *w);
    if (!w)
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for its weights", dir ? dir : probe);
    snprintf(w->dir, sizeof w->dir, "%s", dir ? dir : "random weights");
    w->scope = scope;
    w->dtype = dtype;
    w->params = params;
    if (dir)
        kiln_loading_note(dir, 0, 0);
    int code = dir ? kiln_st_open(dir, &w->st, err) : 0;
    if (!code && dir) {
        w->of = kiln_st_total(w->st);
        w->used = calloc(kiln_st_count(w->st) + 1, sizeof *w->used);
        if (!w->used)
            code = kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for its weights", dir);
    }
    if (!code && dir) {
        size_t i = 0, count = sizeof prefixes / sizeof *prefixes;
        do
            snprintf(w->prefix, sizeof w->prefix, "%s", prefixes[i]);
        while (!find(w, probe) && ++i < count);
        if (i == count)
            code = kiln_fail(err, KILN_BAD_INPUT,
                             "%s: there is no tensor %s: not a model of this kind", w->dir, probe);
    }
    if (!code && dir && kt_device_of(scope) != KT_CPU)
        code = kiln_weights_stream_open(w->st, kt_device_of(scope), &w->stream, err);
    if (code)
        weights_free(w);
    else
        *ret = w;
    return code;
}

int kiln_weights_close(struct kiln_weights *w, struct kiln_error *err)
{
    const char *first = NULL;
    size_t unused = 0, count = w->st && !w->error.code ? kiln_st_count(w->st) : 0;
    struct kiln_error late; /* known only after all has been read */
    for (size_t i = count; i-- > 0;)
        if (!w->used[i]) {
            first = kiln_st_at(w->st, i)->name;
            unused++;
        }
    if (unused)
        kiln_fail(
            &w->error, KILN_BAD_INPUT,
            "%s: %zu tensors have no place in the model that config.json describes, the first "
            "is %s",
            w->dir, unused, first);
    int code = w->stream ? kiln_weights_stream_close(w->stream, &late)
               : w->st   ? kiln_st_check(w->st, &late)
                         : 0;
    if (code && !w->error.code)
        kiln_fail(&w->error, code, "%s: %s", w->dir, late.text);
    code = w->error.code ? w->error.code : kt_scope_check(w->scope, &w->error);
    if (code && err)
        *err = w->error;
    weights_free(w);
    return code;
}

void kiln_weights_expect(struct kiln_weights *w, const char *name, const char *whole)
{
    if (w->st && !w->error.code && find(w, whole) && !find(w, name))
        kiln_fail(&w->error, KILN_BAD_INPUT, "%s: tensor %s%s is missing", w->dir, w->prefix, name);
}

bool kiln_weights_has(const struct kiln_weights *w, const char *name)
{
    return !w->st || find(w, name);
}

void kiln_weights_ignore(struct kiln_weights *w, const char *prefix)
{
    char full[KILN_ST_NAME_MAX];
    size_t count = w->st ? kiln_st_count(w->st) : 0;
    snprintf(full, sizeof full, "%s%s", w->prefix, prefix);
    for (size_t i = 0; i < count; i++) {
        const char *name = kiln_st_at(w->st, i)->name;
        /* Heads such as lm_head stand outside of the common prefix. */
        if (strncmp(name, full, strlen(full)) == 0 || strncmp(name, prefix, strlen(prefix)) == 0)
            w->used[i] = true;
    }
}

/* --- one tensor ------------------------------------------------------------------------------- */

static void shape_text(int ndim, const int64_t *shape, char *out, size_t size)
{
    size_t at = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < ndim && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, i ? ", %lld" : "%lld", (long long)shape[i]);
    if (at < size)
        snprintf(out + at, size - at, "]");
}

/* A random tensor, as in an untrained network: norms near 1, biases near 0, and matrices that keep
 * the size of activations, so that no layer overflows.  The name is the seed. */
static kt random_tensor(struct kiln_weights *w, struct kt_scope *scope, const char *name, int ndim,
                        const int64_t *shape)
{
    uint64_t seed = 14695981039346656037u; /* FNV-1a */
    for (const char *c = name; *c; c++)
        seed = (seed ^ (unsigned char)*c) * 1099511628211u;
    double inputs = 1;
    for (int i = 1; i < ndim; i++)
        inputs *= (double)shape[i];
    const char *dot = strrchr(name, '.');
    double mean = ndim == 1 && !(dot && strcmp(dot, ".bias") == 0) ? 1 : 0;
    return kt_normal(scope, seed, mean, ndim == 1 ? 0.02 : 1 / sqrt(inputs), w->dtype, ndim, shape);
}

/* The file's tensor of this name, marked as used; or NULL with the error set. */
static const struct kiln_st_tensor *expect(struct kiln_weights *w, const char *name, int ndim,
                                           const int64_t *shape, enum kt_dtype *ret_dtype)
{
    const struct kiln_st_tensor *t = find(w, name);
    char want[96], have[160];
    shape_text(ndim, shape, want, sizeof want);
    if (!t) {
        kiln_fail(&w->error, KILN_BAD_INPUT, "%s: tensor %s %s is missing", w->dir, name, want);
        return NULL;
    }
    w->used[position(w, t)] = true;
    if ((int)t->ndim != ndim || memcmp(t->shape, shape, (size_t)ndim * sizeof *shape) != 0) {
        shape_text((int)t->ndim, t->shape, have, sizeof have);
        kiln_fail(&w->error, KILN_BAD_INPUT,
                  "%s: tensor %s has shape %s, but config.json makes it %s", w->dir, name, have,
                  want);
        return NULL;
    }
    *ret_dtype = t->dtype == KILN_ST_F16 ? KT_F16 : t->dtype == KILN_ST_BF16 ? KT_BF16 : KT_F32;
    if (*ret_dtype == KT_F32 && t->dtype != KILN_ST_F32) {
        kiln_fail(&w->error, KILN_UNSUPPORTED,
                  "%s: tensor %s has dtype %s; weights are F32, F16 or BF16", w->dir, name,
                  kiln_st_dtype_name(t->dtype));
        return NULL;
    }
    return t;
}

static void note_param(struct kiln_weights *w, const char *prefix, const char *module, kt *slot,
                       int64_t row, int64_t rows, int64_t cols)
{
    struct kiln_param param = {.slot = slot, .row = row, .rows = rows, .cols = cols};
    if (!w->params || w->error.code)
        return;
    snprintf(param.name, sizeof param.name, "%s%s", prefix, module);
    if (!kiln_param_table_add(w->params, &param))
        kiln_fail(&w->error, KILN_NO_MEMORY, "%s: no memory for the parameter table", w->dir);
}

/* --- requests --------------------------------------------------------------------------------- */

/* Loads the tensor PREFIX NAME SUFFIX into scope; NULL with the error set. */
static kt load_named(struct kiln_weights *w, struct kt_scope *scope, const char *prefix,
                     const char *name, const char *suffix, int ndim, const int64_t *shape)
{
    char full[KILN_ST_NAME_MAX];
    enum kt_dtype from = KT_F32;
    snprintf(full, sizeof full, "%s%s%s", prefix, name, suffix);
    if (w->error.code)
        return NULL;
    if (!w->st)
        return random_tensor(w, scope, full, ndim, shape);
    const struct kiln_st_tensor *t = expect(w, full, ndim, shape, &from);
    if (!t)
        return NULL;
    if (w->stream && kt_device_of(scope) != KT_CPU)
        return kiln_weights_stream_load(w->stream, scope, position(w, t), from, w->dtype,
                                        &w->error);
    /* Reports the file before its mapping is read, which may hang. */
    const char *path = w->dir;
    uint64_t offset;
    int fd;
    (void)kiln_st_source(w->st, t, &fd, &offset, &path);
    kiln_loading_note(path, w->bytes, w->of);
    kt loaded = kt_from_host(scope, t->data, from, w->dtype, ndim, shape);
    w->bytes += t->size;
    if (loaded && !kt_all_finite(scope, loaded)) {
        kiln_fail(&w->error, KILN_CORRUPT, "%s: tensor %s holds values that are not finite numbers",
                  w->dir, full);
        return NULL;
    }
    return loaded;
}

void kiln_weights_vector(struct kiln_weights *w, kt *slot, const char *prefix, const char *name,
                         int64_t n)
{
    *slot = load_named(w, w->scope, prefix, name, "", 1, &n);
}

void kiln_weights_gain(struct kiln_weights *w, kt *slot, const char *prefix, const char *name,
                       int64_t n)
{
    struct kt_scope *inner = kt_scope_child(w->scope);
    kt loaded = load_named(w, inner, prefix, name, "", 1, &n);
    *slot = loaded ? kt_keep(w->scope, kt_to(inner, loaded, KT_F32)) : NULL;
    kt_scope_free(inner);
}

void kiln_weights_table(struct kiln_weights *w, kt *slot, const char *prefix, const char *name,
                        int64_t rows, int64_t cols)
{
    *slot = load_named(w, w->scope, prefix, name, "", 2, (int64_t[]){rows, cols});
}

void kiln_weights_rows(struct kiln_weights *w, kt *slot, const char *prefix, const char *name,
                       int64_t rows, int64_t cols)
{
    const int64_t shape[3] = {1, rows, cols};
    kt loaded = load_named(w, w->scope, prefix, name, "", 3, shape);
    *slot = loaded ? kt_reshape(w->scope, loaded, 2, shape + 1) : NULL;
}

void kiln_weights_quantise(struct kiln_weights *w, bool on)
{
    w->quantise = on;
}

void kiln_weights_cache(struct kiln_weights *w, struct kiln_fp8_cache *cache, const char *folder)
{
    w->cache = cache;
    w->folder = folder;
}

static const char *name_in_cache(const struct kiln_weights *w, const char *prefix,
                                 const char *module, char out[KILN_ST_NAME_MAX])
{
    snprintf(out, KILN_ST_NAME_MAX, "%s/%s%s", w->folder ? w->folder : "", prefix, module);
    return out;
}

/* The matrix of a pack from the cache, or NULL.  Its parts must be in the model's file as well. */
static kt from_cache(struct kiln_weights *w, const char *prefix, const struct kiln_pack *pack,
                     bool fused, int64_t rows, int64_t cols)
{
    char full[KILN_ST_NAME_MAX];
    enum kt_dtype dtype;
    if (!w->quantise || !w->cache || !w->st || w->error.code)
        return NULL;
    kt taken = kiln_fp8_cache_take(w->cache, w->scope,
                                   name_in_cache(w, prefix, pack->modules[0], full), rows, cols);
    for (size_t i = 0; taken && i < (fused ? 1 : 3) && pack->modules[i]; i++) {
        const int64_t shape[2] = {fused ? rows : pack->rows[i], cols};
        snprintf(full, sizeof full, "%s%s.weight", prefix, fused ? pack->fused : pack->modules[i]);
        if (!expect(w, full, 2, shape, &dtype))
            return NULL;
    }
    return taken;
}

/* Quantises a matrix of `inner` if that is on; frees inner. */
static kt take_matrix(struct kiln_weights *w, struct kt_scope *inner, const char *prefix,
                      const char *module, kt matrix)
{
    char name[KILN_ST_NAME_MAX];
    kt taken = matrix && w->quantise ? kt_quantise_rows(inner, matrix) : matrix;
    taken = w->error.code ? NULL : kt_keep(w->scope, taken);
    kt_scope_free(inner);
    if (w->quantise && w->st)
        kiln_fp8_cache_note(w->cache, name_in_cache(w, prefix, module, name), taken);
    return taken;
}

void kiln_weights_linear(struct kiln_weights *w, kt *slot, const char *prefix, const char *module,
                         int64_t rows, int64_t cols)
{
    const struct kiln_pack alone = {.modules = {module}, .rows = {rows}};
    *slot = from_cache(w, prefix, &alone, false, rows, cols);
    if (!*slot) {
        struct kt_scope *inner = kt_scope_child(w->scope);
        kt whole = load_named(w, inner, prefix, module, ".weight", 2, (int64_t[]){rows, cols});
        *slot = take_matrix(w, inner, prefix, module, whole);
    }
    note_param(w, prefix, module, slot, 0, rows, cols);
}

void kiln_weights_conv(struct kiln_weights *w, kt *slot, const char *prefix, const char *module,
                       int64_t out, int64_t in, int64_t kernel)
{
    struct kt_scope *inner = kt_scope_child(w->scope);
    kt weight =
        load_named(w, inner, prefix, module, ".weight", 4, (int64_t[]){out, in, kernel, kernel});
    *slot = weight ? kt_keep(w->scope, kt_conv_weight(inner, weight)) : NULL;
    kt_scope_free(inner);
}

static int64_t pack_rows(const struct kiln_pack *pack, size_t *ret_parts)
{
    int64_t rows = 0;
    size_t n = 0;
    for (; n < 3 && pack->modules[n]; n++)
        rows += pack->rows[n];
    *ret_parts = n;
    return rows;
}

/* The stack from its parts; ndim 2 for matrices, 1 for biases. */
static kt load_parts(struct kiln_weights *w, struct kt_scope *scope, const char *prefix,
                     const struct kiln_pack *pack, const char *suffix, int ndim, int64_t cols)
{
    size_t n;
    (void)pack_rows(pack, &n);
    struct kt_scope *parts = kt_scope_child(scope);
    kt each[3] = {NULL};
    for (size_t i = 0; i < n; i++)
        each[i] = load_named(w, parts, prefix, pack->modules[i], suffix, ndim,
                             (int64_t[]){pack->rows[i], cols});
    kt whole = w->error.code ? NULL : kt_keep(scope, kt_cat(parts, each, n, 0));
    kt_scope_free(parts);
    return whole;
}

void kiln_weights_pack(struct kiln_weights *w, kt *slot, const char *prefix,
                       const struct kiln_pack *pack, int64_t cols)
{
    char full[KILN_ST_NAME_MAX];
    size_t n;
    int64_t total = pack_rows(pack, &n), row = 0;
    snprintf(full, sizeof full, "%s%s.weight", prefix, pack->fused ? pack->fused : "");
    const bool fused = pack->fused && find(w, full);
    *slot = from_cache(w, prefix, pack, fused, total, cols);
    if (!*slot) {
        struct kt_scope *inner = kt_scope_child(w->scope);
        kt whole = fused ? load_named(w, inner, prefix, pack->fused, ".weight", 2,
                                      (int64_t[]){total, cols})
                         : load_parts(w, inner, prefix, pack, ".weight", 2, cols);
        *slot = take_matrix(w, inner, prefix, pack->modules[0], whole);
    }
    for (size_t i = 0; i < n; i++) {
        note_param(w, prefix, pack->modules[i], slot, row, pack->rows[i], cols);
        row += pack->rows[i];
    }
}

void kiln_weights_pack_bias(struct kiln_weights *w, kt *slot, const char *prefix,
                            const struct kiln_pack *pack)
{
    *slot = load_parts(w, w->scope, prefix, pack, ".bias", 1, 0);
}
