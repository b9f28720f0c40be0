/* kept.h - a piece of a page that costs too much to be made for each request.
 *
 * One request at a time makes it; others get at once what the last one wrote, or nothing before
 * there is one, and it is made again once it is old.
 */
#ifndef KILN_GALLERY_KEPT_H
#define KILN_GALLERY_KEPT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "schemas/text/text.h"

/* Static, for the life of the process. */
struct kiln_gallery_kept {
    pthread_mutex_t mutex;
    int64_t due_ms;        /* when it is made again */
    bool making;           /* a request does; none waits for it */
    struct kiln_text text; /* empty before the first, and after one that failed */
};
#define KILN_GALLERY_KEPT                                                                          \
    {                                                                                              \
        .mutex = PTHREAD_MUTEX_INITIALIZER                                                         \
    }

/* Appends what was written, if anything was; false: this request has to make it, and calls
 * kiln_gallery_keep. */
bool kiln_gallery_kept_add(struct kiln_gallery_kept *kept, struct kiln_text *out);
/* Appends the text and takes it over for keep_ms; a text that failed is appended as far as it went
 * and not kept, nor is one that the caller has released, after an error. */
void kiln_gallery_keep(struct kiln_gallery_kept *kept, struct kiln_text *text, int64_t keep_ms,
                       struct kiln_text *out);

#endif
