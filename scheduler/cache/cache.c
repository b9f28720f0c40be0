/* cache.c - see cache.h. */
#include "scheduler/cache/cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "scheduler/cache/index.h"
#include "scheduler/cache/rule.h"
#include "scheduler/cache/weights.h"
#include "schemas/clock.h"
#include "schemas/digest.h"
#include "schemas/room.h"
#include "schemas/telemetry/log.h"
#include "schemas/telemetry/metrics.h"
#include "storage/daemon/outage.h"
#include "storage/formats/card/model_words.h"
#include "storage/formats/regular.h"
#include "storage/ledger/queue/quota.h"
#include "storage/ledger/read/donors.h"

#define FILES_MS 30000 /* between readings of kiln.json, and looks at words.txt */
#define POLL_MS 1000   /* between looks for new donors, ... */
#define SOON_MS 100    /* ... while they come: the sooner they are known, the more jobs use them */
#define NAP_MS 100     /* the thread ends within this */
#define PATH_BYTES_MAX 4608
#define MODELS_MAX 64 /* names of models; donors of further ones are left out */

/* Whether runs of a tenant may begin from stored latents, where its quota says it. */
struct rule {
    char tenant[KILN_NAME_MAX + 1];
    bool off;
};
struct rules {
    struct rule *at;
    size_t count, room;
};

struct model {
    char name[KILN_NAME_MAX + 1];
    struct kiln_donor_weights weights;
};

struct kiln_cache {
    const struct kiln_config *config;
    pthread_t thread;
    bool started, ruled;     /* ruled: the quotas have been read */
    atomic_bool stop, asked; /* asked: a job wants a donor */
    int64_t card_due_ms, quotas_due_ms;
    struct stat card_stat; /* of what was read last; zeroed: there was none */
    /* of the thread */
    int64_t words_due_ms;
    bool worded; /* the lists are wanted; words are NULL all the same if they are not valid */
    struct kiln_words_version version;
    bool full; /* and it was logged */

    pthread_mutex_t lock; /* of all below; the thread alone changes what is below the card */
    struct rules rules;
    struct kiln_model_card card;
    struct kiln_reuse_words *words; /* NULL: only donors of the same prompt are found */
    struct kiln_donor_index *index; /* NULL before the first donor is read */
    struct model models[MODELS_MAX];
    size_t model_count;
    bool complete; /* all donors of the ledger are in memory */
    uint64_t looks;
    struct kiln_donor_news *news; /* asked without the lock */
};

static uint64_t hash_of(const char *text)
{
    uint8_t digest[KILN_SHA256_SIZE];
    uint64_t ret;
    kiln_sha256(text, strlen(text), digest);
    memcpy(&ret, digest, sizeof ret);
    return ret;
}

static struct model *model_of(struct kiln_cache *cache, const char *name)
{
    for (size_t i = 0; i < cache->model_count; i++)
        if (strcmp(cache->models[i].name, name) == 0)
            return &cache->models[i];
    return NULL;
}

/* --- donors ----------------------------------------------------------------------------------- */

/* The lock is held. */
static bool note_model(struct kiln_cache *cache, const struct kiln_donor_row *row, uint64_t weights)
{
    struct model *model = model_of(cache, row->model);
    if (!model && cache->model_count < MODELS_MAX) {
        model = &cache->models[cache->model_count++];
        *model = (struct model){0};
        snprintf(model->name, sizeof model->name, "%s", row->model);
    }
    if (model && kiln_donor_weights_note(&model->weights, weights, row->created_ms))
        kiln_donor_news_all(cache->news);
    return model != NULL;
}

static void put_donor(struct kiln_cache *cache, const struct kiln_donor_row *row)
{
    struct kiln_donor_entry entry = {.job = row->job, .uses = row->uses, .prompt = row->prompt};
    const struct kiln_donor_kind kind = {.model = row->model,
                                         .weights = hash_of(row->model_hash),
                                         .width = row->width,
                                         .height = row->height,
                                         .steps = row->steps,
                                         .coarse = row->coarse,
                                         .lora_set = row->lora_set};
    /* Reading a prompt takes longer than all else, and look-ups do not wait for it. */
    struct kiln_facts *facts = kiln_donor_facts(cache->words, row->prompt);
    kiln_donor_keys(&kind, row->prompt_hash, row->negative_prompt, facts, &entry.keys);
    uint64_t said;
    const struct kiln_reuse_marks marks = kiln_donor_marks(row->prompt_hash, facts, &said);
    kiln_facts_free(facts);
    pthread_mutex_lock(&cache->lock);
    const int code = note_model(cache, row, kind.weights)
                         ? kiln_donor_index_put(cache->index, &entry)
                         : KILN_FULL;
    kiln_donor_news_add(cache->news, &marks, said);
    pthread_mutex_unlock(&cache->lock);
    if (code && !cache->full)
        kiln_log(KILN_LOG_WARNING, "donors_full", kiln_f("code", "%s", kiln_code_name(code)),
                 kiln_f("donors", "%u", kiln_donor_index_count(cache->index)));
    cache->full = cache->full || code != 0;
}

