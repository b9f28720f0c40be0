/* files.h - stored files of pictures: which key an address means, and how its bytes are sent.
 *
 * /o/JOB/NAME, where NAME is the last part of the object's key and so holds a hash of its content.
 * It is compared with the keys that the ledger has for that job and never becomes a path.  Lists
 * teach this table the keys of their tiles, so that thumbnails cost no look-up.
 */
#ifndef KILN_GALLERY_FILES_H
#define KILN_GALLERY_FILES_H

#include "scheduler/gallery/parts/app.h"

struct kiln_store;
struct kiln_gallery_files;

/* Opens the store.  A store that cannot be opened is an error. */
int kiln_gallery_files_open(const struct kiln_config *config, struct kiln_gallery_files **ret,
                            struct kiln_error *err) KILN_MUST_CHECK;
void kiln_gallery_files_close(struct kiln_gallery_files *files); /* accepts NULL */
/* "https://host" of presigned URLs, NULL for a directory. */
const char *kiln_gallery_files_origin(const struct kiln_gallery_files *files);

/* The tile's files may be fetched for the next minute without asking the ledger, */
void kiln_gallery_files_learn(const struct kiln_web_visit *visit,
                              const struct kiln_gallery_tile *tile);
/* unless the picture changes: it may be hidden now.  Call it when the ledger has the change. */
void kiln_gallery_files_forget(struct kiln_gallery_files *files, uint64_t job);
/* Appends the address of a file, ready for an attribute: /o/JOB/NAME, or with `direct` where the
 * store is S3 a URL signed for half a day; its text stays the same for six hours. */
void kiln_gallery_file_url(const struct kiln_gallery_files *files, uint64_t job, const char *key,
                           bool direct, int64_t now_ms, struct kiln_text *out);

/* /o/...; ?save=1 sends it to be saved. */
kiln_web_handler kiln_gallery_file_quick, kiln_gallery_file_slow;

#endif
