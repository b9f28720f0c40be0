/* version.c - `kiln-worker --version`: Kiln's version, LibTorch's, and what the CPU path is made
 * of. */
#include <stdio.h>
#include <sysexits.h>

#include "pipeline/diffusionz_batch.h"
#include "worker/verbs/verbs.h"

int kiln_verb_version(void)
{
    char engine[256];
    diffusionz_describe(engine, sizeof engine);
    printf("kiln-worker " KILN_VERSION "\n%s\n", engine);
    return EX_OK;
}
