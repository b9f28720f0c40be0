/* hardening.c - prctl rather than a limit alone: a kernel that pipes core dumps to a program does
 * not ask RLIMIT_CORE. */
#include "storage/daemon/hardening.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

void kiln_harden(const struct kiln_config *config)
{
    const struct rlimit none = {0, 0};
    if (strcmp(kiln_config_text(config, KILN_KEY_CORE_DUMPS), "on") == 0)
        return;
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}
