/* lora.c - opens a LoRA file and sorts its tensors into pairs.
 *
 * Three passes.  First, every key is parsed into a role (A, B or alpha) and a name; keys that fit
 * no module of this model are counted.  Then each name must have both halves, in shapes that fit.
 * Last, names are mapped to modules.  A fused qkv is split by the rows of B, which share A.  A
 * repack's name is dropped if the file has the same modules under the model's own names: some
 * trainers write both.
 *
 * Alpha is a tensor NAME.alpha (one value of any dtype).  Without it, files of diffusers' training
 * scripts have PEFT settings as JSON in __metadata__.  Without both the factor is 1.
 */
#include "pipeline/lora/file/lora.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/floats.h"
#include "pipeline/lora/file/names.h"

#define SETTINGS_BYTES_MAX (1 << 20) /* as JSON, which a parser makes forty times larger */

/* The tensors of one name. */
struct part {
    const struct kiln_st_tensor *tensors[3]; /* by enum kiln_lora_role */
};

struct kiln_lora_file {
    struct kiln_st *st;
    struct kiln_lora_pair *pairs; /* by module */
    size_t count;
};

/* While a file is being opened. */
struct reading {
    const char *path;
    const struct kiln_lora_module *modules;
    size_t module_count;
    struct kiln_lora_names names;
    struct part *parts; /* by target of names */
    size_t *owner;      /* by module: 1 + the target that gave its pair, 0 for none yet */
    json_t *settings;   /* PEFT's, or NULL */
    struct kiln_lora_file *file;
};

/* --- values ----------------------------------------------------------------------------------- */

/* The only value of a tensor; NAN for other dtypes. */
static double scalar_value(const struct kiln_st_tensor *t)
{
    union {
        uint16_t u16;
        int32_t i32;
        int64_t i64;
        float f32;
        double f64;
        uint8_t u8;
        int8_t i8;
    } v = {0};
    memcpy(&v, t->data, t->size < sizeof v ? t->size : sizeof v);
    switch (t->dtype) {
    case KILN_ST_F64:
        return v.f64;
    case KILN_ST_F32:
        return v.f32;
    case KILN_ST_BF16:
        return kiln_from_bf16(v.u16);
    case KILN_ST_F16:
        return kiln_from_half(v.u16);
    case KILN_ST_I64:
        return (double)v.i64;
    case KILN_ST_I32:
        return v.i32;
    case KILN_ST_U8:
        return v.u8;
    case KILN_ST_I8:
        return v.i8;
    default:
        return NAN;
    }
}

/* All exponent bits set means infinity or NaN, in each of the three dtypes. */
static bool all_finite(const struct kiln_st_tensor *t)
{
    const uint8_t *at = t->data;
    size_t size = kiln_st_dtype_size(t->dtype);
    uint32_t exponent = t->dtype == KILN_ST_F32    ? 0x7f800000
                        : t->dtype == KILN_ST_BF16 ? 0x7f80
                                                   : 0x7c00;
    for (size_t i = 0; i < t->size; i += size) {
        uint32_t bits = 0;
        memcpy(&bits, at + i, size);
        if ((bits & exponent) == exponent)
            return false;
    }
    return true;
}

/* --- reading keys ----------------------------------------------------------------------------- */

/* Sorts the tensors into parts.  Counts and lists keys that fit no module; the list ends with "..."
 * where it is full. */
