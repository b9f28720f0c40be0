/* device.cpp - opens devices, waits for them, and returns their memory and kernels.
 *
 * Loading libkiln_cuda.so registers the CUDA half of LibTorch.  That must happen before anything
 * asks LibTorch whether CUDA exists, because it remembers the answer for ever.  Only this file
 * asks.  The CPU operations of this folder avoid LibTorch functions that would ask (see convolve()
 * in cpu/onednn.cpp), so that a context on the CPU may be opened first.
 */
#include "pipeline/torch/arena.hpp"

#include <atomic>
#include <cstring>
#include <mutex>
#include <string>

#include <ATen/Context.h>
#include <dlfcn.h>
#include <glob.h>
#include <torch/headeronly/version.h>

#include "pipeline/torch/cuda/plugin.hpp"

using kiln::run_void;

static std::atomic<const kiln_cuda_plugin *> plugin; /* set once, by load_plugin() */

/* An undefined symbol means another version of a library; other reasons mean a missing one. */
static int say_unloaded(int device, const char *reason, kiln_error *err)
{
    const char *missing = strstr(reason, "undefined symbol");
    if (missing && strstr(reason, "libkiln_cuda.so"))
        return kiln_fail(err, KILN_DEVICE,
                         "device cuda:%d: libkiln_cuda.so was built for another LibTorch or Kiln "
                         "than libdiffusionz.so (%s): build both with one `make`",
                         device, missing);
    return kiln_fail(err, KILN_DEVICE,
                     "device cuda:%d: libkiln_cuda.so or what it needs cannot be loaded: %s "
                     "(the package kiln-worker-cuda has it; from source `make` builds it where "
                     "nvcc is, and `make setup` fetches the libraries of CUDA where a GPU is)",
                     device, reason);
}

/* cuDNN compiles kernels with NVRTC, which opens its built-ins by their bare name.  They are in no
 * directory that it searches, so they are opened here; otherwise LibTorch's attention crashes.  They
 * lie beside cuBLAS, as pip and the packages have it. */
static void open_nvrtc_builtins(void *library)
{
    void *cublas = dlsym(library, "cublasGetVersion_v2");
    Dl_info place;
    glob_t found;
    if (!cublas || !dladdr(cublas, &place))
        return;
    const std::string path = place.dli_fname;
    const std::string pattern = path.substr(0, path.rfind('/') + 1) + "libnvrtc-builtins.so.*";
    if (glob(pattern.c_str(), 0, nullptr, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        dlopen(found.gl_pathv[i], RTLD_LAZY);
    globfree(&found);
}

/* Loads libkiln_cuda.so from beside this library or from the library path. */
static int load_plugin(int device, kiln_error *err)
{
    void *library = dlopen("libkiln_cuda.so", RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return say_unloaded(device, dlerror(), err);
    auto found = static_cast<const kiln_cuda_plugin *>(dlsym(library, "kiln_cuda_plugin_17"));
    if (!found)
        return kiln_fail(err, KILN_DEVICE,
                         "device cuda:%d: libkiln_cuda.so is of another version of Kiln", device);
    if (strcmp(found->torch_version, TORCH_VERSION) != 0)
        return kiln_fail(err, KILN_DEVICE,
                         "device cuda:%d: libkiln_cuda.so was built for LibTorch %s, the pipeline "
                         "for %s",
                         device, found->torch_version, TORCH_VERSION);
    open_nvrtc_builtins(library);
    plugin = found;
    return 0;
}

/* Other programs may have taken all memory of the device. */
static int start_device(const kiln_cuda_plugin *cuda, int device, kiln_error *err)
{
    char reason[512] = "";
    if (cuda->start(device, reason, sizeof reason))
        return 0;
    return kiln_fail(err, kiln::means_no_memory(reason) ? KILN_NO_MEMORY : KILN_DEVICE,
                     "device cuda:%d: %s", device, reason);
}

static int open_cuda(int device, kiln_error *err)
{
    static std::mutex once;
    std::lock_guard<std::mutex> lock(once);
    int code = plugin.load() ? 0 : load_plugin(device, err);
    if (code)
        return code;
    const kiln_cuda_plugin *cuda = plugin;
    char reason[512] = "";
    int n = cuda->count(reason, sizeof reason);
    if (n == 0)
        return kiln_fail(err, KILN_DEVICE, "device cuda:%d: no usable GPU on this machine%s%s",
                         device, reason[0] ? ": " : "", reason);
    if (device >= n)
        return kiln_fail(err, KILN_DEVICE, "device cuda:%d: this machine has %d, from cuda:0 on",
                         device, n);
    return start_device(cuda, device, err);
}

namespace kiln
{

const kiln_cuda_plugin *cuda_plugin()
{
    return plugin;
}

const model_kernels *gpu_kernels(const at::Tensor &x, at::ScalarType dtype)
{
    const kiln_cuda_plugin *cuda = plugin;
    return cuda && x.is_cuda() && x.scalar_type() == dtype ? cuda->model : nullptr;
}

const image_kernels *gpu_image_kernels(const at::Tensor &x)
{
    const kiln_cuda_plugin *cuda = plugin;
    return cuda && x.is_cuda() && x.scalar_type() == at::kBFloat16 ? cuda->image : nullptr;
}

/* Cached, because every product asks. */
bool likes_e4m3(int device)
{
    static std::atomic<int> known[64];
    const kiln_cuda_plugin *cuda = plugin;
    if (!cuda || device < 0)
        return false;
    if (device >= 64)
        return cuda->capability(device) >= 89;
    if (known[device] == 0)
        known[device] = cuda->capability(device);
    return known[device] >= 89;
}

} // namespace kiln

bool kt_device_likes_e4m3(int device)
{
    return device != KT_CPU && kiln::likes_e4m3(device);
}

int kt_device_open(int device, kiln_error *err)
{
    if (device == KT_CPU)
        return kiln::use_arena(), 0;
    if (device < 0)
        return kiln_fail(err, KILN_BAD_INPUT, "device %d: -1 is the CPU, 0 and up are CUDA devices",
                         device);
    return open_cuda(device, err);
}

void kt_device_trim(int device)
{
    const kiln_cuda_plugin *cuda = plugin;
    if (device == KT_CPU)
        kiln::trim_arena();
    if (device == KT_CPU || !cuda)
        return;
    /* Freeing waits for the device, which is not allowed while a graph is recorded. */
    if (const std::unique_lock<std::timed_mutex> lock = kiln::between_recordings();
        lock.owns_lock())
        cuda->trim();
}

bool kt_device_memory(int device, size_t *ret_used, size_t *ret_held)
{
    const kiln_cuda_plugin *cuda = plugin;
    return device != KT_CPU && cuda && cuda->memory(device, ret_used, ret_held);
}

/* Waits for both streams, which have all the work: waiting for the device as a whole is not allowed
 * while another thread records. */
void kt_wait(kt_scope *s)
{
    run_void(s, "wait", {}, [&] {
        for (bool side : {false, true}) {
            if (s->device == KT_CPU)
                return;
            const c10::Stream stream = kiln::device_stream(s->device, side);
            kiln::wait_for(kiln::no_pause, [&stream] { return stream.query(); });
        }
    });
}
