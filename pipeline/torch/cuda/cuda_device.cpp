/* cuda_device.cpp - libkiln_cuda.so: the part of Kiln that is linked to LibTorch's CUDA half.
 *
 * Loading it registers the CUDA operators, after which the pipeline runs on cuda:N through the
 * same tensor.h.  It is opened on demand, so that machines without a GPU need none of it.
 */
#include "pipeline/torch/cuda/plugin.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Version.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/headeronly/version.h>

#include "kernels/device_code.h"

/* NVIDIA's first driver with CUDA 13: docs.nvidia.com/deploy/cuda-compatibility. */
#define KILN_DRIVER_RELEASE 580
static_assert(CUDART_VERSION / 1000 == 13, "the first driver release of another CUDA");

/* The first line of the exception in flight. */
static void explain(char *reason, size_t size)
{
    try {
        throw;
    } catch (const c10::Error &e) {
        snprintf(reason, size, "%s", e.what_without_backtrace());
    } catch (const std::exception &e) {
        snprintf(reason, size, "%s", e.what());
    } catch (...) {
        snprintf(reason, size, "an exception of unknown type");
    }
    reason[strcspn(reason, "\n")] = '\0';
}

/* Whether the driver is missing, or older than the CUDA that this was built with: LibTorch then
 * advises to install PyTorch. */
static bool lacks_driver(char *reason, size_t size)
{
    int devices, driver = 0;
    const cudaError_t code = cudaGetDeviceCount(&devices);
    (void)cudaGetLastError();
    if (code != cudaErrorInsufficientDriver || cudaDriverGetVersion(&driver) != cudaSuccess)
        return false;
    if (driver == 0) {
        snprintf(reason, size,
                 "NVIDIA's driver is missing: `nvidia-smi` must list the GPU (CUDA %d needs "
                 "release %d or later; in a container the runtime brings it, as with --device "
                 "nvidia.com/gpu=all). `--device cpu` renders without a GPU",
                 CUDART_VERSION / 1000, KILN_DRIVER_RELEASE);
        return true;
    }
    snprintf(reason, size,
             "the driver speaks CUDA %d.%d, this build needs %d.%d: update the driver, or build "
             "Kiln with a LibTorch for that CUDA",
             driver / 1000, driver / 10 % 100, CUDART_VERSION / 1000, CUDART_VERSION / 10 % 100);
    return true;
}

static int count(char *reason, size_t size)
{
    if (lacks_driver(reason, size))
        return 0;
    try {
        int devices = c10::cuda::device_count_ensure_non_zero();
        if (at::globalContext().hasCUDA())
            return devices;
        snprintf(reason, size, "LibTorch was asked for CUDA in this process before Kiln opened it");
    } catch (...) {
        explain(reason, size);
    }
    return 0;
}

/* Whether the LibTorch that is running is the one of the headers: its symbols may fit, and its
 * structs still differ. */
static bool right_libtorch(char *reason, size_t size)
{
    const std::string config = at::show_config();
    const size_t at = config.find("TORCH_VERSION=");
    if (at == std::string::npos)
        return true;
    const std::string running = config.substr(at + 14, config.find_first_of(",\n ", at) - at - 14);
    if (running == TORCH_VERSION)
        return true;
    snprintf(reason, size, "libkiln_cuda.so was built for LibTorch %s, this is %s", TORCH_VERSION,
             running.c_str());
    return false;
}

/* LibTorch may have code for a card that Kiln's kernels were not built for. */
static bool has_code(int device, char *reason, size_t size)
{
    const c10::cuda::CUDAGuard current(static_cast<c10::DeviceIndex>(device));
    kiln_error err;
    if (kiln_device_code_check(&err) == KILN_OK)
        return true;
    snprintf(reason, size, "%s", err.text);
    return false;
}

/* Segments of device memory that grow are shared by blocks of all sizes: a picture of 1024 px holds
 * a gigabyte less.  The environment has the last word. */
static void let_segments_grow()
{
    if (!getenv("PYTORCH_CUDA_ALLOC_CONF") && !getenv("PYTORCH_ALLOC_CONF"))
        c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
}

static bool start(int device, char *reason, size_t size)
{
    try {
        if (!right_libtorch(reason, size) || !has_code(device, reason, size))
            return false;
        let_segments_grow();
        /* fp32 is asked for where it matters: no silent rounding of factors to 10 bits. */
        at::globalContext().setAllowTF32CuDNN(false);
        at::globalContext().setAllowTF32CuBLAS(false);
        const at::Device place(at::kCUDA, static_cast<at::DeviceIndex>(device));
        /* Fails here, with the driver's words, for a card that LibTorch has no code for. */
        if (at::ones({8}, at::TensorOptions(place)).sum().item<float>() == 8.0f)
            return true;
        snprintf(reason, size, "it cannot add");
    } catch (...) {
        explain(reason, size);
    }
    return false;
}

static bool memory(int device, size_t *ret_used, size_t *ret_held)
{
    try {
        const auto stats =
            c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
        *ret_used = static_cast<size_t>(stats.allocated_bytes[0].current);
        *ret_held = static_cast<size_t>(stats.reserved_bytes[0].current);
        return true;
    } catch (...) {
        return false;
    }
}

/* Called when a context ends, perhaps on a device that is lost: then there is nothing to give. */
static void trim()
{
    try {
        c10::cuda::CUDACachingAllocator::emptyCache();
    } catch (...) {
        return;
    }
}

static void copy(void *to, const void *from, size_t bytes)
{
    C10_CUDA_CHECK(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, c10::cuda::getCurrentCUDAStream()));
}

static int capability(int device)
{
    try {
        const cudaDeviceProp *card =
            at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(device));
        return card->major * 10 + card->minor;
    } catch (...) {
        return 0;
    }
}

extern "C" __attribute__((visibility("default")))
const kiln_cuda_plugin kiln_cuda_plugin_17 = {TORCH_VERSION,
                                              count,
                                              start,
                                              memory,
                                              trim,
                                              copy,
                                              capability,
                                              &kiln::cuda_model_kernels,
                                              &kiln::cuda_graphs,
                                              &kiln::cuda_image_kernels};
