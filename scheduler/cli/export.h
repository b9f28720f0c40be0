/* export.h - a batch into a directory; `kiln export` and the last part of `kiln run`.
 *
 *     OUT/results.jsonl           one line a job, in index order
 *     OUT/full/NAME.webp          the pictures, by size; NAME is index and custom_id
 *     OUT/512/..., OUT/256/...
 *     OUT/latents/NAME.safetensors.zst   with latents
 *     OUT/index.html              with html
 */
#ifndef KILN_CLI_EXPORT_H
#define KILN_CLI_EXPORT_H

#include "scheduler/cli/cli.h"

struct kiln_export {
    const char *batch, *out;
    bool html, latents;
    /* results */
    uint64_t jobs, pictures, fetched, kept;
};

/* May be repeated on the same directory; what is there and equal is not fetched again. */
int kiln_export_batch(struct kiln_cli *cli, struct kiln_export *export,
                      struct kiln_error *err) KILN_MUST_CHECK;

#endif
