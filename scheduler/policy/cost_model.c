/* cost_model.c - one table of robust means, rows found by hash and kept in order of correction.
 *
 * A lookup never fails, it falls back: this batch on this class of device, this batch anywhere
 * times the speed of the class, pictures of this size times their number, and at last the formula
 * times the speed of the model.
 */
#include "scheduler/policy/cost_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/policy/slots.h"
#include "scheduler/policy/treap.h"

/* Assumed before the first measurement: an H200 at a good part of its bf16 rate. */
#define FIRST_SECONDS_PER_TFLOP (1.0 / 500.0)
#define FIRST_SWITCH_SECONDS 1.0
#define FIRST_FETCH_SECONDS 1.0
#define SECONDS_MAX 86400.0
#define SMOOTHING 0.25    /* weight of a new value once the mean has settled */
#define CLIP 3.0          /* usual deviations that a value may lie off before it is clipped */
#define SPREAD_MIN 0.05   /* of the mean: nothing is known better than that */
#define SPREAD_FIRST 0.5  /* of the first value */
#define ALLOWANCE_MAX 6.0 /* doublings for outliers in a row */

struct row {
    struct kiln_cost_row kept;
    uint64_t key;
    int8_t run; /* outliers in a row: above (+) or below (-) */
};

struct kiln_cost_model {
    struct kiln_slots slots;
    struct row *rows;
    struct kiln_treap_node *by_turn;
    uint32_t turns; /* root: rows by turn of their last correction */
    uint64_t turn;
};

struct kiln_cost_model *kiln_cost_model_new(uint32_t rows_max)
{
    struct kiln_cost_model *costs = calloc(1, sizeof(*costs));
    if (!costs)
        return NULL;
    costs->turns = KILN_NONE;
    costs->rows = calloc(rows_max, sizeof(*costs->rows));
    costs->by_turn = calloc(rows_max, sizeof(*costs->by_turn));
    if (!costs->rows || !costs->by_turn || kiln_slots_init(&costs->slots, rows_max, NULL)) {
        kiln_cost_model_free(costs);
        return NULL;
    }
    return costs;
}

void kiln_cost_model_free(struct kiln_cost_model *costs)
{
    if (!costs)
        return;
    kiln_slots_release(&costs->slots);
    free(costs->rows);
    free(costs->by_turn);
    free(costs);
}

/* --- keys ------------------------------------------------------------------------------------ */
/* What a row is about; the texts are borrowed. */
struct about {
    enum kiln_cost_kind kind;
    const char *model, *device, *lora_set;
    uint32_t sizes[5]; /* width, height, steps, jobs, guided */
};

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * 1099511628211ull;
    return hash;
}

