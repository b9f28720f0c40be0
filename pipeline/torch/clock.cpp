/* clock.cpp - see clock.h: a pair of timed events around each piece, all measured against the first
 * one.  On the CPU, where work is over when its call returns, it is the host's clock.
 */
#include "pipeline/torch/clock.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include <c10/core/Event.h>

#include "pipeline/torch/internal.hpp"

using host_clock = std::chrono::steady_clock;

/* Pieces that have not been taken; more are not noted, so that nobody has to take them. */
static constexpr size_t pieces_max = 8192;

namespace
{

struct piece {
    std::optional<c10::Event> began, ended;
    host_clock::time_point from, to; /* on the CPU, instead of the events */
    bool side = false, closed = false;
};

void note(std::optional<c10::Event> &event, int device, bool side)
{
    if (!event)
        event.emplace(c10::DeviceType::CUDA, c10::EventFlag::BACKEND_DEFAULT);
    event->record(kiln::lane_of(device, side));
}

} // namespace

struct kt_clock {
    int device;
    std::vector<piece> pieces, spare; /* spare: events that may be used again */
};

/* Milliseconds covered by intervals, which are sorted here. */
static double covered(std::vector<std::pair<double, double>> &spans)
{
    double sum = 0, end = 0;
    std::sort(spans.begin(), spans.end());
    for (size_t i = 0; i < spans.size(); i++) {
        const double from = i ? std::max(spans[i].first, end) : spans[i].first;
        sum += std::max(0.0, spans[i].second - from);
        end = i ? std::max(end, spans[i].second) : spans[i].second;
    }
    return sum;
}

static double milliseconds(host_clock::duration d)
{
    return std::chrono::duration<double, std::milli>(d).count();
}

static std::pair<double, double> span_of(const kt_clock *c, const piece &base, const piece &p)
{
    if (c->device == KT_CPU)
        return {milliseconds(p.from - base.from), milliseconds(p.to - base.from)};
    return {base.began->elapsedTime(*p.began), base.began->elapsedTime(*p.ended)};
}

static bool is_over(const kt_clock *c, const piece &p)
{
    return p.closed && (c->device == KT_CPU || p.ended->query());
}

struct kt_clock *kt_clock_new(int device)
{
    try {
        return new kt_clock{device, {}, {}};
    } catch (...) {
        return nullptr;
    }
}

void kt_clock_free(struct kt_clock *c)
{
    delete c;
}

int kt_clock_begin(struct kt_clock *c, bool side)
{
    if (!c || c->pieces.size() == pieces_max)
        return -1;
    try {
        if (c->spare.empty())
            c->spare.emplace_back();
        piece &p = c->spare.back();
        p.side = side, p.closed = false;
        if (c->device == KT_CPU)
            p.from = host_clock::now();
        else
            note(p.began, c->device, side);
        c->pieces.push_back(std::move(p));
        c->spare.pop_back();
        return static_cast<int>(c->pieces.size()) - 1;
    } catch (...) { /* a device that fails says so where its work is asked for */
        return -1;
    }
}

void kt_clock_end(struct kt_clock *c, int number)
{
    if (!c || number < 0 || static_cast<size_t>(number) >= c->pieces.size())
        return;
    piece &p = c->pieces[static_cast<size_t>(number)];
    try {
        if (c->device == KT_CPU)
            p.to = host_clock::now();
        else
            note(p.ended, c->device, p.side);
        p.closed = true;
    } catch (...) {
        p.closed = false;
    }
}

double kt_clock_take(struct kt_clock *c)
{
    if (!c)
        return 0;
    try {
        std::vector<std::pair<double, double>> spans;
        const auto over = [c](const piece &p) { return is_over(c, p); };
        const auto rest = std::stable_partition(c->pieces.begin(), c->pieces.end(), over);
        for (auto p = c->pieces.begin(); p != rest; p++)
            spans.push_back(span_of(c, c->pieces.front(), *p));
        for (auto p = c->pieces.begin(); p != rest; p++)
            c->spare.push_back(std::move(*p));
        c->pieces.erase(c->pieces.begin(), rest);
        return covered(spans);
    } catch (...) {
        c->pieces.clear(); /* the device has died of something */
        return 0;
    }
}
