/* test_queue.c - order, both bounds, closing, and many threads at once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/state/queue.h"

static void *number(size_t n)
{
    return (void *)(uintptr_t)n;
}

static void test_order(void **state)
{
    (void)state;
    struct kiln_queue *queue = kiln_queue_new(4, 100);
    void *items[8];
    size_t count;
    for (size_t i = 1; i <= 3; i++)
        assert_int_equal(kiln_queue_push(queue, number(i), 1, 0), 0);
    assert_int_equal(kiln_queue_pop(queue, items, 2, &count, 0), 0);
    assert_int_equal(count, 2);
    assert_ptr_equal(items[0], number(1));
    assert_ptr_equal(items[1], number(2));
    for (size_t i = 4; i <= 6; i++) /* round the end of the ring */
        assert_int_equal(kiln_queue_push(queue, number(i), 1, 0), 0);
    assert_int_equal(kiln_queue_push(queue, number(7), 1, 10), KILN_TIMEOUT);
    assert_int_equal(kiln_queue_length(queue), 4);
    assert_int_equal(kiln_queue_pop(queue, items, 8, &count, 0), 0);
    assert_int_equal(count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_ptr_equal(items[i], number(3 + i));
    assert_int_equal(kiln_queue_pop(queue, items, 8, &count, 5), KILN_TIMEOUT);
    assert_int_equal(count, 0);
    kiln_queue_free(queue);
}

static void test_weight(void **state)
{
    (void)state;
    struct kiln_queue *queue = kiln_queue_new(10, 100);
    void *item;
    size_t count;
    assert_int_equal(kiln_queue_push(queue, number(1), 60, 0), 0);
    assert_int_equal(kiln_queue_push(queue, number(2), 41, 0), KILN_TIMEOUT);
    assert_int_equal(kiln_queue_push(queue, number(2), 40, 0), 0);
    assert_int_equal(kiln_queue_push(queue, number(3), SIZE_MAX, 0), KILN_TIMEOUT);
    assert_int_equal(kiln_queue_pop(queue, &item, 1, &count, 0), 0);
    assert_int_equal(kiln_queue_pop(queue, &item, 1, &count, 0), 0);
    /* Heavier than the bound: only into an empty queue, or it could never pass. */
    assert_int_equal(kiln_queue_push(queue, number(3), 1000, 0), 0);
    assert_int_equal(kiln_queue_push(queue, number(4), 1, 0), KILN_TIMEOUT);
    assert_int_equal(kiln_queue_pop(queue, &item, 1, &count, 0), 0);
    assert_ptr_equal(item, number(3));
    kiln_queue_free(queue);
}

static void test_close(void **state)
{
    (void)state;
    struct kiln_queue *queue = kiln_queue_new(4, 100);
    void *item;
    size_t count;
    assert_int_equal(kiln_queue_push(queue, number(1), 1, 0), 0);
    kiln_queue_close(queue);
    kiln_queue_close(queue);
    assert_int_equal(kiln_queue_push(queue, number(2), 1, 1000), KILN_CANCELLED);
    assert_int_equal(kiln_queue_pop(queue, &item, 1, &count, 1000), 0);
    assert_ptr_equal(item, number(1));
    assert_int_equal(kiln_queue_pop(queue, &item, 1, &count, 60000), KILN_CANCELLED);
    kiln_queue_free(queue);
}

/* --- threads ------------------------------------------------------------------------------- */
#define EACH 20000
#define SIDES 3

struct race {
    struct kiln_queue *queue;
    uint64_t sum;
};

static void *produce(void *arg)
{
    struct race *race = arg;
    for (size_t i = 1; i <= EACH; i++)
        while (kiln_queue_push(race->queue, number(i), i % 7, 50) != 0)
            continue;
    return NULL;
}

static void *consume(void *arg)
{
    struct race *race = arg;
    void *items[5];
    size_t count;
    int code;
    while ((code = kiln_queue_pop(race->queue, items, 5, &count, 50)) != KILN_CANCELLED)
        for (size_t i = 0; i < count; i++)
            __atomic_fetch_add(&race->sum, (uintptr_t)items[i], __ATOMIC_RELAXED);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct race race = {kiln_queue_new(8, 20), 0};
    pthread_t producers[SIDES], consumers[SIDES];
    for (int i = 0; i < SIDES; i++) {
        pthread_create(&consumers[i], NULL, consume, &race);
        pthread_create(&producers[i], NULL, produce, &race);
    }
    for (int i = 0; i < SIDES; i++)
        pthread_join(producers[i], NULL);
    kiln_queue_close(race.queue);
    for (int i = 0; i < SIDES; i++)
        pthread_join(consumers[i], NULL);
    assert_int_equal(race.sum, (uint64_t)SIDES * EACH * (EACH + 1) / 2);
    assert_int_equal(kiln_queue_length(race.queue), 0);
    kiln_queue_free(race.queue);
}

static void test_front(void **state)
{
    (void)state;
    struct kiln_queue *queue = kiln_queue_new(2, 2);
    int items[2];
    void *item;
    size_t count;
    assert_null(kiln_queue_front(queue));
    for (int i = 0; i < 2; i++)
        assert_int_equal(kiln_queue_push(queue, &items[i], 1, 0), 0);
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(kiln_queue_front(queue), &items[i]);
        assert_int_equal(kiln_queue_length(queue), 2 - i);
        assert_int_equal(kiln_queue_pop(queue, &item, 1, &count, 0), 0);
        assert_ptr_equal(item, &items[i]);
    }
    assert_null(kiln_queue_front(queue));
    kiln_queue_free(queue);
}

static void *close_soon(void *arg)
{
    kiln_queue_close(arg);
    return NULL;
}

static void test_close_wakes(void **state)
{
    (void)state;
    struct kiln_queue *queue = kiln_queue_new(1, 1);
    pthread_t closer;
    void *item;
    size_t count;
    pthread_create(&closer, NULL, close_soon, queue);
    assert_int_equal(kiln_queue_pop(queue, &item, 1, &count, 60000), KILN_CANCELLED);
    pthread_join(closer, NULL);
    kiln_queue_free(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),   cmocka_unit_test(test_front),
        cmocka_unit_test(test_weight),  cmocka_unit_test(test_close),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_close_wakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
