/* loras.c - the registry of LoRAs in the simulation is empty: jobs name files of the workers. */
#include "storage/ledger/lora/lora.h"

#include <stdlib.h>
#include <string.h>

int kiln_lora_list(struct kiln_ledger *ledger, const char *pool, uint64_t version, uint64_t have,
                   struct kiln_lora_list *ret, bool *ret_changed, struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)version;
    *ret_changed = have != 0;
    if (!*ret_changed)
        return 0;
    *ret = (struct kiln_lora_list){.texts = strdup("{\"loras\":[]}")};
    if (!ret->texts)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the registry of LoRAs");
    ret->texts_len = strlen(ret->texts);
    return 0;
}

void kiln_lora_list_release(struct kiln_lora_list *list)
{
    free(list->texts);
    *list = (struct kiln_lora_list){0};
}

int kiln_lora_pin(const struct kiln_lora_list *list, struct kiln_job *job, struct kiln_error *err)
{
    (void)list, (void)job, (void)err;
    return 0;
}

int kiln_lora_register_seen(struct kiln_ledger *ledger, const char *pool,
                            const struct kiln_lora_seen *seen,
                            char ret_sha256[KILN_LORA_SHA256_MAX], struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)ret_sha256;
    return kiln_fail(err, KILN_INTERNAL, "the simulation has no lora_dir, and yet %s was seen",
                     seen->name);
}

int kiln_lora_end_seen(struct kiln_ledger *ledger, const char *pool, const char *const *names,
                       size_t count, uint32_t *ret_ended, struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)names, (void)count, (void)ret_ended;
    return kiln_fail(err, KILN_INTERNAL, "the simulation has no lora_dir");
}
