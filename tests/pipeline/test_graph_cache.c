/* test_graph_cache.c - which shapes keep their buffers and graphs, with doubles of the few
 * functions of pipeline/torch that the cache calls: graphs here are figures of bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pipeline/model/graph_cache.h"

/* --- doubles ---------------------------------------------------------------------------------- */

struct kt_scope {
    int device;
    struct kiln_error error;
};
struct kt_graph {
    size_t bytes;
};

static int scopes, graphs, trims;
static bool has_graphs = true;
static size_t next_bytes; /* of the graph that is recorded next */

static struct kt_graph *graph_of(size_t bytes)
{
    struct kt_graph *g = malloc(sizeof *g);
    *g = (struct kt_graph){bytes};
    graphs++;
    return g;
}

struct kt_scope *kt_scope_new(int device)
{
    struct kt_scope *s = malloc(sizeof *s);
    *s = (struct kt_scope){.device = device};
    scopes++;
    return s;
}

void kt_scope_free(struct kt_scope *s)
{
    scopes -= s != NULL;
    free(s);
}

bool kt_graphs(int device)
{
    return device >= 0 && has_graphs;
}

size_t kt_graph_bytes(const struct kt_graph *g)
{
    return g->bytes;
}

void kt_graph_free(struct kt_graph *g)
{
    graphs -= g != NULL;
    free(g);
}

void kt_device_trim(int device)
{
    (void)device;
    trims++;
}

int kt_scope_check(const struct kt_scope *s, struct kiln_error *err)
{
    if (s->error.code && err)
        *err = s->error;
    return s->error.code;
}

struct kt_graph *kt_graph_begin(struct kt_scope *s)
{
    (void)s;
    return graph_of(next_bytes);
}

bool kt_graph_end(struct kt_graph *g, struct kt_scope *s)
{
    if (!s->error.code)
        return true;
    kt_graph_free(g);
    return false;
}

/* --- helpers ---------------------------------------------------------------------------------- */

static struct kiln_shape shape_of(int64_t side, int64_t caption_rows)
{
    return (struct kiln_shape){
        .items = 1, .height = side, .width = side, .caption_rows = caption_rows};
}

static struct kiln_shape_plan *get(struct kiln_graph_cache *cache, int64_t side, int64_t rows)
{
    const struct kiln_shape shape = shape_of(side, rows);
    struct kiln_shape_plan *plan = kiln_graph_cache_get(cache, &shape);
    assert_non_null(plan->scope);
    assert_int_equal(plan->shape.height, side);
    assert_int_equal(plan->shape.caption_rows, rows);
    return plan;
}

/* Counts how often it was recorded. */
static void count_it(struct kt_scope *s, const void *arg)
{
    assert_int_equal(s->error.code, 0);
    ++**(int *const *)arg;
}

static void fail_it(struct kt_scope *s, const void *arg)
{
    assert_null(arg);
    kiln_fail(&s->error, KILN_NO_MEMORY, "no room for it");
}

/* Records the plan if that is wanted. */
static struct kiln_shape_plan *record_plan(struct kiln_graph_cache *cache,
                                           struct kiln_shape_plan *plan, size_t bytes)
{
    struct kiln_error err;
    int times = 0, *counter = &times;
    next_bytes = bytes;
    kiln_graph_cache_warm(plan);
    const bool wanted = kiln_graph_cache_should_record(cache, plan);
    if (wanted)
        assert_int_equal(kiln_graph_cache_record(cache, plan, count_it, &counter, &err), 0);
    assert_int_equal(times, wanted);
    return plan;
}

/* A plan that has run and was recorded. */
static struct kiln_shape_plan *record(struct kiln_graph_cache *cache, int64_t side, int64_t rows,
                                      size_t bytes)
{
    return record_plan(cache, get(cache, side, rows), bytes);
}

/* The same for a text of one block. */
static struct kiln_shape_plan *record_text(struct kiln_graph_cache *cache, int64_t rows,
                                           int64_t segments)
{
    const struct kiln_shape shape = {.text_blocks = {rows}, .text_segments = segments};
    return record_plan(cache, kiln_graph_cache_get(cache, &shape), 10);
}

static struct kiln_graph_cache *cache_on(int device)
{
    struct kiln_graph_cache *cache = kiln_graph_cache_new(device);
    assert_non_null(cache);
    scopes = graphs = trims = 0;
    return cache;
}

