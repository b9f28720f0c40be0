/* mend.c - keys that another program has made useless: a value of another type under the name
 * of a stream, or a stream whose last id is the greatest there is.
 *
 * Nothing on the bus is truth, so the owner of a name removes what lies there and goes on.  A
 * stream that takes no entry any more is removed when it is empty: what it still holds is read
 * first.
 */
#include "storage/bus/internal.h"

/* An id that every stream with a history refuses.  Redis looks at the type of the key and for an
 * exhausted stream before it compares ids.  A stream without a history would take the entry, so it
 * is deleted within the same transaction, where no reader sees it. */
#define PROBE_ID "0-1"

int kiln_bus_probe(struct kiln_bus *bus, const char *stream, struct kiln_error *err)
{
    int rc = kiln_bus_begin(bus, err);
    if (rc != 0)
        return rc;
    KILN_BUS_PUT(bus, "MULTI");
    KILN_BUS_PUT(bus, "XADD", stream, "NOMKSTREAM", PROBE_ID, "probe", "");
    KILN_BUS_PUT(bus, "XDEL", stream, PROBE_ID);
    KILN_BUS_PUT(bus, "EXEC");
    rc = kiln_bus_replies(bus, 4, err);
    return bus->refusal == KILN_BUS_REFUSED ? 0 : rc; /* the id is smaller than the last one */
}

int kiln_bus_mend(struct kiln_bus *bus, const char *key, bool *ret_mended, struct kiln_error *err)
{
    enum kiln_bus_refusal refusal = bus->refusal;
    uint64_t length = 0;
    int rc = 0;
    *ret_mended = false;
    if (refusal == KILN_BUS_EXHAUSTED)
        rc = kiln_bus_length(bus, key, &length, err);
    else if (refusal != KILN_BUS_WRONG_TYPE)
        return 0;
    if (rc == 0 && length == 0)
        rc = kiln_bus_delete(bus, key, err);
    *ret_mended = rc == 0 && length == 0;
    return rc;
}
