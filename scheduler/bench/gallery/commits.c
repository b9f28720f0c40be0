/* commits.c - see commits.h. */
#include "scheduler/bench/gallery/commits.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scheduler/cli/core/cli.h"
#include "schemas/digest.h"
#include "schemas/text/utf8.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/batch.h"

#define SESSIONS 4 /* workers that commit */
#define INSERTED 1000
#define ASSIGNED 64
#define WORKER "bench"
#define PROMPT_MAX 4096

struct kiln_bench_commits {
    const struct kiln_config *config;
    char batch[64];
    struct kiln_job *jobs;
    uint32_t count, done; /* done: in earlier runs */
    struct kiln_ledger *sessions[SESSIONS];
};

/* --- jobs --------------------------------------------------------------------------------------
 */

static int insert(struct kiln_bench_commits *c, char *const *prompts, uint32_t prompt_count,
                  const char *pool, uint32_t from, uint32_t count, struct kiln_error *err)
{
    static char none[] = "", tenant[] = KILN_BENCH_TENANT;
    struct kiln_new_job *jobs = calloc(count, sizeof *jobs);
    char(*texts)[PROMPT_MAX] = malloc(count * sizeof *texts), (*keys)[24] = malloc(count * 24);
    uint64_t inserted = 0;
    int rc = jobs && texts && keys ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for jobs");
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        snprintf(texts[i], sizeof texts[i], "%.*s, number %u of %s",
                 (int)kiln_utf8_whole(prompts[(from + i) % prompt_count], PROMPT_MAX - 64),
                 prompts[(from + i) % prompt_count], from + i, c->batch);
        snprintf(keys[i], sizeof keys[i], "k%u", from + i);
        jobs[i] = (struct kiln_new_job){.job = {.batch = c->batch,
                                                .index = from + i,
                                                .prompt = texts[i],
                                                .negative_prompt = none,
                                                .tenant = tenant,
                                                .model = none,
                                                .width = 512,
                                                .height = 512,
                                                .steps = 8,
                                                .seed = from + i,
                                                .latents = KILN_LATENTS_NONE},
                                        .key = keys[i],
                                        .token = ""};
    }
    if (rc == 0)
        rc = kiln_ledger_insert_jobs(c->sessions[0], pool, jobs, count, &inserted, err);
    free(jobs), free(texts), free(keys);
    return rc;
}

struct waiting {
    uint64_t ids[ASSIGNED], last, batch_id;
    uint32_t count;
};

static int note_waiting(void *arg, const struct kiln_waiting *job)
{
    struct waiting *waiting = arg;
    waiting->last = job->id;
    if (job->batch_id == waiting->batch_id)
        waiting->ids[waiting->count++] = job->id;
    return 0;
}

/* All queued jobs of the batch, as a scheduler would. */
static int assign(struct kiln_bench_commits *c, const char *pool, struct kiln_error *err)
{
    struct waiting waiting = {.last = 0};
    int rc = kiln_ledger_batch_id(c->sessions[0], pool, c->batch, &waiting.batch_id, err);
    while (rc == 0 && c->count > 0) {
        const uint64_t before = waiting.last;
        char assignment[80];
        size_t given = 0;
        waiting.count = 0;
        rc = kiln_ledger_waiting(c->sessions[0], pool, before, ASSIGNED, note_waiting, &waiting,
                                 err);
        if (rc || waiting.last == before)
            break;
        snprintf(assignment, sizeof assignment, "%s-%" PRIu64, c->batch, waiting.last);
        if (waiting.count > 0)
            rc = kiln_ledger_assign(c->sessions[0], WORKER, assignment, waiting.ids, waiting.count,
                                    c->jobs + c->done, &given, err);
        c->done += (uint32_t)given;
    }
    if (rc == 0 && c->done != c->count)
        rc = kiln_fail(err, KILN_INTERNAL, "%u of %u jobs of the bench could be assigned", c->done,
                       c->count);
    c->done = 0;
    return rc;
}

/* That no scheduler takes the jobs.  A session that leads must not fall silent, so it is one of its
 * own. */
