/* fleet.c - see fleet.h.
 *
 * The workers are a process of their own, so that their processor time is not the command's.  Each
 * is a thread with a loop: send a heartbeat when it is due or something changed, wait for an
 * assignment, commit it in groups as the real committer does, append events.
 */
#include "scheduler/bench/fleet.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "schemas/clock.h"
#include "schemas/digest.h"
#include "schemas/wire/wire.h"
#include "storage/bus/bus.h"
#include "storage/ledger/ledger.h"

#define GROUP_MAX 32          /* pictures of one transaction, as in the real committer */
#define EVENTS_KEPT 100000    /* in the stream, approximately */
#define HEARTBEAT_PAUSE_MS 20 /* between heartbeats after changes */
#define WAIT_MS 100
#define LEASE_MS 10000
#define HEARTBEAT_MS 2000
#define SHA256_HEX 64

struct worker {
    const struct kiln_config *config;
    char id[KILN_NAME_MAX + 1], incarnation[32];
    char stream[192], heartbeat_key[192], events[192];
    struct kiln_bus *bus;
    struct kiln_ledger *ledger;
    struct kiln_heartbeat heartbeat;
    int64_t due_ms, sent_ms; /* of heartbeats, by kiln_clock_ms */
};

static atomic_bool ending;
static atomic_int failed_workers;

static void on_term(int number)
{
    (void)number;
    atomic_store(&ending, true);
}

/* --- the bus ---------------------------------------------------------------------------------- */
static int send_heartbeat(struct worker *worker, struct kiln_error *err)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    int64_t wall_ms = (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000;
    worker->heartbeat.sent_ms =
        wall_ms > worker->heartbeat.sent_ms ? wall_ms : worker->heartbeat.sent_ms + 1;
    char *text = kiln_heartbeat_encode(&worker->heartbeat);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a heartbeat");
    int rc = kiln_bus_heartbeat(worker->bus, worker->heartbeat_key, text, LEASE_MS, err);
    free(text);
    worker->sent_ms = kiln_clock_ms();
    worker->due_ms = worker->sent_ms + HEARTBEAT_MS;
    return rc;
}

static int append_event(struct worker *worker, const struct kiln_event *event, bool last,
                        struct kiln_error *err)
{
    char *text = kiln_event_encode(event);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an event");
    const char *fields[2] = {"event", text};
    const size_t lengths[2] = {strlen("event"), strlen(text)};
    int rc = last ? kiln_bus_flush(worker->bus, err) : 0;
    if (rc == 0)
        rc = last ? kiln_bus_append(worker->bus, worker->events, EVENTS_KEPT, fields, lengths, 1,
                                    err)
                  : kiln_bus_append_async(worker->bus, worker->events, fields, lengths, 1, err);
    free(text);
    return rc;
}

/* --- an assignment ---------------------------------------------------------------------------- */
struct made {
    struct kiln_commit_object objects[2];
    char keys[2][96], sha256[SHA256_HEX + 1];
};

/* The rows of a picture and its latent, with keys like real ones. */
static void make_rows(const struct worker *worker, const struct kiln_assignment *assignment,
                      const struct kiln_job *job, struct made *made, struct kiln_commit *ret)
{
    uint8_t digest[KILN_SHA256_SIZE];
    kiln_sha256(&job->id, sizeof job->id, digest);
    kiln_hex(digest, sizeof digest, made->sha256);
    snprintf(made->keys[0], sizeof made->keys[0], "images/2026/11/%llu/full-%.16s.webp",
             (unsigned long long)job->id, made->sha256);
    snprintf(made->keys[1], sizeof made->keys[1], "latents/none/2026/11/%llu-%.16s.safetensors.zst",
             (unsigned long long)job->id, made->sha256 + 16);
    made->objects[0] = (struct kiln_commit_object){.role = "full",
                                                   .key = made->keys[0],
                                                   .sha256 = made->sha256,
                                                   .bytes = 1000,
                                                   .width = job->width,
                                                   .height = job->height,
                                                   .content_type = "image/webp"};
    made->objects[1] = (struct kiln_commit_object){.role = "latent",
                                                   .key = made->keys[1],
                                                   .sha256 = made->sha256,
                                                   .bytes = 1000,
                                                   .width = job->width / 8,
                                                   .height = job->height / 8,
                                                   .content_type = "application/zstd"};
    *ret = (struct kiln_commit){.job = job,
                                .worker = worker->id,
                                .assignment = assignment->id,
                                .model_hash = "0000000000000000",
                                .model_name = "none",
                                .objects = made->objects,
                                .object_count = 2,
                                .latent_encoding = "bf16",
                                .latent_states = 1,
                                .latent_channels = 16};
}

