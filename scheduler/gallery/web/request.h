/* request.h - a request while it lives: what the client has sent, and the visit made of it. */
#ifndef KILN_GALLERY_REQUEST_H
#define KILN_GALLERY_REQUEST_H

#include <microhttpd.h>

#include "scheduler/gallery/web/access.h"
#include "scheduler/gallery/web/visit.h"
#include "scheduler/gallery/web/work.h"

struct kiln_web_connection;

struct kiln_web_request {
    struct kiln_web_item item; /* first: a worker gets it */
    struct kiln_web_visit visit;
    struct kiln_web_target target, form;
    int target_code; /* of reading the request line */
    struct kiln_error target_error;
    struct kiln_text body;        /* of a form */
    struct kiln_error body_error; /* code 0: none */
    uint64_t body_bytes;
    bool begun, ready;
    bool takes_gzip, bearer;
    bool is_head;
    struct MHD_Connection *connection;
    struct kiln_web_connection *place;
    int fd;
    char peer[64];   /* numeric address of the client, or of the proxy */
    char client[64]; /* the same, or what our proxy says */
    int64_t started_ms;
    unsigned status; /* of the answer */
    uint64_t bytes;
};

/* Reads the raw request line; NULL: no memory. */
struct kiln_web_request *kiln_web_request_new(const char *uri);
void kiln_web_request_free(struct kiln_web_request *request);

/* The header is here. */
void kiln_web_request_begin(struct kiln_web_request *request, struct MHD_Connection *connection,
                            const char *method);
/* Fills the visit.  0, or the status with which the request is refused. */
unsigned kiln_web_request_read(struct kiln_web_request *request,
                               const struct kiln_web_access *access, struct kiln_error *err);
/* The same for what a POST needs besides. */
unsigned kiln_web_request_check_post(struct kiln_web_request *request, struct kiln_error *err);
/* A piece of the body; what is wrong with it is said by kiln_web_request_read_body. */
void kiln_web_request_take(struct kiln_web_request *request, const char *bytes, size_t len);
/* The body is here: 0, or a status as above. */
unsigned kiln_web_request_read_body(struct kiln_web_request *request, struct kiln_error *err);
/* Counts and logs it; never its query. */
void kiln_web_request_note(const struct kiln_web_request *request, bool completed);

/* The status of an error of Kiln. */
unsigned kiln_web_status(int code);

#endif