static int check_alone(const struct kiln_bench_commits *c, const char *pool, struct kiln_error *err)
{
    struct kiln_ledger *session = NULL;
    bool leads = false;
    int rc = kiln_ledger_open(c->config, "kiln bench", &session, err);
    rc = rc ? rc : kiln_ledger_check(session, err);
    rc = rc ? rc : kiln_ledger_lead(session, pool, &leads, err);
    kiln_ledger_close(session);
    return rc || leads ? rc
                       : kiln_fail(err, KILN_EXISTS,
                                   "a scheduler leads pool '%s' and would take the jobs of the "
                                   "bench: stop it (kiln down --daemons)",
                                   pool);
}

static int prepare(struct kiln_bench_commits *c, char *const *prompts, uint32_t prompt_count,
                   struct kiln_error *err)
{
    const char *pool = kiln_config_text(c->config, KILN_KEY_POOL);
    int rc = check_alone(c, pool, err);
    for (int i = 0; i < SESSIONS && rc == 0; i++)
        rc = kiln_ledger_open(c->config, "kiln-worker bench", &c->sessions[i], err);
    for (uint32_t from = 0; from < c->count && rc == 0; from += INSERTED)
        rc = insert(c, prompts, prompt_count, pool, from,
                    c->count - from < INSERTED ? c->count - from : INSERTED, err);
    return rc ? rc : assign(c, pool, err);
}

int kiln_bench_commits_new(const struct kiln_config *config, char *const *prompts,
                           uint32_t prompt_count, uint32_t count, struct kiln_bench_commits **ret,
                           struct kiln_error *err)
{
    struct kiln_bench_commits *c = calloc(1, sizeof *c);
    if (!c)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for jobs");
    c->config = config;
    c->count = count;
    snprintf(c->batch, sizeof c->batch, "bench-%lld", (long long)time(NULL));
    c->jobs = calloc(count + ASSIGNED, sizeof *c->jobs);
    int rc = c->jobs ? prepare(c, prompts, prompt_count, err)
                     : kiln_fail(err, KILN_NO_MEMORY, "no memory for jobs");
    if (rc) {
        kiln_bench_commits_free(c);
        return rc;
    }
    *ret = c;
    return 0;
}

void kiln_bench_commits_free(struct kiln_bench_commits *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; c->jobs && i < c->count; i++)
        kiln_job_release(&c->jobs[i]);
    for (int i = 0; i < SESSIONS; i++)
        kiln_ledger_close(c->sessions[i]);
    free(c->jobs);
    free(c);
}

int kiln_bench_commits_remove(struct kiln_bench_commits *c, struct kiln_error *err)
{
    const char *pool = kiln_config_text(c->config, KILN_KEY_POOL);
    struct kiln_removed removed;
    uint64_t cancelled;
    int rc = kiln_ledger_cancel(c->sessions[0], pool, 0, c->batch, &cancelled, err);
    return rc ? rc : kiln_ledger_remove_batch(c->sessions[0], pool, c->batch, &removed, err);
}

/* --- commits -----------------------------------------------------------------------------------
 */

struct run {
    struct kiln_bench_commits *commits;
    double *due_s, *took_s, start_s; /* took_s: from when it was due */
    uint32_t count;
    atomic_uint next;
    pthread_mutex_t mutex; /* guards what follows */
    struct kiln_error err;
    bool failed;
};

static int commit(struct kiln_ledger *session, const struct kiln_job *job, struct kiln_error *err)
{
    static const char *const roles[3] = {"full", "512", "256"};
    uint8_t digest[KILN_SHA256_SIZE];
    char hex[2 * KILN_SHA256_SIZE + 1], keys[3][96];
    struct kiln_commit_object objects[3];
    bool ours;
    kiln_sha256(&job->id, sizeof job->id, digest);
    kiln_hex(digest, sizeof digest, hex);
    for (int i = 0; i < 3; i++) {
        snprintf(keys[i], sizeof keys[i], "images/bench/%" PRIu64 "/%s-%.16s.webp", job->id,
                 roles[i], hex);
        objects[i] = (struct kiln_commit_object){.role = roles[i],
                                                 .key = keys[i],
                                                 .sha256 = hex,
                                                 .bytes = 1000,
                                                 .width = job->width >> (i / 2),
                                                 .height = job->height >> (i / 2),
                                                 .content_type = "image/webp"};
    }
    const struct kiln_commit row = {.job = job,
                                    .worker = WORKER,
                                    .assignment = "bench",
                                    .model_hash = "0000000000000000",
                                    .model_name = "bench",
                                    .objects = objects,
                                    .object_count = 3};
    int rc = kiln_ledger_commit(session, &row, &ours, err);
    return rc || ours ? rc : kiln_fail(err, KILN_STALE, "somebody took a job of the bench");
}

