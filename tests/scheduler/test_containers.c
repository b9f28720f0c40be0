/* test_containers.c - the treap, the slot table and the cost model against plain models. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/policy/cost_model.h"
#include "scheduler/policy/slots.h"
#include "scheduler/policy/treap.h"

#define SLOTS 500

static uint64_t random_state = 42;
static uint32_t random_below(uint32_t bound)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((random_state >> 33) % bound);
}

/* --- treap ----------------------------------------------------------------------------------- */
static struct kiln_treap_node nodes[SLOTS];

static int compare_slots(const void *a, const void *b)
{
    const struct kiln_treap_node *x = &nodes[*(const uint32_t *)a],
                                 *y = &nodes[*(const uint32_t *)b];
    if (x->hi != y->hi)
        return x->hi < y->hi ? -1 : 1;
    if (x->lo != y->lo)
        return x->lo < y->lo ? -1 : 1;
    return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

/* The tree lists exactly the slots that are in, in the order that qsort gives them. */
static void same_as_sorted(uint32_t root, const bool *in)
{
    uint32_t sorted[SLOTS], count = 0;
    for (uint32_t i = 0; i < SLOTS; i++)
        if (in[i])
            sorted[count++] = i;
    qsort(sorted, count, sizeof(sorted[0]), compare_slots);
    assert_int_equal(kiln_treap_count(nodes, root), count);
    uint32_t slot = kiln_treap_first(nodes, root);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(slot, sorted[i]);
        assert_int_equal(kiln_treap_rank(nodes, root, slot), i);
        slot = kiln_treap_next(nodes, root, slot);
    }
    assert_int_equal(slot, KILN_NONE);
}

static void a_treap_is_sorted_whatever_comes_and_goes(void **state)
{
    (void)state;
    uint32_t root = KILN_NONE;
    bool in[SLOTS] = {false};
    for (int turn = 0; turn < 20000; turn++) {
        uint32_t slot = random_below(SLOTS);
        if (in[slot]) {
            kiln_treap_remove(nodes, &root, slot);
        } else {
            nodes[slot].hi = random_below(10); /* many equal keys */
            nodes[slot].lo = (int64_t)random_below(5) - 2;
            kiln_treap_insert(nodes, &root, slot);
        }
        in[slot] = !in[slot];
        if (turn % 500 == 0)
            same_as_sorted(root, in);
    }
    same_as_sorted(root, in);
}

static void sorted_input_stays_shallow(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    struct kiln_treap_node *many = calloc(MANY, sizeof(*many));
    uint32_t root = KILN_NONE;
    assert_non_null(many);
    for (uint32_t i = 0; i < MANY; i++) {
        many[i].hi = i;
        kiln_treap_insert(many, &root, i);
    }
    uint32_t depth = 0;
    for (uint32_t at = root; at != KILN_NONE; at = many[at].left)
        depth++;
    assert_in_range(depth, 5, 60);
    free(many);
}

/* --- slots ----------------------------------------------------------------------------------- */
static void slots_are_given_once_and_found_by_hash(void **state)
{
    (void)state;
    struct kiln_slots slots;
    assert_int_equal(kiln_slots_init(&slots, 100, NULL), 0);
    bool taken[100] = {false};
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t slot = kiln_slots_alloc(&slots, i % 7);
        assert_in_range(slot, 0, 99);
        assert_false(taken[slot]);
        taken[slot] = true;
    }
    assert_int_equal(kiln_slots_alloc(&slots, 1), KILN_NONE);
    uint32_t found = 0;
    for (uint32_t s = kiln_slots_find(&slots, 3); s != KILN_NONE; s = kiln_slots_next(&slots, s))
        found++;
    assert_int_equal(found, 14);
    uint32_t gone = kiln_slots_find(&slots, 3);
    kiln_slots_free(&slots, gone);
    found = 0;
    for (uint32_t s = kiln_slots_find(&slots, 3); s != KILN_NONE; s = kiln_slots_next(&slots, s))
        found += s != gone ? 1 : 100;
    assert_int_equal(found, 13);
    assert_int_equal(kiln_slots_alloc(&slots, 9), gone);
    assert_int_equal(kiln_slots_find(&slots, 77), KILN_NONE);
    kiln_slots_release(&slots);
}

