/* routes.c - see routes.h.
 *
 * The thread hands a new snapshot over under the lock; the intake takes it at its next turn and
 * frees the one before, so that no snapshot has two owners.
 */
#include "scheduler/intake/routes.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scheduler/embedding/desk.h"
#include "scheduler/embedding/loras.h"
#include "scheduler/intake/folder.h"
#include "scheduler/router/lora_file.h"
#include "schemas/clock.h"
#include "schemas/job/styles.h"
#include "schemas/telemetry/log.h"
#include "storage/daemon/outage.h"
#include "storage/formats/card/model_card.h"
#include "storage/formats/styles_file.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/lora/lora.h"

#define LOOK_MS 5000                               /* between looks that nobody asked for */
#define RETRY_MS 100                               /* the least pause after a look that failed */
#define FOLDER_FIRST_MS (KILN_ROUTES_FIRST_MS / 2) /* for files of lora_dir, while jobs wait */
#define FOLDER_NEXT_MS (KILN_ROUTES_NEXT_MS / 4)
#define AHEAD ((size_t)128) /* jobs that are prepared together */

/* The registry at one version. */
struct snapshot {
    struct kiln_lora_list list;
    struct kiln_router *router;
    struct kiln_router_reader *reader; /* the intake's */
};

struct kiln_routes {
    const struct kiln_config *config;
    const char *pool;
    struct kiln_styles *styles; /* NULL: the built-in ones */
    struct kiln_lexicon *lexicon;
    struct kiln_lora_folder *folder;
    struct kiln_model_card card;           /* its base and variant */
    struct kiln_embedding_model *embedder; /* NULL: words alone */
    struct kiln_desk *desk;
    struct kiln_embedding_loras *vectors; /* the thread's */
    int8_t *rows;                         /* [KILN_MEANING_SEGMENTS][dims], the intake's */
    struct snapshot *now;                 /* the intake's; NULL: none yet */
    int64_t prepared_ms;                  /* by then the vectors of its page are there */
    char own[KILN_PROMPT_MAX + 1], negative[KILN_PROMPT_MAX + 1]; /* scratch of the intake */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    struct snapshot *next;  /* newer than now; NULL: none */
    uint64_t asked, looked; /* looks that were asked for, and that have been made */
    bool stop;
    struct kiln_error fault; /* of the last look; code 0: it worked */
};

static void snapshot_free(struct snapshot *snapshot)
{
    if (!snapshot)
        return;
    kiln_router_reader_free(snapshot->reader);
    kiln_router_free(snapshot->router);
    kiln_lora_list_release(&snapshot->list);
    free(snapshot);
}

/* --- the thread ------------------------------------------------------------------------------- */

static int build_of(const struct kiln_routes *routes, const char *texts, size_t len,
                    uint64_t version, struct kiln_router **ret, struct kiln_error *err)
{
    struct kiln_router_lora *loras = NULL;
    size_t count = 0;
    int rc = kiln_lora_file_read(texts, len, "the registry", &loras, &count, err);
    return rc ? rc : kiln_router_build(loras, count, version, routes->lexicon, ret, err);
}

/* The bytes of the texts of one LoRA; 0: this release cannot route to it. */
static size_t known_bytes(const struct kiln_routes *routes, json_t *lora)
{
    struct kiln_lora_facts facts;
    struct kiln_error why = {.text = "no memory"};
    char *text = json_dumps(lora, JSON_COMPACT);
    const int rc = text ? kiln_lora_file_try(text, "the registry", routes->lexicon, &facts, &why)
                        : KILN_NO_MEMORY;
    const size_t bytes = rc ? 0 : strlen(text);
    if (rc)
        kiln_log(KILN_LOG_WARNING, "lora_not_routable", kiln_f("error", "%s", why.text));
    free(text);
    return bytes;
}

/* The registry's texts that this release can read, in order of the names, up to the bounds of the
 * router.  Another release may have written keys that this one does not know, and the registry has
 * no such bounds.  If no router could be built, jobs would wait for ever. */
