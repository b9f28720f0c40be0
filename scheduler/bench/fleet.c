/* fleet.c - see fleet.h.
 *
 * A process of its own, so that its processor time can be told from that of the command.  Each
 * thread is a loop: beat when it is due or something changed, wait for assignments, commit each in
 * groups as the real committer does, tell the events stream.
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
#include "schemas/wire.h"
#include "storage/bus/bus.h"
#include "storage/ledger/ledger.h"

#define GROUP_MAX 32       /* pictures of one round trip, as in the real committer */
#define EVENTS_KEPT 100000 /* of the stream, about */
#define BEAT_PAUSE_MS 20   /* between beats that a change calls for */
#define WAIT_MS 100
#define LEASE_MS 10000
#define BEAT_MS 2000
#define SHA256_HEX 64

struct sim {
    const struct kiln_config *config;
    char id[KILN_NAME_MAX + 1], incarnation[32];
    char stream[192], beat_key[192], events[192];
    struct kiln_bus *bus;
    struct kiln_ledger *ledger;
    struct kiln_heartbeat beat;
    int64_t beat_due_ms, beaten_ms;
};

static atomic_bool ending;
static atomic_int given_up;

static void on_term(int number)
{
    (void)number;
    atomic_store(&ending, true);
}

/* --- the bus ---------------------------------------------------------------------------------- */
static int send_beat(struct sim *sim, struct kiln_error *err)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    int64_t wall_ms = (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000;
    sim->beat.sent_ms = wall_ms > sim->beat.sent_ms ? wall_ms : sim->beat.sent_ms + 1;
    char *text = kiln_heartbeat_encode(&sim->beat);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a heartbeat");
    int rc = kiln_bus_heartbeat(sim->bus, sim->beat_key, text, LEASE_MS, err);
    free(text);
    sim->beaten_ms = kiln_clock_ms();
    sim->beat_due_ms = sim->beaten_ms + BEAT_MS;
    return rc;
}

/* A change is told soon, but not with every assignment. */
static void kick(struct sim *sim)
{
    int64_t soon = sim->beaten_ms + BEAT_PAUSE_MS;
    sim->beat_due_ms = soon < sim->beat_due_ms ? soon : sim->beat_due_ms;
}

static int tell(struct sim *sim, const struct kiln_event *event, bool last, struct kiln_error *err)
{
    char *text = kiln_event_encode(event);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an event");
    const char *fields[2] = {"event", text};
    const size_t lengths[2] = {strlen("event"), strlen(text)};
    int rc = last ? kiln_bus_flush(sim->bus, err) : 0;
    if (rc == 0)
        rc = last ? kiln_bus_append(sim->bus, sim->events, EVENTS_KEPT, fields, lengths, 1, err)
                  : kiln_bus_append_async(sim->bus, sim->events, fields, lengths, 1, err);
    free(text);
    return rc;
}

/* --- an assignment ---------------------------------------------------------------------------- */
struct made {
    struct kiln_commit_object objects[2];
    char keys[2][96], sha256[SHA256_HEX + 1];
};

/* The rows of a picture and its latent, with names like real ones. */
static void make_rows(const struct sim *sim, const struct kiln_assignment *assignment,
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
                                .worker = sim->id,
                                .assignment = assignment->id,
                                .model_hash = "0000000000000000",
                                .model_name = "none",
                                .objects = made->objects,
                                .object_count = 2,
                                .latent_encoding = "bf16",
                                .latent_states = 1,
                                .latent_channels = 16};
}

static int commit_group(struct sim *sim, const struct kiln_assignment *assignment, uint32_t first,
                        uint32_t count, struct kiln_error *err)
{
    struct made made[GROUP_MAX];
    struct kiln_commit rows[GROUP_MAX];
    bool ours[GROUP_MAX];
    for (uint32_t i = 0; i < count; i++)
        make_rows(sim, assignment, &assignment->jobs[first + i], &made[i], &rows[i]);
    int rc = kiln_ledger_commit_many(sim->ledger, rows, count, ours, err);
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        struct kiln_event event = {.kind = KILN_EVENT_DONE,
                                   .job = assignment->jobs[first + i].id,
                                   .attempt = assignment->jobs[first + i].attempt};
        memcpy(event.worker, sim->id, sizeof event.worker);
        memcpy(event.assignment, assignment->id, sizeof event.assignment);
        sim->beat.done += ours[i];
        rc = ours[i] ? tell(sim, &event, false, err) : 0;
    }
    return rc;
}

