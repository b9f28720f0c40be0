/* words.c - the words for devices and number formats. */
#include <stdlib.h>
#include <string.h>

#include "worker/engine/renderer.h"

#define DEVICES_MAX 1024

int kiln_device_parse(const char *text, int32_t *ret_device, struct kiln_error *err)
{
    if (strcmp(text, "cpu") == 0) {
        *ret_device = -1;
        return 0;
    }
    if (strcmp(text, "cuda") == 0) {
        *ret_device = 0;
        return 0;
    }
    if (strncmp(text, "cuda:", 5) == 0 && text[5] >= '0' && text[5] <= '9') {
        char *end;
        long device = strtol(text + 5, &end, 10);
        if (*end == '\0' && device < DEVICES_MAX) {
            *ret_device = (int32_t)device;
            return 0;
        }
    }
    return kiln_fail(err, KILN_CONFIG, "device \"%s\": expected cpu or cuda:N", text);
}

const char *const kiln_dtype_names[KILN_DTYPES] = {
    [DIFFUSIONZ_AUTO] = "auto",
    [DIFFUSIONZ_FP32] = "fp32",
    [DIFFUSIONZ_BF16] = "bf16",
    [DIFFUSIONZ_FP8] = "fp8",
};

int kiln_dtype_parse(const char *text, int32_t *ret_dtype, struct kiln_error *err)
{
    for (int32_t i = 0; i < KILN_DTYPES; i++)
        if (strcmp(text, kiln_dtype_names[i]) == 0) {
            *ret_dtype = i;
            return 0;
        }
    return kiln_fail(err, KILN_CONFIG, "dtype \"%s\": expected auto, fp32, bf16 or fp8", text);
}
