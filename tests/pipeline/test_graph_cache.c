/* test_graph_cache.c - which shapes keep their buffers and graphs, with doubles of the few
 * functions of pipeline/torch that the cache calls: graphs here are figures of bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pipeline/graph_cache.h"

/* --- doubles ---------------------------------------------------------------------------------- */

struct kt_scope {
    int device;
};
struct kt_graph {
    size_t bytes;
};

static int scopes, graphs, trims;
static bool has_graphs = true;

struct kt_scope *kt_scope_new(int device)
{
    struct kt_scope *s = malloc(sizeof *s);
    *s = (struct kt_scope){device};
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

static struct kt_graph *graph_of(size_t bytes)
{
    struct kt_graph *g = malloc(sizeof *g);
    *g = (struct kt_graph){bytes};
    graphs++;
    return g;
}

/* --- helpers ---------------------------------------------------------------------------------- */

static struct kiln_shape shape_of(int64_t side, int64_t caption_rows)
{
    return (struct kiln_shape){.height = side, .width = side, .caption_rows = caption_rows};
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

/* A plan that has run and was recorded. */
static struct kiln_shape_plan *record(struct kiln_graph_cache *cache, int64_t side, int64_t rows,
                                      size_t bytes)
{
    struct kiln_shape_plan *plan = get(cache, side, rows);
    kiln_graph_cache_warm(plan);
    if (kiln_graph_cache_wants(cache, plan))
        kiln_graph_cache_put(cache, plan, graph_of(bytes));
    return plan;
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
    assert_false(kiln_graph_cache_wants(cache, plan));
    kiln_graph_cache_warm(plan);
    assert_true(kiln_graph_cache_wants(cache, plan));
    kiln_graph_cache_put(cache, plan, graph_of(1000));
    assert_non_null(plan->graph);
    assert_false(kiln_graph_cache_wants(cache, plan));
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
    assert_false(kiln_graph_cache_wants(cache, plan));
    kiln_graph_cache_warm(plan);
    assert_true(kiln_graph_cache_wants(cache, plan));
    end(cache);
}

static void a_device_without_graphs_records_none(void **state)
{
    (void)state;
    struct kiln_graph_cache *cache = cache_on(-1);
    struct kiln_shape_plan *plan = get(cache, 64, 32);
    kiln_graph_cache_warm(plan);
    assert_false(kiln_graph_cache_wants(cache, plan));
    end(cache);
    cache = cache_on(0);
    has_graphs = false;
    plan = get(cache, 64, 32);
    kiln_graph_cache_warm(plan);
    assert_false(kiln_graph_cache_wants(cache, plan));
    has_graphs = true;
    end(cache);
}

static void the_least_recently_used_shape_goes_first(void **state)
{
    (void)state;
    struct kiln_graph_cache *cache = cache_on(0);
    for (int i = 0; i < KILN_GRAPH_CACHE_SHAPES; i++)
        record(cache, 64, 32 * (i + 1), 10);
    assert_int_equal(kiln_graph_cache_count(cache), KILN_GRAPH_CACHE_SHAPES);
    get(cache, 64, 32); /* the oldest is used again, so the second oldest goes */
    record(cache, 128, 32, 10);
    assert_int_equal(kiln_graph_cache_count(cache), KILN_GRAPH_CACHE_SHAPES);
    assert_int_equal(graphs, KILN_GRAPH_CACHE_SHAPES);
    assert_int_equal(scopes, KILN_GRAPH_CACHE_SHAPES);
    assert_non_null(get(cache, 64, 32)->graph);
    assert_non_null(get(cache, 64, 96)->graph);
    struct kiln_shape_plan *gone = get(cache, 64, 64);
    assert_null(gone->graph);
    assert_null(gone->latent);
    assert_false(gone->warm);
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
    for (int i = 1; i < KILN_GRAPH_CACHE_SHAPES + 1; i++)
        record(cache, 64, 32 * (i + 1), 0); /* the last one drops the first */
    assert_int_equal(kiln_graph_cache_count(cache), KILN_GRAPH_CACHE_SHAPES);
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
    kiln_graph_cache_stale(cache);
    assert_int_equal(graphs, 0);
    assert_int_equal(scopes, 2);
    assert_non_null(plan->latent);
    assert_true(kiln_graph_cache_wants(cache, plan));
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
        cmocka_unit_test(a_thread_records_what_it_has_computed_itself),
        cmocka_unit_test(a_device_without_graphs_records_none),
        cmocka_unit_test(the_least_recently_used_shape_goes_first),
        cmocka_unit_test(at_the_bound_in_bytes_all_graphs_go_and_buffers_stay),
        cmocka_unit_test(memory_of_dropped_graphs_counts_until_none_is_left),
        cmocka_unit_test(a_graph_beyond_the_bound_is_not_tried_again),
        cmocka_unit_test(moved_weights_leave_the_buffers),
    };
    return cmocka_run_group_tests_name("graph_cache", tests, NULL, NULL);
}
