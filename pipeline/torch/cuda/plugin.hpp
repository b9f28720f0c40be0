/* plugin.hpp - what libkiln_cuda.so offers to the pipeline that opens it: one table, found by name.
 *
 * The name carries the version of these structs: change them together.  No exception leaves the
 * functions about devices; copies and kernels throw, as LibTorch's operators beside them do.
 */
#ifndef KILN_CUDA_PLUGIN_HPP
#define KILN_CUDA_PLUGIN_HPP

#include <cstddef>

#include "pipeline/torch/cuda/image_kernels.hpp"
#include "pipeline/torch/internal.hpp"

struct kiln_latent_enlarge;
struct kiln_latent_mix;
struct kiln_slerp;
struct kiln_low_rank_codes;

namespace kiln
{

/* The launchers of kernels/ over tensors in bf16 on a CUDA device, each on its current stream.
 * Operands are checked by the launchers; rows have at most KILN_ROW_MAX values. */
struct model_kernels {
    kt_tensor (*rms_norm)(const at::Tensor &x, const at::Tensor &gain, double eps, kt_form form);
    /* The next rows are empty where there is no next gain. */
    at::Tensor (*add_rms_norm)(const kt_residual_norm &args, kt_tensor *ret_next);
    at::Tensor (*layer_norm)(const at::Tensor &x, double eps, const at::Tensor &scale);
    kt_tensor (*swiglu)(const at::Tensor &gate_up, kt_form form);
    /* swiglu of x weight^T in one pass, plain rows with the form's room; nothing where no kernel
     * takes these shapes.  Where it takes the form's down as well, the product with that lies in
     * the room, and `beside` says so. */
    kt_tensor (*linear_swiglu)(const at::Tensor &x, const at::Tensor &weight, kt_form form);
    kt_tensor (*quantise)(const at::Tensor &rows, int64_t room);
    /* lora = x down^T: plain, or in codes with the factors of x's rows.  False where no kernel
     * takes these shapes, and lora is as it was. */
    bool (*low_rank_down)(const kt_tensor &x, const kt_tensor &down, const at::Tensor &lora);
    /* Of operands that lie where `up` does. */
    void (*low_rank_codes)(const kiln_low_rank_codes &args, const at::Tensor &up);
    /* Norms and turns q and k where they lie in the packed rows. */
    void (*turn_heads)(const kt_attention_args &args, const at::Tensor &qkv);
    /* Attention of turned heads within items of as many rows each, in bf16, with the room of the
     * form: all in one launch, or one after the other.  Nothing where it is of another kind, or
     * where the card, the build or the shape has no kernel for that. */
    kt_tensor (*attend)(const kt_attention_args &args, const at::Tensor &qkv, int64_t rows_each,
                        bool at_once);
    /* Attention of all rows in eight bits: codes and their factors; nothing where the card, the
     * build or the shape has no kernels for that, and qkv is as it was then. */
    kt_tensor (*attend_e4m3)(const kt_attention_args &args, const at::Tensor &qkv);
    at::Tensor (*patchify)(const at::Tensor &latent, int patch); /* fp32 to bf16 */
    void (*euler_step)(const struct kt_euler_step &args);
    /* Of operands that lie where the noise does. */
    void (*latent_enlarge)(const kiln_latent_enlarge &args, const at::Tensor &noise);
    /* Of operands that lie where the result does. */
    void (*latent_mix)(const kiln_latent_mix &args, const at::Tensor &x);
    void (*slerp)(const kiln_slerp &args, const at::Tensor &x);
};

/* Recordings of what is asked of the current stream, which is not the default one; they throw, too.
 * end() makes a graph of the recording; where it throws, the recording is gone. */
struct graphs {
    void *(*begin)();
    void *(*end)(void *recording);
    void (*replay)(void *graph);
    void (*drop)(void *graph); /* accepts NULL */
};

} // namespace kiln

struct kiln_cuda_plugin {
    const char *torch_version; /* LibTorch's, whose headers it was built with */
    /* How many devices are usable; 0 with the reason, if there is one. */
    int (*count)(char *reason, size_t size);
    /* Makes a device ready and runs something on it; false with the reason if that fails. */
    bool (*start)(int device, char *reason, size_t size);
    /* Bytes in tensors, and bytes taken from the device for them. */
    bool (*memory)(int device, size_t *ret_used, size_t *ret_held);
    void (*trim)(); /* gives what no tensor uses back to the devices */
    /* Queues a copy between a device's memory and page-locked host memory; throws. */
    void (*copy)(void *to, const void *from, size_t bytes);
    int (*capability)(int device); /* 90 for 9.0; 0 if that cannot be found out */
    const kiln::model_kernels *model;
    const kiln::graphs *graphs;
    const kiln::image_kernels *image;
};

extern "C" const kiln_cuda_plugin kiln_cuda_plugin_17;

namespace kiln
{

extern const model_kernels cuda_model_kernels; /* in the library */
extern const graphs cuda_graphs;

/* In the pipeline: the library's table once it is open, NULL before. */
const kiln_cuda_plugin *cuda_plugin();
/* The kernels that take x, if it is on a GPU and of this dtype; else NULL. */
const model_kernels *gpu_kernels(const at::Tensor &x, at::ScalarType dtype = at::kBFloat16);
/* The same for pictures in bf16, and the attention over their pixels. */
const image_kernels *gpu_image_kernels(const at::Tensor &x);
bool likes_e4m3(int device);

} // namespace kiln

#endif
