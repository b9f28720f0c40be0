/* context.h - what job lines may refer to, by the settings: styles, LoRAs, overrides. */
#ifndef KILN_ENQUEUE_CONTEXT_H
#define KILN_ENQUEUE_CONTEXT_H

#include <limits.h>

#include "scheduler/cli/jobs/enqueue/input_value.h"
#include "schemas/config/config.h"
#include "schemas/job/line.h"
#include "storage/ledger/lora/lora.h"

struct kiln_enqueue_context {
    struct kiln_job_context job; /* points into the rest */
    struct kiln_styles *styles;
    char **lora_names;
    size_t lora_count;
    const struct kiln_config *config;
    struct kiln_lora_list registry; /* once a name was not among these, */
    const char **all_loras;         /* and then both, sorted; they point into the two */
    size_t all_lora_count;
    struct kiln_error registry_err; /* with a code: it could not be read */
    char *overrides;
    bool sets_wrong; /* opening failed because of an option of the command line */
};

/* sets are checked here; an error names the option.  The LoRA names are those of the
 * NAME.safetensors files of lora_dir (or MODEL/loras), and those of the registry, which is read
 * when a line first has another name; where no such directory can be seen from here, any name
 * passes. config and *ret must stay where they are.  files: init_image and init_mask may be paths,
 * which the caller replaces (uploads.h). */
int kiln_enqueue_context_open(const struct kiln_config *config, const struct kiln_set *sets,
                              size_t set_count, bool files, struct kiln_enqueue_context *ret,
                              struct kiln_error *err) KILN_MUST_CHECK;
/* Reads the registry, once: then all_loras has the names of both. */
int kiln_enqueue_context_registry(struct kiln_enqueue_context *context,
                                  struct kiln_error *err) KILN_MUST_CHECK;
/* The file of a LoRA: in lora_dir, else in MODEL/loras. */
void kiln_lora_path(const struct kiln_config *config, const char *name, char out[PATH_MAX]);
void kiln_enqueue_context_release(struct kiln_enqueue_context *context);

#endif
