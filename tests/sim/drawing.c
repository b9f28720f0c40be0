/* drawing.c - stands for the engine, the encoders' codecs and the object store.
 *
 * A picture takes virtual time, step by step, and sees its stop flags as the real engine does.  The
 * last step is the second half of a batch, and may overlap with the first steps of the next.
 * Its files are the text of their own hash: enough for names, sizes and the check after a put.
 * Like a GPU it does not always draw the same bits twice, so another attempt may store other keys.
 * The words @crash and @fail in a prompt do what they do to the test card engine.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/room.h"
#include "storage/objects/store.h"
#include "tests/sim/servers.h"
#include "worker/engine/renderer.h"
#include "worker/stages/encode.h"
#include "worker/stages/object_key.h"
#include "worker/stages/start_load.h"

/* --- the engine ------------------------------------------------------------------------------ */
static bool stopped(const DiffusionZItem *item)
{
    return item->cancel && __atomic_load_n(item->cancel, __ATOMIC_ACQUIRE) != 0;
}

static void draw_item(const DiffusionZItem *item, DiffusionZOutput *output)
{
    if (stopped(item)) {
        output->error_code = KILN_CANCELLED;
    } else if (strstr(item->prompt, "@fail")) {
        output->error_code = KILN_DEVICE;
        output->error_msg = strdup("the prompt asked for it");
    }
}

struct kiln_renderer_run {
    DiffusionZTimes times;
    int64_t last_step;
};

static int begin_batch(struct kiln_renderer *engine, const DiffusionZBatch *batch,
                       DiffusionZOutput *outputs, struct kiln_renderer_run **ret,
                       struct kiln_error *err)
{
    (void)engine;
    struct kiln_renderer_run *run = malloc(sizeof *run);
    if (!run)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a batch");
    memset(outputs, 0, (size_t)batch->item_count * sizeof *outputs);
    run->times = (DiffusionZTimes){
        .lora_ms = batch->lora_count ? 50 : 0, .denoise_ms = 100, .device_ms = 100};
    sim_sleep(batch->lora_count ? 50 * SIM_MS : 0);
    for (int32_t step = 0; step < batch->num_steps; step++) {
        run->last_step = sim_between(20, 120) * SIM_MS * batch->item_count;
        sim_sleep(step + 1 < batch->num_steps ? run->last_step : 0);
        __atomic_store_n(batch->progress, step + 1, __ATOMIC_RELEASE);
        for (int32_t i = 0; i < batch->item_count; i++)
            if (strstr(batch->items[i].prompt, "@crash") && !stopped(&batch->items[i]))
                sim_exit(139);
    }
    for (int32_t i = 0; i < batch->item_count; i++)
        draw_item(&batch->items[i], &outputs[i]);
    *ret = run;
    return 0;
}

static int finish_batch(struct kiln_renderer_run *run, DiffusionZTimes *ret_times,
                        struct kiln_error *err)
{
    (void)err;
    sim_sleep(run->last_step);
    *ret_times = run->times;
    free(run);
    return 0;
}

static int32_t count_steps(const struct kiln_renderer *engine, const DiffusionZBatch *batch)
{
    (void)engine;
    return batch->num_steps;
}

static void release_output(DiffusionZOutput *output)
{
    free(output->error_msg);
    memset(output, 0, sizeof *output);
}

static void close_engine(struct kiln_renderer *engine)
{
    free(engine);
}

int kiln_renderer_open(const struct kiln_config *config, struct kiln_load_watch *watch,
                       struct kiln_renderer **ret, struct kiln_error *err)
{
    (void)config;
    (void)watch;
    struct kiln_renderer *engine = malloc(sizeof *engine);
    if (!engine)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an engine");
    *engine = (struct kiln_renderer){.name = "sim",
                                     .model_name = "sim",
                                     .model_hash = "0123456789abcdef",
                                     .renders_any_model = true,
                                     .forwards = count_steps,
                                     .begin = begin_batch,
                                     .finish = finish_batch,
                                     .release = release_output,
                                     .close = close_engine};
    sim_sleep(sim_between(100, 2000) * SIM_MS);
    *ret = engine;
    return 0;
}

