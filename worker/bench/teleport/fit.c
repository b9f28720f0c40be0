/* fit.c - `kiln bench teleport --fit`: a learned gate beside the rules of the guard, for each
 * depth; see teleport.h and gate.h.
 *
 * Pairs of odd lines of the file train the gate (two thirds of them) and calibrate it (the others);
 * pairs of even lines test it.  It sees the class that the guard gives, the overlap of the words,
 * the cosine of embeddings where there is an embedder, how far apart donors are where several were
 * rendered, and, where one forward may be spent, what the first step changed.  A pair is accepted
 * above the highest probability of a pair of the odd lines that differs in a fact: so there are no
 * false hits among these, and those of the test say how far that carries.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/embedder.h"
#include "worker/bench/teleport/gate.h"
#include "worker/bench/teleport/teleport.h"

enum feature {
    CLASS,                                     /* one for each class of hits */
    OVERLAP = KILN_REUSE_CLASS_COUNT - 1,      /* KILN_TELEPORT_OVERLAPS of them */
    COSINE = OVERLAP + KILN_TELEPORT_OVERLAPS, /* 0 without an embedder */
    APART,                                     /* 0 where it was not measured */
    CHANGE,                                    /* of the first step, as a logarithm; */
    CHANGE_SQUARED,                            /* both tails of it may be wrong */
    FEATURES
};
_Static_assert(FEATURES <= KILN_GATE_FEATURES, "room for the features");
static const char *const feature_names[FEATURES] = {"same_prompt",
                                                    "canonical",
                                                    "reworded",
                                                    "donor_says_more",
                                                    "target's words covered",
                                                    "donor's words covered",
                                                    "words in order",
                                                    "relative length",
                                                    "cosine",
                                                    "donors apart",
                                                    "log change",
                                                    "log change squared"};

enum part { TRAINING, CALIBRATION, TEST };

static enum part part_of(const struct kiln_teleport_pair *pair)
{
    return pair->line % 2 == 0 ? TEST : pair->line % 6 == 1 ? CALIBRATION : TRAINING;
}

/* What is known of the pairs at one depth. */
struct examples {
    double (*features)[KILN_GATE_FEATURES];
    double *right;
    size_t *pair;
    size_t count;
};

struct fitting {
    const struct kiln_teleport_bench *bench;
    const struct kiln_teleport_table *table;
    double *cosines; /* of the pairs */
    struct examples all, part;
};

/* --- features --------------------------------------------------------------------------------- */

static int embed(struct fitting *f, struct kiln_error *err)
{
    const struct kiln_teleport_pairs *pairs = &f->bench->pairs;
    struct kiln_embedder *e = NULL;
    int code = 0;
    f->cosines = calloc(pairs->count + 1, sizeof *f->cosines);
    if (!f->cosines)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the results");
    if (!f->bench->options.embedder)
        return 0;
    code = kiln_embedder_open(f->bench->options.embedder, NULL, &e, err);
    const size_t dims = code ? 0 : kiln_embedder_info(e)->dims;
    float *rows = malloc((2 * dims + 1) * sizeof *rows);
    if (code == 0 && !rows)
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory for embeddings");
    for (size_t i = 0; i < pairs->count && code == 0; i++) {
        const struct kiln_embed_text texts[2] = {
            {pairs->items[i].target, strlen(pairs->items[i].target)},
            {pairs->items[i].donor, strlen(pairs->items[i].donor)},
        };
        code = kiln_embedder_embed(e, KILN_EMBED_PASSAGE, texts, 2, rows, err);
        for (size_t k = 0; k < dims && code == 0; k++)
            f->cosines[i] += (double)rows[k] * (double)rows[dims + k];
    }
    free(rows);
    kiln_embedder_close(e);
    return code;
}

