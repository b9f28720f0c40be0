/* occasion.h - on what, when and how something was measured. */
#ifndef KILN_MEASURED_OCCASION_H
#define KILN_MEASURED_OCCASION_H

#include <stddef.h>
#include <stdint.h>

/* The day, and the device by name and by class (worker/state/device_class.h). */
struct kiln_measured_at {
    char date[16], device[24], device_class[64];
};
void kiln_measured_now(int32_t device, struct kiln_measured_at *ret);

/* The command line as it was typed, but without the paths of this machine: options of `local`
 * (ended by NULL) are left out with their values, and other files are named without their folder.
 */
void kiln_measured_command(const char *verb, const char *const *local, int argc, char **argv,
                           char *out, size_t size);

#endif