/* Nothing is left behind, whatever was in the cache. */
static void end(struct kiln_graph_cache *cache)
{
    kiln_graph_cache_free(cache);
    assert_int_equal(scopes, 0);
    assert_int_equal(graphs, 0);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void a_shape_finds_its_plan_again(void **state)
{
    (void)state;
    struct kiln_graph_cache *cache = cache_on(0);
    struct kiln_shape_plan *a = get(cache, 64, 32), *b = get(cache, 64, 64);
    struct kiln_shape guided = shape_of(64, 32), arranged = shape_of(64, 32);
    guided.negative_rows = 32, guided.guidance = 2.5f, arranged.arrangement = 3;
    struct kiln_shape_plan *c = kiln_graph_cache_get(cache, &guided);
    struct kiln_shape_plan *d = kiln_graph_cache_get(cache, &arranged);
    assert_true(a != b && a != c && a != d && b != c && b != d && c != d);
    assert_ptr_equal(get(cache, 64, 32), a);
    assert_ptr_equal(get(cache, 64, 64), b);
    assert_ptr_equal(kiln_graph_cache_get(cache, &guided), c);
    guided.guidance = 3;
    assert_ptr_not_equal(kiln_graph_cache_get(cache, &guided), c);
    assert_int_equal(scopes, 5);
    end(cache);
}

static void the_first_step_is_not_recorded(void **state)
{
    (void)state;
    struct kiln_graph_cache *cache = cache_on(0);
    struct kiln_shape_plan *plan = get(cache, 64, 32);
    assert_false(kiln_graph_cache_should_record(cache, plan));
    kiln_graph_cache_warm(plan);
    assert_true(kiln_graph_cache_should_record(cache, plan));
    assert_non_null(record_plan(cache, plan, 1000)->graph);
    assert_false(kiln_graph_cache_should_record(cache, plan));
    end(cache);
}

static void what_cannot_be_recorded_is_not_tried_again(void **state)
{
    (void)state;
    struct kiln_error err;
    struct kiln_graph_cache *cache = cache_on(0);
    struct kiln_shape_plan *plan = get(cache, 64, 32);
    kiln_graph_cache_warm(plan);
    assert_int_equal(kiln_graph_cache_record(cache, plan, fail_it, NULL, &err), KILN_NO_MEMORY);
    assert_string_equal(err.text, "no room for it");
    assert_null(plan->graph);
    assert_int_equal(graphs, 0);
    assert_int_equal(scopes, 1);
    assert_false(kiln_graph_cache_should_record(cache, plan));
    assert_null(record(cache, 128, 32, 10)->graph);
    assert_non_null(record(cache, 32, 32, 10)->graph);
    end(cache);
}

/* Texts beside pictures: they are told apart by their blocks and segments, and have a bound of
 * their own from which on they are not recorded. */
static void texts_have_shapes_too(void **state)
{
    (void)state;
    struct kiln_graph_cache *cache = cache_on(0);
    struct kiln_shape_plan *one = record_text(cache, 128, 2), *picture = record(cache, 64, 32, 10);
    struct kiln_shape_plan *more = record_text(cache, 128, 4), *wide = record_text(cache, 256, 2);
    const struct kiln_shape two = {.text_blocks = {128, 128}, .text_segments = 2};
    struct kiln_shape_plan *both = record_plan(cache, kiln_graph_cache_get(cache, &two), 10);
    assert_true(one != more && one != wide && more != wide && both != wide && both != one);
    assert_true(picture != one && one->graph && more->graph && wide->graph && both->graph);
    assert_ptr_equal(record_text(cache, 128, 2), one);
    assert_int_equal(kiln_graph_cache_count(cache), 5);
    kiln_graph_cache_drop_graphs(cache);
    kiln_graph_cache_refuse(cache, &two);
    assert_non_null(record_text(cache, 128, 2)->graph);
    assert_null(record_text(cache, 256, 2)->graph);
    assert_non_null(record(cache, 512, 32, 10)->graph);
    const struct kiln_shape all = {.items = 1, .height = 1, .width = 1};
    kiln_graph_cache_refuse(cache, &all);
    assert_null(record(cache, 256, 32, 10)->graph);
    assert_non_null(record_text(cache, 128, 4)->graph);
    end(cache);
}

static void a_plan_without_its_buffers_is_dropped(void **state)
{
    (void)state;
    struct kiln_graph_cache *cache = cache_on(0);
    struct kiln_shape_plan *plan = record_text(cache, 128, 2);
    plan->text = (kt)(void *)plan; /* any handle */
    kiln_graph_cache_drop(cache, plan);
    assert_int_equal(scopes, 0);
    assert_int_equal(graphs, 0);
    const struct kiln_shape same = {.text_blocks = {128}, .text_segments = 2};
    plan = kiln_graph_cache_get(cache, &same);
    assert_true(plan->scope && !plan->text && !plan->warm && !plan->graph);
    end(cache);
}

static void *warm(void *plan)
{
    kiln_graph_cache_warm(plan);
    return NULL;
}

static void a_thread_records_what_it_has_computed_itself(void **state)
{
    (void)state;
    struct kiln_graph_cache *cache = cache_on(0);
    struct kiln_shape_plan *plan = get(cache, 64, 32);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, warm, plan), 0);
    pthread_join(thread, NULL);
    assert_false(kiln_graph_cache_should_record(cache, plan));
    kiln_graph_cache_warm(plan);
    assert_true(kiln_graph_cache_should_record(cache, plan));
    end(cache);
}