/* --- costs ----------------------------------------------------------------------------------- */
static struct kiln_cost_shape shape(uint32_t side, uint32_t jobs)
{
    return (struct kiln_cost_shape){
        .model = "m", .width = side, .height = side, .steps = 8, .jobs = jobs};
}

/* Transformer of 8 steps and VAE decode, caption of 128 tokens, measured in operations. */
static void the_formula_fits_the_model(void **state)
{
    (void)state;
    static const struct {
        uint32_t side;
        double tflop;
    } known[] = {{512, 110 + 2.51}, {1024, 453 + 10.47}, {2048, 2567 + 48.5}};
    for (size_t i = 0; i < 3; i++) {
        struct kiln_cost_shape s = shape(known[i].side, 1);
        assert_true(fabs(kiln_cost_tflop(&s) / known[i].tflop - 1) < 0.05);
    }
    struct kiln_cost_shape one = shape(1024, 1), guided = one, four = shape(1024, 4);
    guided.guidance = 4;
    assert_true(kiln_cost_tflop(&guided) > 1.9 * kiln_cost_tflop(&one));
    assert_true(fabs(kiln_cost_tflop(&four) / kiln_cost_tflop(&one) - 4) < 1e-9);
}

static void measured_costs_win_and_carry_over(void **state)
{
    (void)state;
    struct kiln_cost_model *costs = kiln_cost_model_new(64);
    struct kiln_cost_shape one = shape(1024, 1), other = shape(512, 1);
    double before = kiln_cost_compute(costs, &other);
    for (int i = 0; i < 50; i++)
        kiln_cost_learn_compute(costs, &one, 100.0);
    assert_true(fabs(kiln_cost_compute(costs, &one) - 100.0) < 1e-6);
    double ratio = kiln_cost_tflop(&other) / kiln_cost_tflop(&one);
    assert_true(fabs(kiln_cost_compute(costs, &other) - 100.0 * ratio) < 1e-6);
    assert_true(kiln_cost_compute(costs, &other) > before);

    /* One outlier, and values that cannot be. */
    kiln_cost_learn_compute(costs, &one, 80000.0);
    assert_true(kiln_cost_compute(costs, &one) < 200.0);
    double now = kiln_cost_compute(costs, &one);
    kiln_cost_learn_compute(costs, &one, -1);
    kiln_cost_learn_compute(costs, &one, NAN);
    kiln_cost_learn_compute(costs, &one, INFINITY);
    kiln_cost_learn_compute(costs, &one, 1e9);
    assert_true(kiln_cost_compute(costs, &one) == now);

    for (int i = 0; i < 30; i++)
        kiln_cost_learn_switch(costs, "m", "a:1", 4.0);
    assert_true(fabs(kiln_cost_switch(costs, "m", "a:1") - 4.0) < 1e-6);
    assert_true(fabs(kiln_cost_switch(costs, "m", "never seen") - 4.0) < 1e-6);
    kiln_cost_model_free(costs);
}

static void a_full_table_forgets_the_oldest(void **state)
{
    (void)state;
    struct kiln_cost_model *costs = kiln_cost_model_new(8);
    struct kiln_cost_shape first = shape(64, 1);
    kiln_cost_learn_compute(costs, &first, 7.0);
    for (uint32_t side = 80; side < 400; side += 16) {
        struct kiln_cost_shape s = shape(side, 1);
        kiln_cost_learn_compute(costs, &s, 3.0);
        assert_true(kiln_cost_compute(costs, &s) == 3.0);
    }
    assert_true(kiln_cost_compute(costs, &first) != 7.0);
    kiln_cost_model_free(costs);
}