static int do_assignment(struct sim *sim, const struct kiln_assignment *assignment,
                         struct kiln_error *err)
{
    int rc = 0;
    for (uint32_t at = 0; at < assignment->job_count && rc == 0; at += GROUP_MAX) {
        uint32_t left = assignment->job_count - at;
        rc = commit_group(sim, assignment, at, left < GROUP_MAX ? left : GROUP_MAX, err);
    }
    sim->beat.width = assignment->width;
    sim->beat.height = assignment->height;
    kiln_lora_set_text(assignment->loras, assignment->lora_count, sim->beat.lora_set,
                       sizeof sim->beat.lora_set);
    struct kiln_event event = {.kind = KILN_EVENT_FINISHED, .compute_ms = 1};
    memcpy(event.worker, sim->id, sizeof event.worker);
    memcpy(event.assignment, assignment->id, sizeof event.assignment);
    return rc ? rc : tell(sim, &event, true, err);
}

/* One entry of the stream; what is not an assignment is an order, which nobody gives here. */
static int take_entry(struct sim *sim, const struct kiln_bus_entry *entry,
                      struct kiln_assignment *ret, struct kiln_error *err)
{
    char id[48];
    snprintf(id, sizeof id, "%s", entry->id);
    int rc = 0;
    if (entry->field_count > 0 && strcmp(entry->fields[0], "assign") == 0)
        rc = kiln_assignment_decode(entry->fields[1], entry->lengths[1], ret, err);
    return rc ? rc : kiln_bus_delete_entry(sim->bus, sim->stream, id, err);
}

static int hear(struct sim *sim, struct kiln_error *err)
{
    const char *stream = sim->stream, *after = "0";
    struct kiln_bus_entries entries = {0};
    struct kiln_assignment assignment = {0};
    int64_t wait_ms = sim->beat_due_ms - kiln_clock_ms();
    wait_ms = wait_ms < 1 ? 1 : wait_ms > WAIT_MS ? WAIT_MS : wait_ms;
    int rc = kiln_bus_read(sim->bus, &stream, &after, 1, 1, (uint32_t)wait_ms, &entries, err);
    if (rc || entries.count == 0)
        return rc;
    rc = take_entry(sim, &entries.at[0], &assignment, err);
    if (rc == 0 && assignment.job_count > 0)
        rc = do_assignment(sim, &assignment, err);
    kiln_assignment_release(&assignment);
    kick(sim);
    return rc;
}

/* --- threads and process ---------------------------------------------------------------------- */
static void *run_sim(void *arg)
{
    struct sim *sim = arg;
    struct kiln_error err;
    char name[KILN_NAME_MAX + 32];
    snprintf(name, sizeof name, "kiln-bench %s", sim->id);
    int rc = kiln_bus_open(sim->config, &sim->bus, &err);
    if (rc == 0)
        rc = kiln_ledger_open(sim->config, name, &sim->ledger, &err);
    while (rc == 0 && !atomic_load(&ending)) {
        rc = kiln_clock_ms() >= sim->beat_due_ms ? send_beat(sim, &err) : 0;
        if (rc == 0)
            rc = hear(sim, &err);
    }
    if (rc) {
        fprintf(stderr, "kiln bench: %s: %s\n", sim->id, err.text);
        atomic_fetch_add(&given_up, 1);
    }
    kiln_bus_close(sim->bus);
    kiln_ledger_close(sim->ledger);
    return NULL;
}

static void prepare(struct sim *sim, const struct kiln_config *config, long number)
{
    const char *pool = kiln_config_text(config, KILN_KEY_POOL);
    sim->config = config;
    snprintf(sim->id, sizeof sim->id, "sim-%ld", number);
    kiln_wire_key(sim->stream, sizeof sim->stream, pool, "worker", sim->id);
    kiln_wire_key(sim->beat_key, sizeof sim->beat_key, pool, "beat", sim->id);
    kiln_wire_key(sim->events, sizeof sim->events, pool, "events", NULL);
    sim->beat =
        (struct kiln_heartbeat){.pid = (uint32_t)getpid(),
                                .version = KILN_WIRE_VERSION,
                                .room = 2,
                                .batch_max = (uint32_t)kiln_config_int(config, KILN_KEY_BATCH_MAX)};
    memcpy(sim->beat.worker, sim->id, sizeof sim->beat.worker);
    snprintf(sim->beat.incarnation, sizeof sim->beat.incarnation, "%lx.%ld", (long)getpid(),
             number);
    snprintf(sim->beat.host, sizeof sim->beat.host, "bench");
    snprintf(sim->beat.device, sizeof sim->beat.device, "none");
    snprintf(sim->beat.engine, sizeof sim->beat.engine, "none");
}

/* The status is 0 when every worker went on to the end. */
static int run_fleet(const struct kiln_config *config, long workers)
{
    struct sim *sims = calloc((size_t)workers, sizeof *sims);
    pthread_t *threads = calloc((size_t)workers, sizeof *threads);
    if (!sims || !threads)
        return 1;
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term}, NULL);
    signal(SIGPIPE, SIG_IGN);
    long started = 0;
    for (; started < workers; started++) {
        prepare(&sims[started], config, started);
        if (pthread_create(&threads[started], NULL, run_sim, &sims[started]) != 0)
            break;
    }
    for (long i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(sims);
    free(threads);
    return started == workers && atomic_load(&given_up) == 0 ? 0 : 1;
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