static int take_row(void *arg, const struct kiln_donor_row *row)
{
    struct kiln_cache *cache = arg;
    if (!row->gone) {
        put_donor(cache, row);
        return 0;
    }
    pthread_mutex_lock(&cache->lock);
    (void)kiln_donor_index_remove(cache->index, row->job); /* who expects it finds out then */
    pthread_mutex_unlock(&cache->lock);
    return 0;
}

/* --- word lists ------------------------------------------------------------------------------- */

/* Whether a row of the card is for donors of other prompts. */
static bool wants_words(struct kiln_cache *cache)
{
    bool wanted = false;
    pthread_mutex_lock(&cache->lock);
    for (uint32_t table = 0; table < KILN_REUSE_LORA + cache->card.reuse.lora_count; table++) {
        uint32_t count;
        const struct kiln_card_reuse_row *rows =
            kiln_card_reuse_rows(&cache->card.reuse, (enum kiln_reuse_table)table, &count);
        for (uint32_t i = 0; i < count; i++)
            wanted = wanted || rows[i].class != KILN_REUSE_SAME_PROMPT;
    }
    pthread_mutex_unlock(&cache->lock);
    return wanted;
}

/* The lists with which prompts are compared from now on; NULL: none.  Lists that are not valid
 * could take a fact for an empty word, so no list takes their place. */
static struct kiln_reuse_words *read_words(const char *dir)
{
    struct kiln_reuse_words *words = NULL;
    struct kiln_error err;
    bool own = false;
    if (kiln_model_words_read(dir, &words, &own, &err) != 0)
        kiln_log(KILN_LOG_WARNING, "words_unreadable", kiln_f("error", "%s", err.text),
                 kiln_f("effect", "only latents of the same prompt are used"));
    else if (!own)
        kiln_log(KILN_LOG_WARNING, "words_missing", kiln_f("file", "%s/" KILN_MODEL_WORDS, dir),
                 kiln_f("effect", "prompts are compared by the built-in word lists alone"));
    return words;
}

/* At the start, and when the lists are others: empties the index, as its keys depend on them.
 * *ret_emptied: all donors must be read again.  KILN_NO_MEMORY changes nothing. */
static int tend_words(struct kiln_cache *cache, bool *ret_emptied, struct kiln_error *err)
{
    const char *dir = kiln_config_text(cache->config, KILN_KEY_MODEL);
    const int64_t now_ms = kiln_clock_ms();
    struct kiln_words_version version = {0};
    if (now_ms < cache->words_due_ms)
        return 0;
    const bool worded = wants_words(cache);
    if (worded)
        version = kiln_model_words_version(dir);
    if (cache->index && worded == cache->worded &&
        memcmp(&version, &cache->version, sizeof version) == 0) {
        cache->words_due_ms = now_ms + FILES_MS;
        return 0;
    }
    struct kiln_donor_index *index = kiln_donor_index_new(KILN_DONORS_MAX, KILN_DONORS_TEXT_MAX);
    if (!index)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an index of stored latents");
    struct kiln_reuse_words *words = worded ? read_words(dir) : NULL;
    pthread_mutex_lock(&cache->lock);
    struct kiln_donor_index *old_index = cache->index;
    struct kiln_reuse_words *old_words = cache->words;
    cache->index = index;
    cache->words = words;
    cache->model_count = 0;
    cache->complete = false;
    kiln_donor_news_all(cache->news);
    pthread_mutex_unlock(&cache->lock);
    kiln_donor_index_free(old_index);
    kiln_reuse_words_free(old_words);
    cache->worded = worded;
    cache->version = version;
    cache->full = false;
    cache->words_due_ms = now_ms + FILES_MS;
    *ret_emptied = true;
    return 0;
}

