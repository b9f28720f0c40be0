/* async.cpp - see async.h: copies to the host over pinned memory, and graphs over the plug-in's.
 *
 * The side stream joins a recording when kt_follow() makes it follow the main stream, and must have
 * been followed before the end.
 */
#include "pipeline/torch/async.h"

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include <c10/core/Event.h>

#include "pipeline/torch/cuda/plugin.hpp"
#include "pipeline/torch/pinned.hpp"

using kiln::run_void;

struct kt_fetch {
    kiln::pinned copy;
};

struct kt_graph {
    int device;
    size_t bytes;
    void *recorded; /* of plugin.hpp */
};

kt_scope *kt_scope_side(kt_scope *parent)
{
    kt_scope *s = kt_scope_child(parent);
    if (s && s->device != KT_CPU) {
        s->side = true;
        s->stream.reset();
    }
    return s;
}

void kt_follow(kt_scope *s, const kt_scope *other)
{
    if (!other || !s || s->device == KT_CPU || other->side == s->side)
        return;
    run_void(s, "follow", {}, [&] {
        c10::Event reached(c10::DeviceType::CUDA);
        reached.record(kiln::stream_of(*other));
        reached.block(kiln::stream_of(*s));
    });
}

/* --- fetches ---------------------------------------------------------------------------------- */

struct kt_fetch *kt_fetch_start(kt_scope *s, kt x)
{
    std::unique_ptr<struct kt_fetch> f;
    run_void(s, "fetch", {x}, [&] {
        const at::Tensor dense = x->t.contiguous();
        std::unique_ptr<struct kt_fetch> made;
        if (dense.is_cpu()) {
            made.reset(new kt_fetch{kiln::pinned(dense.is_same(x->t) ? dense.clone() : dense)});
        } else {
            made.reset(new kt_fetch{kiln::pinned(dense.sizes(), dense.scalar_type())});
            made->copy.receive(dense);
        }
        f = std::move(made);
    });
    return f.release();
}

bool kt_fetch_arrived(const struct kt_fetch *f)
{
    try {
        return f->copy.arrived();
    } catch (...) {
        return false; /* it never will; kt_fetch_wait() reports why */
    }
}

int kt_fetch_wait(struct kt_fetch *f, kiln_error *err)
{
    kt_scope answer; /* turns exceptions into an error */
    run_void(&answer, "fetch", {},
             [f] { kiln::wait_for(kiln::wait_pause, [f] { return f->copy.arrived(); }); });
    return kt_scope_check(&answer, err);
}

const void *kt_fetch_data(const struct kt_fetch *f, size_t *ret_bytes)
{
    *ret_bytes = f->copy.host().nbytes();
    return f->copy.host().const_data_ptr();
}

void kt_fetch_free(struct kt_fetch *f)
{
    delete f;
}

/* --- graphs ----------------------------------------------------------------------------------- */

static size_t held_bytes(int device)
{
    size_t used = 0, held = 0;
    return kt_device_memory(device, &used, &held) ? held : 0;
}

bool kt_graphs(int device)
{
    return device != KT_CPU && kiln::cuda_plugin();
}

static void leave_recording(kt_scope *s)
{
    s->recorded = false;
    s->stream.reset();
}

struct kt_graph *kt_graph_begin(kt_scope *s)
{
    std::unique_ptr<struct kt_graph> g;
    run_void(s, "graph_begin", {}, [&] {
        const kiln_cuda_plugin *cuda = kiln::cuda_plugin();
        TORCH_CHECK(s->device != KT_CPU && cuda, "the device has no graphs");
        auto made =
            std::make_unique<struct kt_graph>(kt_graph{s->device, held_bytes(s->device), nullptr});
        std::unique_lock<std::timed_mutex> lock = kiln::between_recordings();
        TORCH_CHECK(lock.owns_lock(), kiln::is_recording()
                                          ? "this thread is recording already"
                                          : "another thread has not ended its recording");
        s->recorded = true;
        s->stream.reset();
        const kiln::on_stream apart(s);
        made->recorded = cuda->graphs->begin();
        kiln::begin_recording(std::move(lock));
        g = std::move(made);
    });
    if (s && !g)
        leave_recording(s);
    return g.release();
}

bool kt_graph_end(struct kt_graph *g, kt_scope *s)
{
    if (!g)
        return false;
    /* In a scope of its own: a recording whose operations failed must end, too. */
    kt_scope end;
    end.device = s->device, end.recorded = true;
    run_void(&end, "graph_end", {}, [&] {
        void *recorded = std::exchange(g->recorded, nullptr);
        g->recorded = kiln::cuda_plugin()->graphs->end(recorded);
    });
    leave_recording(s);
    kiln::end_recording();
    if (end.error.code)
        kt_scope_fail(s, &end.error);
    if (s->error.code) {
        kt_graph_free(g);
        return false;
    }
    const size_t held = held_bytes(g->device);
    g->bytes = held > g->bytes ? held - g->bytes : 0;
    return true;
}

void kt_graph_replay(struct kt_graph *g, kt_scope *s)
{
    run_void(s, "graph_replay", {}, [&] { kiln::cuda_plugin()->graphs->replay(g->recorded); });
}

size_t kt_graph_bytes(const struct kt_graph *g)
{
    return g->bytes;
}

void kt_graph_free(struct kt_graph *g)
{
    if (g && g->recorded) {
        kt_scope s;
        s.device = g->device;
        kt_wait(&s);
        run_void(&s, "graph_free", {}, [&] { kiln::cuda_plugin()->graphs->drop(g->recorded); });
    }
    delete g;
}