void kiln_renderer_close(struct kiln_renderer *engine)
{
    if (engine)
        engine->close(engine);
}

/* --- starts ----------------------------------------------------------------------------------- */
/* No job of the simulation has one. */
int kiln_ledger_latents(struct kiln_ledger *ledger, const char *pool, const uint64_t *ids,
                        size_t count, struct kiln_latent_row *ret, struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)ids, (void)count, (void)ret;
    return kiln_fail(err, KILN_UNSUPPORTED, "the simulated ledger has no latents");
}

int kiln_ledger_like_latents(struct kiln_ledger *ledger, const char *pool, uint64_t job,
                             uint32_t most, struct kiln_latent_row *ret, uint32_t *ret_count,
                             struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)job, (void)most, (void)ret, (void)ret_count;
    return kiln_fail(err, KILN_UNSUPPORTED, "the simulated ledger has no latents");
}

int kiln_ledger_prompts(struct kiln_ledger *ledger, const char *pool, const uint64_t *ids,
                        size_t count, char **ret, struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)ids, (void)count, (void)ret;
    return kiln_fail(err, KILN_UNSUPPORTED, "the simulated ledger has no prompts");
}

int kiln_ledger_model_hash(struct kiln_ledger *ledger, const char *pool, const char *model,
                           char ret[65], struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)model, (void)ret;
    return kiln_fail(err, KILN_UNSUPPORTED, "the simulated ledger has no models");
}

int kiln_start_load(struct kiln_store *store, const struct kiln_job *job,
                    const struct kiln_latent_row *row, const struct kiln_start_want *want,
                    struct kiln_start *ret, struct kiln_error *err)
{
    (void)store, (void)job, (void)row, (void)want, (void)ret;
    return kiln_fail(err, KILN_UNSUPPORTED, "the simulated store has no starts");
}

bool kiln_donor_measured(const struct kiln_renderer *engine, const struct kiln_job *job,
                         const struct kiln_latent_row *row)
{
    (void)engine, (void)job, (void)row;
    return true;
}

int kiln_donor_load(struct kiln_store *store, const struct kiln_latent_row *row,
                    const struct kiln_start_want *want, struct kiln_start *ret,
                    struct kiln_error *err)
{
    return kiln_start_load(store, NULL, row, want, ret, err);
}

int kiln_donor_prepare(const struct kiln_start_want *want, struct kiln_picture_size to,
                       uint32_t side, struct kiln_start *start, struct kiln_error *err)
{
    (void)want, (void)to, (void)side, (void)start;
    return kiln_fail(err, KILN_UNSUPPORTED, "the simulated store has no starts");
}