/* --- the thread ------------------------------------------------------------------------------- */

/* looked: to the end of what is new. */
static void set_complete(struct kiln_cache *cache, bool complete, bool looked)
{
    pthread_mutex_lock(&cache->lock);
    const bool first = complete && !cache->complete;
    cache->complete = complete;
    cache->looks += complete && looked;
    const uint32_t donors = kiln_donor_index_count(cache->index);
    const uint32_t prompts = kiln_donor_index_prompts(cache->index);
    pthread_mutex_unlock(&cache->lock);
    if (first)
        kiln_log(KILN_LOG_INFO, "donors_loaded", kiln_f("donors", "%u", donors),
                 kiln_f("prompts", "%u", prompts));
}

static void nap(const struct kiln_cache *cache, int64_t ms)
{
    const struct timespec pause = {0, NAP_MS * 1000000L};
    for (const int64_t until = kiln_clock_ms() + ms;
         kiln_clock_ms() < until && !atomic_load(&cache->stop);)
        nanosleep(&pause, NULL);
}

/* A page of donors.  *donors is opened where it must be. */
static int step(struct kiln_cache *cache, struct kiln_donors **donors, bool *ret_complete,
                bool *ret_more, struct kiln_error *err)
{
    bool emptied = false;
    int code = tend_words(cache, &emptied, err);
    if (emptied) {
        kiln_donors_close(*donors);
        *donors = NULL;
    }
    if (code == 0 && !*donors)
        code = kiln_donors_open(cache->config, "kiln donors", donors, err);
    return code ? code : kiln_donors_step(*donors, take_row, cache, ret_complete, ret_more, err);
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
        const uint64_t turn = kiln_donor_news_turn(cache->news);
        bool complete = false, more = false;
        if (step(cache, &donors, &complete, &more, &err) != 0) {
            nap(cache, kiln_outage_fail(&outage, &err));
            continue;
        }
        kiln_outage_over(&outage);
        set_complete(cache, complete, !more);
        if (!more)
            nap(cache, kiln_donor_news_turn(cache->news) == turn ? POLL_MS : SOON_MS);
    }
    kiln_donors_close(donors);
    return NULL;
}

/* --- opening ---------------------------------------------------------------------------------- */

int kiln_cache_open(const struct kiln_config *config, struct kiln_cache **ret,
                    struct kiln_error *err)
{
    struct kiln_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the cache");
    cache->config = config;
    cache->news = kiln_donor_news_new();
    if (!cache->news) {
        free(cache);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the cache");
    }
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
    kiln_reuse_words_free(cache->words);
    kiln_donor_news_free(cache->news);
    free(cache->rules.at);
    free(cache);
}

/* Reads the card if it is another file than at the last look, so that the leader's thread does not
 * read it for nothing. */
static void read_card(struct kiln_cache *cache)
{
    const char *dir = kiln_config_text(cache->config, KILN_KEY_MODEL);
    char path[PATH_BYTES_MAX];
    struct stat now = {0};
    struct kiln_model_card card = {0};
    struct kiln_error err;
    const int len = snprintf(path, sizeof path, "%s/" KILN_MODEL_CARD, dir);
    const bool there = dir[0] && (size_t)len < sizeof path && stat(path, &now) == 0;
    if (!there)
        now = (struct stat){0};
    if (kiln_regular_same(&now, &cache->card_stat))
        return;
    cache->card_stat = now;
    if (there && kiln_model_card_read(dir, &card, &err) != 0) {
        kiln_log(KILN_LOG_WARNING, "card_unreadable", kiln_f("error", "%s", err.text));
        card = (struct kiln_model_card){0};
    }
    const char *dtype = kiln_config_text(cache->config, KILN_KEY_DTYPE);
    if (strcmp(dtype, "auto") != 0)
        kiln_card_reuse_keep(&card.reuse, dtype);
    pthread_mutex_lock(&cache->lock);
    cache->card = card;
    kiln_donor_news_all(cache->news);
    pthread_mutex_unlock(&cache->lock);
}

static int keep_rule(void *arg, const struct kiln_quota *quota, struct kiln_error *err)
{
    struct rules *rules = arg;
    if (quota->teleport == KILN_TELEPORT_OLD)
        return 0;
    struct rule *at = kiln_room(rules->at, rules->count, &rules->room, sizeof *at);
    if (!at)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the quotas");
    rules->at = at;
    struct rule *rule = &rules->at[rules->count++];
    *rule = (struct rule){.off = quota->teleport == KILN_TELEPORT_OFF};
    snprintf(rule->tenant, sizeof rule->tenant, "%s", quota->tenant);
    return 0;
}

