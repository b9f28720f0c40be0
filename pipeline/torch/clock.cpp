/* clock.cpp - see clock.h: a pair of timed events around each piece, all measured against the end
 * of what was counted last.  On the CPU, where work is over when its call returns, it is the host's
 * clock.
 */
#include "pipeline/torch/clock.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <iterator>
#include <memory>
#include <mutex>
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
    int number = 0;
};

void note(std::optional<c10::Event> &event, int device, bool side)
{
    if (!event)
        event.emplace(c10::DeviceType::CUDA, c10::EventFlag::BACKEND_DEFAULT);
    event->record(kiln::device_stream(device, side));
}

} // namespace

struct kt_clock {
    int device;
    std::mutex lock;                  /* over all that follows */
    std::vector<piece> pieces, spare; /* spare: events that may be used again */
    std::optional<piece> counted;     /* of those that were, the last to end */
    int last_number = 0;
};

/* A piece that is over, in milliseconds from the end of what was counted. */
struct span {
    double from, to;
    size_t piece;
};

/* Milliseconds covered by spans, which are sorted here: what lies before 0 has been counted. */
static double covered(std::vector<span> &spans, bool has_counted)
{
    double sum = 0, end = 0;
    std::sort(spans.begin(), spans.end(),
              [](const span &a, const span &b) { return a.from < b.from; });
    if (!has_counted && !spans.empty())
        end = spans.front().from;
    for (const span &s : spans) {
        sum += std::max(0.0, s.to - std::max(s.from, end));
        end = std::max(end, s.to);
    }
    return sum;
}

static double milliseconds(host_clock::duration d)
{
    return std::chrono::duration<double, std::milli>(d).count();
}

/* From the end of base to the beginning and the end of p; base may be p. */
static span span_of(const kt_clock *c, const piece &base, const piece &p, size_t number)
{
    if (c->device == KT_CPU)
        return {milliseconds(p.from - base.to), milliseconds(p.to - base.to), number};
    return {base.ended->elapsedTime(*p.began), base.ended->elapsedTime(*p.ended), number};
}

static bool is_over(const kt_clock *c, const piece &p)
{
    return p.closed && (c->device == KT_CPU || p.ended->query());
}

struct kt_clock *kt_clock_new(int device)
{
    try {
        auto c = std::make_unique<kt_clock>();
        c->device = device;
        return c.release();
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
    if (!c)
        return -1;
    try {
        const std::lock_guard<std::mutex> guard(c->lock);
        if (c->pieces.size() == pieces_max)
            return -1;
        if (c->spare.empty())
            c->spare.emplace_back();
        piece &p = c->spare.back();
        p.side = side, p.closed = false;
        if (c->device == KT_CPU)
            p.from = host_clock::now();
        else
            note(p.began, c->device, side);
        c->last_number = c->last_number == INT_MAX ? 0 : c->last_number + 1;
        p.number = c->last_number;
        c->pieces.push_back(std::move(p));
        c->spare.pop_back();
        return c->last_number;
    } catch (...) { /* a device that fails says so where its work is asked for */
        return -1;
    }
}

void kt_clock_end(struct kt_clock *c, int number)
{
    if (!c || number < 0)
        return;
    const std::lock_guard<std::mutex> guard(c->lock);
    const auto found = std::find_if(c->pieces.rbegin(), c->pieces.rend(), [number](const piece &p) {
        return p.number == number && !p.closed;
    });
    if (found == c->pieces.rend())
        return;
    try {
        if (c->device == KT_CPU)
            found->to = host_clock::now();
        else
            note(found->ended, c->device, found->side);
        found->closed = true;
    } catch (...) {
        found->closed = false;
    }
}

double kt_clock_take(struct kt_clock *c)
{
    if (!c)
        return 0;
    const std::lock_guard<std::mutex> guard(c->lock);
    try {
        std::vector<span> spans;
        const auto over = [c](const piece &p) { return is_over(c, p); };
        const auto rest = std::stable_partition(c->pieces.begin(), c->pieces.end(), over);
        if (rest == c->pieces.begin())
            return 0;
        const piece &base = c->counted ? *c->counted : c->pieces.front();
        for (auto p = c->pieces.begin(); p != rest; p++)
            spans.push_back(span_of(c, base, *p, static_cast<size_t>(p - c->pieces.begin())));
        const double sum = covered(spans, c->counted.has_value());
        const auto last = std::max_element(
            spans.begin(), spans.end(), [](const span &a, const span &b) { return a.to < b.to; });
        if (!c->counted)
            std::swap(c->counted.emplace(), c->pieces[last->piece]);
        else if (last->to > 0)
            std::swap(*c->counted, c->pieces[last->piece]);
        std::move(c->pieces.begin(), rest, std::back_inserter(c->spare));
        c->pieces.erase(c->pieces.begin(), rest);
        return sum;
    } catch (...) {
        c->pieces.clear(); /* the device has died of something */
        c->counted.reset();
        return 0;
    }
}
