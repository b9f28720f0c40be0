/* site.c - the table of addresses; the first row that fits counts. */
#include "scheduler/gallery/pages/site.h"

#include "scheduler/gallery/jobs/send.h"
#include "scheduler/gallery/parts/app.h"
#include "scheduler/gallery/parts/files.h"
#include "schemas/telemetry/metrics.h"

#define PAGE KILN_WEB_KIND_PAGE
#define API KILN_WEB_KIND_API
#define BOTH (KILN_WEB_GET | KILN_WEB_POST)

const struct kiln_web_route kiln_gallery_routes[] = {
    {"/", KILN_WEB_GET, PAGE, false, NULL, kiln_gallery_front},
    {"/p/", KILN_WEB_GET, PAGE, false, NULL, kiln_gallery_view},
    {"/o/", KILN_WEB_GET, KILN_WEB_KIND_FILE, false, kiln_gallery_file_quick,
     kiln_gallery_file_slow},
    {"/again", KILN_WEB_POST | KILN_WEB_JOBS, PAGE, false, NULL, kiln_gallery_again},
    {"/star", KILN_WEB_POST, PAGE, false, NULL, kiln_gallery_star},
    {"/vote", KILN_WEB_POST, PAGE, false, NULL, kiln_gallery_vote},
    {"/review", KILN_WEB_GET, PAGE, false, NULL, kiln_gallery_review},
    {"/verdict", KILN_WEB_POST, PAGE, false, NULL, kiln_gallery_verdict},
    {"/compare", KILN_WEB_GET, PAGE, false, NULL, kiln_gallery_compare},
    {"/sheet", KILN_WEB_GET, PAGE, false, NULL, kiln_gallery_sheet},
    {"/show", KILN_WEB_GET, PAGE, false, NULL, kiln_gallery_show},
    {"/feed.xml", KILN_WEB_GET, API, false, NULL, kiln_gallery_feed},
    {"/feed.json", KILN_WEB_GET, API, false, NULL, kiln_gallery_json_feed},
    {"/batches", KILN_WEB_GET, PAGE, false, NULL, kiln_gallery_batches},
    {"/fleet", KILN_WEB_GET, PAGE, false, NULL, kiln_gallery_fleet},
    {"/v1/pictures", KILN_WEB_GET, API, false, NULL, kiln_gallery_api_pictures},
    {"/v1/pictures/", KILN_WEB_GET, API, false, NULL, kiln_gallery_api_picture},
    {"/v1/alike/", KILN_WEB_GET, API, false, NULL, kiln_gallery_api_alike},
    {"/v1/events", KILN_WEB_GET, API, false, NULL, kiln_gallery_api_events},
    {"/v1/new", KILN_WEB_GET, API, false, NULL, kiln_gallery_api_new},
    {"/v1/batches", BOTH | KILN_WEB_LONG | KILN_WEB_JOBS, API, false, NULL,
     kiln_gallery_api_batches},
    {"/v1/batches/", BOTH | KILN_WEB_NO_BODY | KILN_WEB_JOBS, API, false, NULL,
     kiln_gallery_api_batch},
    {"/v1/openapi.json", KILN_WEB_GET, API, true, kiln_gallery_api_description, NULL},
    {"/help", KILN_WEB_GET, PAGE, false, kiln_gallery_help, NULL},
    {"/a/", KILN_WEB_GET, KILN_WEB_KIND_ASSET, true, kiln_gallery_asset, NULL},
    {"/sign-in", BOTH, PAGE, true, kiln_gallery_sign_in, NULL},
    {"/sign-out", KILN_WEB_POST, PAGE, true, kiln_gallery_sign_out, NULL},
    {"/robots.txt", KILN_WEB_GET, KILN_WEB_KIND_ASSET, true, kiln_gallery_robots, NULL},
    {NULL, 0, 0, false, NULL, NULL},
};