static int read_keys(struct reading *r, struct kiln_error *err)
{
    size_t count = kiln_st_count(r->file->st), unmatched = 0, len = 0;
    char list[300] = "", flat[KILN_ST_NAME_MAX + 1];
    if (count == 0)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: there is no tensor in it", r->path);
    for (size_t i = 0; i < count; i++) {
        const struct kiln_st_tensor *t = kiln_st_at(r->file->st, i);
        const char *kind = kiln_lora_refused_kind(t->name);
        enum kiln_lora_role role;
        if (kind)
            return kiln_fail(err, KILN_UNSUPPORTED, "%s: key %s is of %s, which is not supported",
                             r->path, t->name, kind);
        const struct kiln_lora_target *target = kiln_lora_parse_key(t->name, &role, flat)
                                                    ? kiln_lora_names_find(&r->names, flat)
                                                    : NULL;
        if (target) {
            const struct kiln_st_tensor **place =
                &r->parts[target - r->names.targets].tensors[role];
            if (*place)
                return kiln_fail(err, KILN_BAD_INPUT, "%s: keys %s and %s mean the same", r->path,
                                 (*place)->name, t->name);
            *place = t;
            continue;
        }
        unmatched++;
        if (len < sizeof list) { /* not full */
            bool fits = len + strlen(t->name) + sizeof ", , ..." < sizeof list;
            snprintf(list + len, sizeof list - len, "%s%s", len ? ", " : "",
                     fits ? t->name : "...");
            len = fits ? strlen(list) : sizeof list;
        }
    }
    if (unmatched == count)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "LoRA %s is of another model: 0 keys fit modules of this model, %zu do "
                         "not: %s",
                         r->path, unmatched, list);
    return unmatched == 0 ? 0
                          : kiln_fail(err, KILN_BAD_INPUT,
                                      "%s: %zu keys fit modules of this model, %zu do not: %s",
                                      r->path, count - unmatched, unmatched, list);
}

/* --- alpha ------------------------------------------------------------------------------------ */

/* The PEFT settings that diffusers saves; absent in most files. */
static int read_settings(struct reading *r, struct kiln_error *err)
{
    const char *text = kiln_st_metadata(r->file->st, "lora_adapter_metadata");
    json_error_t where;
    if (!text)
        return 0;
    if (strlen(text) > SETTINGS_BYTES_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "%s: lora_adapter_metadata has %zu bytes, at most %d", r->path,
                         strlen(text), SETTINGS_BYTES_MAX);
    r->settings = json_loads(text, 0, &where);
    if (!json_is_object(r->settings))
        return kiln_fail(err, KILN_CORRUPT, "%s: lora_adapter_metadata is not a JSON object: %s",
                         r->path, where.text);
    return 0;
}

/* alpha / rank by the settings, whose alpha_pattern names modules or ends of their names; 1 without
 * them. */
static int settings_scale(const struct reading *r, size_t module, int64_t rank, double *ret,
                          struct kiln_error *err)
{
    const json_t *alpha = json_object_get(r->settings, "transformer.lora_alpha");
    json_t *patterns = json_object_get(r->settings, "transformer.alpha_pattern"), *value;
    const char *pattern, *name = r->modules[module].name;
    json_object_foreach(patterns, pattern, value)
    {
        const size_t n = strlen(pattern), m = strlen(name);
        if (strpbrk(pattern, "\\^$*+?()[]{}|"))
            return kiln_fail(err, KILN_UNSUPPORTED,
                             "%s: alpha_pattern \"%.64s\" in its metadata is a regular expression",
                             r->path, pattern);
        if (n <= m && strcmp(name + m - n, pattern) == 0 && (n == m || name[m - n - 1] == '.'))
            alpha = value;
    }
    *ret = 1;
    if (!alpha)
        return 0;
    if (!json_is_number(alpha) || !isfinite(json_number_value(alpha)))
        return kiln_fail(err, KILN_CORRUPT, "%s: lora_alpha in its metadata is not a number",
                         r->path);
    bool root = json_is_true(json_object_get(r->settings, "transformer.use_rslora"));
    *ret = json_number_value(alpha) / (root ? sqrt((double)rank) : (double)rank);
    return 0;
}

