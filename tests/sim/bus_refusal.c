/* bus_refusal.c - the part of storage/bus/bus.h about refused commands, on the simulated Redis: its
 * clients keep to the types of keys, and its streams never end.
 */
#include "storage/bus/bus.h"

enum kiln_bus_refusal kiln_bus_refusal(const struct kiln_bus *bus)
{
    (void)bus;
    return KILN_BUS_NOT_REFUSED;
}

int kiln_bus_look(struct kiln_bus *bus, const char *stream, struct kiln_error *err)
{
    (void)stream;
    return kiln_bus_ping(bus, err);
}

int kiln_bus_probe(struct kiln_bus *bus, const char *stream, struct kiln_error *err)
{
    (void)stream;
    return kiln_bus_ping(bus, err);
}

int kiln_bus_repair(struct kiln_bus *bus, const char *key, bool read_first, bool *ret_repaired,
                    struct kiln_error *err)
{
    (void)bus;
    (void)key;
    (void)read_first;
    (void)err;
    *ret_repaired = false;
    return 0;
}
