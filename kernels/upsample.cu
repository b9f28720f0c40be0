/* upsample.cu - see upsample.h; a thread reads a chunk of a pixel's channels once and writes it to
 * the four pixels that it becomes.  Four fifths of the traffic are writes, all of whole sectors.
 */
#include "kernels/upsample.h"

#include "kernels/device.cuh"

using namespace kiln;

constexpr int threads = 256;

template <int W>
static __global__ void __launch_bounds__(threads)
    repeat(const struct kiln_upsample a, int64_t chunks)
{
    const int64_t pixel = a.channels / W, line = a.width * pixel; /* in chunks */
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x; i < chunks;
         i += static_cast<int64_t>(gridDim.x) * threads) {
        const chunk<W> c = load_chunk<W>(a.x, 0, i);
        const int64_t x = i % line / pixel, part = i % pixel;
        const int64_t to = i / line * 4 * line + 2 * x * pixel + part;
        store_chunk<W>(a.y, 0, to, c);
        store_chunk<W>(a.y, 0, to + pixel, c);
        store_chunk<W>(a.y, 0, to + 2 * line, c);
        store_chunk<W>(a.y, 0, to + 2 * line + pixel, c);
    }
}

extern "C" int kiln_upsample_launch(const struct kiln_upsample *args, kiln_stream stream,
                                    struct kiln_error *err)
{
    const char *name = "upsample";
    if (args->items < 0 || args->height < 1 || args->width < 1 || args->channels < 1)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: %lld pictures of %d x %d x %d", name,
                         (long long)args->items, args->height, args->width, args->channels);
    if (args->items == 0)
        return KILN_OK;
    if (!args->x || !args->y)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    const bool vectors = args->channels % 8 == 0 && on_bytes(args->x, 16) && on_bytes(args->y, 16);
    const int64_t chunks =
        args->items * args->height * args->width * args->channels / (vectors ? 8 : 1);
    return launch(err, name, vectors ? repeat<8> : repeat<1>, dim3(blocks_for(chunks, threads)),
                  threads, stream, *args, chunks);
}
