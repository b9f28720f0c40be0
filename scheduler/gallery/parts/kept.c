/* kept.c - see kept.h. */
#include "scheduler/gallery/parts/kept.h"

#include "schemas/clock.h"

bool kiln_gallery_kept_add(struct kiln_gallery_kept *kept, struct kiln_text *out)
{
    pthread_mutex_lock(&kept->mutex);
    const bool made = kept->making || (kept->text.at && kiln_clock_ms() < kept->due_ms);
    if (made && kept->text.at)
        kiln_text_add(out, kept->text.at, kept->text.len);
    kept->making = kept->making || !made;
    pthread_mutex_unlock(&kept->mutex);
    return made;
}

void kiln_gallery_keep(struct kiln_gallery_kept *kept, struct kiln_text *text, int64_t keep_ms,
                       struct kiln_text *out)
{
    kiln_text_add(out, text->at, text->len);
    out->failed = out->failed || text->failed;
    if (text->failed)
        kiln_text_release(text);
    pthread_mutex_lock(&kept->mutex);
    if (text->at) { /* after a failure the old one stays, and the next request tries again */
        kiln_text_release(&kept->text);
        kept->text = *text;
        kept->due_ms = kiln_clock_ms() + keep_ms;
    }
    kept->making = false;
    pthread_mutex_unlock(&kept->mutex);
}
