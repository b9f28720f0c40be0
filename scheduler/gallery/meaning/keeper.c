/* keeper.c - see keeper.h. */
#include "scheduler/gallery/meaning/keeper.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/embed/captions/library.h"
#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "schemas/telemetry/metrics.h"
#include "storage/formats/card/model_words.h"
#include "storage/ledger/ledger.h"

#define OPEN_AFTER_MS 30000
#define ENCODER_THREADS 1 /* beside workers that render */
#define REST_MAX_MS 1000

enum state {
    WAITING, /* until somebody searches */
    READY,
    OFF,   /* by the settings */
    FAILED /* the embedder cannot be opened */
};

struct kiln_keeper {
    const struct kiln_config *config;
    int64_t open_ms; /* at the latest */
    _Atomic bool wanted;
    _Atomic int state;
    struct kiln_embedder *embedder; /* of the thread that follows, from here to mixed */
    struct kiln_reuse_words *words; /* of a model with a head; NULL: there is none */
    struct kiln_meaning *meaning;
    struct kiln_ledger *reader, *writer;
    bool loaded;
    _Atomic(struct kiln_mixed *) mixed;
};

int kiln_keeper_new(const struct kiln_config *config, struct kiln_keeper **ret,
                    struct kiln_error *err)
{
    struct kiln_keeper *keeper = calloc(1, sizeof *keeper);
    if (!keeper)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a search by meaning");
    keeper->config = config;
    keeper->open_ms = kiln_clock_ms() + OPEN_AFTER_MS;
    if (strcmp(kiln_config_text(config, KILN_KEY_GALLERY_EMBEDDER), "none") == 0)
        keeper->state = OFF;
    *ret = keeper;
    return 0;
}

void kiln_keeper_free(struct kiln_keeper *keeper)
{
    if (!keeper)
        return;
    kiln_mixed_free(keeper->mixed);
    kiln_meaning_close(keeper->meaning);
    kiln_embedder_close(keeper->embedder);
    kiln_reuse_words_free(keeper->words);
    kiln_ledger_close(keeper->reader), kiln_ledger_close(keeper->writer);
    free(keeper);
}

/* --- opening -------------------------------------------------------------------------------- */
/* The model's own caption features; KILN_NOT_FOUND if it has no fit.  A head is used if there is
 * one. */
static int open_captions(const struct kiln_config *config, struct kiln_embedder **ret,
                         struct kiln_error *err)
{
    const char *model = kiln_config_text(config, KILN_KEY_MODEL);
    struct kiln_caption_encoder encoder;
    char fit[KILN_PATH_MAX], head[KILN_PATH_MAX];
    snprintf(fit, sizeof fit, "%s/%s", model, KILN_CAPTION_FIT_NAME);
    snprintf(head, sizeof head, "%s/%s", model, KILN_CAPTION_HEAD_NAME);
    if (!model[0] || access(fit, R_OK) != 0)
        return kiln_fail(err, KILN_NOT_FOUND, "the model has no %s", KILN_CAPTION_FIT_NAME);
    int code = kiln_caption_library_open(NULL, model, ENCODER_THREADS, &encoder, err);
    const bool has_head = access(head, F_OK) == 0;
    return code ? code : kiln_captions_open(&encoder, fit, has_head ? head : NULL, ret, err);
}

static int open_embedder(struct kiln_keeper *keeper, struct kiln_error *err)
{
    const char *embedder = kiln_config_text(keeper->config, KILN_KEY_GALLERY_EMBEDDER);
    if (strcmp(embedder, "auto") == 0)
        return open_captions(keeper->config, &keeper->embedder, err);
    return kiln_embedder_open(embedder, NULL, &keeper->embedder, err);
}

static int open_reader(struct kiln_keeper *keeper, struct kiln_error *err)
{
    return keeper->reader
               ? 0
               : kiln_ledger_open_reading(keeper->config, "kiln-gallery", 0, &keeper->reader, err);
}

static int open_sessions(struct kiln_keeper *keeper, struct kiln_error *err)
{
    int code = open_reader(keeper, err);
    if (code == 0 && !keeper->writer)
        code = kiln_ledger_open(keeper->config, "kiln-gallery", &keeper->writer, err);
    if (code == 0)
        kiln_ledger_in_background(keeper->writer);
    return code;
}

static int open_all(struct kiln_keeper *keeper, struct kiln_error *err)
{
    int code = keeper->embedder ? 0 : open_embedder(keeper, err);
    if (code == 0)
        code = kiln_meaning_open(kiln_config_text(keeper->config, KILN_KEY_POOL), keeper->embedder,
                                 &keeper->meaning, err);
    if (code == 0 && kiln_embedder_info(keeper->embedder)->learned) {
        keeper->words = kiln_model_words_own(kiln_config_text(keeper->config, KILN_KEY_MODEL));
        kiln_meaning_limit(keeper->meaning, keeper->words);
    }
    return code;
}

/* Searches may begin. */
static int open_mixed(struct kiln_keeper *keeper, struct kiln_error *err)
{
    struct kiln_mixed *mixed = NULL;
    int code = kiln_mixed_new(keeper->config, keeper->meaning, &mixed, err);
    atomic_store(&keeper->mixed, mixed);
    if (code == 0)
        atomic_store(&keeper->state, READY);
    return code;
}

