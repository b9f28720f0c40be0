/* devices.c - --device as a list. */
#include "scheduler/cli/stack/stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "storage/daemon/gpus.h"

static int count_gpus(void)
{
    struct kiln_gpu gpus[KILN_GPUS_MAX];
    return kiln_gpus_list("", getenv("CUDA_VISIBLE_DEVICES"), gpus);
}

static int add(struct kiln_devices *devices, const char *name, struct kiln_error *err)
{
    if (devices->count == KILN_STACK_DEVICES_MAX)
        return kiln_fail(err, KILN_CONFIG, "more than %d devices", KILN_STACK_DEVICES_MAX);
    snprintf(devices->at[devices->count++], sizeof devices->at[0], "%s", name);
    return 0;
}

static int refuse_gpu(const char *name, int gpus, struct kiln_error *err)
{
    const char *chosen = getenv("CUDA_VISIBLE_DEVICES");
    const char *why = chosen ? " that CUDA_VISIBLE_DEVICES allows" : "";
    if (gpus == 0)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "%s: this machine has no NVIDIA GPU%s; `nvidia-smi -L` lists GPUs; a "
                         "container must be started with access to them",
                         name, why);
    return kiln_fail(err, KILN_UNAVAILABLE, "%s: this machine has %d GPU%s%s, cuda:0 to cuda:%d",
                     name, gpus, gpus == 1 ? "" : "s", why, gpus - 1);
}

static int add_word(struct kiln_devices *devices, const char *word, struct kiln_error *err)
{
    unsigned number;
    int end = 0;
    if (strcmp(word, "cpu") == 0)
        return add(devices, word, err);
    bool all = strcmp(word, "cuda:all") == 0;
    int gpus = all ? count_gpus() : 0, rc = all && gpus == 0 ? refuse_gpu(word, 0, err) : 0;
    for (int i = 0; i < gpus && rc == 0; i++) {
        char name[32];
        snprintf(name, sizeof name, "cuda:%d", i);
        rc = add(devices, name, err);
    }
    if (all)
        return rc;
    if (sscanf(word, "cuda:%u%n", &number, &end) != 1 || word[end] != '\0')
        return kiln_fail(err, KILN_CONFIG, "device '%s' is neither cpu nor cuda:N nor cuda:all",
                         word);
    gpus = count_gpus();
    if (gpus == 0 && access("/dev/dxg", F_OK) == 0)
        return add(devices, word, err); /* a Linux within Windows shows its GPUs to CUDA alone */
    return number < (unsigned)gpus ? add(devices, word, err) : refuse_gpu(word, gpus, err);
}

int kiln_devices_flag(const struct kiln_config *config, struct kiln_error *err)
{
    struct kiln_devices devices;
    if (strncmp(kiln_config_origin(config, KILN_KEY_DEVICE), "flag ", 5) != 0)
        return 0;
    int rc = kiln_devices_read(kiln_config_text(config, KILN_KEY_DEVICE), &devices, err);
    return rc == KILN_CONFIG ? rc : 0;
}

int kiln_devices_read(const char *text, struct kiln_devices *ret, struct kiln_error *err)
{
    struct kiln_devices devices = {0};
    int rc = 0;
    for (const char *at = text; at && rc == 0;) {
        size_t len = strcspn(at, ",");
        char word[32];
        snprintf(word, sizeof word, "%.*s", (int)(len < 31 ? len : 31), at);
        rc = add_word(&devices, word, err);
        at = at[len] ? at + len + 1 : NULL;
    }
    if (rc == 0)
        *ret = devices;
    return rc;
}
