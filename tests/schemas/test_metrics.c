/* test_metrics.c - counting from many threads, and the text that Prometheus reads.
 *
 * The pages of the running daemons are held to a strict reader by tests/cli/test_metrics.sh.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/error.h"
#include "schemas/job/mode.h"
#include "schemas/reuse/class.h"
#include "schemas/telemetry/metrics_table.h"

#define THREADS 4
#define TURNS 20000

static void *count(void *arg)
{
    for (int i = 0; i < TURNS; i++) {
        kiln_metric_add(KILN_METRIC_BATCHES, 0, 2);
        kiln_metric_observe(KILN_METRIC_STAGE_SECONDS, KILN_STAGE_DECODE, 0.25);
    }
    return arg;
}

/* The page of the worker; freed by the caller. */
static char *worker_page(void)
{
    struct kiln_text text = {0};
    kiln_metrics_write(&text, KILN_METRIC_OF_WORKER);
    return kiln_text_take(&text);
}

static void expect(const char *page, const char *line)
{
    if (!strstr(page, line))
        fail_msg("the page has no '%s'", line);
}

static void nothing_is_lost_between_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(kiln_metric_count(KILN_METRIC_BATCHES, 0), 2 * THREADS * TURNS);
    assert_int_equal(kiln_metric_count(KILN_METRIC_STAGE_SECONDS, KILN_STAGE_DECODE),
                     THREADS * TURNS);
    char *page = worker_page(), sum[96];
    snprintf(sum, sizeof sum, "\nkiln_stage_seconds_sum{stage=\"decode\"} %d\n",
             THREADS * TURNS / 4);
    expect(page, sum);
    free(page);
}

