/* star.c - POST /star: a picture becomes a favourite, or is none any more. */
#include <stdio.h>
#include <string.h>

#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/app.h"
#include "storage/ledger/upkeep/favourite.h"

static int ignore_picture(void *arg, const struct kiln_gallery_picture *picture,
                          struct kiln_error *err)
{
    (void)arg, (void)picture, (void)err;
    return 0;
}

int kiln_gallery_star(struct kiln_web_visit *visit, struct kiln_error *err)
{
    const struct kiln_gallery_app *app = kiln_gallery_app(visit);
    const struct kiln_gallery_filter filter = kiln_gallery_all(app);
    const char *id = kiln_web_arg(visit->form, "job"), *on = kiln_web_arg(visit->form, "on");
    uint64_t job, changed, pictures;
    char back[64];
    if (!id || !kiln_web_id(id, strlen(id), &job))
        return kiln_fail(err, KILN_BAD_INPUT, "the form names no picture");
    if (!on || (strcmp(on, "0") != 0 && strcmp(on, "1") != 0))
        return kiln_fail(err, KILN_BAD_INPUT, "the field \"on\" must be 0 or 1");
    /* What is hidden must not be found out by starring it. */
    int rc = kiln_gallery_picture(visit->session, &filter, job, ignore_picture, NULL, err);
    if (rc == 0)
        rc = kiln_ledger_mark(visit->writer, app->pool, &job, 1, NULL, *on == '1', &changed,
                              &pictures, err);
    if (rc)
        return rc;
    snprintf(back, sizeof back, "/p/%llu", (unsigned long long)job);
    return kiln_web_redirect(visit, back, err);
}