static void a_device_without_graphs_records_none(void **state)
{
    (void)state;
    struct kiln_graph_cache *cache = cache_on(-1);
    struct kiln_shape_plan *plan = get(cache, 64, 32);
    kiln_graph_cache_warm(plan);
    assert_false(kiln_graph_cache_should_record(cache, plan));
    end(cache);
    cache = cache_on(0);
    has_graphs = false;
    plan = get(cache, 64, 32);
    kiln_graph_cache_warm(plan);
    assert_false(kiln_graph_cache_should_record(cache, plan));
    has_graphs = true;
    end(cache);
}

static void the_least_recently_used_shape_goes_first(void **state)
{
    (void)state;
    struct kiln_graph_cache *cache = cache_on(0);
    for (int i = 0; i < KILN_GRAPH_CACHE_STEPS; i++)
        record(cache, 64, 32 * (i + 1), 10);
    assert_int_equal(kiln_graph_cache_count(cache), KILN_GRAPH_CACHE_STEPS);
    get(cache, 64, 32); /* the oldest is used again, so the second oldest goes */
    record(cache, 128, 32, 10);
    assert_int_equal(kiln_graph_cache_count(cache), KILN_GRAPH_CACHE_STEPS);
    assert_int_equal(graphs, KILN_GRAPH_CACHE_STEPS);
    assert_int_equal(scopes, KILN_GRAPH_CACHE_STEPS);
    assert_non_null(get(cache, 64, 32)->graph);
    assert_non_null(get(cache, 64, 96)->graph);
    struct kiln_shape_plan *gone = get(cache, 64, 64);
    assert_null(gone->graph);
    assert_null(gone->latent);
    assert_false(gone->warm);
    end(cache);
}

/* Far more layouts of texts than there are places for, in the middle of the work of all steps. */
static void texts_never_push_out_steps(void **state)
{
    (void)state;
    struct kiln_graph_cache *cache = cache_on(0);
    struct kiln_shape_plan *steps[KILN_GRAPH_CACHE_STEPS];
    for (int i = 0; i < KILN_GRAPH_CACHE_STEPS; i++)
        steps[i] = record(cache, 64, 32 * (i + 1), 10);
    for (int i = 1; i <= 5 * KILN_GRAPH_CACHE_TEXTS; i++)
        assert_non_null(record_text(cache, 128 * i, 2)->graph);
    assert_int_equal(kiln_graph_cache_count(cache),
                     KILN_GRAPH_CACHE_STEPS + KILN_GRAPH_CACHE_TEXTS);
    assert_int_equal(scopes, KILN_GRAPH_CACHE_STEPS + KILN_GRAPH_CACHE_TEXTS);
    for (int i = 0; i < KILN_GRAPH_CACHE_STEPS; i++) {
        assert_ptr_equal(get(cache, 64, 32 * (i + 1)), steps[i]);
        assert_non_null(steps[i]->graph);
    }
    end(cache);
}

/* And the other way round; among texts the least recently used one goes first. */
static void steps_never_push_out_texts(void **state)
{
    (void)state;
    struct kiln_graph_cache *cache = cache_on(0);
    for (int i = 1; i <= KILN_GRAPH_CACHE_TEXTS; i++)
        record_text(cache, 128 * i, 2);
    for (int i = 0; i < 3 * KILN_GRAPH_CACHE_STEPS; i++)
        record(cache, 64, 32 * (i + 1), 10);
    assert_int_equal(kiln_graph_cache_count(cache),
                     KILN_GRAPH_CACHE_STEPS + KILN_GRAPH_CACHE_TEXTS);
    const struct kiln_shape first = {.text_blocks = {128}, .text_segments = 2},
                            second = {.text_blocks = {256}, .text_segments = 2};
    assert_non_null(kiln_graph_cache_get(cache, &first)->graph);
    record_text(cache, 128, 4);
    assert_non_null(kiln_graph_cache_get(cache, &first)->graph);
    assert_null(kiln_graph_cache_get(cache, &second)->graph);
    end(cache);
}

