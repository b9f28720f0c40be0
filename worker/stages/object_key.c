/* object_key.c - the names of objects, made from numbers and hashes, never from user text. */
#include "worker/stages/object_key.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SHA_DIGITS 16

/* A time outside the years 0..9999 can only come from a damaged message; it files under 0000/01. */
static void year_month(int64_t created_ms, int *ret_year, int *ret_month)
{
    time_t seconds = (time_t)(created_ms / 1000);
    struct tm utc;
    *ret_year = 0;
    *ret_month = 1;
    if (gmtime_r(&seconds, &utc) && utc.tm_year >= -1900 && utc.tm_year <= 9999 - 1900) {
        *ret_year = utc.tm_year + 1900;
        *ret_month = utc.tm_mon + 1;
    }
}

void kiln_image_key(char ret[KILN_OBJECT_KEY_MAX + 1], int64_t created_ms, uint64_t job,
                    const char *size, const char *sha256)
{
    int year, month;
    year_month(created_ms, &year, &month);
    snprintf(ret, KILN_OBJECT_KEY_MAX + 1, "images/%04d/%02d/%" PRIu64 "/%s-%.*s.webp", year, month,
             job, size, SHA_DIGITS, sha256);
}

static bool key_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

/* One path component of at most KILN_NAME_MAX bytes.  Dots alone would climb the tree. */
static void model_part(const char *model, char *out)
{
    size_t n = 0;
    for (; model[n] && n < KILN_NAME_MAX; n++)
        out[n] = key_byte(model[n]) ? model[n] : '_';
    out[n] = '\0';
    if (out[strspn(out, ".")] == '\0')
        memcpy(out, "model", sizeof "model");
}

void kiln_latent_key(char ret[KILN_OBJECT_KEY_MAX + 1], int64_t created_ms, uint64_t job,
                     const char *model, const char *sha256)
{
    int year, month;
    char part[KILN_NAME_MAX + 1];
    year_month(created_ms, &year, &month);
    model_part(model, part);
    snprintf(ret, KILN_OBJECT_KEY_MAX + 1, "latents/%s/%04d/%02d/%" PRIu64 "-%.*s.safetensors.zst",
             part, year, month, job, SHA_DIGITS, sha256);
}