int kiln_keeper_open_reading(const struct kiln_config *config, struct kiln_keeper **ret,
                             uint32_t *ret_prompts, uint32_t *ret_waiting, struct kiln_error *err)
{
    struct kiln_keeper *keeper = NULL;
    struct kiln_error why = {.text = "gallery_embedder is none"};
    uint32_t pictures;
    int code = kiln_keeper_new(config, &keeper, err);
    if (code != 0)
        return code;
    if (keeper->state == OFF || open_all(keeper, &why) != 0)
        code = kiln_fail(err, why.code == KILN_NO_MEMORY ? KILN_NO_MEMORY : KILN_CONFIG,
                         "there is no search by meaning: %s", why.text);
    code = code ? code : open_reader(keeper, err);
    code = code ? code : kiln_meaning_load(keeper->meaning, keeper->reader, err);
    code = code ? code : open_mixed(keeper, err);
    if (code != 0) {
        kiln_keeper_free(keeper);
        return code;
    }
    kiln_meaning_progress(keeper->meaning, &pictures, ret_prompts, ret_waiting);
    *ret = keeper;
    return 0;
}

static void give_up(struct kiln_keeper *keeper, const struct kiln_error *err)
{
    bool none = err->code == KILN_NOT_FOUND &&
                strcmp(kiln_config_text(keeper->config, KILN_KEY_GALLERY_EMBEDDER), "auto") == 0;
    atomic_store(&keeper->state, none ? OFF : FAILED);
    kiln_log(none ? KILN_LOG_INFO : KILN_LOG_WARNING, "meaning_off",
             kiln_f("reason", "%s", err->text), kiln_f("effect", "searches look at words only"));
}

/* --- in step -------------------------------------------------------------------------------- */
int kiln_keeper_note(void *arg, uint64_t job, bool gone, struct kiln_error *err)
{
    struct kiln_keeper *keeper = arg;
    if (!keeper->loaded || kiln_meaning_note(keeper->meaning, job, gone, err) == 0)
        return 0;
    keeper->loaded = false; /* more than it can hold: the next step reads everything again */
    return 0;
}

bool kiln_keeper_waits(struct kiln_keeper *keeper)
{
    return atomic_load(&keeper->state) == WAITING;
}

bool kiln_keeper_is_due(struct kiln_keeper *keeper)
{
    return kiln_keeper_waits(keeper) &&
           (atomic_load(&keeper->wanted) || kiln_clock_ms() >= keeper->open_ms);
}

int kiln_keeper_rest_ms(const struct kiln_keeper *keeper, int64_t took_ms)
{
    const int rest = keeper->meaning ? kiln_meaning_rest(keeper->meaning) : 0;
    return (int)(took_ms * rest < REST_MAX_MS ? took_ms * rest : REST_MAX_MS);
}

static int load(struct kiln_keeper *keeper, struct kiln_error *err)
{
    const int64_t begin = kiln_clock_ms();
    uint32_t pictures, prompts, waiting;
    int code = kiln_meaning_load(keeper->meaning, keeper->reader, err);
    if (code != 0)
        return code;
    keeper->loaded = true;
    kiln_meaning_progress(keeper->meaning, &pictures, &prompts, &waiting);
    kiln_log(KILN_LOG_INFO, "meaning_loaded",
             kiln_f("embedder", "%s", kiln_embedder_info(keeper->embedder)->recipe),
             kiln_f("pictures", "%u", pictures), kiln_f("prompts", "%u", prompts),
             kiln_f("waiting", "%u", waiting),
             kiln_f("ms", "%lld", (long long)(kiln_clock_ms() - begin)));
    return 0;
}

int kiln_keeper_step(struct kiln_keeper *keeper, bool replaced, bool *ret_more,
                     struct kiln_error *err)
{
    struct kiln_error why = {0};
    *ret_more = false;
    if (!keeper->meaning && kiln_keeper_is_due(keeper) && open_all(keeper, &why) != 0)
        give_up(keeper, &why);
    if (!keeper->meaning)
        return 0;
    if (replaced)
        keeper->loaded = false; /* until a load has succeeded */
    int code = open_sessions(keeper, err);
    if (code == 0 && !keeper->loaded)
        code = load(keeper, err);
    if (code == 0)
        code = kiln_meaning_step(keeper->meaning, keeper->reader, keeper->writer, ret_more, err);
    if (code == 0 && !atomic_load(&keeper->mixed))
        code = open_mixed(keeper, err);
    return code;
}

/* --- any thread ----------------------------------------------------------------------------- */
struct kiln_mixed *kiln_keeper_mixed(struct kiln_keeper *keeper)
{
    atomic_store(&keeper->wanted, true);
    return atomic_load(&keeper->mixed);
}

const char *kiln_keeper_says(struct kiln_keeper *keeper)
{
    switch (atomic_load(&keeper->state)) {
    case READY:
        return "A search finds pictures that have the words, and pictures whose prompts mean the "
               "same.";
    case WAITING:
        return "A search finds pictures that have the words. Search by meaning is being prepared.";
    case FAILED:
        return "A search finds pictures that have the words. Search by meaning is off because its "
               "model could not be opened; the gallery's log has the reason.";
    default:
        return "A search finds pictures that have the words. There is no search by meaning, "
               "because "
               "no embedder is set.";
    }
}

void kiln_keeper_gauges(struct kiln_keeper *keeper, struct kiln_text *text)
{
    uint32_t pictures = 0, prompts = 0, waiting = 0;
    const bool open = atomic_load(&keeper->mixed) != NULL;
    if (open)
        kiln_meaning_progress(keeper->meaning, &pictures, &prompts, &waiting);
    kiln_metric_single(text, "kiln_gallery_meaning_prompts", "gauge",
                       "Distinct prompts that a search by meaning compares.", prompts - waiting);
    kiln_metric_single(text, "kiln_gallery_meaning_waiting", "gauge",
                       "Distinct prompts that have no vector yet.", waiting);
    kiln_metric_single(text, "kiln_gallery_meaning_complete", "gauge",
                       "1 once the tokens of prompts are copied, so that searches are at their "
                       "fastest.",
                       open && kiln_meaning_has_copied(keeper->meaning));
}