/* The distance between donors at any depth; it does not depend on it. */
static double apart_of(const struct fitting *f, size_t pair)
{
    for (int run = 0; run < f->bench->run_count; run++) {
        const double apart =
            f->bench->runs[run].kind == KILN_TELEPORT_COMBINED && f->bench->runs[run].donors == 4
                ? kiln_teleport_column(f->table, run, KILN_TELEPORT_APART)[pair]
                : NAN;
        if (!isnan(apart))
            return apart;
    }
    return 0;
}

static void gather(struct fitting *f, int run)
{
    const struct kiln_teleport_pairs *pairs = &f->bench->pairs;
    f->all.count = 0;
    for (size_t i = 0; i < pairs->count; i++) {
        const double pictures = kiln_teleport_column(f->table, run, KILN_TELEPORT_PICTURES)[i];
        const double change = kiln_teleport_column(f->table, run, KILN_TELEPORT_CHANGE)[i];
        const enum kiln_reuse_class class = pairs->groups[pairs->items[i].group].class;
        double *x = f->all.features[f->all.count];
        if (isnan(pictures))
            continue;
        memset(x, 0, KILN_GATE_FEATURES * sizeof *x);
        if (class != KILN_REUSE_NONE)
            x[CLASS + (int)class - 1] = 1;
        kiln_teleport_overlap(pairs->items[i].target, pairs->items[i].donor, x + OVERLAP);
        x[COSINE] = f->cosines[i];
        x[APART] = apart_of(f, i);
        x[CHANGE] = change > 0 ? log(change / pictures) : 0;
        x[CHANGE_SQUARED] = x[CHANGE] * x[CHANGE];
        f->all.right[f->all.count] =
            kiln_teleport_column(f->table, run, KILN_TELEPORT_WHOLE)[i] / pictures;
        f->all.pair[f->all.count++] = i;
    }
}

static const struct kiln_gate_examples *choose(struct fitting *f, enum part part,
                                               struct kiln_gate_examples *ret)
{
    f->part.count = 0;
    for (size_t i = 0; i < f->all.count; i++) {
        if (part_of(&f->bench->pairs.items[f->all.pair[i]]) != part)
            continue;
        memcpy(f->part.features[f->part.count], f->all.features[i], sizeof f->all.features[i]);
        f->part.right[f->part.count++] = f->all.right[i];
    }
    *ret = (struct kiln_gate_examples){(const double(*)[KILN_GATE_FEATURES])f->part.features,
                                       f->part.right, f->part.count};
    return ret;
}

/* --- one gate --------------------------------------------------------------------------------- */

struct kind {
    int hidden;
    bool forward; /* one forward was spent: what it changed is known */
    const char *name;
};
static const struct kind kinds[] = {
    {0, false, "logistic"},
    {8, false, "hidden layer"},
    {0, true, "logistic, after a step"},
    {8, true, "hidden layer, after a step"},
};
#define KINDS (int)(sizeof kinds / sizeof *kinds)

/* What came of the pairs of the test. */
struct outcome {
    size_t same, accepted, by_rule; /* pairs with the same facts; of these accepted */
    size_t other, false_hits;       /* pairs that differ in a fact; of these accepted, */
    size_t false_by_rule;           /* and by the rules */
    double wrong, wrong_by_rule;    /* share of the accepted runs that came out wrong */
    double off;                     /* root of the mean squared error of the probabilities */
};

/* The highest probability of a pair of the odd lines that differs in a fact. */
static double threshold(const struct fitting *f, const struct kiln_gate *gate)
{
    double most = 0;
    for (size_t i = 0; i < f->all.count; i++) {
        const struct kiln_teleport_pair *pair = &f->bench->pairs.items[f->all.pair[i]];
        if (part_of(pair) != TEST && !pair->same_facts)
            most = fmax(most, kiln_gate_probability(gate, f->all.features[i]));
    }
    return most;
}