/* Two of a million rows with one key are a wrong estimate, never a wrong state of a job. */
static uint64_t key_of(const struct about *about)
{
    unsigned char kind = (unsigned char)about->kind;
    uint64_t hash = mix(14695981039346656037ull, &kind, 1);
    hash = mix(hash, about->model, strlen(about->model) + 1);
    hash = mix(hash, about->device, strlen(about->device) + 1);
    hash = mix(hash, about->lora_set, strlen(about->lora_set) + 1);
    return mix(hash, about->sizes, sizeof(about->sizes));
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* What decides how many steps a batch takes: its mode, but with coarse=auto and LoRAs their set,
 * since the model's card makes coarse or exact runs of them.  The text of a set has a ':', no
 * mode's has. */
static const char *way_of(const struct kiln_cost_shape *shape)
{
    const char *mode = or_empty(shape->mode), *set = or_empty(shape->lora_set);
    return set[0] && strcmp(mode, "coarse=auto") == 0 ? set : mode;
}

/* Only whether guidance is on changes the work: it doubles the forwards.  A row is of one way to
 * run, whose text is in the place of the set; else the work does not depend on the set. */
static struct about of_batch(const struct kiln_cost_shape *shape, const char *device)
{
    return (struct about){
        KILN_COST_BATCH,
        shape->model,
        or_empty(device),
        way_of(shape),
        {shape->width, shape->height, shape->steps, shape->jobs, shape->guidance > 0}};
}

static struct about of_size(const struct kiln_cost_shape *shape, const char *device)
{
    struct about about = of_batch(shape, device);
    about.kind = KILN_COST_SIZE;
    about.sizes[3] = 0;
    return about;
}

/* Steps and guidance do not change what has to be captured. */
static struct about of_capture(const struct kiln_cost_shape *shape, const char *device)
{
    return (struct about){KILN_COST_CAPTURE,
                          shape->model,
                          or_empty(device),
                          "",
                          {shape->width, shape->height, 0, 0, 0}};
}

static struct about of_speed(const char *model, const char *device)
{
    return (struct about){KILN_COST_SPEED, model, or_empty(device), "", {0}};
}

static struct about of_load(const struct kiln_cost_load *load, const char *device,
                            const char *lora_set)
{
    return (struct about){load->kind == KILN_SWITCH_WARM ? KILN_COST_LOAD_WARM
                                                         : KILN_COST_LOAD_COLD,
                          load->model,
                          or_empty(device),
                          lora_set,
                          {0}};
}

/* Files come over one network, whatever the device. */
static struct about of_fetch(void)
{
    return (struct about){KILN_COST_FETCH, "", "", "", {0}};
}

/* The mean over all sets of a model; no set has this text. */
#define ANY_SET "*"

/* --- rows ------------------------------------------------------------------------------------ */
static struct row *find_row(const struct kiln_cost_model *costs, const struct about *about)
{
    uint64_t key = key_of(about);
    uint32_t slot = kiln_slots_find(&costs->slots, kiln_hash_u64(key));
    while (slot != KILN_NONE && costs->rows[slot].key != key)
        slot = kiln_slots_next(&costs->slots, slot);
    return slot == KILN_NONE ? NULL : &costs->rows[slot];
}

static double mean_or(const struct kiln_cost_model *costs, struct about about, double otherwise)
{
    const struct row *row = find_row(costs, &about);
    return row ? row->kept.mean : otherwise;
}

static struct row *make_row(struct kiln_cost_model *costs, const struct about *about)
{
    if (costs->slots.used == costs->slots.capacity) {
        uint32_t oldest = kiln_treap_first(costs->by_turn, costs->turns);
        kiln_treap_remove(costs->by_turn, &costs->turns, oldest);
        kiln_slots_free(&costs->slots, oldest);
    }
    uint64_t key = key_of(about);
    uint32_t slot = kiln_slots_alloc(&costs->slots, kiln_hash_u64(key));
    struct row *row = &costs->rows[slot];
    *row = (struct row){.key = key,
                        .kept = {.kind = about->kind,
                                 .width = about->sizes[0],
                                 .height = about->sizes[1],
                                 .steps = about->sizes[2],
                                 .jobs = about->sizes[3],
                                 .guided = about->sizes[4] != 0}};
    snprintf(row->kept.model, sizeof(row->kept.model), "%s", about->model);
    snprintf(row->kept.device, sizeof(row->kept.device), "%s", about->device);
    snprintf(row->kept.lora_set, sizeof(row->kept.lora_set), "%s", about->lora_set);
    costs->by_turn[slot].hi = 0;
    costs->by_turn[slot].lo = 0;
    kiln_treap_insert(costs->by_turn, &costs->turns, slot);
    return row;
}

static void touch(struct kiln_cost_model *costs, const struct row *row)
{
    uint32_t slot = (uint32_t)(row - costs->rows);
    kiln_treap_remove(costs->by_turn, &costs->turns, slot);
    costs->by_turn[slot].hi = (int64_t)++costs->turn;
    kiln_treap_insert(costs->by_turn, &costs->turns, slot);
}

/* The rule of the header: clip, then forget exponentially. */
static void correct(struct row *row, double value)
{
    struct kiln_cost_row *kept = &row->kept;
    /* The first value is often a cold one: it does not count if the second is far below it. */
    if (kept->samples == 0 || (kept->samples == 1 && value < kept->mean / 2)) {
        kept->samples++;
        kept->mean = value;
        kept->spread = SPREAD_FIRST * value;
        return;
    }
    kept->samples++;
    double off = value - kept->mean;
    double spread = fmax(kept->spread, SPREAD_MIN * kept->mean + 1e-9);
    double allowed = CLIP * spread * exp2(fmin(abs(row->run), ALLOWANCE_MAX));
    bool outlier = fabs(off) > allowed;
    if (!outlier || (off > 0) != (row->run > 0))
        row->run = 0;
    if (outlier) {
        row->run = (int8_t)(row->run + (off > 0 ? 1 : -1));
        row->run = (int8_t)(row->run > 100 ? 100 : row->run < -100 ? -100 : row->run);
        off = off > 0 ? allowed : -allowed;
    }
    /* The plain mean first, so that a strange first value is soon outvoted. */
    double share = fmax(SMOOTHING, 1.0 / kept->samples);
    kept->mean = fmax(kept->mean + share * off, 0);
    kept->spread += share * (fabs(off) - kept->spread);
}

static void learn(struct kiln_cost_model *costs, struct about about, double value)
{
    struct row *row = find_row(costs, &about);
    if (!row)
        row = make_row(costs, &about);
    correct(row, value);
    touch(costs, row);
}

/* For the class of the device and for the fleet. */
static void learn_both(struct kiln_cost_model *costs, struct about about, double value)
{
    if (about.device[0])
        learn(costs, about, value);
    about.device = "";
    learn(costs, about, value);
}

static bool possible(double seconds)
{
    return isfinite(seconds) && seconds >= 0 && seconds <= SECONDS_MAX;
}

/* --- estimates ------------------------------------------------------------------------------- */
double kiln_cost_tflop(const struct kiln_cost_shape *shape)
{
    double pixels = (double)shape->width * shape->height;
    double tokens = pixels / 256.0 + 128.0;
    double forward = 0.0113 * tokens + 4.9e-7 * tokens * tokens;
    struct kiln_mode mode;
    if (!kiln_mode_parse(or_empty(shape->mode), &mode))
        mode = (struct kiln_mode){.kind = KILN_MODE_EXACT};
    double forwards = kiln_mode_forwards(&mode, shape->steps) * (shape->guidance > 0 ? 2.0 : 1.0);
    return (forwards * forward + 1e-5 * pixels) * shape->jobs;
}

double kiln_cost_speed(const struct kiln_cost_model *costs, const char *model, const char *device)
{
    const struct about fleet = of_speed(model, ""), class = of_speed(model, device);
    const struct row *all = find_row(costs, &fleet), *own = find_row(costs, &class);
    return all && own && own->kept.mean > 0 && all->kept.mean > 0 ? all->kept.mean / own->kept.mean
                                                                  : 1;
}

double kiln_cost_compute(const struct kiln_cost_model *costs, const struct kiln_cost_shape *shape)
{
    const char *device = or_empty(shape->device);
    double known = mean_or(costs, of_batch(shape, device), -1);
    if (known < 0 && device[0])
        known = mean_or(costs, of_size(shape, device), -1) * shape->jobs;
    if (known >= 0)
        return known;
    double slower = device[0] ? 1 / kiln_cost_speed(costs, shape->model, device) : 1;
    known = mean_or(costs, of_batch(shape, ""), -1);
    if (known < 0)
        known = mean_or(costs, of_size(shape, ""), -1) * shape->jobs;
    if (known < 0)
        known = kiln_cost_tflop(shape) *
                mean_or(costs, of_speed(shape->model, ""), FIRST_SECONDS_PER_TFLOP);
    return known * slower;
}

uint32_t kiln_cost_measured(const struct kiln_cost_model *costs,
                            const struct kiln_cost_shape *shape, double *ret_s)
{
    const struct about about = of_batch(shape, shape->device);
    const struct row *row = find_row(costs, &about);
    if (!row)
        return 0;
    *ret_s = row->kept.mean;
    return row->kept.samples;
}

double kiln_cost_capture(const struct kiln_cost_model *costs, const struct kiln_cost_shape *shape)
{
    double fleet = mean_or(costs, of_capture(shape, ""), 0);
    return mean_or(costs, of_capture(shape, shape->device), fleet);
}

static double load_alone(const struct kiln_cost_model *costs, const struct kiln_cost_load *load)
{
    /* A warm load that nobody measured costs what a cold one does, at most. */
    struct kiln_cost_load cold = *load;
    cold.kind = KILN_SWITCH_COLD;
    double usual = mean_or(costs, of_load(&cold, "", ANY_SET), FIRST_SWITCH_SECONDS);
    usual = mean_or(costs, of_load(&cold, "", load->lora_set), usual);
    if (load->device && load->device[0])
        usual = mean_or(costs, of_load(&cold, load->device, load->lora_set), usual);
    if (load->kind == KILN_SWITCH_COLD)
        return usual;
    usual = mean_or(costs, of_load(load, "", ANY_SET), usual);
    return mean_or(costs, of_load(load, load->device, load->lora_set), usual);
}

double kiln_cost_load(const struct kiln_cost_model *costs, const struct kiln_cost_load *load)
{
    if (load->kind == KILN_SWITCH_RESIDENT)
        return 0;
    double fetch_s = load->fetches ? mean_or(costs, of_fetch(), FIRST_FETCH_SECONDS) : 0;
    return load_alone(costs, load) + load->fetches * fetch_s;
}

double kiln_cost_switch(const struct kiln_cost_model *costs, const char *model,
                        const char *lora_set)
{
    struct kiln_cost_load load = {model, lora_set, "", KILN_SWITCH_COLD, 0};
    return kiln_cost_load(costs, &load);
}

/* --- learning -------------------------------------------------------------------------------- */
void kiln_cost_learn_compute(struct kiln_cost_model *costs, const struct kiln_cost_shape *shape,
                             double seconds)
{
    double tflop = kiln_cost_tflop(shape);
    if (!possible(seconds) || seconds <= 0 || tflop <= 0)
        return;
    learn_both(costs, of_batch(shape, shape->device), seconds);
    learn_both(costs, of_size(shape, shape->device), seconds / shape->jobs);
    learn_both(costs, of_speed(shape->model, shape->device), seconds / tflop);
}

void kiln_cost_learn_capture(struct kiln_cost_model *costs, const struct kiln_cost_shape *shape,
                             double seconds)
{
    if (possible(seconds))
        learn_both(costs, of_capture(shape, shape->device), seconds);
}

void kiln_cost_learn_load(struct kiln_cost_model *costs, const struct kiln_cost_load *load,
                          double seconds)
{
    if (!possible(seconds) || load->kind == KILN_SWITCH_RESIDENT)
        return;
    learn_both(costs, of_load(load, load->device, load->lora_set), seconds);
    learn(costs, of_load(load, "", ANY_SET), seconds);
}

void kiln_cost_learn_fetch(struct kiln_cost_model *costs, double seconds)
{
    if (possible(seconds))
        learn(costs, of_fetch(), seconds);
}

void kiln_cost_learn_switch(struct kiln_cost_model *costs, const char *model, const char *lora_set,
                            double seconds)
{
    struct kiln_cost_load load = {model, lora_set, "", KILN_SWITCH_COLD, 0};
    kiln_cost_learn_load(costs, &load, seconds);
}

/* --- keeping --------------------------------------------------------------------------------- */
uint64_t kiln_cost_turn(const struct kiln_cost_model *costs)
{
    return costs->turn;
}

bool kiln_cost_changed(const struct kiln_cost_model *costs, uint64_t *turn,
                       struct kiln_cost_row *ret)
{
    uint32_t slot = kiln_treap_after(costs->by_turn, costs->turns, (int64_t)*turn);
    if (slot == KILN_NONE)
        return false;
    *turn = (uint64_t)costs->by_turn[slot].hi;
    *ret = costs->rows[slot].kept;
    return true;
}

bool kiln_cost_restore(struct kiln_cost_model *costs, const struct kiln_cost_row *kept)
{
    if ((unsigned)kept->kind >= KILN_COST_KINDS || !possible(kept->mean) ||
        !possible(kept->spread) || kept->samples == 0)
        return false;
    struct about about = {kept->kind,
                          kept->model,
                          kept->device,
                          kept->lora_set,
                          {kept->width, kept->height, kept->steps, kept->jobs, kept->guided}};
    struct row *row = find_row(costs, &about);
    if (!row)
        row = make_row(costs, &about);
    row->kept.mean = kept->mean;
    row->kept.spread = kept->spread;
    row->kept.samples = kept->samples;
    row->run = 0;
    touch(costs, row);
    return true;
}
