/* strength.h - how much a LoRA changes the weights of a model.
 *
 *     |B A|^2 = tr((A A^T)(B^T B))        Frobenius; exact, without forming B A
 *     rho     = scale |B A| / |W|         of a module
 *
 * The strength of a file is the root mean square of rho over its modules.  Two files of the same
 * strength change the model about as much, whatever their ranks and alphas.
 */
#ifndef KILN_LORA_STRENGTH_H
#define KILN_LORA_STRENGTH_H

#include "pipeline/lora/file/modules.h"

struct kiln_lora_measure {
    double strength;
    double highest; /* rho of the module that changes most */
    size_t highest_module;
    uint32_t rank, modules; /* the highest rank; how many modules it changes */
};

/* The file must have been opened with these modules.  O(rank^2 (rows + cols)) a module.
 * KILN_BAD_INPUT: values so large that the change is not finite.  KILN_UNSUPPORTED: a rank above
 * both sides of a module, whose products would not fit into memory.  KILN_CORRUPT: the model's
 * weights were changed meanwhile. */
int kiln_lora_measure(const struct kiln_lora_file *file, const struct kiln_lora_modules *modules,
                      struct kiln_lora_measure *ret, struct kiln_error *err) KILN_MUST_CHECK;

#endif
