/* library.h - the text encoder of a model, out of libdiffusionz.so.
 *
 * That library has LibTorch in it and is opened at run time, so that a program that searches by
 * meaning links no LibTorch, and loads it (half a second, 85 MB) only if it needs caption
 * features.
 */
#ifndef KILN_CAPTION_LIBRARY_H
#define KILN_CAPTION_LIBRARY_H

#include "pipeline/embed/captions/captions.h"

/* Of a fit and a head, in a model's directory. */
#define KILN_CAPTION_FIT_NAME "captions.safetensors"
#define KILN_CAPTION_HEAD_NAME "caption_head.safetensors"

/* library: a path, or NULL for libdiffusionz.so where the loader finds it.  model: a directory in
 * the diffusers layout, of which tokenizer and text_encoder are read.  threads: that an encoding
 * may use, 0 for all cores.  KILN_UNAVAILABLE without the library. */
int kiln_caption_library_open(const char *library, const char *model, int threads,
                              struct kiln_caption_encoder *ret,
                              struct kiln_error *err) KILN_MUST_CHECK;

#endif
