/* loras.c - the LoRAs of an engine, the plain weights behind 8-bit ones, and names of LoRAs in
 * messages. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/engine/parts.h"

/* The folder may hold another model by now. */
static int check_same_model(const struct kiln_engine *e, struct kiln_error *err)
{
    char hash[KILN_MODEL_HASH_LEN + 1];
    if (e->random_weights)
        return 0;
    int code = kiln_model_hash(e->dir, hash, err);
    if (!code && strcmp(hash, e->hash) != 0)
        code = kiln_fail(err, KILN_CORRUPT,
                         "%s: another model has been put there (%s) since the one in use (%s) was "
                         "loaded; open it again",
                         e->dir, hash, e->hash);
    return code;
}

/* Loads the transformer again without quantising it; ret[i] is the matrix of module i.  Checks the
 * model before, for the better message, and after, since files may have been replaced meanwhile. */
static int load_plain(void *arg, struct kt_scope *scope, kt *ret, struct kiln_error *err)
{
    const struct kiln_engine *e = arg;
    struct kiln_param_table params = {0};
    struct kiln_transformer *t = NULL;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/transformer", e->dir);
    int code = check_same_model(e, err);
    if (!code)
        code = kiln_transformer_load(e->random_weights ? NULL : path, &e->config.transformer, scope,
                                     e->dtype, NULL, &params, &t, err);
    code = code ? code : check_same_model(e, err);
    if (!code && params.count != e->params.count)
        code = kiln_fail(err, KILN_CORRUPT, "%s: it is another model than the one in use", path);
    for (size_t i = 0; !code && i < params.count; i++)
        ret[i] = *params.items[i].slot;
    kiln_param_table_release(&params);
    kiln_transformer_free(t);
    return code;
}

int kiln_engine_loras_open(struct kiln_engine *e, struct kiln_error *err)
{
    const struct kiln_lora_plain plain = {.load = load_plain, .arg = e};
    e->loras = kiln_loras_new(&e->params, e->device, e->dtype, e->e4m3 ? &plain : NULL);
    return e->loras ? 0 : kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for its LoRAs", e->dir);
}

/* --- which LoRAs a phase has ------------------------------------------------------------------ */

/* Those of the batch itself. */
static size_t own_loras(const DiffusionZBatch *b, const struct kiln_lora_use *under,
                        struct kiln_lora_use uses[KILN_LORA_STACK_MAX])
{
    size_t count = 0;
    if (under)
        uses[count++] = *under;
    for (int i = 0; i < b->lora_count; i++)
        uses[count++] = (struct kiln_lora_use){b->loras[i].path, b->loras[i].weight};
    return count;
}

size_t kiln_phase_loras(const struct kiln_phase *phase, const DiffusionZBatch *b,
                        const struct kiln_lora_use *under,
                        struct kiln_lora_use uses[KILN_LORA_STACK_MAX])
{
    size_t count = own_loras(b, under, uses);
    for (int i = 0; i < b->step_lora_count; i++)
        if (phase->loras >> i & 1)
            uses[count++] =
                (struct kiln_lora_use){b->step_loras[i].lora.path, b->step_loras[i].lora.weight};
    return count;
}

size_t kiln_engine_first_loras(const struct kiln_engine *e, const DiffusionZBatch *batch,
                               const struct kiln_lora_use *under,
                               struct kiln_lora_use uses[KILN_LORA_STACK_MAX])
{
    struct kiln_phase phases[KILN_PHASES_MAX];
    (void)kiln_phases_fill(e, batch, phases);
    return kiln_phase_loras(&phases[0], batch, under, uses);
}

/* Names as in a job line: the file's without folder and ending.  Names that do not fit are left
 * out. */
void kiln_run_name_loras(struct kiln_run *r)
{
    struct kiln_lora_use uses[KILN_LORA_STACK_MAX];
    const size_t count = own_loras(r->batch, r->under, uses);
    static const char begin[] = " (LoRAs ", end[] = ": try smaller scales)", more[] = ", ...";
    const size_t room = sizeof r->loras - sizeof more - sizeof end;
    size_t len = 0;
    r->loras[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const char *slash = strrchr(uses[i].path, '/'), *name = slash ? slash + 1 : uses[i].path;
        const char *dot = strrchr(name, '.');
        const int n = snprintf(r->loras + len, room - len, "%s%.*s:%g", i ? ", " : begin,
                               (int)(dot ? dot - name : (ptrdiff_t)strlen(name)), name,
                               (double)uses[i].weight);
        if (n < 0 || (size_t)n >= room - len) {
            snprintf(r->loras + len, sizeof r->loras - len, "%s", i ? more : "");
            break;
        }
        len += (size_t)n;
    }
    len = strlen(r->loras);
    snprintf(r->loras + len, sizeof r->loras - len, "%s", len > 0 ? end : "");
}
