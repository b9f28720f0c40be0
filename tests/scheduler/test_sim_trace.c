/* test_sim_trace.c - traces read from CSV: what is taken, what is refused, and where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/sim/trace.h"

static struct kiln_error err;

/* Reads lines that end with NULL; the first code that is not 0, or that of the end. */
static int read_lines(const char *const *lines, struct kiln_trace **ret)
{
    *ret = kiln_trace_new("t.csv");
    assert_non_null(*ret);
    for (uint64_t i = 0; lines[i]; i++) {
        int rc = kiln_trace_line(*ret, i + 1, lines[i], strlen(lines[i]), &err);
        if (rc)
            return rc;
    }
    return kiln_trace_end(*ret, &err);
}

#define READ(...) read_lines((const char *const[]){__VA_ARGS__, NULL}, &trace)

static void all_columns(void **state)
{
    struct kiln_trace *trace;
    (void)state;
    int rc = READ("arrival_s,tenant,width,height,steps,loras,priority,max_wait_s,service_s",
                  "10.5,anna,512,768,4,ink+glow,-10,30,0.25", "10,ben,1024,1024,8,,5,,1.5");
    assert_int_equal(rc, 0);
    assert_int_equal(trace->count, 2);
    const struct kiln_trace_job *first = &trace->jobs[0], *second = &trace->jobs[1];
    assert_int_equal(first->line, 3); /* by arrival; the first one is time 0 */
    assert_int_equal(first->arrival_ns, 0);
    assert_int_equal(second->arrival_ns, 500000000);
    assert_int_equal(second->service_ns, 250000000);
    assert_int_equal(second->max_wait_ns, 30 * INT64_C(1000000000));
    assert_int_equal(first->max_wait_ns, 0);
    assert_int_equal(second->priority, -10);
    assert_string_equal(kiln_intern_text(&trace->tenants, second->tenant), "anna");
    assert_string_equal(kiln_intern_text(&trace->sets, second->set), "glow+ink");
    assert_string_equal(kiln_intern_text(&trace->sets, first->set), "");
    struct kiln_trace_shape shape = kiln_trace_shape(trace, second->shape);
    assert_int_equal(shape.width, 512);
    assert_int_equal(shape.height, 768);
    assert_int_equal(shape.steps, 4);
    assert_string_equal(kiln_trace_mode(trace, second->shape), "");
    kiln_trace_free(trace);
}

/* Jobs of another mode are of another shape, with costs of its own. */
static void a_mode_is_part_of_the_shape(void **state)
{
    struct kiln_trace *trace;
    (void)state;
    assert_int_equal(READ("mode", "coarse=4+3", "exact", "", "\"\"", "coarse=4+3", "start=3"), 0);
    assert_int_equal(trace->shapes.count, 3);
    assert_int_equal(trace->jobs[0].shape, trace->jobs[3].shape);
    assert_string_equal(kiln_trace_mode(trace, trace->jobs[0].shape), "coarse=4+3");
    assert_string_equal(kiln_trace_mode(trace, trace->jobs[1].shape), "");
    assert_string_equal(kiln_trace_mode(trace, trace->jobs[4].shape), "start=3");
    kiln_trace_free(trace);
}

static void missing_columns_take_defaults(void **state)
{
    struct kiln_trace *trace;
    (void)state;
    assert_int_equal(READ("loras", "a", "", "\"b\""), 0); /* the empty line is no job */
    assert_int_equal(trace->count, 2);
    const struct kiln_trace_job *job = &trace->jobs[1];
    assert_string_equal(kiln_intern_text(&trace->tenants, job->tenant), "default");
    assert_string_equal(kiln_intern_text(&trace->sets, job->set), "b");
    struct kiln_trace_shape shape = kiln_trace_shape(trace, job->shape);
    assert_int_equal(shape.width, 1024);
    assert_int_equal(shape.height, 1024);
    assert_int_equal(shape.steps, 8);
    assert_int_equal(job->service_ns, 0);
    assert_int_equal(job->arrival_ns, 0);
    kiln_trace_free(trace);
}

static void cells_may_have_blanks_and_quotes(void **state)
{
    struct kiln_trace *trace;
    (void)state;
    assert_int_equal(READ(" tenant , \"steps\"", "\t\"anna\" ,  12 "), 0);
    assert_string_equal(kiln_intern_text(&trace->tenants, trace->jobs[0].tenant), "anna");
    assert_int_equal(kiln_trace_shape(trace, trace->jobs[0].shape).steps, 12);
    kiln_trace_free(trace);
}

static void sets_are_sets(void **state)
{
    struct kiln_trace *trace;
    (void)state;
    assert_int_equal(
        READ("loras,steps", "b+a,8", "a+b,8", "a,8", "ab,8", "a+b.2,8", "none,8", ",8"), 0);
    assert_int_equal(trace->jobs[0].set, trace->jobs[1].set);
    assert_int_equal(trace->jobs[5].set, trace->jobs[6].set);
    assert_int_equal(trace->sets.count, 5);
    kiln_trace_free(trace);
}

