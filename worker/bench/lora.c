/* lora.c - see lora.h. */
#include "worker/bench/lora.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int kiln_bench_lora_find(const char *model, DiffusionZLora *lora, struct kiln_error *err)
{
    char *path;
    if (strchr(lora->path, '/') || access(lora->path, F_OK) == 0)
        return 0;
    if (asprintf(&path, "%s/loras/%s.safetensors", model, lora->path) < 0)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a path");
    if (access(path, R_OK) != 0) {
        kiln_fail(err, KILN_NOT_FOUND, "--lora %s: no such file, nor %s", lora->path, path);
        free(path);
        return KILN_NOT_FOUND;
    }
    lora->path = path; /* until the process ends */
    return 0;
}

int kiln_bench_lora_identify(const DiffusionZLora *lora, char name[KILN_NAME_MAX + 1],
                             char sha256[KILN_FILE_HASH_MAX], struct kiln_error *err)
{
    const char *slash = strrchr(lora->path, '/');
    snprintf(name, KILN_NAME_MAX + 1, "%s", slash ? slash + 1 : lora->path);
    char *dot = strrchr(name, '.');
    if (dot && dot != name)
        *dot = '\0';
    return kiln_file_hash(lora->path, KILN_LORA_BYTES_MAX, sha256)
               ? 0
               : kiln_fail(err, KILN_NOT_FOUND, "--lora %s: the file cannot be read", lora->path);
}
