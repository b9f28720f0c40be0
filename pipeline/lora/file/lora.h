/* lora.h - the low-rank pairs of a LoRA file, matched to the modules of a model.
 *     weight of the module += strength * scale * B A      A: [rank, in], B: [out, rank]
 *
 * Trainers name these tensors in many ways.  Kiln reads
 *
 *     diffusers   transformer.layers.0.attention.to_q.lora_A.weight, alpha in the metadata or none
 *     ai-toolkit  diffusion_model.layers.0.attention.to_q.lora_A.weight, maybe with .alpha
 *     kohya       lora_unet_layers_0_attention_to_q.lora_down.weight, with .alpha
 *     ComfyUI     ...attention.qkv, whose pair is split into q, k and v by the rows of B;
 *                 ...attention.out, x_embedder, final_layer
 *     dotted      ...attention.to.q.lora.down.weight, with redundant copies as qkv and out
 *     PEFT        base_model.model....lora_A.default.weight
 * and any mixture of their prefixes and endings.  LyCORIS (LoKr, LoHa, OFT), DoRA, full
 * differences, second time embedders and LoRAs of the text encoder are refused by name.  Keys that
 * fit no module are an error that counts and lists them: a LoRA applied by half looks like a bad
 * one.
 */
#ifndef KILN_LORA_H
#define KILN_LORA_H

#include "schemas/error.h"
#include "schemas/limits.h"
#include "storage/formats/safetensors.h"

/* A linear layer of the model, by its diffusers name. */
struct kiln_lora_module {
    const char *name;   /* "layers.0.attention.to_q", no ".weight"; lent for the open */
    int64_t rows, cols; /* out, in */
};

struct kiln_lora_pair {
    size_t module; /* its position in the list given to open */
    int64_t rank;
    enum kiln_st_dtype a_dtype, b_dtype; /* F32, F16 or BF16 */
    const void *a;                       /* [rank][cols], in the file's bytes, aligned to nothing */
    const void *b;                       /* [rows][rank] */
    double scale;                        /* alpha / rank; 1 where the file has no alpha */
};

struct kiln_lora_file;

/* KILN_BAD_INPUT for unmatched keys and wrong shapes, KILN_UNSUPPORTED for a kind that is refused,
 * else what kiln_st_open says. */
int kiln_lora_open(const char *path, const struct kiln_lora_module *modules, size_t count,
                   struct kiln_lora_file **ret, struct kiln_error *err) KILN_MUST_CHECK;
/* The same from the bytes of a file, lent until close; what: its name in messages. */
int kiln_lora_open_memory(const void *data, size_t size, const char *what,
                          const struct kiln_lora_module *modules, size_t count,
                          struct kiln_lora_file **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_lora_close(struct kiln_lora_file *file); /* accepts NULL; pairs die with it */

/* One pair a module at most, in the order of the modules. */
size_t kiln_lora_count(const struct kiln_lora_file *file);
const struct kiln_lora_pair *kiln_lora_at(const struct kiln_lora_file *file, size_t i);

/* A value of the header's texts, which strangers wrote; NULL: there is none. */
const char *kiln_lora_metadata(const struct kiln_lora_file *file, const char *key);

/* KILN_CORRUPT if the file was changed since it was opened: the bytes that were read may then mix
 * two files.  Call it after the last read, before the result is used. */
int kiln_lora_check(const struct kiln_lora_file *file, struct kiln_error *err) KILN_MUST_CHECK;

#endif
