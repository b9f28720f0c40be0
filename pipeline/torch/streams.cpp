/* streams.cpp - the CUDA streams of a device, waiting for it, and which thread records a graph.
 *
 * All threads share a device's main and side stream, so that graphs run one at a time.  Recording
 * uses two other streams, on which nothing runs: any work that is queued in a stream that is being
 * recorded ends up in the graph, whichever thread queues it.
 */
#include "pipeline/torch/internal.hpp"

#include <atomic>
#include <map>
#include <thread>

#include "pipeline/torch/async.h"

/* See kt_wait_limit(). */
static std::atomic<int> wait_at_most_s{600};

namespace kiln
{

/* Kernels of the main stream go first: the side stream fills gaps. */
static constexpr int priority_main = -1, priority_side = 0;

enum stream_use { MAIN_STREAM, SIDE_STREAM, RECORDING, RECORDING_SIDE };

/* One of a device's streams, the same for the life of the process: LibTorch's own pool reuses 32.
 */
static c10::Stream kept_stream(int device, enum stream_use use)
{
    static std::mutex once;
    static std::map<std::pair<int, stream_use>, c10::Stream> streams;
    std::lock_guard<std::mutex> lock(once);
    auto found = streams.find({device, use});
    if (found != streams.end())
        return found->second;
    const c10::impl::VirtualGuardImpl gpu(c10::DeviceType::CUDA);
    const c10::Device place(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device));
    const bool side = use == SIDE_STREAM || use == RECORDING_SIDE;
    c10::Stream stream = gpu.getNewStream(place, side ? priority_side : priority_main);
    streams.emplace(std::make_pair(device, use), stream);
    return stream;
}

c10::Stream device_stream(int device, bool side)
{
    return kept_stream(device, side ? SIDE_STREAM : MAIN_STREAM);
}

/* Held while a graph is recorded: its memory and its streams serve one recording at a time. */
static std::timed_mutex recording;
static thread_local bool records; /* this thread */
static constexpr auto record_at_most = std::chrono::minutes(1);

bool is_recording()
{
    return records;
}

void begin_recording(std::unique_lock<std::timed_mutex> lock)
{
    lock.release();
    records = true;
}

void end_recording()
{
    records = false;
    recording.unlock();
}

std::unique_lock<std::timed_mutex> between_recordings()
{
    if (records)
        return {};
    return std::unique_lock<std::timed_mutex>(recording, record_at_most);
}

c10::Stream stream_of(const kt_scope &s)
{
    if (!s.recorded)
        return device_stream(s.device, s.side);
    return kept_stream(s.device, s.side ? RECORDING_SIDE : RECORDING);
}

void wait_for(std::chrono::microseconds pause, const std::function<bool()> &answers)
{
    const auto start = std::chrono::steady_clock::now();
    const int limit_s = wait_at_most_s;
    while (!answers()) {
        TORCH_CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(limit_s),
                    "the device has not answered for ", limit_s, " s");
        if (pause > no_pause)
            std::this_thread::sleep_for(pause);
        else
            std::this_thread::yield();
    }
}

} // namespace kiln

int kt_wait_limit(int seconds)
{
    return seconds > 0 ? wait_at_most_s.exchange(seconds) : wait_at_most_s.load();
}
