/* entry.c - writes a job line once; the key is a hash of the line before its seed is added. */
#include "scheduler/cli/jobs/enqueue/entry.h"

#include <stdio.h>
#include <string.h>

#include "schemas/digest.h"
#include "schemas/job_line.h"

/* Appended last, so that the rest of the line is unchanged. */
static void add_seed(struct kiln_text *line, uint64_t seed)
{
    line->len--; /* the closing brace */
    kiln_text_puts(line, ",\"seed\":");
    kiln_text_u64(line, seed);
    kiln_text_add(line, "}", 1);
}

/* Equal lines are different pictures: each gets its own number, in the order of the file. */
static int key_of_line(struct kiln_entry *entry, struct kiln_error *err)
{
    uint8_t digest[KILN_SHA256_SIZE];
    char hex[17];
    kiln_sha256(entry->line.at, entry->line.len, digest);
    kiln_hex(digest, 8, hex);
    uint32_t *count = kiln_digest_map_at(&entry->lines, digest);
    if (!count)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to tell equal lines apart");
    snprintf(entry->key, sizeof entry->key, "h:%s#%u", hex, (*count)++);
    return 0;
}

int kiln_entry_make(struct kiln_entry *entry, struct kiln_job *job, bool has_seed, uint64_t copy,
                    struct kiln_error *err)
{
    int code = 0;
    kiln_text_clear(&entry->line);
    kiln_job_line_write(job, false, &entry->line);
    if (!has_seed)
        job->seed = kiln_seed_derive(job->batch, job->index);
    if (entry->line.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a job line");
    if (has_seed)
        add_seed(&entry->line, job->seed);
    if (job->custom_id)
        snprintf(entry->key, sizeof entry->key, "c:%s#%llu", job->custom_id,
                 (unsigned long long)copy);
    else
        code = key_of_line(entry, err);
    if (!has_seed)
        add_seed(&entry->line, job->seed);
    snprintf(entry->index, sizeof entry->index, "%u", job->index);
    if (!code && entry->line.failed)
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory for a job line");
    return code;
}

void kiln_entry_release(struct kiln_entry *entry)
{
    kiln_text_release(&entry->line);
    kiln_digest_map_release(&entry->lines);
}
