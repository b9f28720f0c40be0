/* plugin.hpp - what libkiln_cuda.so offers to the pipeline that opens it: one table, found by name.
 *
 * The name carries the version of this struct: change both together.  No exception leaves it.
 */
#ifndef KILN_CUDA_PLUGIN_HPP
#define KILN_CUDA_PLUGIN_HPP

#include <cstddef>

struct kiln_cuda_plugin {
    const char *torch_version; /* LibTorch's, whose headers it was built with */
    /* How many devices are usable; 0 with the reason, if there is one. */
    int (*count)(char *reason, size_t size);
    /* Makes a device ready and runs something on it; false with the reason if that fails. */
    bool (*start)(int device, char *reason, size_t size);
    /* Bytes in tensors, and bytes taken from the device for them. */
    bool (*memory)(int device, size_t *ret_used, size_t *ret_held);
    void (*trim)(); /* gives what no tensor uses back to the devices */
};

extern "C" const kiln_cuda_plugin kiln_cuda_plugin_1;

#endif