static void at_the_bound_in_bytes_all_graphs_go_and_buffers_stay(void **state)
{
    (void)state;
    struct kiln_graph_cache *cache = cache_on(0);
    struct kiln_shape_plan *small = record(cache, 64, 32, KILN_GRAPH_CACHE_BYTES / 2);
    small->latent = (kt)(void *)small; /* any handle */
    struct kiln_shape_plan *large = record(cache, 128, 32, KILN_GRAPH_CACHE_BYTES / 2 + 1);
    assert_null(large->graph);
    assert_int_equal(graphs, 0);
    assert_int_equal(trims, 1);
    assert_ptr_equal(get(cache, 64, 32), small);
    assert_non_null(small->latent);
    /* Both fit alone, and are recorded again when they are needed. */
    assert_non_null(record(cache, 128, 32, KILN_GRAPH_CACHE_BYTES / 2 + 1)->graph);
    end(cache);
}

static void memory_of_dropped_graphs_counts_until_none_is_left(void **state)
{
    (void)state;
    struct kiln_graph_cache *cache = cache_on(0);
    record(cache, 64, 32, KILN_GRAPH_CACHE_BYTES);
    for (int i = 1; i < KILN_GRAPH_CACHE_STEPS + 1; i++)
        record(cache, 64, 32 * (i + 1), 0); /* the last one drops the first */
    assert_int_equal(kiln_graph_cache_count(cache), KILN_GRAPH_CACHE_STEPS);
    record(cache, 128, 32, 1);
    assert_int_equal(kiln_graph_cache_count(cache), 0);
    assert_non_null(record(cache, 128, 32, 1)->graph);
    end(cache);
}

static void a_graph_beyond_the_bound_is_not_tried_again(void **state)
{
    (void)state;
    struct kiln_graph_cache *cache = cache_on(0);
    assert_null(record(cache, 256, 32, KILN_GRAPH_CACHE_BYTES + 1)->graph);
    assert_null(record(cache, 256, 64, 10)->graph);
    assert_null(record(cache, 512, 32, 10)->graph);
    assert_non_null(record(cache, 128, 32, 10)->graph);
    const struct kiln_shape refused = shape_of(128, 32);
    kiln_graph_cache_refuse(cache, &refused);
    assert_null(record(cache, 128, 96, 10)->graph);
    assert_non_null(record(cache, 64, 32, 10)->graph);
    end(cache);
}

static void moved_weights_leave_the_buffers(void **state)
{
    (void)state;
    struct kiln_graph_cache *cache = cache_on(0);
    struct kiln_shape_plan *plan = record(cache, 64, 32, 10);
    plan->latent = (kt)(void *)plan;
    record(cache, 128, 32, 10);
    kiln_graph_cache_drop_graphs(cache);
    assert_int_equal(graphs, 0);
    assert_int_equal(scopes, 2);
    assert_non_null(plan->latent);
    assert_true(kiln_graph_cache_should_record(cache, plan));
    kiln_graph_cache_clear(cache);
    assert_int_equal(scopes, 0);
    assert_null(get(cache, 64, 32)->latent);
    end(cache);
    kiln_graph_cache_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shape_finds_its_plan_again),
        cmocka_unit_test(the_first_step_is_not_recorded),
        cmocka_unit_test(what_cannot_be_recorded_is_not_tried_again),
        cmocka_unit_test(texts_have_shapes_too),
        cmocka_unit_test(a_plan_without_its_buffers_is_dropped),
        cmocka_unit_test(a_thread_records_what_it_has_computed_itself),
        cmocka_unit_test(a_device_without_graphs_records_none),
        cmocka_unit_test(the_least_recently_used_shape_goes_first),
        cmocka_unit_test(texts_never_push_out_steps),
        cmocka_unit_test(steps_never_push_out_texts),
        cmocka_unit_test(at_the_bound_in_bytes_all_graphs_go_and_buffers_stay),
        cmocka_unit_test(memory_of_dropped_graphs_counts_until_none_is_left),
        cmocka_unit_test(a_graph_beyond_the_bound_is_not_tried_again),
        cmocka_unit_test(moved_weights_leave_the_buffers),
    };
    return cmocka_run_group_tests_name("graph_cache", tests, NULL, NULL);
}
