/* cache.c - see cache.h. */
#include "scheduler/cache/cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cache/index.h"
#include "scheduler/cache/rule.h"
#include "schemas/clock.h"
#include "schemas/digest.h"
#include "schemas/job/line.h"
#include "schemas/telemetry/log.h"
#include "schemas/telemetry/metrics.h"
#include "storage/daemon/outage.h"
#include "storage/ledger/read/donors.h"

#define CARD_MS 30000 /* between readings of kiln.json */
#define POLL_MS 1000  /* between looks for new donors */
#define NAP_MS 100    /* the thread ends within this */
#define MODELS_MAX 64 /* names of models; donors of further ones are left out */

/* Which weights render a model now: those of its newest donor. */
struct model {
    char name[KILN_NAME_MAX + 1];
    uint64_t weights;
    int64_t created_ms;
};

struct kiln_cache {
    const struct kiln_config *config;
    pthread_t thread;
    bool started;
    atomic_bool stop, asked; /* asked: a job wants a donor */
    int64_t card_due_ms;
    bool card_refused;    /* and it was logged */
    pthread_mutex_t lock; /* of all below */
    struct kiln_model_card card;
    struct kiln_donor_index *index;
    struct model models[MODELS_MAX];
    size_t model_count;
    bool complete; /* all donors of the ledger are in memory */
    bool full;     /* and it was logged */
};

/* --- keys ------------------------------------------------------------------------------------- */

static uint64_t hash_of(const char *text)
{
    uint8_t digest[KILN_SHA256_SIZE];
    uint64_t ret;
    kiln_sha256(text, strlen(text), digest);
    memcpy(&ret, digest, sizeof ret);
    return ret;
}

static void key_of(const char *prompt_hash, const char *model, uint32_t width, uint32_t height,
                   uint32_t steps, bool coarse, uint8_t ret[KILN_DONOR_KEY])
{
    char text[65 + KILN_NAME_MAX + 64];
    uint8_t digest[KILN_SHA256_SIZE];
    int len = snprintf(text, sizeof text, "%s %ux%u %u %d %s", prompt_hash, width, height, steps,
                       coarse, model);
    kiln_sha256(text, (size_t)len, digest);
    memcpy(ret, digest, KILN_DONOR_KEY);
}

static struct model *model_of(struct kiln_cache *cache, const char *name)
{
    for (size_t i = 0; i < cache->model_count; i++)
        if (strcmp(cache->models[i].name, name) == 0)
            return &cache->models[i];
    return NULL;
}

/* --- the thread ------------------------------------------------------------------------------- */

static void put_donor(struct kiln_cache *cache, const struct kiln_donor_row *row)
{
    struct kiln_donor_entry entry = {
        .job = row->job, .weights = hash_of(row->model_hash), .uses = row->uses};
    struct model *model = model_of(cache, row->model);
    if (!model && cache->model_count < MODELS_MAX) {
        model = &cache->models[cache->model_count++];
        *model = (struct model){.created_ms = INT64_MIN};
        snprintf(model->name, sizeof model->name, "%s", row->model);
    }
    if (!model)
        return;
    if (row->created_ms >= model->created_ms) {
        model->created_ms = row->created_ms;
        model->weights = entry.weights;
    }
    key_of(row->prompt_hash, row->model, row->width, row->height, row->steps, row->coarse,
           entry.key);
    int code = kiln_donor_index_put(cache->index, &entry);
    if (code && !cache->full)
        kiln_log(KILN_LOG_WARNING, "donors_full", kiln_f("code", "%s", kiln_code_name(code)),
                 kiln_f("donors", "%u", kiln_donor_index_count(cache->index)));
    cache->full = cache->full || code != 0;
}

static int take_row(void *arg, const struct kiln_donor_row *row)
{
    struct kiln_cache *cache = arg;
    pthread_mutex_lock(&cache->lock);
    if (row->gone)
        (void)kiln_donor_index_remove(cache->index, row->job);
    else
        put_donor(cache, row);
    pthread_mutex_unlock(&cache->lock);
    return 0;
}

static void set_complete(struct kiln_cache *cache, bool complete)
{
    pthread_mutex_lock(&cache->lock);
    const bool first = complete && !cache->complete;
    cache->complete = complete;
    const uint32_t donors = kiln_donor_index_count(cache->index);
    pthread_mutex_unlock(&cache->lock);
    if (first)
        kiln_log(KILN_LOG_INFO, "donors_loaded", kiln_f("donors", "%u", donors));
}

static void nap(const struct kiln_cache *cache, int64_t ms)
{
    const struct timespec pause = {0, NAP_MS * 1000000L};
    for (const int64_t until = kiln_clock_ms() + ms;
         kiln_clock_ms() < until && !atomic_load(&cache->stop);)
        nanosleep(&pause, NULL);
}

