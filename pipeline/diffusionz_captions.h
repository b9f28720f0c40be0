/* diffusionz_captions.h - a model's text encoder alone: what it says about the tokens of a caption.
 * In libdiffusionz.so, for programs that search pictures by meaning (pipeline/embed/captions).
 */
#ifndef DIFFUSIONZ_CAPTIONS_H
#define DIFFUSIONZ_CAPTIONS_H

#include <stddef.h>

#include "pipeline/diffusionz_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct DiffusionZCaptions DiffusionZCaptions;

/* Reads the folders tokenizer and text_encoder of a model, on the CPU in fp32.  threads: of one
 * encoding; 0 = all cores.  0 or a code, text in diffusionz_last_error(). */
DIFFUSIONZ_API int32_t diffusionz_captions_open(const char *model_path, int32_t threads,
                                                DiffusionZCaptions **ret);
DIFFUSIONZ_API void diffusionz_captions_free(DiffusionZCaptions *captions); /* accepts NULL */

/* Values a token, and the model's identity as diffusionz_model_hash gives it, borrowed. */
DIFFUSIONZ_API int32_t diffusionz_captions_width(const DiffusionZCaptions *captions);
DIFFUSIONZ_API const char *diffusionz_captions_model(const DiffusionZCaptions *captions);

/* The features (hidden_states[-2]) of the text's own tokens, wrapped in the chat template as a
 * prompt is; the template's tokens are left out.  features: [tokens_max][width]; *ret_tokens of
 * them are written.  Calls run one after the other. */
DIFFUSIONZ_API int32_t diffusionz_captions_encode(DiffusionZCaptions *captions, const char *text,
                                                  size_t len, float *features, int32_t tokens_max,
                                                  int32_t *ret_tokens);

#ifdef __cplusplus
}
#endif
#endif
