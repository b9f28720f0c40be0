/* object_key.c - the names of objects, made from numbers and hashes, never from user text. */
#include "worker/stages/object_key.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "schemas/digest.h"
#include "schemas/job/inputs.h"
#include "schemas/job/mode.h"

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

void kiln_object_hash(char ret[KILN_OBJECT_HASH_MAX], const char *sha256,
                      const struct kiln_object_origin *origin)
{
    char text[KILN_OBJECT_HASH_MAX + KILN_MODE_MAX + KILN_INPUT_KEY_MAX + 64];
    uint8_t digest[KILN_SHA256_SIZE];
    if (!origin->mode[0] && !origin->start[0] && origin->parent == 0) {
        snprintf(ret, KILN_OBJECT_HASH_MAX, "%s", sha256);
        return;
    }
    const int len = snprintf(text, sizeof text, "%s%c%s%c%s%c%" PRIu64 "%c%" PRIu32, sha256, 0,
                             origin->mode, 0, origin->start, 0, origin->parent, 0, origin->steps);
    kiln_sha256(text, (size_t)len, digest);
    kiln_hex(digest, sizeof digest, ret);
}

void kiln_image_key(char ret[KILN_OBJECT_KEY_MAX + 1], int64_t created_ms, uint64_t job,
                    const char *size, const char *sha256)
{
    int year, month;
    year_month(created_ms, &year, &month);
    snprintf(ret, KILN_OBJECT_KEY_MAX + 1, "images/%04d/%02d/%" PRIu64 "/%s-%.*s.webp", year, month,
             job, size, SHA_DIGITS, sha256);
}

void kiln_latent_key(char ret[KILN_OBJECT_KEY_MAX + 1], int64_t created_ms, uint64_t job,
                     const char *model, const char *sha256)
{
    int year, month;
    char part[KILN_NAME_MAX + 1]; /* one component of the path */
    size_t n = 0;
    year_month(created_ms, &year, &month);
    for (; model[n] && n < KILN_NAME_MAX; n++)
        part[n] =
            strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", model[n])
                ? model[n]
                : '_';
    part[n] = '\0';
    if (part[strspn(part, ".")] == '\0') /* dots alone would climb the tree */
        memcpy(part, "model", sizeof "model");
    snprintf(ret, KILN_OBJECT_KEY_MAX + 1, "latents/%s/%04d/%02d/%" PRIu64 "-%.*s.safetensors.zst",
             part, year, month, job, SHA_DIGITS, sha256);
}
