/* gauges.c - the worker's state as metrics: its device's time, its queues, its current batch.
 *
 * Everything is read under the locks that the threads use anyway (board, queues, flights), for as
 * long as a copy takes; nothing here waits for the device.
 */
#include "worker/gauges.h"

#include "schemas/telemetry/metrics.h"
#include "worker/state/worker.h"

static void gauge(struct kiln_text *text, const char *name, const char *help, double value)
{
    kiln_metric_single(text, name, "gauge", help, value);
}

/* Of the engine nothing may be read before it is there. */
static void write_info(struct kiln_text *text, const struct kiln_worker *worker, bool up)
{
    const char *labels[] = {"worker",
                            worker->id,
                            "device",
                            kiln_config_text(worker->config, KILN_KEY_DEVICE),
                            "device_class",
                            worker->device_class,
                            "engine",
                            up ? worker->engine->name : "",
                            "model",
                            up ? worker->engine->model_name : "",
                            NULL};
    kiln_metric_family(text, "kiln_worker_info", "gauge",
                       "Always 1; the labels name the worker, its device and its model.");
    kiln_metric_sample(text, "kiln_worker_info", labels, 1);
}

static void write_device(struct kiln_text *text, struct kiln_worker *worker)
{
    struct kiln_device_time time = kiln_board_device(&worker->board);
    const char *busy[] = {"state", "busy", NULL}, *idle[] = {"state", "idle", NULL};
    kiln_metric_family(text, "kiln_device_seconds_total", "counter",
                       "Time of the device since the worker was ready.");
    kiln_metric_sample(text, "kiln_device_seconds_total", busy, time.busy_s);
    kiln_metric_sample(text, "kiln_device_seconds_total", idle, time.idle_s);
    kiln_metric_single(text, "kiln_device_switching_seconds_total", "counter",
                       "Of the busy time, what went into loading LoRA sets.", time.switching_s);
    kiln_metric_single(text, "kiln_device_wanted_seconds_total", "counter",
                       "Time with something to render, until the end of the last batch.",
                       time.wanted_s);
    kiln_metric_single(text, "kiln_device_computing_seconds_total", "counter",
                       "Of that, what the device computed by its own clock; the rest is idle.",
                       time.computed_s);
    gauge(text, "kiln_worker_drawing", "1 while a batch is rendered.", time.batch_s > 0);
    gauge(text, "kiln_worker_batch_seconds", "Age of the current batch; 0: none.", time.batch_s);
    gauge(text, "kiln_worker_stalled_seconds",
          "Time since the last step of the current batch; 0: none.", time.stalled_s);
}

static void write_queues(struct kiln_text *text, const struct kiln_worker *worker)
{
    const struct {
        const char *name;
        struct kiln_queue *queue;
    } queues[] = {{"arrived", worker->arrived}, {"ready", worker->ready},
                  {"asked", worker->asked},     {"drawn", worker->rendered},
                  {"files", worker->files},     {"outcomes", worker->outcomes},
                  {"reports", worker->reports}};
    kiln_metric_family(text, "kiln_worker_queue_items", "gauge",
                       "Items that wait between the stages: for the look-up of starts, device, "
                       "collector, encoders, uploaders, committers, reporter.");
    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++) {
        const char *labels[] = {"queue", queues[i].name, NULL};
        kiln_metric_sample(text, "kiln_worker_queue_items", labels,
                           (double)kiln_queue_length(queues[i].queue));
    }
}

/* What its heartbeat tells people. */
static void write_refused(struct kiln_text *text, struct kiln_worker *worker)
{
    static const char name[] = "kiln_worker_refused";
    static const enum kiln_peer peers[] = {KILN_PEER_STORE, KILN_PEER_LEDGER};
    kiln_metric_family(text, name, "gauge",
                       "1 while the store or the ledger refuses this worker's pictures.");
    for (size_t i = 0; i < sizeof peers / sizeof peers[0]; i++) {
        const char *labels[] = {"by", kiln_peer_name(peers[i]), NULL};
        kiln_metric_sample(text, name, labels, kiln_board_refused(&worker->board, peers[i], 0));
    }
}

void kiln_worker_gauges(void *arg, struct kiln_text *text)
{
    struct kiln_worker *worker = arg;
    bool up = atomic_load(&worker->up);
    struct kiln_heartbeat beat = {0};
    write_info(text, worker, up);
    write_queues(text, worker);
    write_refused(text, worker);
    kiln_flights_list(&worker->flights, &beat);
    gauge(text, "kiln_worker_held_assignments", "Assignments in flight.", beat.held_count);
    gauge(text, "kiln_worker_draining", "1 once it accepts no new assignments.",
          kiln_worker_drain(worker) != KILN_DRAIN_NO);
    if (up)
        write_device(text, worker);
}
