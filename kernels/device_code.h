/* device_code.h - whether the kernels of this build run on a device.
 *
 * The kernels are compiled to the machine code of the cards that CUDA_ARCH of the Makefile names,
 * and to nothing that a driver could translate for others.  On another card LibTorch's own
 * operators may work, and the first of Kiln's kernels fails in the middle of a picture; so a
 * device is asked before anything is drawn on it.
 */
#ifndef KILN_DEVICE_CODE_H
#define KILN_DEVICE_CODE_H

#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Asks for the current device.  KILN_UNSUPPORTED, with the card, what the build is for and how to
 * build for it, where there is no code for it; KILN_DEVICE, with CUDA's own name for
 * the error, where it cannot be found out, as where the device's memory is all taken. */
int kiln_device_code_check(struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
