/* device_class.h - the kind of hardware that a worker renders on, so that the scheduler learns the
 * speed of each kind once for all its workers. */
#ifndef KILN_DEVICE_CLASS_H
#define KILN_DEVICE_CLASS_H

#include <stddef.h>

/* The maker's name of the device ("cuda:N" or "cpu") in lower case, all but letters and digits as
 * '-': "nvidia-h200".  "cuda" or "cpu" if the system does not say. */
void kiln_device_class(const char *device, char *out, size_t size);
/* The same for a name as the system writes it; at most size - 1 characters. */
void kiln_device_class_of(const char *name, char *out, size_t size);

#endif