/* A value on a bound belongs below it: that is what "le" means. */
static void a_value_falls_into_its_bucket(void **state)
{
    (void)state;
    const double values[] = {0.0005, 0.00050001, 30, 31, -1, NAN, INFINITY};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        kiln_metric_observe(KILN_METRIC_STORE_SECONDS, KILN_STORE_GET, values[i]);
    char *page = worker_page();
    const char *lines[] = {
        "kiln_store_request_seconds_bucket{le=\"0.0005\",operation=\"get\"} 2\n",
        "kiln_store_request_seconds_bucket{le=\"0.001\",operation=\"get\"} 3\n",
        "kiln_store_request_seconds_bucket{le=\"10\",operation=\"get\"} 3\n",
        "kiln_store_request_seconds_bucket{le=\"30\",operation=\"get\"} 4\n",
        "kiln_store_request_seconds_bucket{le=\"+Inf\",operation=\"get\"} 5\n",
        "kiln_store_request_seconds_count{operation=\"get\"} 5\n",
        "kiln_store_request_seconds_count{operation=\"head\"} 0\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        expect(page, lines[i]);
    free(page);
}

static void what_is_out_of_range_counts_nowhere(void **state)
{
    (void)state;
    kiln_metric_add(KILN_METRIC_RETRIES, KILN_CODE_COUNT, 1);
    kiln_metric_observe(KILN_METRIC_STAGE_SECONDS, KILN_STAGE_COMMIT + 1, 1);
    kiln_metric_observe(KILN_METRIC_RETRIES, KILN_IO, 1); /* no histogram */
    for (uint32_t code = 0; code <= KILN_CODE_COUNT; code++)
        assert_int_equal(kiln_metric_count(KILN_METRIC_RETRIES, code), 0);
}

/* Each program has its own metrics and those of both. */
static void a_page_has_what_its_program_counts(void **state)
{
    (void)state;
    struct kiln_text text = {0};
    kiln_metrics_write(&text, KILN_METRIC_OF_SCHEDULER);
    char *scheduler = kiln_text_take(&text), *worker = worker_page();
    expect(scheduler, "# TYPE kiln_assignments_total counter\n");
    expect(scheduler, "kiln_log_lines_total{level=\"error\"} 0\n");
    expect(worker, "kiln_log_lines_total{level=\"error\"} 0\n");
    expect(worker, "kiln_job_retries_total{code=\"poisoned\"} 0\n");
    assert_null(strstr(worker, "kiln_assignments_total"));
    assert_null(strstr(scheduler, "kiln_stage_seconds"));
    assert_null(strstr(worker, "code=\"ok\""));
    free(scheduler);
    free(worker);
}

/* Names come from people: nothing in a label may end it, or its line. */
static void labels_are_escaped(void **state)
{
    (void)state;
    const char *labels[] = {"loras", "a\"b\\c\nd", "size", "", NULL};
    struct kiln_text text = {0};
    kiln_metric_sample(&text, "kiln_x", labels, 1.5);
    kiln_metric_sample(&text, "kiln_y", NULL, INFINITY);
    char *lines = kiln_text_take(&text);
    assert_string_equal(lines, "kiln_x{loras=\"a\\\"b\\\\c\\nd\",size=\"\"} 1.5\nkiln_y +Inf\n");
    free(lines);
    text = (struct kiln_text){0};
    kiln_metrics_pool("night \"1\"");
    kiln_metric_sample(&text, "kiln_x", labels, 1.5);
    kiln_metric_sample(&text, "kiln_y", NULL, 2);
    kiln_metrics_pool("");
    lines = kiln_text_take(&text);
    assert_string_equal(lines,
                        "kiln_x{loras=\"a\\\"b\\\\c\\nd\",size=\"\",pool=\"night \\\"1\\\"\"} 1.5\n"
                        "kiln_y{pool=\"night \\\"1\\\"\"} 2\n");
    free(lines);
}

static void hits_are_counted_under_the_names_of_their_classes(void **state)
{
    (void)state;
    assert_int_equal(kiln_metric_labels(KILN_METRIC_DONOR_STEPS), KILN_REUSE_CLASS_COUNT - 1);
    assert_int_equal(kiln_metric_labels(KILN_METRIC_DONOR_VARIETY), KILN_REUSE_CLASS_COUNT - 1);
    for (int i = 1; i < KILN_REUSE_CLASS_COUNT; i++) {
        const char *name = kiln_reuse_class_name((enum kiln_reuse_class)i);
        assert_string_equal(kiln_metric_label(KILN_METRIC_DONOR_STEPS, (uint32_t)i - 1), name);
        assert_string_equal(kiln_metric_label(KILN_METRIC_DONOR_VARIETY, (uint32_t)i - 1), name);
    }
}

static void what_a_run_saved_reads_as_people_say_it(void **state)
{
    (void)state;
    char text[KILN_MODE_SAVING_MAX];
    assert_string_equal(kiln_mode_saving("teleport=6", 0.5, 8, 2, text, sizeof text),
                        "at sigma 0.5, saved 6 of 8 steps");
    assert_string_equal(kiln_mode_saving("teleport=6", 0.9545, 3.98, 2, text, sizeof text),
                        "at sigma 0.9545, saved 1.98 of 3.98 steps");
    assert_string_equal(kiln_mode_saving("teleport=6", 0, 8, 2, text, sizeof text),
                        "saved 6 of 8 steps");
    assert_string_equal(
        kiln_mode_saving("coarse=50+50,teleport=49", 0.9545, 62.5, 50.25, text, sizeof text),
        "at sigma 0.9545, saved 49 of 50 small steps (12.2 of 62.5 full ones)");
    assert_string_equal(kiln_mode_saving("coarse=4+2,teleport=1", 0, 3, 2.75, text, sizeof text),
                        "saved 1 of 4 small steps (0.25 of 3 full ones)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_between_threads),
        cmocka_unit_test(a_value_falls_into_its_bucket),
        cmocka_unit_test(what_is_out_of_range_counts_nowhere),
        cmocka_unit_test(a_page_has_what_its_program_counts),
        cmocka_unit_test(labels_are_escaped),
        cmocka_unit_test(hits_are_counted_under_the_names_of_their_classes),
        cmocka_unit_test(what_a_run_saved_reads_as_people_say_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
