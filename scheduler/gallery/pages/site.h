/* site.h - which page is at which address. */
#ifndef KILN_GALLERY_SITE_H
#define KILN_GALLERY_SITE_H

#include "scheduler/gallery/web/visit.h"

extern const struct kiln_web_route kiln_gallery_routes[];

kiln_web_handler kiln_gallery_front;                          /* front.c */
kiln_web_handler kiln_gallery_view;                           /* picture.c: /p/ID */
kiln_web_handler kiln_gallery_api_alike;                      /* related.c: /v1/alike/ID */
kiln_web_handler kiln_gallery_star, kiln_gallery_vote;        /* star.c */
kiln_web_handler kiln_gallery_review, kiln_gallery_verdict;   /* review.c */
kiln_web_handler kiln_gallery_sign_in, kiln_gallery_sign_out; /* sign_in.c */
kiln_web_handler kiln_gallery_help;                           /* help.c */
kiln_web_handler kiln_gallery_robots;
kiln_web_handler kiln_gallery_batches;                      /* batches.c */
kiln_web_handler kiln_gallery_compare;                      /* compare.c */
kiln_web_handler kiln_gallery_sheet;                        /* sheet.c */
kiln_web_handler kiln_gallery_show;                         /* show.c */
kiln_web_handler kiln_gallery_feed, kiln_gallery_json_feed; /* feed.c */
kiln_web_handler kiln_gallery_fleet;                        /* fleet.c */
kiln_web_handler kiln_gallery_api_events; /* events.c: /v1/events */
/* api.c: /v1 */
kiln_web_handler kiln_gallery_api_pictures, kiln_gallery_api_picture, kiln_gallery_api_new,
    kiln_gallery_api_batches, kiln_gallery_api_batch, kiln_gallery_api_description;

/* Appends <datalist id="names-FILTER"> of batch, lora, model, style and tenant, as far as there are
 * any and they can be read; names.c. */
void kiln_gallery_add_names(struct kiln_web_visit *visit);

#endif
