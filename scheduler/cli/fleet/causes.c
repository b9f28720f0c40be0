/* causes.c - what to do about failed jobs, see trouble.h. */
#include "scheduler/cli/fleet/trouble.h"

#include <stdbool.h>

#include "schemas/error.h"

const char *kiln_cause_next(int code)
{
    static const char *const steps[KILN_CODE_COUNT] = {
        [KILN_BAD_INPUT] = "correct the job line and enqueue it again with another custom_id",
        [KILN_NOT_FOUND] =
            "put the missing model, LoRA file or object where the worker looks for it, "
            "then retry",
        [KILN_FULL] = "free space on the disk, the store or the GPU (`kiln doctor`), then retry",
        [KILN_IO] = "check the worker's disk and model files (`kiln doctor` there), then retry",
        [KILN_UNAVAILABLE] = "start the server that the error names (`kiln doctor`), then retry",
        [KILN_TIMEOUT] = "check whether a server or a GPU hangs (`kiln doctor`), then retry",
        [KILN_DENIED] = "correct the credentials or rights of the worker, then retry",
        [KILN_PROTOCOL] = "check that all programs have one version and that the settings name the "
                          "right servers (`kiln doctor`), then retry",
        [KILN_NO_MEMORY] = "give the worker more memory or lower batch_max, then retry",
        [KILN_DEVICE] = "check the worker's log and GPU, restart the worker if needed, then retry",
        [KILN_CORRUPT] = "download the damaged model or LoRA file again, then retry",
        [KILN_UNSUPPORTED] = "change the job to what the model supports and enqueue it again",
        [KILN_CONFIG] = "correct the worker's settings (`kiln help config`), then retry",
        [KILN_INTERNAL] = "report this bug with the output of `kiln show` for the example",
        [KILN_POISONED] =
            "render the example alone with `kiln render` before you retry it on a fleet",
        [KILN_NOT_FINITE] = "try smaller LoRA scales, or render the example without LoRAs "
                            "(`kiln render`), then enqueue it again",
    };
    bool known = code >= 0 && code < KILN_CODE_COUNT && steps[code];
    return known ? steps[code] : "see `kiln show` for the example, then retry";
}