static char *readable(const struct kiln_routes *routes, const struct kiln_lora_list *list)
{
    json_error_t at;
    json_t *root = json_loadb(list->texts, list->texts_len, 0, &at), *lora;
    json_t *kept = json_array();
    size_t i, sum = sizeof "{\"loras\":[]}";
    json_array_foreach(json_object_get(root, "loras"), i, lora)
    {
        const size_t bytes = known_bytes(routes, lora);
        if (json_array_size(kept) == KILN_ROUTER_LORAS_MAX || sum + bytes > KILN_LORA_FILE_MAX) {
            kiln_log(KILN_LOG_ERROR, "loras_not_routable",
                     kiln_f("loras", "%zu", json_array_size(json_object_get(root, "loras")) - i),
                     kiln_f("error",
                            "the router takes %d LoRAs, with %d bytes of texts; disable "
                            "some with `kiln lora edit NAME --disable`",
                            KILN_ROUTER_LORAS_MAX, KILN_LORA_FILE_MAX));
            break;
        }
        if (bytes)
            (void)json_array_append(kept, lora);
        sum += bytes + 1;
    }
    json_decref(root);
    root = json_pack("{s:o}", "loras", kept);
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

static bool stops(void *arg)
{
    struct kiln_routes *routes = arg;
    pthread_mutex_lock(&routes->lock);
    const bool stop = routes->stop;
    pthread_mutex_unlock(&routes->lock);
    return stop;
}

static int build(struct kiln_routes *routes, struct snapshot *snapshot, struct kiln_error *err)
{
    const struct kiln_lora_list *list = &snapshot->list;
    int rc = build_of(routes, list->texts, list->texts_len, list->version, &snapshot->router, err);
    char *texts = rc == KILN_BAD_INPUT ? readable(routes, list) : NULL;
    if (texts)
        rc = build_of(routes, texts, strlen(texts), list->version, &snapshot->router, err);
    free(texts);
    if (rc == 0 && routes->embedder)
        rc = kiln_embedding_loras(routes->embedder, snapshot->router, routes->vectors, stops,
                                  routes, err);
    if (rc == 0 && !(snapshot->reader = kiln_router_reader_new(snapshot->router)))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory to route prompts");
    return rc;
}

/* *have: the version that was handed over last; KILN_LORA_NOW: none. */
static int look(struct kiln_routes *routes, struct kiln_ledger *ledger, uint64_t *have,
                struct kiln_error *err)
{
    bool changed = false;
    struct snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (!snapshot)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the registry of LoRAs");
    const int64_t began_ms = kiln_clock_ms();
    int rc =
        kiln_lora_list(ledger, routes->pool, KILN_LORA_NOW, *have, &snapshot->list, &changed, err);
    rc = rc || !changed ? rc : build(routes, snapshot, err);
    if (rc || !changed) {
        snapshot_free(snapshot);
        return rc;
    }
    *have = snapshot->list.version;
    kiln_log(KILN_LOG_INFO, "loras_loaded",
             kiln_f("version", "%llu", (unsigned long long)snapshot->list.version),
             kiln_f("loras", "%zu", snapshot->list.count),
             kiln_f("routable", "%zu", kiln_router_count(snapshot->router)),
             kiln_f("embedder", "%s",
                    routes->embedder ? kiln_embedding_model_id(routes->embedder) : "none"),
             kiln_f("ms", "%lld", (long long)(kiln_clock_ms() - began_ms)));
    pthread_mutex_lock(&routes->lock);
    snapshot_free(routes->next);
    routes->next = snapshot;
    pthread_mutex_unlock(&routes->lock);
    return 0;
}

/* Waits for the next look; false: there is none. */
static bool wait_turn(struct kiln_routes *routes, int least_ms, uint64_t *ret_asked)
{
    struct timespec least = kiln_deadline_in(least_ms), most = kiln_deadline_in(LOOK_MS);
    int waited = 0;
    pthread_mutex_lock(&routes->lock);
    while (!routes->stop && least_ms > 0 && waited == 0)
        waited = pthread_cond_timedwait(&routes->changed, &routes->lock, &least);
    waited = 0;
    while (!routes->stop && routes->asked == routes->looked && waited == 0)
        waited = pthread_cond_timedwait(&routes->changed, &routes->lock, &most);
    const bool goes_on = !routes->stop;
    *ret_asked = routes->asked;
    pthread_mutex_unlock(&routes->lock);
    return goes_on;
}

static void *follow(void *arg)
{
    struct kiln_routes *routes = arg;
    struct kiln_outage outage = {.away = "lora_registry_away",
                                 .back = "lora_registry_back",
                                 .effect = "new versions of the registry are not seen"};
    struct kiln_ledger *ledger = NULL;
    uint64_t have = KILN_LORA_NOW, asked = 0;
    int pause_ms = 0;
    do {
        struct kiln_error err = {0};
        int rc =
            ledger ? 0 : kiln_ledger_open(routes->config, "kiln-scheduler loras", &ledger, &err);
        rc = rc ? rc
                : kiln_lora_folder_register(
                      routes->folder, ledger,
                      have == KILN_LORA_NOW ? FOLDER_FIRST_MS : FOLDER_NEXT_MS, &err);
        rc = rc ? rc : look(routes, ledger, &have, &err);
        pause_ms = rc ? kiln_outage_fail(&outage, &err) : 0;
        pause_ms = rc && pause_ms < RETRY_MS ? RETRY_MS : pause_ms;
        if (rc == 0)
            kiln_outage_over(&outage);
        pthread_mutex_lock(&routes->lock);
        routes->fault = rc ? err : (struct kiln_error){0};
        routes->looked = asked;
        pthread_cond_broadcast(&routes->changed);
        pthread_mutex_unlock(&routes->lock);
    } while (wait_turn(routes, pause_ms, &asked));
    kiln_ledger_close(ledger);
    return NULL;
}

/* --- opening ---------------------------------------------------------------------------------- */

int kiln_routes_check(const struct kiln_config *config, struct kiln_error *err)
{
    const char *dir = kiln_embedding_dir(config);
    struct kiln_embedding_model *model = NULL;
    int rc = dir ? kiln_embedding_model_open(dir, &model, err) : 0;
    kiln_embedding_model_close(model);
    return rc;
}

static int open_embedder(struct kiln_routes *routes, struct kiln_error *err)
{
    const char *dir = kiln_embedding_dir(routes->config);
    int rc = dir ? kiln_embedding_model_open(dir, &routes->embedder, err) : 0;
    if (rc || !dir)
        return rc;
    routes->vectors = kiln_embedding_loras_new();
    routes->rows = malloc(KILN_MEANING_SEGMENTS * kiln_embedding_model_dims(routes->embedder));
    if (!routes->vectors || !routes->rows)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the router's embedder");
    return kiln_desk_open(routes->embedder, &routes->desk, err);
}

int kiln_routes_open(const struct kiln_config *config, struct kiln_routes **ret,
                     struct kiln_error *err)
{
    struct kiln_routes *routes = calloc(1, sizeof *routes);
    pthread_condattr_t monotonic;
    if (!routes)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the router of LoRAs");
    routes->config = config;
    routes->pool = kiln_config_text(config, KILN_KEY_POOL);
    kiln_model_card_known(config, &routes->card);
    pthread_mutex_init(&routes->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&routes->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int rc = kiln_lexicon_new(&routes->lexicon, err);
    if (rc == 0 && !(routes->folder = kiln_lora_folder_new(config, routes->lexicon)))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for the router of LoRAs");
    rc =
        rc ? rc
           : kiln_styles_file_read(kiln_config_text(config, KILN_KEY_STYLES), &routes->styles, err);
    rc = rc ? rc : open_embedder(routes, err);
    if (rc == 0 && pthread_create(&routes->thread, NULL, follow, routes) != 0)
        rc = kiln_fail(err, KILN_NO_MEMORY, "the thread of the router of LoRAs cannot be started");
    routes->started = rc == 0;
    if (rc)
        kiln_routes_close(routes);
    else
        *ret = routes;
    return rc;
}

void kiln_routes_close(struct kiln_routes *routes)
{
    if (!routes)
        return;
    if (routes->started) {
        pthread_mutex_lock(&routes->lock);
        routes->stop = true;
        pthread_cond_broadcast(&routes->changed);
        pthread_mutex_unlock(&routes->lock);
        pthread_join(routes->thread, NULL);
    }
    snapshot_free(routes->now);
    snapshot_free(routes->next);
    kiln_lora_folder_free(routes->folder);
    kiln_lexicon_free(routes->lexicon);
    kiln_styles_free(routes->styles);
    kiln_desk_close(routes->desk);
    kiln_embedding_loras_free(routes->vectors);
    kiln_embedding_model_close(routes->embedder);
    free(routes->rows);
    pthread_cond_destroy(&routes->changed);
    pthread_mutex_destroy(&routes->lock);
    free(routes);
}

/* --- the intake's side ------------------------------------------------------------------------ */

void kiln_routes_turn(struct kiln_routes *routes)
{
    struct snapshot *old = NULL;
    const struct timespec until = kiln_deadline_in(routes->now ? KILN_ROUTES_NEXT_MS : KILN_ROUTES_FIRST_MS);
    int waited = 0;
    pthread_mutex_lock(&routes->lock);
    const uint64_t ticket = ++routes->asked;
    pthread_cond_broadcast(&routes->changed);
    while (waited == 0 && routes->looked < ticket)
        waited = pthread_cond_timedwait(&routes->changed, &routes->lock, &until);
    if (routes->next) {
        old = routes->now;
        routes->now = routes->next;
        routes->next = NULL;
    }
    pthread_mutex_unlock(&routes->lock);
    snapshot_free(old);
    routes->prepared_ms = kiln_clock_ms() + KILN_ROUTES_EMBED_MS;
}

static int unavailable(struct kiln_routes *routes, struct kiln_error *err)
{
    pthread_mutex_lock(&routes->lock);
    const struct kiln_error fault = routes->fault;
    pthread_mutex_unlock(&routes->lock);
    return kiln_fail(err, KILN_UNAVAILABLE, "the registry of LoRAs cannot be read: %s",
                     fault.code ? fault.text : "it is still being loaded");
}

/* The words of the user, without those of the style: a preset's "neon accents" ask for no LoRA. */
static size_t take_own_words(struct kiln_routes *routes, const struct kiln_job *job)
{
    const struct kiln_styles *styles = routes->styles ? routes->styles : kiln_styles_builtin();
    const struct kiln_style *style =
        job->style ? kiln_styles_find(styles, job->style, strlen(job->style)) : NULL;
    size_t len;
    const char *own = kiln_style_own(style, job->prompt, &len);
    const size_t negative = kiln_style_own_negative(style, job->negative_prompt);
    memcpy(routes->own, own, len);
    routes->own[len] = '\0';
    memcpy(routes->negative, job->negative_prompt, negative);
    routes->negative[negative] = '\0';
    return strlen(job->prompt) - len;
}

/* Its texts are in the scratch memory until the next one. */
static struct kiln_router_request request_of(struct kiln_routes *routes, const struct kiln_job *job)
{
    return (struct kiln_router_request){
        .prompt = routes->own,
        .negative_prompt = routes->negative,
        .style = job->style,
        .around = take_own_words(routes, job),
        .pool = {.base = routes->card.base,
                 .variant = routes->card.variant,
                 .tenant = job->tenant,
                 .licences = kiln_config_text(routes->config, KILN_KEY_ROUTER_LICENCES)}};
}

/* A prompt that the router cannot read has no texts; choosing for it says why. */
static size_t texts_of(struct kiln_routes *routes, const struct kiln_job *job,
                       const char *ret[KILN_MEANING_SEGMENTS])
{
    const struct kiln_router_request request = request_of(routes, job);
    struct kiln_error unread;
    size_t count;
    return kiln_router_segments(routes->now->reader, &request, ret, &count, &unread) ? 0 : count;
}

/* Makes the vectors of the prompts of the jobs among jobs[0 .. count) that have loras "auto". */
static int prepare(struct kiln_routes *routes, const struct kiln_new_job *jobs, size_t count,
                   struct kiln_error *err)
{
    const char *texts[KILN_MEANING_SEGMENTS];
    char *all[AHEAD * KILN_MEANING_SEGMENTS];
    size_t wanted = 0;
    bool failed = false;
    if (!routes->embedder || !routes->now)
        return 0;
    const int64_t left_ms = routes->prepared_ms - kiln_clock_ms(); /* at most EMBED_MS */
    for (size_t i = 0; i < count; i++) {
        const size_t n = jobs[i].job.lora_auto ? texts_of(routes, &jobs[i].job, texts) : 0;
        for (size_t t = 0; t < n; t++)
            failed |= !(all[wanted++] = strdup(texts[t]));
    }
    int rc = failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for prompts")
                    : kiln_desk_prepare(routes->desk, (const char *const *)all, wanted,
                                        left_ms > 0 ? (int)left_ms : 0, err);
    for (size_t i = 0; i < wanted; i++)
        free(all[i]);
    return rc != KILN_TIMEOUT
               ? rc
               : kiln_fail(err, rc,
                           "the router's embedder has not finished the prompts of a page within "
                           "%d s",
                           KILN_ROUTES_EMBED_MS / 1000);
}

/* The vectors that `prepare` has made. */
static int find_vectors(struct kiln_routes *routes, struct kiln_router_request *request,
                        const int8_t *ret[KILN_MEANING_SEGMENTS], struct kiln_error *err)
{
    const char *texts[KILN_MEANING_SEGMENTS];
    int rc = kiln_router_segments(routes->now->reader, request, texts, &request->vector_count, err);
    for (size_t i = 0; i < request->vector_count && !rc; i++) {
        int8_t *row = routes->rows + i * kiln_embedding_model_dims(routes->embedder);
        ret[i] = row;
        if (!kiln_desk_find(routes->desk, texts[i], row))
            rc = kiln_fail(err, KILN_UNAVAILABLE, "a prompt has no vectors yet");
    }
    request->vectors = ret;
    return rc;
}

static int route(struct kiln_routes *routes, struct kiln_job *job, struct kiln_error *err)
{
    const struct snapshot *snapshot = routes->now;
    const int8_t *vectors[KILN_MEANING_SEGMENTS];
    struct kiln_route route;
    struct kiln_router_request request = request_of(routes, job);
    int rc = routes->embedder ? find_vectors(routes, &request, vectors, err) : 0;
    rc = rc ? rc : kiln_router_route(snapshot->reader, &request, &route, err);
    if (rc)
        return rc;
    job->lora_count = 0;
    for (uint32_t i = 0; i < route.count; i++) {
        struct kiln_lora *lora = &job->loras[job->lora_count++];
        *lora = (struct kiln_lora){.scale = route.picks[i].scale};
        snprintf(lora->name, sizeof lora->name, "%s",
                 kiln_router_lora(snapshot->router, route.picks[i].lora)->name);
    }
    rc = kiln_lora_pin(&snapshot->list, job, err);
    const size_t added = strlen(route.prompt) - strlen(routes->own);
    if (rc == 0 && !kiln_job_draw(job, route.prompt, added))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for a job");
    if (rc == 0 && !(job->route = strdup(route.reason)))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for a job");
    return rc;
}

int kiln_routes_choose(struct kiln_routes *routes, struct kiln_job *job, struct kiln_error *err)
{
    if (!job->lora_auto && job->lora_count == 0)
        return 0;
    if (!routes->now)
        return unavailable(routes, err);
    return job->lora_auto ? route(routes, job, err) : kiln_lora_pin(&routes->now->list, job, err);
}

bool kiln_routes_are_wanted(const struct kiln_new_job *jobs, size_t count)
{
    bool any = false;
    for (size_t i = 0; i < count; i++)
        any |= jobs[i].job.lora_auto || jobs[i].job.lora_count > 0;
    return any;
}

int kiln_routes_choose_all(struct kiln_routes *routes, const struct kiln_new_job *jobs,
                           size_t count, int (*choose)(void *arg, size_t at, struct kiln_error *),
                           void *arg, struct kiln_error *err)
{
    int rc = 0;
    for (size_t from = 0; from < count && rc == 0; from += AHEAD) {
        const size_t some = count - from < AHEAD ? count - from : AHEAD;
        rc = prepare(routes, jobs + from, some, err);
        for (size_t i = from; i < from + some && rc == 0; i++)
            rc = choose(arg, i, err);
    }
    return rc;
}
