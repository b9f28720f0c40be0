/* latent_enlarge.cu - see latent_enlarge.h; a thread has one place of some channels, whose weights
 * are the same. */
#include "kernels/pictures/latent_enlarge.h"

#include "kernels/device.cuh"

using namespace kiln;

constexpr int threads = 256;
constexpr int channels_each = 4;

struct taps {
    int at[4];
    float weight[4];
};

static __device__ __forceinline__ float near_weight(float d)
{
    constexpr float a = -0.75f;
    return ((a + 2.0f) * d - (a + 3.0f)) * d * d + 1.0f;
}

static __device__ __forceinline__ float far_weight(float d)
{
    constexpr float a = -0.75f;
    return ((a * d - 5.0f * a) * d + 8.0f * a) * d - 4.0f * a;
}

static __device__ __forceinline__ taps taps_of(int out, float scale, int size)
{
    const float real = scale * (static_cast<float>(out) + 0.5f) - 0.5f, base = floorf(real);
    const float t = real - base;
    taps k = {{0, 0, 0, 0},
              {far_weight(t + 1.0f), near_weight(t), near_weight(1.0f - t), far_weight(2.0f - t)}};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int at = static_cast<int>(base) - 1 + i;
        k.at[i] = at < 0 ? 0 : at < size ? at : size - 1;
    }
    return k;
}

static __global__ void __launch_bounds__(threads)
    enlarge(const struct kiln_latent_enlarge a, float down, float across)
{
    const int64_t places = static_cast<int64_t>(a.out_height) * a.out_width;
    const int first = static_cast<int>(blockIdx.y) * channels_each;
    for (int64_t place = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x; place < places;
         place += static_cast<int64_t>(gridDim.x) * threads) {
        const taps y = taps_of(static_cast<int>(place / a.out_width), down, a.height);
        const taps x = taps_of(static_cast<int>(place % a.out_width), across, a.width);
        for (int c = first; c < first + channels_each && c < a.channels; c++) {
            const float *plane = a.clean + static_cast<int64_t>(c) * a.height * a.width;
            float enlarged = 0;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *line = plane + static_cast<int64_t>(y.at[i]) * a.width;
                float sum = 0;
#pragma unroll
                for (int k = 0; k < 4; k++)
                    sum += line[x.at[k]] * x.weight[k];
                enlarged += sum * y.weight[i];
            }
            const int64_t i = c * places + place;
            a.x[i] = (1.0f - a.sigma) * enlarged + a.sigma * a.noise[i];
        }
    }
}

extern "C" int kiln_latent_enlarge_launch(const struct kiln_latent_enlarge *args,
                                          kiln_stream stream, struct kiln_error *err)
{
    const char *name = "latent_enlarge";
    if (args->channels < 1 || args->height < 1 || args->width < 1 || args->out_height < 1 ||
        args->out_width < 1 || !(args->sigma >= 0 && args->sigma <= 1))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: %d x %d to %d x %d, %d channels, sigma %g", name,
                         args->width, args->height, args->out_width, args->out_height,
                         args->channels, static_cast<double>(args->sigma));
    if (!args->clean || !args->noise || !args->x)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    const int64_t places = static_cast<int64_t>(args->out_height) * args->out_width;
    const unsigned parts =
        static_cast<unsigned>((args->channels + channels_each - 1) / channels_each);
    return launch(err, name, enlarge, dim3(blocks_for(places, threads), parts), threads, stream,
                  *args, static_cast<float>(args->height) / static_cast<float>(args->out_height),
                  static_cast<float>(args->width) / static_cast<float>(args->out_width));
}