/* --- encoding -------------------------------------------------------------------------------- */
static void name_bytes(char ret[65], uint64_t job, const char *role)
{
    uint64_t hash = 14695981039346656037u ^ job;
    for (const char *c = role; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 1099511628211u;
    if (sim_chance(200))
        hash ^= sim_below(1000);
    snprintf(ret, 65, "%016llx%048llx", (unsigned long long)hash, (unsigned long long)job);
}

static void add_file(struct kiln_picture *picture, const char *role, const char *type)
{
    struct kiln_picture_object *object = &picture->objects[picture->object_count++];
    bool latent = strcmp(role, "latent") == 0;
    object->role = role;
    object->content_type = type;
    name_bytes(object->sha256, picture->job->id, role);
    if (latent)
        kiln_latent_key(object->key, picture->job->created_ms, picture->job->id, "sim",
                        object->sha256);
    else
        kiln_image_key(object->key, picture->job->created_ms, picture->job->id, role,
                       object->sha256);
    object->data = (uint8_t *)strdup(object->sha256);
    object->size = 64;
    object->width = object->height = 64;
}

int kiln_encode_picture(struct kiln_picture *picture, const struct kiln_encode_options *options,
                        struct kiln_error *err)
{
    (void)options;
    (void)err;
    sim_sleep(sim_between(1, 20) * SIM_MS);
    add_file(picture, "full", "image/webp");
    add_file(picture, "latent", "application/zstd");
    picture->latent_encoding = "sim";
    picture->latent_states = 1;
    return 0;
}

/* --- the object store ------------------------------------------------------------------------ */
struct kiln_store {
    int64_t limit_us;
};

static struct {
    char (*keys)[128];
    size_t count, room;
} warehouse;

bool sim_store_has(const char *key)
{
    for (size_t i = warehouse.count; i-- > 0;)
        if (strcmp(warehouse.keys[i], key) == 0)
            return true;
    return false;
}

static void keep(void *arg)
{
    const char *key = arg;
    if (sim_store_has(key))
        return;
    warehouse.keys =
        kiln_room(warehouse.keys, warehouse.count, &warehouse.room, sizeof *warehouse.keys);
    if (!warehouse.keys)
        abort();
    snprintf(warehouse.keys[warehouse.count++], sizeof *warehouse.keys, "%s", key);
}

int kiln_store_open(const struct kiln_config *config, struct kiln_store **ret,
                    struct kiln_error *err)
{
    (void)config;
    struct kiln_store *store = calloc(1, sizeof *store);
    if (!store)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a store");
    store->limit_us = 5 * SIM_S;
    *ret = store;
    return 0;
}

void kiln_store_close(struct kiln_store *store)
{
    free(store);
}

int kiln_store_put(struct kiln_store *store, struct kiln_put *puts, size_t count,
                   struct kiln_error *err)
{
    int first = 0;
    for (size_t i = 0; i < count; i++) {
        char *key = strdup(puts[i].key);
        enum sim_answer answer = sim_send(&sim_fleet.store, keep, key, free, store->limit_us, NULL);
        puts[i].code = answer == SIM_ANSWERED ? 0
                       : answer == SIM_CUT    ? KILN_UNAVAILABLE
                                              : KILN_TIMEOUT;
        memcpy(puts[i].sha256, puts[i].data, 64);
        puts[i].sha256[64] = '\0';
        if (puts[i].code && !first)
            first = kiln_fail(err, puts[i].code, "the store does not take %s", puts[i].key);
    }
    return first;
}

int kiln_store_probe(struct kiln_store *store, size_t bytes, struct kiln_error *err)
{
    struct kiln_put put = {.key = "probe",
                           .data = "0000000000000000000000000000000000000000"
                                   "000000000000000000000000"};
    (void)bytes;
    return kiln_store_put(store, &put, 1, err);
}

/* A request to this store is one try in any case. */
void kiln_store_try_once(struct kiln_store *store, bool once)
{
    (void)store, (void)once;
}

/* Asked and answered; nothing is kept. */
static void look(void *arg)
{
    (void)arg;
}

int kiln_store_reach(struct kiln_store *store, struct kiln_error *err)
{
    enum sim_answer answer = sim_send(&sim_fleet.store, look, NULL, NULL, store->limit_us, NULL);
    return answer == SIM_ANSWERED
               ? 0
               : kiln_fail(err, answer == SIM_CUT ? KILN_UNAVAILABLE : KILN_TIMEOUT,
                           "the store does not answer");
}

/* Asked for files of LoRAs alone, of which the registry of the simulation has none. */
int kiln_store_get(struct kiln_store *store, const char *key, size_t max, void **ret_data,
                   size_t *ret_size, struct kiln_error *err)
{
    (void)store, (void)max, (void)ret_data, (void)ret_size;
    return kiln_fail(err, KILN_NOT_FOUND, "the simulation stores no %s", key);
}

int kiln_store_head(struct kiln_store *store, const char *key, uint64_t *ret_size,
                    struct kiln_error *err)
{
    (void)store, (void)ret_size;
    return kiln_fail(err, KILN_NOT_FOUND, "the simulation stores no %s", key);
}
