/* star.c - POST /star: a picture becomes a favourite, or is none any more; POST /vote: +1 and -1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/app.h"
#include "storage/ledger/safety/vote.h"
#include "storage/ledger/upkeep/favourite.h"

static int ignore_picture(void *arg, const struct kiln_gallery_picture *picture,
                          struct kiln_error *err)
{
    (void)arg, (void)picture, (void)err;
    return 0;
}

/* The picture that the form names.  What is hidden must not be found out by marking it. */
static int read_job(struct kiln_web_visit *visit, uint64_t *ret, struct kiln_error *err)
{
    const struct kiln_gallery_filter filter = kiln_gallery_any(kiln_gallery_app(visit));
    const char *id = kiln_web_arg(visit->form, "job");
    if (!id || !kiln_web_id(id, strlen(id), ret))
        return kiln_fail(err, KILN_BAD_INPUT, "the form names no picture");
    return kiln_gallery_picture(visit->session, &filter, *ret, ignore_picture, NULL, err);
}

static int go_back(struct kiln_web_visit *visit, uint64_t job, struct kiln_error *err)
{
    char back[64];
    snprintf(back, sizeof back, "/p/%llu", (unsigned long long)job);
    return kiln_web_redirect(visit, back, err);
}

int kiln_gallery_star(struct kiln_web_visit *visit, struct kiln_error *err)
{
    const char *on = kiln_web_arg(visit->form, "on");
    uint64_t job, changed, pictures;
    if (!on || (strcmp(on, "0") != 0 && strcmp(on, "1") != 0))
        return kiln_fail(err, KILN_BAD_INPUT, "the field \"on\" must be 0 or 1");
    int rc = read_job(visit, &job, err);
    if (rc == 0)
        rc = kiln_ledger_mark(visit->writer, kiln_gallery_app(visit)->pool, &job, 1, NULL,
                              *on == '1', &changed, &pictures, err);
    return rc ? rc : go_back(visit, job, err);
}

int kiln_gallery_vote(struct kiln_web_visit *visit, struct kiln_error *err)
{
    const char *value = kiln_web_arg(visit->form, "value");
    uint64_t job;
    if (!value || (strcmp(value, "1") != 0 && strcmp(value, "-1") != 0 && strcmp(value, "0") != 0))
        return kiln_fail(err, KILN_BAD_INPUT, "the field \"value\" must be 1, -1 or 0");
    int rc = read_job(visit, &job, err);
    if (rc == 0)
        rc = kiln_ledger_vote(visit->writer, kiln_gallery_app(visit)->pool, job, atoi(value), err);
    return rc ? rc : go_back(visit, job, err);
}
