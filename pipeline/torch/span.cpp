/* span.cpp - see span.h: two timed events.  On the CPU, where work is over when its call returns,
 * it is the host's clock.
 */
#include "pipeline/torch/span.h"

#include <chrono>
#include <memory>

#include <c10/core/Event.h>

#include "pipeline/torch/internal.hpp"

using host_clock = std::chrono::steady_clock;

namespace
{

struct moment {
    std::unique_ptr<c10::Event> event;
    host_clock::time_point host; /* on the CPU, instead of the event */
};

void note(moment &m, int device)
{
    if (device == KT_CPU) {
        m.host = host_clock::now();
        return;
    }
    if (!m.event)
        m.event =
            std::make_unique<c10::Event>(c10::DeviceType::CUDA, c10::EventFlag::BACKEND_DEFAULT);
    m.event->record(kiln::device_stream(device, false));
}

} // namespace

struct kt_span {
    int device;
    moment from, to;
    bool begun = false, ended = false;
};

struct kt_span *kt_span_new(int device)
{
    try {
        auto s = std::make_unique<kt_span>();
        s->device = device;
        return s.release();
    } catch (...) {
        return nullptr;
    }
}

void kt_span_free(struct kt_span *s)
{
    delete s;
}

void kt_span_begin(struct kt_span *s)
{
    if (!s || s->ended)
        return;
    try {
        note(s->from, s->device);
        s->begun = true;
    } catch (...) { /* a device that fails says so where its work is asked for */
        s->begun = false;
    }
}

void kt_span_end(struct kt_span *s)
{
    if (!s || !s->begun || s->ended)
        return;
    try {
        note(s->to, s->device);
        s->ended = true;
    } catch (...) {
        s->begun = false;
    }
}

double kt_span_take(struct kt_span *s)
{
    const bool ended = s && s->ended;
    if (s)
        s->begun = s->ended = false;
    if (!ended)
        return -1;
    try {
        if (s->device == KT_CPU)
            return std::chrono::duration<double, std::milli>(s->to.host - s->from.host).count();
        s->to.event->synchronize();
        return s->from.event->elapsedTime(*s->to.event);
    } catch (...) {
        return -1;
    }
}