/* Outliers are clipped, a new level is followed. */
static void a_strange_value_is_outvoted_a_new_level_is_followed(void **state)
{
    (void)state;
    struct kiln_cost_model *costs = kiln_cost_model_new(64);
    struct kiln_cost_shape s = shape(1024, 1);
    kiln_cost_learn_compute(costs, &s, 30.0); /* the first of all is the strange one */
    for (int i = 0; i < 12; i++)
        kiln_cost_learn_compute(costs, &s, 2.0 + 0.05 * (i % 3));
    assert_true(fabs(kiln_cost_compute(costs, &s) - 2.05) < 0.5);
    for (int i = 0; i < 30; i++)
        kiln_cost_learn_compute(costs, &s, 2.0 + 0.05 * (i % 3));
    for (int i = 0; i < 3; i++) { /* one in ten takes a hundred times as long */
        kiln_cost_learn_compute(costs, &s, 200.0);
        assert_true(kiln_cost_compute(costs, &s) < 2.3);
        for (int k = 0; k < 9; k++)
            kiln_cost_learn_compute(costs, &s, 2.05);
    }
    assert_true(fabs(kiln_cost_compute(costs, &s) - 2.05) < 0.05);
    for (int i = 0; i < 10; i++) /* the device is throttled from here on */
        kiln_cost_learn_compute(costs, &s, 6.0);
    assert_true(fabs(kiln_cost_compute(costs, &s) - 6.0) < 0.6);
    kiln_cost_model_free(costs);
}

static void classes_of_devices_differ(void **state)
{
    (void)state;
    struct kiln_cost_model *costs = kiln_cost_model_new(256);
    struct kiln_cost_shape fast = shape(1024, 2), slow = fast, other = shape(512, 1);
    fast.device = "h200";
    slow.device = "l4";
    for (int i = 0; i < 40; i++) {
        kiln_cost_learn_compute(costs, &fast, 1.0);
        kiln_cost_learn_compute(costs, &slow, 8.0);
    }
    assert_true(fabs(kiln_cost_compute(costs, &fast) - 1) < 1e-6);
    assert_true(fabs(kiln_cost_compute(costs, &slow) - 8) < 1e-6);
    double speeds = kiln_cost_speed(costs, "m", "h200") / kiln_cost_speed(costs, "m", "l4");
    assert_true(fabs(speeds - 8) < 1e-6);
    assert_true(kiln_cost_speed(costs, "m", "never seen") == 1);
    /* A size that neither has rendered keeps the ratio; another number is scaled. */
    struct kiln_cost_shape a = other, b = other, four = fast;
    a.device = "h200", b.device = "l4", four.jobs = 4;
    assert_true(fabs(kiln_cost_compute(costs, &b) / kiln_cost_compute(costs, &a) - 8) < 1e-6);
    assert_true(fabs(kiln_cost_compute(costs, &four) - 2) < 1e-6);
    double seconds = 0;
    assert_int_equal(kiln_cost_measured(costs, &fast, &seconds), 40);
    assert_int_equal(kiln_cost_measured(costs, &four, &seconds), 0);
    kiln_cost_model_free(costs);
}

