/* upsample.cu - see upsample.h; a thread reads a chunk of a pixel's channels once and writes it to
 * the four pixels that it becomes.  Four fifths of the traffic are writes, all of whole sectors.
 */
#include "kernels/upsample.h"

#include "kernels/device.cuh"

using namespace kiln;

constexpr int threads = 256;
constexpr int items_each = 4; /* chunks of a thread */

/* Block (source line, part of the line). */
template <int W>
static __global__ void __launch_bounds__(threads) repeat(const struct kiln_upsample a)
{
    const unsigned pixel = a.channels / W, line = a.width * pixel; /* in chunks */
    const int64_t from = blockIdx.x * static_cast<int64_t>(line), to = 4 * from;
    for (unsigned i = blockIdx.y * threads + threadIdx.x; i < line; i += gridDim.y * threads) {
        const chunk<W> c = load_chunk<W>(a.x, 0, from + i);
        const int64_t at = to + i + i / pixel * pixel; /* every pixel before it has come twice */
        store_chunk<W>(a.y, 0, at, c);
        store_chunk<W>(a.y, 0, at + pixel, c);
        store_chunk<W>(a.y, 0, at + 2 * line, c);
        store_chunk<W>(a.y, 0, at + 2 * line + pixel, c);
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
    const int64_t lines = args->items * args->height;
    const int64_t line = (int64_t)args->width * args->channels;
    if (lines > INT32_MAX || line > INT32_MAX / 4)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: %lld lines of %lld values", name,
                         (long long)lines, (long long)line);
    const bool vectors = args->channels % 8 == 0 && on_bytes(args->x, 16) && on_bytes(args->y, 16);
    const int64_t chunks = vectors ? line / 8 : line, share = threads * items_each;
    const int64_t parts = (chunks + share - 1) / share;
    const dim3 grid(static_cast<unsigned>(lines),
                    static_cast<unsigned>(parts < 65535 ? parts : 65535));
    return launch(err, name, vectors ? repeat<8> : repeat<1>, grid, threads, stream, *args);
}