static int commit_group(struct worker *worker, const struct kiln_assignment *assignment,
                        uint32_t first, uint32_t count, struct kiln_error *err)
{
    struct made made[GROUP_MAX];
    struct kiln_commit rows[GROUP_MAX];
    bool ours[GROUP_MAX];
    for (uint32_t i = 0; i < count; i++)
        make_rows(worker, assignment, &assignment->jobs[first + i], &made[i], &rows[i]);
    int rc = kiln_ledger_commit_many(worker->ledger, rows, count, ours, err);
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        struct kiln_event event = {.kind = KILN_EVENT_DONE,
                                   .job = assignment->jobs[first + i].id,
                                   .attempt = assignment->jobs[first + i].attempt};
        memcpy(event.worker, worker->id, sizeof event.worker);
        memcpy(event.assignment, assignment->id, sizeof event.assignment);
        worker->heartbeat.done += ours[i];
        rc = ours[i] ? append_event(worker, &event, false, err) : 0;
    }
    return rc;
}

static int do_assignment(struct worker *worker, const struct kiln_assignment *assignment,
                         struct kiln_error *err)
{
    int rc = 0;
    for (uint32_t at = 0; at < assignment->job_count && rc == 0; at += GROUP_MAX) {
        uint32_t left = assignment->job_count - at;
        rc = commit_group(worker, assignment, at, left < GROUP_MAX ? left : GROUP_MAX, err);
    }
    worker->heartbeat.width = assignment->width;
    worker->heartbeat.height = assignment->height;
    kiln_lora_set_key(assignment->loras, assignment->lora_count, worker->heartbeat.lora_set,
                      sizeof worker->heartbeat.lora_set);
    struct kiln_event event = {.kind = KILN_EVENT_FINISHED, .compute_ms = 1};
    memcpy(event.worker, worker->id, sizeof event.worker);
    memcpy(event.assignment, assignment->id, sizeof event.assignment);
    return rc ? rc : append_event(worker, &event, true, err);
}

/* Waits for an entry of the stream, until the next heartbeat at most.  What is not an assignment is
 * deleted: nobody sends control messages here. */
static int serve_one(struct worker *worker, struct kiln_error *err)
{
    const char *stream = worker->stream, *after = "0";
    struct kiln_bus_entries entries = {0};
    struct kiln_assignment assignment = {0};
    int64_t wait_ms = worker->due_ms - kiln_clock_ms();
    wait_ms = wait_ms < 1 ? 1 : wait_ms > WAIT_MS ? WAIT_MS : wait_ms;
    int rc = kiln_bus_read(worker->bus, &stream, &after, 1, 1, (uint32_t)wait_ms, &entries, err);
    if (rc || entries.count == 0)
        return rc;
    const struct kiln_bus_entry *entry = &entries.at[0];
    char id[48]; /* deleting the entry overwrites it */
    snprintf(id, sizeof id, "%s", entry->id);
    if (entry->field_count > 0 && strcmp(entry->fields[0], "assign") == 0)
        rc = kiln_assignment_decode(entry->fields[1], entry->lengths[1], &assignment, err);
    rc = rc ? rc : kiln_bus_delete_entry(worker->bus, worker->stream, id, err);
    if (rc == 0 && assignment.job_count > 0)
        rc = do_assignment(worker, &assignment, err);
    kiln_assignment_release(&assignment);
    /* After a change the next heartbeat comes soon, but not one for each assignment. */
    int64_t soon = worker->sent_ms + HEARTBEAT_PAUSE_MS;
    worker->due_ms = soon < worker->due_ms ? soon : worker->due_ms;
    return rc;
}

