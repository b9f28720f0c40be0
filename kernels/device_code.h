/* device_code.h - whether the kernels of this build run on a device.
 * The kernels are compiled only to machine code for the cards in the Makefile's CUDA_ARCH; a driver
 * cannot translate them for others.  On another card LibTorch's operators may work, and the first
 * kernel of Kiln would fail in the middle of a picture.  So devices are checked when they are
 * opened.
 */
#ifndef KILN_DEVICE_CODE_H
#define KILN_DEVICE_CODE_H

#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Checks the current device.  KILN_UNSUPPORTED if there is no code for it; the text names the card,
 * what the build is for, and how to build for the card.  KILN_DEVICE, with CUDA's name for the
 * error, if the check itself fails, as without any free memory. */
int kiln_device_code_check(struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
