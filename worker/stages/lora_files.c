/* lora_files.c - see lora_files.h. */
#include "worker/stages/lora_files.h"

#include <stdio.h>
#include <string.h>

#include "schemas/clock.h"
#include "schemas/limits.h"
#include "storage/formats/file_hash.h"

/* In lora_dir.  The intake has checked the names, so they cannot leave the directory. */
static void own_path(const struct kiln_config *config, const char *name,
                     char out[KILN_LORA_PATH_MAX])
{
    kiln_config_lora_dir(config, out, KILN_LORA_PATH_MAX);
    const size_t len = strlen(out);
    snprintf(out + len, KILN_LORA_PATH_MAX - len, "/%s.safetensors", name);
}

/* Whether lora_dir has the file that the LoRA stands for. */
static bool is_own(const struct kiln_config *config, const struct kiln_lora *lora)
{
    char path[KILN_LORA_PATH_MAX], hex[KILN_FILE_HASH_MAX];
    own_path(config, lora->name, path);
    return kiln_file_hash(path, KILN_LORA_BYTES_MAX, hex) && strcmp(hex, lora->sha256) == 0;
}

static bool is_here(const struct kiln_config *config, struct kiln_lora_disk *disk,
                    struct kiln_flight *flight, uint32_t i)
{
    const struct kiln_lora *lora = &flight->assignment.loras[i];
    if (!lora->sha256[0] || flight->pins[i] || is_own(config, lora))
        return true;
    flight->pins[i] = kiln_lora_disk_pin(disk, lora->sha256);
    return flight->pins[i] != NULL;
}

bool kiln_lora_files_here(const struct kiln_config *config, struct kiln_lora_disk *disk,
                          struct kiln_flight *flight)
{
    bool here = true;
    for (uint32_t i = 0; i < flight->assignment.lora_count; i++)
        here = is_here(config, disk, flight, i) && here;
    return here;
}

int kiln_lora_files_fetch(const struct kiln_config *config, struct kiln_lora_disk *disk,
                          struct kiln_store *store, struct kiln_flight *flight,
                          struct kiln_error *err)
{
    const double began_ms = kiln_monotonic_ms();
    uint32_t fetched = 0;
    int code = 0;
    for (uint32_t i = 0; i < flight->assignment.lora_count && code == 0; i++) {
        const struct kiln_lora *lora = &flight->assignment.loras[i];
        if (is_here(config, disk, flight, i))
            continue;
        code = kiln_lora_disk_fetch(disk, store, lora->name, lora->sha256, &flight->pins[i], err);
        fetched += code == 0;
    }
    if (fetched > 0)
        flight->fetch_ms = (kiln_monotonic_ms() - began_ms) / fetched;
    return code;
}

void kiln_lora_paths_fill(struct kiln_lora_paths *p, const struct kiln_config *config,
                          const struct kiln_flight *flight)
{
    const struct kiln_assignment *assignment = &flight->assignment;
    p->count = (int32_t)assignment->lora_count;
    for (uint32_t i = 0; i < assignment->lora_count; i++) {
        if (flight->pins[i])
            snprintf(p->paths[i], KILN_LORA_PATH_MAX, "%s", flight->pins[i]->path);
        else
            own_path(config, assignment->loras[i].name, p->paths[i]);
        p->loras[i].path = p->paths[i];
        p->loras[i].weight = (float)assignment->loras[i].scale;
    }
}

/* The LoRA whose name comes next behind `after`, or -1. */
static int next_by_name(const struct kiln_assignment *assignment, const char *after)
{
    int next = -1;
    for (uint32_t i = 0; i < assignment->lora_count; i++) {
        const char *name = assignment->loras[i].name;
        if (strcmp(name, after) > 0 && (next < 0 || strcmp(name, assignment->loras[next].name) < 0))
            next = (int)i;
    }
    return next;
}

bool kiln_lora_files_text(const struct kiln_lora_paths *paths,
                          const struct kiln_assignment *assignment, char out[KILN_LORA_FILES_MAX])
{
    char hex[KILN_FILE_HASH_MAX];
    size_t len = 0;
    const char *name = "";
    out[0] = '\0';
    for (int i; (i = next_by_name(assignment, name)) >= 0;) {
        name = assignment->loras[i].name;
        if (!kiln_file_hash(paths->paths[i], KILN_LORA_BYTES_MAX, hex)) {
            out[0] = '\0';
            return false;
        }
        len += (size_t)snprintf(out + len, KILN_LORA_FILES_MAX - len, "%s%s:%s", len ? "+" : "",
                                name, hex);
    }
    return true;
}

void kiln_lora_files_name(const struct kiln_lora_paths *paths,
                          const struct kiln_assignment *assignment, struct kiln_error *err)
{
    for (uint32_t i = 0; i < assignment->lora_count; i++)
        if (strstr(err->text, paths->paths[i])) {
            (void)kiln_fail_in(err, "LoRA %s", assignment->loras[i].name);
            return;
        }
}

static bool has_file(const char *text, const struct kiln_lora *lora)
{
    char entry[KILN_NAME_MAX + KILN_FILE_HASH_MAX + 2];
    const int len = snprintf(entry, sizeof entry, "%s:%s", lora->name, lora->sha256);
    for (; *text; text += strcspn(text, "+"), text += *text == '+')
        if (strncmp(text, entry, (size_t)len) == 0)
            return true;
    return false;
}

int kiln_lora_files_check(const struct kiln_assignment *assignment, const char *text,
                          struct kiln_error *err)
{
    for (uint32_t i = 0; i < assignment->lora_count; i++)
        if (assignment->loras[i].sha256[0] && !has_file(text, &assignment->loras[i]))
            return kiln_fail(err, KILN_UNAVAILABLE,
                             "LoRA %s: its file on this machine was exchanged or removed; the job "
                             "needs the one with sha256 %s",
                             assignment->loras[i].name, assignment->loras[i].sha256);
    return 0;
}
