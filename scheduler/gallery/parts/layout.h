/* layout.h - what stands around every page: head, bar with search, foot; and pages of errors. */
#ifndef KILN_GALLERY_LAYOUT_H
#define KILN_GALLERY_LAYOUT_H

#include "scheduler/gallery/parts/app.h"

struct kiln_gallery_page_head {
    const char *title; /* of a person or a literal: it is escaped */
    const char *words; /* in the search box; NULL: none */
    const char *
        here; /* the current entry of the menu: "newest", "starred", "batches", "fleet", "review" */
    const char *feed; /* query of a feed of this page, encoded, or NULL */
    bool bare;        /* without search and menu: signing in, errors */
    bool wide;        /* <main> takes the whole width */
};

/* Everything up to the inside of <main>, and from its end on.  They set the reply's type. */
void kiln_gallery_begin(struct kiln_web_visit *visit, const struct kiln_gallery_page_head *head);
void kiln_gallery_end(struct kiln_web_visit *visit);

/* The page, or the JSON below /v1/, of an error; kiln_web_site.fail. */
void kiln_gallery_fail(struct kiln_web_visit *visit, const struct kiln_error *err);

#endif
