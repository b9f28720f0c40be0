/* inputs.c - see inputs.h. */
#include "schemas/job/inputs.h"

#include <stdio.h>
#include <string.h>

#include "schemas/limits.h"
#include "schemas/names.h"

#define LORA_ENDING ".safetensors"

static size_t hex_digits(const char *text)
{
    return strspn(text, "0123456789abcdef");
}

bool kiln_input_key_valid(const char *key)
{
    static const char *const endings[] = {".webp", ".png", ".jpg"};
    const size_t prefix = sizeof KILN_INPUTS_PREFIX - 1;
    if (strncmp(key, KILN_INPUTS_PREFIX, prefix) != 0 || hex_digits(key + prefix) != 64)
        return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (strcmp(key + prefix + 64, endings[i]) == 0)
            return true;
    return false;
}

bool kiln_sha256_valid(const char *text)
{
    return strlen(text) == 64 && hex_digits(text) == 64;
}

void kiln_lora_key(const char *sha256, char out[KILN_LORA_KEY_MAX])
{
    snprintf(out, KILN_LORA_KEY_MAX, KILN_LORAS_PREFIX "%.64s" LORA_ENDING, sha256);
}

bool kiln_lora_key_valid(const char *key)
{
    const size_t prefix = sizeof KILN_LORAS_PREFIX - 1;
    return strncmp(key, KILN_LORAS_PREFIX, prefix) == 0 && hex_digits(key + prefix) == 64 &&
           strcmp(key + prefix + 64, LORA_ENDING) == 0;
}

size_t kiln_lora_stem(const char *file)
{
    const size_t len = strlen(file), ending = sizeof LORA_ENDING - 1;
    return len > ending && strcmp(file + len - ending, LORA_ENDING) == 0 &&
                   kiln_name_valid(file, len - ending, KILN_NAME_MAX)
               ? len - ending
               : 0;
}