static void judge(const struct fitting *f, const struct kiln_gate *gate, double least,
                  struct outcome *ret)
{
    double wrong = 0, wrong_by_rule = 0, squares = 0;
    size_t taken = 0, taken_by_rule = 0, n = 0;
    *ret = (struct outcome){0};
    for (size_t i = 0; i < f->all.count; i++) {
        const struct kiln_teleport_pair *pair = &f->bench->pairs.items[f->all.pair[i]];
        const bool by_rule = f->bench->pairs.groups[pair->group].class != KILN_REUSE_NONE;
        const double p = kiln_gate_probability(gate, f->all.features[i]), right = f->all.right[i];
        if (part_of(pair) != TEST)
            continue;
        n++;
        squares += (p - right) * (p - right);
        ret->same += pair->same_facts;
        ret->other += !pair->same_facts;
        ret->accepted += pair->same_facts && p > least;
        ret->by_rule += pair->same_facts && by_rule;
        ret->false_hits += !pair->same_facts && p > least;
        ret->false_by_rule += !pair->same_facts && by_rule;
        taken += p > least;
        taken_by_rule += by_rule;
        wrong += p > least ? 1 - right : 0;
        wrong_by_rule += by_rule ? 1 - right : 0;
    }
    ret->wrong = taken ? wrong / (double)taken : NAN;
    ret->wrong_by_rule = taken_by_rule ? wrong_by_rule / (double)taken_by_rule : NAN;
    ret->off = n ? sqrt(squares / (double)n) : NAN;
}

/* By which the kind is chosen that kiln.json gets: not by the test. */
static size_t accepted_of_training(const struct fitting *f, const struct kiln_gate *gate,
                                   double least)
{
    size_t count = 0;
    for (size_t i = 0; i < f->all.count; i++) {
        const struct kiln_teleport_pair *pair = &f->bench->pairs.items[f->all.pair[i]];
        count += part_of(pair) != TEST && pair->same_facts &&
                 kiln_gate_probability(gate, f->all.features[i]) > least;
    }
    return count;
}

static int fit_kind(struct fitting *f, const struct kind *kind, struct kiln_gate *ret,
                    double *ret_least, struct kiln_error *err)
{
    struct kiln_gate_examples part;
    const int features = kind->forward ? FEATURES : CHANGE;
    int code = kiln_gate_fit(choose(f, TRAINING, &part), features, kind->hidden, ret, err);
    if (code)
        return code;
    kiln_gate_calibrate(ret, choose(f, CALIBRATION, &part));
    *ret_least = threshold(f, ret);
    return 0;
}

/* --- for people and for kiln.json ------------------------------------------------------------- */

static json_t *numbers(const double *values, int count)
{
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, kiln_figure_json(values[i]));
    return list;
}

/* A gate as numbers, with what the test said of it. */
static json_t *gate_json(const struct fitting *f, int32_t depth, const struct kind *kind,
                         const struct kiln_gate *gate, double least, const struct outcome *o)
{
    json_t *layer = json_array();
    for (int h = 0; h < gate->hidden; h++)
        json_array_append_new(layer, numbers(gate->in[h], gate->features));
    return json_pack(
        "{s:o, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:f, s:[f, f], s:f, s:{s:[I, I], s:[I, I], s:I}}",
        "size", json_sprintf("%ux%u", f->table->size.width, f->table->size.height), "depth", depth,
        "kind", kind->name, "mean", numbers(gate->mean, gate->features), "deviation",
        numbers(gate->deviation, gate->features), "layer", layer, "layer_bias",
        numbers(gate->in_bias, gate->hidden), "out",
        numbers(gate->out, gate->hidden ? gate->hidden : gate->features), "bias", gate->out_bias,
        "calibration", gate->slope, gate->shift, "above", least, "test", "accepted",
        (json_int_t)o->accepted, (json_int_t)o->same, "false_hits", (json_int_t)o->false_hits,
        (json_int_t)o->other, "accepted_by_the_rules", (json_int_t)o->by_rule);
}

