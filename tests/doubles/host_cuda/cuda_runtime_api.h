/* cuda_runtime_api.h - the few calls of CUDA's C API that the kernels and their tests use, on host
 * memory; stands in for CUDA's own header where the kernels are run without a GPU.
 *
 * See host_cuda.c.
 */
#ifndef KILN_HOST_CUDA_RUNTIME_API_H
#define KILN_HOST_CUDA_RUNTIME_API_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidDeviceFunction = 98,
    cudaErrorNoKernelImageForDevice = 209,
} cudaError_t;

enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
enum cudaDeviceAttr {
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
};

typedef struct CUstream_st *cudaStream_t;

struct cudaDeviceProp {
    char name[256];
    int major, minor;
};
struct cudaFuncAttributes {
    int binaryVersion; /* of the code that is there, 90 for 9.0 */
};

/* The card that is stood in for, an H200 unless a test makes it another, and what CUDA says when a
 * kernel is looked up on it. */
extern struct cudaDeviceProp host_cuda_card;
extern cudaError_t host_cuda_lookup;

const char *cudaGetErrorName(cudaError_t code);
const char *cudaGetErrorString(cudaError_t code);
cudaError_t cudaGetLastError(void);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *card, int device);
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaMalloc(void **ptr, size_t bytes);
cudaError_t cudaFree(void *ptr);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaMemset(void *ptr, int value, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
