/* cost_model.c - one table of exponentially weighted means, rows found by hash.
 *
 * Three kinds of row share it: a batch shape (seconds), a LoRA set (seconds of switching) and a
 * model (seconds a TFLOP, and the mean switch of the model).  A row is known by a 64-bit hash of
 * its kind and fields; two of a million shapes colliding is a wrong estimate, never a wrong
 * decision about a job's state.
 */
#include "scheduler/cost_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/slots.h"

/* Assumed before the first measurement: an H200 at a good part of its bf16 rate. */
#define FIRST_SECONDS_PER_TFLOP (1.0 / 500.0)
#define FIRST_SWITCH_SECONDS 1.0
#define SECONDS_MAX 86400.0
#define SMOOTHING 0.25 /* weight of a new value once the mean has settled */

enum row_kind { ROW_BATCH, ROW_SWITCH, ROW_SPEED, ROW_MODEL_SWITCH };

struct row {
    uint64_t key;
    double mean;
    uint64_t touched; /* turn of the last correction */
    uint32_t samples;
};

struct kiln_cost_model {
    struct kiln_slots slots;
    struct row *rows;
    uint64_t turn;
};

struct kiln_cost_model *kiln_cost_model_new(uint32_t rows_max)
{
    struct kiln_cost_model *costs = calloc(1, sizeof(*costs));
    if (!costs)
        return NULL;
    costs->rows = calloc(rows_max, sizeof(*costs->rows));
    if (!costs->rows || kiln_slots_init(&costs->slots, rows_max, NULL)) {
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
    free(costs);
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * 1099511628211ull;
    return hash;
}

static uint64_t key_of(enum row_kind kind, const char *model, const char *lora_set)
{
    unsigned char first = (unsigned char)kind;
    uint64_t hash = mix(14695981039346656037ull, &first, 1);
    hash = mix(hash, model, strlen(model) + 1);
    return mix(hash, lora_set, strlen(lora_set) + 1);
}

static uint64_t shape_key(const struct kiln_cost_shape *shape)
{
    uint64_t hash = key_of(ROW_BATCH, shape->model, "");
    uint32_t sizes[4] = {shape->width, shape->height, shape->steps, shape->jobs};
    hash = mix(hash, sizes, sizeof(sizes));
    /* Only whether guidance is on changes the work: it doubles the forwards. */
    unsigned char guided = shape->guidance > 0;
    return mix(hash, &guided, 1);
}

static struct row *find_row(const struct kiln_cost_model *costs, uint64_t key)
{
    uint32_t slot = kiln_slots_find(&costs->slots, kiln_hash_u64(key));
    while (slot != KILN_NONE && costs->rows[slot].key != key)
        slot = kiln_slots_again(&costs->slots, slot);
    return slot == KILN_NONE ? NULL : &costs->rows[slot];
}

static void drop_oldest(struct kiln_cost_model *costs)
{
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < costs->slots.capacity; i++)
        if (costs->rows[i].touched < costs->rows[oldest].touched)
            oldest = i;
    kiln_slots_give(&costs->slots, oldest);
}

static struct row *make_row(struct kiln_cost_model *costs, uint64_t key)
{
    if (costs->slots.used == costs->slots.capacity)
        drop_oldest(costs);
    uint32_t slot = kiln_slots_take(&costs->slots, kiln_hash_u64(key));
    costs->rows[slot] = (struct row){.key = key};
    return &costs->rows[slot];
}

static void learn(struct kiln_cost_model *costs, uint64_t key, double value)
{
    struct row *row = find_row(costs, key);
    if (!row)
        row = make_row(costs, key);
    row->touched = ++costs->turn;
    if (row->samples++ == 0) {
        row->mean = value;
        return;
    }
    /* The plain mean first, so that a strange first value is soon outvoted. */
    double share = fmax(SMOOTHING, 1.0 / row->samples);
    double bounded = fmin(fmax(value, row->mean / 4), row->mean * 3 + 1e-6);
    row->mean += share * (bounded - row->mean);
}

static double mean_or(const struct kiln_cost_model *costs, uint64_t key, double otherwise)
{
    const struct row *row = find_row(costs, key);
    return row ? row->mean : otherwise;
}

static bool possible(double seconds)
{
    return isfinite(seconds) && seconds >= 0 && seconds <= SECONDS_MAX;
}

double kiln_cost_tflop(const struct kiln_cost_shape *shape)
{
    double pixels = (double)shape->width * shape->height;
    double tokens = pixels / 256.0 + 128.0;
    double forward = 0.0113 * tokens + 4.9e-7 * tokens * tokens;
    double forwards = (double)shape->steps * (shape->guidance > 0 ? 2.0 : 1.0);
    return (forwards * forward + 1e-5 * pixels) * shape->jobs;
}

double kiln_cost_compute(const struct kiln_cost_model *costs, const struct kiln_cost_shape *shape)
{
    double per_tflop = mean_or(costs, key_of(ROW_SPEED, shape->model, ""), FIRST_SECONDS_PER_TFLOP);
    return mean_or(costs, shape_key(shape), kiln_cost_tflop(shape) * per_tflop);
}

double kiln_cost_switch(const struct kiln_cost_model *costs, const char *model,
                        const char *lora_set)
{
    double usual = mean_or(costs, key_of(ROW_MODEL_SWITCH, model, ""), FIRST_SWITCH_SECONDS);
    return mean_or(costs, key_of(ROW_SWITCH, model, lora_set), usual);
}

void kiln_cost_learn_compute(struct kiln_cost_model *costs, const struct kiln_cost_shape *shape,
                             double seconds)
{
    double tflop = kiln_cost_tflop(shape);
    if (!possible(seconds) || seconds <= 0 || tflop <= 0)
        return;
    learn(costs, shape_key(shape), seconds);
    learn(costs, key_of(ROW_SPEED, shape->model, ""), seconds / tflop);
}

void kiln_cost_learn_switch(struct kiln_cost_model *costs, const char *model, const char *lora_set,
                            double seconds)
{
    if (!possible(seconds))
        return;
    learn(costs, key_of(ROW_SWITCH, model, lora_set), seconds);
    learn(costs, key_of(ROW_MODEL_SWITCH, model, ""), seconds);
}
