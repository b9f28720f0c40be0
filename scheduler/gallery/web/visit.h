/* visit.h - a request and its answer, as the handlers of the pages see them.
 *
 * A route has two functions.  `quick` runs in a thread of the HTTP server and must never wait: what
 * it does not know it leaves to `slow` by returning KILN_WEB_LATER.  `slow` runs in one of a few
 * workers, with a session of the ledger.  Both fill visit->reply and return 0, or an error, for
 * which the server writes a page (kiln_web_site.fail).
 */
#ifndef KILN_GALLERY_VISIT_H
#define KILN_GALLERY_VISIT_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/gallery/web/access.h"
#include "scheduler/gallery/web/target.h"
#include "schemas/config/config.h"
#include "schemas/text/text.h"

struct kiln_ledger;
struct kiln_web_stream;
struct kiln_web_streams;

enum kiln_web_method { KILN_WEB_GET = 1, KILN_WEB_POST = 2 }; /* HEAD is a GET */

struct kiln_web_reply {
    unsigned status;                /* 0: 200 */
    const char *type;               /* Content-Type; static */
    const char *cache;              /* Cache-Control; static; NULL: private, no-cache */
    struct kiln_text body;          /* what is sent, unless there is a file */
    struct kiln_web_stream *stream; /* in place of a body, or NULL */
    int fd;                         /* -1, or a file, which is closed afterwards */
    uint64_t fd_size;
    char etag[80];       /* with its quotes; "": made of the body */
    char *location;      /* malloc'd, or NULL */
    char cookie[256];    /* Set-Cookie, or "" */
    char file_name[160]; /* to be saved under this name, or "" */
    bool zipped;         /* reply.c: the body is gzip */
    bool closes;         /* server.c: the connection takes no further request */
    unsigned retry_after_s;
    bool own_words;    /* of an error: its text is meant for the visitor, whatever its code */
    const char *allow; /* of a 405 */
};

struct kiln_web_visit {
    enum kiln_web_method method;
    const char *path; /* decoded */
    const struct kiln_web_args *args;
    const struct kiln_web_args *form; /* of a POST */
    bool signed_in;                   /* may see the gallery; always so without a token */
    bool by_cookie;                   /* ... because of a session, which may be ended */
    enum kiln_web_right right;        /* that a token or a session has shown */
    const char *client;               /* numeric address */
    struct kiln_web_spool *spool;     /* of KILN_WEB_LONG: the body */
    const char *body_type;            /* its Content-Type, or "" */
    const char *host;                 /* name and port that the browser asked, checked */
    bool secure;                      /* the browser speaks https with our proxy */
    bool wants_json;                  /* below /v1/ */
    int64_t now_ms;                   /* wall clock */
    struct kiln_ledger *session;      /* slow: for reading */
    struct kiln_ledger *writer;       /* slow, POST: for writing */
    struct kiln_config *config;       /* slow: with the limits of a page */
    struct kiln_web_streams *streams; /* slow: of answers that stay open */
    const char *last_event_id;        /* where such an answer goes on; NULL: now */
    void *app;                        /* of kiln_web_site */
    const void *route;                /* struct kiln_web_route */
    struct kiln_web_reply reply;
};

#define KILN_WEB_LATER (-1)
typedef int kiln_web_handler(struct kiln_web_visit *visit, struct kiln_error *err);

/* What else is true of a POST; otherwise its body is a form of KILN_WEB_FORM_MAX bytes. */
enum kiln_web_post {
    KILN_WEB_NO_BODY = 4, /* nothing that anybody reads; as long as a form at most */
    KILN_WEB_LONG = 8,    /* any text, KILN_WEB_SPOOL_MAX bytes: visit->spool */
    KILN_WEB_JOBS = 16,   /* needs the right of a producer; may wait for the scheduler */
};

struct kiln_web_route {
    const char *path;               /* "/p/": everything below it; else this path alone */
    unsigned methods;               /* enum kiln_web_method and kiln_web_post, added up */
    uint32_t metric;                /* label of KILN_METRIC_GALLERY_SECONDS */
    bool open;                      /* without signing in */
    kiln_web_handler *quick, *slow; /* either may be NULL */
};

/* The pages that a server serves. */
struct kiln_web_site {
    const struct kiln_web_route *routes; /* ended by path NULL; the first that fits */
    /* Writes the page of an error into reply, whose status is set. */
    void (*fail)(struct kiln_web_visit *visit, const struct kiln_error *err);
    void *app;
    const char *image_origin; /* of pictures that are not ours, for the policy; NULL: none */
};

/* Replies: a redirect by GET to a path of this site (copied), and the failure that no page has been
 * found at this address. */
int kiln_web_redirect(struct kiln_web_visit *visit, const char *location, struct kiln_error *err);
int kiln_web_not_found(const struct kiln_web_visit *visit, struct kiln_error *err);
/* What is left behind the path of a route that ends in '/'. */
const char *kiln_web_rest(const struct kiln_web_visit *visit);

#endif