struct worker {
    struct run *run;
    struct kiln_ledger *session;
};

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct run *run = worker->run;
    struct kiln_error err;
    for (uint32_t n; (n = atomic_fetch_add(&run->next, 1)) < run->count && !run->failed;) {
        const double wait_s = run->start_s + run->due_s[n] - kiln_now_s();
        if (wait_s > 0)
            kiln_sleep_s(wait_s);
        int rc = commit(worker->session, &run->commits->jobs[run->commits->done + n], &err);
        run->took_s[n] = kiln_now_s() - run->start_s - run->due_s[n];
        if (rc) {
            pthread_mutex_lock(&run->mutex);
            run->err = err, run->failed = true;
            pthread_mutex_unlock(&run->mutex);
        }
    }
    return NULL;
}

static int run_sessions(struct run *run, struct kiln_error *err)
{
    struct worker workers[SESSIONS];
    pthread_t threads[SESSIONS];
    int started = 0;
    pthread_mutex_init(&run->mutex, NULL);
    for (; started < SESSIONS; started++) {
        workers[started] = (struct worker){run, run->commits->sessions[started]};
        if (pthread_create(&threads[started], NULL, work, &workers[started]) != 0)
            break;
    }
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&run->mutex);
    if (run->failed)
        *err = run->err;
    return run->failed ? err->code
           : started   ? 0
                       : kiln_fail(err, KILN_NO_MEMORY, "no thread for commits");
}

void kiln_bench_commit_times_release(struct kiln_bench_commit_times *times)
{
    kiln_bench_times_release(&times->all);
    kiln_bench_times_release(&times->calm);
    kiln_bench_times_release(&times->disk);
}

/* Commits that were due before the queue behind a stall was empty are not calm either. */
static void sort_out(const struct run *run, const struct kiln_bench_disk *disk,
                     struct kiln_bench_commit_times *times)
{
    double queue_until_s = 0;
    for (uint32_t i = 0; i < run->count; i++) {
        const double from_s = run->start_s + run->due_s[i], to_s = from_s + run->took_s[i];
        kiln_bench_times_add(&times->all, run->took_s[i] * 1e3);
        if (from_s >= queue_until_s && !kiln_bench_disk_stalled(disk, from_s, to_s))
            kiln_bench_times_add(&times->calm, run->took_s[i] * 1e3);
        else if (to_s > queue_until_s)
            queue_until_s = to_s;
    }
}

int kiln_bench_commits_run(struct kiln_bench_commits *c, double rate, double seconds,
                           struct kiln_bench_disk *disk, struct kiln_bench_commit_times *times,
                           struct kiln_error *err)
{
    const uint32_t left = c->count - c->done;
    struct run run = {.commits = c,
                      .due_s = malloc((left + 1) * sizeof(double)),
                      .took_s = calloc(left + 1, sizeof(double))};
    int rc = run.due_s && run.took_s ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for commits");
    if (rc == 0)
        run.count = kiln_bench_arrivals(rate, seconds, 7 + c->done, run.due_s, left);
    rc = rc ? rc : kiln_bench_times_fit(&times->all, run.count, err);
    rc = rc ? rc : kiln_bench_times_fit(&times->calm, run.count, err);
    rc = rc ? rc : kiln_bench_disk_begin(disk, seconds, &times->disk, err);
    if (rc == 0) {
        run.start_s = kiln_now_s();
        rc = run_sessions(&run, err);
        struct kiln_error why;
        const int ended = kiln_bench_disk_end(disk, &why);
        if (rc == 0 && ended)
            *err = why, rc = ended;
    }
    if (rc == 0)
        sort_out(&run, disk, times);
    c->done += run.count;
    free(run.due_s), free(run.took_s);
    return rc;
}
