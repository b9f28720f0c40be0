/* loras.c - which LoRAs a phase has, and names of LoRAs in messages. */
#include <stdio.h>
#include <string.h>

#include "pipeline/engine/parts.h"

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
        if (phase->weights.loras >> i & 1)
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
