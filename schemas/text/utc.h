/* utc.h - times as text, in UTC, since logs of machines in several countries are read together. */
#ifndef KILN_UTC_H
#define KILN_UTC_H

#include <stddef.h>
#include <stdint.h>

/* Milliseconds since 1970 as "2026-11-21T08:30:00.000Z", into out, which is returned. */
const char *kiln_time_text(int64_t ms, char *out, size_t size);
/* The same without milliseconds, for people: "2026-11-21T08:30:00Z"; "-" for 0, which means never.
 */
const char *kiln_short_time(int64_t ms, char *out, size_t size);

#endif