static void print_outcome(const char *name, size_t accepted, size_t same, size_t false_hits,
                          size_t other, double wrong)
{
    printf("| %s | %zu of %zu | %.1f %% | %zu of %zu | %.1f %% |", name, accepted, same,
           same ? 100.0 * (double)accepted / (double)same : NAN, false_hits, other, 100 * wrong);
}

static int fit_depth(struct fitting *f, int run, json_t *list, struct kiln_error *err)
{
    const int32_t depth = f->bench->runs[run].depth;
    struct outcome o = {0};
    json_t *best = NULL;
    size_t most = 0;
    int code = 0;
    gather(f, run);
    for (int k = 0; k < KINDS && code == 0; k++) {
        struct kiln_gate gate;
        double least;
        code = fit_kind(f, &kinds[k], &gate, &least, err);
        if (code)
            break;
        judge(f, &gate, least, &o);
        if (k == 0 && !f->bench->options.json) {
            printf("| skip %d ", depth);
            print_outcome("the rules", o.by_rule, o.same, o.false_by_rule, o.other,
                          o.wrong_by_rule);
            puts(" - |");
        }
        if (!f->bench->options.json) {
            printf("| skip %d ", depth);
            print_outcome(kinds[k].name, o.accepted, o.same, o.false_hits, o.other, o.wrong);
            printf(" %.3f |\n", o.off);
        }
        const size_t trained = accepted_of_training(f, &gate, least);
        if (best && trained <= most)
            continue;
        json_decref(best);
        best = gate_json(f, depth, &kinds[k], &gate, least, &o);
        most = trained;
    }
    if (code == 0 && json_array_append_new(list, best) != 0)
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory for the results");
    else if (code)
        json_decref(best);
    return code;
}

static void print_head(const struct fitting *f)
{
    printf(
        "\nA learned gate at %ux%u, beside the rules; pairs of even lines, trained and calibrated "
        "on those of odd lines\n\n",
        f->table->size.width, f->table->size.height);
    puts("| run | gate | accepted, same facts | share | false hits | accepted and wrong | error of "
         "the probability |");
    puts("| --- | --- | --- | --- | --- | --- | --- |");
}

static bool take_room(struct examples *e, size_t count)
{
    e->features = malloc((count + 1) * sizeof *e->features);
    e->right = malloc((count + 1) * sizeof *e->right);
    e->pair = malloc((count + 1) * sizeof *e->pair);
    return e->features && e->right && e->pair;
}

static void release_room(struct examples *e)
{
    free(e->features);
    free(e->right);
    free(e->pair);
}

int kiln_teleport_fit(const struct kiln_teleport_bench *bench, json_t **ret, struct kiln_error *err)
{
    json_t *gates = json_array(), *names = json_array();
    int code = 0;
    for (int i = 0; i < FEATURES; i++)
        json_array_append_new(names, json_string(feature_names[i]));
    for (int t = 0; t < bench->options.size_count && code == 0; t++) {
        struct fitting f = {.bench = bench, .table = &bench->tables[t]};
        if (!take_room(&f.all, bench->pairs.count) || !take_room(&f.part, bench->pairs.count))
            code = kiln_fail(err, KILN_NO_MEMORY, "no memory to fit a gate");
        code = code ? code : embed(&f, err);
        if (code == 0 && !bench->options.json)
            print_head(&f);
        for (int run = 0; run < bench->run_count && code == 0; run++)
            if (bench->runs[run].kind == KILN_TELEPORT_SKIP)
                code = fit_depth(&f, run, gates, err);
        free(f.cosines);
        release_room(&f.all);
        release_room(&f.part);
    }
    if (code) {
        json_decref(gates);
        json_decref(names);
        return code;
    }
    *ret = json_pack("{s:o, s:o}", "features", names, "gates", gates);
    return *ret ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for the results");
}
