/* json.h - pictures as JSON, for /v1 and the feeds; schemas/openapi.json describes it. */
#ifndef KILN_GALLERY_JSON_H
#define KILN_GALLERY_JSON_H

#include "scheduler/gallery/parts/app.h"

/* "name":"text", or "name":null.  A comma goes before it unless it is the first of its object. */
void kiln_json_text(struct kiln_text *out, const char *name, const char *text);
void kiln_json_number(struct kiln_text *out, const char *name, uint64_t value);
void kiln_json_bool(struct kiln_text *out, const char *name, bool value);
void kiln_json_time(struct kiln_text *out, const char *name, int64_t ms); /* 0: null */

/* The object of a tile. */
void kiln_json_tile(struct kiln_text *out, const struct kiln_gallery_files *files,
                    const struct kiln_gallery_tile *tile);

/* The object of a batch. */
struct kiln_batch_row;
void kiln_json_batch(struct kiln_text *out, const struct kiln_batch_row *batch);

#endif
