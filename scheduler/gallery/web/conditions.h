/* conditions.h - the headers that make an answer shorter: ETag, If-None-Match, Range, If-Range.
 * Pure.  Source: RFC 9110, sections 8.8.3, 13 and 14. */
#ifndef KILN_GALLERY_CONDITIONS_H
#define KILN_GALLERY_CONDITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether If-None-Match names this entity tag: "*", or a list with W/ in front or not (the weak
 * comparison).  etag is the whole tag with its quotes. */
bool kiln_web_none_match(const char *header, const char *etag);

enum kiln_web_range {
    KILN_WEB_RANGE_NONE,  /* send all of it: no range, several, or one that is not understood */
    KILN_WEB_RANGE_PART,  /* *ret_first .. *ret_last */
    KILN_WEB_RANGE_BEYOND /* 416: it begins behind the end */
};
/* Reads Range for a body of size bytes.  if_range NULL: none was sent; a date never matches, since
 * no answer has Last-Modified. */
enum kiln_web_range kiln_web_range_read(const char *range, const char *if_range, const char *etag,
                                        uint64_t size, uint64_t *ret_first, uint64_t *ret_last);

/* Whether Accept-Encoding allows gzip: named or "*", and not with q=0. */
bool kiln_web_takes_gzip(const char *header);

#endif