/* --- threads and process ---------------------------------------------------------------------- */
static void *run_worker(void *arg)
{
    struct worker *worker = arg;
    struct kiln_error err;
    char name[KILN_NAME_MAX + 32];
    snprintf(name, sizeof name, "kiln-bench %s", worker->id);
    int rc = kiln_bus_open(worker->config, &worker->bus, &err);
    rc = rc ? rc : kiln_ledger_open(worker->config, name, &worker->ledger, &err);
    while (rc == 0 && !atomic_load(&ending)) {
        rc = kiln_clock_ms() >= worker->due_ms ? send_heartbeat(worker, &err) : 0;
        rc = rc ? rc : serve_one(worker, &err);
    }
    if (rc) {
        fprintf(stderr, "kiln bench: %s: %s\n", worker->id, err.text);
        atomic_fetch_add(&failed_workers, 1);
    }
    kiln_bus_close(worker->bus);
    kiln_ledger_close(worker->ledger);
    return NULL;
}

static void prepare(struct worker *worker, const struct kiln_config *config, long number)
{
    const char *pool = kiln_config_text(config, KILN_KEY_POOL);
    worker->config = config;
    snprintf(worker->id, sizeof worker->id, "sim-%ld", number);
    kiln_wire_key(worker->stream, sizeof worker->stream, pool, "worker", worker->id);
    kiln_wire_key(worker->heartbeat_key, sizeof worker->heartbeat_key, pool, "beat", worker->id);
    kiln_wire_key(worker->events, sizeof worker->events, pool, "events", NULL);
    worker->heartbeat =
        (struct kiln_heartbeat){.pid = (uint32_t)getpid(),
                                .version = KILN_WIRE_VERSION,
                                .room = 2,
                                .batch_max = (uint32_t)kiln_config_int(config, KILN_KEY_BATCH_MAX)};
    memcpy(worker->heartbeat.worker, worker->id, sizeof worker->heartbeat.worker);
    snprintf(worker->heartbeat.incarnation, sizeof worker->heartbeat.incarnation, "%lx.%ld",
             (long)getpid(), number);
    snprintf(worker->heartbeat.host, sizeof worker->heartbeat.host, "bench");
    snprintf(worker->heartbeat.device, sizeof worker->heartbeat.device, "none");
    snprintf(worker->heartbeat.engine, sizeof worker->heartbeat.engine, "none");
}

/* Returns 0 if no worker failed. */
static int run_fleet(const struct kiln_config *config, long workers)
{
    struct worker *all = calloc((size_t)workers, sizeof *all);
    pthread_t *threads = calloc((size_t)workers, sizeof *threads);
    if (!all || !threads)
        return 1;
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term}, NULL);
    signal(SIGPIPE, SIG_IGN);
    long started = 0;
    for (; started < workers; started++) {
        prepare(&all[started], config, started);
        if (pthread_create(&threads[started], NULL, run_worker, &all[started]) != 0)
            break;
    }
    for (long i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(all);
    free(threads);
    return started == workers && atomic_load(&failed_workers) == 0 ? 0 : 1;
}

int kiln_bench_fleet_start(const struct kiln_config *config, long workers, pid_t *ret,
                           struct kiln_error *err)
{
    fflush(NULL);
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return kiln_fail(err, KILN_NO_MEMORY, "the simulated workers cannot be started: %m");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(getppid() == parent ? run_fleet(config, workers) : 1);
    }
    *ret = pid;
    return 0;
}

int kiln_bench_fleet_stop(pid_t fleet, struct kiln_error *err)
{
    int status = 0;
    kill(fleet, SIGTERM);
    if (waitpid(fleet, &status, 0) < 0 || status != 0)
        return kiln_fail(err, KILN_INTERNAL,
                         "a simulated worker gave up (status %d); what it said is above", status);
    return 0;
}