static void equal_arrivals_keep_the_order_of_the_file(void **state)
{
    struct kiln_trace *trace;
    (void)state;
    assert_int_equal(READ("arrival_s,steps", "7,1", "5,2", "7,3", "5,4"), 0);
    uint32_t lines[4];
    for (int i = 0; i < 4; i++)
        lines[i] = trace->jobs[i].line;
    assert_memory_equal(lines, ((uint32_t[]){3, 5, 2, 4}), sizeof lines);
    kiln_trace_free(trace);
}

static void what_is_wrong_is_told_with_its_place(void **state)
{
    static const struct {
        const char *header, *record, *says;
    } cases[] = {
        {"width", "10x", "t.csv:2:1: width: \"10x\" is not a number from 1 to 16384"},
        {"width", "0", "t.csv:2:1: width: \"0\""},
        {"width", "1.5", "is not a whole number"},
        {"width,height", "64,99999", "t.csv:2:4: height: \"99999\""},
        {"steps", "-8", "t.csv:2:1: steps"},
        {"steps", "0x10", "t.csv:2:1: steps"},
        {"arrival_s", "nan", "t.csv:2:1: arrival_s: \"nan\""},
        {"arrival_s", "-1", "t.csv:2:1: arrival_s: \"-1\""},
        {"arrival_s", "1e99", "t.csv:2:1: arrival_s"},
        {"arrival_s,service_s", "1, 0", "t.csv:2:4: service_s: \"0\""},
        {"service_s", "inf", "t.csv:2:1: service_s"},
        {"mode", "coarse", "t.csv:2:1: mode: \"coarse\" is not a mode"},
        {"mode", "coarse=4+3@0.75", "is not a mode"},
        {"mode", "a-text-that-is-much-longer-than-any-mode-could-be", "is not a mode"},
        {"priority", "11", "t.csv:2:1: priority: \"11\" is not a number from -10 to 10"},
        {"max_wait_s", "soon", "t.csv:2:1: max_wait_s: \"soon\""},
        {"tenant", "an na", "t.csv:2:1: tenant: \"an na\" is not a name"},
        {"loras", "a++b", "t.csv:2:1: loras: \"a++b\" is not a list of names"},
        {"loras", "a+a", "names a LoRA twice"},
        {"loras", "a\"b", "has a quote out of place"},
        {"loras", "\"ab", "has a quote out of place"},
        {"loras,steps", "a", "t.csv:2:1: the record has 1 cell, the header 2"},
        {"loras", "a,8", "t.csv:2:3: the record has 2 cells, the header 1"},
        {"lora", "a", "t.csv:1:1: \"lora\" is not a column of a trace; did you mean loras?"},
        {"steps,steps", "8,8", "t.csv:1:7: \"steps\" is a column that was named before"},
        {"steps", "", "t.csv holds no jobs"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kiln_trace *trace;
        int rc = READ(cases[i].header, cases[i].record);
        kiln_trace_free(trace);
        if (rc != KILN_BAD_INPUT || !strstr(err.text, cases[i].says))
            fail_msg("\"%s\" under %s: %d %s", cases[i].record, cases[i].header, rc, err.text);
    }
}

static void a_long_set_is_refused(void **state)
{
    char cell[2048] = "a0";
    struct kiln_trace *trace;
    (void)state;
    for (int i = 1; i < 10; i++)
        snprintf(cell + strlen(cell), sizeof cell - strlen(cell), "+%064d", i);
    assert_int_equal(READ("loras", cell), KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "too long"));
    kiln_trace_free(trace);
}

static void many_names_get_numbers_in_order(void **state)
{
    struct kiln_intern table = {0};
    char text[16];
    (void)state;
    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 5000; i++) {
            int len = snprintf(text, sizeof text, "n%u", i);
            assert_int_equal(kiln_intern(&table, text, (size_t)len), i);
        }
    assert_int_equal(table.count, 5000);
    assert_string_equal(kiln_intern_text(&table, 4321), "n4321");
    assert_int_equal(kiln_intern(&table, "", 0), 5000);
    assert_string_equal(kiln_intern_text(&table, 5000), "");
    kiln_intern_release(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_columns),
        cmocka_unit_test(missing_columns_take_defaults),
        cmocka_unit_test(cells_may_have_blanks_and_quotes),
        cmocka_unit_test(a_mode_is_part_of_the_shape),
        cmocka_unit_test(sets_are_sets),
        cmocka_unit_test(equal_arrivals_keep_the_order_of_the_file),
        cmocka_unit_test(what_is_wrong_is_told_with_its_place),
        cmocka_unit_test(a_long_set_is_refused),
        cmocka_unit_test(many_names_get_numbers_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