static int find_scale(const struct reading *r, const struct part *p, size_t module, int64_t rank,
                      double *ret, struct kiln_error *err)
{
    const struct kiln_st_tensor *alpha = p->tensors[KILN_LORA_ALPHA];
    if (!alpha)
        return settings_scale(r, module, rank, ret, err);
    size_t values = alpha->size / kiln_st_dtype_size(alpha->dtype);
    double value = values == 1 ? scalar_value(alpha) : NAN;
    if (!isfinite(value))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: %s is not one finite number", r->path,
                         alpha->name);
    *ret = value / (double)rank;
    return 0;
}

/* --- pairs ------------------------------------------------------------------------------------ */

static int check_matrix(const struct reading *r, const struct kiln_st_tensor *t,
                        struct kiln_error *err)
{
    if (t->dtype != KILN_ST_F32 && t->dtype != KILN_ST_F16 && t->dtype != KILN_ST_BF16)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: %s is %s; F32, F16 and BF16 are supported",
                         r->path, t->name, kiln_st_dtype_name(t->dtype));
    if (t->ndim != 2)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: %s has %u dimensions, a matrix has 2", r->path,
                         t->name, t->ndim);
    if (!all_finite(t))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: %s holds NaN or infinity", r->path, t->name);
    return 0;
}

/* Checks that both halves exist, with one rank and the target's shape. */
static int check_part(const struct reading *r, const struct part *p,
                      const struct kiln_lora_target *target, struct kiln_error *err)
{
    const struct kiln_st_tensor *a = p->tensors[KILN_LORA_A], *b = p->tensors[KILN_LORA_B];
    int64_t rows = 0, cols = r->modules[target->modules[0]].cols;
    if (!a || !b)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: %s has no %s", r->path, target->flat,
                         a   ? "lora_B (up)"
                         : b ? "lora_A (down)"
                             : "lora_A and lora_B, only an alpha");
    int rc = check_matrix(r, a, err);
    if (!rc)
        rc = check_matrix(r, b, err);
    for (size_t i = 0; i < target->count; i++) {
        rows += r->modules[target->modules[i]].rows;
        if (r->modules[target->modules[i]].cols != cols && !rc)
            rc = kiln_fail(err, KILN_BAD_INPUT, "%s: %s spans modules of several widths", r->path,
                           target->flat);
    }
    if (rc)
        return rc;
    if (a->shape[0] < 1 || a->shape[0] != b->shape[1])
        return kiln_fail(err, KILN_BAD_INPUT, "%s: %s has rank %lld in A and %lld in B", r->path,
                         target->flat, (long long)a->shape[0], (long long)b->shape[1]);
    if (a->shape[1] != cols || b->shape[0] != rows)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "LoRA %s is of another model: its %s goes from %lld values to %lld, this "
                         "model's from %lld to %lld",
                         r->path, target->flat, (long long)a->shape[1], (long long)b->shape[0],
                         (long long)cols, (long long)rows);
    return 0;
}

/* Gives each module of the target its rows of B. */
static int add_pairs(struct reading *r, size_t t, struct kiln_error *err)
{
    const struct kiln_lora_target *target = &r->names.targets[t];
    const struct part *p = &r->parts[t];
    int rc = check_part(r, p, target, err);
    if (rc)
        return rc;
    const struct kiln_st_tensor *a = p->tensors[KILN_LORA_A], *b = p->tensors[KILN_LORA_B];
    const uint8_t *rows = b->data;
    for (size_t i = 0; i < target->count && !rc; i++) {
        size_t module = target->modules[i];
        struct kiln_lora_pair *pair = &r->file->pairs[module];
        *pair = (struct kiln_lora_pair){module, a->shape[0], a->dtype, b->dtype, a->data, rows, 1};
        r->owner[module] = t + 1;
        rc = find_scale(r, p, module, pair->rank, &pair->scale, err);
        rows += (size_t)(r->modules[module].rows * pair->rank) * kiln_st_dtype_size(b->dtype);
    }
    return rc;
}

