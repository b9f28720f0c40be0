/* gemm_search.cpp - the fastest way to a product, by trying; see gemm.hpp.
 *
 * cuBLASLt's first guess is up to a tenth slower than its best kernel.  Which one wins is a matter
 * of noise where two are close, and must not show: a proposal takes part only if its result is that
 * of the first one, bit for bit.  Kernels that sum whole rows of K in the same steps do so whatever
 * their tiles.
 *
 * Two rounds.  All proposals run a few times in a row; the best go on.  Those run many times in a
 * row, in turns, and the medians decide: under load the card is limited by its power, so that a
 * kernel which is fastest for a moment may be slower over a step.
 */
#include "pipeline/torch/cuda/gemm.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

namespace kiln
{

constexpr int heat_launches = 2, final_launches = 12, final_turns = 3;
constexpr size_t finalists = 4;
/* Milliseconds after which nothing new is begun with: of launches in the heats, and by the clock,
 * which also counts the loading of each kernel. */
constexpr double heat_ms = 80, heat_clock_ms = 500, final_clock_ms = 150;
/* A later proposal must be faster than the first by this much. */
constexpr float worth_it = 0.99f;

struct entrant {
    gemm_way way;
    bool same_bits;
    float us;                 /* of the round */
    std::vector<float> turns; /* of the last round */
};

static double now_ms()
{
    const auto t = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::milli>(t).count();
}

/* Microseconds of one launch among a few; infinite where one failed. */
static float time_of(const gemm &product, const gemm_way &way, const at::Tensor &y, int launches)
{
    at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
    const auto stream = c10::cuda::getCurrentCUDAStream();
    bool good = true;
    begin.record(stream);
    for (int i = 0; i < launches; i++)
        good = product.run(way, y) && good;
    end.record(stream);
    end.synchronize();
    return good ? begin.elapsed_time(end) * 1e3f / static_cast<float>(launches) : INFINITY;
}

/* Everyone's first time, the first proposal in front, those that fail left out. */
static std::vector<entrant> heats(const gemm &product, int most)
{
    const at::Tensor wanted = product.room(), y = product.room();
    const double begin = now_ms();
    double launched_ms = 0;
    std::vector<entrant> field;
    for (const gemm_way &way : product.proposals(most)) {
        if (launched_ms > heat_ms || now_ms() - begin > heat_clock_ms)
            break;
        if (!product.run(way, field.empty() ? wanted : y))
            continue;
        const bool same = field.empty() || at::equal(y, wanted);
        const float us = time_of(product, way, y, heat_launches);
        field.push_back({way, same, us, {}});
        launched_ms += std::isfinite(us) ? us * (heat_launches + 1) * 1e-3 : 0;
    }
    return field;
}

/* The first of the field and the best others that give its bits. */
static std::vector<entrant> best_of(const std::vector<entrant> &field)
{
    std::vector<entrant> out;
    std::copy_if(field.begin(), field.end(), std::back_inserter(out),
                 [](const entrant &e) { return e.same_bits; });
    std::stable_sort(out.begin() + 1, out.end(),
                     [](const entrant &a, const entrant &b) { return a.us < b.us; });
    out.resize(std::min(out.size(), finalists + 1));
    return out;
}

static void finals(const gemm &product, std::vector<entrant> *field)
{
    const at::Tensor y = product.room();
    const double begin = now_ms();
    for (int turn = 0; turn < final_turns && now_ms() - begin < final_clock_ms; turn++)
        for (entrant &each : *field)
            each.turns.push_back(time_of(product, each.way, y, final_launches));
    for (entrant &each : *field) {
        std::sort(each.turns.begin(), each.turns.end());
        each.us = each.turns[each.turns.size() / 2];
    }
}

/* What is to be known of the choice, and whether other bits would have been faster. */
static std::string told(const std::vector<entrant> &field, const entrant &first,
                        const entrant &best, double ms)
{
    float other = INFINITY;
    for (const entrant &each : field)
        other = each.same_bits ? other : std::min(other, each.us);
    const auto same =
        std::count_if(field.begin(), field.end(), [](const entrant &e) { return e.same_bits; });
    char text[192], beside[64] = "";
    snprintf(text, sizeof text, ": %.1f us, the first guess %.1f us; %d of %zu give its bits",
             static_cast<double>(best.us), static_cast<double>(first.us), static_cast<int>(same),
             field.size());
    if (std::isfinite(other))
        snprintf(beside, sizeof beside, ", the best other in its heat %.1f us",
                 static_cast<double>(other));
    char took[32];
    snprintf(took, sizeof took, "; searched %.0f ms", ms);
    return gemm_name(best.way) + text + beside + took;
}

std::optional<gemm_choice> gemm_search(const gemm &product, int most)
{
    const double begin = now_ms();
    const std::vector<entrant> field = heats(product, most);
    if (field.empty())
        return std::nullopt;
    std::vector<entrant> last = best_of(field);
    if (last.size() > 1)
        finals(product, &last);
    const auto least = std::min_element(
        last.begin(), last.end(), [](const entrant &a, const entrant &b) { return a.us < b.us; });
    const entrant &best = least->us < worth_it * last[0].us ? *least : last[0];
    return gemm_choice{best.way, told(field, last[0], best, now_ms() - begin)};
}

} // namespace kiln