/* A ledger that is away is waited for: the leader, whose lock it holds, ends by itself. */
static void *follow(void *arg)
{
    struct kiln_cache *cache = arg;
    struct kiln_outage outage = {KILN_OUTAGE_OF("ledger"),
                                 .effect = "new latents are not found by the cache"};
    struct kiln_donors *donors = NULL;
    struct kiln_error err;
    while (!atomic_load(&cache->stop)) {
        bool complete = false, more = false;
        int code =
            donors ? 0 : kiln_donors_open(cache->config, "kiln-scheduler donors", &donors, &err);
        code = code ? code : kiln_donors_step(donors, take_row, cache, &complete, &more, &err);
        if (code) {
            nap(cache, kiln_outage_fail(&outage, &err));
            continue;
        }
        kiln_outage_over(&outage);
        set_complete(cache, complete);
        if (!more)
            nap(cache, POLL_MS);
    }
    kiln_donors_close(donors);
    return NULL;
}

/* --- opening ---------------------------------------------------------------------------------- */

int kiln_cache_open(const struct kiln_config *config, struct kiln_cache **ret,
                    struct kiln_error *err)
{
    struct kiln_cache *cache = calloc(1, sizeof *cache);
    if (cache)
        cache->index = kiln_donor_index_new(KILN_DONORS_MAX);
    if (!cache || !cache->index) {
        free(cache);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the cache");
    }
    cache->config = config;
    pthread_mutex_init(&cache->lock, NULL);
    *ret = cache;
    return 0;
}

void kiln_cache_close(struct kiln_cache *cache)
{
    if (!cache)
        return;
    atomic_store(&cache->stop, true);
    if (cache->started)
        pthread_join(cache->thread, NULL);
    pthread_mutex_destroy(&cache->lock);
    kiln_donor_index_free(cache->index);
    free(cache);
}

static void read_card(struct kiln_cache *cache)
{
    const char *dir = kiln_config_text(cache->config, KILN_KEY_MODEL);
    struct kiln_model_card card = {0};
    struct kiln_error err;
    const bool refused = dir[0] && kiln_model_card_read(dir, &card, &err) != 0;
    if (refused && !cache->card_refused)
        kiln_log(KILN_LOG_WARNING, "card_unreadable", kiln_f("error", "%s", err.text));
    cache->card_refused = refused;
    pthread_mutex_lock(&cache->lock);
    cache->card = refused ? (struct kiln_model_card){0} : card;
    pthread_mutex_unlock(&cache->lock);
}

void kiln_cache_tend(struct kiln_cache *cache, int64_t now_ms)
{
    if (!atomic_load(&cache->asked))
        return;
    if (now_ms >= cache->card_due_ms) {
        cache->card_due_ms = now_ms + CARD_MS;
        read_card(cache);
    }
    if (!cache->started && cache->card.reuse.row_count > 0)
        cache->started = pthread_create(&cache->thread, NULL, follow, cache) == 0;
}

/* --- look-ups --------------------------------------------------------------------------------- */

/* The better of *best and what the donors of this kind allow; the lock is held. */
static void look(const struct kiln_cache *cache, const struct kiln_job *job, const char *hash,
                 bool coarse, uint64_t weights, struct kiln_donor *best)
{
    uint8_t key[KILN_DONOR_KEY];
    key_of(hash, job->model, job->width, job->height, job->steps, coarse, key);
    const struct kiln_donor_pool found = kiln_donor_index_pool(cache->index, key, weights);
    const struct kiln_reuse_pool pool = {KILN_REUSE_SAME_PROMPT, found.donors, found.uses};
    const uint32_t depth = found.donors ? kiln_reuse_depth(&cache->card, job, &pool) : 0;
    if (depth > best->step)
        *best = (struct kiln_donor){found.job, depth, KILN_REUSE_SAME_PROMPT};
}

struct kiln_donor kiln_cache_take(struct kiln_cache *cache, const struct kiln_job *job)
{
    struct kiln_donor best = {0};
    char hash[65];
    if (!kiln_reuse_wants(job))
        return best;
    atomic_store(&cache->asked, true);
    kiln_prompt_hash(job->prompt, job->negative_prompt, hash);
    pthread_mutex_lock(&cache->lock);
    const struct model *model = model_of(cache, job->model);
    const struct kiln_card_reuse *reuse = &cache->card.reuse;
    if (model && reuse->row_count > 0 &&
        (!reuse->model[0] || hash_of(reuse->model) == model->weights)) {
        look(cache, job, hash, false, model->weights, &best);
        if (job->mode.kind != KILN_MODE_EXACT) /* an exact picture begins from exact ones alone */
            look(cache, job, hash, true, model->weights, &best);
    }
    if (best.job)
        kiln_donor_index_use(cache->index, best.job);
    pthread_mutex_unlock(&cache->lock);
    kiln_metric_add(KILN_METRIC_DONOR_LOOKUPS, best.job ? KILN_DONOR_HIT : KILN_DONOR_MISS, 1);
    kiln_metric_add(KILN_METRIC_DONOR_STEPS, 0, best.step);
    return best;
}