/* The model's own names first; then repacks' names for modules without a pair. */
static int make_pairs(struct reading *r, struct kiln_error *err)
{
    struct kiln_lora_file *f = r->file;
    for (size_t i = 0; i < 2 * r->names.count; i++) {
        const bool aliases = i >= r->names.count;
        const size_t t = i % r->names.count;
        const struct kiln_lora_target *target = &r->names.targets[t];
        const struct part *p = &r->parts[t];
        size_t paired = 0;
        if (target->alias != aliases || !(p->tensors[0] || p->tensors[1] || p->tensors[2]))
            continue;
        for (size_t k = 0; k < target->count; k++)
            paired += r->owner[target->modules[k]] != 0;
        if (paired == target->count)
            continue;
        int rc = paired == 0 ? add_pairs(r, t, err)
                             : kiln_fail(err, KILN_BAD_INPUT,
                                         "%s: %s is there as a whole and again in part", r->path,
                                         target->flat);
        if (rc)
            return rc;
    }
    for (size_t i = 0; i < r->module_count; i++) /* remove the gaps of modules without a pair */
        if (r->owner[i])
            f->pairs[f->count++] = f->pairs[i];
    return 0;
}

/* --- open and close --------------------------------------------------------------------------- */

/* Takes st over; it is NULL after the error rc. */
static int open_st(int rc, struct kiln_st *st, const char *path,
                   const struct kiln_lora_module *modules, size_t count,
                   struct kiln_lora_file **ret, struct kiln_error *err)
{
    struct kiln_lora_file *file = rc ? NULL : calloc(1, sizeof *file);
    if (rc)
        return rc;
    if (!file) {
        kiln_st_close(st);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open %s", path);
    }
    file->st = st;
    struct reading r = {.path = path, .modules = modules, .module_count = count, .file = file};
    rc = kiln_lora_names_init(&r.names, modules, count, err);
    if (!rc) {
        r.parts = calloc(r.names.count + 1, sizeof *r.parts);
        r.owner = calloc(count + 1, sizeof *r.owner);
        file->pairs = calloc(count + 1, sizeof *file->pairs);
        if (!r.parts || !r.owner || !file->pairs)
            rc = kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for its pairs", path);
    }
    rc = rc ? rc : read_keys(&r, err);
    rc = rc ? rc : read_settings(&r, err);
    rc = rc ? rc : make_pairs(&r, err);
    kiln_lora_names_release(&r.names);
    json_decref(r.settings);
    free(r.parts);
    free(r.owner);
    if (rc)
        kiln_lora_close(file);
    else
        *ret = file;
    return rc;
}

int kiln_lora_open(const char *path, const struct kiln_lora_module *modules, size_t count,
                   struct kiln_lora_file **ret, struct kiln_error *err)
{
    struct kiln_st *st = NULL;
    int rc = kiln_st_open_read(path, KILN_LORA_BYTES_MAX, &st, err);
    return open_st(rc, st, path, modules, count, ret, err);
}

int kiln_lora_open_memory(const void *data, size_t size, const char *what,
                          const struct kiln_lora_module *modules, size_t count,
                          struct kiln_lora_file **ret, struct kiln_error *err)
{
    struct kiln_st *st = NULL;
    int rc = kiln_st_open_memory(data, size, what, &st, err);
    return open_st(rc, st, what, modules, count, ret, err);
}

void kiln_lora_close(struct kiln_lora_file *file)
{
    if (!file)
        return;
    kiln_st_close(file->st);
    free(file->pairs);
    free(file);
}

size_t kiln_lora_count(const struct kiln_lora_file *file)
{
    return file->count;
}

const struct kiln_lora_pair *kiln_lora_at(const struct kiln_lora_file *file, size_t i)
{
    return i < file->count ? &file->pairs[i] : NULL;
}

const char *kiln_lora_metadata(const struct kiln_lora_file *file, const char *key)
{
    return kiln_st_metadata(file->st, key);
}

int kiln_lora_check(const struct kiln_lora_file *file, struct kiln_error *err)
{
    return kiln_st_check(file->st, err);
}