static void loads_are_cold_warm_or_nothing(void **state)
{
    (void)state;
    struct kiln_cost_model *costs = kiln_cost_model_new(64);
    struct kiln_cost_load cold = {"m", "ink:1", "h200", KILN_SWITCH_COLD, 0};
    struct kiln_cost_load warm = cold, none = cold, away = cold;
    warm.kind = KILN_SWITCH_WARM;
    none.kind = KILN_SWITCH_RESIDENT;
    for (int i = 0; i < 8; i++)
        kiln_cost_learn_load(costs, &cold, 4.0);
    assert_true(fabs(kiln_cost_load(costs, &warm) - 4) < 1e-6); /* not measured: no better */
    for (int i = 0; i < 8; i++)
        kiln_cost_learn_load(costs, &warm, 0.25);
    assert_true(fabs(kiln_cost_load(costs, &cold) - 4) < 1e-6);
    assert_true(fabs(kiln_cost_load(costs, &warm) - 0.25) < 1e-6);
    assert_true(kiln_cost_load(costs, &none) == 0);
    away.fetches = 2;
    assert_true(kiln_cost_load(costs, &away) > 4); /* before any was fetched: longer all the same */
    kiln_cost_learn_fetch(costs, 3.0);
    assert_true(fabs(kiln_cost_load(costs, &away) - 10) < 1e-6);
    away.kind = KILN_SWITCH_RESIDENT;
    assert_true(kiln_cost_load(costs, &away) == 0);
    kiln_cost_learn_fetch(costs, -1); /* cannot be */
    kiln_cost_learn_fetch(costs, 1e9);
    struct kiln_cost_load stranger = {"m", "never:1", "", KILN_SWITCH_WARM, 0};
    assert_true(fabs(kiln_cost_load(costs, &stranger) - 0.25) < 1e-6);
    struct kiln_cost_shape s = shape(1024, 1);
    assert_true(kiln_cost_capture(costs, &s) == 0);
    kiln_cost_learn_capture(costs, &s, 3.0);
    s.steps = 20; /* the same graphs */
    assert_true(kiln_cost_capture(costs, &s) == 3.0);
    kiln_cost_model_free(costs);
}

/* Row by row into another model, as over a restart: every estimate is the same. */
static void what_was_learned_can_be_kept(void **state)
{
    (void)state;
    struct kiln_cost_model *from = kiln_cost_model_new(64), *to = kiln_cost_model_new(64);
    struct kiln_cost_shape s = shape(1024, 3), t = shape(768, 1);
    struct kiln_cost_load load = {"m", "ink:1", "h200", KILN_SWITCH_WARM, 1};
    s.device = "h200";
    kiln_cost_learn_compute(from, &s, 2.5);
    kiln_cost_learn_load(from, &load, 0.5);
    kiln_cost_learn_fetch(from, 7.5);
    uint64_t turn = 0, middle;
    struct kiln_cost_row row;
    uint32_t rows = 0;
    for (; kiln_cost_changed(from, &turn, &row); rows++)
        assert_true(kiln_cost_restore(to, &row));
    middle = turn;
    assert_int_equal(rows, 10);
    assert_int_equal(turn, kiln_cost_turn(from));
    kiln_cost_learn_compute(from, &t, 1.5); /* only what changed since then */
    for (rows = 0; kiln_cost_changed(from, &middle, &row); rows++)
        assert_true(kiln_cost_restore(to, &row));
    assert_int_equal(rows, 3);
    assert_true(kiln_cost_compute(to, &s) == kiln_cost_compute(from, &s));
    assert_true(kiln_cost_compute(to, &t) == kiln_cost_compute(from, &t));
    assert_true(kiln_cost_load(to, &load) == kiln_cost_load(from, &load));
    row.mean = NAN;
    assert_false(kiln_cost_restore(to, &row));
    row.mean = 1, row.kind = (enum kiln_cost_kind)99;
    assert_false(kiln_cost_restore(to, &row));
    kiln_cost_model_free(from);
    kiln_cost_model_free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_treap_is_sorted_whatever_comes_and_goes),
        cmocka_unit_test(sorted_input_stays_shallow),
        cmocka_unit_test(slots_are_given_once_and_found_by_hash),
        cmocka_unit_test(the_formula_fits_the_model),
        cmocka_unit_test(measured_costs_win_and_carry_over),
        cmocka_unit_test(a_full_table_forgets_the_oldest),
        cmocka_unit_test(a_strange_value_is_outvoted_a_new_level_is_followed),
        cmocka_unit_test(classes_of_devices_differ),
        cmocka_unit_test(loads_are_cold_warm_or_nothing),
        cmocka_unit_test(what_was_learned_can_be_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