static bool same_rules(const struct rules *a, const struct rules *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; i < a->count && same; i++)
        same = a->at[i].off == b->at[i].off && strcmp(a->at[i].tenant, b->at[i].tenant) == 0;
    return same;
}

/* After a failure the rules are those of before. */
static int read_rules(struct kiln_cache *cache, struct kiln_ledger *ledger, const char *pool,
                      struct kiln_error *err)
{
    struct rules rules = {0};
    int code = kiln_ledger_quotas(ledger, pool, keep_rule, &rules, err);
    if (code) {
        free(rules.at);
        return code;
    }
    pthread_mutex_lock(&cache->lock);
    struct rule *old = cache->rules.at;
    if (!same_rules(&rules, &cache->rules))
        kiln_donor_news_all(cache->news);
    cache->rules = rules;
    pthread_mutex_unlock(&cache->lock);
    free(old);
    return 0;
}

void kiln_cache_tend(struct kiln_cache *cache, struct kiln_ledger *ledger, const char *pool,
                     int64_t now_ms)
{
    struct kiln_error err;
    if (!atomic_load(&cache->asked))
        return;
    if (now_ms >= cache->quotas_due_ms) {
        cache->quotas_due_ms = now_ms + POLL_MS;
        if (read_rules(cache, ledger, pool, &err) == 0)
            cache->ruled = true;
        else
            kiln_log(KILN_LOG_WARNING, "quotas_unread", kiln_f("error", "%s", err.text));
    }
    if (!cache->ruled)
        return;
    if (now_ms >= cache->card_due_ms) {
        cache->card_due_ms = now_ms + FILES_MS;
        read_card(cache);
    }
    if (!cache->started && kiln_card_reuse_offers(&cache->card.reuse))
        cache->started = pthread_create(&cache->thread, NULL, follow, cache) == 0;
}

int kiln_cache_load(struct kiln_cache *cache, struct kiln_ledger *ledger, const char *pool,
                    struct kiln_error *err)
{
    struct kiln_donors *donors = NULL;
    int code = read_rules(cache, ledger, pool, err);
    read_card(cache);
    for (bool complete = false, more; !complete && code == 0;)
        code = step(cache, &donors, &complete, &more, err);
    kiln_donors_close(donors);
    return code;
}

/* --- look-ups --------------------------------------------------------------------------------- */

/* Whether the quota of the tenant turns teleport off, or else that of "*"; the lock is held. */
static bool turned_off(const struct rules *rules, const char *tenant)
{
    bool off = false;
    for (size_t i = 0; i < rules->count; i++) {
        const struct rule *rule = &rules->at[i];
        if (tenant && strcmp(rule->tenant, tenant) == 0)
            return rule->off;
        if (strcmp(rule->tenant, KILN_TENANT_ANY) == 0)
            off = rule->off;
    }
    return off;
}

/* Why nothing is looked for, or NULL; the lock is held. */
static const char *silent(struct kiln_cache *cache, const struct kiln_job *job)
{
    const struct kiln_card_reuse *reuse = &cache->card.reuse;
    const struct model *model = cache->index ? model_of(cache, job->model) : NULL;
    enum kiln_reuse_table table;
    if (!kiln_reuse_wants(job))
        return job->teleport == KILN_TELEPORT_AUTO
                   ? "runs with a start, several LoRAs or one that is not registered, guidance, "
                     "variety or a stored trajectory never begin from a stored latent by themselves"
                   : "the job does not ask for it: teleport is off";
    if (turned_off(&cache->rules, job->tenant))
        return "teleport is off for its tenant (`kiln quota ls`)";
    if (!kiln_card_reuse_offers(reuse))
        return "the model's kiln.json has no rows of teleport for this dtype, or is not readable";
    if (job->lora_count == 0 && !kiln_card_reuse_serves(reuse, ""))
        return "the rows of teleport in the model's kiln.json are for jobs with a LoRA alone";
    if (!kiln_card_reuse_table_of(reuse, job, false, false, &table))
        return "the table of the model's kiln.json has no rows for its LoRA at this strength";
    if (!model)
        return "no stored latent of the job's model can be a donor";
    if (reuse->model[0] && !kiln_donor_weights_have(&model->weights, hash_of(reuse->model)))
        return "the table of the model's kiln.json was measured with other weights";
    return NULL;
}

struct kiln_donor kiln_cache_look(struct kiln_cache *cache, const struct kiln_job *job, bool whole,
                                  const struct kiln_search_watch *watch, const char **ret_silent,
                                  struct kiln_reuse_look *ret_look)
{
    struct kiln_donor ret = {0};
    *ret_look = (struct kiln_reuse_look){0};
    const double began_ms = kiln_monotonic_ms();
    pthread_mutex_lock(&cache->lock);
    ret_look->turn = kiln_donor_news_turn(cache->news);
    *ret_silent = silent(cache, job);
    if (!*ret_silent) {
        const struct kiln_donor_stock stock = {cache->index, cache->news, &cache->card,
                                               cache->words, whole};
        const struct model *model = model_of(cache, job->model);
        const char *measured = cache->card.reuse.model; /* "": with any weights */
        for (int i = 0; i < kiln_donor_weights_now(&model->weights) && !ret.job; i++) {
            const uint64_t hash = model->weights.at[i].hash;
            if (!measured[0] || hash_of(measured) == hash)
                ret = kiln_donor_search(&stock, job, hash, watch, &ret_look->marks);
        }
    }
    pthread_mutex_unlock(&cache->lock);
    if (!*ret_silent)
        kiln_metric_observe(KILN_METRIC_DONOR_SECONDS, 0, (kiln_monotonic_ms() - began_ms) / 1e3);
    return ret;
}

struct kiln_cache_state kiln_cache_warm(struct kiln_cache *cache)
{
    struct kiln_cache_state state = {0};
    atomic_store(&cache->asked, true);
    if (!cache->ruled || cache->card_due_ms == 0)
        return state;
    pthread_mutex_lock(&cache->lock);
    state.stage = !kiln_card_reuse_offers(&cache->card.reuse) ? KILN_CACHE_NO_TABLE
                  : cache->complete                           ? KILN_CACHE_COMPLETE
                                                              : KILN_CACHE_READING;
    state.looks = cache->looks;
    if (cache->index) {
        state.donors = kiln_donor_index_count(cache->index);
        state.prompts = kiln_donor_index_prompts(cache->index);
    }
    pthread_mutex_unlock(&cache->lock);
    return state;
}

uint64_t kiln_cache_turn(const struct kiln_cache *cache)
{
    return kiln_donor_news_turn(cache->news);
}

bool kiln_cache_serves(const struct kiln_cache *cache, const char *lora_set)
{
    return kiln_card_reuse_serves(&cache->card.reuse, lora_set);
}

bool kiln_cache_outdated(const struct kiln_cache *cache, const struct kiln_reuse_look *look)
{
    return kiln_donor_news_since(cache->news, look);
}

bool kiln_cache_ready(struct kiln_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    const bool ready = cache->complete && cache->model_count > 0 &&
                       kiln_card_reuse_offers(&cache->card.reuse);
    pthread_mutex_unlock(&cache->lock);
    return ready;
}

struct kiln_donor kiln_cache_take(struct kiln_cache *cache, const struct kiln_job *job,
                                  const struct kiln_reuse_look *missed, bool whole)
{
    const char *reason;
    struct kiln_donor donor = {0};
    struct kiln_reuse_look look;
    if (!kiln_reuse_wants(job))
        return donor;
    atomic_store(&cache->asked, true);
    if (!missed || kiln_cache_outdated(cache, missed))
        donor = kiln_cache_look(cache, job, whole, NULL, &reason, &look);
    kiln_metric_add(KILN_METRIC_DONOR_LOOKUPS, donor.job ? KILN_DONOR_HIT : KILN_DONOR_MISS, 1);
    if (!donor.job)
        return donor;
    pthread_mutex_lock(&cache->lock);
    kiln_donor_index_use(cache->index, donor.job);
    const double saved =
        donor.coarse ? kiln_mode_begun_forwards(&cache->card.reuse.coarse, donor.step) : donor.step;
    pthread_mutex_unlock(&cache->lock);
    kiln_metric_observe(KILN_METRIC_DONOR_STEPS, (uint32_t)donor.hit - 1, saved);
    kiln_metric_observe(KILN_METRIC_DONOR_VARIETY, (uint32_t)donor.hit - 1, donor.variety);
    return donor;
}
